# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of azure.azcollection.azure_rm_resource_info for tests: its documented options and results.

It asks the stand-in of Azure Resource Manager whose address is in the environment variable ARM_STAND_IN.
"""

import json
import os
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule


class SendRequestException(Exception):
    """As in azure.azcollection: an answer that was not expected ends the module with it."""


OPTIONS = {
    "url": {"type": "str"},
    "api_version": {"type": "str"},
    "auth_source": {"type": "str", "choices": ["auto", "cli", "credential_file", "env", "msi"]},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    params = module.params
    if params["auth_source"] != "msi":
        module.fail_json(msg="the credentials of the test did not arrive")
    url = f"{os.environ['ARM_STAND_IN']}{params['url']}?api-version={params['api_version']}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=60) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    if status not in (200, 404):
        raise SendRequestException(text, status)
    module.exit_json(changed=False, response=[json.loads(text)], status_code=status, url=params["url"])


if __name__ == "__main__":
    main()
