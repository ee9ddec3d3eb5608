# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults at the boundaries of all programs of a VM: before one changes a file, sends, or starts a process.

The programs are the polling unit, the dispatcher, the runner of hooks, the hook of webhooks and their delivery. One
life of an event records the boundaries. `make test` tries some of them, spread over the life; `make soak` all, or with
BOUNDARIES_STEP=N each N-th.
"""

import collections
import concurrent.futures
import os
import pathlib
import tempfile
from collections.abc import Iterator

import boundary
import pytest
from emulation import until
from polling_vm import PHASES, Host

VMS = ("vm1", "vm2", "vm3", "vm4")
OCCURRENCES = 3  # of the same boundary; what is done at each poll has many
LOOK_AT_STATUS = 40  # looks at the files until the next one at what the status shows
ID = "x-scheduled-events-id"
HOOKS, WEBHOOKS = "scheduled-events-hooks", "scheduled-events-webhooks"
PROGRAMS = {
    "poller": "scheduled-events run",
    "dispatcher": f"{HOOKS} dispatch",
    "runner": f"{HOOKS} run",
    "runner's end": f"{HOOKS} ended",
    "webhook hook": f"{WEBHOOKS} spool",
    "delivery": f"{WEBHOOKS} deliver",
}
SOME = {  # lives in `make test`
    "die": 5,
    boundary.EMPTIED: 1,
    "names lost": 1,
    "content lost": 1,
    "full": 1,
    "clock back": 1,
}
SOAK = os.environ.get("TIER") == "soak"
# These show what goes on elsewhere: of the same boundary, the first occurrence is enough.
ONCE = ("reboot", boundary.EMPTIED, *boundary.ERRORS, *boundary.CLOCK)
FAULTS = [fault for fault in boundary.FAULTS if fault not in ("none", "alone")]


@pytest.fixture(scope="module")
def emulator(emulate):
    return emulate([{"name": name} for name in VMS], "--rate-limit", "0", "--exit-after", "14400")


@pytest.fixture(scope="module")
def lives(emulator, installed_collection, web_host):
    """A function that takes an event through its life on a VM with nothing from an earlier life."""
    # Short, unlike tmp_path, since the path of a socket is.
    with tempfile.TemporaryDirectory(prefix="vms-") as base:

        def live(name: str, fault: str, boundary_name: str = "", occurrence: int = 0) -> "Life":
            directory = pathlib.Path(tempfile.mkdtemp(dir=base))
            receiver = web_host()
            host = Host(
                installed_collection,
                directory,
                emulator.endpoints[name],
                receiver.endpoint,
                fault,
                boundary_name,
                occurrence,
            )
            life = Life(emulator, name, host, receiver, f"{fault} at {boundary_name} ({occurrence})")
            life.go_through()
            receiver.stop()
            return life

        yield live


@pytest.fixture(scope="module")
def boundaries(lives) -> "collections.Counter[str]":
    """The boundaries of a life without a fault, and how often each is reached."""
    life = lives(VMS[0], "none")
    assert not life.complaints, life.complaints
    return collections.Counter(life.host.reached())


class Life:
    """An event on a VM, from its announcement until all is over. ``complaints``: what is wrong about it."""

    def __init__(self, emulator, name: str, host: Host, receiver, what: str) -> None:
        self.host, self.complaints = host, []
        self._emulator, self._receiver, self._name, self._what = emulator, receiver, name, what
        self._fault = host.fault
        self._event_id = ""
        self._failed: set[str] = set()
        self._completed = self._unprepared = self._repaired = False
        self._looks = self._unrecovered = 0

    def go_through(self) -> None:
        self._event_id = self._emulator.schedule("Reboot", self._name, notice=36000, started_for=36000)
        try:
            until(self._over, what="the end of the event", every=0.03)
        except AssertionError as error:
            self._complain(f"{error}: {self.host.hooks_of(self._event_id)} {self.host.remembered()}")
        else:
            self._judge()
        finally:
            self.host.switch_off()
            if not self._completed:
                self._end_event()

    def _over(self) -> bool:
        self.host.tend()
        self._look_at_the_disk()
        entry = (self.host.remembered() or {}).get(self._event_id.lower())
        runs = entry["runs"] if entry else {}
        self._failed |= {phase for phase, run in runs.items() if run["outcome"] in ("failed", "timeout")}
        if "prepare" in self._failed and not self._unprepared:  # no acknowledgement comes
            self._unprepared = True
            self._emulator.start(self._event_id)
        if not self._completed and runs.get("started", {}).get("outcome") in ("ok", "failed"):
            self._end_event()
        self._unrecovered = self._unrecovered + 1 if runs.get("recover", {}).get("outcome") == "failed" else 0
        if self._is_shown(self._unrecovered):
            self.host.retry(self._event_id)
        return self._completed and self.host.remembers_nothing() and self._delivered()

    def _end_event(self) -> None:
        self._completed = True
        if any(event["event_id"] == self._event_id for event in self._emulator.state()["events"]):
            if not self._emulator.log("started") or not self._started():
                self._emulator.start(self._event_id)
            self._emulator.complete(self._event_id)

    def _started(self) -> bool:
        return any(entry["event_id"] == self._event_id for entry in self._emulator.log("started"))

    def _look_at_the_disk(self) -> None:
        """Repair the disk once the status shows that the polling unit cannot write."""
        if self._fault not in boundary.ERRORS or not self.host.struck() or self._repaired:
            return
        self._looks += 1
        if self._is_shown(self._looks, by_status=PROGRAMS["poller"] in self.host.failed()):
            self._repaired = True
            self.host.repair()

    def _is_shown(self, looks: int, *, by_status: bool = True) -> bool:
        """Whether an operator sees what is wrong after so many looks; until then, the life does not go on."""
        if not looks or looks % LOOK_AT_STATUS:
            return False
        return not by_status or self.host.status().returncode != 0

    def _delivered(self) -> bool:
        return not self.host.messages() and len(self._ids()) >= len(PHASES) - len(self._lost())

    def _ids(self) -> list[str]:
        """The messages that arrived, without repetitions."""
        return list(dict.fromkeys(headers[ID] for _method, _path, headers in list(self._receiver.asked)))

    def _lost(self) -> set[str]:
        """The phases of which no message need arrive, since their hook could not keep it."""
        kept_nothing = self._fault in boundary.ERRORS and PROGRAMS["webhook hook"] in self.host.failed()
        return set(PHASES) if kept_nothing else self._failed

    def _judge(self) -> None:
        hooks = [(phase, mark) for phase, mark, _moment in self.host.hooks_of(self._event_id)]
        # After a boot, and after a run that died, a phase that had not ended begins again.
        again = self._fault in (boundary.EMPTIED, *boundary.CUTS) or bool(self._failed)
        for phase in PHASES:
            begun, ended = hooks.count((phase, "begin")), hooks.count((phase, "end"))
            if begun != 1 and not again:
                self._complain(f"the {phase} hooks began {begun} times")
            if not ended and phase not in self._failed:
                self._complain(f"the {phase} hooks never ended")
        if hooks[-1:] != [("recover", "end")]:
            self._complain("the recovery was not the last")
        self._judge_acknowledgement()

    def _judge_acknowledgement(self) -> None:
        moments = self.host.hooks_of(self._event_id)
        prepared = [moment for phase, mark, moment in moments if (phase, mark) == ("prepare", "end")]
        recovered = [moment for phase, mark, moment in moments if (phase, mark) == ("recover", "begin")]
        posts = [entry["at_real"] for entry in self._emulator.log("post") if self._event_id in entry["event_ids"]]
        if self._unprepared:
            if posts:
                self._complain(f"acknowledged at {posts}, although the preparation failed")
        elif not posts:
            self._complain("never acknowledged")
        elif not prepared or min(posts) < prepared[0] - 0.001:  # the log has whole milliseconds
            self._complain(f"acknowledged at {posts}, prepared at {prepared}")
        elif recovered and max(posts) > recovered[0]:
            self._complain(f"acknowledged at {posts}, recovered at {recovered}")

    def _complain(self, complaint: str) -> None:
        hooks = [(phase, mark) for phase, mark, _moment in self.host.hooks_of(self._event_id)]
        self.complaints.append(f"{self._what}: {complaint}\n{hooks}\n{self.host.journal()}")
        print(self.complaints[-1], flush=True)


def chosen(boundaries: "collections.Counter[str]", fault: str) -> Iterator[tuple[str, int]]:
    """The boundaries at which a fault makes a difference."""
    for name, found in sorted(boundaries.items()):
        if fault not in boundary.ERRORS or boundary.changes(name):
            yield from ((name, time) for time in range(1, 1 + (1 if fault in ONCE else min(found, OCCURRENCES))))


@pytest.mark.timeout(14400)
@pytest.mark.parametrize("fault", FAULTS if SOAK else sorted(SOME))
def test_a_fault_at_any_boundary_loses_no_event_and_acknowledges_nothing_early(lives, boundaries, fault):
    wanted = list(chosen(boundaries, fault))[:: int(os.environ.get("BOUNDARIES_STEP", "1"))]
    if not SOAK:
        wanted = wanted[len(wanted) // (2 * SOME[fault]) :: -(-len(wanted) // SOME[fault])]

    def work(index: int) -> list[Life]:
        return [lives(VMS[index], fault, *each) for each in wanted[index :: len(VMS)]]

    with concurrent.futures.ThreadPoolExecutor(len(VMS)) as threads:
        found = [life for each in threads.map(work, range(len(VMS))) for life in each]
    complaints = [complaint for life in found for complaint in life.complaints]
    print(f"{fault}: {len(found)} boundaries, {sum(life.host.struck() for life in found)} reached")
    assert not complaints, "\n".join(complaints)


def test_each_program_of_a_vm_has_boundaries(boundaries):
    programs = {name.partition(": ")[0] for name in boundaries}
    assert programs == set(PROGRAMS.values())
    names = {name.partition(": ")[2] for name in boundaries}
    print(*(f"{count:5d} {name}" for name, count in sorted(boundaries.items())), sep="\n")
    assert {"replace state.json", "open history.jsonl", "start N-log", "sendall POST", "fsync messages"} <= names, names
