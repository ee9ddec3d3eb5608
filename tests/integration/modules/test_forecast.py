# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook that forecasts whether preparations fit into the notice, with the command of the polling unit."""

import datetime
import json
import pathlib
import sys

import pytest

from playbooks import LOCAL

FILES = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files"
LIBRARY = FILES.parents[2] / "plugins" / "module_utils"
# The command with the files of one host, since all hosts are on this machine.
COMMAND = f"""#!/bin/sh
PYTHONPATH={LIBRARY}:{FILES} exec {sys.executable} {FILES}/scheduled-events --config=HOST/poller.json \\
  --state-file=HOST/state.json --roles-directory=HOST/roles "$@"
"""
SECONDS = {"quick": 15, "slow": 700, "new": None}  # of the preparation of each host; none of the last one


def history_of(seconds):
    """The lines of a preparation that ended well."""
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    known = {"version": 1, "source": "respond", "run": "a", "event_id": "E1", "phase": "prepare"}
    facts = [({"kind": "phase_began"}, 0), ({"kind": "phase_ended", "outcome": "ok"}, seconds)]
    for fact, after in facts:
        time = (began + datetime.timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        yield json.dumps({**known, **fact, "time": time}) + "\n"


@pytest.fixture(scope="module")
def inventory(tmp_path_factory):
    hosts = {}
    for name, seconds in SECONDS.items():
        directory = tmp_path_factory.mktemp(name)
        (directory / "poller.json").write_text('{"margin": 10}')
        (directory / "command").write_text(COMMAND.replace("HOST", str(directory)))
        (directory / "command").chmod(0o755)
        if seconds is not None:
            (directory / "roles").mkdir()
            (directory / "roles" / "history.jsonl").write_text("".join(history_of(seconds)))
        hosts[name] = {**LOCAL, "__forecast_command": str(directory / "command")}
    return {"all": {"hosts": hosts}}


def forecast(ansible, inventory, **variables):
    extra = {"forecast_hosts": "all", "ansible_become": False, **variables}
    return ansible.run_playbook("maintops.scheduled_events.forecast", inventory=inventory, extra_vars=extra)


def shown(run):
    return {
        task.host: task.result["stdout_lines"] for task in run.all(task="Compare the history with the least notice")
    }


def test_a_host_whose_preparation_does_not_fit_fails_and_the_others_do_not(ansible, inventory):
    run = forecast(ansible, inventory, forecast_event_types=["Reboot", "Redeploy"])
    assert run.rc == 2, run.output
    lines = shown(run)
    assert lines["quick"][1:3] == ["  Reboot fits with 875 s to spare", "  Redeploy fits with 575 s to spare"]
    assert lines["slow"][1:3] == ["  Reboot fits with 190 s to spare", "  Redeploy: 700 s needed, 590 given"]
    assert sorted(task.host for task in run.all(task="Show the forecast") if not task.failed) == ["new", "quick"]


@pytest.mark.core
def test_a_host_without_a_history_is_unknown_and_named(ansible, inventory):
    run = forecast(ansible, inventory, forecast_event_types="Reboot")
    assert run.rc == 0, run.output
    verdict, read = shown(run)["new"]
    assert verdict == "UNKNOWN: the history has no preparation that ended well"
    assert read.startswith("  read: 0 facts in /")
    assert "Unknown for new. Drill these hosts." in run.output


def test_a_host_without_a_history_fails_where_the_forecast_is_strict(ansible, inventory):
    run = forecast(ansible, inventory, forecast_event_types="Reboot", forecast_strict="true")
    assert run.rc == 2, run.output
    assert [task.host for task in run.all(task="Show the forecast") if task.failed] == ["new"]


def test_a_text_that_is_not_a_flag_is_refused_and_an_empty_one_is_the_default(ansible, inventory):
    run = forecast(ansible, inventory, forecast_event_types="Reboot", forecast_strict="maybe")
    assert run.rc == 2, run.output
    assert "forecast_strict" in run.output
    assert "'maybe' is not a valid boolean" in run.output
    assert shown(run) == {}
    assert forecast(ansible, inventory, forecast_event_types="Reboot", forecast_strict="").rc == 0


def test_a_host_without_the_polling_unit_says_so(ansible, inventory, tmp_path):
    hosts = {**inventory["all"]["hosts"], "silent": {**LOCAL, "__forecast_command": "/bin/false"}}
    hosts["quick"] = {**LOCAL, "__forecast_command": str(tmp_path / "absent")}
    run = forecast(ansible, {"all": {"hosts": hosts}})
    assert run.rc == 2, run.output
    problems = {task.host: task.result["msg"] for task in run.all(task="Show the forecast") if task.status == "failed"}
    assert problems["quick"].startswith("The polling unit is not installed on this host")
    assert problems["silent"].startswith("The command ended with status 1 and no output")


def test_an_unknown_type_fails_each_host_with_the_known_ones(ansible, inventory):
    run = forecast(ansible, inventory, forecast_event_types="Restart")
    assert run.rc == 2, run.output
    assert run.output.count("expected some of Freeze, Reboot, Redeploy, Preempt, Terminate") >= len(SECONDS)


def test_a_host_on_which_nothing_can_run_fails_with_the_reason(ansible):
    inventory = {"all": {"hosts": {"web1": {**LOCAL, "ansible_python_interpreter": "/nonexistent/python"}}}}
    run = forecast(ansible, inventory)
    assert run.rc == 2, run.output
    assert "/nonexistent/python" in run.one(task="Show the forecast")["msg"]
