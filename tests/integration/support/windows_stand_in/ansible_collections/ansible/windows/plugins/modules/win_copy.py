# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of the module ansible.windows.win_copy in Python, behind the real action plugin of that name.

From the source of the module (win_copy.ps1, 3.8.0): "query" returns the files whose checksums differ from those of the
host; "single" copies the file that the action has sent, into a directory that has to be there, and not as a whole.
"""

import hashlib
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def checksum(path):
    with open(path, "rb") as file:
        return hashlib.sha1(file.read()).hexdigest()  # noqa: S324 - what win_copy compares


def query(params):
    files = []
    for each in params["files"]:
        path = os.path.join(local(params["dest"]), each["dest"])
        if not os.path.isfile(path) or checksum(path) != each["checksum"]:
            files.append(each)
    return {"changed": False, "files": files, "directories": [], "symlinks": []}


def copy(module, params):
    folder, _slash, name = params["dest"].rpartition("\\")
    if not os.path.isdir(local(folder)):
        module.fail_json(msg=f"Destination directory '{folder}' does not exist")
    with open(params["src"], "rb") as source, open(os.path.join(local(folder), name), "wb") as file:
        file.write(source.read())
    return {"changed": True}


def main():
    module = AnsibleModule(
        {
            "_copy_mode": {"type": "str", "choices": ["query", "single"], "required": True},
            "_original_basename": {"type": "str"},
            "dest": {"type": "str", "required": True},
            "src": {"type": "str"},
            "force": {"type": "bool", "default": True},
            "backup": {"type": "bool", "default": False},
            "files": {"type": "list", "elements": "dict", "default": []},
            "directories": {"type": "list", "elements": "dict", "default": []},
            "symlinks": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    params = module.params
    module.exit_json(**(query(params) if params["_copy_mode"] == "query" else copy(module, params)))


if __name__ == "__main__":
    main()
