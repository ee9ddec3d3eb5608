# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in of the action plugin ansible.windows.win_copy, with the options that the collection uses.

As the real one (plugins/action/win_copy.py, 3.8.0) it runs the module of the same name to compare, sends the file into
the directory for temporary files, runs the module again to copy it from there, and removes that directory.
"""

import ntpath
import os
import tempfile

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.hashing import checksum

MODULE = "ansible.windows.win_copy"


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        content, dest = self._task.args["content"], self._task.args["dest"]
        descriptor, source = tempfile.mkstemp(dir=constants.DEFAULT_LOCAL_TMP)
        try:
            with open(descriptor, "wb") as file:
                file.write(content.encode())
            return {**result, "dest": dest, **self._copy(source, dest, task_vars)}
        finally:
            os.unlink(source)
            self._remove_tmp_path(self._connection._shell.tmpdir)

    def _copy(self, source, dest, task_vars):
        folder, name = ntpath.split(dest)
        file = {"src": source, "dest": name, "checksum": checksum(source)}
        asked = {"_copy_mode": "query", "dest": folder, "force": True, "files": [file]}
        found = self._execute_module(module_name=MODULE, module_args=asked, task_vars=task_vars)
        if found.get("failed") or not found["files"]:
            return found
        if self._connection._shell.tmpdir is None:
            self._connection._shell.tmpdir = self._make_tmp_path()
        sent = self._connection._shell.join_path(self._connection._shell.tmpdir, "source")
        self._transfer_file(source, sent)
        copied = {"_copy_mode": "single", "dest": dest, "src": sent, "_original_basename": name}
        return self._execute_module(module_name=MODULE, module_args=copied, task_vars=task_vars)
