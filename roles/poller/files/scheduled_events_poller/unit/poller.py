# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell around the engine: clock, service, disk, signals."""

import collections
import contextlib
import json
import os
import select
import signal
import socket
import time
import traceback
import uuid
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union

from _scheduled_events import engine
from _scheduled_events.condition import NOTHING_PREPARES
from _scheduled_events.condition import condition as condition_of
from _scheduled_events.engine import HookResult, Moment, NotAsked
from _scheduled_events.files import NotPlain, read_plain, write_atomically
from _scheduled_events.state import RUNNING, EventState, State, StateError, StateFile

from .. import systemd
from ..spool import Directories, Job, RunResult
from . import control, hooks, instance, status, wording
from .config import ConfigError, Settings
from .metrics import Metrics
from .pretending import PretendedAcknowledger, PretendedHooks, PretendedStateFile
from .service import SHORT_TIMEOUT, Acknowledged, Acknowledger, Polled, PollEnded, Polling
from .whereabouts import Whereabouts, find

STATE_FILE = "/var/lib/scheduled-events/state.json"

LONGEST_GAP = 5.0  # seconds between the beginnings of two polls, at most, whatever fails
HEARTBEAT = 5.0  # seconds between two status files when nothing happens
REPEAT_COMPLAINT = 60.0  # seconds after which a lasting trouble is reported again
DISK_PAUSE = 2.0  # seconds until the state is written again after that failed
PATIENT_AFTER = 60.0  # seconds without a document after which the service may have to be enabled again

# Seconds after which a request that has not ended hangs: each has its own deadline, and a poll is two of them.
HANGING_POLL, HANGING_ATTEMPT = 2 * SHORT_TIMEOUT + 10, 120.0


class PollerError(Exception):
    """The poller cannot begin; the message says why."""


class Places(NamedTuple):
    """The paths of the poller."""

    state_file: str = STATE_FILE
    directories: Directories = Directories()

    @property
    def status_file(self) -> str:
        """The status file, for ``scheduled-events status`` and Ansible's local facts."""
        return os.path.join(self.directories.runtime, "status.json")


def engine_config(settings: Settings, vm_name: str, hooks_directory: str) -> engine.Config:
    """Return the settings of the engine, from the configuration and the installed hooks."""
    found = hooks.phases(hooks_directory, settings.hooks)
    return engine.Config(
        vm_name=vm_name,
        hooks=found.configured,
        rules=settings.rules,
        hook_timeout=settings.hook_timeout,
        margin=settings.margin,
        on_failure=settings.on_failure,
        acknowledge=settings.acknowledge,
        controller_grace=settings.controller_grace,
        missing=found.missing,
        prepares=found.prepares,
    )


class Poller:
    """Polls, decides, keeps the state, and carries out what was decided, until it has to stop.

    :param load_settings: reads the configuration; called again at a reload.
    :param spawn_hooks: run hooks as processes of our own instead of units.
    """

    def __init__(self, load_settings: Callable[[], Settings], places: Places, *, spawn_hooks: bool = False) -> None:
        self._load_settings = load_settings
        self._settings = load_settings()
        self._places = places
        self._whereabouts = self._find_out()
        self._spawn_hooks = spawn_hooks
        self._outcomes: Deque[Any] = collections.deque()
        self._results: List[engine.Result] = []
        self._metrics = Metrics()
        self._journal = _Journal()
        self._conditions: Dict[str, str] = {}
        self._polls = status.Polls(vm_name=self._settings.vm_name)
        self._config: Optional[engine.Config] = None
        self._document_at = time.monotonic()  # when a document was read last; at first, when we began
        self._next_poll = self._next_heartbeat = self._next_sign_of_life = self._blocked_until = 0.0
        self._polled_at = 0.0
        self._status_line = ""
        self._unsaved = ""  # why the state could not be saved the last time
        self._unsent = ""  # what systemd must not miss
        self._stopping = self._reloading = False

    def run(self) -> None:
        """Poll until SIGTERM or SIGINT.

        :raises PollerError: the state or a directory cannot be used.
        """
        with contextlib.ExitStack() as stack:
            self._open(stack)
            self._unsent = "READY=1\nSTATUS=Waiting for the first document"
            while not self._stopping:
                self._turn()
            systemd.notify("STOPPING=1\nSTATUS=Stopped; hooks that run go on")

    # Beginning

    def _open(self, stack: contextlib.ExitStack) -> None:
        directories = self._places.directories
        try:
            instance.check_owner(self._places.state_file, directories.runtime)
            os.makedirs(directories.runtime, exist_ok=True)
            stack.enter_context(instance.alone(self._places.state_file, directories.runtime))
            self._boot_id = _boot_id(directories.runtime)
            self._listener = stack.enter_context(_listen(directories.socket))
            self._wake_end, self._wake_start = _wake_pipe(stack)
            self._take_up()
        except (OSError, instance.Occupied) as error:
            raise PollerError(f"the poller cannot begin: {error}") from error
        stack.enter_context(self._signals())
        self._polling = Polling(self._settings, self._whereabouts, self._deliver)

    def _find_out(self) -> Whereabouts:
        settings, runtime_directory = self._settings, self._places.directories.runtime
        # A poll that finds no service has failed, and another one follows.
        return Whereabouts(settings, lambda: find(settings, runtime_directory, patience=0))

    def _take_up(self) -> None:
        """Take up the state, and the means by which something is done about it, or only pretended."""
        self._hooks: Union[hooks.HookRequests, PretendedHooks]
        self._acknowledger: Union[Acknowledger, PretendedAcknowledger]
        self._state_file: Union[StateFile, PretendedStateFile]
        if self._settings.dry_run:
            self._hooks, self._state_file = PretendedHooks(), PretendedStateFile()
            self._acknowledger = PretendedAcknowledger(self._deliver)
        else:
            self._hooks = hooks.HookRequests(self._places.directories, spawn=self._spawn_hooks)
            self._state_file = StateFile(self._places.state_file)
            self._acknowledger = Acknowledger(self._settings, self._whereabouts, self._deliver)
        self._hooks.prepare()
        self._state_file.prepare()
        self._state = self._first_state()
        self._conditions = {}

    def _first_state(self) -> State:
        fresh = State(serial=int(time.time() * 1000))  # no number of an earlier state, whose results may still exist
        try:
            return engine.resume(self._state_file.load() or fresh)
        except StateError as error:
            kept = StateFile(self._places.state_file).put_aside(time.time())
            systemd.log(systemd.ERROR, f"{error}; kept as {kept}; the poller begins without a state: an event that")
            systemd.log(
                systemd.ERROR, "is announced now is prepared again, an event that is over by now is not recovered"
            )
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
        if self._unsent and systemd.notify(self._unsent):  # else systemd does not read now, and waits for it
            self._unsent = ""
        self._poll_if_due()
        self._feed_watchdog()
        self._wait()
        for document in self._collect():
            self._decide_safely(document)
        self._heartbeat()

    def _poll_if_due(self) -> None:
        now = time.monotonic()
        if self._polling.busy or now < self._next_poll:
            return
        # From beginning to beginning; without an answer the next poll follows it at once.
        gap = self._settings.interval * 2 ** min(self._polls.failures, 10)
        self._polled_at, self._next_poll = now, now + min(gap, LONGEST_GAP)
        self._polling.ask()
        silent = self._polls.last_success is None or now - self._document_at > PATIENT_AFTER
        # At first not before the service was found, since that was a request, too.
        if silent and (self._whereabouts.known() or self._polls.failures):
            self._polling.ask_patiently()

    def _wait(self) -> None:
        now = time.monotonic()
        until = [self._next_heartbeat, self._next_sign_of_life, now + 1.0]
        if not self._polling.busy:
            until.append(self._next_poll)
        if self._results:
            until.append(self._blocked_until)
        if self._acknowledger.next_attempt is not None and self._acknowledger.next_attempt > now:
            until.append(self._acknowledger.next_attempt)
        pause = 0.0 if self._stopping else max(0.0, min(until) - now)
        ends: List[Any] = [self._listener, self._wake_end]
        ready = select.select(ends, [], [], pause)[0]
        if self._wake_end in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._wake_end, 4096):
                    pass
        if self._listener in ready:
            self._listen_to_messages()

    def _listen_to_messages(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _message in range(100):
                message, sender = self._listener.recvfrom(control.LARGEST)
                wish = control.parse(message)
                if wish is not None:
                    self._take_wish(wish, sender)

    def _take_wish(self, wish: control.Wish, sender: Any) -> None:
        objection = engine.objection(self._state, wish)
        if not objection:
            self._results.append(wish)
        if not sender:  # a socket without a name, which waits for no answer
            return
        with contextlib.suppress(OSError):
            self._listener.sendto(objection.encode("utf-8", "replace"), sender)

    def _deliver(self, outcome: Any) -> None:
        self._outcomes.append(outcome)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_start, b"\0")

    def _collect(self) -> Iterator[Optional[Polled]]:
        """What the threads brought: each document by itself, or ``None`` if there is none."""
        read = False
        while self._outcomes:
            outcome = self._outcomes.popleft()
            if isinstance(outcome, Acknowledged):
                self._take_attempt(outcome)
                continue
            polled = self._take_poll(outcome)
            if polled is not None:
                read = True
                yield polled
        if not read:
            yield None

    def _take_attempt(self, ended: Acknowledged) -> None:
        if ended.by is not self._acknowledger:
            return  # dry run has begun or ended since: pretended runs were not carried out
        self._acknowledger.end()
        self._results.extend(ended.results)
        for result in ended.results:
            self._metrics.approval_ended(accepted=result.accepted)

    def _take_poll(self, ended: PollEnded) -> Optional[Polled]:
        kind = self._polling.end(ended)
        # A document that was asked for before another was read may be older than that one.
        if kind is None or (self._polls.last_success is not None and ended.began < self._document_at):
            return None
        if isinstance(ended.polled, Polled):
            self._poll_succeeded(ended.polled)
            return ended.polled
        if kind == "poll":
            self._poll_failed(ended.polled)
        return None

    def _poll_succeeded(self, polled: Polled) -> None:
        now = time.time()
        if self._polls.failures:
            self._journal.better("poll", f"polling works again, after {self._polls.failures} failed polls")
        if self._polls.failures or self._polls.last_success is None:
            self._next_heartbeat = 0.0
        named = status.named(polled.document, polled.vm_name)
        if named != self._polls.named:
            self._next_heartbeat = 0.0
        self._polls = status.Polls(vm_name=polled.vm_name, last_success=now, named=named)
        self._document_at = time.monotonic()
        self._metrics.poll_succeeded(polled.document, vm_name=polled.vm_name, now=now)

    def _poll_failed(self, error: Exception) -> None:
        self._polls = self._polls._replace(failures=self._polls.failures + 1, error=str(error))
        self._metrics.poll_failed()
        self._journal.complain("poll", f"poll failed: {error}")

    # Deciding, and carrying out

    def _decide_safely(self, polled: Optional[Polled]) -> None:
        try:
            self._decide(polled)
        except Exception as error:  # a defect must not end the process, which would meet it again at each start
            problem = f"{type(error).__name__}: {error}"
            self._polls = self._polls._replace(error=f"a defect of the poller keeps it from deciding: {problem}")
            self._journal.complain("defect", f"{self._polls.error}\n{traceback.format_exc()}")

    def _decide(self, polled: Optional[Polled]) -> None:
        if self._polls.vm_name is None or time.monotonic() < self._blocked_until:
            return  # whose events they are is not known yet, or nothing can be written down
        config = engine_config(self._settings, self._polls.vm_name, self._places.directories.hooks)
        ended = self._hook_results()
        results = self._results + [HookResult(end.request_id, end.outcome, end.reason) for _phase, end in ended]
        now = Moment(time.time(), time.monotonic(), self._boot_id)
        state, actions = engine.step(self._state, polled.document if polled else None, results, now, config)
        # What could not be saved may be over by now, but only a save shows that the next event can be saved.
        if (state != self._state or self._unsaved) and not self._save(state):
            return  # nothing is done that would be forgotten; a later turn decides the same
        for phase, end in ended:
            self._metrics.hooks_ended(phase, end.outcome, end.seconds)
        # A report on an event that has just ended is about an entry of the state before.
        known = {**self._state.events, **state.events}
        self._state, self._config, self._results = state, config, []
        for action in actions:
            self._carry_out(action, config, known)
        self._acknowledger.offer([action for action in actions if isinstance(action, engine.Approve)], config)
        self._report_conditions(config)

    def _hook_results(self) -> List[Tuple[str, RunResult]]:
        """The runs that have ended, each with its phase."""
        ended = []
        for entry in self._state.events.values():
            for phase, run in entry.runs.items():
                result = self._hooks.result(run.request_id) if run.outcome == RUNNING else None
                if result is not None:
                    ended.append((phase, result))
        return ended

    def _save(self, state: State) -> bool:
        try:
            self._state_file.save(state)
        except OSError as error:
            self._blocked_until = time.monotonic() + DISK_PAUSE
            self._show_unsaved(f"the state cannot be saved, so nothing can be done: {error}")
            self._journal.complain("state", self._unsaved)
            return False
        self._show_unsaved("")
        self._journal.better("state", "the state can be saved again")
        return True

    def _show_unsaved(self, problem: str) -> None:
        if problem != self._unsaved:
            self._next_heartbeat = 0.0
        self._unsaved = problem
        self._metrics.unsaved = bool(problem)

    def _carry_out(self, action: engine.Action, config: engine.Config, known: Mapping[str, EventState]) -> None:
        if isinstance(action, engine.Report):
            self._report(action, known.get(action.key))
        elif isinstance(action, engine.RunHooks):
            problem = self._hooks.ask(self._job(action, config))
            if problem:
                self._results.append(NotAsked(action.request_id, problem))

    def _job(self, action: engine.RunHooks, config: engine.Config) -> Job:
        return Job(
            request_id=action.request_id,
            phase=action.phase,
            event=action.event,
            vm_name=config.vm_name,
            timeout=action.timeout,
            not_later_than=action.not_later_than,
            deadline=action.deadline,
            ends_at=action.ends_at,
            hooks=tuple(self._settings.hooks.get(action.phase, ())),
            failed_phase=action.failed_phase,
            failure=action.failure,
            prepares=action.prepares,
            first_run=action.first_run,
            recovered=action.recovered,
        )

    def _report(self, report: engine.Report, entry: Optional[EventState]) -> None:
        if report.kind == engine.ACKNOWLEDGED:
            self._metrics.acknowledged(report.seconds)
        self._next_heartbeat = 0.0
        level, text = wording.of_report(report, entry.event if entry else None)
        name = (entry.event.event_id if entry else None) or report.key
        systemd.log(level, f"{name}: {text}" if name else text)

    def _report_conditions(self, config: engine.Config) -> None:
        """Report what happens to each event and what it waits for, when that has changed."""
        conditions = {}
        unprepared = 0
        for key, entry in self._state.events.items():
            condition = condition_of(self._state, key, config)
            unprepared += condition.kind == NOTHING_PREPARES
            conditions[key] = wording.of_condition(condition, entry.event)
            if conditions[key] != self._conditions.get(key):
                level = systemd.WARNING if condition.trouble else systemd.INFO
                systemd.log(level, f"{entry.event.event_id}: {conditions[key]}")
                self._next_heartbeat = 0.0
        self._conditions = conditions
        self._metrics.nothing_prepares(unprepared)

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
        self._unsent = "READY=1"

    def _take_settings(self, before: Settings) -> None:
        now = self._settings
        self._acknowledger.drop()  # what was decided under the rules of before is decided again
        if _asked(before) != _asked(now):
            self._polls = status.Polls(vm_name=now.vm_name)
            self._whereabouts = self._find_out()
            self._polling.connect(now, self._whereabouts)
            self._acknowledger.connect(now, self._whereabouts)
        if before.dry_run != now.dry_run:
            self._results = []
            self._take_up()
        # Soon, but not before its time: a storm of reloads is not a storm of polls.
        self._next_poll = min(self._next_poll, self._polled_at + now.interval)

    # Showing how it is

    def _feed_watchdog(self) -> None:
        """Polling and acknowledging work while this loop turns and a request ends within its deadline; whether well is
        another matter: an outage of the service is not the poller's, and a restart would fix nothing."""
        interval = systemd.watchdog_interval()
        now = time.monotonic()
        if interval is None:
            self._next_sign_of_life = now + HEARTBEAT
        elif now >= self._next_sign_of_life:
            longest_poll = HANGING_POLL + self._whereabouts.longest_search
            if self._polling.busy_for() < longest_poll and self._acknowledger.busy_for() < HANGING_ATTEMPT:
                systemd.notify("WATCHDOG=1")
            self._next_sign_of_life = now + interval

    def _heartbeat(self) -> None:
        now = time.monotonic()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + HEARTBEAT
        try:
            self._show()
        except Exception as error:  # no report can end the process, whatever it holds
            self._journal.complain("status", f"status or metrics cannot be written: {type(error).__name__}: {error}")

    def _show(self) -> None:
        line = self._line()
        if line != self._status_line:
            self._status_line = line
            systemd.notify(f"STATUS={line}")
        found = self._whereabouts.known()
        shown = status.describe(
            self._state,
            self._config,
            self._polls,
            endpoint=found.endpoint if found else self._settings.endpoint,
            endpoint_source=found.source if found else None,
            dry_run=self._settings.dry_run,
            acknowledging_for=self._acknowledger.busy_for(),
            unsaved=self._unsaved,
        )
        # Over several lines: the local fact of Ansible puts its own keys after the first one.
        write_atomically(self._places.status_file, json.dumps(shown, indent=1).encode() + b"\n", mode=0o644)
        if self._settings.metrics_directory is not None:
            self._metrics.write(self._settings.metrics_directory)

    def _line(self) -> str:
        parts = [
            f"{entry.event.event_type} {key}: {self._conditions.get(key, '')}"
            for key, entry in self._state.events.items()
        ]
        if self._unsaved:
            parts.append(self._unsaved)
        if self._polls.error:
            parts.append(f"polling fails: {self._polls.error}")
        what = "; ".join(parts) or (
            "No event of this VM" if self._polls.last_success is not None else "Waiting for the first document"
        )
        return ("Dry run: " if self._settings.dry_run else "") + " ".join(what.split())[:500]


def _asked(settings: Settings) -> Tuple[Any, ...]:
    """Return the settings of requests to the service."""
    return settings.endpoint, settings.endpoint_networks, settings.api_version, settings.vm_name


class _Journal:
    """Troubles that come and go, each reported once a minute at most, however often it does so."""

    def __init__(self) -> None:
        self._next: Dict[str, float] = {}
        self._open: Dict[str, bool] = {}

    def complain(self, about: str, message: str) -> None:
        """Report a trouble."""
        now = time.monotonic()
        if now >= self._next.get(about, 0.0):
            self._next[about] = now + REPEAT_COMPLAINT
            self._open[about] = True
            systemd.log(systemd.WARNING, message)

    def better(self, about: str, message: str) -> None:
        """Report the end of a trouble, if the trouble itself was reported."""
        if self._open.pop(about, False):
            systemd.log(systemd.INFO, message)


def find_boot_id(runtime_directory: str) -> str:
    """The mark of this boot that the poller left; empty if it has not run since.

    It is a file in a directory that does not outlast the boot. The kernel's own id stays the same when a container
    starts again, and is out of sight in a sandbox.
    """
    try:
        return read_plain(os.path.join(runtime_directory, "boot"), most=100).decode("ascii").strip()
    except (FileNotFoundError, NotPlain, UnicodeDecodeError):
        return ""


def _boot_id(runtime_directory: str) -> str:
    found = find_boot_id(runtime_directory)
    if not found:
        found = uuid.uuid4().hex
        write_atomically(os.path.join(runtime_directory, "boot"), found.encode(), mode=0o644)
    return found


@contextlib.contextmanager
def _listen(path: str) -> Iterator[socket.socket]:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        try:
            listener.bind(path)
        except OSError as error:
            if error.errno is None:  # "AF_UNIX path too long", without the path
                raise OSError(f"{path}: {error}") from error
            raise
        listener.setblocking(False)
        yield listener


def _wake_pipe(stack: contextlib.ExitStack) -> Tuple[int, int]:
    end, start = os.pipe()
    for descriptor in (end, start):
        os.set_blocking(descriptor, False)
        stack.callback(os.close, descriptor)
    return end, start
