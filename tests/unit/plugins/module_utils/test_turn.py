# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns of one host, with a service and a clock that the test holds."""

import contextlib
import errno
import json
import os
import types

import pytest

from plugins.module_utils._respond import request as turn_request
from plugins.module_utils._respond import turn as turns
from plugins.module_utils._scheduled_events.checks import WrongValue
from plugins.module_utils._scheduled_events.client import BadAnswer, NoAnswer, NotAllowed, Refused
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.document import parse
from plugins.module_utils._scheduled_events.engine import MOST_EVENTS
from plugins.module_utils._scheduled_events.files import LOCK_FILE, Changed, Folder
from plugins.module_utils._scheduled_events.history_file import PRESENT, read

NOW = 1600000000.0
ID, OTHER_ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123", "51941B56-8080-45AC-81AE-8BDA818F5958"
IN_300, IN_1200 = "Sun, 13 Sep 2020 12:31:40 GMT", "Sun, 13 Sep 2020 12:46:40 GMT"

CLAIM = {"event_id": ID, "event_type": "Reboot", "names": ["vm1"]}


def event(event_id=ID, kind="Reboot", status="Scheduled", resources=("vm1",), not_before=IN_1200):
    return {
        "EventId": event_id,
        "EventType": kind,
        "EventStatus": status,
        "Resources": list(resources),
        "NotBefore": not_before,
    }


class Service:
    """What the client of the library does, with the events that the test gives."""

    def __init__(self):
        self.events, self.posts = [], []
        self.errors, self.refusals = [], []  # a call raises the first one
        self.refused_documents = []  # before an acknowledgement; each of them once
        self.compute, self.asked_compute = None, 0
        self.timeouts = []  # of each poll, None where the client has its own

    def poll(self, request_timeout=None):
        self.timeouts.append(request_timeout)
        assert len(self.timeouts) < 1000, "the turns do not end"
        for error in self.errors:
            raise error
        return parse(json.dumps({"DocumentIncarnation": 1, "Events": self.events}), api_version="2020-07-01")

    fetch = poll

    def retry(self, attempt):
        if self.refused_documents:
            raise self.refused_documents.pop()
        return attempt()

    def poll_compute(self, request_timeout):
        self.asked_compute += request_timeout > 0
        if self.compute is None:
            raise NoAnswer("no answer")
        return self.compute

    def approve(self, event_ids):
        self.posts.append(list(event_ids))
        for refusal in self.refusals:
            raise refusal


class Host:
    """One host, and runs that take turns on it."""

    def __init__(self, directory):
        self.service = Service()
        self.directory = directory
        self.wall, self.slept, self.on_sleep = NOW, 0, None
        self.markers = {}
        self.name = "vm1"

    def sleep(self, seconds):
        self.wall += max(seconds, 0.01)
        if self.on_sleep:
            self.on_sleep()

    def turn(self, run="run1", outcome=None, options=None, check_mode=False, folder=None, **request):
        """A turn; ``first`` follows from whether the run has had one."""
        values = {name: option.get("default") for name, option in turn_request.OPTIONS.items()}
        values.update(state_directory=str(self.directory), prepare_tasks="/drain.yml", started_tasks="/started.yml")
        values.update(options or {}, outcome=outcome)
        request.setdefault("first", run not in self.markers)
        request.setdefault("known", self.markers.get(run, ""))
        asked = turn_request.TurnRequest(run=run, host="web1", owner={"pid": 1}, monotonic=self.wall - NOW, **request)
        clock = Clock(lambda: self.wall, lambda: self.wall, self.sleep)
        turn = turns.Turn(self.service, self.name, values, asked, check_mode=check_mode, clock=clock, folder=folder)
        shown = turn.take()
        if shown["next"] != "locked":
            self.markers[run] = shown["marker"]
        return shown

    def phase(self, shown, ok=True, reason="", run="run1", **request):
        """End a phase and take the next turn."""
        return self.turn(run, outcome={"request_ids": shown["request_ids"], "ok": ok, "reason": reason}, **request)

    def files(self):
        """The files that the roles remember something in."""
        return sorted(set(os.listdir(str(self.directory))) - {PRESENT, LOCK_FILE}) if self.directory.exists() else []

    def facts(self):
        return read(str(self.directory), now=self.wall).facts


@pytest.fixture
def host(tmp_path):
    """A host that one event concerns."""
    host = Host(tmp_path / "state")
    host.service.events = [event()]
    return host


def test_a_host_without_events_is_done_at_once_and_leaves_nothing(host):
    host.service.events = []
    assert host.turn(slice=60)["next"] == "done"
    assert host.files() == []


def test_the_way_of_an_event(host):
    shown = host.turn()
    assert (shown["next"], [each["event_id"] for each in shown["events"]], shown["ready"]) == ("prepare", [ID], [])
    shown = host.phase(shown)
    assert (shown["next"], shown["ready"], shown["prepared"]) == ("wait", [ID], [ID])
    shown = host.turn(acknowledge=[CLAIM])
    assert (shown["next"], shown["ready"], shown["acknowledged"]) == ("wait", [], [ID])
    assert host.service.posts == [[ID]]
    host.service.events = []
    shown = host.turn()
    assert (shown["next"], [each["event_id"] for each in shown["events"]]) == ("recover", [ID])
    assert [each["text"] for each in shown["story"]] == ["over"]
    assert host.phase(shown)["next"] == "done"
    assert host.files() == []


@pytest.mark.parametrize(
    ("not_before", "text"), [(IN_1200, "acknowledged 1200 s before NotBefore"), ("", "acknowledged")]
)
def test_the_story_says_how_long_before_not_before_an_event_was_acknowledged(host, not_before, text):
    host.service.events = [event(not_before=not_before)]
    host.phase(host.turn())
    assert host.turn(acknowledge=[CLAIM])["story"][-1]["text"] == text


def test_a_phase_may_take_a_week(host):
    host.turn()
    following = []
    for seconds in (7 * 24 * 3600 + 29, 1):
        host.wall += seconds
        following.append(host.turn()["next"])
    assert following == ["prepare", "wait"]


def test_the_story_begins_with_how_an_event_was_seen(host):
    assert host.turn()["story"][0]["text"] == "seen as Scheduled"


def test_an_event_without_an_id_is_reported_and_not_acknowledged(host):
    host.service.events = [event(event_id="")]
    assert host.turn()["problems"] == [
        "an event of this VM has no EventId, so it can be neither prepared nor acknowledged"
    ]
    assert host.service.posts == []


def test_a_hint_is_passed_on_once_also_over_several_runs_and_is_not_waited_for(host):
    host.service.events = [event(kind="SpotRebalanceRecommendation", status="Advisory")]
    advised = {"advised_tasks": "/checkpoint.yml"}
    shown = host.turn(options=advised)
    assert (shown["next"], [each["event_id"] for each in shown["events"]]) == ("advised", [ID])
    shown = host.phase(shown, options=advised)
    assert (shown["next"], [each["text"] for each in shown["story"]]) == ("done", ["advised"])
    assert host.turn("run2", options=advised)["next"] == "done"
    host.service.events = []
    assert host.turn("run3", options=advised)["next"] == "done"
    assert host.files() == []
    assert host.service.posts == []


def test_a_hint_without_advised_tasks_is_left_alone(host):
    host.service.events = [event(kind="SpotRebalanceRecommendation", status="Advisory")]
    shown = host.turn(options={"load_balancer": True})
    assert (shown["next"], shown["ready"], shown["sight"]) == ("done", [], [])
    assert host.files() == []


@pytest.mark.parametrize("status", ["Paused", None])
def test_an_event_with_an_unknown_status_is_waited_for_and_neither_prepared_for_nor_acknowledged(host, status):
    host.service.events = [event(status=status)]
    shown = host.turn(options={"rules": [{"action": "approve"}]})
    assert (shown["next"], shown["ready"], shown["sight"]) == ("wait", [], [])


NO_WORK = {"prepare_tasks": "", "load_balancer": False}


def test_an_event_for_which_nothing_is_configured_that_prepares_is_left_to_its_not_before(host):
    shown = host.phase(host.turn(options=NO_WORK), options=NO_WORK, acknowledge=[CLAIM])
    assert (shown["next"], shown["ready"], shown["prepared"]) == ("wait", [], [])
    assert [each["condition"] for each in shown["waiting"]] == ["nothing prepares"]
    assert [each["text"] for each in shown["story"]] == ["has nothing configured that prepares for it"]
    assert host.service.posts == []


def test_what_prepares_only_in_a_later_run_prepares_then(host):
    host.phase(host.turn(options=NO_WORK), options=NO_WORK)
    shown = host.turn("run2", abandoned="run1")
    assert shown["next"] == "prepare"
    shown = host.phase(shown, run="run2", acknowledge=[CLAIM])
    assert shown["acknowledged"] == [ID]


def test_a_preparation_that_an_interrupted_run_left_is_not_taken_for_a_vm_that_went_down(host):
    host.turn()
    host.service.events = []
    shown = host.turn("run2", abandoned="run1")
    assert shown["next"] == "recover"
    reason = "the VM went down, or the run was interrupted, before they had ended"
    assert f"prepare failed: {reason}" in [each["text"] for each in shown["story"]]


def test_a_preparation_of_an_earlier_run_counts_where_nothing_is_configured_any_more(host):
    host.phase(host.turn())
    shown = host.turn("run2", abandoned="run1", options=NO_WORK)
    assert (shown["next"], shown["ready"], shown["prepared"]) == ("wait", [ID], [ID])


NIGHTS = {"days": ["Sun"], "from": "12:40", "to": "12:45"}  # NOW is 12:26:40


def test_an_event_waits_for_the_moment_that_its_rule_chooses_over_several_runs(host):
    options = {"rules": [{"action": "prepare", "lead_time": "60", "windows": [NIGHTS]}]}
    shown = host.turn(options=options)
    [waiting] = shown["waiting"]
    assert (shown["next"], waiting["waits_until"]) == ("wait", NOW + 800)
    assert waiting["detail"] == "waits until 2020-09-13T12:40:00Z (window Sun 12:40 to 12:45 UTC)"
    assert host.turn("run2", options=options, abandoned="run1")["next"] == "wait"
    host.wall = NOW + 801
    shown = host.turn("run3", options=options, abandoned="run2")
    assert shown["next"] == "prepare"
    assert host.phase(shown, run="run3", options=options)["ready"] == [ID]


def test_an_event_that_waits_is_left_alone_where_the_vm_has_another_name_now(host):
    options = {"rules": [{"action": "prepare", "lead_time": "60"}]}
    assert host.turn(options=options)["next"] == "wait"
    host.name = "new"
    assert host.turn("run2", options=options, abandoned="run1")["next"] == "done"
    assert host.files() == []


def test_an_event_of_a_former_name_is_over_once_and_when_it_is_announced_to_no_name(host):
    host.phase(host.turn())
    host.name = "new"
    stories = [host.turn()["story"]]
    host.service.events = []
    stories.append(host.turn()["story"])
    assert ["over" in [each["text"] for each in story] for story in stories] == [False, True]


def test_a_host_whose_window_has_closed_does_not_count_as_prepared(host):
    options = {"rules": [{"action": "prepare", "lead_time": "60", "windows": [NIGHTS]}]}
    host.wall = NOW + 1095
    shown = host.turn(options=options)
    host.wall = NOW + 1101
    shown = host.phase(shown, options=options)
    assert (shown["next"], shown["ready"], shown["prepared"]) == ("wait", [], [])
    assert host.turn("run2", options=options, abandoned="run1")["ready"] == []
    host.wall = NOW + 1141  # the lead time
    shown = host.turn("run2", options=options)
    assert (shown["ready"], shown["prepared"]) == ([ID], [ID])


def test_a_held_event_is_prepared_for_when_a_phase_may_take_the_time_that_is_left(host):
    options = {"rules": [{"action": "hold"}], "phase_timeout": 600.0}
    assert [each["waits_until"] for each in host.turn(options=options)["waiting"]] == [NOW + 1200 - 615]


@pytest.mark.parametrize(
    ("action", "phase", "decision", "ready"),
    [("prepare", "prepare", "prepare", True), ("approve", "wait", "approve", True), ("hold", "prepare", "hold", False)],
)
def test_a_rule_decides(host, action, phase, decision, ready):
    host.service.events = [event(not_before=IN_300)]
    options = {"rules": [{"action": action}]}
    shown = host.turn(options=options)
    assert (shown["next"], [each["decision"] for each in shown["waiting"]]) == (phase, [decision])
    if phase == "prepare":
        shown = host.phase(shown, options=options)
    assert shown["ready"] == ([ID] if ready else [])
    host.turn(options=options, acknowledge=[CLAIM])
    assert host.service.posts == ([[ID]] if ready else [])


def test_an_ignored_event_is_reported_as_one_that_names_the_host(host):
    host.service.events = [event(), event(event_id=""), event("A2", resources=("vm2",))]
    shown = host.turn(options={"rules": [{"action": "ignore"}]})
    assert (shown["next"], shown["waiting"], shown["named"]) == ("done", [], [ID])


def test_an_event_is_acknowledged_in_the_turn_that_takes_its_outcome(host):
    shown = host.phase(host.turn(), acknowledge=[CLAIM])
    assert (shown["next"], shown["ready"], shown["acknowledged"]) == ("wait", [], [ID])
    assert [each["text"] for each in shown["story"]][:1] == ["prepared"]
    assert host.service.posts == [[ID]]


def test_nothing_is_acknowledged_in_the_turn_that_takes_a_failed_outcome(host):
    shown = host.phase(host.turn(), acknowledge=[CLAIM], ok=False, reason="no")
    assert (shown["next"], shown["unprepared"]) == ("wait", [ID])
    assert host.service.posts == []


def test_nothing_is_acknowledged_on_a_host_that_another_run_has_taken_over(host):
    host.phase(host.turn())
    host.turn("run2", abandoned="run1")
    assert host.turn(acknowledge=[CLAIM])["next"] == "locked"
    assert host.service.posts == []


def test_an_event_without_a_type_is_acknowledged_as_what_it_was_prepared_for(host):
    host.service.events = [event(kind=None)]
    host.phase(host.turn())
    assert host.turn(acknowledge=[{**CLAIM, "event_type": ""}])["acknowledged"] == [ID]


def test_nothing_is_acknowledged_that_is_not_prepared(host):
    shown = host.turn()
    host.turn(acknowledge=[CLAIM])
    shown = host.phase(shown, ok=False, reason="no")
    host.turn(acknowledge=[CLAIM])
    assert host.service.posts == []
    assert (shown["next"], shown["unprepared"]) == ("wait", [ID])


def test_a_phase_without_an_outcome_is_handed_out_again(host):
    first = host.turn()
    again = host.turn(outcome={"request_ids": ["of another phase"], "ok": True, "reason": ""})
    assert (again["next"], again["request_ids"]) == ("prepare", first["request_ids"])


def test_a_phase_that_was_silent_for_days_has_not_failed_and_is_handed_out_again(host):
    host.service.events = [event(not_before="")]
    host.turn()
    host.wall += 6 * 24 * 3600
    shown = host.turn()
    assert shown["next"] == "prepare"
    assert host.phase(shown)["prepared"] == [ID]


def test_one_phase_runs_at_a_time_and_the_earliest_not_before_is_first(host):
    host.service.events = [event(), event(OTHER_ID, not_before=IN_300)]
    shown = host.turn()
    assert [each["event_id"] for each in shown["events"]] == [OTHER_ID]
    shown = host.phase(shown)
    assert (shown["next"], [each["event_id"] for each in shown["events"]], shown["ready"]) == (
        "prepare",
        [ID],
        [OTHER_ID],
    )


def test_events_that_are_over_are_recovered_from_together(host):
    host.service.events = [event(), event(OTHER_ID)]
    host.phase(host.phase(host.turn()))
    host.service.events = []
    shown = host.turn()
    assert (shown["next"], sorted(each["event_id"] for each in shown["events"])) == ("recover", sorted([ID, OTHER_ID]))
    assert host.phase(shown)["next"] == "done"


def test_a_wait_ends_as_soon_as_another_event_comes(host):
    shown = host.phase(host.turn())
    assert shown["next"] == "wait"

    def preempt():
        if host.wall > NOW + 5:
            host.service.events = [event(), event(OTHER_ID, "Preempt", not_before=IN_300)]

    host.on_sleep = preempt
    shown = host.turn(slice=600.0)
    assert (shown["next"], [each["event_id"] for each in shown["events"]]) == ("prepare", [OTHER_ID])
    assert host.wall < NOW + 10


def test_a_wait_polls_once_a_second_and_ends_with_its_slice(host):
    host.phase(host.turn())
    host.service.timeouts.clear()
    assert host.turn(slice=30.0)["next"] == "wait"
    assert NOW + 30 <= host.wall < NOW + 32
    assert len(host.service.timeouts) == 31
    assert host.turn("run2")["lease"]["seconds"] == 120.0


def test_a_turn_without_a_slice_looks_once(host):
    host.phase(host.turn())
    host.service.timeouts.clear()
    assert host.turn(slice=0.0)["next"] == "wait"
    assert (len(host.service.timeouts), host.wall) == (1, NOW)


class Contested(Folder):
    """A directory that others change so often, while something is read and written."""

    def __init__(self, path, times):
        super().__init__(path)
        self.times, self.refused = times, 0

    @contextlib.contextmanager
    def guarded(self, *arguments, **options):
        with super().guarded(*arguments, **options):
            yield
        if self.refused < self.times:
            self.refused += 1
            raise Changed("another run has changed the files")


def test_a_step_is_taken_again_where_others_have_written_meanwhile(host):
    host.service.events, folder = [event()], Contested(host.directory, times=4)
    assert host.turn(folder=folder)["next"] == "prepare"
    assert folder.refused == 4


def test_a_step_that_others_interrupt_again_and_again_is_given_up(host):
    host.service.events, folder = [event()], Contested(host.directory, times=9)
    with pytest.raises(Changed, match="another run has changed the files"):
        host.turn(folder=folder)
    assert folder.refused == 5


def test_an_outage_in_a_later_turn_changes_nothing_and_keeps_the_outcome(host):
    shown = host.turn()
    host.service.errors = [NoAnswer("no answer")]
    shown = host.phase(shown, slice=3.0)
    assert (shown["next"], shown["sight"], shown["problems"]) == ("wait", None, ["no answer"])
    host.service.errors = []
    assert host.turn()["ready"] == [ID]


def test_a_flood_of_events_in_the_first_turn_is_an_error_and_in_a_later_one_an_outage(host):
    flood = [event(f"A{number}") for number in range(MOST_EVENTS + 1)]
    reason = f"the document announces {len(flood)} more events of this VM, and {{}} others are not over yet"
    host.service.events = flood
    with pytest.raises(BadAnswer, match=reason.format(0)):
        host.turn()
    host.service.events = [event()]
    shown = host.turn()
    host.service.events = flood
    shown = host.phase(shown, slice=3.0)
    assert (shown["next"], shown["sight"], shown["named"]) == ("wait", None, [])
    (problem,) = shown["problems"]
    assert problem.startswith(reason.format(1))
    host.service.events = [event()]
    assert host.turn()["ready"] == [ID]


def test_only_the_first_answer_of_a_run_may_take_as_long_as_enabling_the_service(host):
    host.phase(host.turn())
    assert host.service.timeouts == [None, 30.0]


def test_an_outage_after_the_first_answer_of_the_first_turn_changes_nothing_either(host):
    host.phase(host.turn())

    def fail():
        host.service.errors = [NoAnswer("no answer")]

    host.on_sleep = fail
    shown = host.turn("run2", abandoned="run1", known=host.markers["run1"], slice=3.0)
    assert (shown["next"], shown["sight"], shown["problems"]) == ("wait", None, ["no answer"])


def test_no_other_run_takes_the_host_while_an_acknowledgement_is_under_way(host):
    host.phase(host.turn())
    leases = []
    host.service.approve = lambda _ids: leases.append(host.turn("run2")["lease"]["seconds"])
    assert host.turn(acknowledge=[CLAIM])["acknowledged"] == [ID]
    assert leases == [600.0]


def test_the_first_contact_of_a_run_decides(host):
    host.service.errors = [NoAnswer("no answer")]
    with pytest.raises(NoAnswer):
        host.turn(slice=60.0)


def test_a_refused_acknowledgement_is_ready_again_after_a_pause(host):
    host.phase(host.turn())
    host.service.refusals = [Refused("answered 400", status=400)]
    shown = host.turn(acknowledge=[CLAIM])
    assert (shown["ready"], shown["acknowledged"]) == ([], [])
    assert "answered 400" in shown["problems"][0]
    host.service.refusals = []
    shown = host.turn(slice=60.0)
    assert shown["ready"] == [ID]
    assert host.turn(acknowledge=[CLAIM])["acknowledged"] == [ID]


def test_a_service_that_is_closed_during_a_run_is_an_outage_and_nothing_is_over(host):
    host.phase(host.turn())
    host.service.events, host.service.errors = [], [NotAllowed("closed")]
    shown = host.turn()
    assert (shown["next"], shown["problems"]) == ("wait", ["closed"])


def test_a_service_that_is_closed_when_a_run_begins_is_an_error(host):
    host.service.errors = [NotAllowed("closed")]
    with pytest.raises(NotAllowed):
        host.turn()


def test_a_document_that_is_refused_before_an_acknowledgement_is_not_a_refused_acknowledgement(host):
    other = {**CLAIM, "event_id": OTHER_ID}
    host.service.events = [event(), event(OTHER_ID)]
    host.phase(host.phase(host.turn()))
    host.service.refused_documents = [Refused("answered 403", status=403)]
    assert host.turn(acknowledge=[CLAIM, other])["acknowledged"] == []
    assert host.turn(slice=60.0)["ready"] == [ID, OTHER_ID]
    host.turn(acknowledge=[CLAIM, other])
    assert host.service.posts == [[ID, OTHER_ID]]


def test_a_prepared_event_that_the_control_node_does_not_name_is_not_acknowledged_with_another_one(host):
    host.service.events = [event(), event(OTHER_ID)]
    host.phase(host.phase(host.turn()))
    assert host.turn(acknowledge=[CLAIM])["acknowledged"] == [ID]
    assert host.service.posts == [[ID]]


def test_an_acknowledgement_agrees_with_the_document_read_right_before(host):
    host.phase(host.turn())
    host.service.events = [event(kind="Redeploy")]
    shown = host.turn(acknowledge=[CLAIM])
    assert host.service.posts == []
    assert shown["next"] == "prepare"


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (["vm1"], {"resources": ["vm1", "vm2"]}, "for a Reboot of vm1, and it is a Reboot of vm1, vm2 now"),
        (["vm1"], {"resources": ["vm2", "vm1"]}, "for a Reboot of vm1, and it is a Reboot of vm1, vm2 now"),
        (["vm1", "vm2"], {"resources": ["vm1"]}, "for a Reboot of vm1, vm2, and it is a Reboot of vm1 now"),
        (["vm1", "vm2"], {"resources": ["vm1, vm2", "vm1"]}, "for a Reboot of vm1, vm2, and it is a Reboot of"),
    ],
    ids=["grew", "has another leader", "shrank", "a name that looks like two"],
)
def test_an_event_that_names_other_vms_than_the_play_has_prepared_for_is_answered_and_not_sent(host, before, now, text):
    host.service.events = [event(resources=before)]
    shown = host.turn()
    host.service.events = [event(**now)]
    claim = {**CLAIM, "names": before}
    shown = host.phase(shown, acknowledge=[claim])
    assert (host.service.posts, shown["acknowledged"], shown["next"]) == ([], [], "wait")
    assert text in shown["problems"][0]
    assert shown["sight"][0]["names"] == now["resources"]
    shown = host.turn(slice=60.0)
    assert shown["ready"] == [ID]
    assert host.turn(acknowledge=[{**CLAIM, "names": now["resources"]}])["acknowledged"] == [ID]


def test_an_event_that_grows_between_two_attempts_to_send_is_not_sent_again(host):
    host.phase(host.turn())

    def grow(event_ids):
        host.service.posts.append(event_ids)
        host.service.events = [event(resources=["vm1", "vm2"])]
        raise Refused("answered 400", status=400)

    host.service.approve = grow
    host.turn(acknowledge=[CLAIM])
    assert host.service.posts == [[ID]]


def test_a_claim_for_another_type_is_answered_and_not_sent(host):
    host.phase(host.turn())
    shown = host.turn(acknowledge=[{**CLAIM, "event_type": "Freeze"}])
    assert (host.service.posts, shown["acknowledged"]) == ([], [])
    assert "for a Freeze of vm1, and it is a Reboot of vm1 now" in shown["problems"][0]


@pytest.mark.parametrize("resources", [["VM1"], ["vm1", "VM1"]])
def test_names_in_another_case_are_the_same(host, resources):
    shown = host.turn()
    host.service.events = [event(resources=resources)]
    assert host.phase(shown, acknowledge=[CLAIM])["acknowledged"] == [ID]


def test_a_phase_of_a_run_that_died_begins_again_in_the_next_one(host):
    dead = host.turn()
    shown = host.turn("run2", abandoned="run1")
    assert shown["next"] == "prepare"
    assert shown["request_ids"] != dead["request_ids"]


def test_what_a_run_prepared_counts_in_the_next_one(host):
    host.phase(host.turn())
    assert host.turn("run2", abandoned="run1")["ready"] == [ID]


def test_what_failed_in_one_run_begins_again_in_the_next_one(host):
    host.phase(host.turn(), ok=False)
    assert host.turn("run2", abandoned="run1")["next"] == "prepare"


def test_a_recovery_that_failed_ends_the_run_and_begins_again_in_the_next_one(host):
    host.phase(host.turn())
    host.service.events = []
    shown = host.phase(host.turn(), ok=False, reason="no")
    assert shown["next"] == "done"
    assert host.turn("run2")["next"] == "recover"


def test_another_run_is_kept_out_while_a_phase_runs_and_learns_its_owner(host):
    host.turn()
    shown = host.turn("run2", slice=30.0)
    assert (shown["next"], shown["lease"]["run"], shown["lease"]["owner"]) == ("locked", "run1", {"pid": 1})


def test_the_lease_of_a_run_that_is_not_known_to_be_dead_expires(host):
    host.turn(options={"phase_timeout": 900})
    host.wall += 890
    assert host.turn("run2", slice=1.0)["next"] == "locked"
    host.wall += 20
    assert host.turn("run2")["next"] == "prepare"


def test_a_run_that_lost_its_lease_takes_no_step(host):
    mine = host.turn()
    host.turn("run2", abandoned="run1")
    assert host.phase(mine)["next"] == "locked"


def test_a_host_that_is_done_is_free_for_another_run(host):
    host.phase(host.turn(), ok=False)
    host.service.events = []
    host.phase(host.turn(), ok=False)
    assert host.turn("run2")["next"] == "recover"


def test_a_started_event_is_answered_and_not_acknowledged(host):
    host.service.events = [event(status="Started", not_before="")]
    shown = host.turn()
    assert shown["next"] == "started"
    assert host.phase(shown)["ready"] == []


def test_a_started_event_for_which_there_is_nothing_to_do_is_left_alone(host):
    host.service.events = [event(status="Started", not_before="")]
    assert host.turn(options={"started_tasks": ""}, slice=60.0)["next"] == "done"
    assert host.files() == []


def test_only_events_of_the_types_that_were_asked_for_count(host):
    host.service.events = [event(), event(OTHER_ID, "Freeze")]
    shown = host.turn(options={"rules": [{"event_types": ["freeze"], "action": "prepare"}, {"action": "ignore"}]})
    assert [each["event_id"] for each in shown["events"]] == [OTHER_ID]
    assert [each["event_id"] for each in shown["sight"]] == [OTHER_ID]


def test_a_plan_posts_and_keeps_nothing(host):
    shown = host.turn(check_mode=True)
    assert shown["next"] == "prepare"
    shown = host.phase(shown, check_mode=True, state=shown["state"])
    assert shown["ready"] == [ID]
    shown = host.turn(check_mode=True, state=shown["state"], acknowledge=[CLAIM])
    assert shown["acknowledged"] == [ID]
    shown = host.turn(check_mode=True, state=shown["state"], assume_over=True)
    assert shown["next"] == "recover"
    assert "over" not in [each["text"] for each in shown["story"]]
    ended = host.phase(shown, check_mode=True, state=shown["state"], assume_over=True)
    assert (ended["next"], ended["story"][-1]["text"]) == ("done", "would be recovered")
    assert (host.service.posts, host.files()) == ([], [])


def test_a_maintenance_of_the_host_goes_first_while_not_before_is_far(host):
    host.directory.mkdir()
    mark = host.directory / "maintenance-under-way"
    mark.touch()
    os.utime(str(mark), (NOW, NOW))
    host.service.events = [event(not_before=IN_300)]
    assert host.turn()["next"] == "wait"
    host.wall = NOW + 245
    assert host.turn()["next"] == "prepare"


def test_a_stale_mark_of_a_maintenance_does_not_count(host):
    host.directory.mkdir()
    mark = {
        "owner": "a",
        "by": {},
        "stage": "held",
        "lease": 60,
        "unfinished": {},
        "at": {"wall": NOW - 61, "monotonic": 1, "boot_id": "b"},
    }
    (host.directory / "maintenance-under-way").write_text(json.dumps(mark))
    assert host.turn()["next"] == "prepare"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"version": 99, "events": {}}'])
def test_a_memory_that_cannot_be_read_stops_the_run_and_stays_as_it_is(host, text):
    host.directory.mkdir()
    (host.directory / "respond.json").write_text(text)
    with pytest.raises(WrongValue, match=r"respond\.json"):
        host.turn()
    assert (host.directory / "respond.json").read_text() == text


def test_a_turn_shows_which_resource_the_vm_is_if_it_is_asked_to_and_an_event_concerns_it(host):
    compute = {"subscriptionId": "s", "resourceGroupName": "shop", "name": "vm1", "vmScaleSetName": ""}
    host.service.compute = {**compute, "customData": "secret"}
    host.service.events = []
    assert "compute" not in host.turn(compute=True)
    host.service.events = [event()]
    assert "compute" not in host.turn()
    assert host.service.asked_compute == 0
    assert host.turn(compute=True)["compute"] == compute


def test_a_service_that_does_not_say_which_resource_the_vm_is_holds_nothing_up(host):
    shown = host.turn(compute=True)
    assert (shown["next"], shown["compute"]) == ("prepare", {})


def words(facts):
    return [" ".join(filter(None, [fact.kind, fact.phase, fact.outcome])) for fact in facts]


def test_a_maintenance_leaves_its_history_on_the_host(host):
    shown = host.phase(host.turn(), acknowledge=[CLAIM])
    host.service.events = []
    host.phase(host.turn())
    assert words(host.facts()) == [
        "seen",
        "phase_began prepare",
        "phase_ended prepare ok",
        "acknowledged",
        "over",
        "phase_began recover",
        "phase_ended recover ok",
        "returned",
    ]
    assert shown["acknowledged"] == [ID]
    assert {(fact.source, fact.vm_name, fact.event_id, fact.run) for fact in host.facts()} == {
        ("respond", "vm1", ID, "run1")
    }


def test_the_control_node_gets_the_facts_of_each_turn_once(host):
    shown = host.turn()
    assert [fact["kind"] for fact in shown["facts"]] == ["seen", "phase_began"]
    assert [fact["kind"] for fact in host.phase(shown)["facts"]] == ["phase_ended"]


def test_a_response_within_a_rolling_maintenance_names_it_as_the_source(host):
    host.turn(options={"within_maintenance": True})
    assert {fact.source for fact in host.facts()} == {"rolling_maintenance"}


def test_a_history_that_cannot_be_written_fails_no_turn_and_is_reported(host):
    (host.directory / PRESENT).mkdir(parents=True)
    shown = host.turn()
    assert shown["next"] == "prepare"
    assert shown["problems"][0].startswith(f"the history in {host.directory} cannot be written: ")


def test_check_mode_leaves_no_history(host):
    host.turn(check_mode=True)
    assert host.facts() == ()


def test_a_mark_of_a_maintenance_that_cannot_be_read_counts_as_one(host):
    (host.directory / "maintenance-under-way").mkdir(parents=True)
    assert host.turn()["next"] == "wait"


def test_a_field_of_an_event_that_cannot_be_read_is_a_problem_of_the_turn(host):
    host.service.events = [event(not_before="soon")]
    (problem,) = host.turn()["problems"]
    assert "NotBefore" in problem


def test_an_acknowledgement_without_not_before_is_told_without_its_time(host):
    host.service.events = [event(not_before="")]
    shown = host.phase(host.turn(), acknowledge=[CLAIM])
    assert [each["text"] for each in shown["story"]] == ["prepared", "acknowledged"]


@pytest.fixture
def module(host):
    """The module with the values of a control node, as ImdsModule gives it."""
    values = {name: option.get("default") for name, option in turn_request.OPTIONS.items()}
    values.update(state_directory=str(host.directory), prepare_tasks="/drain.yml", outcome=None)
    values["control_node"] = {"run": "run1", "host": "web1", "owner": {"pid": 1}, "monotonic": 1.0}
    return types.SimpleNamespace(
        params=values,
        client=host.service,
        clock=Clock(lambda: host.wall, lambda: host.wall, host.sleep),
        module=types.SimpleNamespace(check_mode=False),
        vm_name=lambda: "vm1",
    )


def test_the_module_returns_its_turn_and_reports_no_change(module):
    shown = turns.take_turn(module)
    assert (shown["next"], shown["changed"]) == ("prepare", False)


@pytest.mark.parametrize("missing", [None, {}])
def test_the_module_without_its_action_plugin_is_refused(module, missing):
    module.params["control_node"] = missing
    with pytest.raises(WrongValue, match="Call the module by its full name"):
        turns.take_turn(module)


@pytest.mark.parametrize(("known", "own"), [("vm2", False), ("", True), ("VM1", True)])
def test_a_name_that_the_control_node_knows_saves_the_question_to_the_service(module, known, own):
    module.params["control_node"]["vm_name"] = known
    assert (turns.take_turn(module)["next"] == "prepare") is own


def test_a_turn_that_fails_gives_the_reason_to_the_task(host, module):
    host.directory.mkdir()
    (host.directory / "respond.json").write_text("{")
    with pytest.raises(WrongValue, match=r"respond\.json: .*This version of the role does not write such a file"):
        turns.take_turn(module)


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EACCES, "Permission denied: '/var/lib/maintops'. Become root, or give the file to this user"),
        (errno.EROFS, "Read-only file system: '/var/lib/maintops'. Name a directory that can be written"),
        (errno.ENOTDIR, "Not a directory: '/var/lib/maintops'. Name a directory that can be written"),
        (errno.EEXIST, "File exists: '/var/lib/maintops'. Name a directory that can be written"),
        (errno.EIO, "Input/output error: '/var/lib/maintops'"),
    ],
)
def test_a_state_that_cannot_be_kept_says_what_to_do(module, monkeypatch, number, remedy):
    def fail(_self):
        raise OSError(number, os.strerror(number), "/var/lib/maintops")

    monkeypatch.setattr("plugins.module_utils._scheduled_events.files.Folder.make", fail)
    with pytest.raises(WrongValue) as caught:
        turns.take_turn(module)
    assert str(caught.value) == f"[Errno {number}] {remedy}"
