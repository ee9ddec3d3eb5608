# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.setup in Python: the fact that the collection uses (setup.ps1, 3.8.0).

A reboot is pending while there is the file reboot-pending on the drive of the host.
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import exists


def main():
    module = AnsibleModule({"gather_subset": {"type": "list", "elements": "str"}}, supports_check_mode=True)
    asked = "platform" in module.params["gather_subset"]
    facts = {"ansible_reboot_pending": exists("C:\\reboot-pending")} if asked else {}
    module.exit_json(changed=False, ansible_facts=facts)


if __name__ == "__main__":
    main()
