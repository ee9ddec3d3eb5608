# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The defaults of the roles, against the tasks that read them."""

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())


@pytest.mark.parametrize("role", ROLES)
def test_no_task_takes_a_variable_that_is_null_by_default_for_a_text(role):
    defaults = yaml.safe_load((ROOT / "roles" / role / "defaults" / "main.yml").read_text()) or {}
    unset = [name for name, value in defaults.items() if value is None]
    as_text = re.compile(rf"\b({'|'.join(unset) or 'none at all'}) ?((==|!=|\| ?length)[^|}}\n]*)")
    found = [
        f"{path.relative_to(ROOT)}: {name} {what.strip()}"
        for place in ("tasks", "handlers", "vars", "templates")
        for path in (ROOT / "roles" / role / place).glob("*")
        for name, what, _operator in as_text.findall(path.read_text())
    ]
    assert found == []
