# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_file in Python, with the options that the collection and its guide use.

From the source of the module (win_file.ps1, 3.8.0): a directory is made with those above it; touch makes an empty file
or sets its times, and fails if its directory is not there; absent removes a file or a whole directory.
"""

import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def main():
    module = AnsibleModule(
        {
            "path": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["absent", "directory", "touch"], "required": True},
        },
        supports_check_mode=True,
    )
    path, state = local(module.params["path"]), module.params["state"]
    changed = state == "touch" or os.path.exists(path) == (state == "absent")
    if module.check_mode or not changed:
        module.exit_json(changed=changed)
    if state == "touch":
        with open(path, "a", encoding="utf-8"):
            os.utime(path)
    elif state == "directory":
        os.makedirs(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
