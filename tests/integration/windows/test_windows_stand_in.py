# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What differs on a Windows host, with the stand-in of test_golden_stand_in.py in its place: no Windows runs here."""

import json

import pytest
from emulation import until
from windows import CONNECTION, windows, without_windows

from playbooks import COLLECTION, LOCAL, module_task, play

INFO, WAIT, APPROVE = "scheduled_events_info", "scheduled_events_wait", "scheduled_event_approve"
DELEGATED = {"api_version": "2019-08-01"}  # distinguishes its requests from others
WINDOWS = {**LOCAL, "ansible_connection": CONNECTION}
# Module of the collection that runs on the control node for a Windows host → arguments
SUPPORTED = {
    INFO: {},
    WAIT: {},
    APPROVE: {"event_id": ["A"]},
    "scheduled_events_turn": {},
    "maintenance_gate": {"step": "hold"},
    "load_balancer": {"provider": "health_probe", "state": "drained"},
}


# Variables by which the role poller knows a Windows host
POLLER = {
    "winrm": {"ansible_connection": "ansible.builtin.winrm"},
    "powershell": {"ansible_shell_type": "powershell"},
}


class Hosts:
    """A run on separate hosts, each with one VM, and the requests of win_uri."""

    def __init__(self, ansible, emulate, directory, closed_port):
        names = ("windows", "linux", "lost_at_once", "lost_later", "silent", "cut")
        emulator = self.emulator = emulate([{"name": name} for name in names], "--manual-clock", "--rate-limit", "0")
        self.events = {name: emulator.schedule("Reboot", name) for name in names}
        emulator.fault("hang", vms=["silent"])
        emulator.fault("cut", vms=["cut"], count=2)
        self.log = directory / "win_uri.log"
        variables = {name: {**WINDOWS, "imds": emulator.endpoints[name]} for name in names}
        variables["linux"]["ansible_connection"] = "local"
        for name, number in (("lost_at_once", 1), ("lost_later", 3)):
            variables[name]["ansible_breaks_at"] = str(directory / name)
            (directory / name).write_text(str(number))
        started = ansible.start_playbook(
            [
                play(
                    [
                        self._task("read", INFO, {"retry_for": 60}, hosts=["windows", "linux", "cut", "lost_at_once"]),
                        self._task("wait", WAIT, {"timeout": 120, "sleep": 0.5}, hosts=["lost_later"]),
                        self._task("silent", INFO, {"request_timeout": 1, "retry_for": 1}, hosts=["silent"]),
                        self._task("closed", INFO, {"endpoint": closed_port}, hosts=["windows"]),
                        self._task("auto", INFO, {"endpoint": "auto"}, hosts=["windows"]),
                        self._task("async", WAIT, {}, hosts=["windows"], **{"async": 60, "poll": 1}),
                        self._task("async", INFO, {}, hosts=["linux"], **{"async": 60, "poll": 1}),
                        self._task("delegated", INFO, DELEGATED, hosts=["linux"], delegate_to="windows"),
                        self._task("delegated", INFO, DELEGATED, hosts=["windows"], delegate_to="linux"),
                        self._task(
                            "old", INFO, {}, hosts=["windows"], environment={"STAND_IN_BREAKS": "No such option"}
                        ),
                    ],
                    module_defaults={f"group/{COLLECTION}.imds": {"endpoint": "{{ imds }}"}},
                )
            ],
            inventory={"all": {"hosts": variables}},
            env=windows(self.log),
        )
        until(lambda: emulator.polls("lost_later")["polls"] >= 2 or not started.running, what="the second poll")
        emulator.cancel(self.events["lost_later"])
        self.run = started.result()

    @staticmethod
    def _task(name, module, arguments, *, hosts, **keywords):
        return {
            **module_task(module, arguments, when=f"inventory_hostname in {hosts}", **keywords),
            "name": name,
            "ignore_unreachable": True,
        }

    def one(self, task, host):
        (result,) = [found for found in self.run.all(task=task, host=host) if found.status != "skipped"]
        return result


@pytest.fixture(scope="module")
def hosts(ansible, emulate, tmp_path_factory):
    return Hosts(ansible, emulate, tmp_path_factory.mktemp("windows"), "http://127.0.0.1:1")


def ids(result):
    return [event["event_id"] for event in result["events"]]


@pytest.mark.parametrize("host", ["windows", "linux"])
def test_defaults_of_the_action_group_reach_the_stand_in_as_they_reach_a_linux_host(hosts, host):
    assert ids(hosts.one("read", host)) == [hosts.events[host]]


@pytest.mark.core
def test_modules_that_share_an_action_plugin_run_on_the_control_node_under_each_of_their_names(
    ansible, emulate, tmp_path
):
    emulator = emulate([{"name": "windows"}], "--manual-clock", "--rate-limit", "0")
    event_id = emulator.schedule("Reboot", "windows")
    log = tmp_path / "win_uri.log"
    tasks = [
        module_task(APPROVE, {"event_id": [event_id]}, check_mode=True),
        {"name": "short", APPROVE: {"event_id": [event_id]}, "check_mode": True},
        {"name": "short", WAIT: {"state": "present"}},
    ]
    defaults = {f"{COLLECTION}.{module}": {"endpoint": emulator.endpoints["windows"]} for module in (APPROVE, WAIT)}
    run = ansible.run_playbook(
        [play(tasks, collections=[COLLECTION], module_defaults=defaults)],
        inventory={"all": {"hosts": {"windows": WINDOWS}}},
        env=windows(log),
    )
    approved, approved_by_short_name, present = run.tasks
    assert (approved["approved"], approved_by_short_name["approved"]) == ([event_id], [event_id])
    assert ids(present) == [event_id]
    assert len(log.read_text().splitlines()) >= 3


def test_an_answer_that_breaks_off_is_asked_for_again(hosts):
    assert ids(hosts.one("read", "cut")) == [hosts.events["cut"]]
    assert hosts.emulator.polls("cut")["failures_injected"] == 2


def test_a_stand_in_that_cannot_be_reached_is_unreachable(hosts):
    assert hosts.one("read", "lost_at_once").status == "unreachable"


def test_a_wait_continues_when_the_stand_in_is_lost_for_a_moment(hosts):
    assert hosts.one("wait", "lost_later")["events"] == []
    assert hosts.emulator.polls("lost_later")["polls"] >= 3


def test_a_service_that_does_not_answer_the_stand_in_is_named_with_the_words_of_windows(hosts):
    url = f"{hosts.emulator.endpoints['silent']}/metadata/scheduledevents"
    assert hosts.one("silent", "silent")["msg"] == f"GET {url} got no answer: The operation has timed out"


def test_a_stand_in_without_the_service_gets_the_question_whether_it_is_an_azure_vm(hosts):
    message = hosts.one("closed", "windows")["msg"]
    assert message.startswith(
        "GET http://127.0.0.1:1/metadata/scheduledevents got no answer: Unable to connect to the remote server. "
        "Is this an Azure VM?"
    )


def test_the_endpoint_of_the_stand_in_is_not_looked_for_on_the_control_node(hosts):
    assert hosts.one("auto", "windows")["msg"] == (
        "endpoint auto does not work for a Windows host: expected http://HOST or http://HOST:PORT"
    )


def test_async_is_refused_for_the_stand_in_and_works_on_a_linux_host(hosts):
    assert hosts.one("async", "windows")["msg"].endswith(
        f"{COLLECTION}.{WAIT} does not support async for a Windows host, since it runs on the control node there. "
        "Remove async and poll from the task"
    )
    assert ids(hosts.one("async", "linux")) == [hosts.events["linux"]]


def test_delegation_counts_the_host_that_the_task_runs_on(hosts):
    # imds is that of the task's own host, and the stand-in is asked for whatever is delegated to it.
    assert ids(hosts.one("delegated", "linux")) == [hosts.events["linux"]]
    assert ids(hosts.one("delegated", "windows")) == [hosts.events["windows"]]
    asked = [json.loads(line)["url"] for line in hosts.log.read_text().splitlines()]
    path = f"/metadata/scheduledevents?api-version={DELEGATED['api_version']}"
    assert [url for url in asked if url.endswith(path)] == [hosts.emulator.endpoints["linux"] + path]


def test_a_win_uri_that_asks_nothing_is_named_as_the_cause(hosts):
    assert hosts.one("old", "windows")["msg"].endswith(
        "ansible.windows.win_uri failed on this host before it asked the service: No such option"
    )


@pytest.fixture(scope="module")
def bare(ansible):
    """What each module says on the stand-in when no ansible.windows is installed."""
    modules = SUPPORTED
    tasks = [module_task(module, arguments) for module, arguments in modules.items()]
    role = {"name": "role", "ansible.builtin.include_role": {"name": f"{COLLECTION}.poller"}}
    balancers = module_task("load_balancer_info", {"provider": "haproxy", "hosts": ["linux"], "balancers": ["windows"]})
    hosts = {"windows": WINDOWS, "linux": LOCAL}
    hosts.update({kind: {**LOCAL, **variables} for kind, variables in POLLER.items()})
    plays = [
        play(tasks, hosts="windows"),
        play([{**balancers, "name": "other host"}], hosts="linux"),
        play([role], hosts=",".join(POLLER)),
    ]
    return ansible.run_playbook(plays, inventory={"all": {"hosts": hosts}}, env=without_windows())


@pytest.mark.parametrize("module", SUPPORTED)
def test_a_missing_collection_is_named_with_the_command_that_installs_it(bare, module):
    assert bare.one(task=module)["msg"].endswith(
        f"{COLLECTION}.{module} needs ansible.windows.win_uri for a Windows host, and the collection ansible.windows "
        "was not found on the control node. Install it: ansible-galaxy collection install ansible.windows"
    )


def test_another_host_that_is_a_windows_host_is_named(bare):
    assert bare.one(task="other host")["msg"].endswith(
        "windows: it is a Windows host, which this module does not support. Leave it out"
    )


@pytest.mark.parametrize("kind", POLLER)
def test_the_role_poller_refuses_what_is_set_up_as_a_windows_host(bare, kind):
    assert bare.one(host=kind, task="Verify that the host is not a Windows host")["msg"].startswith(
        "the polling unit does not support Windows hosts, and this host is one"
    )


def test_no_traceback_is_shown_for_the_stand_in(hosts, bare):
    assert "Traceback" not in hosts.run.output + bare.output
