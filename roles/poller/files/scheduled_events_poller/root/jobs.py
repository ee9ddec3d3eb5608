# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of root about runs, and their processes: accepted requests, revisions of their times, and results.

The file of a job is the lock of its run, so it is made once and never replaced.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Union

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK
from _scheduled_events.files import LACKING, Occupied, locked, write_atomically, write_once
from _scheduled_events.runs import BESIDE, FAILED, parse_run_id

from ..spool import MAX_REQUEST, Directories, Job, RunResult, format_request, format_result, parse_request

PROC = "/proc"
NO_ROOM = (errno.EAGAIN, *LACKING)  # the machine cannot start a process now, which passes
REVISION = ".times"  # ends the name of the file with the newest times of a job
PATIENCE = 5.0  # seconds for systemctl
KILLED_WITHIN = 3.0  # seconds that a program gets at least after SIGKILL; a kernel may not let go of it at all
PAUSE = 0.02  # seconds between two looks whether a program has ended
PR_SET_CHILD_SUBREAPER = 36  # of prctl(2)
OVERDUE = 10.0  # seconds after its last moment in which a run ends its hooks


def prepare(directories: Directories) -> None:
    """Create the directories.

    :raises OSError: they cannot be created.
    """
    for directory, mode in ((directories.jobs, 0o700), (directories.results, 0o755)):
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, mode)


def sizes(directories: Directories) -> Dict[str, int]:
    """The bytes of each job."""
    found = {}
    for name in filter(parse_run_id, os.listdir(directories.jobs)):
        with contextlib.suppress(FileNotFoundError):
            found[name] = os.stat(os.path.join(directories.jobs, name)).st_size
    return found


def exists(directories: Directories, request_id: str) -> bool:
    """Whether the run is accepted and has not ended."""
    return os.path.exists(_job(directories, request_id))


class OlderRun(NamedTuple):
    """The process of an older run, and its birth. ``until``: monotonic seconds after which nothing waits for it."""

    process: str
    born: Tuple[bool, int]
    until: float

    def goes_on(self) -> bool:
        """Whether it is to be waited for. This costs much less than to look for one."""
        with contextlib.suppress(OSError):
            return time.monotonic() < self.until and _born(self.process) == self.born
        return False


def older_run(directories: Directories, request_id: str) -> Optional[OlderRun]:
    """An older run of the event's hooks whose process goes on, since files in /run were removed; ``None`` without one.

    It ends at its own deadline, as each run does.
    """
    mine, wanted, myself = _command("self"), parse_run_id(request_id), _born("self")
    for process in filter(str.isdigit, os.listdir(PROC)):
        with contextlib.suppress(OSError):  # it has ended
            born = _born(process)
            # First, since another user can have the reader of a command wait for as long as that user likes.
            if born >= myself:
                continue
            command = _command(process)
            run = os.fsdecode(command[-1]) if command[:-1] == mine[:-1] and command[1:] else ""
            name = parse_run_id(run)
            if name is None or wanted is None or name.token != wanted.token:
                continue
            if name.phase == wanted.phase or not {name.phase, wanted.phase} & set(BESIDE):
                job = _read(_job(directories, run), run) if run != request_id else None
                older = OlderRun(process, born, job.ends_at + OVERDUE if job else float("inf"))
                if older.goes_on():
                    return older
    return None


def _command(process: str) -> List[bytes]:
    """The program of a process with its arguments.

    :raises OSError: it has ended.
    """
    return _about(process, "cmdline").split(b"\0")[:-1]


def _born(process: str) -> Tuple[bool, int]:
    """What orders the processes that this user started by their start, before those of other users and of containers.

    :raises OSError: it has ended.
    """
    # The owner of these files says less: a process of any user can have them belong to root.
    user = int(_about(process, "status").partition(b"\nUid:")[2].split()[0])
    foreign = user != os.getuid() or _namespace(process) != _namespace("self")
    return foreign, int(_about(process, "stat").rpartition(b")")[2].split()[19])


def _namespace(process: str) -> str:
    """That of its ids. Root in a container is root here, and can give a process any command."""
    with contextlib.suppress(OSError):
        return os.readlink(os.path.join(PROC, process, "ns", "pid"))
    return ""


def _about(process: str, name: str) -> bytes:
    with open(os.path.join(PROC, process, name), "rb") as file:
        return file.read()


def has_ended(directories: Directories, request_id: str) -> bool:
    """Whether there is a result."""
    return os.path.exists(os.path.join(directories.results, request_id))


def accept(directories: Directories, text: bytes, job: Job) -> None:
    """Store a checked request, given as text and parsed. If it existed, only its times may have changed.

    :raises OSError: it cannot be stored.
    """
    if write_once(_job(directories, job.request_id), text, mode=0o600):
        return
    known = revision(directories, job.request_id) or _read(_job(directories, job.request_id), job.request_id)
    if known is None or _times(known) != _times(job):
        # Without the rest of the request, which does not count, and can be large.
        times = job._replace(event={"event_id": job.event["event_id"]}, vm_name="", hooks=(), failure="")
        write_atomically(_job(directories, job.request_id) + REVISION, format_request(times), mode=0o600)


def revision(directories: Directories, request_id: str) -> Optional[Job]:
    """The newest times of a job, if they were changed since it was accepted. Its longer fields are empty."""
    return _read(_job(directories, request_id) + REVISION, request_id)


def _times(job: Job) -> Tuple[object, ...]:
    return job.timeout, job.not_later_than, job.deadline, job.ends_at


def _read(path: str, request_id: str) -> Optional[Job]:
    try:
        with open(path, "rb") as file:
            return parse_request(file.read(), request_id)
    except (OSError, WrongValue):
        return None


@contextlib.contextmanager
def held(directories: Directories, request_id: str) -> Iterator[bytes]:
    """The text of a job, which no other process runs meanwhile.

    :raises FileNotFoundError: there is no such job.
    :raises Occupied: another process runs it.
    """
    with locked(_job(directories, request_id), patience=0.0, make=False) as descriptor:
        yield os.pread(descriptor, MAX_REQUEST + 1, 0)


def end(directories: Directories, result: RunResult) -> bool:
    """Store a result, unless there is one, remove the job, and notify the poller; returns whether it is the result now.

    :raises OSError: it cannot be stored.
    """
    prepare(directories)  # it may have been removed since the run began
    path = os.path.join(directories.results, result.request_id)
    ended = write_once(path, format_result(result), mode=0o644)
    forget(directories, result.request_id)
    wake(directories)
    return ended


def forget(directories: Directories, request_id: str) -> None:
    """Remove a job that has ended."""
    for suffix in ("", REVISION):
        with contextlib.suppress(OSError):
            os.unlink(_job(directories, request_id) + suffix)


def give_up(directories: Directories, request_id: str, reason: str) -> bool:
    """Store a failure for a job that no process runs; returns whether it is the result now.

    :raises OSError: it cannot be stored.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(directories, request_id))
        except (FileNotFoundError, Occupied):
            return False
        return end(directories, RunResult(request_id, FAILED, reason, 0.0))


def give_up_overdue(directories: Directories) -> None:
    """Store a failure for each job whose time is over and that no process runs, so that it keeps out no new one.

    The unit of such a job was stopped while it waited for its process, or its result could not be stored.
    """
    for request_id in sizes(directories):
        job = revision(directories, request_id) or _read(_job(directories, request_id), request_id)
        if job and time.monotonic() >= job.ends_at + OVERDUE:
            give_up(directories, request_id, "its unit did not run before the last moment that its hooks had")


def goes_down() -> bool:
    """Whether systemd is stopping all units, as for a reboot, of which that of the userspace alone keeps /run."""
    try:
        answer = subprocess.run(
            ["systemctl", "is-system-running"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.strip() == b"stopping"


def wake(directories: Directories) -> None:
    """Notify the poller, if it runs, that there is a result."""
    import socket  # here, since the start of a hook would wait for it

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with contextlib.suppress(OSError):
            sender.sendto(b"ended", directories.socket)


def _job(directories: Directories, request_id: str) -> str:
    return os.path.join(directories.jobs, request_id)


def say(message: str) -> None:
    """Write a line for the journal."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(message + "\n")


class Process:
    """A program in its own session, with no descriptor of ours.

    :param stdin: ``None`` is /dev/null.
    :param output: where its standard output and error go; ``None`` is where ours go.
    :raises OSError: it cannot be started.
    """

    def __init__(
        self,
        arguments: Sequence[Union[str, bytes]],
        *,
        environment: Optional[Mapping[bytes, bytes]] = None,
        stdin: Optional[int] = None,
        output: Optional[int] = None,
    ) -> None:
        self._popen = subprocess.Popen(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=output,
            stderr=output,
            cwd="/",
            start_new_session=True,
        )
        self.pid = self._popen.pid

    def wait(self, seconds: float) -> Optional[int]:
        """Its exit status, negative for a signal, or ``None`` if it has not ended within so many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None

    def end(self, grace: float) -> None:
        """End it and all of its process group: SIGTERM, and SIGKILL so many seconds later."""
        for number, seconds in _ways_to_end(grace):
            self._signal(number)
            CLOCK.until(self._group_has_ended, within=seconds, every=PAUSE)

    def _group_has_ended(self) -> bool:
        self._popen.poll()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-self.pid, os.WNOHANG)[0]:  # what has become a child of this process
                pass
        return not self._signal(0)

    def _signal(self, number: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
            return True
        return False


def _ways_to_end(grace: float) -> Sequence[Tuple[int, float]]:
    """The signals that end a program, and the seconds that it gets after each."""
    return (signal.SIGTERM, grace), (signal.SIGKILL, max(grace, KILLED_WITHIN))


@contextlib.contextmanager
def ended_descendants(grace: float) -> Iterator[None]:
    """At the end, end all that was started meanwhile and goes on: SIGTERM, and SIGKILL so many seconds later.

    Process groups and sessions do not matter: a program whose parent has ended becomes a child of this process.
    What has another control group is of another unit of systemd, or a container, and goes on.
    """
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # nosec B401 - minimal installations of Python lack it, and systemd ends such programs later

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = {each for child in _children(os.getpid()) for each in _with_descendants(child)}
    try:
        yield
    finally:
        for number, seconds in _ways_to_end(grace):
            signalled: Set[int] = set()
            CLOCK.until(lambda: _have_ended(others, number, signalled), within=seconds, every=PAUSE)  # noqa: B023


def _have_ended(others: Set[int], number: int, signalled: Set[int]) -> bool:
    """Whether this process has no descendants but the others; those that it has get the signal once."""
    children = set(_children(os.getpid())) - others
    for child in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
    own = _control_group(os.getpid())
    left = {each for child in children for each in _with_descendants(child) if _control_group(each) == own}
    for pid in left - signalled:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    signalled |= left
    return not left


def _control_group(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return _about(str(pid), "cgroup")
    return b""


def _with_descendants(pid: int) -> Iterator[int]:
    yield pid
    for child in _children(pid):
        yield from _with_descendants(child)


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"{PROC}/{pid}/task"):
            yield from map(int, _about(str(pid), f"task/{thread}/children").split())
