#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: poller_files
short_description: "Internal: check the options and install the files of the polling unit"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Does one step of the role P(maintops.scheduled_events.poller#role) on the host. The role uses this module. Use the
    role instead.
options:
  check:
    description:
      - Check and convert the options of the role. Changes nothing.
      - The options and the result can contain secrets, so use C(no_log). A wrong option is in RV(problem), since
        C(no_log) hides the message of a task that fails.
    type: dict
    suboptions:
      program:
        description: Texts of the program that the role installs, by path. The program checks its own configuration.
        type: dict
        required: true
      options:
        description: Options of the configuration, without the prefix V(poller_).
        type: dict
        required: true
      hooks:
        description: Value of the option C(poller_hooks).
        type: raw
        required: true
      sources:
        description: Contents of the files that the hooks name, in base64, by name.
        type: dict
        default: {}
      webhooks:
        description: Value of the option C(poller_webhooks).
        type: raw
        required: true
      controller:
        description: Value of the option C(poller_controller).
        type: raw
        required: true
      python:
        description: Python interpreter of the polling unit.
        type: str
        required: true
  release:
    description: Install the program in a directory, and compile its modules.
    type: dict
    suboptions:
      directory:
        description: Directory of the release.
        type: path
        required: true
      program:
        description: Texts by path.
        type: dict
        required: true
      python:
        description: Python interpreter of the polling unit.
        type: str
        required: true
  hooks:
    description: Replace all hooks of the role in one step. Hooks of the owner of the host stay.
    type: dict
    suboptions:
      directory:
        description: Directory of the configuration.
        type: path
        required: true
      contents:
        description: Contents in base64, by phase and name.
        type: dict
        required: true
      remove_prepare_hooks:
        description: Whether all prepare hooks may be removed.
        type: bool
        default: false
requirements:
  - python >= 3.6 (on the host)
attributes:
  check_mode:
    description: Can run in check_mode and return changed status prediction without modifying target.
    support: full
  diff_mode:
    description: Returns details on what has changed (or possibly needs changing in check_mode), when in diff mode.
    support: full
    details:
      - The diff has the names of the files, without their contents.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second invocation indicates
      no change.
    support: full
"""

EXAMPLES = r"""
- name: Replace the hooks
  maintops.scheduled_events.poller_files:
    hooks:
      directory: /etc/scheduled-events
      contents:
        prepare:
          10-drain: "{{ '#!/bin/sh\nexec drain\n' | b64encode }}"
"""

RETURN = r"""
differences:
  description: What was not as wanted, a line for each file.
  returned: with O(release) or O(hooks)
  type: list
  elements: str
  sample: [added prepare.d/10-drain]
problem:
  description: The first wrong option, and the action to take. Empty if all options are valid.
  returned: with O(check)
  type: str
  sample: ''
checked:
  description: The configuration, the hooks by phase and name with their contents in base64, the settings of the
    controller, and the webhooks.
  returned: with O(check), if all options are valid
  type: dict
  sample: {config: {interval: 1.0}, hooks: {}, controller: {}, webhooks: []}
"""

import os
import sys
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._poller import hook_set, release
from ansible_collections.maintops.scheduled_events.plugins.module_utils._poller.options import WrongOption, check

PYTHON: Dict[str, Any] = {"type": "str", "required": True}
TEXTS: Dict[str, Any] = {"type": "dict", "required": True}
DIRECTORY: Dict[str, Any] = {"type": "path", "required": True}
ANYTHING: Dict[str, Any] = {"type": "raw", "required": True}  # the check refuses a wrong type with its own message
CHECK: Dict[str, Any] = {
    "program": TEXTS,
    "options": {"type": "dict", "required": True},
    "hooks": ANYTHING,
    "sources": {"type": "dict", "default": {}},
    "webhooks": ANYTHING,
    "controller": ANYTHING,
    "python": PYTHON,
}
RELEASE: Dict[str, Any] = {"directory": DIRECTORY, "program": TEXTS, "python": PYTHON}
HOOKS: Dict[str, Any] = {
    "directory": DIRECTORY,
    "contents": {"type": "dict", "required": True, "no_log": True},
    "remove_prepare_hooks": {"type": "bool", "default": False},
}


def check_options(module: AnsibleModule, given: Dict[str, Any]) -> Dict[str, Any]:
    """Check the options with the program that is going to be installed."""
    directory = os.path.join(module.tmpdir, "program")
    for name, text in given["program"].items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    try:
        return {"checked": check(given), "problem": ""}
    except WrongOption as error:
        return {"problem": str(error).encode("ascii", "backslashreplace").decode()}


def install_release(module: AnsibleModule, directory: str, program: Dict[str, str], python: str) -> List[str]:
    """Install a release; returns the paths that differed."""

    def run_python(text: str, *arguments: str, data: str) -> str:
        path = os.path.join(module.tmpdir, "program.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return str(module.run_command([python, "-IS", path, *arguments], data=data, check_rc=True)[1])

    return release.install(directory, program, run_python, check=module.check_mode)


def replace_hooks(
    module: AnsibleModule, directory: str, contents: Dict[str, Dict[str, str]], remove_prepare_hooks: bool
) -> List[str]:
    """Replace the hooks; returns what was not as wanted."""
    return hook_set.put_in_place(
        directory,
        hook_set.by_path(contents),
        hooks_run=lambda: hook_set.hooks_run(module.run_command),
        check=module.check_mode,
        remove_prepare_hooks=remove_prepare_hooks,
    )


def main() -> None:
    """Do the step that is given."""
    module = AnsibleModule(
        argument_spec={
            "check": {"type": "dict", "options": CHECK},
            "release": {"type": "dict", "options": RELEASE},
            "hooks": {"type": "dict", "options": HOOKS},
        },
        mutually_exclusive=[("check", "release", "hooks")],
        required_one_of=[("check", "release", "hooks")],
        supports_check_mode=True,
    )
    if module.params["check"]:
        module.exit_json(changed=False, **check_options(module, module.params["check"]))
    try:
        if module.params["release"]:
            differences = install_release(module, **module.params["release"])
        else:
            differences = replace_hooks(module, **module.params["hooks"])
    except hook_set.CannotReplace as error:
        module.fail_json(msg=str(error))
    prepared = "".join(f"{line}\n" for line in differences)
    module.exit_json(changed=bool(differences), differences=differences, diff={"prepared": prepared})


if __name__ == "__main__":
    main()
