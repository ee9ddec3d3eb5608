# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file that the roles keep on a host, cut at every byte as a disk can leave it: no loss is hidden."""

import json
import types

import pytest

from plugins.module_utils._load_balancer.record import FILE, Record, RecordError
from plugins.module_utils._maintenance import HELD, MARK, RECORD, UNNAMED_LEASE, Host
from plugins.module_utils._maintenance_calls import OPTIONS, survey
from plugins.module_utils._respond.memory import LEASE_FILE, STATE_FILE, Lease, Locked, TurnMemory, is_under_maintenance
from plugins.module_utils._scheduled_events import engine, terms
from plugins.module_utils._scheduled_events.checks import WrongValue
from plugins.module_utils._scheduled_events.clock import Clock, Moment
from plugins.module_utils._scheduled_events.document import parse
from plugins.module_utils._scheduled_events.files import Folder
from plugins.module_utils._scheduled_events.state import State

ROUND = {"round_id": "r1", "hosts": ["web1", "web2"], "since_begin": 12.5}


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path))


def cuts(folder, name):
    """Cut the file at each byte, the last one being its newline; yields how much is left."""
    content = folder.read(name)
    assert content.endswith(b"}\n")
    for length in range(len(content) - 1):
        with open(folder.path_of(name), "wb") as file:
            file.write(content[:length])
        yield length


def look(folder):
    """What the gate of a rolling maintenance finds on the host."""
    module = types.SimpleNamespace(
        params={name: each.get("default") for name, each in OPTIONS.items()}, check_mode=True
    )
    return survey(module, Host(folder), flag_is_up=lambda: False, read=dict)


def test_the_runs_of_a_host_without_a_state_have_numbers_that_no_earlier_run_had(folder):
    first = TurnMemory(folder, Clock(wall=lambda: 1600000000.0)).load()
    later = TurnMemory(folder, Clock(wall=lambda: 1600000001.0)).load()
    assert later.serial - first.serial == 1000, "a run a millisecond is possible"
    assert first.serial > 0


def test_a_state_of_respond_that_was_cut_is_an_error_that_names_the_file(folder):
    raw = {"EventId": "A", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    document = parse(json.dumps({"Events": [raw]}), api_version="2020-07-01")
    config = terms.Config("vm1", frozenset(["prepare", "recover"]))
    memory = TurnMemory(folder)
    memory.save(engine.step(State(serial=6), document, [], Moment(1600000000.0, 1000.0, "boot"), config)[0])
    for length in cuts(folder, STATE_FILE):
        with pytest.raises(WrongValue, match=r"respond\.json: .* Check its content, and remove it"):
            memory.load()
        assert folder.has(STATE_FILE), length


def test_a_record_of_a_load_balancer_that_was_cut_is_an_error_and_the_host_counts_as_drained(folder):
    record = Record(folder)
    with record.locked():
        record.hold("respond", {"lb1/www": "ready"})
        record.release("respond", seconds=60)
    for length in cuts(folder, FILE):
        with pytest.raises(RecordError), record.locked():
            record.hold("other", {"lb1/www": "MAINT"})
        assert look(folder)["drained"], length


def test_a_mark_that_was_cut_still_keeps_others_out(folder):
    host = Host(folder)
    host.take("run/web1", by={"node": "controller"}, stage="asking", lease=60.0)
    host.take("run/web1", by={"node": "controller"}, stage=HELD, lease=60.0)
    for length in cuts(folder, MARK):
        mark = host.mark()
        assert (mark.owner, mark.stage, mark.lease, mark.live) == ("", HELD, UNNAMED_LEASE, True), length
        found = host.take("other/web1", by={}, stage="asking", lease=60.0)
        assert (found.owner, found.live) == ("", True)
        assert is_under_maintenance(folder)


def test_a_record_of_maintenances_that_was_cut_counts_no_host_as_maintained(folder):
    host = Host(folder)
    host.done("upgrade", **ROUND)
    for length in cuts(folder, RECORD):
        assert host.records() == {}, length
        assert look(folder)["records"] == {}, length


def test_a_lease_of_respond_that_was_cut_keeps_no_run_out_until_its_own_run_renews_it(folder):
    mine, other = (Lease(folder, run, "web1", {"node": "controller"}) for run in ("run1", "run2"))
    mine.renew(60.0)
    for _length in cuts(folder, LEASE_FILE):
        with other.held():
            pass
    mine.renew(60.0)
    with pytest.raises(Locked), other.held():
        pass
