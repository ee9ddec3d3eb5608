# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drills of a real polling unit, which asks an emulator in the place of Azure all the time."""

import json
import subprocess
import sys
import threading

import pytest
from emulation import LIMIT, until
from hook_units import HookUnits, root_command
from web_servers import Handler, WebServer

from playbooks import LOCAL

MODULE = "maintops.scheduled_events.scheduled_events_drill"
CONFIG = {"interval": 0.25, "rules": [], "acknowledge": "alone", "on_failure": "hold", "hook_timeout": 60, "margin": 1}


class Vm:
    """A VM whose polling unit runs as a process, with all its files in one directory."""

    def __init__(self, collection, directory, emulator):
        self.directory, self.emulator = directory, emulator
        programs = collection / "roles" / "poller" / "files"
        self._program = str(programs / "scheduled-events")
        self._hook_units = HookUnits(root_command(programs, directory), directory)
        self.add_hook("prepare", "true")
        self.add_hook("recover", "true")
        for name in ("run", "root", "drill"):
            (directory / name).mkdir()
        self._process = None

    def add_hook(self, phase, script):
        hook = self.directory / "hooks" / f"{phase}.d" / "10-hook"
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_text(f'#!/bin/sh\necho "{phase} $SCHEDULED_EVENT_ID" >> {self.directory}/ran\n{script}\n')
        hook.chmod(0o755)

    def start(self, **changes):
        config = {**CONFIG, "endpoint": self.emulator.endpoints["web1"], **changes}
        (self.directory / "poller.json").write_text(json.dumps(config))
        words = [
            *(sys.executable, self._program),
            f"--config={self.directory}/poller.json",
            f"--state-file={self.directory}/state.json",
            f"--runtime-directory={self.directory}/run",
            f"--hooks-directory={self.directory}/hooks",
            f"--hooks-runtime-directory={self.directory}/root",
            f"--drill-directory={self.directory}/drill",
            "run",
        ]
        with (self.directory / "log").open("ab") as log:
            self._hook_units.start()
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(lambda: self.status().get("last_successful_poll"))

    def status(self):
        path = self.directory / "run" / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def ran(self, phase):
        path = self.directory / "ran"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[1] for line in lines if line.startswith(phase)]

    def verdicts(self):
        lines = (self.directory / "roles" / "history.jsonl").read_text().splitlines()
        return [(fact["kind"], fact["outcome"]) for fact in map(json.loads, lines)]

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LIMIT)
            self._hook_units.stop()


@pytest.fixture
def vm(fleet, tmp_path, installed_collection):
    made = Vm(installed_collection, tmp_path, fleet("web1", options=("--rate-limit", "0")))
    yield made
    made.stop()


@pytest.fixture
def drill(ansible, vm):
    """Run the module, and then the verdict of the play."""

    def run(others=None, *, check_mode=False, **options):
        names = {"configuration": ".", "runtime": "run", "history": "history", "drill": "drill"}
        places = {name: str(vm.directory / place) for name, place in names.items()}
        arguments = {"step": "drill", "places": places, "state_directory": str(vm.directory / "roles"), **options}
        # A task that is skipped would replace the result of another host.
        only = {"when": "inventory_hostname == 'web1'"}
        tasks = [
            {"name": "Drill", MODULE: {"started_for": 1, **arguments}, "register": "own", **only},
            {"name": "Keep", "ansible.builtin.set_fact": {"drill_result": "{{ own }}"}, **only},
            {"name": "Verdict", MODULE: {"step": "verdict"}, "run_once": True},
        ]
        return ansible.run_playbook(
            [{"hosts": "all", "gather_facts": False, "check_mode": check_mode, "tasks": tasks}],
            inventory={"all": {"hosts": {"web1": {**LOCAL, "ansible_become": False}, **(others or {})}}},
        )

    return run


def test_a_drill_passes_and_nothing_of_it_is_sent_to_azure(drill, vm):
    vm.start()
    run = drill()
    assert run.rc == 0, run.output
    done = run.one(task="Drill")
    assert (done["outcome"], done["problems"], done["event_type"]) == ("passed", [], "Reboot")
    assert all(done["figures"][name] is not None for name in ("hear", "prepare", "acknowledge", "margin", "back"))
    assert vm.emulator.posts() == []
    assert vm.verdicts() == [("drilled", "passed")]
    [event_id] = vm.ran("recover")
    assert (event_id.startswith("drill-"), vm.ran("prepare")) == (True, [event_id])
    assert not (vm.directory / "drill" / "event.json").exists()
    assert run.one(task="Verdict")["hosts"]["web1"]["outcome"] == "passed"


def test_the_keyword_check_mode_of_a_task_shows_what_a_drill_would_run_and_announces_nothing(drill, vm):
    vm.start()
    run = drill(check_mode=True)
    assert (run.one(task="Drill")["outcome"], run.one(task="Verdict")["passed"]) == ("previewed", True)
    assert "a drill announces Reboot of the VM web1" in run.output
    assert vm.ran("prepare") == []


def test_a_host_that_never_acknowledges_passes_once_it_is_prepared(drill, vm):
    vm.start(acknowledge="never")
    done = drill().one(task="Drill")
    assert (done["outcome"], done["figures"]["acknowledge"]) == ("passed", None)


def test_a_hook_that_fails_is_named_and_the_host_recovers(drill, vm):
    vm.add_hook("prepare", "exit 7")
    vm.start()
    done = drill().one(task="Drill")
    assert (done["outcome"], done["problems"][0].startswith("the preparation failed: 10-hook: ")) == ("failed", True)
    assert len(vm.ran("recover")) == 1


def test_an_event_of_azure_aborts_the_drill_and_is_handled(drill, vm):
    # The preparation for the drill goes on until the event of Azure prepares, too.
    wait = f"until grep -qv drill- {vm.directory}/ran; do sleep 0.1; done"
    vm.add_hook("prepare", f'case "$SCHEDULED_EVENT_ID" in drill-*) {wait} ;; esac')
    vm.start()

    def announce():
        until(lambda: vm.ran("prepare"))
        vm.emulator.schedule("Reboot", "web1", started_for=1)

    other = threading.Thread(target=announce, daemon=True)
    other.start()
    done = drill().one(task="Drill")
    other.join(LIMIT)
    assert (done["outcome"], "of Azure names this VM" in done["problems"][0]) == ("aborted", True)
    until(vm.emulator.posts)
    until(lambda: len(vm.ran("recover")) == 2)
    assert [status for _name, _ids, status in vm.emulator.posts()] == [200]
    until(lambda: not vm.status()["maintenance_pending"])


@pytest.fixture
def service():
    """A service under test; ``asked`` is set with the first request, so after the preview of the drill."""

    class Answer(Handler):
        def do_GET(self):
            self.server.asked.set()
            self.reply(200)

    server = WebServer(Answer)
    server.asked = threading.Event()
    yield server
    server.stop()


def test_a_watched_event_of_azure_is_judged_and_announced_by_nobody_else(drill, vm, service):
    vm.start()

    def announce():
        service.asked.wait(LIMIT)
        vm.emulator.schedule("Redeploy", "web1", source="User", started_for=1)

    other = threading.Thread(target=announce, daemon=True)
    other.start()
    url = f"{service.url}/"
    run = drill(watch=True, event_type="Redeploy", probe_urls=[url], steady=0.5)
    assert "this waits for a real Redeploy of the VM" in run.output
    assert "a drill announces" not in run.output
    other.join(LIMIT)
    assert run.one(task="Drill")["outcome"] == "passed", run.output
    assert "Announce it with: az vm redeploy --resource-group GROUP --name web1" in run.output
    assert not (vm.directory / "drill" / "event.json").exists()
    assert len(vm.emulator.posts()) == 1


def test_a_password_of_the_service_is_never_shown(drill, vm, closed_port):
    vm.start()
    url = closed_port.replace("http://", "http://user:s3cr3t@")
    run = drill(probe_urls=[url], steady=0.5)
    assert "the service is not healthy before the drill" in run.one(task="Drill")["problems"][0]
    assert ("***@" in run.output, "s3cr3t" in run.output) == (True, False)


def test_a_host_whose_maintenance_is_pending_may_be_out_of_service(drill, vm):
    vm.start()
    vm.emulator.schedule("Reboot", "web1")
    until(lambda: vm.status()["maintenance_pending"])
    done = drill().one(task="Drill")
    assert (done["outcome"], "a maintenance of this VM is pending" in done["problems"][0]) == ("unavailable", True)


UNACKNOWLEDGED = "failed: the event was not acknowledged"


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ({"outcome": "failed", "verdict": UNACKNOWLEDGED}, UNACKNOWLEDGED),
        ({"outcome": "unavailable", "verdict": UNACKNOWLEDGED}, UNACKNOWLEDGED),
        ({"failed": True, "msg": "Timed out after 6 second(s)"}, "Timed out after 6 second(s)"),  # what ended it
    ],
)
def test_a_host_is_left_out_after_the_drill_of_another_one_failed(drill, vm, before, text):
    run = drill(others={"web0": {**LOCAL, "drill_result": before}})
    done, verdict = run.one(task="Drill", host="web1"), run.one(task="Verdict")
    assert (done["outcome"], done["problems"]) == ("skipped", ["the drill of web0 did not pass"])
    assert verdict["msg"] == f"web1: skipped: the drill of web0 did not pass; web0: {text}"
    assert vm.ran("prepare") == []


@pytest.mark.parametrize("answer", [None, [], "[1, '50%']"])
def test_an_answer_of_a_survey_is_empty_or_of_a_serial_a_list(ansible, vm, answer):
    vm.stop()
    hosts = {name: {**LOCAL, "ansible_become": False} for name in ("web1", "web2")}
    variables = {"drill_hosts": "all", "drill_serial": answer, "report_days": ""}
    run = ansible.run_playbook(
        "maintops.scheduled_events.drill", inventory={"all": {"hosts": hosts}}, extra_vars=variables, check=True
    )
    assert run.output.count("PLAY [Drill the response to scheduled events]") == 2, run.output
    assert "expected a number above 0" not in run.output


def test_a_wrong_value_of_one_host_keeps_no_other_one_from_its_drill_and_its_verdict(ansible):
    hosts = {
        "web1": {**LOCAL, "ansible_become": False, "drill_event_type": "Rebot"},
        "web2": {**LOCAL, "ansible_become": False, "drill_probe_urls": ["http://me:s3/cr3t@web2"]},
    }
    run = ansible.run_playbook(
        "maintops.scheduled_events.drill",
        inventory={"all": {"hosts": hosts}},
        extra_vars={"drill_hosts": "all"},
        check=True,
    )
    found = run.one(task="Give the verdict")["hosts"]
    assert {name: each["outcome"] for name, each in found.items()} == {"web1": "refused", "web2": "refused"}
    assert "value of event_type must be one of" in found["web1"]["problems"][0]
    assert 'probe_urls has "http://…@web2", expected http://HOST/PATH' in found["web2"]["problems"][0]
    assert "cr3t" not in run.output


def test_a_variable_that_is_nearly_one_of_the_role_is_refused_since_it_would_have_no_effect(ansible):
    hosts = {"web1": {**LOCAL, "drill_limit": {"lost": 5}}, "web2": {**LOCAL, "drill_steps": 1}}
    role = {"role": "maintops.scheduled_events.drill"}
    play = {"hosts": "all", "gather_facts": False, "roles": [role]}
    run = ansible.run_playbook([play], inventory={"all": {"hosts": hosts}}, check=True)
    refused, passed = (run.one(host=name, action=MODULE) for name in hosts)
    assert "drill_limit has no effect, expected drill_limits. Correct the name. " in refused["problems"][0]
    assert (refused["outcome"], "has no effect" in str(passed.result)) == ("refused", False)
    assert run.rc != 0
