# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_wait_for in Python, with the options that the guide uses. No port is in use."""

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        {
            "host": {"type": "str"},
            "port": {"type": "int", "required": True},
            "state": {"type": "str", "choices": ["drained"], "required": True},
            "exclude_hosts": {"type": "list", "elements": "str"},
            "timeout": {"type": "int"},
        }
    )
    module.exit_json(changed=False, elapsed=0, wait_attempts=1)


if __name__ == "__main__":
    main()
