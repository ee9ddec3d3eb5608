# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of ansible.windows.win_command in Python, for the one command that the collection runs.

ren of cmd.exe fails if there is no file of the old name, or one of the new name. A command that fails has its code in
rc, and the module fails (win_command.ps1, 3.8.0).
"""

import os
import re

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ansible.windows.plugins.module_utils.drive import local


def main():
    module = AnsibleModule({"_raw_params": {"type": "str"}, "chdir": {"type": "str"}})
    ren = re.fullmatch(r"cmd\.exe /d /c ren ([a-z0-9.-]+) ([a-z0-9.-]+)", module.params["_raw_params"])
    if not ren:
        module.fail_json(msg=f"the stand-in knows no such command: {module.params['_raw_params']}", rc=2)
    old, new = (os.path.join(local(module.params["chdir"]), name) for name in ren.groups())
    result = {"changed": True, "cmd": module.params["_raw_params"], "stdout": "", "stderr": "", "rc": 0}
    try:
        os.link(old, new)
        os.unlink(old)
    except OSError:
        words = "A duplicate file name exists, or the file\r\ncannot be found.\r\n"
        module.fail_json(**{**result, "msg": "non-zero return code", "rc": 1, "stderr": words})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
