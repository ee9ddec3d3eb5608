# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_file in Python, with the options that the guide uses."""

import os

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        {
            "path": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["absent", "touch"], "required": True},
        }
    )
    path, touches = module.params["path"], module.params["state"] == "touch"
    changed = touches or os.path.exists(path)
    if touches:
        with open(path, "a", encoding="utf-8"):
            os.utime(path)
    elif changed:
        os.unlink(path)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
