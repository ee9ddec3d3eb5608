# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_find in Python, with the options and results that the collection uses.

From the source of the module (win_find.ps1, 3.8.0): a path that is not there is skipped with a warning; by default
files are returned, sorted by their paths, each with its checksum.
"""

import hashlib
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def main():
    module = AnsibleModule(
        {
            "paths": {"type": "list", "elements": "str", "required": True},
            "checksum_algorithm": {"type": "str", "default": "sha1", "choices": ["sha1", "sha256"]},
        },
        supports_check_mode=True,
    )
    files = []
    for path in module.params["paths"]:
        folder = local(path)
        if not os.path.isdir(folder):
            module.warn(f"Argument path '{path}' does not exist or is not accessible, skipping")
            continue
        for name in sorted(os.listdir(folder)):
            if os.path.isfile(os.path.join(folder, name)):
                with open(os.path.join(folder, name), "rb") as file:
                    checksum = hashlib.new(module.params["checksum_algorithm"], file.read()).hexdigest()
                found = {"filename": name, "path": f"{path}\\{name}", "exists": True, "isdir": False}
                files.append({**found, "isreg": True, "checksum": checksum})
    module.exit_json(changed=False, examined=len(files), matched=len(files), files=files)


if __name__ == "__main__":
    main()
