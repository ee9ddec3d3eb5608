# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell around the engine: clock, service, disk, signals."""

import collections
import contextlib
import functools
import json
import os
import select
import signal
import socket
import time
import uuid
from typing import Any, Callable, Deque, Dict, Iterator, List, NamedTuple, Optional, Set

from _scheduled_events.client import ImdsError

from . import engine, systemd
from .config import ConfigError, Settings
from .engine import ApprovalResult, HookResult, Moment
from .hooks import HookEnded, HookRequests, phases_with_hooks
from .metrics import Metrics
from .runner import OK, Directories, write_atomically
from .service import Polled, Service, Worker
from .state import RUNNING, State, StateError, StateFile

STATE_FILE = "/var/lib/scheduled-events/state.json"

LONGEST_GAP = 5.0  # seconds between the beginnings of two polls, at most, whatever fails
HEARTBEAT = 5.0  # seconds between two status files when nothing happens
REPEAT_COMPLAINT = 60.0  # seconds after which a lasting trouble is told again


class PollerError(Exception):
    """The poller cannot begin; the message says why."""


class Places(NamedTuple):
    """Where the poller keeps and finds things."""

    state_file: str = STATE_FILE
    directories: Directories = Directories()

    @property
    def status_file(self) -> str:
        """What the poller does and waits for, for ``scheduled-events status``."""
        return os.path.join(self.directories.runtime, "status.json")


class Poller:
    """Polls, decides, keeps the state, and carries out what was decided, until it is told to stop.

    :param load_settings: reads the configuration; called again at a reload.
    :param spawn_hooks: run hooks as processes of our own instead of units.
    """

    def __init__(self, load_settings: Callable[[], Settings], places: Places, *, spawn_hooks: bool = False) -> None:
        self._load_settings = load_settings
        self._settings = load_settings()
        self._places = places
        self._hooks = HookRequests(places.directories, spawn=spawn_hooks)
        self._outcomes: Deque[Any] = collections.deque()
        self._results: List[engine.Result] = []
        self._ended_hooks: List[HookEnded] = []
        self._in_flight: Set[str] = set()
        self._metrics = Metrics()
        self._complaints: Dict[str, float] = {}
        self._vm_name = self._settings.vm_name
        self._last_success: Optional[float] = None
        self._last_error = ""
        self._failures = 0
        self._awaiting_poll = False
        self._next_poll = 0.0
        self._next_heartbeat = 0.0
        self._next_sign_of_life = 0.0
        self._status_line = ""
        self._stopping = self._reloading = False

    def run(self) -> None:
        """Poll until SIGTERM or SIGINT.

        :raises PollerError: the state or a directory cannot be used.
        """
        with contextlib.ExitStack() as stack:
            self._open(stack)
            systemd.notify("READY=1\nSTATUS=Waiting for the first document")
            while not self._stopping:
                self._turn()
            systemd.notify("STOPPING=1\nSTATUS=Stopped; hooks that run go on")

    # Beginning

    def _open(self, stack: contextlib.ExitStack) -> None:
        directories = self._places.directories
        try:
            os.makedirs(directories.runtime, exist_ok=True)
            self._hooks.prepare()
            self._boot_id = _boot_id(directories.runtime)
            self._ended = stack.enter_context(_listen(directories.socket))
            self._wake_end, self._wake_start = _wake_pipe(stack)
            self._state = self._first_state()
        except OSError as error:
            raise PollerError(f"the poller cannot begin: {error}") from error
        stack.enter_context(self._signals())
        self._poll_worker = Worker("poll", self._deliver)
        self._approve_worker = Worker("approve", self._deliver)
        self._connect()

    def _connect(self) -> None:
        self._poll_service = Service(self._settings)
        self._approve_service = Service(self._settings)

    def _first_state(self) -> State:
        fresh = State(serial=int(time.time() * 1000))  # no number of an earlier state, whose results may lie about
        self._state_file = StateFile(self._places.state_file)
        if self._settings.dry_run:
            return fresh  # what is only pretended must never be taken for done
        try:
            return engine.resume(self._state_file.load() or fresh)
        except StateError as error:
            kept = self._state_file.put_aside(time.time())
            systemd.log(systemd.ERROR, f"{error}; kept as {kept}; the poller begins without a memory: an event that")
            systemd.log(systemd.ERROR, "is there now is prepared again, one that is gone by now is not recovered")
            return fresh

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(_number: int, _frame: Any) -> None:
            self._stopping = True

        def reload(_number: int, _frame: Any) -> None:
            self._reloading = True

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        wake_fd = signal.set_wakeup_fd(self._wake_start)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wake_fd)
            for number, handler in before.items():
                signal.signal(number, handler)

    # One turn of the loop

    def _turn(self) -> None:
        if self._reloading:
            self._reload()
        self._poll_if_due()
        self._feed_watchdog()
        self._wait()
        for document in self._collect():
            self._decide(document)
        self._heartbeat()

    def _poll_if_due(self) -> None:
        now = time.monotonic()
        if self._awaiting_poll or now < self._next_poll:
            return
        self._awaiting_poll = True
        # From beginning to beginning; without an answer the next poll follows it at once.
        gap = self._settings.interval * 2 ** min(self._failures, 10)
        self._next_poll = now + min(gap, LONGEST_GAP)
        self._poll_worker.submit(functools.partial(_poll, self._poll_service))

    def _wait(self) -> None:
        now = time.monotonic()
        until = [self._next_heartbeat, self._next_sign_of_life]
        if not self._awaiting_poll:
            until.append(self._next_poll)
        pause = 0.0 if self._results or self._stopping else max(0.0, min(until) - now)
        ready = select.select([self._ended.fileno(), self._wake_end], [], [], min(pause, 1.0))[0]
        for descriptor in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(descriptor, 4096):
                    pass

    def _deliver(self, outcome: Any) -> None:
        self._outcomes.append(outcome)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_start, b"\0")

    def _collect(self) -> Iterator[Optional[Polled]]:
        """What the threads brought: each document by itself, or ``None`` if there is none."""
        read = False
        while self._outcomes:
            outcome = self._outcomes.popleft()
            if isinstance(outcome, ApprovalResult):
                self._in_flight.discard(outcome.key)
                self._results.append(outcome)
                self._metrics.approval_ended(accepted=outcome.accepted)
            elif isinstance(outcome, _PollOutcome):
                self._awaiting_poll = False
                if outcome.service is not self._poll_service:
                    continue  # asked before a reload, perhaps of another service
                if isinstance(outcome.polled, Polled):
                    self._poll_succeeded(outcome.polled)
                    read = True
                    yield outcome.polled
                else:
                    self._poll_failed(outcome.polled)
            else:
                raise outcome  # a defect; systemd starts us anew, from the state
        if not read:
            yield None

    def _poll_succeeded(self, polled: Polled) -> None:
        now = time.time()
        if self._failures:
            systemd.log(systemd.INFO, f"polling works again, after {self._failures} failed polls")
        if self._failures or self._last_success is None:
            self._next_heartbeat = 0.0
        self._complaints.pop("poll", None)
        self._failures, self._last_error, self._last_success = 0, "", now
        self._vm_name = polled.vm_name
        self._metrics.poll_succeeded(polled.document, vm_name=polled.vm_name, now=now)

    def _poll_failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_error = str(error)
        self._metrics.poll_failed()
        self._complain("poll", f"poll failed: {error}")

    # Deciding, and carrying out

    def _decide(self, polled: Optional[Polled]) -> None:
        if self._vm_name is None:
            return  # whose events they are is not known yet
        config = self._config(self._vm_name)
        results = self._results + self._hook_results()
        now = Moment(time.time(), time.monotonic(), self._boot_id)
        state, actions = engine.step(self._state, polled.document if polled else None, results, now, config)
        if state != self._state and not self._save(state):
            return  # nothing is done that would be forgotten; the next turn decides the same
        self._count(state, results, now)
        self._state = state
        self._results = []
        for action in actions:
            self._carry_out(action, config)
        if actions:
            self._next_heartbeat = 0.0

    def _config(self, vm_name: str) -> engine.Config:
        return engine.Config(
            vm_name=vm_name,
            hooks=phases_with_hooks(self._places.directories.hooks),
            rules=self._settings.rules,
            hook_timeout=self._settings.hook_timeout,
            margin=self._settings.margin,
            on_failure=self._settings.on_failure,
            approve=self._settings.approve,
        )

    def _hook_results(self) -> List[engine.Result]:
        self._ended_hooks = []
        if self._settings.dry_run:
            return []
        runs = [run for entry in self._state.events.values() for run in entry.runs.values()]
        ended = [self._hooks.result(run.request_id) for run in runs if run.outcome == RUNNING]
        self._ended_hooks = [end for end in ended if end is not None]
        return [end.result for end in self._ended_hooks]

    def _save(self, state: State) -> bool:
        if self._settings.dry_run:
            return True
        try:
            self._state_file.save(state)
        except OSError as error:
            self._last_error = f"the state cannot be kept, so nothing can be done: {error}"
            self._complain("state", self._last_error)
            return False
        self._complaints.pop("state", None)
        return True

    def _count(self, state: State, results: List[engine.Result], now: Moment) -> None:
        for end in self._ended_hooks:
            self._metrics.hooks_ended(end.phase, end.result.outcome, end.seconds)
        for result in results:
            if isinstance(result, ApprovalResult) and result.accepted and result.key in state.events:
                self._metrics.acknowledged(now.wall - state.events[result.key].first_seen)

    def _carry_out(self, action: engine.Action, config: engine.Config) -> None:
        if isinstance(action, engine.Report):
            self._report(action)
        elif self._settings.dry_run:
            self._pretend(action)
        elif isinstance(action, engine.RunHooks):
            result = self._hooks.ask(action, config.vm_name)
            if result is not None:
                self._results.append(result)
        elif action.key not in self._in_flight:
            self._in_flight.add(action.key)
            self._approve_worker.submit(functools.partial(self._approve_service.acknowledge, action, config))

    def _pretend(self, action: engine.Action) -> None:
        """Dry run: say what would be done, and take it for done well."""
        if isinstance(action, engine.RunHooks):
            systemd.log(systemd.INFO, f"{action.event['event_id']}: dry run: would run the {action.phase} hooks")
            self._results.append(HookResult(action.request_id, OK))
        elif isinstance(action, engine.Approve):
            systemd.log(systemd.INFO, f"{action.event_id}: dry run: would acknowledge it")
            self._results.append(ApprovalResult(action.key, accepted=True))

    def _report(self, report: engine.Report) -> None:
        entry = self._state.events.get(report.key)
        name = (entry.event.event_id if entry else None) or report.key
        level = systemd.WARNING if report.level == engine.WARNING else systemd.INFO
        systemd.log(level, f"{name}: {report.message}" if name else report.message)

    # Configuration

    def _reload(self) -> None:
        self._reloading = False
        systemd.notify_reloading()
        before = self._settings
        try:
            self._settings = self._load_settings()
        except ConfigError as error:
            systemd.log(systemd.ERROR, f"the new configuration is refused, the running one stays in force: {error}")
        else:
            self._take_settings(before)
            systemd.log(systemd.INFO, "configuration read again")
        systemd.notify("READY=1")

    def _take_settings(self, before: Settings) -> None:
        now = self._settings
        if (before.endpoint, before.api_version, before.vm_name) != (now.endpoint, now.api_version, now.vm_name):
            self._vm_name = now.vm_name
            self._connect()
        if before.dry_run != now.dry_run:
            self._results = []
            self._state = self._first_state()
        self._next_poll = 0.0

    # Telling how it is

    def _feed_watchdog(self) -> None:
        """Polling works while this loop turns and a request ends within its time-outs; whether well is another matter:
        an outage of the service is none of the poller's, and starting it anew would mend nothing."""
        interval = systemd.watchdog_interval()
        now = time.monotonic()
        if interval is None:
            self._next_sign_of_life = now + HEARTBEAT
        elif now >= self._next_sign_of_life:
            # Connecting, reading, and both again for the name of the VM.
            if self._poll_worker.busy_for() < 4 * self._poll_service.timeout + 10:
                systemd.notify("WATCHDOG=1")
            self._next_sign_of_life = now + interval

    def _heartbeat(self) -> None:
        now = time.monotonic()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + HEARTBEAT
        line = self._line()
        if line != self._status_line:
            self._status_line = line
            systemd.notify(f"STATUS={line}")
        try:
            write_atomically(self._places.status_file, json.dumps(self._status()).encode(), mode=0o644)
            if self._settings.metrics_directory is not None:
                self._metrics.write(self._settings.metrics_directory)
        except OSError as error:
            self._complain("status", f"status or metrics cannot be written: {error}")

    def _line(self) -> str:
        parts = [f"{entry.event.event_type} {key}: {entry.note}" for key, entry in self._state.events.items()]
        if self._last_error:
            parts.append(f"polling fails: {self._last_error}")
        what = "; ".join(parts) or (
            "No event of this VM" if self._last_success is not None else "Waiting for the first document"
        )
        return ("Dry run: " if self._settings.dry_run else "") + " ".join(what.split())[:500]

    def _status(self) -> Dict[str, Any]:
        return {
            "version": 1,
            "pid": os.getpid(),
            "time": time.time(),
            "dry_run": self._settings.dry_run,
            "endpoint": self._settings.endpoint,
            "vm_name": self._vm_name,
            "incarnation": self._state.incarnation,
            "last_successful_poll": self._last_success,
            "failed_polls": self._failures,
            "error": self._last_error,
            "events": [_event_status(entry) for entry in self._state.events.values()],
        }

    def _complain(self, about: str, message: str) -> None:
        now = time.monotonic()
        if now >= self._complaints.get(about, 0.0):
            self._complaints[about] = now + REPEAT_COMPLAINT
            systemd.log(systemd.WARNING, message)


class _PollOutcome(NamedTuple):
    service: Service
    polled: Any  # Polled or ImdsError


def _poll(service: Service) -> _PollOutcome:
    try:
        return _PollOutcome(service, service.poll())
    except ImdsError as error:
        return _PollOutcome(service, error)


def _event_status(entry: Any) -> Dict[str, Any]:
    event = entry.event
    return {
        "event_id": event.event_id,
        "event_type": event.event_type,
        "event_status": event.event_status,
        "present": entry.present,
        "acknowledged": entry.approval.accepted,
        "phases": {phase: run.outcome for phase, run in entry.runs.items()},
        "doing": entry.note,
        "trouble": bool(entry.approval.error and not entry.approval.accepted)
        or any(run.outcome not in (OK, RUNNING, "no hooks", "interrupted") for run in entry.runs.values()),
    }


def _boot_id(runtime_directory: str) -> str:
    """A mark of this boot: a file in a directory that does not outlast it.

    The kernel's own id stays the same when a container is started anew, and is out of sight in a sandbox.
    """
    path = os.path.join(runtime_directory, "boot")
    try:
        with open(path, encoding="ascii") as file:
            found = file.read().strip()
    except FileNotFoundError:
        found = ""
    if not found:
        found = uuid.uuid4().hex
        write_atomically(path, found.encode(), mode=0o644)
    return found


@contextlib.contextmanager
def _listen(path: str) -> Iterator[socket.socket]:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.setblocking(False)
        yield listener


def _wake_pipe(stack: contextlib.ExitStack) -> "tuple[int, int]":
    end, start = os.pipe()
    for descriptor in (end, start):
        os.set_blocking(descriptor, False)
        stack.callback(os.close, descriptor)
    return end, start
