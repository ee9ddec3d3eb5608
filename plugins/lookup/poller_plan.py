# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: poller_plan
short_description: "Internal: check the options of the polling unit, and pack its program and its hooks"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Does one step of the role P(maintops.scheduled_events.poller#role) on the control node. The role uses this lookup.
    Use the role instead.
  - Reads the variables of the role, and writes files into the temporary directory of this run of Ansible. It writes the
    hooks again each time that it runs, so store its result in a fact.
  - The result can contain secrets, so use C(no_log). A wrong option is in C(problem), since C(no_log) hides the message
    of a task that fails.
options:
  _terms:
    description: Directory of the role.
    required: true
  python:
    description: Python interpreter of the polling unit on the host.
    type: str
    required: true
  python_version:
    description: Version of this interpreter, such as V(3.11).
    type: str
    required: true
requirements:
  - python >= 3.10 (on the control node)
"""

EXAMPLES = r"""
- name: Check the options
  ansible.builtin.set_fact:
    plan: >-
      {{ lookup('maintops.scheduled_events.poller_plan', role_path, python='/usr/bin/python3', python_version='3.11') }}
  no_log: true
"""

RETURN = r"""
_raw:
  description:
    - One dictionary. C(problem) is the first wrong option, and the action to take. It is empty if all are valid.
    - If all options are valid, C(config), C(controller) and C(webhooks) are the contents of the files of settings.
      C(hooks) are all hooks that the role installs, such as C(prepare.d/10-drain). C(release) and C(archive) are the
      name and the path of the program, C(hook_set) and C(hooks_directory) those of the hooks.
  type: list
  elements: dict
"""

import json
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.lookup import LookupBase

from ..module_utils._scheduled_events.checks import WrongValue
from ..plugin_utils._ansible.core import misspelled, options_of, refuse_variables_of_host
from ..plugin_utils._poller import bundle
from ..plugin_utils._poller.options import plan


class LookupModule(LookupBase):
    """Check the options of the role poller, and write what it copies to the host into a temporary directory."""

    def run(self, terms: list[str], variables: dict[str, t.Any], **options: t.Any) -> list[dict[str, t.Any]]:
        self.set_options(var_options=variables, direct=options)
        role, python = Path(terms[0]), str(self.get_option("python"))
        specs = options_of("poller")
        values = self._templar.template({name: variables[name] for name in specs if name in variables})

        def check_settings(settings: dict[str, t.Any]) -> str:
            command = [sys.executable, "-IBS", str(role / "files" / "scheduled-events"), "config", "check", "-"]
            done = subprocess.run(command, input=json.dumps(settings).encode(), capture_output=True, check=False)
            return done.stderr.decode(errors="replace").partition(": ")[2].strip() if done.returncode else ""

        def read_source(name: str) -> bytes:
            return self._read_source(variables["ansible_search_path"], name)

        try:
            refuse_variables_of_host(variables)
            problem = misspelled(variables, specs, "poller")
            if problem:
                raise WrongValue(problem)
            planned = plan(specs, values, python=python, read_source=read_source, check_settings=check_settings)
        except (AnsibleActionFail, WrongValue) as error:
            return [{"problem": str(error).encode("ascii", "backslashreplace").decode()}]
        local = Path(constants.DEFAULT_LOCAL_TMP)
        release, archive = bundle.write_program(local, role, python, self.get_option("python_version"))
        hook_set, hooks = bundle.write_hooks(local, planned.hooks)
        return [
            {
                **planned._asdict(),
                "hooks": sorted(f"{phase}.d/{name}" for phase, found in planned.hooks.items() for name in found),
                "problem": "",
                "release": release,
                "archive": str(archive),
                "hook_set": hook_set,
                "hooks_directory": str(hooks),
            }
        ]

    def _read_source(self, places: list[str], name: str) -> bytes:
        """The content of a file that the role's user names as for ansible.builtin.copy, also if it is in a vault."""
        try:
            path = self._loader.get_real_file(self._loader.path_dwim_relative_stack(places, "files", name))
        except AnsibleError as error:
            raise OSError(str(error)) from error
        try:
            return Path(path).read_bytes()
        finally:
            self._loader.cleanup_tmp_file(path)
