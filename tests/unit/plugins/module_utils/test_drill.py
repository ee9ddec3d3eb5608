# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host side of a drill: its file, what a drill would run, and what the control node may ask for."""

import json
import os
import stat
import time

import pytest

from plugins.module_utils._drill import CannotDrill, DrilledHost, serve
from plugins.module_utils._scheduled_events import announced, history_file
from plugins.module_utils._scheduled_events.announced import LEASE, NAME, boottime, read_drill
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.files import Occupied

CONFIG = {"rules": [], "acknowledge": "alone", "on_failure": "hold", "hook_timeout": 600, "margin": 10}
STATUS = {
    "vm_name": "web1",
    "endpoint": "http://127.0.0.1:1",
    "error": "",
    "maintenance_pending": False,
    "missing_hooks": {},
    "dry_run": False,
}


class Place:
    """The directories of a host."""

    def __init__(self, directory):
        self.directory = directory
        self.drill = str(directory / "drill")
        self.file = os.path.join(self.drill, NAME)
        self.now = time.time()
        (directory / "runtime").mkdir()
        for hook in ("prepare.d/10-drain", "prepare.d/0-webhooks", "recover.d/10-return", "started.d/.hidden"):
            path = directory / "configuration" / "hooks" / hook
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")
        self.configure()
        self.show()

    def configure(self, **changes):
        self._write("configuration/poller.json", {**CONFIG, **changes})

    def show(self, **changes):
        self._write("runtime/status.json", {**STATUS, "time": self.now, **changes})

    def _write(self, name, content):
        (self.directory / name).write_text(json.dumps(content))

    @property
    def host(self):
        places = {name: str(self.directory / name) for name in ("configuration", "runtime", "history", "drill")}
        clock = Clock(lambda: self.now, time.monotonic, time.sleep)
        return DrilledHost(str(self.directory / "roles"), places, clock)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_the_preview_shows_what_a_drill_would_run(place):
    assert place.host.preview("Reboot") == {
        "vm_name": "web1",
        "endpoint": "http://127.0.0.1:1",
        "action": "prepare",
        "acknowledge": "alone",
        "on_failure": "hold",
        "hook_timeout": 600,
        "margin": 10,
        "hooks": {"prepare": ["10-drain"], "recover": ["10-return"]},
        "refusals": [],
        "pending": False,
        "time": place.now,
    }


def test_the_rules_of_the_host_decide_about_the_type_of_the_drill(place):
    place.configure(rules=[{"action": "hold", "event_types": ["Preempt"]}])
    assert [place.host.preview(each)["action"] for each in ("Preempt", "Reboot")] == ["hold", "prepare"]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"time": 0}, "the polling unit does not run"),
        ({"maintenance_pending": True}, "a maintenance of this VM is pending, or it is not known"),
        ({"maintenance_pending": True, "error": "GET failed"}, "GET failed"),
        ({"dry_run": True}, "the polling unit runs dry"),
        ({"missing_hooks": {"prepare": ["10-drain"]}}, "hooks are missing"),
    ],
)
def test_a_host_that_cannot_be_drilled_now_says_why(place, changes, refusal):
    place.show(**changes)
    preview = place.host.preview("Reboot")
    (found,) = preview["refusals"]
    assert refusal in found
    assert preview["pending"] == ("maintenance_pending" in changes)


@pytest.mark.parametrize("kind", ["link", "huge"])
def test_what_the_user_of_the_unit_put_in_place_of_the_status_is_not_read(place, kind):
    status = place.directory / "runtime" / "status.json"
    if kind == "link":
        status.rename(place.directory / "secret.json")
        status.symlink_to(place.directory / "secret.json")
    else:
        place.show(padding=" " * 5 * 1024 * 1024)
    with pytest.raises(CannotDrill, match="the polling unit cannot be drilled: it "):
        place.host.preview("Reboot")


@pytest.mark.edge
@pytest.mark.parametrize("name", ["configuration/poller.json", "runtime/status.json"])
@pytest.mark.parametrize("content", [None, b"[]", b"{}", b"\xff"], ids=["missing", "a list", "empty", "not UTF-8"])
def test_a_host_without_a_polling_unit_of_this_release_is_named(place, name, content):
    if content is None:
        (place.directory / name).unlink()
    else:
        (place.directory / name).write_bytes(content)
    with pytest.raises(CannotDrill, match="Run the role poller of this release"):
        place.host.preview("Reboot")


def test_the_file_is_readable_by_all_and_counts_for_a_minute(place):
    before, began = os.umask(0o077), boottime()
    try:
        event = place.host.begin("web1", "Freeze", 900.0)
    finally:
        os.umask(before)
    ended = boottime()
    assert [stat.S_IMODE(os.stat(each).st_mode) for each in (place.drill, place.file)] == [0o755, 0o644]
    with open(place.file) as file:
        assert began + LEASE <= json.load(file)["until"] <= ended + LEASE
    found = read_drill(place.drill)
    assert (found.event_id, found.names, found.event_status) == (event["EventId"], ("web1",), "Scheduled")
    assert found.not_before.timestamp() == pytest.approx(place.now + 900, abs=1)


def test_a_second_drill_is_refused_while_one_runs(place):
    event = place.host.begin("web1", "Reboot", 900.0)
    with pytest.raises(CannotDrill, match=f"the drill {event['EventId']} runs on this host"):
        place.host.begin("web1", "Reboot", 900.0)
    assert read_drill(place.drill).event_id == event["EventId"]


@pytest.mark.edge
@pytest.mark.parametrize("left", ["expired", "broken"])
def test_what_an_earlier_drill_left_does_not_prevent_the_next_one(place, left, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(announced, "LEASE", -1.0 if left == "expired" else LEASE)
        event = place.host.begin("web1", "Reboot", 900.0)
    if left == "broken":
        with open(place.file, "w") as file:
            file.write("{")
    assert place.host.begin("web1", "Reboot", 900.0)["EventId"] != event["EventId"]


def test_a_renewed_event_counts_for_another_minute_and_can_have_changed(place):
    event = place.host.begin("web1", "Reboot", 900.0)
    assert place.host.renew(dict(event, EventStatus="Started", NotBefore=""))
    assert read_drill(place.drill).event_status == "Started"


def test_a_look_that_was_given_up_and_comes_late_does_not_take_a_start_back(place):
    event = place.host.begin("web1", "Reboot", 900.0)
    place.host.renew(dict(event, EventStatus="Started", NotBefore=""))
    assert place.host.renew(event)
    assert read_drill(place.drill).event_status == "Started"


def test_an_event_that_counts_no_longer_is_not_announced_again(place):
    event = place.host.begin("web1", "Reboot", 900.0)
    os.unlink(place.file)
    assert place.host.renew(event) is False
    other = place.host.begin("web1", "Reboot", 900.0)
    assert place.host.renew(event) is False
    assert read_drill(place.drill).event_id == other["EventId"]


def test_no_look_that_is_under_way_announces_again_what_has_ended(place, monkeypatch):
    host, event = place.host, place.host.begin("web1", "Reboot", 900.0)

    def remove(_name):
        with pytest.raises(Occupied), host._folder.guarded(patience=0.0):  # as a look does
            pass
        os.unlink(place.file)

    monkeypatch.setattr(host._folder, "remove", remove)
    host.end(event)
    assert not os.path.exists(place.file)


def test_the_end_removes_the_event_and_not_that_of_another_drill(place):
    event = place.host.begin("web1", "Reboot", 900.0)
    place.host.end(event)
    place.host.end(event)
    assert not os.path.exists(place.file)
    other = place.host.begin("web1", "Reboot", 900.0)
    place.host.end(event)
    assert read_drill(place.drill).event_id == other["EventId"]


@pytest.mark.edge
def test_on_a_full_disk_the_file_stays_as_it_is(place, monkeypatch):
    event = place.host.begin("web1", "Reboot", 900.0)

    def fail(*_arguments, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plugins.module_utils._scheduled_events.files.write_atomically", fail)
    with pytest.raises(OSError, match="No space left on device"):
        serve(place.host, {"do": "renew", "with": [event], "since": 0})
    assert read_drill(place.drill).event_id == event["EventId"]
    place.host.end(event)
    assert not os.path.exists(place.file)


def test_the_verdict_is_in_the_history_of_the_roles_and_shown_with_the_facts(place):
    place.now = time.time()
    request = {"do": "note", "with": ["drill-1", "Reboot", "web1", "failed", "why"], "since": place.now - 1}
    (fact,) = serve(place.host, request)["facts"]
    assert {name: fact[name] for name in ("kind", "source", "event_id", "outcome", "reason")} == {
        **{"kind": "drilled", "source": "drill", "event_id": "drill-1", "outcome": "failed", "reason": "why"}
    }
    roles = place.directory / "roles"
    assert stat.S_IMODE(roles.stat().st_mode) == 0o755
    assert len(history_file.read(str(roles), now=place.now + 1).facts) == 1


def test_a_look_alone_shows_the_facts_and_changes_nothing(place):
    shown = serve(place.host, {"do": "", "with": [], "since": 0})
    assert (shown["answer"], shown["facts"], os.path.exists(place.drill)) == (None, [], False)
