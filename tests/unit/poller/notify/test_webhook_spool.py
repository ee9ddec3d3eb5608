# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The spool of webhooks, and the hook that fills it."""

import fcntl
import json
import os
import stat
import subprocess
import sys

import pytest
from fake_clock import FakeClock
from polling_unit import ROOT
from receiver import EVENT, message
from scheduled_events_poller.notify import delivery_status, webhook_hook
from scheduled_events_poller.notify.messages import DROPPED, MessageSpool, SpoolError

COMMAND_OF_WEBHOOKS = os.path.join(ROOT, "roles", "poller", "files", "scheduled-events-webhooks")
RUN = "c7061bac.prepare.1769860200000"
SECRET = "S3cretValue"


def put(spool, number, receiver="ops", text=None, max_messages=100):
    made = message(number)
    content = (text or json.dumps(made)).encode()
    return spool.put(content, made["id"], receiver, max_messages=max_messages)


def numbers(spool, receiver="ops"):
    return [int(entry.id[-12:]) for entry in spool.entries() if entry.receiver == receiver]


def test_messages_keep_their_order_although_the_clock_is_set_back(tmp_path):
    clock = FakeClock()
    spool = MessageSpool(str(tmp_path), clock=clock)
    for number in range(1, 6):
        put(spool, number)
        clock.now -= 3600
    assert numbers(spool) == [1, 2, 3, 4, 5]


def test_a_message_that_waits_already_is_not_kept_twice(tmp_path):
    spool = MessageSpool(str(tmp_path))
    put(spool, 1)
    put(spool, 1)
    put(spool, 1, receiver="other")
    assert (numbers(spool), numbers(spool, "other")) == ([1], [1])


def test_only_root_reads_a_message(tmp_path):
    spool = MessageSpool(str(tmp_path / "state"))
    put(spool, 1)
    modes = [
        stat.S_IMODE(os.stat(path).st_mode)
        for path in (spool.directory, os.path.join(spool.directory, spool.entries()[0].file))
    ]
    assert modes == [0o700, 0o600]


def test_the_oldest_messages_of_a_full_receiver_are_dropped_and_counted_and_no_others(tmp_path):
    spool = MessageSpool(str(tmp_path), clock=FakeClock())
    put(spool, 1, receiver="other")
    dropped = [put(spool, number, max_messages=3) for number in range(1, 6)]
    assert dropped == [0, 0, 0, 1, 1]
    assert (numbers(spool), numbers(spool, "other")) == ([3, 4, 5], [1])
    assert spool.losses() == {"ops": {DROPPED: 2, "last": 1769860200.0}}


def test_a_spool_that_another_process_keeps_locked_is_given_up(tmp_path):
    spool = MessageSpool(str(tmp_path), clock=FakeClock())
    with open(str(tmp_path / "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SpoolError, match="another process holds the lock"):
            put(spool, 1)


def test_a_file_that_is_not_a_message_is_removed(tmp_path):
    spool = MessageSpool(str(tmp_path))
    put(spool, 1)
    for name in (".0001.ops.json.abcdef", "notes", "1.ops.x.json"):
        with open(os.path.join(spool.directory, name), "w"):
            pass
    spool.tidy()
    assert os.listdir(spool.directory) == [spool.entries()[0].file]


def test_half_written_files_do_not_count_as_messages(tmp_path):
    spool = MessageSpool(str(tmp_path))
    os.makedirs(spool.directory)
    with open(os.path.join(spool.directory, ".0001"), "w"):
        pass
    assert spool.is_empty()


def test_a_spool_that_was_never_filled_is_empty(tmp_path):
    spool = MessageSpool(str(tmp_path / "missing"))
    assert (spool.entries(), spool.is_empty()) == ([], True)


def test_a_message_that_was_delivered_meanwhile_is_none(tmp_path):
    spool = MessageSpool(str(tmp_path))
    put(spool, 1)
    (entry,) = spool.entries()
    assert spool.read(entry)["id"] == entry.id
    spool.remove(entry)
    assert spool.read(entry) is None


@pytest.mark.parametrize("text", ["[]", "{}", '{"event": []}'])
def test_a_file_without_an_event_is_not_delivered(tmp_path, text):
    spool = MessageSpool(str(tmp_path))
    put(spool, 1, text=text)
    with pytest.raises(SpoolError, match="holds no message"):
        spool.read(spool.entries()[0])


# The hook


def configure(tmp_path, *receivers):
    path = tmp_path / "webhooks.json"
    path.write_text(json.dumps([{"url": "http://127.0.0.1/" + SECRET, **receiver} for receiver in receivers]))
    path.chmod(0o600)
    return str(path)


def run_hook(tmp_path, phase="prepare", run=RUN, text=None, config=None):
    environment = {
        "SCHEDULED_EVENT_PHASE": phase,
        "SCHEDULED_EVENT_FIRST_RUN": run,
        "SCHEDULED_EVENT_RUN": f"{run}.9",  # each repetition has its own
        "SCHEDULED_EVENTS_VM_NAME": "web1",
    }
    places = [config or str(tmp_path / "webhooks.json"), str(tmp_path / "state"), str(tmp_path / "run")]
    return subprocess.run(
        [sys.executable, "-IS", COMMAND_OF_WEBHOOKS, "spool", *places],
        input=(json.dumps(EVENT) if text is None else text).encode(),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
    ).stdout.decode()


def test_the_hook_leaves_the_event_for_those_who_want_its_phase(tmp_path):
    configure(tmp_path, {"name": "all"}, {"name": "trouble", "phases": ["failed"]})
    assert run_hook(tmp_path) == ""
    spool = MessageSpool(str(tmp_path / "state"))
    (entry,) = spool.entries()
    assert entry.receiver == "all"
    kept = spool.read(entry)
    assert (kept["event"], kept["phase"], kept["vm_name"], kept["id"]) == (EVENT, "prepare", "web1", entry.id)
    assert (tmp_path / "run" / "spooled").exists()


def test_a_run_that_is_repeated_leaves_the_same_message_and_another_run_another_one(tmp_path):
    configure(tmp_path, {"name": "ops"})
    for run in (RUN, RUN, RUN + "1", "test", "test"):
        run_hook(tmp_path, run=run)
    assert len(MessageSpool(str(tmp_path / "state")).entries()) == 4
    assert webhook_hook.message_id("web1", RUN) != webhook_hook.message_id("web2", RUN)


@pytest.mark.parametrize(
    ("breakage", "said"),
    [
        ({"text": "no json"}, "no webhook is sent: "),
        ({"text": "[" * 100000}, "no webhook is sent: "),
        ({"phase": "dance"}, "no webhook is sent: expected an event"),
        ({"config": "/dev/null"}, "no webhook is sent: /dev/null: expected a file that only root can read"),
    ],
)
def test_the_hook_says_what_it_cannot_do_and_ends_well(tmp_path, breakage, said):
    configure(tmp_path, {"name": "ops"})
    assert said in run_hook(tmp_path, **breakage)


def test_a_message_that_cannot_be_written_is_lost_aloud_and_the_hook_ends_well(tmp_path):
    configure(tmp_path, {"name": "ops"})
    (tmp_path / "state").write_text("not a directory")
    assert "webhook ops: the message cannot be kept and is lost: " in run_hook(tmp_path)
    assert "spooled" not in delivery_status.read(str(tmp_path / "run"))  # no delivery is missing


@pytest.mark.parametrize("cause", ["the spool", "the configuration"])
def test_a_message_that_is_lost_without_a_trace_on_the_disk_is_in_the_status_for_a_day(tmp_path, cause):
    config = configure(tmp_path, {"name": "ops"})
    if cause == "the spool":
        (tmp_path / "state").write_text("not a directory")
    else:
        os.chmod(config, 0o644)
    said = run_hook(tmp_path).rstrip()
    known = delivery_status.read(str(tmp_path / "run"))
    now = known["lost_at"]
    known.update(time=now + 1, spooled=now)  # a delivery runs
    assert (delivery_status.judge(known, now + 30)[0], said != "") == ([said], True)
    assert delivery_status.judge(dict(known, time=now + 90000), now + 90000)[0] == []


def test_the_hook_says_what_it_dropped(tmp_path):
    configure(tmp_path, {"name": "ops", "max_messages": 1})
    run_hook(tmp_path)
    assert "webhook ops: its spool is full, and 1 of the oldest messages were dropped" in run_hook(tmp_path, run="x")
