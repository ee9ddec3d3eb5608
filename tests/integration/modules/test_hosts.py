# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where and how the modules run: requests missing, old Pythons, module_defaults."""

import os
import pathlib
import runpy
import subprocess
import sys

import pytest
from ansible.module_utils import basic

from playbooks import module_task, play

ROOT = pathlib.Path(__file__).parents[3]
MODULES = {
    "scheduled_events_info": {},
    "scheduled_event_approve": {"event_id": ["A"]},
    "scheduled_events_wait": {},
}
TARGETS = [f"3.{minor}" for minor in range(6, 15)]


@pytest.fixture(scope="module")
def host(web_host):
    """A host without events."""
    return web_host(200, b'{"DocumentIncarnation":1,"Events":[]}', path_bodies={"/metadata/instance": b"vm1"})


def test_without_requests_each_module_says_what_is_missing_and_where(ansible, tmp_path, host):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True, timeout=60)
    python = str(bare / "bin" / "python")
    asked_before = len(host.asked)
    tasks = [module_task(name, {"endpoint": host.endpoint, **arguments}) for name, arguments in MODULES.items()]
    run = ansible.run_playbook([play(tasks, vars={"ansible_python_interpreter": python})])
    assert len(run.tasks) == len(MODULES)
    for result in run.tasks:
        assert result.failed
        assert result["msg"].startswith("Failed to import the required Python library (requests) on ")
        assert python in result["msg"]
    assert len(host.asked) == asked_before


def test_module_defaults_of_the_action_group_reach_every_module(ansible, host):
    asked_before = len(host.asked)
    defaults = {"group/maintops.scheduled_events.imds": {"endpoint": host.endpoint, "vm_name": "given"}}
    tasks = [module_task(name, arguments) for name, arguments in MODULES.items()]
    run = ansible.run_playbook([play(tasks, module_defaults=defaults)])
    assert [result.failed for result in run.tasks] == [False] * len(MODULES), run.output
    assert run.tasks[0]["vm_name"] == "given"
    asked = [target for _method, target, _headers in host.asked[asked_before:]]
    # The names are only compared, by those that use one: the approval does not.
    assert asked.count("/metadata/scheduledevents?api-version=2020-07-01") == len(MODULES)
    assert len(asked) == len(MODULES) + 2


def has_requests(python):
    """Whether this path is a Python that can import requests."""
    if not os.access(python, os.X_OK):
        return False
    command = [python, "-c", "import requests"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False).returncode == 0


@pytest.fixture(scope="module")
def interpreters():
    """Version → a Python of it that has requests, or the reason why there is none that can serve as a host."""
    # Up to ansible-core 2.16, whose oldest is 3.6, this is a bool.
    oldest = basic._PY_MIN if isinstance(basic._PY_MIN, tuple) else (3, 6)
    found = {}
    pythons = runpy.run_path(str(ROOT / "scripts" / "pythons.py"))
    for version in pythons["VERSIONS"]:
        path = pythons["find"](version)
        # Those of the machine, and those that the unit tests of the library were set up with.
        candidates = [path, str(ROOT / ".nox" / f"library-{version.replace('.', '-')}" / "bin" / "python")]
        usable = [python for python in candidates if has_requests(python)]
        if tuple(map(int, version.split("."))) < oldest:
            found[version] = (None, f"this ansible-core serves no host with Python {version}")
        elif not path:
            found[version] = (None, f"no CPython {version} was found")
        elif not usable:
            found[version] = (None, f"no CPython {version} with requests was found")
        else:
            found[version] = (usable[0], None)
    return found


@pytest.fixture(scope="module")
def by_python(ansible, fleet, interpreters):
    """A play on one host for each Python that can serve: the emulator, the events of the hosts, and the run."""
    pythons = {version: python for version, (python, _reason) in interpreters.items() if python}
    emulator = fleet(*pythons)
    events = {version: emulator.schedule("Reboot", version, description="Größe") for version in pythons}
    endpoint = {"endpoint": "{{ imds_endpoint }}"}
    tasks = [
        module_task("scheduled_events_info", endpoint),
        module_task("scheduled_event_approve", {**endpoint, "event_id": ["{{ event_id }}"]}),
        module_task("scheduled_events_wait", {**endpoint, "state": "present", "event_statuses": ["Started"]}),
    ]
    inventory = emulator.inventory(event_id=events.get, ansible_python_interpreter=pythons.get)
    return events, ansible.run_playbook([play(tasks)], inventory=inventory)


@pytest.mark.parametrize("version", TARGETS)
def test_the_modules_run_on_a_host_with_python(by_python, interpreters, version):
    _python, reason = interpreters[version]
    if reason:
        pytest.skip(reason)
    events, run = by_python
    info, approved, waited = run.all(host=version)
    assert [info.failed, approved.failed, waited.failed] == [False] * 3, run.output
    own = [event for event in info["events"] if event["affects_this_vm"]]
    assert [(event["event_id"], event["description"]) for event in own] == [(events[version], "Größe")]
    assert approved["approved"] == [events[version]]
    assert [event["event_id"] for event in waited["events"]] == [events[version]]
