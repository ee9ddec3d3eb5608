# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit that delivers webhooks, as the process that systemd starts, and what ``status`` shows of it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("requests")

import receiver as receivers
from polling_unit import COMMANDS, ROOT, until
from ports import free_port
from receiver import ids
from scheduled_events_poller.notify import delivery_status
from scheduled_events_poller.notify.messages import MessageSpool

COMMAND_OF_WEBHOOKS = os.path.join(ROOT, "roles", "poller", "files", "scheduled-events-webhooks")
HEADERS = {"Authorization": "Bearer tokentoken"}
SECRETS = ["T0SECRETPATH", "tokentoken", "hmachmac"]
GIVE_UP = 60


class Unit:
    """The unit with its files in one directory."""

    def __init__(self, directory):
        self.directory = directory
        self.spool = MessageSpool(str(directory / "state"))
        self.log_path = directory / "log"
        (directory / "run").mkdir()
        self.process = None

    def configure(self, **urls):
        receivers_ = [
            {"name": name, "url": url, "headers": HEADERS, "secret": "hmachmac"} for name, url in urls.items()
        ]
        self.write(json.dumps(receivers_))

    def write(self, text):
        (self.directory / "new").write_text(text)
        (self.directory / "new").chmod(0o600)
        (self.directory / "new").replace(self.directory / "webhooks.json")

    def put(self, name, *numbers):
        for number in numbers:
            made = receivers.message(number)
            self.spool.put(json.dumps(made).encode(), made["id"], name, max_messages=100)

    def start(self):
        places = [str(self.directory / name) for name in ("webhooks.json", "state", "run")]
        with open(str(self.log_path), "ab") as log:
            arguments = [sys.executable, "-I", COMMAND_OF_WEBHOOKS, "deliver", *places]
            self.process = subprocess.Popen(arguments, stdout=log, stderr=log)

    def status(self):
        return delivery_status.read(str(self.directory / "run"))

    def trouble(self, name):
        with_name = [each for each in self.status().get("receivers", []) if each["name"] == name]
        return with_name[0]["trouble"] if with_name else ""

    def log(self):
        return self.log_path.read_text()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def unit(tmp_path):
    made = Unit(tmp_path)
    yield made
    made.stop()


def test_a_receiver_that_is_down_keeps_no_other_waiting_and_gets_all_when_it_is_up(unit, service):
    down = receivers.Receiver(port=free_port())
    down.stop()
    unit.configure(up=service.url, down=down.url)
    unit.put("down", 1, 2)
    unit.put("up", 1, 2)
    unit.start()
    until(lambda: service.ids() == ids(1, 2), "the delivery to the receiver that is up")
    until(lambda: unit.trouble("down"), "the trouble")
    unit.put("up", 3)
    unit.put("down", 3)
    until(lambda: service.ids() == ids(1, 2, 3), "the delivery of a later message")
    up_again = receivers.Receiver(port=down.port)
    try:
        assert unit.process.wait(GIVE_UP) == 0
        assert up_again.ids() == ids(1, 2, 3)
    finally:
        up_again.stop()
    assert unit.spool.is_empty()
    assert [each["waiting"] for each in unit.status()["receivers"]] == [0, 0]
    written = unit.log() + json.dumps(unit.status())
    assert [secret for secret in SECRETS if secret in written] == []


def test_it_delivers_once_the_disk_works_again_that_failed_when_it_began(unit, service):
    unit.configure(ops=service.url)
    unit.put("ops", 1)
    lock = os.path.join(os.path.dirname(unit.spool.directory), "lock")
    os.unlink(lock)
    os.symlink("nowhere", lock)  # which is not followed: it cannot be opened
    unit.start()
    until(lambda: unit.status().get("error"), "the error")
    os.unlink(lock)
    until(lambda: service.ids() == ids(1), "the delivery")
    assert unit.process.wait(GIVE_UP) == 0
    assert not unit.status()["error"]
    assert unit.log().count("no webhook is delivered") == 1


def test_it_continues_after_it_was_killed(unit, service):
    down = receivers.Receiver()
    down.stop()
    unit.configure(ops=down.url)
    unit.put("ops", 1, 2, 3)
    unit.start()
    until(lambda: unit.trouble("ops"), "the trouble")
    with open(f"/proc/{unit.process.pid}/cmdline", "rb") as file:
        arguments = file.read().decode()
    assert [secret for secret in SECRETS if secret in arguments] == []
    unit.process.kill()
    unit.process.wait()
    unit.configure(ops=service.url)
    unit.start()
    assert unit.process.wait(GIVE_UP) == 0
    assert service.ids() == ids(1, 2, 3)


def test_a_changed_configuration_ends_it_so_that_systemd_starts_it_with_the_new_one(unit, service):
    unit.configure(ops=service.url)
    service.answers = [(404, {})]
    unit.put("ops", 1)
    unit.start()
    until(lambda: unit.trouble("ops"), "the trouble")
    unit.configure(ops=service.url + "/corrected")
    assert unit.process.wait(GIVE_UP) == 0
    unit.start()
    assert unit.process.wait(GIVE_UP) == 0
    assert service.ids() == ids(1, 1)


def test_a_signal_ends_it_and_loses_nothing(unit, service):
    unit.configure(ops=service.url)
    service.answers = [(503, {"Retry-After": "600"})]
    unit.put("ops", 1)
    unit.start()
    until(lambda: unit.trouble("ops"), "the trouble")
    unit.process.send_signal(signal.SIGTERM)
    assert unit.process.wait(GIVE_UP) == 0
    assert len(unit.spool.entries()) == 1


def test_a_receiver_for_which_nothing_waits_any_more_is_in_no_trouble(unit, service):
    unit.configure(ops=service.url)
    service.answers = [(503, {"Retry-After": "600"})]
    unit.put("ops", 1)
    unit.start()
    until(lambda: unit.trouble("ops"), "the trouble")
    unit.spool.remove(unit.spool.entries()[0])  # as an operator may do
    assert unit.process.wait(GIVE_UP) == 0
    assert unit.trouble("ops") == ""


def test_a_broken_configuration_is_shown_and_keeps_the_messages(unit):
    unit.write('"T0SECRETPATH')
    unit.put("ops", 1)
    unit.start()
    until(lambda: unit.status().get("error"), "the error")
    assert "it is not JSON: run the role poller again" in unit.status()["error"]
    assert "T0SECRETPATH" not in unit.log() + unit.status()["error"]
    assert unit.process.poll() is None  # or systemd would start it again and again
    assert len(unit.spool.entries()) == 1


def test_messages_for_unknown_receivers_and_other_files_are_removed(unit, service):
    unit.configure(ops=service.url)
    unit.put("ops", 1)
    unit.put("gone", 1, 2)
    with open(os.path.join(unit.spool.directory, "notes"), "w"):
        pass
    unit.start()
    assert unit.process.wait(GIVE_UP) == 0
    assert unit.spool.is_empty()
    assert "webhook gone: not configured any more; its 2 messages are removed" in unit.log()


def test_what_a_full_spool_dropped_is_shown(unit, service):
    unit.configure(ops=service.url)
    for number in (1, 2, 3):
        made = receivers.message(number)
        unit.spool.put(json.dumps(made).encode(), made["id"], "ops", max_messages=2)
    unit.start()
    assert unit.process.wait(GIVE_UP) == 0
    assert service.ids() == ids(2, 3)
    problems, lines = delivery_status.judge(unit.status(), time.time())
    assert problems == ["webhook ops has lost messages"]
    assert lines[0].startswith("  webhook ops: nothing waits; 1 dropped, as the spool was full; the last loss was")


# What status shows


KNOWN = {
    "time": 1000.0,
    "waiting": 0,
    "error": "",
    "receivers": [
        {
            "name": "ops",
            "waiting": 0,
            "trouble": "",
            "trouble_since": None,
            "next_attempt": None,
            "last_loss": None,
            "dropped": 0,
            "refused": 0,
            "unreadable": 0,
        }
    ],
}


def known(**changes):
    top = {key: value for key, value in changes.items() if key in (*KNOWN, "spooled")}
    receiver = {key: value for key, value in changes.items() if key in KNOWN["receivers"][0]}
    return {**KNOWN, **top, "receivers": [{**KNOWN["receivers"][0], **receiver}]}


DOWN = {"trouble": "[Errno 111] Connection refused", "trouble_since": 1000.0, "next_attempt": 1200.0}


@pytest.mark.parametrize(
    ("changes", "now", "problems", "line"),
    [
        ({}, 99999.0, [], "  webhook ops: nothing waits"),
        (
            {"waiting": 1, **DOWN},
            1030.0,
            [],
            "  webhook ops: 1 message waits; [Errno 111] Connection refused, next attempt at 1970-01-01T00:20:00Z",
        ),
        ({**DOWN, "time": 1061.0}, 1061.0, ["webhook ops: [Errno 111] Connection refused"], None),
        (
            {"waiting": 2},
            1061.0,
            ["messages of webhooks are not delivered. See systemctl status scheduled-events-webhooks"],
            None,
        ),
        (
            {"spooled": 1010.0},
            1071.0,
            ["messages of webhooks are not delivered. See systemctl status scheduled-events-webhooks"],
            None,
        ),
        ({"spooled": 1010.0}, 1069.0, [], None),
        (
            {"waiting": 1, "time": 9000.0},
            1000.0,
            ["messages of webhooks are not delivered. See systemctl status scheduled-events-webhooks"],
            None,
        ),
        (
            {"spooled": 1010.0, "time": 9000.0},
            1071.0,
            ["messages of webhooks are not delivered. See systemctl status scheduled-events-webhooks"],
            None,
        ),
        ({"spooled": 8999.0, "time": 9000.0}, 1000.0, [], None),
        ({"spooled": 990.0}, 99999.0, [], None),
        (
            {"dropped": 5, "refused": 1, "last_loss": 900.0},
            1000.0,
            ["webhook ops has lost messages"],
            "  webhook ops: nothing waits; 5 dropped, as the spool was full; 1 dropped, as the receiver refused them; "
            "the last loss was at 1970-01-01T00:15:00Z",
        ),
        ({"dropped": 5, "last_loss": 900.0}, 900.0 + 86401, [], None),
        ({"error": "x is not JSON"}, 1000.0, ["no webhook is delivered: x is not JSON"], None),
    ],
)
def test_status_judges_what_the_delivery_wrote(changes, now, problems, line):
    found, lines = delivery_status.judge(known(**changes), now)
    assert found == problems
    if line is not None:
        assert lines == [line]


def test_without_webhooks_there_is_nothing_to_judge(tmp_path):
    assert delivery_status.judge(delivery_status.read(str(tmp_path)), time.time()) == ([], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json.dumps(known(last_loss=time.time(), dropped=2)), "webhook ops has lost messages"),
        ("{", "cannot be read: "),
        ("[]", "cannot be read: "),
        ('{"receivers": [{}]}', "cannot be read: 'name'"),
        (json.dumps(known(dropped=2, last_loss=1e300)), "cannot be read: "),
    ],
    ids=[
        "lost",
        "cut",
        "a list",
        "a receiver without fields",
        "a time that is not a date",
    ],  # the first text differs from process to process
)
def test_the_command_shows_the_webhooks(tmp_path, text, said):
    (tmp_path / "status.json").write_text(text)
    arguments = [f"--webhooks-runtime-directory={tmp_path}", f"--runtime-directory={tmp_path / 'none'}", "status"]
    status, output, _errors = COMMANDS.run(arguments)
    assert status == 2
    assert said in output
