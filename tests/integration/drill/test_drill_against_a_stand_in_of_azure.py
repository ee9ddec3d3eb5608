# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drill in which Azure restarts the VM, with a real polling unit, an emulator, and a stand-in of Azure.

The stand-in of Azure Resource Manager announces the event through the emulator, as Azure would.
"""

import json
import subprocess
import sys

import pytest
from arm_stand_in import COMPUTE, ArmStandIn, environment, serve
from emulation import LIMIT, until

from playbooks import LOCAL

VM = f"{COMPUTE}/virtualMachines/web1"
MODULE = "maintops.scheduled_events.scheduled_events_drill"
POLICY = {"scheduledEventsPolicy": {"userInitiatedReboot": {"automaticallyApprove": True}}}


class Vm:
    """A VM whose polling unit runs as a process, with all its files in one directory."""

    def __init__(self, collection, directory, endpoint):
        self._directory, files = directory, collection / "roles" / "poller" / "files"
        self._places = [
            f"--config={directory / 'poller.json'}",
            f"--state-file={directory / 'state.json'}",
            f"--runtime-directory={directory / 'run'}",
            f"--hooks-directory={directory / 'hooks'}",
        ]
        (directory / "poller.json").write_text(json.dumps({"endpoint": endpoint, "interval": 0.25}))
        for phase in ("prepare", "recover"):
            hook = directory / "hooks" / f"{phase}.d" / "10-hook"
            hook.parent.mkdir(parents=True)
            hook.write_text("#!/bin/sh\n")
            hook.chmod(0o755)
        (directory / "root").mkdir()
        self._start = [sys.executable, str(files / "scheduled-events"), *self._places]
        self._start += [f"--hooks-runtime-directory={directory / 'root'}", "run", "--spawn-hooks"]
        self.command = directory / "drill"
        words = [sys.executable, files / "scheduled-events-drill", *self._places]
        words.append(f"--directory={directory / 'drilled'}")
        self.roles = directory / "roles"
        self.command.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
        self.command.chmod(0o755)

    def start(self):
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self._start, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until((self._directory / "run" / "status.json").exists)

    def stop(self):
        self._process.terminate()
        self._process.wait(LIMIT)


@pytest.fixture
def vm(fleet, tmp_path, installed_collection):
    emulator = fleet("web1", options=("--rate-limit", "0"))
    made = Vm(installed_collection, tmp_path, emulator.endpoints["web1"])
    made.emulator = emulator
    made.start()
    yield made
    made.stop()


@pytest.fixture
def arm(vm):
    stand_in = ArmStandIn(updating_for=0)
    stand_in.put(VM)

    def restart(method, path, _body):
        if method != "POST" or path != f"{VM}/restart":
            return None
        vm.emulator.schedule("Reboot", "web1", source="User", started_for=1)
        return 202, {}

    stand_in.answers.append(restart)
    server = serve(stand_in)
    stand_in.url = server.url
    yield stand_in
    server.shutdown()
    server.server_close()


@pytest.fixture
def drill(ansible, vm, arm):
    """Run the module, and then the verdict of the play."""

    def run(others=None, **options):
        arguments = {
            "step": "drill",
            "source": "azure",
            "azure_resource_id": VM,
            "credentials": {"auth_source": "msi"},
            "command": str(vm.command),
            "state_directory": str(vm.roles),
            **options,
        }
        only = {
            "when": "inventory_hostname == 'web1'"
        }  # a task that is skipped would replace the result of another host
        tasks = [
            {"name": "Drill", MODULE: arguments, "register": "own", **only},
            {"name": "Keep", "ansible.builtin.set_fact": {"drill_result": "{{ own }}"}, **only},
            {"name": "Verdict", MODULE: {"step": "verdict"}, "run_once": True},
        ]
        return ansible.run_playbook(
            [{"hosts": "all", "gather_facts": False, "tasks": tasks}],
            inventory={"all": {"hosts": {"web1": {**LOCAL, "ansible_become": False}, **(others or {})}}},
            env={
                **environment(arm),
            },
        )

    return run


def test_a_restart_that_azure_announces_is_drilled_and_judged(drill, vm, arm):
    run = drill(confirm=["web1"])
    assert run.rc == 0, run.output
    done = run.one(task="Drill")
    assert (done["outcome"], done["problems"], done["event_type"]) == ("passed", [], "Reboot")
    assert all(done["figures"][name] is not None for name in ("prepare", "acknowledge", "margin", "back"))
    assert [(name, status) for name, _ids, status in vm.emulator.posts()] == [("web1", 200)]
    assert arm.count("POST", f"{VM}/restart") == 1
    facts = [json.loads(line) for line in (vm.roles / "history.jsonl").read_text().splitlines()]
    assert [(fact["kind"], fact.get("outcome")) for fact in facts] == [("drilled", None), ("drilled", "passed")]
    assert run.one(task="Verdict")["hosts"]["web1"]["outcome"] == "passed"


@pytest.mark.parametrize(
    ("confirm", "properties", "problem"),
    [
        (["web2"], {}, "drill_confirm is ['web2'], expected the name web1 in it. Azure really carries out restart"),
        (["web1"], POLICY, "userInitiatedReboot.automaticallyApprove is true for web1"),
    ],
    ids=["another name", "no notice"],
)
def test_azure_is_asked_for_nothing_if_the_drill_is_refused(confirm, properties, problem, drill, arm):
    arm.put(VM, properties=properties)
    run = drill(confirm=confirm)
    done = run.one(task="Drill")
    assert (done["outcome"], run.one(task="Verdict")["passed"]) == ("refused", False)
    assert problem in done["problems"][0]
    assert arm.count("POST") == 0


def test_a_host_is_left_out_after_the_drill_of_another_one_failed(drill, arm):
    before = {"outcome": "failed", "verdict": "failed: the event was not acknowledged"}
    run = drill(confirm=["web1"], others={"web0": {**LOCAL, "drill_result": before}})
    done, verdict = run.one(task="Drill", host="web1"), run.one(task="Verdict")
    assert (done["outcome"], done["problems"]) == ("skipped", ["the drill of web0 did not pass"])
    assert verdict["msg"] == (
        "web1: skipped: the drill of web0 did not pass; web0: failed: the event was not acknowledged"
    )
    assert arm.count("POST") == 0
