# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of azure.azcollection.azure_rm_accesstoken_info for tests: its documented options and results.

The token is in the environment variable ARM_TOKEN.
"""

import os
import time

from ansible.module_utils.basic import AnsibleModule

OPTIONS = {
    "scopes": {"type": "list", "elements": "str", "required": True},
    "auth_source": {"type": "str", "choices": ["auto", "cli", "credential_file", "env", "msi"]},
    "subscription_id": {"type": "str"},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if module.params["auth_source"] != "msi" and "AZURE_SECRET" not in os.environ:
        module.fail_json(msg="the credentials of the test did not arrive")
    if module.params["scopes"] != ["https://management.azure.com/.default"] or not module.params["subscription_id"]:
        module.fail_json(msg=f"the token is asked for with {module.params}")
    module.exit_json(changed=False, access_token=os.environ["ARM_TOKEN"], expires_on=int(time.time()) + 3600)


if __name__ == "__main__":
    main()
