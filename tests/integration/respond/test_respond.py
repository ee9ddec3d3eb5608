# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role respond, with hosts that are all on this machine and an emulator that shares nothing with it."""

import json

import pytest
from emulation import until
from responders import AHEAD, TASKS, approved_at, cancel_once_waited_for, ended, removed_at, result

from playbooks import ADDRESSED

DANGEROUS = "{{ 7 * 7 }} $(touch owned) ; `id`"


class Story:
    """One run over several events at once. No NotBefore comes near while it runs."""

    def __init__(self, hosts):
        self.hosts, self.emulator = hosts, hosts.emulator
        announce = self.emulator.schedule
        self.pair = announce("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60, description=DANGEROUS)
        self.single = announce("Freeze", "vm3", notice=AHEAD, started_for=60)
        self.failing = announce("Reboot", "vm4", "vm5", notice=AHEAD)
        self.stranger = announce("Reboot", "vm6", "elsewhere", notice=AHEAD, started_for=60)
        self.neighbour = announce("Reboot", "elsewhere", notice=AHEAD)
        self.unled = announce("Reboot", "vm7", "vm8", notice=AHEAD, started_for=60)
        self.started = announce("Reboot", "vm9", direct_started=True, started_for=AHEAD)
        self.emulator.fault("status", status=400, vms=["vm7"], methods=["POST"])
        run = hosts.start(
            [f"vm{number}" for number in range(1, 11)],
            host_vars={"vm5": {"prepare_fails": True}},
            options=("--forks", "10"),
        )
        cancel_once_waited_for(self.emulator, self.failing, run, "vm4", "vm5", "vm6", "vm9")
        self.emulator.complete(self.started)
        self.emulator.cancel(self.stranger)
        self.run = run.result()
        self.posts = self.emulator.posts()


@pytest.fixture(scope="module")
def story(hosts_of):
    return Story(hosts_of(*[f"vm{number}" for number in range(1, 11)], "elsewhere"))


@pytest.mark.core
def test_an_event_is_acknowledged_once_from_one_of_its_hosts_after_all_of_them_have_prepared(story):
    [at] = approved_at(story.emulator, story.pair)
    [(sender, ids, status)] = [post for post in story.posts if story.pair in post[1]]
    assert sender in ("vm1", "vm2")
    assert (ids, status) == ([story.pair], 200)
    assert max(story.hosts.prepared_at(name, story.pair) for name in ("vm1", "vm2")) < at


@pytest.mark.core
def test_each_event_is_acknowledged_for_itself(story):
    assert [post for post in story.posts if story.single in post[1]] == [("vm3", [story.single], 200)]


@pytest.mark.core
def test_a_host_recovers_once_after_its_event_is_over(story):
    for name, event_id in (("vm1", story.pair), ("vm2", story.pair), ("vm3", story.single)):
        assert story.hosts.recoveries(name) == [[event_id]]
        assert story.hosts.recovered_at(name) > removed_at(story.emulator, event_id)
        assert story.hosts.remembered(name) == {}


@pytest.mark.core
def test_a_host_whose_prepare_fails_keeps_the_event_unacknowledged_and_fails_at_the_end(story):
    assert story.run.rc == 2
    assert not [post for post in story.posts if story.failing in post[1]]
    assert result(story.run, "vm4")["held"] == [{"event_id": story.failing, "reason": "vm5 failed to prepare"}]
    task = f'the task "Fail on the hosts that are to fail" ({TASKS / "prepare.yml"}:11)'
    failure = f"vm5: prepare failed for Reboot {story.failing}: {task} failed: the drain did not end"
    failed = story.run.one(task="Fail with what went wrong")
    assert (failed.host, " ".join(failed["msg"].split())) == ("vm5", failure)


@pytest.mark.core
def test_hosts_of_an_unacknowledged_event_recover_when_it_is_withdrawn(story):
    assert story.hosts.recoveries("vm4") == story.hosts.recoveries("vm5") == [[story.failing]]


@pytest.mark.core
def test_a_vm_outside_the_play_holds_the_event_and_the_report_names_the_way_out(story):
    assert not [post for post in story.posts if story.stranger in post[1]]
    [held] = result(story.run, "vm6")["held"]
    assert held["event_id"] == story.stranger
    assert held["reason"].startswith("elsewhere is not a host of this play; ")
    assert "respond_speak_for" in held["reason"]
    assert held["reason"] in story.run.output


def test_with_the_owners_word_an_event_is_acknowledged_for_a_vm_outside_the_play(hosts_of):
    hosts = hosts_of("vm1", "elsewhere")
    event_id = hosts.emulator.schedule("Reboot", "vm1", "elsewhere", notice=AHEAD, started_for=60)
    run = hosts.run(["vm1"], options=("-e", '{respond_speak_for: "other, ELSEWHERE"}'))
    assert run.rc == 0, run.output
    assert hosts.emulator.posts() == [("vm1", [event_id], 200)]


def test_a_host_waits_for_an_event_that_azure_has_published_until_its_metadata_service_shows_it(hosts_of):
    hosts = hosts_of("vm1")
    event_id = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
    published = {"event_id": event_id.lower(), "event_status": "Scheduled", "resources": ["vm1"]}
    run = hosts.start(["vm1"], options=("-e", json.dumps({"respond_published_events": [published]})))
    until(lambda: hosts.emulator.polls("vm1")["polls"])
    hosts.emulator.schedule("Reboot", "vm1", event_id=event_id, notice=AHEAD, started_for=60)
    finished = run.result()
    assert finished.rc == 0, finished.output
    assert hosts.emulator.posts() == [("vm1", [event_id], 200)]
    assert result(finished, "vm1")["held"] == []


@pytest.mark.core
def test_an_event_of_other_vms_alone_is_left_alone(story):
    assert not [post for post in story.posts if story.neighbour in post[1]]


@pytest.mark.core
def test_another_host_acknowledges_where_one_cannot(story):
    posts = [post for post in story.posts if story.unled in post[1]]
    assert [vm for vm, _ids, status in posts if status == 200] == ["vm8"]
    assert story.hosts.recoveries("vm7") == story.hosts.recoveries("vm8") == [[story.unled]]


@pytest.mark.core
def test_a_started_event_runs_its_tasks_is_not_acknowledged_and_recovered_from(story):
    assert story.hosts.traces("vm9") == ["recovered", f"started-{story.started}"]
    assert story.hosts.recoveries("vm9") == [[story.started]]
    assert not [post for post in story.posts if story.started in post[1]]


@pytest.mark.core
def test_a_host_without_an_event_does_nothing(story):
    assert story.hosts.traces("vm10") == []
    assert not [task for task in story.run.all(host="vm10") if task.result.get("changed")]


@pytest.mark.core
def test_event_text_is_never_evaluated(story):
    told = json.loads((story.hosts.directory / "vm1" / f"preparing-{story.pair}").read_text())
    assert told["event"]["description"] == DANGEROUS


@pytest.mark.core
def test_check_mode_shows_what_would_happen_and_does_none_of_it(hosts_of):
    hosts = hosts_of("vm1", "vm2", options=("--manual-clock", "--rate-limit", "0"))
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=900)
    run = hosts.run(check=True)
    assert run.rc == 0, run.output
    assert sorted(result(run, name)["acknowledged"] for name in ("vm1", "vm2")) == [[], [event_id]]
    assert len(run.all(task="Record the end of preparing")) == 2
    assert hosts.emulator.posts() == []
    assert [path for path in hosts.directory.rglob("*") if path.is_file()] == []


def test_an_unreachable_host_that_the_event_may_name_holds_it(hosts_of):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD)
    lost = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    started = hosts.start(host_vars={"vm2": lost})
    cancel_once_waited_for(hosts.emulator, event_id, started, "vm1")
    run = started.result()
    assert run.rc == 4
    assert hosts.emulator.posts() == []
    assert result(run, "vm1")["held"] == [
        {"event_id": event_id, "reason": "vm2 may be one of the hosts that have not answered: vm2"}
    ]


@pytest.mark.core
def test_a_host_that_is_lost_while_it_prepares_holds_its_event_and_no_other(hosts_of):
    hosts = hosts_of("vm1", "vm2", "vm3")
    pair = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD)
    single = hosts.emulator.schedule("Redeploy", "vm3", notice=AHEAD, started_for=60)
    started = hosts.start(host_vars={"vm2": {"prepare_loses_it": True}}, options=("-e", "respond_phase_timeout=20"))
    until(lambda: f"preparing-{pair}" in hosts.traces("vm2") or not started.running, what="the beginning in vm2")
    cancel_once_waited_for(hosts.emulator, pair, started, "vm1", "vm3")
    run = started.result()
    assert run.rc == 4, run.output
    assert hosts.emulator.posts() == [("vm3", [single], 200)]
    [held] = result(run, "vm1")["held"]
    assert held["event_id"] == pair
    assert held["reason"].startswith("vm2 has not prepared (vm2 has begun the phase prepare at 2")
    assert hosts.recoveries("vm1") == [[pair]]
    assert hosts.remembered("vm2")[pair.lower()]["runs"]["prepare"]["outcome"] == "running"  # for the next run


class Lost:
    """One run over hosts that are lost at different moments; each has a separate event."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.ids = {
            name: hosts.emulator.schedule("Reboot", name, notice=AHEAD, started_for=60)
            for name in hosts.emulator.endpoints
            if name != "deleted"
        }
        self.ids["deleted"] = hosts.emulator.schedule("Preempt", "deleted", notice=AHEAD, started_for=AHEAD)
        self.markers = {name: hosts.directory / f"{name}-broken" for name in self.ids}
        self.run = hosts.run(
            host_vars={
                "second": self._breaks("second", 2),  # to acknowledge
                "third": self._breaks("third", 3),  # in the wait
                "fourth": self._breaks("fourth", 4),  # after the recovery
                "afterwards": self._breaks("afterwards", 2, breaks_afterwards="yes"),
                "deleted": self._breaks("deleted", 4, breaks_for_good="yes"),
                "silent": {"ansible_connection": "hangs_once"},
            },
            options=("--forks", "10"),
            env={"HANGS_MARKER": str(self.markers["silent"])},
        )

    def _breaks(self, name, call, **more):
        return {
            "ansible_connection": "breaks_once",
            "breaks_before": "scheduled_events_turn",
            "breaks_at": call,
            "breaks_marker": str(self.markers[name]),
            **more,
        }

    def posts(self, name):
        return [post for post in self.hosts.emulator.posts() if post[0] == name]


@pytest.fixture(scope="module")
def lost(hosts_of):
    return Lost(hosts_of("second", "third", "fourth", "afterwards", "deleted", "silent"))


@pytest.mark.parametrize(("name", "call"), [("second", 2), ("third", 3), ("fourth", 4)])
def test_a_host_that_reboots_is_waited_for_in_every_phase(lost, name, call):
    assert lost.markers[name].stat().st_size > call
    assert lost.run.rc == 0, lost.run.output
    assert lost.hosts.recoveries(name) == [[lost.ids[name]]]
    assert lost.posts(name) == [(name, [lost.ids[name]], 200)]


def test_a_host_that_reboots_right_after_it_has_acknowledged_is_waited_for(lost):
    assert lost.run.rc == 0, lost.run.output
    assert result(lost.run, "afterwards")["acknowledged"] == [lost.ids["afterwards"]]
    assert lost.hosts.recoveries("afterwards") == [[lost.ids["afterwards"]]]


def test_a_run_does_not_wait_for_a_preempted_vm_that_was_deleted(lost):
    assert lost.run.rc == 0, lost.run.output
    assert lost.posts("deleted") == [("deleted", [lost.ids["deleted"]], 200)]
    assert ended(lost.run, "deleted")["summary"].endswith("has deleted the VM")


def test_a_host_that_is_silent_while_its_connection_stays_open_is_reached_again(lost):
    assert lost.run.rc == 0, lost.run.output
    assert "silent: lost (no answer within" in lost.run.output
    assert lost.hosts.recoveries("silent") == [[lost.ids["silent"]]]


def test_a_host_acknowledges_through_its_own_connection_when_addresses_are_made_from_names(hosts_of, tmp_path):
    hosts = hosts_of("vm1", "vm2")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", notice=AHEAD, started_for=60)
    log = tmp_path / "addressed"
    run = hosts.start(
        host_vars=dict.fromkeys(hosts.emulator.endpoints, ADDRESSED), env={"ADDRESSED_LOG": str(log)}
    ).result()
    assert run.rc == 0, run.output
    assert len(approved_at(hosts.emulator, event_id)) == 1
    calls = [line.split()[0] for line in log.read_text().splitlines() if line.endswith("scheduled_events_turn")]
    assert set(calls) == {"at-vm1", "at-vm2"}


def test_an_event_that_follows_closely_is_prepared_before_the_host_recovers(hosts_of):
    hosts = hosts_of("vm1")
    first = hosts.emulator.schedule("Freeze", "vm1", notice=AHEAD, started_for=AHEAD)
    run = hosts.start()
    until(lambda: approved_at(hosts.emulator, first), what="the first acknowledgement")
    second = hosts.emulator.schedule("Freeze", "vm1", notice=AHEAD, started_for=60)
    hosts.emulator.complete(first)
    assert run.result().rc == 0, run.result().output
    assert len(approved_at(hosts.emulator, second)) == 1
    assert hosts.recoveries("vm1") == [sorted([first, second])]


def test_a_run_that_was_killed_is_finished_by_the_next_one(hosts_of):
    hosts = hosts_of("vm1", options=("--manual-clock", "--rate-limit", "0"))
    event_id = hosts.emulator.schedule("Reboot", "vm1", notice=900)
    (hosts.directory / "vm1" / "hold").touch()
    run = hosts.start()
    until(lambda: f"preparing-{event_id}" in hosts.traces("vm1"), what="the prepare tasks")
    run.stop()
    (hosts.directory / "vm1" / "hold").unlink()
    assert hosts.remembered("vm1")[event_id.lower()]["runs"]["prepare"]["outcome"] == "running"
    hosts.emulator.cancel(event_id)
    finished = hosts.run()
    assert finished.rc == 0, finished.output
    assert hosts.recoveries("vm1") == [[event_id]]
    assert hosts.remembered("vm1") == {}


@pytest.mark.core
def test_it_works_with_the_linear_strategy_in_a_play_of_ones_own_that_keeps_to_throttle(hosts_of):
    hosts = hosts_of("vm1", "vm2", "vm3")
    event_id = hosts.emulator.schedule("Redeploy", "vm1", "vm2", "vm3", notice=AHEAD, started_for=60)
    play = {
        "hosts": "all",
        "gather_facts": False,
        "vars": {"prepare_lock": str(hosts.directory / "lock")},  # fails in a second host at the same time
        "roles": [{"role": "maintops.scheduled_events.respond"}],
    }
    run = hosts.run(playbook=[play])
    assert run.rc == 0, run.output
    assert [post[1:] for post in hosts.emulator.posts()] == [([event_id], 200)]
    assert [hosts.recoveries(name) for name in ("vm1", "vm2", "vm3")] == [[[event_id]]] * 3
