# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts that cannot be written wait, in limited number, and are written when that works again."""

import os

import pytest
from _scheduled_events.clock import Clock
from _scheduled_events.history import Fact
from _scheduled_events.history_file import read
from scheduled_events_poller.unit.display import MOST_WAITING, PAUSE, Recorder

pytestmark = pytest.mark.edge

NOW = 1600000000.0


def a_fact(number=0):
    return Fact("seen", NOW, "poller", event_id=f"event-{number}")


@pytest.fixture
def elapsed():
    """The monotonic time, in a list."""
    return [0.0]


@pytest.fixture
def recorder(tmp_path, elapsed):
    made = Recorder(Clock(wall=lambda: NOW, monotonic=lambda: elapsed[0]))
    made.open(str(tmp_path))
    return made


@pytest.fixture
def obstacle(tmp_path):
    path = str(tmp_path / "history.jsonl")
    os.mkdir(path)
    return path


def kept(tmp_path):
    return [fact.event_id for fact in read(str(tmp_path), now=NOW).facts]


def test_facts_wait_until_they_can_be_written_and_keep_their_order(recorder, elapsed, obstacle, tmp_path):
    recorder.record([a_fact(1)])
    assert "cannot be written: " in recorder.problem
    os.rmdir(obstacle)
    elapsed[0] = PAUSE
    recorder.try_again()
    recorder.record([a_fact(2)])
    assert (kept(tmp_path), recorder.problem) == (["event-1", "event-2"], "")


def test_writing_is_tried_again_after_a_pause(recorder, elapsed, obstacle, tmp_path):
    recorder.record([a_fact()])
    os.rmdir(obstacle)
    elapsed[0] = PAUSE - 1
    recorder.try_again()
    assert kept(tmp_path) == []


@pytest.mark.usefixtures("obstacle")
def test_of_too_many_facts_that_wait_the_oldest_are_lost(recorder, obstacle, tmp_path):
    recorder.record([a_fact(number) for number in range(MOST_WAITING)])
    recorder.record([a_fact(MOST_WAITING)])
    os.rmdir(obstacle)
    recorder.record([a_fact(MOST_WAITING + 1)])
    assert (kept(tmp_path)[0], len(kept(tmp_path))) == ("event-2", MOST_WAITING)


def test_a_directory_that_cannot_be_used_is_a_problem_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    made = Recorder(Clock())
    made.open(str(tmp_path / "file" / "history"))
    assert made.problem.startswith(f"the history in {tmp_path}/file/history cannot be written: ")
