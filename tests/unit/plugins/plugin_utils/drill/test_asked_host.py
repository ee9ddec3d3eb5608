# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host of a drill is asked, and what the drill takes from its answers."""

import pytest
from ansible.errors import AnsibleError

from plugins.module_utils._scheduled_events.history import Fact, as_json
from plugins.plugin_utils._ansible import run
from plugins.plugin_utils._ansible.other_host import OtherHostError, OtherHostUnreachable
from plugins.plugin_utils._drill.asked_host import AskedHost, DrilledHostLost, DrillRefused, MayBeOut

EVENT = {"EventId": "A1"}
SEEN = Fact("seen", 1600000000.0, "poller", event_id="a1")


class Connection:
    """A connection to the host; ``answer``: what the host answers, or the error."""

    def __init__(self, answer):
        self.answer, self.asked, self.made, self.closed = answer, [], 0, 0

    def connect(self):
        self.made += 1
        return self

    def run(self, module, options, *, within):
        assert module == "maintops.scheduled_events.scheduled_events_drill"
        self.asked.append((options["request"]["do"], options["request"]["with"], options["request"]["since"], within))
        assert (options["step"], options["state_file"]) == ("host", "/state")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self):
        self.closed += 1


@pytest.fixture
def connection():
    return Connection({})


@pytest.fixture
def host(connection):
    """A host whose polling unit has shown what a drill with a Reboot would run."""
    made = AskedHost(connection.connect, {"state_file": "/state"})
    connection.answer = {"answer": {"time": 1600000000, "vm_name": "vm1"}}
    assert made.preview("Reboot") == {"time": 1600000000, "vm_name": "vm1"}
    return made


def test_everything_after_the_preview_is_about_its_vm_and_from_its_time(host, connection):
    connection.answer = {"answer": EVENT, "time": 1600000001, "facts": []}
    assert host.begin(300.0) == (EVENT, 1600000001.0)
    host.end(EVENT)
    host.note("a1", "ok", "")
    assert [each[:3] for each in connection.asked] == [
        ("preview", ["Reboot"], 0.0),
        ("begin", ["vm1", "Reboot", 300.0], 1600000000.0),
        ("end", [EVENT], 1600000000.0),
        ("note", ["a1", "Reboot", "vm1", "ok", ""], 1600000000.0),
    ]
    assert connection.made == 1


def test_a_look_that_renews_the_event_has_half_of_its_lease(host, connection):
    connection.answer = {"answer": True, "time": 1600000001, "facts": []}
    host.look(EVENT)
    host.look(None)
    renewed, looked = connection.asked[1:]
    assert (renewed[:2], looked[:2]) == (("renew", [EVENT]), ("", []))
    assert renewed[3] == looked[3] == 30.0


def test_an_event_is_announced_no_longer_when_the_run_has_ended(host, connection, monkeypatch):
    monkeypatch.setattr(run, "main_process_has_ended", lambda: True)
    for announce in (lambda: host.begin(300.0), lambda: host.look(EVENT)):
        with pytest.raises(AnsibleError, match="has ended"):
            announce()
    connection.answer = {}
    host.end(EVENT)
    assert [each[0] for each in connection.asked] == ["preview", "end"]


@pytest.mark.parametrize("answer", [True, False, None])
def test_a_look_shows_the_time_of_the_host_and_whether_the_event_is_announced(host, connection, answer):
    connection.answer = {"answer": answer, "time": "1600000001.5", "facts": [as_json(SEEN)]}
    look = host.look(None)
    assert (look.time, look.announced, look.facts) == (1600000001.5, bool(answer), (SEEN,))


def test_facts_that_cannot_be_read_are_left_out(host, connection):
    connection.answer = {"answer": True, "time": 1, "facts": [{}, None, as_json(SEEN), {"version": "x"}]}
    assert host.look(None).facts == (SEEN,)


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OtherHostError("no polling unit"), DrillRefused), (OtherHostUnreachable("no route"), MayBeOut)],
)
def test_a_drill_of_a_host_that_cannot_be_asked_is_refused(connection, error, raised):
    asked = AskedHost(connection.connect, {"state_file": "/state"})
    connection.answer = error
    with pytest.raises(DrillRefused, match=str(error)) as refused:
        asked.preview("Reboot")
    assert refused.type is raised


@pytest.mark.parametrize(
    ("error", "raised"),
    [(OtherHostError("another drill runs"), DrillRefused), (OtherHostUnreachable("no answer"), DrilledHostLost)],
)
def test_a_drill_whose_beginning_was_not_answered_may_have_begun(host, connection, error, raised):
    connection.answer = error
    with pytest.raises(raised, match=str(error)):
        host.begin(300.0)


@pytest.mark.parametrize(
    ("error", "connections"), [(OtherHostError("the module failed"), 1), (OtherHostUnreachable("no route"), 2)]
)
def test_a_connection_that_broke_is_made_again(host, connection, error, connections):
    connection.answer = error
    with pytest.raises(DrilledHostLost, match=str(error)):
        host.look(None)
    connection.answer = {"answer": True, "time": 1, "facts": []}
    host.look(None)
    assert (connection.made, connection.closed) == (connections, connections - 1)


def test_a_connection_is_closed_once(host, connection):
    host.close()
    host.close()
    assert connection.closed == 1
