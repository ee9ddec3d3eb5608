# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the role respond in awkward company: handlers, other runs, other events, hosts that leave."""

import datetime
import json
import re

import pytest
from emulation import until
from responders import AHEAD, TASKS, TURN, approved_at, cancel_once_waited_for, ended, result

MANUAL = ("--manual-clock", "--rate-limit", "0")


def a_handler(name, notify):
    """A handler that notifies another one."""
    return {"name": name, "ansible.builtin.debug": {}, "changed_when": True, "notify": notify}


def play_with_handler(strategy="free", **keywords):
    """A play whose handlers are defined in front of those that notify them, so Ansible runs one at a time."""
    handlers = [
        {
            "name": "End the change",
            "ansible.builtin.fail": {"msg": "it cannot be finished"},
            "when": "handler_fails",
        },
        {
            "name": "Record the end of the change",
            "listen": "End the change",
            "ansible.legacy.leave_trace": {
                "path": "{{ vm_directory }}/finished",
                "line": "{{ now().timestamp() }}",
            },
        },
        a_handler("Continue the change", "End the change"),
        a_handler("Finish the change", "Continue the change"),
    ]
    return {
        "hosts": "all",
        "gather_facts": False,
        "strategy": f"ansible.builtin.{strategy}",
        "handlers": handlers,
        "roles": [{"role": "maintops.scheduled_events.respond"}],
        **keywords,
    }


def with_handler(*names, **more):
    plain = {
        "handler_fails": False,
        "respond_prepare_tasks": str(TASKS / "notify.yml"),
        "respond_recover_tasks": str(TASKS / "notify.yml"),
    }
    return {name: {**plain, **more.get(name, {})} for name in names}


def balanced(hosts):
    """The variables of a host behind a load balancer, whose tasks leave traces."""
    trace = {"path": "{{ vm_directory }}/{{ load_balancer_state }}", "content": "{{ now().timestamp() }}"}
    file = hosts.directory / "balance.yml"
    file.write_text(json.dumps([{"ansible.legacy.leave_trace": trace}]))
    files = {f"load_balancer_{each}_tasks": str(file) for each in ("drain", "return")}
    return {"load_balancer_provider": "tasks", **files}


@pytest.mark.core
@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_notified_handler_has_ended_before_the_event_is_acknowledged(hosts_of, strategy):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60)
    own = with_handler("vm1", "vm2", vm1=balanced(hosts), vm2=balanced(hosts))
    run = hosts.run(playbook=[play_with_handler(strategy)], host_vars=own)
    assert run.rc == 0, run.output
    [at] = approved_at(hosts.emulator, event_id)
    for name in ("vm1", "vm2"):
        prepared, recovered = (hosts.directory / name / "finished").read_text().splitlines()
        returned = (hosts.directory / name / "active").read_text()
        assert float(prepared) < at < float(recovered) < float(returned)
        assert result(run, name)["recovered"] == [event_id]


def test_a_handler_that_a_failed_preparation_notified_runs_before_the_recovery(hosts_of):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD)
    notify = {"ansible.builtin.command": "true", "notify": "Finish the change"}
    trace = {"ansible.legacy.leave_trace": {"path": "{{ vm_directory }}/finished", "line": "recovered"}}
    for name, tasks in (("fails", [notify, {"ansible.builtin.fail": {"msg": "no"}}]), ("recovers", [trace])):
        (hosts.directory / name).write_text(json.dumps(tasks))
    own = {
        "respond_prepare_tasks": str(hosts.directory / "fails"),
        "respond_recover_tasks": str(hosts.directory / "recovers"),
    }
    started = hosts.start(playbook=[play_with_handler()], host_vars=with_handler("vm1", vm1=own))
    cancel_once_waited_for(hosts.emulator, event_id, started, "vm1")
    run = started.result()
    assert run.rc == 2, run.output
    assert (hosts.directory / "vm1" / "finished").read_text().splitlines()[1:] == ["recovered"]


@pytest.mark.parametrize("strategy", ["linear", "free"])
def test_a_failing_handler_holds_the_event_and_the_next_run_finishes_the_work(hosts_of, strategy):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60)
    broken = with_handler("vm1", "vm2", vm2={"handler_fails": True})
    run = hosts.run(playbook=[play_with_handler(strategy)], host_vars=broken, options=("-e", "respond_wait_timeout=12"))
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    [held] = result(run, "vm1")["held"]
    assert held["reason"].startswith(("vm2 failed to prepare", "vm2 has not prepared (vm2 has begun the phase prepare"))
    run = hosts.run(playbook=[play_with_handler(strategy)], host_vars=with_handler("vm1", "vm2"))
    assert run.rc == 0, run.output
    assert len(approved_at(hosts.emulator, event_id)) == 1


def test_handlers_that_notify_each_other_without_an_end_prepare_nothing(hosts_of):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD)
    handlers = [a_handler("Finish the change", "Again"), a_handler("Again", "Finish the change")]
    own = with_handler("vm1", vm1=balanced(hosts))
    started = hosts.start(playbook=[play_with_handler("linear", handlers=handlers)], host_vars=own)
    cancel_once_waited_for(hosts.emulator, event_id, started, "vm1")
    run = started.result()
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    [failure] = result(run, "vm1")["failures"]
    assert f"{event_id}: handlers notify each other without an end: " in failure
    assert result(run, "vm1")["recovered"] == [event_id]
    assert (hosts.directory / "vm1" / "active").exists()


def test_handlers_without_an_end_fail_a_maintenance_that_follows_a_response(hosts_of, installed_collection):
    hosts = hosts_of("vm1")
    hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD, started_for=60)
    notify = {"ansible.builtin.command": "true", "notify": "Finish the change"}
    flush = {"ansible.builtin.include_tasks": str(installed_collection / "roles/respond/tasks/handlers.yml")}
    respond = {"ansible.builtin.include_role": {"name": "maintops.scheduled_events.respond"}}
    handlers = [a_handler("Finish the change", "Again"), a_handler("Again", "Finish the change")]
    play = {"hosts": "all", "gather_facts": False, "handlers": handlers, "tasks": [respond, notify, flush]}
    run = hosts.ansible.run_playbook([play], inventory=hosts.inventory())
    assert run.rc == 2, run.output
    assert "handlers notify each other without an end: " in run.output
    assert len(result(run, "vm1")["recovered"]) == 1


def test_an_event_that_comes_while_another_one_is_waited_for_is_prepared_at_once(hosts_of):
    hosts = hosts_of("vm1")
    first = hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=AHEAD)
    run = hosts.start()
    until(lambda: approved_at(hosts.emulator, first), what="the first acknowledgement")
    second = hosts.emulator.schedule("Freeze", "vm1", notice=AHEAD, started_for=60)
    until(lambda: approved_at(hosts.emulator, second) or not run.running, what="the second acknowledgement")
    assert [event["event_id"] for event in hosts.emulator.state()["events"]].count(first) == 1
    hosts.emulator.complete(first)
    assert run.result().rc == 0, run.result().output
    assert hosts.recoveries("vm1") == [sorted([first, second])]


def test_in_lockstep_a_host_that_waits_does_not_keep_another_one_from_preparing(hosts_of):
    hosts = hosts_of("vm1", "vm2")
    alone = hosts.emulator.schedule("Reboot", "vm2", notice=AHEAD / 2, started_for=AHEAD)
    both = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60)
    play = {"hosts": "all", "gather_facts": False, "roles": [{"role": "maintops.scheduled_events.respond"}]}
    run = hosts.ansible.start_playbook([play], inventory=hosts.inventory())
    until(lambda: approved_at(hosts.emulator, both) or not run.running, what="the acknowledgement for both")
    hosts.emulator.complete(alone)
    assert run.result().rc == 0, run.result().output
    assert len(approved_at(hosts.emulator, alone)) == len(approved_at(hosts.emulator, both)) == 1


@pytest.mark.core
def test_a_host_that_waits_recovers_although_a_run_once_task_of_another_one_failed(hosts_of):
    hosts = hosts_of("vm1", "vm2")
    first = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD, started_for=60)
    second = hosts.emulator.schedule("Redeploy", "vm2", notice=AHEAD, started_for=AHEAD)
    (hosts.directory / "once").write_text(json.dumps([{"ansible.builtin.command": "false", "run_once": True}]))
    own = {"respond_recover_tasks": str(hosts.directory / "once")}
    play = {"hosts": "all", "gather_facts": False, "roles": [{"role": "maintops.scheduled_events.respond"}]}
    started = hosts.ansible.start_playbook([play], inventory=hosts.inventory(vm1=own))
    until(lambda: "recover failed" in started.output or not started.running, what="the failed recovery")
    hosts.emulator.complete(second)
    run = started.result()
    assert run.rc == 2, run.output
    assert result(run, "vm1")["failures"]
    assert (result(run, "vm2")["recovered"], hosts.recoveries("vm2")) == ([second], [[second]])
    assert approved_at(hosts.emulator, first)


def test_an_idle_host_costs_three_results_one_run_of_the_module_and_one_line(hosts_of):
    hosts = hosts_of("vm1", options=MANUAL)
    strings = (
        "respond_load_balancer=false",
        "respond_acknowledge=prepared",
        '{"respond_rules": [{"event_types": "Reboot,Redeploy", "max_resources": "5", "action": "prepare"}]}',
        "respond_wait_timeout=100",
        "respond_maintenance_margin=30",
    )
    run = hosts.run(options=tuple(part for text in strings for part in ("-e", text)))
    assert run.rc == 0, run.output
    names = ("Show the summary if hosts became unreachable", "Verify that no host has left within its tasks")
    of_the_run = [task for name in names for task in run.all(host="vm1", task=name)]  # on one host of all
    assert len(run.all(host="vm1")) - len(of_the_run) <= 3
    assert hosts.emulator.polls("vm1")["polls"] == 1
    assert [line for line in run.output.splitlines() if line.startswith("vm1: ")] == ["vm1: no event"]
    assert result(run, "vm1") == {
        "vm_name": "vm1",
        "named": [],
        "prepared": [],
        "acknowledged": [],
        "held": [],
        "recovered": [],
        "failures": [],
        "drill": False,
        "story": [],
        "history": [],
    }


def test_before_the_acknowledgement_a_host_has_five_results_beside_those_of_its_tasks(hosts_of):
    hosts = hosts_of("vm1")
    hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=60)
    run = hosts.run()
    assert run.rc == 0, run.output
    names = [task.action for task in run.all(host="vm1")]
    second = [index for index, action in enumerate(names) if action == TURN][1]
    own = [task for task in run.all(host="vm1")[:second] if task.task.rpartition(" : ")[2] in PREPARE_TASKS]
    assert second + 1 - len(own) <= 5


PREPARE_TASKS = {
    "Record the start of preparing",
    "Fail on the hosts that are to fail",
    "Direct the connection to a port without a listener",
    "Connect",
    "Run on one host at a time",
    "Hold on while the test says so",
    "Record the end of preparing",
}


def test_two_runs_at_once_never_overlap_a_phase(hosts_of):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=60)
    hold = hosts.directory / "vm1" / "hold"
    hold.touch()
    first = hosts.start()
    until(lambda: f"preparing-{event_id}" in hosts.traces("vm1"), what="the prepare tasks")
    second = hosts.start()
    until(lambda: "has this host" in second.output or not second.running, what="the second run")
    assert second.running
    hold.unlink()
    assert first.result().rc == 0, first.result().output
    assert second.result().rc == 0, second.result().output
    assert hosts.recoveries("vm1") == [[event_id]]
    assert len(first.result().all(task="Record the start of preparing")) == 1
    assert second.result().all(task="Record the start of preparing") == []


def test_a_refused_acknowledgement_is_tried_again_and_shown_meanwhile(hosts_of):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=60)
    hosts.emulator.fault("status", status=400, vms=["vm1"], methods=["POST"])
    run = hosts.start()
    until(lambda: len(hosts.emulator.posts()) > 1 or not run.running, what="two refusals")
    until(lambda: "not acknowledged yet" in run.output or not run.running, what="the word of it")
    hosts.emulator.clear_faults()
    assert run.result().rc == 0, run.result().output
    assert len(approved_at(hosts.emulator, event_id)) == 1


def test_one_vm_under_two_names_is_dealt_with_once_and_the_other_name_fails(hosts_of):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=60)
    twin = hosts.inventory()["all"]["hosts"]["vm1"]
    run = hosts.run(host_vars={"twin": {**twin, "vm_directory": str(hosts.directory / "twin")}})
    assert run.rc == 2, run.output
    failed = run.one(task="Fail with what went wrong")
    assert "are the same VM, vm1" in failed["msg"]
    assert len(approved_at(hosts.emulator, event_id)) == 1


@pytest.fixture
def leaving(tmp_path):
    """Prepare tasks with a role, in which the role respond does not look, that takes the host out of the play."""
    (tmp_path / "leave" / "tasks").mkdir(parents=True)
    (tmp_path / "leave" / "tasks" / "main.yml").write_text("- ansible.builtin.meta: end_host")
    include = {"ansible.builtin.include_role": {"name": str(tmp_path / "leave")}}
    (tmp_path / "drain.yml").write_text(json.dumps([include]))
    return {"respond_prepare_tasks": str(tmp_path / "drain.yml")}


def test_a_host_that_leaves_the_play_in_a_role_of_its_prepare_tasks_holds_the_event(hosts_of, leaving):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60)
    run = hosts.run(host_vars={"vm2": leaving}, options=("-e", "respond_wait_timeout=12"))
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    [held] = result(run, "vm1")["held"]
    assert held["event_id"] == event_id
    assert held["reason"].startswith("vm2 has not prepared (vm2 has begun the phase prepare at 2")


RESPOND = "maintops.scheduled_events.respond"
OWN_PLAYS = [
    {"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.import_role": {"name": RESPOND, **tasks}}]}
    for tasks in ({}, {"tasks_from": "conclude"})
]


@pytest.mark.parametrize("playbook", [RESPOND, OWN_PLAYS], ids=["playbook", "own plays"])
def test_a_lone_host_that_leaves_the_play_in_a_role_of_its_prepare_tasks_fails_the_run(hosts_of, leaving, playbook):
    hosts = hosts_of("vm1")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", notice=AHEAD, started_for=60)
    run = hosts.run(playbook=playbook, host_vars={"vm1": leaving})
    assert run.rc == 2, run.output
    assert hosts.emulator.posts() == []
    summary = run.output.partition("Summary of 1 host:")[2]
    assert f"FAILED vm1: did not come to the end of prepare for Redeploy {event_id}: " in summary


@pytest.mark.parametrize("keywords", [{}, {"any_errors_fatal": True}], ids=["linear", "any_errors_fatal"])
def test_while_a_host_whose_preparation_failed_waits_the_others_prepare_for_new_events(hosts_of, keywords):
    hosts = hosts_of("vm1", "vm2", "vm3")
    failing = hosts.emulator.schedule("Redeploy", "vm1", "vm2", "vm3", notice=AHEAD)
    play = {"hosts": "all", "gather_facts": False, "roles": [{"role": RESPOND}], **keywords}
    run = hosts.start(playbook=[play], host_vars={"vm1": {"prepare_fails": True}})

    def has_failed():
        runs = hosts.remembered("vm1").get(failing.lower(), {"runs": {}})["runs"]
        return "failed" in [each["outcome"] for each in runs.values()]

    until(lambda: has_failed() or not run.running, what="the failure of vm1")
    second = hosts.emulator.schedule("Reboot", "vm2", notice=AHEAD, started_for=60)
    until(
        lambda: approved_at(hosts.emulator, second) or not run.running, what="the acknowledgement of the second event"
    )
    hosts.emulator.cancel(failing)
    finished = run.result()
    assert finished.rc == 2, finished.output
    assert [post[1] for post in hosts.emulator.posts()] == [[second]]
    assert (hosts.recoveries("vm3"), len(hosts.recoveries("vm2"))) == ([[failing]], 1)


def test_with_any_errors_fatal_a_failed_preparation_holds_the_event_and_hosts_come_back(hosts_of):
    hosts = hosts_of("vm1", "vm2", options=MANUAL)
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=900)
    play = {
        "hosts": "all",
        "gather_facts": False,
        "any_errors_fatal": True,
        "roles": [{"role": "maintops.scheduled_events.respond"}],
    }
    first = hosts.run(
        playbook=[play], host_vars={"vm2": {"prepare_fails": True}}, options=("-e", "respond_wait_timeout=12")
    )
    assert first.rc == 2, first.output
    assert hosts.emulator.posts() == []
    assert "no reason was given" not in first.output
    hosts.emulator.cancel(event_id)
    second = hosts.run(playbook=[play])
    assert second.rc == 0, second.output
    assert hosts.recoveries("vm1") == hosts.recoveries("vm2") == [[event_id]]


@pytest.mark.parametrize(("kind", "rc"), [({}, 2), ({"BREAKS_LIKE_SSH": "yes"}, 4)], ids=["failed", "unreachable"])
def test_the_summary_shows_what_became_of_a_host_that_was_given_up(hosts_of, kind, rc):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Reboot", "vm1", notice=AHEAD, started_for=AHEAD)
    run = hosts.start(
        host_vars={"vm1": {"ansible_connection": "breaks_once", "respond_reconnect_timeout": 1}},
        env={
            **kind,
            "BREAKS_BEFORE": "scheduled_events_turn",
            "BREAKS_AT": "4",
            "BREAKS_FOR_GOOD": "1",
            "BREAKS_MARKER": str(hosts.directory / "broken"),
        },
    ).result()
    assert run.rc == rc, run.output
    summary = run.output.partition("Summary of 2 hosts:")[2]
    assert f"Reboot {event_id}: acknowledged by vm1" in summary
    assert "FAILED vm1: lost, and not reached again (" in summary
    assert "no event: 1 host" in summary


BROKEN_TASKS = {
    "missing": None,
    "cut-off": "- name: [",
    "no-module": "- name: no module",
    "no-list": "not: a list",
    "unknown": "- no.such.module:",
}


def test_a_broken_tasks_file_fails_its_host_before_anything_is_prepared_and_no_other(hosts_of, tmp_path):
    hosts = hosts_of(*BROKEN_TASKS, "sound", options=MANUAL)
    ids = {name: hosts.emulator.schedule("Reboot", name, notice=900) for name in BROKEN_TASKS}
    paths = {name: tmp_path / f"{name}.yml" for name in BROKEN_TASKS}
    for name, content in BROKEN_TASKS.items():
        if content:
            paths[name].write_text(content)
    broken = {name: {"respond_recover_tasks": str(path)} for name, path in paths.items()}
    run = hosts.run(host_vars=broken, options=("--forks", "6"))
    assert run.rc == 2, run.output
    for name, event_id in ids.items():
        assert str(paths[name]) in run.one(host=name, task="Read the first step")["msg"]
        assert f"preparing-{event_id}" not in hosts.traces(name)
    assert ended(run, "sound").status == "ok"


def test_an_event_whose_moment_is_later_than_the_wait_is_left_to_the_next_run(hosts_of):
    hosts = hosts_of("vm1")
    hosts.emulator.schedule("Redeploy", "vm1", notice=86400)
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    window = {"days": [f"{later:%a}"], "from": "11:00", "to": "12:00", "timezone": "Europe/Berlin"}
    rules = [{"action": "prepare", "lead_time": 600, "windows": [window]}]
    run = hosts.run(playbook=[play_with_handler()], host_vars=with_handler("vm1", vm1={"respond_rules": rules}))
    assert run.rc == 0, run.output
    [held] = result(run, "vm1")["held"]
    assert re.fullmatch(r"waits until \S+ \(600 s before NotBefore\)", held["reason"])
    assert not (hosts.directory / "vm1" / "finished").exists()
