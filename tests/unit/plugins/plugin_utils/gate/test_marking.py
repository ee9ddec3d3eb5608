# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The marks of a host during its maintenance, in the order in which a run sets them."""

import types

import pytest

from plugins.module_utils._maintenance_calls import DONE, FAILED, HOLD, NOTE
from plugins.plugin_utils._gate import marking
from plugins.plugin_utils._gate.decision import GateError
from plugins.plugin_utils._gate.store import Store

PASSED = {"id": "r1", "name": "patch", "hosts": ["web1", "web2"], "began": 900.0, "waits": []}


class Run:
    """A run with one host. ``asked``: the options that the host got; ``answer``: what it answers."""

    def __init__(self, directory):
        self.store, self.asked, self.answer, self.now = Store(directory), [], {"changed": True}, 1000.0
        self.windows = False

    def pass_gate(self, **more):
        with self.store.open() as content:
            content["rounds"] = {"play": {"web1": {**PASSED, **more}}}

    def mark(self, step, check_mode=False, **more):
        play = types.SimpleNamespace(_uuid="play")
        task = types.SimpleNamespace(check_mode=check_mode, args={"step": step}, get_play=lambda: play)
        arguments = {"step": step, "phase": "", "reason": "", **more}
        action = types.SimpleNamespace(_task=task, _connection=self)
        return marking.mark(action, {"inventory_hostname": "web1"}, arguments, self.store)

    def run_for(self, _action, name, options, _variables):
        assert name == "maintenance_gate"
        self.asked.append(options)
        return dict(self.answer)

    def progress(self):
        with self.store.open() as content:
            return content.get("progress", {}).get("play", {})

    def history(self):
        return [(fact["kind"], fact["ago"]) for fact in self.asked[-1]["history"]["facts"]]


@pytest.fixture
def run(tmp_path, monkeypatch):
    made = Run(tmp_path)
    monkeypatch.setattr(marking, "run_for", made.run_for)
    monkeypatch.setattr(marking, "is_windows", lambda connection: connection.windows)
    monkeypatch.setattr(marking, "time", types.SimpleNamespace(monotonic=lambda: made.now))
    return made


def test_a_mark_names_the_run_and_its_host(run):
    run.pass_gate()
    result = run.mark(HOLD)
    this = run.store.this_run()
    assert (run.asked[0]["step"], run.asked[0]["owner"], run.asked[0]["by"]) == (HOLD, f"{this.name}/web1", this.owner)
    assert (result["changed"], result["windows"]) == (True, False)


def test_the_maintenance_of_the_host_and_the_run_are_named_in_its_history(run):
    run.pass_gate()
    run.mark(HOLD)
    history = run.asked[0]["history"]
    assert (history["maintenance"], history["run"]) == ("r1 patch", run.store.this_run().name)


@pytest.mark.parametrize(
    ("step", "answer", "progress"),
    [
        (HOLD, {}, {"web1": "began"}),
        (FAILED, {}, {"web1": "failed"}),
        (DONE, {}, {"web1": "done"}),
        # What the host may have missed counts as begun and as failed, and never as done.
        (HOLD, {"unreachable": True}, {"web1": "began"}),
        (FAILED, {"failed": True}, {"web1": "failed"}),
        (DONE, {"unreachable": True}, {}),
        (DONE, {"failed": True}, {}),
        (NOTE, {}, {}),
    ],
)
def test_how_far_a_host_came_is_remembered_so_that_a_lost_host_is_never_done(run, step, answer, progress):
    run.pass_gate()
    run.answer = answer
    run.mark(step)
    assert run.progress() == progress


def test_a_host_that_is_done_gets_the_round_in_which_it_is(run):
    run.pass_gate()
    run.mark(DONE)
    assert run.asked[0]["round"] == {"name": "patch", "id": "r1", "hosts": ["web1", "web2"], "since_begin": 100.0}


def test_a_host_that_did_not_pass_the_gate_is_not_done(run):
    with pytest.raises(GateError, match="web1 did not pass the gate in this play"):
        run.mark(DONE)
    assert run.asked == []


def test_a_phase_is_noted_without_a_module_and_the_next_mark_writes_it_with_its_age(run):
    run.pass_gate(waits=[{"at": 950.0, "why": "web2 (is drained)"}])
    run.mark(HOLD)
    assert run.history() == [("held", 50.0)]
    assert run.mark(NOTE, phase="drain") == {"changed": False}
    assert len(run.asked) == 1
    run.now = 1010.0
    run.mark(DONE)
    assert ("phase_began", 10.0) in run.history()


@pytest.mark.parametrize(("step", "outcome"), [(DONE, "ok"), (FAILED, "failed")])
def test_the_end_of_a_maintenance_ends_its_phase_with_the_reason(run, step, outcome):
    run.pass_gate()
    run.mark(NOTE, phase="drain")
    run.mark(step, reason="no space left" if step == FAILED else "")
    (ended,) = [fact for fact in run.asked[0]["history"]["facts"] if fact["kind"] == "phase_ended"]
    assert (ended["outcome"], ended["reason"]) == (outcome, "no space left" if step == FAILED else "")


def test_what_the_host_wrote_is_not_written_twice_and_is_returned(run):
    run.pass_gate(waits=[{"at": 950.0, "why": "web2 (is drained)"}])
    run.answer = {"changed": True, "facts": [{"kind": "held"}]}
    result = run.mark(HOLD)
    assert (result["history"], "facts" in result) == ([{"kind": "held"}], False)
    run.answer = {"changed": True, "facts": []}
    assert run.mark(DONE)["history"] == [{"kind": "held"}]
    assert "held" not in [kind for kind, _ago in run.history()]


@pytest.mark.parametrize("answer", [{"failed": True}, {"unreachable": True}])
def test_what_a_host_did_not_get_is_written_with_its_next_mark(run, answer):
    run.pass_gate(waits=[{"at": 950.0, "why": "web2 (is drained)"}])
    run.answer = answer
    run.mark(HOLD)
    run.answer = {"changed": True}
    run.now = 1010.0
    run.mark(FAILED)
    assert run.history()[0] == ("held", 60.0)


def test_check_mode_notes_no_history(run):
    run.pass_gate()
    run.mark(HOLD, check_mode=True)
    assert "history" not in run.asked[0]


def test_a_host_without_a_gate_before_it_is_marked_without_a_history(run):
    run.mark(HOLD)
    assert "history" not in run.asked[0]
    assert run.progress() == {"web1": "began"}
