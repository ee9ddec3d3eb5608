# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scheduled_events_wait, by its own clock: the seconds that pass here are real, so all waits run at the same time.

Every wait is a separate process, started before the first test; a test steers the platform and looks at the result.
Times are long enough for a busy machine, on which a module needs seconds for a poll.
"""

import pytest
from emulation import until

from playbooks import module_task, play

WAIT = "scheduled_events_wait"
FAILURES = 6  # of an outage; with the pauses between them about 20 seconds
STABLE_FOR = 3.0
TIMEOUT = 15  # seconds, in which a wait must have polled once


class Wait:
    """A running wait on its own VM, which one event names."""

    def __init__(self, ansible, emulator, vm, *, announce=True, check=False, **arguments):
        self.emulator, self.vm = emulator, vm
        self.event_id = emulator.schedule("Reboot", vm) if announce else None
        task = module_task(WAIT, {"endpoint": emulator.endpoints[vm], "timeout": 600, **arguments}, check_mode=check)
        self.run = ansible.start_playbook([play([task])])

    def polled(self, more=1):
        """Wait until the module has polled ``more`` times from now on."""
        before = self.emulator.polls(self.vm)["polls"]
        until(lambda: self.emulator.polls(self.vm)["polls"] >= before + more, what=f"a poll of {self.vm}")

    def finish(self):
        """Let the event start and leave."""
        self.emulator.start(self.event_id)
        self.emulator.complete(self.event_id)

    def result(self):
        return self.run.result().tasks[0]

    def gone_at(self):
        """The wall time at which the last event left."""
        return self.emulator.log("removed")[-1]["at_real"]


@pytest.fixture(scope="module")
def waits(ansible, emulate):
    """Name → the wait."""
    names = ["outage", "stable", "present", "timeout", "limited", "check"]
    emulators = {name: emulate([{"name": name}], "--manual-clock", "--rate-limit", "0") for name in names}

    def start(name, **arguments):
        return Wait(ansible, emulators[name], name, **arguments)

    started = {"outage": start("outage")}
    started["outage"].polled()
    emulators["outage"].fault("reset", count=FAILURES)
    started["stable"] = start("stable", stable_for=STABLE_FOR, sleep=0.5)
    started["present"] = start("present", announce=False, state="present", event_types=["Preempt"])
    started["timeout"] = start("timeout", timeout=TIMEOUT, sleep=0.5)
    emulators["limited"].fault("status", status=500)
    started["limited"] = start("limited", sleep=0.5, retry_for=2)
    started["check"] = start("check", check=True)
    return started


def test_stable_for_is_honoured(waits):
    wait = waits["stable"]
    wait.polled()
    wait.finish()
    result = wait.result()
    assert not result.failed, result["msg"]
    assert result["events"] == []
    assert wait.run.result().ended >= wait.gone_at() + STABLE_FOR


def test_present_ends_with_the_event_that_was_asked_for(waits):
    wait = waits["present"]
    wait.emulator.schedule("Reboot", "present")
    wait.polled(2)
    assert wait.run.running, "ended with an event of another type"
    event_id = wait.emulator.schedule("Preempt", "present")
    result = wait.result()
    assert not result.failed, result["msg"]
    assert [event["event_id"] for event in result["events"]] == [event_id]
    assert (result["changed"], result["incarnation"]) == (False, 3)


def test_a_timeout_fails_and_names_the_event_that_stood_in_the_way(waits):
    wait = waits["timeout"]
    result = wait.result()
    assert result.failed
    not_before = wait.emulator.state()["events"][0]["not_before"].replace(".000Z", "Z")
    # On a busy machine, no answer may come within the last second, which the message adds.
    assert result["msg"].partition("; the last request failed: ")[0] == (
        f"Timeout after {TIMEOUT} seconds: still there: "
        f"Reboot {wait.event_id} (Scheduled, NotBefore {not_before}) of timeout"
    )
    assert [event["event_id"] for event in result["events"]] == [wait.event_id]
    assert result["elapsed"] >= TIMEOUT
    assert result["incarnation"] == 1


def test_polls_that_fail_for_longer_than_retry_for_end_the_wait(waits):
    result = waits["limited"].result()
    assert result.failed
    assert result["msg"].startswith(
        "Polls failed for 2 seconds, the limit that retry_for sets: no document could be read; "
        "the last request failed: GET "
    )
    assert (result["events"], result["incarnation"]) == ([], None)


def test_check_mode_waits_too(waits):
    wait = waits["check"]
    wait.polled(2)
    assert wait.run.running
    wait.finish()
    assert not wait.result().failed
    assert wait.emulator.posts() == []


def test_absent_holds_through_an_outage(waits):
    wait = waits["outage"]
    until(lambda: wait.emulator.polls("outage")["failures_injected"] == FAILURES, what="the end of the outage")
    wait.polled(2)
    assert wait.run.running, "took the outage for the absence of the event"
    wait.finish()
    result = wait.result()
    assert not result.failed, result["msg"]
    assert (result["events"], result["incarnation"]) == ([], 3)
    assert wait.run.result().ended > wait.gone_at()
