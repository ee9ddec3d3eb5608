# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.slurp in Python, with its failures (slurp.ps1, 3.8.0)."""

import base64
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def main():
    module = AnsibleModule({"src": {"type": "str", "required": True, "aliases": ["path"]}}, supports_check_mode=True)
    path = module.params["src"]
    if os.path.isdir(local(path)):
        module.fail_json(msg=f"Path {path} is a directory")
    if not os.path.exists(local(path)):
        module.fail_json(msg=f"Path {path} is not found")
    with open(local(path), "rb") as file:
        module.exit_json(changed=False, encoding="base64", content=base64.b64encode(file.read()).decode())


if __name__ == "__main__":
    main()
