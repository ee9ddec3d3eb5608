# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes the requests that the poller left, as hostile input, and starts a unit for each.

Whatever the poller's user puts into the spool, the work of one look at it is bounded, and so is the share of the time
that is spent on looking. Real requests come first.
"""

import contextlib
import errno
import os
import time
from typing import Callable, Dict, List, NamedTuple, Sequence, Set

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.files import LACKING, plain, trim
from _scheduled_events.runs import FAILED, parse_run_id

from ..spool import MAX_REQUEST, SAID, Directories, RunResult, parse_request
from . import jobs
from .jobs import Process

MAX_REQUESTS = 16  # taken in one look
MAX_JOBS, MAX_JOB_BYTES = 64, 8 * 1024 * 1024  # what their processes read takes 12 times as much memory
MAX_REMOVALS = 5000  # names of junk, in one look
MAX_RESULTS = 1000  # and as many outputs
MAX_COMPLAINTS = 100  # lines in the journal
KEEP_RESULTS = 30 * 24 * 3600.0  # seconds

PAUSE = 0.05  # seconds between two looks, at least
REST = 4  # times the processor time of a look and of the runs that it started is the pause after it
RUN_COST = 0.1  # seconds of a processor for a run without its hooks, most of them for a start of Python
LINGER = 0.3  # seconds to wait for the next request, which costs less than to start again
LONGEST = 20.0  # seconds until it ends in any case; systemd starts it again if requests remain
PATIENCE = 15.0  # seconds for systemctl
UNSTARTED = 10.0  # seconds for which a run is tried again that systemd does not start, as during its own upgrade
AGAIN = 1.0  # seconds between these attempts, each of which is a line in the journal

# Begins the name of a request that is being handled. Not hidden: for systemd the spool would be empty.
_TAKEN = "taken:"

# What keeps a request from being read and is not its fault: it was removed, or the machine lacks something now.
_NOT_ITS_FAULT = (errno.ENOENT, errno.EROFS, *LACKING)

Start = Callable[[Sequence[str]], Dict[str, str]]


def processor_time() -> float:
    """The seconds that this process and its children that have ended took of a processor."""
    return sum(os.times()[:4])


class Look(NamedTuple):
    """The result of a look at the spool: the number of requests that are done with, and whether requests remain."""

    taken: int
    left: bool


class Dispatcher:
    """Looks at the spool until it is empty for a while.

    :param start: starts units for the ids of runs; returns why it could not, by id.
    """

    def __init__(self, directories: Directories, start: Start) -> None:
        self._directories = directories
        self._start = start
        self._complaints: Set[str] = set()
        self._unstarted: Dict[str, float] = {}  # when a run could not be started first
        self._pause = PAUSE
        self._removed = 0

    def serve(self, *, clock: Clock = CLOCK, processor: Callable[[], float] = processor_time) -> None:
        """Take all requests, until none has come for a while.

        :param processor: see :func:`processor_time`.
        :raises OSError: the directories of root cannot be used, or no process can be started now.
        """
        began = busy = clock.monotonic()
        while clock.monotonic() - began < LONGEST:
            before = processor()
            look = self.look()
            now = clock.monotonic()
            if look.taken or look.left:
                busy = now
            if not look.left and now - busy >= LINGER:
                break
            # Also before it ends and systemd starts it again.
            cost = processor() - before + RUN_COST * look.taken
            clock.sleep(min(max(self._pause, REST * cost), LONGEST))
        if self._removed:
            jobs.say(f"removed {self._removed} files and directories that are not requests")

    def look(self) -> Look:
        """Take requests once, and remove some of what is not a request.

        :raises OSError: the directories of root cannot be used, or no process can be started now.
        """
        jobs.prepare(self._directories)
        try:
            spool = os.open(self._directories.requests, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return Look(0, left=False)
        except OSError as error:
            self._complain(f"requests cannot be read: {error}")
            return Look(0, left=True)
        try:
            return self._look(spool)
        finally:
            os.close(spool)

    def _look(self, spool: int) -> Look:
        names = os.listdir(spool)
        done = self._take(spool, _newest(spool, {_id_of(name) for name in names} - {""}))
        for request_id in done:
            self._remove(spool, _TAKEN + request_id)
        if done:
            self._purge()
        junk = [name for name in names if not _id_of(name)]
        self._removed += sum(self._remove(spool, name) for name in junk[:MAX_REMOVALS])
        return Look(len(done), left=bool(os.listdir(spool)))

    def _remove(self, spool: int, name: str) -> bool:
        """Remove a name from the spool; whether that was done.

        A directory goes to the others of the poller's user: whatever it holds takes no time here.
        """
        with contextlib.suppress(OSError):
            try:
                os.unlink(name, dir_fd=spool)
            except (IsADirectoryError, PermissionError):
                away = os.path.join(self._directories.runtime, f"removed-{os.urandom(8).hex()}")
                os.rename(name, away, src_dir_fd=spool)
            return True
        return False

    def _take(self, spool: int, ids: Sequence[str]) -> List[str]:
        """Carry out the requests; returns those that have to be removed."""
        refused: List[str] = []
        accepted: List[str] = []
        if ids and _are_too_many(jobs.sizes(self._directories)):  # not each time, since that reads all of them
            jobs.give_up_overdue(self._directories)
        for request_id in ids:
            sizes = jobs.sizes(self._directories)
            # Left where it is: whether it comes too late is decided by its own deadline.
            if _are_too_many(sizes) and request_id not in sizes:
                size = sum(sizes.values())
                self._complain(f"request {request_id} waits: there are {len(sizes)} jobs already, with {size} bytes")
                continue
            try:
                (accepted if self._accept(spool, request_id) else refused).append(request_id)
            except OSError as error:
                self._complain(f"request {request_id} waits: {error}")
        fresh = [request_id for request_id in accepted if not jobs.has_ended(self._directories, request_id)]
        for request_id in set(accepted) - set(fresh):
            jobs.forget(self._directories, request_id)  # it has ended, and the poller only asked again
        waiting = [
            request_id
            for request_id, reason in (self._start(fresh) if fresh else {}).items()
            if not self._give_up(request_id, reason)
        ]
        self._pause = AGAIN if waiting else PAUSE
        return refused + [request_id for request_id in accepted if request_id not in waiting]

    def _give_up(self, request_id: str, reason: str) -> bool:
        """Leave a result for a run that cannot be started; ``False`` if it waits, or if that is not possible now."""
        self._complain(f"request {request_id}: {reason}")
        now = time.monotonic()
        if now - self._unstarted.setdefault(request_id, now) < UNSTARTED:
            return False
        try:
            jobs.give_up(self._directories, request_id, reason)
        except OSError as error:
            self._complain(f"request {request_id} waits: {error}")
            return False
        return True

    def _accept(self, spool: int, request_id: str) -> bool:
        """Check a request and keep it; ``False``, and a result, if it is refused.

        :raises OSError: it cannot be read or kept now.
        """
        try:
            text = _read(spool, request_id)
            job = parse_request(text, request_id)
        except WrongValue as error:
            self._complain(f"request {request_id} refused: {error}")
            if not jobs.exists(self._directories, request_id):  # which runs as it was accepted
                reason = f"the request was refused: {error}"
                jobs.end(self._directories, RunResult(request_id, FAILED, reason, 0.0))
            return False
        if not jobs.has_ended(self._directories, request_id):
            jobs.accept(self._directories, text, job)
        return True

    def _purge(self) -> None:
        """Remove old results and outputs, and the oldest of too many."""
        running = {SAID + run.token for run in map(parse_run_id, jobs.sizes(self._directories)) if run}
        now = time.time()
        trim(self._directories.results, now, oldest=KEEP_RESULTS, most=MAX_RESULTS)
        trim(self._directories.hooks_runtime, now, oldest=KEEP_RESULTS, most=MAX_RESULTS, begins=SAID, keep=running)

    def _complain(self, message: str) -> None:
        if message not in self._complaints and len(self._complaints) < MAX_COMPLAINTS:
            self._complaints.add(message)
            jobs.say(message)


def _are_too_many(sizes: Dict[str, int]) -> bool:
    return len(sizes) >= MAX_JOBS or sum(sizes.values()) >= MAX_JOB_BYTES


def _id_of(name: str) -> str:
    """The id of the run that a file of the spool asks for, taken or not; empty if it is something else."""
    request_id = name[len(_TAKEN) :] if name.startswith(_TAKEN) else name
    return request_id if parse_run_id(request_id) else ""


def _newest(spool: int, ids: Set[str]) -> List[str]:
    """As many as are taken in one look: those that came last, so that no flood from before holds them up."""

    def changed(request_id: str) -> int:
        times = [0]
        for name in (request_id, _TAKEN + request_id):
            with contextlib.suppress(OSError):
                times.append(os.stat(name, dir_fd=spool, follow_symlinks=False).st_ctime_ns)
        return max(times)

    return sorted(ids, key=changed, reverse=True)[:MAX_REQUESTS]


def _read(spool: int, request_id: str) -> bytes:
    """Take a request under another name, so that one that replaces it is not removed with it, and read it.

    :raises WrongValue: it is not a file that the poller wrote.
    :raises OSError: it cannot be read now.
    """
    taken = _TAKEN + request_id
    try:
        # Without a file of that name it was taken before, and this process ended.
        with contextlib.suppress(FileNotFoundError):
            os.rename(request_id, taken, src_dir_fd=spool, dst_dir_fd=spool)
        with plain(taken, dir_fd=spool) as (file, status):
            if status.st_uid != os.fstat(spool).st_uid:
                raise WrongValue("it belongs to another user than its directory")
            return file.read(MAX_REQUEST + 1)
    except OSError as error:
        if error.errno in _NOT_ITS_FAULT:
            raise
        raise WrongValue(f"it cannot be read: {error.strerror or error}") from error


# Starting


def start_units(ids: Sequence[str]) -> Dict[str, str]:
    """Have systemd start the units of runs; returns why it did not start all of them, by id.

    :raises OSError: the machine has no room for a process now.
    """
    reason = _systemctl_start([f"scheduled-events-hook@{request_id}.service" for request_id in ids])
    return dict.fromkeys(ids, reason) if reason else {}


def _systemctl_start(units: Sequence[str]) -> str:
    try:
        process = Process(["systemctl", "start", "--no-block", "--", *units])
    except OSError as error:
        if error.errno in jobs.NO_ROOM:
            raise
        return f"systemctl cannot be started: {error}"
    status = process.wait(PATIENCE)
    if status is None:
        process.end(1.0)
        return f"systemctl start did not end within {PATIENCE:g} s"
    return f"systemctl start ended with status {status}; see journalctl -u scheduled-events-hooks" if status else ""
