# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""By which name a maintenance of a host is known when a run takes it up again."""

import types

import pytest

from plugins.plugin_utils._ansible.other_host import OtherHostError
from plugins.plugin_utils._ansible.tasks_files import TasksFileError
from plugins.plugin_utils._gate import gate as gates
from plugins.plugin_utils._gate.decision import GateError

TASKS, REBOOT_TASKS, HEALTH = gates.TASKS_FILES
UNREADABLE = OtherHostError("web2: its variables cannot be read")


class Files:
    """Tasks files whose content is their name, but those that are missing."""

    def __init__(self, _action):
        pass

    def digest(self, variable, path):
        if path.startswith("missing"):
            raise TasksFileError(f"{variable} is {path}, expected a file on the control node. Give an absolute path")
        return path and f"digest of {path}"


@pytest.fixture
def names(monkeypatch):
    """The names for hosts with these variables, in a batch of web1."""

    def of(name=None, batch=("web1",), **hosts):
        def variables_of(_action, host, _variables):
            if isinstance(hosts[host], Exception):
                raise hosts[host]
            return hosts[host]

        monkeypatch.setattr(gates, "HostVariables", variables_of)
        monkeypatch.setattr(gates, "TasksFiles", Files)
        action = types.SimpleNamespace()
        return gates.names_of_maintenances(action, {}, hosts=list(hosts), batch=list(batch), name=name)

    return of


def test_a_maintenance_that_the_user_has_named_has_that_name_on_each_host(names):
    assert names("patch", web1={TASKS: "a.yml"}, web2={TASKS: "b.yml"}) == {"web1": "patch", "web2": "patch"}


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({TASKS: "a.yml"}, True),
        ({TASKS: "a.yml", gates.REBOOT: "if_needed"}, True),
        ({TASKS: "a.yml", HEALTH: "health.yml"}, True),  # it may be corrected before the run goes on
        ({TASKS: "b.yml"}, False),
        ({TASKS: "a.yml", REBOOT_TASKS: "reboot.yml"}, False),
        ({TASKS: "a.yml", gates.REBOOT: "always"}, False),
    ],
)
def test_a_maintenance_without_a_name_is_known_by_its_tasks_and_its_reboot(names, other, is_same):
    found = names(web1={TASKS: "a.yml"}, web2=other)
    assert (found["web1"] == found["web2"]) is is_same


def test_tasks_files_that_are_missing_are_named_with_the_hosts_that_lack_them(names):
    hosts = {"web1": {TASKS: "missing.yml"}, "web2": {TASKS: "missing.yml"}, "web3": {HEALTH: "missing.yml"}}
    with pytest.raises(GateError) as refused:
        names(**hosts)
    assert str(refused.value) == (
        f"web1, web2: {TASKS} is missing.yml, expected a file on the control node. Give an absolute path; "
        f"web3: {HEALTH} is missing.yml, expected a file on the control node. Give an absolute path"
    )


@pytest.mark.parametrize("reboot", ["if_needed", "never"])
def test_a_maintenance_in_which_there_is_nothing_to_do_is_refused(names, reboot):
    with pytest.raises(GateError, match=f"web1: {TASKS} is not set, and {gates.REBOOT} is {reboot}, so there is"):
        names(web1={gates.REBOOT: reboot})


@pytest.mark.parametrize(
    "variables", [{gates.REBOOT: "always"}, {gates.REBOOT: "never", TASKS: "a.yml"}, {}], ids=["reboot", "tasks", "own"]
)
def test_a_reboot_or_tasks_suffice_and_the_module_alone_requires_neither(names, variables):
    assert set(names(web1=variables)) == {"web1"}


def test_a_host_whose_variables_cannot_be_read_yet_is_left_to_its_batch(names):
    assert set(names(web1={TASKS: "a.yml"}, web2=UNREADABLE)) == {"web1"}
    with pytest.raises(OtherHostError, match="web2: its variables cannot be read"):
        names(web1={TASKS: "a.yml"}, web2=UNREADABLE, batch=["web2"])
