# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phases of a rolling maintenance: what the control node notes, what the host writes, what the report says."""

import types

import pytest

from plugins.module_utils._maintenance import ASKING, Host
from plugins.module_utils._maintenance_calls import OPTIONS, mark
from plugins.module_utils._scheduled_events import history_file
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.files import Folder
from plugins.module_utils._scheduled_events.history import Fact
from plugins.plugin_utils._gate.store import note_end, note_phase, note_waits, note_written, to_write
from plugins.plugin_utils._report.page import page
from plugins.plugin_utils._report.story import tell

NOW = 1769860200.0


class Maintenance:
    """The maintenance of a host: the notes of the control node, and the history of the host."""

    def __init__(self, directory):
        self.directory, self.notes, self.at, self.warnings = str(directory), {}, 100.0, []

    def mark(self, step, maintenance="id1 kernel", after=10.0):
        self.at += after
        history = {"facts": to_write(self.notes, self.at), "maintenance": maintenance, "run": "run1"}
        options = {name: option.get("default") for name, option in OPTIONS.items()}
        round_ = {"name": "kernel", "id": "id1", "hosts": ["web1"], "since_begin": 1.0}
        params = {**options, "step": step, "owner": "run1/web1", "round": round_, "history": history}
        module = types.SimpleNamespace(params=params, check_mode=False, warn=self.warnings.append)
        clock = Clock(lambda: NOW + self.at, lambda: self.at, boot_id=lambda: "boot-1")
        host = Host(Folder(self.directory), clock=clock)
        if host.mark() is None:  # as the gate leaves it
            host.take("run1/web1", by={}, stage=ASKING, lease=60.0)
        note_written(self.notes, mark(module, host)["facts"])

    def phase(self, name, after=10.0):
        self.at += after
        note_phase(self.notes, name, self.at)

    def ends(self, **how):
        self.at += 10.0
        note_end(self.notes, self.at, **{"failed": False, **how})

    def facts(self):
        return history_file.read(self.directory, now=NOW + 1000).facts


@pytest.fixture
def maintenance(tmp_path):
    return Maintenance(tmp_path / "state")


def words(facts):
    return [" ".join(filter(None, (fact.kind, fact.phase, fact.outcome))) for fact in facts]


def whole(maintenance):
    note_waits(maintenance.notes, [{"at": 40.0, "why": "web2 (drained)"}])
    maintenance.phase("drain")
    maintenance.mark("hold")
    maintenance.phase("tasks")
    maintenance.phase("reboot")
    maintenance.mark("hold")
    maintenance.phase("health")
    maintenance.phase("return")
    maintenance.ends()
    maintenance.mark("done")


class Killed(BaseException):
    """The module ends here."""


@pytest.mark.parametrize("action", ["remove", "write_json"])
def test_a_maintenance_whose_end_is_interrupted_is_not_finished_or_holds_up_no_other(maintenance, monkeypatch, action):
    def end(*_arguments, **_options):
        raise Killed

    maintenance.mark("hold")
    monkeypatch.setattr(Folder, action, end)
    with pytest.raises(Killed):
        maintenance.mark("done")
    host = Host(Folder(maintenance.directory))
    assert not host.records() or host.mark() is None


def test_the_history_of_the_host_has_each_phase_when_it_began_and_ended(maintenance):
    whole(maintenance)
    facts = maintenance.facts()
    assert words(facts) == [
        "held",
        *[f"phase_{what}" for what in ("began drain", "ended drain ok", "began tasks", "ended tasks ok")],
        *[f"phase_{what}" for what in ("began reboot", "ended reboot ok", "began health", "ended health ok")],
        *[f"phase_{what}" for what in ("began return", "ended return ok")],
        "returned",
    ]
    assert [fact.time - NOW for fact in facts][:4] == [40.0, 110.0, 130.0, 130.0]
    assert {(fact.source, fact.maintenance, fact.run, fact.event_id) for fact in facts} == {
        ("rolling_maintenance", "id1 kernel", "run1", "")
    }


def test_the_result_of_the_run_has_the_same_facts(maintenance):
    whole(maintenance)
    assert [fact["kind"] for fact in maintenance.notes["history"]] == [fact.kind for fact in maintenance.facts()]


def test_a_failed_phase_has_its_reason_and_a_drained_host_is_held(maintenance):
    maintenance.phase("drain")
    maintenance.phase("tasks")
    maintenance.ends(failed=True, reason="Update: exit status 1")
    maintenance.mark("failed")
    ended, held = maintenance.facts()[-2:]
    assert (ended.phase, ended.outcome, ended.reason) == ("tasks", "failed", "Update: exit status 1")
    assert held.reason == "it may be out of its load balancer until it is maintained again"


def test_a_failed_host_that_was_never_drained_is_not_called_held(maintenance):
    maintenance.phase("tasks")
    maintenance.ends(failed=True, reason="no space")
    maintenance.mark("failed")
    assert words(maintenance.facts()) == ["phase_began tasks", "phase_ended tasks failed"]


def test_a_phase_that_is_told_twice_began_once(maintenance):
    maintenance.phase("drain")
    maintenance.phase("drain")
    maintenance.phase("")
    maintenance.mark("hold")
    assert words(maintenance.facts()) == ["phase_began drain"]


def test_a_maintenance_that_ends_twice_or_without_a_phase_ends_no_phase_then(maintenance):
    maintenance.phase("tasks")
    maintenance.ends()
    maintenance.ends()
    maintenance.mark("done")
    assert words(maintenance.facts()) == ["phase_began tasks", "phase_ended tasks ok", "returned", "returned"]


def test_of_many_reasons_to_wait_the_history_has_the_first_ten(maintenance):
    note_waits(maintenance.notes, [{"at": 40.0, "why": str(number)} for number in range(12)])
    maintenance.mark("hold")
    assert [fact.reason for fact in maintenance.facts()] == [str(number) for number in range(10)]


def test_a_fact_has_its_age_in_milliseconds_and_is_never_in_the_future():
    notes = {}
    note_phase(notes, "tasks", 100.0)
    assert to_write(notes, 101.23456) == [{"kind": "phase_began", "phase": "tasks", "ago": 1.235}]
    assert to_write(notes, 99.0)[0]["ago"] == 0.0


def test_a_fact_that_the_host_has_is_not_written_again(maintenance):
    maintenance.phase("tasks")
    maintenance.mark("hold")
    maintenance.mark("hold")
    assert words(maintenance.facts()) == ["phase_began tasks"]


def test_a_history_that_cannot_be_written_fails_nothing(maintenance, tmp_path):
    (tmp_path / "state" / "history.jsonl").mkdir(parents=True)
    maintenance.phase("tasks")
    maintenance.mark("hold")
    assert "cannot be written" in maintenance.warnings[0]
    assert len(maintenance.notes["history"]) == 1


def test_a_report_shows_the_maintenance_of_all_hosts_as_one(tmp_path):
    hosts = [Maintenance(tmp_path / name) for name in ("web1", "web2")]
    for each in hosts:
        whole(each)
    story = tell({"web1": hosts[0].facts(), "web2": hosts[1].facts()}, {})
    [event] = story.events
    assert (event.event_type, event.event_id, event.is_maintenance) == ("Maintenance", "id1 kernel", True)
    assert [[each.phase for each in lane.stretches] for lane in event.lanes] == [
        ["drain", "tasks", "reboot", "health", "return"]
    ] * 2
    assert (event.problems, event.unfinished, story.verdict) == ({}, {}, "1 maintenance, no problem.")
    text = page(story, made=NOW + 1000, version="1.0.0")
    assert "<h2>Maintenance of web1, web2</h2>" in text
    assert "<th>reboot</th>" in text
    assert "Acknowledged" not in text


def test_a_failed_maintenance_is_a_problem_until_the_host_is_maintained_again(maintenance):
    maintenance.phase("drain")
    maintenance.ends(failed=True, reason="x")
    maintenance.mark("failed")
    story = tell({"web1": maintenance.facts()}, {})
    assert story.verdict.startswith("1 of 1 maintenance needs a look, on web1.")
    assert story.events[0].problems == {"web1": "the phase drain failed: x"}
    assert story.events[0].unfinished == {}
    event = Fact("held", NOW, "poller", event_id="E1", reason="nothing prepares")
    both = tell({"web1": [*maintenance.facts(), event]}, {}).verdict
    assert both.startswith("1 of 1 event and 1 of 1 maintenance need a look, on web1.")
    whole(maintenance)
    assert tell({"web1": maintenance.facts()}, {}).is_good


def test_a_maintenance_whose_control_node_ended_is_not_finished(maintenance):
    maintenance.phase("tasks")
    maintenance.mark("hold")
    assert tell({"web1": maintenance.facts()}, {}).events[0].unfinished == {"web1": "the maintenance has not ended"}
