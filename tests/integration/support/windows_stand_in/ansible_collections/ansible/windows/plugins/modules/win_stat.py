# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_stat in Python: whether there is a file or directory (win_stat.ps1, 3.8.0)."""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def main():
    module = AnsibleModule(
        {"path": {"type": "str", "required": True}, "get_checksum": {"type": "bool", "default": True}},
        supports_check_mode=True,
    )
    path = local(module.params["path"])
    module.exit_json(changed=False, stat={"exists": os.path.exists(path), "isdir": os.path.isdir(path)})


if __name__ == "__main__":
    main()
