# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the hooks of one accepted request, as root, in a separate unit."""

import contextlib
import errno
import json
import os
import re
import select
import stat
import sys
import time
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock
from _scheduled_events.files import Occupied
from _scheduled_events.runs import FAILED, NOTHING, OK, PHASES, TIMEOUT, WEBHOOK_HOOK
from _scheduled_events.text import shown

from ..spool import LONGEST_REASON, Directories, Job, RunResult, find_hooks, hook_sets, parse_request
from . import jobs
from .jobs import Process

TRY_AGAIN = 75  # EX_TEMPFAIL, exit status of a hook that wants to be run again
PREPARED_NOTHING = 77  # exit status of a hook that did nothing which prepares this VM; the next hook follows

RETRY_PAUSE = 5.0  # seconds until a hook that exited with 75 is run again, or a result without room is stored again
GRACE = 3.0  # seconds between SIGTERM and SIGKILL
OLDER_PAUSE = 0.2  # seconds between two looks at an older run of the event
TICK = 1.0  # seconds within which a changed deadline or clock is noticed

_MEANT = re.compile(r"[a-z]+([._-]?d)?\Z", re.I)  # what may be meant for the directory of a phase, as recovery.d

# The kernel refuses to start a program with a variable of 128 KiB with its name, or with more than 2 MiB of arguments
# and variables (a quarter of the usual limit of the stack), which those of an event together do not reach.
LONGEST_VARIABLE = 124 * 1024  # bytes
LONGEST_FIRST_LINE = 256  # bytes that the kernel reads, up to a NUL

_NO_PROGRAM = errno.ENOENT, errno.ENOTDIR


class HookRefused(Exception):
    """A hook that is not run. The message contains the reason and an instruction."""


class Vanished(Exception):
    """A hook that was listed no longer exists."""


class HookEnd(NamedTuple):
    """The end of one hook. ``outcome``: ``NOTHING`` is the exit status 77, in any phase."""

    name: str
    outcome: str
    seconds: float
    reason: str = ""


class Deadline:
    """The moment at which the hooks of a run must have ended, on two clocks: neither a jump nor a stop moves both.

    :param revised: returns the job with the newest times; ``None`` if they have not changed.
    """

    def __init__(self, job: Job, clock: Clock, revised: Callable[[], Optional[Job]]) -> None:
        self._job = job
        self._clock = clock
        self._revised = revised
        self._began = clock.monotonic()

    def left(self) -> float:
        """Remaining seconds; 0 or negative after it has passed."""
        job = self._job = self._revised() or self._job
        # Hooks never get more time than the timeout from here on.
        left = min(job.ends_at, self._began + job.timeout) - self._clock.monotonic()
        if job.not_later_than is not None:
            left = min(left, job.not_later_than - self._clock.wall())
        return left

    @property
    def moment(self) -> float:
        """The deadline as the poller saw it, in seconds since the epoch."""
        return self._job.deadline


class HookSet:
    """The hooks of a phase, of the owner and of the role, as they were at the beginning of the run.

    :raises OSError: they cannot be listed.
    """

    def __init__(self, hooks_directory: str, phase: str) -> None:
        self.directory = os.path.join(hooks_directory, f"{phase}.d")
        self._found = find_hooks(hook_sets(hooks_directory), phase)
        self.names = list(self._found)
        # Where the link to the set is, and where the directory is, which can be a link, too.
        self._places = (hooks_directory, os.path.dirname(os.path.abspath(hooks_directory)))

    def path(self, name: str) -> bytes:
        """The path of a hook, whatever the encoding of its name and of this process."""
        return os.path.join(os.fsencode(self._found[name]), name.encode("utf-8", "surrogateescape"))

    def check(self, name: str) -> None:
        """Make sure that only root can change the hook (or the user of this process, if that is not root).

        :raises HookRefused: another user could change it, it is not a program, or the owner and the role have one each.
        :raises Vanished: it no longer exists.
        """
        path = self.path(name)
        owners = os.path.join(os.fsencode(self.directory), os.path.basename(path))
        if path != owners and os.path.lexists(owners):
            both = f"{os.fsdecode(owners)} and {os.fsdecode(path)}"
            raise HookRefused(f"refused: {both} have the same name. Rename one of them")
        try:
            status = os.lstat(path)
            flags = os.statvfs(path).f_flag if stat.S_ISREG(status.st_mode) else 0  # a link can lead to nothing
        except OSError as error:
            if error.errno in _NO_PROGRAM:
                raise Vanished from error
            raise HookRefused(f"refused: {error.strerror}") from error
        if not stat.S_ISREG(status.st_mode):
            raise HookRefused("refused: it is not a regular file. A link to a regular file is refused, too")
        if status.st_uid not in _trusted():
            raise HookRefused(f"refused: it belongs to user {status.st_uid}, expected root. Run chown root")
        if status.st_mode & 0o022:
            raise HookRefused("refused: other users than its owner can write it. Run chmod go-w")
        if not status.st_mode & 0o100:
            raise HookRefused("refused: it is not executable. Run chmod +x")
        if flags & os.ST_NOEXEC:
            raise HookRefused("refused: its file system is mounted with noexec. Mount it without this option")
        for place in (os.fsdecode(os.path.dirname(path)), *self._places):
            _check_directories(place)


def refused(hooks_directory: str) -> Iterator[str]:
    """What an event would find wrong with the hooks, such as with one that an operator has just added.

    :raises OSError: they cannot be listed.
    """
    names = sorted(os.listdir(hooks_directory))
    for phase in PHASES:
        for name in names:
            is_meant = _MEANT.match(name) and name[:4].lower() == phase[:4] and name != f"{phase}.d"
            if is_meant and os.path.isdir(os.path.join(hooks_directory, name)):
                yield f"{name}: no hook there is run, expected hooks in {phase}.d. Move them"
        hooks = HookSet(hooks_directory, phase)
        for name in hooks.names:
            with contextlib.suppress(Vanished):
                try:
                    hooks.check(name)
                    problem = _wrong_beginning(hooks.path(name))
                except HookRefused as error:
                    problem = str(error)
                if problem:
                    yield f"{phase}.d/{name}: {problem}"


# Jobs


def run(request_id: str, directories: Directories) -> int:
    """Carry out an accepted job once, and store its result for the poller; returns an exit status."""
    with contextlib.ExitStack() as stack:
        try:
            text = stack.enter_context(jobs.held(directories, request_id))
        except FileNotFoundError:
            jobs.say(f"there is no job {request_id}: it has ended")
        except Occupied:
            jobs.say(f"{request_id} is running already")
        else:
            # Asked for after files in /run were removed. The hooks of one event are not run twice at the same time.
            older = jobs.older_run(directories, request_id)
            while older:
                CLOCK.sleep(OLDER_PAUSE)
                older = older if older.goes_on() else jobs.older_run(directories, request_id)
            if jobs.has_ended(directories, request_id):
                jobs.forget(directories, request_id)
            else:
                result = _carry_out(text, request_id, directories)
                # Whatever time that takes: what the hooks did counts only with it.
                CLOCK.until(lambda: _store(result, directories), within=float("inf"), every=RETRY_PAUSE)
    return 0


def _carry_out(text: bytes, request_id: str, directories: Directories) -> RunResult:
    try:
        job = parse_request(text, request_id)
    except WrongValue as error:
        return RunResult(request_id, FAILED, f"the job cannot be read: {error}", 0.0)
    return run_phase(job, directories.hooks, sys.stdout.buffer, revised=lambda: jobs.revision(directories, request_id))


def _store(result: RunResult, directories: Directories) -> bool:
    """Store the result for the poller. Returns whether that was done; a lack of room or memory passes.

    :raises OSError: it cannot be stored for another reason.
    """
    try:
        jobs.end(directories, result)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, *jobs.NO_ROOM):
            raise
        jobs.say(f"{result.request_id}: its result waits: {error}")
        return False
    return True


def ended(request_id: str, directories: Directories, environment: Mapping[str, str]) -> int:
    """Store a failure for a run whose process ended without a result; for ExecStopPost=. Returns an exit status."""
    if environment.get("SERVICE_RESULT") == "resources":
        return 0  # its process could not be started, and systemd tries again
    if jobs.exists(directories, request_id) and jobs.goes_down():
        jobs.say(f"{request_id}: the machine goes down before its hooks have ended, and they run again")
        return 0
    how = " ".join(environment.get(name, "") for name in ("SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS")).strip()
    reason = f"its unit ended before its hooks: {how or 'systemd gives no reason'}"
    if jobs.give_up(directories, request_id, reason):
        jobs.say(f"{request_id}: {reason}")
    return 0


# Hooks


def run_phase(
    job: Job,
    hooks_directory: str,
    output: IO[bytes],
    *,
    clock: Clock = CLOCK,
    revised: Callable[[], Optional[Job]] = lambda: None,
) -> RunResult:
    """Run the hooks of the job's phase one after the other.

    Preparation stops at the first failure, since the event may not be acknowledged any more. The other phases continue,
    since the hooks that recover a VM must not depend on earlier hooks.
    """
    began = clock.monotonic()
    ends: List[HookEnd] = []
    with jobs.ended_descendants(GRACE):  # the next phase must not run beside the rest of this one
        for end in _ends(job, hooks_directory, output, clock, revised):
            ends.append(end)
            _log(output, f"{job.phase} hook {end.name}: {end.outcome} after {end.seconds:.1f} s {end.reason}".rstrip())
            if end.outcome == TIMEOUT or (end.outcome == FAILED and job.phase == "prepare"):
                break
    outcome = _together(job.phase, [end.outcome for end in ends])
    reason = "; ".join(f"{end.name}: {end.reason}" for end in ends if end.reason)[:LONGEST_REASON]
    if outcome == NOTHING and not reason:
        ended = ", ".join(end.name for end in ends)
        reason = f"{ended} ended with exit status {PREPARED_NOTHING}" if ended else "there is no prepare hook"
    return RunResult(job.request_id, outcome, reason[:LONGEST_REASON], round(max(0.0, clock.monotonic() - began), 3))


def _together(phase: str, outcomes: List[str]) -> str:
    """The outcome of a phase: a preparation needs a hook that succeeded, other phases that none failed."""
    for outcome in (TIMEOUT, FAILED, OK):
        if outcome in outcomes:
            return outcome
    return NOTHING if phase == "prepare" else OK


def _ends(
    job: Job, hooks_directory: str, output: IO[bytes], clock: Clock, revised: Callable[[], Optional[Job]]
) -> Iterator[HookEnd]:
    """Run the next hook, and give its end."""
    try:
        hooks = HookSet(hooks_directory, job.phase)
    except OSError as error:
        yield HookEnd(f"{job.phase}.d", FAILED, 0.0, f"the hooks cannot be listed: {error}")
        return
    missing = [name for name in job.hooks if name not in hooks.names]
    if missing:
        reason = f"configured, but not in {hooks.directory}. Run the role again"
        yield HookEnd(", ".join(missing), FAILED, 0.0, reason)
        return
    deadline = Deadline(job, clock, revised)
    for name in hooks.names:
        began = clock.monotonic()
        try:
            outcome, reason = _run_hook(name, hooks, job, deadline, output, clock)
        except HookRefused as error:
            outcome, reason = FAILED, str(error)
        except Vanished:
            if name not in job.hooks:
                _log(output, f"{job.phase} hook {name}: skipped, since it was removed meanwhile")
                continue
            outcome, reason = FAILED, f"configured, but removed from {hooks.directory} meanwhile. Run the role again"
        if name == WEBHOOK_HOOK and outcome == FAILED:
            outcome = NOTHING  # no event is held, and no VM stays unprepared, since a message is lost
        yield HookEnd(name, outcome, clock.monotonic() - began, reason)


def _run_hook(
    name: str, hooks: HookSet, job: Job, deadline: Deadline, output: IO[bytes], clock: Clock
) -> Tuple[str, str]:
    """Run one hook until it has succeeded, has failed, or its deadline has passed; returns the outcome and the reason.

    :raises HookRefused: it is not run.
    :raises Vanished: it no longer exists.
    """
    said: Optional[str] = None
    while deadline.left() > 0:
        hooks.check(name)
        status, said = _execute(hooks.path(name), job, deadline, output)
        if status is None:
            return TIMEOUT, _with("it was ended at its deadline", said)
        if status in (0, PREPARED_NOTHING):
            return NOTHING if status else OK, said
        if status != TRY_AGAIN:
            return FAILED, said or (f"signal {abs(status)}" if status < 0 else f"exit status {status}")
        why = said or f"exit status {TRY_AGAIN}"
        _log(output, f"{job.phase} hook {name}: not yet ({why}), again in {RETRY_PAUSE:g} s")
        clock.until(lambda: deadline.left() <= 0, within=min(RETRY_PAUSE, deadline.left()), every=TICK)
    if said is None:
        return TIMEOUT, "it was not started, since the deadline had passed"
    return TIMEOUT, _with("the deadline passed before it was done", said)


def _with(reason: str, said: str) -> str:
    return f"{reason}: {said}" if said else reason


def _check_directories(path: str) -> None:
    directory = os.path.realpath(path)
    while True:
        try:
            status = os.lstat(directory)
        except OSError as error:
            raise HookRefused(f"refused: {directory}: {error.strerror}") from error
        # In a sticky directory a user cannot replace the files of another user.
        if status.st_uid not in _trusted() or (status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX):
            raise HookRefused(
                f"refused: other users than root can write the directory {directory}. Run chown and chmod"
            )
        if directory == os.path.dirname(directory):
            return
        directory = os.path.dirname(directory)


def _trusted() -> Tuple[int, int]:
    return 0, os.geteuid()


def _execute(path: bytes, job: Job, deadline: Deadline, output: IO[bytes]) -> Tuple[Optional[int], str]:
    """Run a program once; returns its exit status, ``None`` if it had to be ended at the deadline, and the reason that
    it wrote. A program that cannot be started now, as without memory, counts as one that wants to be run again.

    :raises HookRefused: it cannot be started.
    :raises Vanished: it no longer exists.
    """
    with contextlib.ExitStack() as stack:
        try:
            standard_input = stack.enter_context(_memory_file())
            standard_input.write(json.dumps(job.event).encode() + b"\n")
            standard_input.seek(0)
            reason = stack.enter_context(_memory_file())
            variables = environment(job, deadline.moment)
            # Opened by this process, since a hook inherits no descriptor. No other user can open it.
            variables[b"SCHEDULED_EVENT_REASON_FILE"] = f"/proc/{os.getpid()}/fd/{reason.fileno()}".encode()
            process = Process([path], environment=variables, stdin=standard_input.fileno(), output=output.fileno())
        except OSError as error:
            wrong = _wrong_beginning(path) if error.errno in (errno.ENOENT, errno.ENOEXEC, errno.EACCES) else ""
            problem = f"it cannot be started: {wrong or error.strerror}"
            if error.errno in jobs.NO_ROOM:
                return TRY_AGAIN, problem
            raise HookRefused(problem) from error
        status = None
        try:
            while status is None and deadline.left() > 0:
                status = process.wait(min(deadline.left(), TICK))
        finally:
            if status is None:  # also when an operator interrupts a trial
                process.end(GRACE)
        reason.seek(0)
        return status, shown(reason.read(8 * LONGEST_REASON), LONGEST_REASON)


def _memory_file() -> IO[bytes]:
    """A file, since a pipe would block on a hook that does not read it."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("event"), "w+b")
    import tempfile  # Python 3.6 and 3.7

    # In memory, too: a VM with a full disk has to recover.
    return tempfile.TemporaryFile(dir="/dev/shm")  # nosec B108


def _wrong_beginning(path: bytes) -> str:
    """Why a file is not a program, by its first line; empty if it can be one.

    :raises Vanished: it no longer exists.
    """
    try:
        with open(path, "rb") as file:
            first = file.readline(LONGEST_FIRST_LINE)
    except FileNotFoundError as gone:
        raise Vanished from gone
    named = re.match(rb"#![ \t]*([^ \t\n\0]+)", first)
    if named is None:
        return "" if first.startswith(b"\x7fELF") else "it is not a program, expected a first line such as #!/bin/sh"
    interpreter = named.group(1)
    if os.path.isfile(interpreter) and os.access(interpreter, os.X_OK):
        return ""
    wrong = "cannot be executed" if os.path.exists(interpreter) else "is missing"
    line = json.dumps(first.decode("utf-8", "replace").rstrip("\n"))  # shows a carriage return, which is a part of it
    return f"the interpreter in its first line {wrong}: {line}"


# The input of a hook


def environment(job: Job, deadline: float) -> Dict[bytes, bytes]:
    """The environment of a hook: that of this process, and the event without what is too long for a variable.

    Bytes, whatever the locale is.
    """
    variables = {**os.environb, **{name.encode(): _value(value) for name, value in _variables(job, deadline)}}
    variables.pop(b"NOTIFY_SOCKET", None)
    return {name: value for name, value in variables.items() if len(value) <= LONGEST_VARIABLE}


def _variables(job: Job, deadline: float) -> Iterator[Tuple[str, Any]]:
    yield "SCHEDULED_EVENT_ID", job.event.get("event_id")
    yield "SCHEDULED_EVENT_TYPE", job.event.get("event_type")
    yield "SCHEDULED_EVENT_STATUS", job.event.get("event_status")
    yield "SCHEDULED_EVENT_SOURCE", job.event.get("event_source")
    yield "SCHEDULED_EVENT_NOT_BEFORE", job.event.get("not_before")
    yield "SCHEDULED_EVENT_DURATION", job.event.get("duration_in_seconds")
    resources = job.event.get("resources")
    yield "SCHEDULED_EVENT_RESOURCES", b",".join(map(_value, resources)) if isinstance(resources, list) else None
    yield "SCHEDULED_EVENT_DESCRIPTION", job.event.get("description")
    yield "SCHEDULED_EVENT_PHASE", job.phase
    yield "SCHEDULED_EVENT_DEADLINE", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(deadline))
    yield "SCHEDULED_EVENT_RUN", job.request_id
    yield "SCHEDULED_EVENT_FIRST_RUN", job.first_run
    yield "SCHEDULED_EVENT_RECOVERED", job.recovered
    yield "SCHEDULED_EVENT_UNDONE", "true" if job.undone else "false"
    yield "SCHEDULED_EVENTS_VM_NAME", job.vm_name
    if job.phase == "failed":
        yield "SCHEDULED_EVENT_FAILED_PHASE", job.failed_phase
        yield "SCHEDULED_EVENT_FAILED_REASON", job.failure


def _value(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    text = "" if value is None else str(value)
    return text.encode("utf-8", "replace").replace(b"\0", b"")


# Output


def _log(output: IO[bytes], message: str) -> None:
    """Write a line, which is lost where nothing reads any more: a run ends without the journal, too."""
    with contextlib.suppress(OSError, ValueError):
        if select.select([], [output], [], TICK)[1]:
            output.write(message.encode("utf-8", "replace") + b"\n")
            output.flush()
