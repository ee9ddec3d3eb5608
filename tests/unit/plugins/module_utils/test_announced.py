# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event of a drill is added to the document, unless anything is wrong with its file; nothing else changes."""

import json
import os

import pytest
from _scheduled_events import announced as drills
from _scheduled_events.announced import LEASE, MAX_BYTES, NAME, boottime
from _scheduled_events.approval import approve
from _scheduled_events.client import ImdsClient, Refused

from .conftest import document_text, event

ID = "drill-6ba7b810-9dad-11d1-80b4-00c04fd430c8"
REAL = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
FULL = LEASE - 1


class Drill:
    """The file of a drill in a directory."""

    def __init__(self, directory):
        self.directory = str(directory)
        self.path = os.path.join(self.directory, NAME)

    def write(self, left=FULL, **fields):
        self.content({"event": event(**{"EventId": ID, **fields}), "until": boottime() + left})

    def content(self, content, mode=0o644):
        with open(self.path, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        os.chmod(self.path, mode)


@pytest.fixture
def drill(tmp_path):
    return Drill(tmp_path)


@pytest.fixture
def client(service, clock, drill):
    asking = ImdsClient(endpoint=service.endpoint, retry_for=0, drill_directory=drill.directory, clock=clock)
    yield asking
    asking.close()


def ids(document):
    return [each.event_id for each in document.events]


def posted(service):
    return [body for method, _path, _headers, body in service.asked if method == "POST"]


def test_the_event_of_a_drill_is_added_to_those_of_the_service(service, client, drill):
    drill.write()
    service.answers(document_text(event(EventId=REAL, Resources=["vm2"])))
    document = client.poll()
    assert (ids(document), document.drill, document.drill_problem) == ([REAL, ID], ID, "")
    assert document.events[1].affects_only("vm1")


def test_without_a_file_or_a_directory_the_document_is_that_of_the_service(service, client, drill):
    service.answers(document_text())
    assert (client.poll().drill, client.poll().drill_problem) == ("", "")
    os.rmdir(drill.directory)
    assert client.poll().drill_problem == ""


def test_a_client_of_another_machine_adds_nothing(service, clock, drill):
    drill.write()
    service.answers(document_text())
    other = ImdsClient(endpoint=service.endpoint, retry_for=0, clock=clock)
    assert ids(other.poll()) == []
    other.close()


@pytest.mark.edge
def test_an_answer_that_is_no_document_stays_a_failure_during_a_drill(service, client, drill):
    drill.write()
    service.answers((404, "", {}))
    with pytest.raises(Refused):
        client.poll()


@pytest.mark.parametrize("status", ["Scheduled", "Started"])
def test_an_event_of_the_service_that_names_the_same_vm_ends_the_drill_for_good(service, client, drill, status):
    drill.write()
    service.answers(document_text(event(EventId=REAL, EventStatus=status, Resources=["vm0", "VM1"])))
    document = client.poll()
    assert (ids(document), document.drill) == ([REAL], "")
    assert document.drill_problem == f"{ID} has ended, since the service announced an event"
    service.answers(document_text())
    document = client.poll()
    assert (ids(document), document.drill) == ([], "")
    drill.write(EventId="drill-2")
    assert client.poll().drill == "drill-2"


def test_a_hint_of_the_service_does_not_end_the_drill(service, client, drill):
    drill.write()
    service.answers(document_text(event(EventId=REAL, EventStatus="Advisory")))
    assert ids(client.poll()) == [REAL, ID]


HOSTILE = {
    "expired": lambda drill: drill.write(left=-0.1),
    "far ahead": lambda drill: drill.write(left=LEASE + 5),
    "until nan": lambda drill: drill.content(b'{"event": {}, "until": NaN}'),
    "until huge": lambda drill: drill.content(b'{"event": {}, "until": ' + b"9" * 5000 + b"}"),
    "until text": lambda drill: drill.content({"event": event(EventId=ID), "until": "soon"}),
    "without until": lambda drill: drill.content({"event": event(EventId=ID)}),
    "another id": lambda drill: drill.write(EventId=REAL),
    "two VMs": lambda drill: drill.write(Resources=["vm1", "vm2"]),
    "no VM": lambda drill: drill.write(Resources=[]),
    "a hint": lambda drill: drill.write(EventStatus="Advisory"),
    "too large": lambda drill: drill.write(Description="x" * MAX_BYTES),
    "empty": lambda drill: drill.content(b""),
    "a list": lambda drill: drill.content([]),
    "event null": lambda drill: drill.content({"event": None, "until": boottime() + FULL}),
    "not UTF-8": lambda drill: drill.content(b"\xff\xfe"),
    "nested": lambda drill: drill.content(b"[" * (MAX_BYTES - 1)),
}


@pytest.mark.edge
@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_a_file_that_does_not_hold_a_drill_of_now_adds_nothing_and_is_named(service, client, drill, name):
    HOSTILE[name](drill)
    service.answers(document_text(event(EventId=REAL, Resources=["vm2"])))
    document = client.poll()
    assert (ids(document), document.drill) == ([REAL], "")
    assert document.drill_problem.startswith(f"{drill.path} adds no event: ")


def _link(drill):
    drill.write()
    os.rename(drill.path, drill.path + ".real")
    os.symlink(drill.path + ".real", drill.path)


def _second_name(drill):
    drill.write()
    os.link(drill.path, drill.path + ".other")


def _writable(mode):
    def make(drill):
        drill.write()
        os.chmod(drill.path, mode)

    return make


def _of_another(drill):
    drill.write()
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(drill.path, 12345, 0)


def _pipe(drill):
    os.mkfifo(drill.path)


UNTRUSTED = {
    "a link": _link,
    "a second name": _second_name,
    "a pipe": _pipe,
    "a directory": lambda drill: os.mkdir(drill.path),
    "writable by the group": _writable(0o664),
    "writable by all": _writable(0o646),
    "of another user": _of_another,
}


@pytest.mark.edge
@pytest.mark.parametrize("name", sorted(UNTRUSTED))
def test_a_file_that_is_not_roots_alone_adds_nothing_and_blocks_nothing(service, client, drill, name):
    UNTRUSTED[name](drill)
    service.answers(document_text())
    document = client.poll()
    assert (ids(document), document.drill) == ([], "")
    assert " adds no event: " in document.drill_problem


def test_in_the_directory_of_root_a_file_of_the_own_user_is_not_trusted(drill, monkeypatch):
    monkeypatch.setattr(drills, "DIRECTORY", drill.directory)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    drill.write()
    if os.stat(drill.path).st_uid == 0:
        os.chown(drill.path, 12345, 0)
    with pytest.raises(drills.NoDrill, match="it is not root's"):
        drills.read_drill(drill.directory)


@pytest.mark.edge
def test_where_the_clock_cannot_be_read_nothing_is_added(drill):
    drill.write()

    def fail():
        raise OSError("no such clock")

    with pytest.raises(drills.NoDrill, match="no such clock"):
        drills.read_drill(drill.directory, clock=fail)


def test_a_drill_ends_with_its_time_and_with_a_boot(drill):
    drill.write(left=10)
    now = boottime()
    assert drills.read_drill(drill.directory, clock=lambda: now + 9.9).event_id == ID
    for later in (now + 10.1, 1.0):  # after a boot the clock begins again
        with pytest.raises(drills.NoDrill):
            drills.read_drill(drill.directory, clock=lambda: later)  # noqa: B023 - called at once


# Acknowledging


def may(_event):
    return True


def test_the_acknowledgement_of_a_drill_counts_and_is_never_sent(service, client, drill):
    drill.write()
    service.answers(document_text(event(EventId=REAL, Resources=["vm2"])), "")
    outcome = approve(client, [ID.upper()], may_approve=may)
    assert (outcome.approved, outcome.drill, posted(service)) == ([ID], True, [])


def test_events_of_the_service_are_acknowledged_beside_that_of_a_drill(service, client, drill):
    drill.write()
    service.answers(document_text(event(EventId=REAL, Resources=["vm2"])), "")
    assert approve(client, [REAL, ID], may_approve=may).approved == [REAL, ID]
    (body,) = posted(service)
    assert json.loads(body) == {"StartRequests": [{"EventId": REAL}]}


@pytest.mark.parametrize("with_file", [False, True])
def test_an_event_of_the_service_whose_id_looks_like_a_drill_is_acknowledged(service, client, drill, with_file):
    if with_file:
        drill.write()
    service.answers(document_text(event(EventId=ID.upper(), Resources=["vm2"])), "")
    assert approve(client, [ID], may_approve=may).approved == [ID.upper()]
    (body,) = posted(service)
    assert json.loads(body) == {"StartRequests": [{"EventId": ID.upper()}]}


def test_a_drill_that_has_ended_is_absent_and_not_sent(service, client):
    service.answers(document_text(), "")
    assert approve(client, [ID], may_approve=may).absent == [ID]
    assert posted(service) == []
