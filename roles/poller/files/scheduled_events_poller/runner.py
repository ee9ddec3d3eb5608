# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The side of the polling unit that runs as root: takes requests, and runs hooks.

``dispatch`` reads the requests that the poller left, as hostile input, and starts one unit for each; ``run ID`` is what
such a unit does. One file on purpose, of the standard library alone: what runs as root can be read in one go, and an
upgrade that replaces files one by one never mixes two versions in one process.
"""

import argparse
import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

HOOKS_DIRECTORY = "/etc/scheduled-events/hooks"
RUNTIME_DIRECTORY = "/run/scheduled-events"  # the poller's own
HOOKS_RUNTIME_DIRECTORY = "/run/scheduled-events-hooks"  # root's own

TRY_AGAIN = 75  # EX_TEMPFAIL, exit status of a hook that wants to be run again

RETRY_PAUSE = 5.0  # seconds until a hook that exited with 75 is run again
GRACE = 3.0  # seconds between SIGTERM and SIGKILL

# Below the 128 KiB that the kernel allows for one variable of the environment, which is at most a part of a request.
MAX_REQUEST = 128 * 1024 - 4096
MAX_REQUESTS, MAX_JOBS = 100, 64
KEEP_RESULTS = 30 * 24 * 3600.0  # seconds


class RequestError(ValueError):
    """A request that is not carried out; the message says why."""


class HookRefused(Exception):
    """A hook that is not run; the message says why and what to do."""


class Directories(NamedTuple):
    """Where things are; tests use other places."""

    hooks: str = HOOKS_DIRECTORY
    runtime: str = RUNTIME_DIRECTORY
    hooks_runtime: str = HOOKS_RUNTIME_DIRECTORY

    @property
    def requests(self) -> str:
        """What the poller asks for."""
        return os.path.join(self.runtime, "requests")

    @property
    def socket(self) -> str:
        """Where the poller listens for the end of a run."""
        return os.path.join(self.runtime, "notify")

    @property
    def jobs(self) -> str:
        """Accepted requests, which only root can write."""
        return os.path.join(self.hooks_runtime, "jobs")

    @property
    def results(self) -> str:
        """What came of them, for the poller to read."""
        return os.path.join(self.hooks_runtime, "results")


class Job(NamedTuple):
    """A checked request. Times as in the engine's RunHooks."""

    request_id: str
    phase: str
    event: Dict[str, Any]
    vm_name: str
    timeout: float
    not_later_than: Optional[float]
    deadline: float


def hook_names(directory: str) -> List[str]:
    """The names of the hooks in a directory in their order; hidden files and backups of editors are none.

    :raises OSError: the directory cannot be read; one that does not exist holds no hooks.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith((".", "#")) and not name.endswith("~"))


# Requests


def parse_request(text: bytes, request_id: str) -> Job:
    """Check a request as it comes from a user who may mean ill.

    :raises RequestError: the first thing wrong with it.
    """
    name = _REQUEST_ID.match(request_id)
    if not name:
        raise RequestError("its name is not EVENT.PHASE.NUMBER")
    if len(text) > MAX_REQUEST:
        raise RequestError(f"it is longer than {MAX_REQUEST} bytes")
    try:
        raw = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"it is no JSON: {error}") from error
    if not isinstance(raw, dict) or raw.get("version") != 1:
        raise RequestError("it is no object of version 1")
    event = raw.get("event")
    if not isinstance(event, dict) or not isinstance(event.get("event_id"), str):
        raise RequestError("event is no object with an event_id")
    if _token(event["event_id"].lower()) != name.group(1):
        raise RequestError("its name belongs to another event")
    if not isinstance(raw.get("vm_name"), str):
        raise RequestError("vm_name is no text")
    not_later_than = raw.get("not_later_than")
    return Job(
        request_id=request_id,
        phase=name.group(2),
        event=event,
        vm_name=raw["vm_name"],
        timeout=_number(raw, "timeout", most=7 * 24 * 3600.0),
        not_later_than=None if not_later_than is None else _number(raw, "not_later_than", most=1e11),
        deadline=_number(raw, "deadline", most=1e11),
    )


def _number(raw: Dict[str, Any], key: str, *, most: float) -> float:
    value = raw.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:  # nor NaN
        raise RequestError(f"{key} is no number from 0 to {most:g}")
    return float(value)


def dispatch(directories: Directories, *, spawn: bool = False) -> int:
    """Take the requests and start a unit for each; returns how many were started.

    :param spawn: start processes of our own instead of units, where there is no systemd.
    """
    for directory, mode in ((directories.jobs, 0o700), (directories.results, 0o755)):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, mode)
    _purge_results(directories)
    started = 0
    try:
        requests = os.open(directories.requests, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        _say(f"requests cannot be read: {error}")
        return started
    try:
        for name in sorted(os.listdir(requests))[:MAX_REQUESTS]:
            try:
                _accept(requests, name, directories)
            except (RequestError, OSError) as error:
                _say(f"request {name[:200]!r} refused: {error}")
            else:
                started += _start(name, directories, spawn=spawn)
            _remove(requests, name)
    finally:
        os.close(requests)
    return started


def _accept(requests: int, name: str, directories: Directories) -> None:
    """Check a request and put a copy where only root can write."""
    text = _read_request(requests, name)
    parse_request(text, name)
    if len(os.listdir(directories.jobs)) >= MAX_JOBS:
        raise RequestError(f"there are {MAX_JOBS} jobs already")
    descriptor, temporary = tempfile.mkstemp(dir=directories.jobs, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        # A link, since it never replaces: a job that is there already may be running, and its file is its lock.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, os.path.join(directories.jobs, name))
    finally:
        os.unlink(temporary)


def _read_request(requests: int, name: str) -> bytes:
    # Opening must neither follow a link nor wait for the other end of a FIFO.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=requests)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        # None is left of one that the poller, begun anew, has replaced since by the same request.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise RequestError("it is no regular file with one name")
        if status.st_uid != os.fstat(requests).st_uid:
            raise RequestError("it belongs to another user than its directory")
        return file.read(MAX_REQUEST + 1)


def _remove(requests: int, name: str) -> None:
    """Remove a request whatever it is: one that stays would start this unit for ever."""
    try:
        os.unlink(name, dir_fd=requests)
    except FileNotFoundError:
        pass
    except OSError:
        # A directory. By the descriptor, since the path to it is not ours; rmtree itself follows no link.
        shutil.rmtree(f"/proc/self/fd/{requests}/{name}", ignore_errors=True)


def _start(request_id: str, directories: Directories, *, spawn: bool) -> bool:
    if os.path.exists(os.path.join(directories.results, request_id)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directories.jobs, request_id))
        return False  # it has ended, and the poller only asked again
    if spawn:
        _spawn(request_id, directories)
        return True
    unit = f"scheduled-events-hook@{request_id}.service"
    ended = subprocess.run(["systemctl", "start", "--no-block", "--", unit], check=False, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        _say(f"{unit} could not be started")
    return ended.returncode == 0


def _spawn(request_id: str, directories: Directories) -> None:
    log = os.path.join(directories.hooks_runtime, "hooks.log")
    with open(log, "ab") as output:
        subprocess.Popen(
            [sys.executable, "-IS", os.path.abspath(__file__), *directory_options(directories), "run", request_id],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def directory_options(directories: Directories) -> List[str]:
    """The options that make a process of this file use the directories."""
    return [
        f"--hooks-directory={directories.hooks}",
        f"--runtime-directory={directories.runtime}",
        f"--hooks-runtime-directory={directories.hooks_runtime}",
    ]


def _purge_results(directories: Directories) -> None:
    for name in os.listdir(directories.results):
        path = os.path.join(directories.results, name)
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime < time.time() - KEEP_RESULTS:
                os.unlink(path)


# Runs


class HookEnd(NamedTuple):
    """What came of one hook; ``status``: its exit status, negative for a signal, ``None`` if it did not start."""

    name: str
    outcome: str
    status: Optional[int]
    seconds: float
    reason: str = ""


class Deadline:
    """The moment at which the hooks of a run must have ended, on two clocks: neither a jump nor a stop moves both."""

    def __init__(self, job: Job) -> None:
        self._ends = time.monotonic() + job.timeout
        self._not_later_than = job.not_later_than

    def left(self) -> float:
        """Seconds that are left; none or negative once it has passed."""
        left = self._ends - time.monotonic()
        if self._not_later_than is not None:
            left = min(left, self._not_later_than - time.time())
        return left


def run(request_id: str, directories: Directories) -> int:
    """Carry out an accepted job once, leave its result for the poller and wake it; returns an exit status."""
    if not _REQUEST_ID.match(request_id):
        _say(f"{request_id!r} is no id of a request")
        return 2
    path = os.path.join(directories.jobs, request_id)
    try:
        job_file = open(path, "rb")  # noqa: SIM115 - open for as long as this process runs: its lock
    except FileNotFoundError:
        _say(f"there is no job {request_id}: it has ended")
        return 0
    with job_file:
        try:
            fcntl.flock(job_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _say(f"{request_id} is running already")
            return 0
        if os.path.exists(os.path.join(directories.results, request_id)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return 0
        job = parse_request(job_file.read(), request_id)
        with _journal(job) as output:
            result = run_phase(job, directories.hooks, output)
        write_atomically(os.path.join(directories.results, request_id), json.dumps(result).encode(), mode=0o644)
        os.unlink(path)
    wake(directories)
    return 0


def wake(directories: Directories) -> None:
    """Tell the poller, if it runs, that there is a result."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with contextlib.suppress(OSError):
            sender.sendto(b"ended", directories.socket)


def run_phase(job: Job, hooks_directory: str, output: IO[bytes]) -> Dict[str, Any]:
    """Run the hooks of the job's phase one after the other; return the result as the poller reads it.

    Preparation stops at the first failure, since nothing may be acknowledged any more. The other phases go on: what
    brings a VM back must not depend on what stands before it.
    """
    deadline = Deadline(job)
    began, began_at = time.monotonic(), time.time()
    ends: List[HookEnd] = []
    directory = os.path.join(hooks_directory, f"{job.phase}.d")
    try:
        for name in hook_names(directory):
            end = _run_hook(name, directory, job, deadline, output)
            ends.append(end)
            _log(output, f"{job.phase} hook {name}: {end.outcome} after {end.seconds:.1f} s {end.reason}".rstrip())
            if end.outcome == TIMEOUT or (end.outcome == FAILED and job.phase == "prepare"):
                break
    except OSError as error:
        ends.append(HookEnd(directory, FAILED, None, 0.0, str(error)))
    wrong = [end for end in ends if end.outcome != OK]
    return {
        "version": 1,
        "request_id": job.request_id,
        "phase": job.phase,
        "outcome": _worst(ends),
        "reason": "; ".join(f"{end.name}: {end.reason}" for end in wrong)[:2000],
        "began": began_at,
        "seconds": round(time.monotonic() - began, 3),
        "ended": time.time(),
        "hooks": [dict(end._asdict()) for end in ends],
    }


def _worst(ends: List[HookEnd]) -> str:
    outcomes = [end.outcome for end in ends]
    return TIMEOUT if TIMEOUT in outcomes else FAILED if FAILED in outcomes else OK


def _run_hook(name: str, directory: str, job: Job, deadline: Deadline, output: IO[bytes]) -> HookEnd:
    """Run one hook until it is done, has failed, or its deadline has passed."""
    path = os.path.join(directory, name)
    began = time.monotonic()
    while True:
        if deadline.left() <= 0:
            return HookEnd(name, TIMEOUT, None, time.monotonic() - began, "the deadline passed before it was done")
        try:
            check_hook(path)
            status = _execute(path, job, deadline, output)
        except HookRefused as error:
            return HookEnd(name, FAILED, None, time.monotonic() - began, str(error))
        seconds = time.monotonic() - began
        if status is None:
            return HookEnd(name, TIMEOUT, None, seconds, "it was ended at its deadline")
        if status == 0:
            return HookEnd(name, OK, status, seconds)
        if status != TRY_AGAIN:
            how = f"signal {abs(status)}" if status < 0 else f"exit status {status}"
            return HookEnd(name, FAILED, status, seconds, how)
        _log(output, f"{job.phase} hook {name}: not yet (exit status {TRY_AGAIN}), again in {RETRY_PAUSE:g} s")
        time.sleep(max(0.0, min(RETRY_PAUSE, deadline.left())))


def check_hook(path: str) -> None:
    """Make sure that only root decides what would be run (or the user that we are, where that is not root).

    :raises HookRefused: somebody else could change it, or it is no program.
    """
    trusted = (0, os.geteuid())
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise HookRefused("refused: it is no regular file (nor may it be a link to one)")
    if status.st_uid not in trusted:
        raise HookRefused(f"refused: it belongs to user {status.st_uid}, not to root; chown it")
    if status.st_mode & 0o022:
        raise HookRefused("refused: others than its owner can write it; chmod go-w")
    if not status.st_mode & 0o100:
        raise HookRefused("refused: it is not executable; chmod +x")
    directory = os.path.realpath(os.path.dirname(path))
    while True:
        status = os.lstat(directory)
        # In a sticky directory nobody can replace what belongs to another.
        if status.st_uid not in trusted or (status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX):
            raise HookRefused(f"refused: others than root can write the directory {directory}; chown and chmod it")
        if directory == os.path.dirname(directory):
            return
        directory = os.path.dirname(directory)


def _execute(path: str, job: Job, deadline: Deadline, output: IO[bytes]) -> Optional[int]:
    """Run a program once; ``None`` if it had to be ended at the deadline.

    :raises HookRefused: it cannot be started.
    """
    # A file, since a pipe would block on a hook that does not read it.
    with tempfile.TemporaryFile() as standard_input:
        standard_input.write(json.dumps(job.event).encode() + b"\n")
        standard_input.seek(0)
        try:
            process = subprocess.Popen(
                [path],
                stdin=standard_input,
                stdout=output,
                stderr=output,
                env=environment(job),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise HookRefused(f"it cannot be started: {_start_error(error, path)}") from error
        # Popen.wait with a timeout looks only every 50 ms, of which the acknowledgement would be late.
        end = threading.Thread(target=process.wait, daemon=True)
        end.start()
        while end.is_alive():
            left = deadline.left()
            if left <= 0:
                _end(process)
                return None
            end.join(timeout=min(left, 1.0))  # a jump of the clock is seen within a second
        return int(process.returncode)


def _start_error(error: OSError, path: str) -> str:
    if error.errno == errno.ENOENT:
        with open(path, "rb") as file:
            first = file.readline(200).decode("utf-8", "replace").strip()
        return f"its interpreter is missing, says its first line: {first}"
    if error.errno == errno.ENOEXEC:
        return "it is no program, and has no first line such as #!/bin/sh"
    return str(error.strerror)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a hook and all that it started: those that left its process group end with the unit."""
    _signal_group(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def environment(job: Job) -> Dict[bytes, bytes]:
    """The environment of a hook: that of this process, and the event. Bytes, whatever the locale is."""
    inherited = {name: value for name, value in os.environb.items() if name != b"NOTIFY_SOCKET"}
    return {**inherited, **{name.encode(): _value(value) for name, value in _variables(job)}}


def _variables(job: Job) -> Iterator[Tuple[str, Any]]:
    resources = job.event.get("resources")
    deadline = datetime.datetime.fromtimestamp(job.deadline, datetime.timezone.utc)
    yield "SCHEDULED_EVENT_ID", job.event["event_id"]
    yield "SCHEDULED_EVENT_TYPE", job.event.get("event_type")
    yield "SCHEDULED_EVENT_STATUS", job.event.get("event_status")
    yield "SCHEDULED_EVENT_SOURCE", job.event.get("event_source")
    yield "SCHEDULED_EVENT_NOT_BEFORE", job.event.get("not_before")
    yield "SCHEDULED_EVENT_DURATION", job.event.get("duration_in_seconds")
    yield "SCHEDULED_EVENT_RESOURCES", ",".join(map(str, resources)) if isinstance(resources, list) else None
    yield "SCHEDULED_EVENT_DESCRIPTION", job.event.get("description")
    yield "SCHEDULED_EVENT_PHASE", job.phase
    yield "SCHEDULED_EVENT_DEADLINE", deadline.strftime("%Y-%m-%dT%H:%M:%SZ")
    yield "SCHEDULED_EVENTS_VM_NAME", job.vm_name


def _value(value: Any) -> bytes:
    text = "" if value is None else str(value)
    return text.encode("utf-8", "replace").replace(b"\0", b"")


# Output


@contextlib.contextmanager
def _journal(job: Job) -> Iterator[IO[bytes]]:
    """A stream into the journal under the event's id, or our own standard output where there is no journal."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # A unit has JOURNAL_STREAM; elsewhere the output belongs to whoever started us.
        if "JOURNAL_STREAM" not in os.environ:
            raise OSError
        connection.connect("/run/systemd/journal/stdout")
        # Identifier, unit, priority (info), level prefixes, and forwarding to syslog, kernel and console.
        connection.sendall(f"{_identifier(job)}\n\n6\n0\n0\n0\n0\n".encode())
    except OSError:
        connection.close()
        yield sys.stdout.buffer
        return
    with connection, os.fdopen(os.dup(connection.fileno()), "wb", buffering=0) as stream:
        yield stream


def _identifier(job: Job) -> str:
    event_id = str(job.event["event_id"])
    return event_id if re.match(r"[0-9A-Za-z._-]{1,64}\Z", event_id) else _token(event_id.lower())


def _log(output: IO[bytes], message: str) -> None:
    with contextlib.suppress(OSError):
        output.write(message.encode("utf-8", "replace") + b"\n")
        output.flush()


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")


def main() -> int:
    """The command line of the units."""
    parser = argparse.ArgumentParser(description="Run the hooks of Azure Scheduled Events.")
    parser.add_argument("--hooks-directory", default=HOOKS_DIRECTORY)
    parser.add_argument("--runtime-directory", default=RUNTIME_DIRECTORY)
    parser.add_argument("--hooks-runtime-directory", default=HOOKS_RUNTIME_DIRECTORY)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    take = commands.add_parser("dispatch", help="take the requests of the poller and start a unit for each")
    take.add_argument("--spawn", action="store_true", help="start processes instead of units")
    carry_out = commands.add_parser("run", help="run the hooks of one accepted request")
    carry_out.add_argument("request_id")
    chosen = parser.parse_args()
    directories = Directories(chosen.hooks_directory, chosen.runtime_directory, chosen.hooks_runtime_directory)
    if chosen.command == "dispatch":
        dispatch(directories, spawn=chosen.spawn)
        return 0
    return run(chosen.request_id, directories)


if __name__ == "__main__":
    sys.exit(main())
