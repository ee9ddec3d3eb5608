# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate of a batch, over hosts that answer what a test says, and with a clock that only waiting moves."""

import types

import pytest

from plugins.module_utils._maintenance_calls import SURVEY, WITHDRAW
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._gate import gate as gates
from plugins.plugin_utils._gate.decision import GateError
from plugins.plugin_utils._gate.gate import Gate
from plugins.plugin_utils._gate.store import Store

HOSTS = ["web1", "web2", "web3"]
REBOOT = {
    "event_id": "A1",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "not_before": None,
    "resources": ["web1"],
    "affects_this_vm": True,
}


def answer(name, **more):
    """What the module finds on a host without anything special."""
    return {
        "marked": True,
        "problem": "",
        "mark": None,
        "unfinished": {},
        "unmarked_because": "",
        "drained": False,
        "drained_because": "",
        "returning": None,
        "vm_name": name,
        "events": [],
        "records": {},
        "boot_id": name,
        "waiting": [],
        **more,
    }


class Play:
    """The hosts of a play with one batch. ``asked``: the options that each host got, in their order."""

    def __init__(self, directory):
        self.store = Store(directory)
        self.answers = {name: answer(name) for name in HOSTS}
        self.asked, self.said, self.warned, self.now, self.at, self.ended = [], [], [], 1000.0, {}, False

    def gate(
        self, batch=("web1",), check_mode=False, active=tuple(HOSTS), tags=None, serial=(1,), order=None, **arguments
    ):
        play = types.SimpleNamespace(strategy="linear", _uuid="play", serial=list(serial), order=order)
        task = types.SimpleNamespace(check_mode=check_mode, get_play=lambda: play)
        known = {
            "inventory_hostname": batch[0],
            "ansible_play_hosts_all": HOSTS,
            "ansible_play_batch": list(batch),
            "ansible_play_hosts": list(active),
            "hostvars": {name: {} for name in HOSTS},
            **(tags or {}),
        }
        chosen = {
            "fleet": [],
            "checked_hosts": [],
            "allow_skip_tags": False,
            "hosts_without_traffic": None,
            "on_event": "wait",
            "settle": 0.0,
            "resume_within": 3600.0,
            "max_unavailable": "1",
            "maintenance_windows": [],
            "timeout": 600.0,
            "name": "patch",
            **arguments,
        }
        return Gate(types.SimpleNamespace(_task=task), known, chosen, self.store)

    def ask(self, hosts, options):
        made = {name: options(types.SimpleNamespace(name=name, options=lambda _table: {})) for name in hosts}
        self.asked += made.items()
        return {name: dict(self.answers[name]) for name in hosts}

    def sleep(self, seconds):
        assert 0.0 < seconds <= 1.0, "the end of the run would be seen late, or the wait keep the machine busy"
        self.now += max(seconds, 0.01)
        for moment in [each for each in self.at if each <= self.now]:
            self.at.pop(moment)()

    def steps(self, step, host="web1"):
        return [options for name, options in self.asked if name == host and options["step"] == step]


@pytest.fixture
def play(tmp_path, monkeypatch):
    made = Play(tmp_path)
    fleet = types.SimpleNamespace(ask=made.ask, longest=lambda hosts: 10.0 * len(hosts))
    monkeypatch.setattr(gates, "Fleet", lambda *_arguments: fleet)
    monkeypatch.setattr(gates, "names_of_maintenances", lambda *_, hosts, name, **_more: dict.fromkeys(hosts, name))
    monkeypatch.setattr(gates, "main_process_has_ended", lambda: made.ended)
    monkeypatch.setattr(gates, "show", made.said.append)
    monkeypatch.setattr(gates, "warn", made.warned.append)
    monkeypatch.setattr(gates, "CLOCK", Clock(wall=lambda: 0.0, monotonic=lambda: made.now, sleep=made.sleep))
    return made


def test_the_gate_opens_for_a_healthy_fleet_and_its_marks_stay(play):
    result = play.gate().wait()
    assert (result["open"], result["batch"], result["msg"]) == (True, ["web1"], "web1: goes ahead")
    assert play.steps(WITHDRAW) == []


@pytest.mark.parametrize(
    ("number", "fleet", "warns"),
    [("50", HOSTS, True), ("4", HOSTS, True), ("3", HOSTS, False), ("150%", HOSTS, False), ("2", HOSTS[:1], False)],
)
def test_a_number_above_that_of_the_hosts_causes_one_warning_in_a_play(play, number, fleet, warns):
    play.answers["web3"]["drained"] = True
    for host in HOSTS[:2]:
        play.gate(batch=[host], max_unavailable=number, fleet=fleet).wait()
    text = f"rolling_maintenance_max_unavailable is {number}, and the fleet has 3 hosts, so all of them may be "
    assert [each.startswith(text) for each in play.warned] == [True] * warns


def test_each_host_of_the_batch_learns_what_the_gate_decided(play):
    result = play.gate(batch=["web1", "web2"], max_unavailable="2").wait()
    assert [play.store.decision("play", host) for host in HOSTS] == [result, result, None]


def test_a_mark_lasts_a_minute_longer_than_a_look_and_only_the_own_hosts_get_one(play):
    play.gate().wait()
    assert [options.get("lease") for options in play.steps(SURVEY)] == [90.0]
    assert "owner" not in play.steps(SURVEY, "web2")[0]


def test_check_mode_marks_nothing_and_says_what_would_be(play):
    play.answers["web2"]["drained"] = True
    result = play.gate(check_mode=True).wait()
    assert (result["open"], result["msg"]) == (False, "web1: would wait for web2 (drained)")
    assert "owner" not in play.steps(SURVEY)[0]


def test_a_batch_waits_without_its_marks_until_the_others_are_back(play):
    play.answers["web2"]["drained"] = True
    play.at[1100.0] = lambda: play.answers["web2"].update(drained=False)
    assert play.gate().wait()["open"]
    assert play.said == ["web1: waits for web2 (drained)", "web1: goes ahead"]
    assert len(play.steps(WITHDRAW)) == len(play.steps(SURVEY)) - 1
    with play.store.open() as store:
        assert [wait["why"] for wait in store["rounds"]["play"]["web1"]["waits"]] == ["web2 (drained)"]


def test_the_settling_time_begins_with_the_end_of_an_event_whatever_else_the_batch_waits_for(play):
    play.answers["web2"]["events"] = [{**REBOOT, "resources": ["web2"]}]
    play.answers["web3"]["drained"] = True
    play.at[1100.0] = lambda: play.answers["web2"].update(events=[])
    play.at[1150.0] = lambda: play.answers["web3"].update(drained=False)
    assert play.gate(settle=200.0).wait()["open"]
    assert 1300.0 <= play.now < 1320.0  # the end is seen with the next look
    with play.store.open() as store:
        waits = [wait["why"] for wait in store["rounds"]["play"]["web1"]["waits"]]
    waited_for = ["web2 (Reboot Scheduled); web3 (drained)", "web3 (drained); the settling time", "the settling time"]
    assert waits == waited_for


def test_a_gate_says_which_file_of_a_host_it_cannot_read(play):
    play.answers["web2"].update(drained=True, drained_because="/state/load-balancer.json cannot be read")
    (reason,) = play.gate(check_mode=True).wait()["waits_for"]
    assert reason == "web2 (drained: /state/load-balancer.json cannot be read)"


@pytest.mark.parametrize(
    ("found", "balancer", "why"),
    [
        ({"returning": {"holder": "respond"}}, None, "is put back into its load balancer for respond"),
        ({}, ["web2"], "drained"),
        ({"events": None, "problem": "no document"}, [], "its events cannot be read: no document"),
    ],
)
def test_a_batch_waits_for_what_another_host_or_its_balancer_says(play, found, balancer, why):
    play.answers["web2"].update(found)
    (reason,) = play.gate(check_mode=True, hosts_without_traffic=balancer).wait()["waits_for"]
    assert reason == f"web2 ({why})"


def test_the_history_of_a_host_gets_the_last_ten_reasons_for_which_it_waited(play):
    for number in range(12):
        drained = f"reason {number}"
        play.at[1000.0 + 60 * number] = lambda why=drained: play.answers["web2"].update(
            drained=True, drained_because=why
        )
    play.at[1800.0] = lambda: play.answers["web2"].update(drained=False)
    play.answers["web2"]["drained"] = True
    assert play.gate(timeout=3600.0).wait()["open"]
    with play.store.open() as store:
        waits = store["rounds"]["play"]["web1"]["waits"]
    assert [each["why"] for each in waits] == [f"web2 (drained: reason {number})" for number in range(2, 12)]


@pytest.mark.parametrize("timeout", [600.0, 4.5])
def test_a_gate_that_stays_shut_for_its_timeout_fails_and_withdraws(play, timeout):
    play.answers["web2"] = {"problem": "no route", "unreachable": True}
    with pytest.raises(GateError, match=rf"stayed shut for {timeout:g} s: web1 waits for web2 \(cannot be reached\)"):
        play.gate(timeout=timeout).wait()
    assert play.now == pytest.approx(1000.0 + timeout)
    assert len(play.steps(WITHDRAW)) > 1


def test_a_host_that_was_reached_and_gave_no_answer_is_not_called_unreachable(play):
    play.answers["web2"] = {"problem": "no Python"}
    (reason,) = play.gate(check_mode=True).wait()["waits_for"]
    assert reason == "web2 (its events cannot be read: no Python)"


def test_a_run_that_was_killed_does_not_pass_the_gate(play):
    play.answers["web2"]["drained"] = True
    play.at[1001.0] = lambda: (play.answers["web2"].update(drained=False), setattr(play, "ended", True))
    with pytest.raises(GateError, match="was ended while the batch waited"):
        play.gate().wait()


def test_an_own_event_is_handed_to_the_role_once_and_without_marks(play):
    play.answers["web1"]["events"] = [REBOOT]
    result = play.gate(on_event="respond").wait()
    assert (result["open"], result["respond"]) == (False, ["web1"])
    assert len(play.steps(WITHDRAW)) == 1
    play.at[1100.0] = lambda: play.answers["web1"].update(events=[])
    assert play.gate(on_event="respond").wait()["open"]


def test_an_own_event_fails_the_batch_where_the_owner_wants_that(play):
    play.answers["web1"]["events"] = [REBOOT]
    with pytest.raises(GateError, match="rolling_maintenance_on_event is fail"):
        play.gate(on_event="fail").wait()
    assert len(play.steps(WITHDRAW)) == 1


def test_a_batch_that_waited_has_the_role_read_the_balancer_again(play):
    play.answers["web2"]["drained"] = True
    play.at[1010.0] = lambda: play.answers["web2"].update(drained=False)
    assert not play.gate(hosts_without_traffic=[]).wait()["open"]
    assert play.gate(hosts_without_traffic=[]).wait()["open"]


def test_a_host_that_the_operator_has_checked_does_not_count_as_left_unfinished_for_one_look(play):
    left = {"owner": "elsewhere/run/web2", "by": {}, "stage": "held", "age": 9.0, "lease": 1.0, "live": False}
    play.answers["web2"]["mark"] = left
    assert not play.gate(check_mode=True).wait()["open"]
    assert play.gate(check_mode=True, checked_hosts=["web2"]).wait()["open"]
    assert not play.gate(check_mode=True, checked_hosts=["web2"]).wait()["open"]


def test_only_a_host_that_the_operator_has_checked_learns_that_it_was(play):
    play.gate(checked_hosts=["web2"]).wait()
    assert [play.steps(SURVEY, host)[0]["checked"] for host in HOSTS] == [False, True, False]


def marked(owner="controller2/run/web1", *, stage="held", **by):
    return {"owner": owner, "by": by, "stage": stage, "age": 9.0, "lease": 99.0, "live": True}


def test_the_mark_of_a_run_that_is_not_known_to_be_dead_keeps_the_gate_shut(play):
    play.answers["web2"]["mark"] = marked(node="controller2", pid=7)
    (reason,) = play.gate(check_mode=True).wait()["waits_for"]
    assert reason == "web2 (under maintenance by another run (controller2, process 7))"
    assert all("ended_owners" not in options for _host, options in play.asked)


def test_a_host_that_shows_the_mark_of_another_host_as_dead_gives_no_mark_away(play, monkeypatch):
    monkeypatch.setattr(gates, "is_dead", lambda by: by["pid"] == 7)
    play.answers["web1"].update(marked=False, mark=marked("run/web2", node="controller1", pid=7))
    play.answers["web2"].update(marked=False, mark=marked("run/web2", node="controller1", pid=8))
    with pytest.raises(GateError, match=r"web2 \(under maintenance by another run"):
        play.gate(batch=["web1", "web2"], max_unavailable="2", timeout=1.0).wait()
    assert [options["ended_owners"] for options in play.steps(SURVEY, "web1")[:2]] == [[], ["run/web2"]]
    assert not any(options["ended_owners"] for options in play.steps(SURVEY, "web2"))


def test_the_mark_of_a_run_that_is_known_to_be_dead_is_taken_over_on_the_hosts_of_the_batch(play, monkeypatch):
    monkeypatch.setattr(gates, "is_dead", lambda by: by["pid"] == 7)
    play.answers["web1"].update(marked=False, mark=marked(stage="asking", node="controller1", pid=7))
    play.answers["web3"]["mark"] = marked("controller1/other/web3", stage="asking", node="controller1", pid=7)
    assert play.gate().wait()["open"]
    assert [options["ended_owners"] for options in play.steps(SURVEY)] == [[], ["controller2/run/web1"]]


def test_a_host_that_can_keep_no_mark_shuts_the_gate_for_its_own_batch_alone(play):
    play.answers["web2"]["unmarked_because"] = "its disk is full"
    assert play.gate().wait()["open"]
    with pytest.raises(GateError, match="its disk is full"):
        play.gate(batch=("web2",), timeout=1.0).wait()


def test_check_mode_takes_no_mark_over(play, monkeypatch):
    monkeypatch.setattr(gates, "is_dead", lambda _by: True)
    play.answers["web1"].update(marked=False, mark=marked(stage="asking", node="controller1", pid=7))
    assert play.gate(check_mode=True).wait()["open"]
    assert len(play.steps(SURVEY)) == 1


def test_a_host_that_is_left_out_for_its_event_is_named(play):
    play.answers["web1"]["events"] = [REBOOT]
    result = play.gate(on_event="skip").wait()
    assert result["msg"] == "web1: nothing to do (web1 is left out, for its event)"


@pytest.mark.parametrize(
    ("option", "expected"),
    [("fleet", "hosts of the inventory"), ("checked_hosts", "hosts of the fleet or of the play")],
)
def test_names_that_no_host_has_are_refused(play, option, expected):
    with pytest.raises(GateError, match=f"rolling_maintenance_{option} names wbe2, expected {expected}. Correct"):
        play.gate(**{option: ["web1", "wbe2"]}).wait()
    assert play.asked == []


def test_a_limit_that_leaves_out_hosts_of_the_play_is_refused_unless_a_fleet_is_named(play, monkeypatch):
    monkeypatch.setattr(gates, "left_out_by_limit", lambda _action, _variables: ["web4"])
    with pytest.raises(GateError, match=r"--limit leaves out web4, so the .* Set rolling_maintenance_fleet"):
        play.gate().wait()
    assert play.asked == []
    assert play.gate(fleet=HOSTS).wait()["open"]


def test_a_later_batch_that_is_too_large_is_refused_before_any_host_is_reached(play):
    with pytest.raises(GateError, match=r"The batch has 2 hosts of the fleet \(web2, web3\), but .* allows 1 of 3"):
        play.gate(serial=[1, "67%"]).wait()
    assert play.asked == []


def test_a_host_that_the_fleet_names_twice_counts_once(play):
    with pytest.raises(GateError, match=r"The batch has 2 hosts of the fleet \(web1, web2\), but .* allows 1 of 3"):
        play.gate(batch=["web1", "web2"], fleet=[*HOSTS, *HOSTS], max_unavailable="34%").wait()
    play.answers["web3"]["drained"] = True
    assert play.gate(fleet=[*HOSTS, *HOSTS], max_unavailable="2").wait()["open"]


def test_the_batches_of_a_play_that_orders_its_hosts_itself_are_judged_when_they_come(play):
    assert play.gate(serial=[1, 2], order="shuffle").wait()["open"]


def test_no_host_is_taken_down_after_one_was_lost(play):
    play.gate().wait()
    with pytest.raises(GateError, match="web1 failed or was lost, so no further host is taken down"):
        play.gate(batch=("web2",), active=("web2", "web3")).wait()


def test_a_batch_that_waits_long_has_the_role_read_the_balancer_again_without_marks(play):
    play.answers["web2"]["drained"] = True
    result = play.gate(hosts_without_traffic=[]).wait()
    assert (result["open"], result["waits_for"]) == (False, ["web2 (drained)"])
    assert 1060.0 <= play.now < 1090.0
    assert len(play.steps(WITHDRAW)) >= len(play.steps(SURVEY))


@pytest.mark.parametrize(("timeout", "seconds"), [(600.0, 60), (4000.0, 100)])  # for a minute, or a fortieth
def test_a_batch_that_insists_keeps_its_mark_until_the_role_reads_the_balancer_again(play, timeout, seconds):
    play.answers["web2"]["mark"] = marked("~later/run/web2", stage="asking")
    assert not play.gate(hosts_without_traffic=[], timeout=timeout).wait()["open"]
    assert (play.now, len(play.steps(SURVEY)), len(play.steps(WITHDRAW))) == (1000.0 + seconds, seconds, 1)


def test_a_run_without_some_tags_does_not_count_as_the_whole_maintenance(play):
    gate = play.gate(tags={"ansible_skip_tags": ["slow"]})
    assert gate.wait()["in_part"] == "--skip-tags slow"
    with play.store.open() as store:
        assert store["rounds"]["play"]["web1"]["name"] == "patch --skip-tags slow"


def test_a_run_without_some_tags_counts_as_a_whole_one_where_the_owner_says_so(play):
    assert play.gate(tags={"ansible_skip_tags": ["slow"]}, allow_skip_tags=True).wait()["in_part"] == ""
    with play.store.open() as store:
        assert store["rounds"]["play"]["web1"]["name"] == "patch"


def test_a_host_that_was_done_before_is_named_and_left_out(play):
    done = {"round": "r1", "hosts": HOSTS, "since_begin": 50.0, "age": 10.0}
    play.answers["web1"]["records"] = {"patch": done}
    result = play.gate(batch=("web1", "web2"), max_unavailable="2").wait()
    assert (result["batch"], result["done"], result["msg"]) == (["web2"], ["web1"], "web2: goes ahead (web1 is done)")


def test_what_a_host_warns_of_is_shown_once(play):
    play.answers["web2"]["remarks"] = ["vm_name is wrong"]
    play.answers["web3"]["events"] = [{**REBOOT, "resources": ["web3"]}]
    play.at[1030.0] = lambda: play.answers.update(web3=answer("web3"))
    play.gate().wait()
    assert play.warned.count("web2: vm_name is wrong") == 1


def test_an_event_that_another_fleet_of_the_run_has_seen_is_not_over_for_this_one(play):
    play.answers["web2"]["events"] = [{**REBOOT, "resources": ["web2"]}]
    play.gate(batch=("web2",), fleet=["web2"], on_event="skip").wait()
    play.answers["web2"]["events"] = []
    play.gate(batch=("web3",), fleet=["web3"], settle=60.0).wait()
    assert not [line for line in play.said if "since an event has ended" in line]
