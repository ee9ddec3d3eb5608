# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_uri in Python, with the options and results that its documentation gives.

It takes the options that the collection uses and no others. It asks for real, and appends its arguments to the file
STAND_IN_LOG, a line of JSON each. The words of its failures are those of .NET in English.
"""

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule

OPTIONS = {
    "url": {"type": "str", "required": True},
    "method": {"type": "str", "default": "GET", "aliases": ["url_method"]},
    "headers": {"type": "dict", "default": {}},
    "body": {"type": "raw"},
    "return_content": {"type": "bool", "default": False},
    "status_code": {"type": "list", "elements": "int", "default": [200]},
    "use_proxy": {"type": "bool", "default": True},
    "follow_redirects": {"type": "str", "choices": ["all", "none", "safe"], "default": "safe"},
    "url_timeout": {"type": "int", "default": 30, "aliases": ["timeout"]},
}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments):
        return None


def send(params):
    handlers = [] if params["use_proxy"] else [urllib.request.ProxyHandler({})]
    if params["follow_redirects"] == "none":
        handlers.append(NoRedirect)
    body = None if params["body"] is None else params["body"].encode()
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(  # noqa: S310 - a URL of a test
        params["url"], data=body, headers=params["headers"], method=params["method"]
    )
    try:
        return opener.open(request, timeout=params["url_timeout"] or None)
    except urllib.error.HTTPError as error:
        return error


def words_of(error):
    cause = getattr(error, "reason", error)
    if isinstance(cause, (socket.timeout, TimeoutError)):
        return "The operation has timed out"
    if isinstance(cause, ConnectionRefusedError):
        return "Unable to connect to the remote server"
    return f"The underlying connection was closed: {cause}"


def main():
    module = AnsibleModule(OPTIONS, supports_check_mode=True)
    params = module.params
    with open(os.environ["STAND_IN_LOG"], "a", encoding="utf-8") as log:
        log.write(json.dumps(params) + "\n")
    if os.environ.get("STAND_IN_BREAKS"):
        module.fail_json(msg=os.environ["STAND_IN_BREAKS"])
    result = {"changed": False, "elapsed": 0.0, "url": params["url"]}
    began = time.monotonic()
    try:
        response = send(params)
        result.update(msg=response.reason, status_code=response.status, status_description=response.reason)
        result.update(content_length=-1, content_encoding="")
        result.update({name.lower().replace("-", "_"): value for name, value in response.headers.items()})
        if params["return_content"]:
            result["content"] = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        result["msg"] = f"Unhandled exception occurred when sending web request. Exception: {words_of(error)}"
        result["failed"] = True
    result["elapsed"] = time.monotonic() - began
    if not result.get("failed") and result["status_code"] not in params["status_code"]:
        result["failed"] = True
        result["msg"] = f"Status code of request '{result['status_code']}' is not in list of valid status codes"
    module.exit_json(**result)


if __name__ == "__main__":
    main()
