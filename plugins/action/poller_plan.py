# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils.common.yaml import yaml_load
from ansible.plugins.action import ActionBase
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._poller import bundle
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._poller.options import WrongOption, plan


class ActionModule(ActionBase):
    """Check the options of the role poller, and write what it copies to the host into a temporary directory."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        _validation, given = self.validate_argument_spec(
            argument_spec={
                "role": {"type": "path", "required": True},
                "python": {"type": "str", "required": True},
                "python_version": {"type": "str", "required": True},
            }
        )
        role, variables = Path(given["role"]), task_vars or {}
        specs = yaml_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
        values = self._templar.template({name: variables[name] for name in specs if name in variables})

        def check_settings(settings: dict[str, t.Any]) -> str:
            command = [sys.executable, "-IBS", str(role / "files" / "scheduled-events"), "config", "check", "-"]
            done = subprocess.run(command, input=json.dumps(settings).encode(), capture_output=True, check=False)
            return done.stderr.decode(errors="replace").partition(": ")[2].strip() if done.returncode else ""

        try:
            planned = plan(
                specs, values, python=given["python"], read_source=self._read_source, check_settings=check_settings
            )
        except WrongOption as error:
            return {**result, "problem": str(error).encode("ascii", "backslashreplace").decode()}
        local = Path(constants.DEFAULT_LOCAL_TMP)
        release, archive = bundle.write_program(local, role, given["python"], given["python_version"])
        hook_set, hooks = bundle.write_hooks(local, planned.hooks)
        return {
            **result,
            **planned._asdict(),
            "hooks": sorted(f"{phase}.d/{name}" for phase, found in planned.hooks.items() for name in found),
            "problem": "",
            "release": release,
            "archive": str(archive),
            "hook_set": hook_set,
            "hooks_directory": str(hooks),
        }

    def _read_source(self, name: str) -> bytes:
        """The content of a file that the role's user names as for ansible.builtin.copy, also if it is in a vault."""
        try:
            path = self._loader.get_real_file(self._find_needle("files", name))
        except AnsibleError as error:
            raise OSError(str(error)) from error
        try:
            return Path(path).read_bytes()
        finally:
            self._loader.cleanup_tmp_file(path)
