# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file of a VM, cut at every byte, as a disk can leave it: nothing ends a program, and each loss is shown."""

import json
import os

import pytest
from _scheduled_events import condition, engine, terms
from _scheduled_events.clock import Clock, Moment
from _scheduled_events.document import parse
from _scheduled_events.history import Fact, line_of
from _scheduled_events.history_file import append, read
from _scheduled_events.state import State, StateFile, dump
from receiver import message
from scheduled_events_poller.notify import delivery_status
from scheduled_events_poller.notify.memory import EventMemory
from scheduled_events_poller.notify.messages import UNREADABLE, MessageSpool, SpoolError
from scheduled_events_poller.root import jobs, runner
from scheduled_events_poller.root.dispatcher import Dispatcher
from scheduled_events_poller.spool import RunResult, format_request, format_result, parse_result
from scheduled_events_poller.unit import effects, status
from scheduled_events_poller.unit.config import Settings

ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
NOW = Moment(1600000000.0, 1000.0, "boot")
CONFIG = terms.Config("vm1", frozenset(["prepare", "recover"]))
STEP = 1 if os.environ.get("TIER") == "soak" else 11  # bytes between two cuts of what takes long to read
RUN = f"{ID.lower()}.prepare.7"
PREPARED = [
    Fact(kind, NOW.wall - 10, "poller", vm_name="vm1", boot_id="boot", event_id=ID, event_type="Reboot", **more)
    for kind, more in [
        ("seen", {"event_status": "Scheduled"}),
        ("phase_began", {"phase": "prepare", "run": RUN}),
        ("phase_ended", {"phase": "prepare", "run": RUN, "outcome": "ok"}),
    ]
]


def cuts(content):
    return [content[:length] for length in range(len(content))]


def write(path, content):
    with open(str(path), "wb") as file:
        file.write(content)


def prepared_state():
    raw = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    document = parse(json.dumps({"Events": [raw]}), api_version="2020-07-01")
    return engine.step(State(serial=6), document, [], NOW, CONFIG)[0]


@pytest.fixture
def fast_disk(tmp_path, monkeypatch):
    """A directory with thousands of writes."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    (tmp_path / "history").mkdir()
    return tmp_path


@pytest.fixture
def state_file(fast_disk):
    return StateFile(str(fast_disk / "state.json"))


def begin(state_file):
    """The state with which a unit begins, and how the unit is rated once it has read an empty document."""
    history = os.path.join(os.path.dirname(state_file.path), "history")
    begun = effects.first_state(state_file, history, now=NOW, hook_timeout=600.0)
    polls = status.Polls("vm1", last_success=NOW.wall)
    known = status.describe(
        status.View(NOW.wall, Settings(endpoint="http://127.0.0.1:9"), begun, CONFIG, polls, None, 0.0, "", ""),
        unrecorded="",
    )
    return begun, status.judge(known, NOW.wall)[0], known["maintenance_pending"]


@pytest.mark.parametrize(("facts", "code"), [([], status.UNKNOWN), (PREPARED, status.WARNING)])
def test_a_unit_whose_state_was_cut_begins_and_shows_that_something_is_lost(state_file, tmp_path, facts, code):
    write(tmp_path / "history" / "history.jsonl", b"".join(map(line_of, facts)))
    text = dump(prepared_state()).encode()
    for cut in cuts(text.rstrip())[::STEP]:
        write(state_file.path, cut)
        begun, rated, pending = begin(state_file)
        assert (rated, pending) == (code, True), cut
        assert [condition.condition(begun, key, CONFIG).kind for key in begun.events] == (
            [condition.RECOVERY_FAILED] if facts else []
        )


def test_a_unit_that_lost_its_state_never_counts_a_vm_as_returned_by_a_history_that_was_cut(state_file, tmp_path):
    lines = [line_of(fact) for fact in PREPARED]
    began = len(lines[0]) + len(lines[1]) - 1  # without its newline
    for cut in cuts(b"".join(lines)):
        write(tmp_path / "history" / "history.jsonl", cut)
        begun, rated, _pending = begin(state_file)
        owed = [key for key in begun.events if condition.condition(begun, key, CONFIG).kind.trouble]
        assert owed == ([ID.lower()] if len(cut) >= began else []), cut
        assert (rated == status.OK) == (not owed)
        for name in os.listdir(str(tmp_path)):
            if name.startswith("state.json"):
                os.unlink(str(tmp_path / name))


def test_a_fact_is_added_to_a_history_that_was_cut_and_only_the_cut_line_is_missing(fast_disk):
    path, history = fast_disk / "history" / "history.jsonl", str(fast_disk / "history")
    whole = b"".join(map(line_of, PREPARED))
    for cut in cuts(whole):
        write(path, cut)
        append(history, [PREPARED[0]._replace(kind="over")], now=NOW.wall)
        found = read(str(fast_disk / "history"), now=NOW.wall)
        assert found.facts[-1].kind == "over"
        assert len(found.facts) - 1 in (cut.count(b"\n"), cut.count(b"\n") + 1)
        assert len(found.problems) <= 1


def test_a_request_that_was_cut_ends_as_a_failure(root_side):
    text = format_request(root_side.job())
    for cut in cuts(text):
        root_side.leave_text(cut)
        Dispatcher(root_side.directories, lambda _ids: pytest.fail("it was started")).look()
        assert root_side.result().outcome == "failed", cut
        os.unlink(os.path.join(root_side.directories.results, root_side.run_id))
        assert (root_side.requests(), root_side.jobs()) == ([], [])


def test_a_job_that_was_cut_ends_as_a_failure_and_runs_no_hook(root_side):
    root_side.add_hook("#!/bin/sh\necho ran >&2\nexit 0\n")
    text = format_request(root_side.job())
    for cut in cuts(text)[::STEP]:
        write(os.path.join(root_side.directories.jobs, root_side.run_id), cut)
        assert runner.run(root_side.run_id, root_side.directories) == 0
        assert root_side.result().outcome == "failed", cut
        os.unlink(os.path.join(root_side.directories.results, root_side.run_id))


def test_new_times_of_a_job_that_were_cut_change_nothing(root_side):
    root_side.accept()
    for cut in cuts(format_request(root_side.job(timeout=1.0))):
        write(os.path.join(root_side.directories.jobs, root_side.run_id + jobs.REVISION), cut)
        assert jobs.revision(root_side.directories, root_side.run_id) is None, cut


def test_a_result_that_was_cut_is_none():
    for cut in cuts(format_result(RunResult(RUN, "ok", "", 1.5))):
        assert parse_result(cut, RUN) is None, cut


def test_a_message_that_was_cut_is_given_up_and_counted(tmp_path):
    spool = MessageSpool(str(tmp_path))
    content = json.dumps(message()).encode()
    spool.put(content, message()["id"], "ops", max_messages=9)
    [entry] = spool.entries()
    for cut in cuts(content):
        write(tmp_path / "messages" / entry.file, cut)
        with pytest.raises(SpoolError):
            spool.read(entry)
    spool.give_up(entry, UNREADABLE)
    assert spool.losses()["ops"][UNREADABLE] == 1


def test_losses_that_were_cut_are_still_shown_as_losses(tmp_path):
    spool = MessageSpool(str(tmp_path), clock=Clock(wall=lambda: NOW.wall))
    spool.put(b"{}", message()["id"], "ops", max_messages=9)
    spool.give_up(spool.entries()[0], UNREADABLE)
    with open(str(tmp_path / "losses.json"), "rb") as file:
        content = file.read()
    for cut in cuts(content):
        write(tmp_path / "losses.json", cut)
        shown = delivery_status.describe([], spool, error="")
        assert delivery_status.judge({**shown, "time": NOW.wall}, NOW.wall)[0], cut


def test_a_memory_of_jobs_that_was_cut_makes_no_older_job_count_and_forgets_none(tmp_path):
    variables = {"SCHEDULED_EVENT_FIRST_RUN": RUN, "SCHEDULED_EVENT_RUN": RUN, "SCHEDULED_EVENT_UNDONE": "false"}
    event = {"event_id": ID, "event_type": "Reboot"}
    memory = EventMemory(str(tmp_path), event, variables)
    memory.set(after=5, job=7, running=7)
    with open(str(tmp_path / ID.lower()), "rb") as file:
        content = file.read()
    for cut in cuts(content):
        write(tmp_path / ID.lower(), cut)
        found = EventMemory(str(tmp_path), event, variables)
        assert (found.after, found.may_run) == (None, True), cut
