# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of azure.azcollection.azure_rm_resource for tests: its documented options and results.

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
    "method": {"type": "str", "default": "PUT", "choices": ["GET", "PUT", "POST", "HEAD", "PATCH", "DELETE", "MERGE"]},
    "body": {"type": "raw"},
    "status_code": {"type": "list", "elements": "int", "default": [200, 201, 202]},
    "auth_source": {"type": "str", "choices": ["auto", "cli", "credential_file", "env", "msi"]},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS)
    params = module.params
    if params["auth_source"] != "msi":
        module.fail_json(msg="the credentials of the test did not arrive")
    url = f"{os.environ['ARM_STAND_IN']}{params['url']}?api-version={params['api_version']}"
    body = None if params["body"] is None else json.dumps(params["body"]).encode()
    request = urllib.request.Request(url, data=body, method=params["method"])  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            status, text = response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    if status not in params["status_code"]:
        raise SendRequestException(text, status)
    module.exit_json(changed=True, response=json.loads(text))


if __name__ == "__main__":
    main()
