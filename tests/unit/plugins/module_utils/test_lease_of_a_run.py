# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease that a run of the role respond has on a host, and the state that it keeps there."""

import os
import stat

import pytest

from plugins.module_utils._respond.memory import LEASE_FILE, STATE_FILE, Lease, Locked, TurnMemory
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.document import parse_event
from plugins.module_utils._scheduled_events.files import Folder
from plugins.module_utils._scheduled_events.state import EventState, State


class Host:
    """A host with its clock, and the leases of runs on it."""

    def __init__(self, directory):
        self.folder, self.seconds = Folder(str(directory)), 1000.0

    def lease(self, run="run1", host="web1"):
        clock = Clock(lambda: self.seconds, lambda: self.seconds, boot_id=lambda: "boot")
        return Lease(self.folder, run, host, {}, clock)

    def begins(self):
        """When the lease in the file begins."""
        return self.folder.read_json(LEASE_FILE)["at"]["wall"]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def is_refused(lease, **how):
    try:
        with lease.held(**how):
            return False
    except Locked:
        return True


@pytest.mark.parametrize(
    ("other", "refused"),
    [({}, False), ({"run": "run2"}, True), ({"host": "alias-of-web1"}, True)],
    ids=["the same", "another run", "another name of the machine in the same run"],
)
def test_a_lease_keeps_all_out_but_its_own_host_of_its_own_run(host, other, refused):
    host.lease().renew(60.0)
    assert is_refused(host.lease(**other)) is refused


def test_a_look_for_a_lease_makes_no_directory_on_a_host_that_no_run_has_had(tmp_path):
    assert not is_refused(Host(tmp_path / "state").lease())
    assert not (tmp_path / "state").exists()


def test_a_lease_that_has_run_out_or_whose_run_was_abandoned_keeps_nobody_out(host):
    host.lease().renew(60.0)
    assert not is_refused(host.lease("run2"), abandoned="run1")
    host.seconds += 59.5
    assert is_refused(host.lease("run2"))
    host.seconds += 0.5
    assert not is_refused(host.lease("run2"))


def test_a_lease_with_a_number_of_hundreds_of_digits_does_not_count(host):
    host.lease().renew(60.0)
    lease = host.folder.read(LEASE_FILE)
    host.folder.write(LEASE_FILE, lease.replace(b"60.0", b"9" * 400), mode=0o600)
    assert not is_refused(host.lease("run2"))


@pytest.mark.parametrize(
    ("later", "length", "begins"),
    [(29.0, 60.0, 1000.0), (30.0, 60.0, 1030.0), (1.0, 90.0, 1001.0), (1.0, 30.0, 1001.0)],
    ids=["most is left", "half is over", "longer", "shorter"],
)
def test_a_lease_is_written_again_once_half_of_it_is_over_or_its_length_changes(host, later, length, begins):
    host.lease().renew(60.0)
    host.seconds += later
    host.lease().renew(length)
    assert host.begins() == begins


@pytest.mark.parametrize("make", [False, True])
def test_a_host_that_no_run_has_used_gets_a_directory_only_when_something_is_to_be_kept(host, make):
    host.folder = Folder(host.folder.path_of("state"))
    assert not is_refused(host.lease(), make=make)
    assert host.folder.is_there() is make


def test_the_state_of_a_host_is_for_its_group_and_survives_a_loss_of_power(host, monkeypatch):
    kinds = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: kinds.append(stat.S_IFMT(os.fstat(descriptor).st_mode)))
    event = parse_event({"EventId": "A1", "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]})
    state = State(4, events={"a1": EventState(event, 1000.0)})
    TurnMemory(host.folder).save(state)
    assert {stat.S_IFREG, stat.S_IFDIR} <= set(kinds)
    assert stat.S_IMODE(os.stat(host.folder.path_of(STATE_FILE)).st_mode) == 0o640
    assert TurnMemory(host.folder).load() == state
