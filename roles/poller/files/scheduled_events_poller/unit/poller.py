# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell around the engine: clock, service, disk, signals."""

import contextlib
import os
import signal
import traceback
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events import announced, engine, terms
from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock, Moment, pause_after
from _scheduled_events.document import Document
from _scheduled_events.history_file import UNIT_DIRECTORY
from _scheduled_events.state import State, StateFile
from _scheduled_events.terms import HookResult, NotAsked
from _scheduled_events.transitions import Step

from .. import systemd
from ..spool import Directories
from . import control, effects, hooks, instance, status
from .config import Settings
from .display import HEARTBEAT, Display, of_action
from .endpoint_resolver import EndpointResolver, find
from .service import SHORT_TIMEOUT, Acknowledger, Polled, PollEnded, Polling, Source

STATE_FILE = "/var/lib/scheduled-events/state.json"

LONGEST_GAP = 2.0  # seconds between two polls after a failure, unless the interval is longer: a Spot VM has few
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
    drill: str = announced.DIRECTORY

    @property
    def history_directory(self) -> str:
        """The history; that of a state in another place is beside it."""
        # The role makes it, for a group that may read it. So it is not in the directory of the state, which is private.
        other = os.path.join(os.path.dirname(os.path.abspath(self.state_file)), "history")
        return UNIT_DIRECTORY if self.state_file == STATE_FILE else other

    @property
    def status_file(self) -> str:
        """The status file, for ``scheduled-events status`` and Ansible's local facts."""
        return os.path.join(self.directories.runtime, "status.json")


def engine_config(settings: Settings, vm_name: str, hooks_directory: str) -> terms.Config:
    """Return the settings of the engine, from the configuration and the installed hooks."""
    found = hooks.phases(hooks_directory, settings.hooks)
    return terms.Config(
        vm_name=vm_name,
        hooks=found.configured,
        rules=settings.rules,
        hook_timeout=settings.hook_timeout,
        margin=settings.margin,
        on_failure=settings.on_failure,
        acknowledge=settings.acknowledge,
        controller_grace=settings.controller_grace,
        missing=found.missing,
        preparation=found.preparation,
    )


class Watchdog:
    """The signs of life for systemd. A request that fails does not count: an outage of the service is not the poller's,
    and a restart would fix nothing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.next_sign = 0.0

    def feed(self, *, hangs: bool) -> None:
        """Send a sign if it is due and no request hangs."""
        interval = systemd.watchdog_interval()
        now = self._clock.monotonic()
        if interval is None:
            self.next_sign = now + HEARTBEAT
        elif now >= self.next_sign:
            if not hangs:
                systemd.notify("WATCHDOG=1")
            self.next_sign = now + interval


class Poller:
    """Polls, decides, keeps the state, and carries out what was decided, until it has to stop.

    :param load_settings: reads the configuration; called again at a reload.
    """

    def __init__(self, load_settings: Callable[[], Settings], places: Places, *, clock: Clock = CLOCK) -> None:
        self._clock, self._places = clock, places
        self._load_settings = load_settings
        self._settings = load_settings()
        self._source = _source_of(self._settings, places)
        self._hooks = hooks.HookRequests(places.directories)
        self._state_file = StateFile(places.state_file)
        self._results: List[terms.Result] = []
        self._display = Display(clock)
        self._polls = status.Polls(vm_name=self._settings.vm_name)
        self._config: Optional[terms.Config] = None
        self._document_at = self._clock.monotonic()  # when a document was read last; at first, when we began
        self._watchdog = Watchdog(clock)
        self._next_poll = self._polled_at = self._blocked_until = 0.0
        self._unsaved = ""  # why the state could not be saved the last time, or what of it a dry run hides
        self._unsent = ""  # what systemd must not miss
        self._stopping = self._reloading = False

    def run(self) -> None:
        """Poll until SIGTERM or SIGINT.

        :raises PollerError, OSError: the state or a directory cannot be used, or one was removed.
        """
        with contextlib.ExitStack() as stack:
            self._open(stack)
            self._unsent = "READY=1\nSTATUS=Waiting for the first document"
            while not self._stopping:
                self._watched.check()
                self._iterate()
            systemd.notify("STOPPING=1\nSTATUS=Stopped; hooks that run go on")

    # Beginning

    def _open(self, stack: contextlib.ExitStack) -> None:
        directories = self._places.directories
        try:
            instance.check_owner(self._places.state_file, directories.runtime)
            os.makedirs(directories.runtime, exist_ok=True)
            stack.enter_context(instance.alone(self._places.state_file, directories.runtime))
            self._boot_id, self._display.impact.rebooted = instance.boot_id(directories.runtime)
            self._inbox = control.Inbox(directories.socket, stack)
            self._hooks.prepare()
            self._take_up()
        except OSError as error:
            raise PollerError(f"the poller cannot begin: {error}") from error
        self._watched = instance.Watched(directories, self._boot_id, self._clock)
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._ask_to_reload}
        _handle(handlers, self._inbox.wake_start, stack)
        self._polling = Polling(self._source, self._inbox.deliver, self._clock)
        self._acknowledger = Acknowledger(self._source, self._inbox.deliver, self._clock)

    def _take_up(self) -> None:
        """Begin with the state of the unit, or with none in a dry run, which must never count as done."""
        history = None if self._settings.dry_run else self._places.history_directory
        self._state = effects.first_state(
            self._state_file, history, now=self._now(), hook_timeout=self._settings.hook_timeout
        )
        self._unsaved = "" if history else effects.hidden_by_dry_run(self._state_file)
        self._display.begin(history)

    def _stop(self, _number: int, _frame: Any) -> None:
        self._stopping = True

    def _ask_to_reload(self, _number: int, _frame: Any) -> None:
        self._reloading = True

    # One iteration of the loop

    def _iterate(self) -> None:
        if self._reloading:
            self._reload()
        if self._unsent and systemd.notify(self._unsent):  # else systemd does not read now, and waits for it
            self._unsent = ""
        self._poll_if_due()
        self._feed_watchdog()
        self._wait()
        for document in self._collect():
            self._decide_safely(document)
        self._display.heartbeat(self._show)

    def _poll_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._polling.busy or now < self._next_poll:
            return
        # From beginning to beginning; without an answer the next poll follows it at once.
        gap = pause_after(self._polls.failures, first=self._settings.interval, longest=LONGEST_GAP)
        self._polled_at, self._next_poll = now, now + gap
        self._polling.ask()
        silent = self._polls.last_success is None or now - self._document_at > PATIENT_AFTER
        # Not before a poll has failed: with the requests of an acknowledgement, those of a second one are more than the
        # service allows in a second.
        if silent and self._polls.failures:
            self._polling.ask_patiently()

    def _wait(self) -> None:
        now = self._clock.monotonic()
        until = [self._display.next_heartbeat, self._watchdog.next_sign, now + 1.0]
        if not self._polling.busy:
            until.append(self._next_poll)
        if self._results and self._polls.vm_name is not None:
            until.append(self._blocked_until)
        if self._acknowledger.next_attempt is not None and self._acknowledger.next_attempt > now:
            until.append(self._acknowledger.next_attempt)
        pause = 0.0 if self._stopping else max(0.0, min(until) - now)
        self._inbox.wait(pause, self._take_command)

    def _take_command(self, command: control.Command) -> str:
        objection = engine.objection(self._state, command)
        if not objection:
            self._results.append(command)
        return objection

    def _collect(self) -> Iterator[Optional[Polled]]:
        """What the threads brought: each document by itself, or ``None`` if there is none."""
        read = False
        for outcome in self._inbox.outcomes():
            if isinstance(outcome, list):
                self._take_attempt(outcome)
                continue
            polled = self._take_poll(outcome)
            if polled is not None:
                read = True
                yield polled
        if not read:
            yield None

    def _take_attempt(self, results: List[terms.ApprovalResult]) -> None:
        self._acknowledger.end()
        self._results.extend(results)
        for result in results:
            self._display.metrics.approval_ended(accepted=result.accepted)

    def _take_poll(self, ended: PollEnded) -> Optional[Polled]:
        kind, polled, problem = self._polling.end(ended), ended.polled, ended.problem
        # A document that was asked for before another was read may be older than that one.
        if kind is None or (self._polls.last_success is not None and ended.began < self._document_at):
            return None
        if polled:
            problem = engine.overflow(self._state, polled.document, polled.vm_name)
        if polled and not problem:
            self._poll_succeeded(polled)
            return polled
        if kind == "poll":
            self._poll_failed(problem)
        return None

    def _poll_succeeded(self, polled: Polled) -> None:
        now = self._clock.wall()
        if self._polls.failures:
            self._display.journal.better("poll", f"polling works again, after {self._polls.failures} failed polls")
        read = status.polls_of(polled, self._polls, now=now)
        if read.misnamed:
            self._display.journal.complain("name", read.misnamed)
        if read.differs(self._polls):
            self._display.hurry()
        self._polls = read
        self._document_at = self._clock.monotonic()
        self._display.metrics.poll_succeeded(polled.document, vm_name=polled.vm_name, now=now)

    def _poll_failed(self, problem: str) -> None:
        self._polls = self._polls._replace(failures=self._polls.failures + 1, error=problem)
        self._display.metrics.poll_failed()
        self._display.journal.complain("poll", f"poll failed: {problem}")

    # Deciding, and carrying out

    def _decide_safely(self, polled: Optional[Polled]) -> None:
        try:
            self._decide(polled)
        except Exception as error:  # a defect must not end the process, which would meet it again at each start
            problem = f"{type(error).__name__}: {error}"
            self._polls = self._polls._replace(error=f"a defect of the poller keeps it from deciding: {problem}")
            self._display.journal.complain("defect", f"{self._polls.error}\n{traceback.format_exc()}")

    def _now(self) -> Moment:
        return Moment(self._clock.wall(), self._clock.monotonic(), self._boot_id)

    def _decide(self, polled: Optional[Polled]) -> None:
        if self._polls.vm_name is None or self._clock.monotonic() < self._blocked_until:
            return  # whose events they are is not known yet, or nothing can be written down
        config = engine_config(self._settings, self._polls.vm_name, self._places.directories.hooks)
        document = polled.document if polled else None
        if self._state.events or (document and document.events):
            config = config._replace(**self._display.recorder.experience())
        act = self._rehearse if self._settings.dry_run else self._act
        act(document, config)

    def _act(self, document: Optional[Document], config: terms.Config) -> None:
        ended = effects.ended_runs(self._state, self._hooks)
        results = self._results + [HookResult(end.request_id, end.outcome, end.reason) for _phase, end in ended]
        now = self._now()
        state, actions = engine.step(self._state, document, results, now, config)
        # What could not be saved may be over by now, but only a save shows that the next event can be saved.
        if (state != self._state or self._unsaved) and not self._save(state):
            return  # nothing is done that would be forgotten; a later iteration decides the same
        for phase, end in ended:
            self._display.metrics.hooks_took(phase, end.seconds)
        step = Step(self._state, state, actions, now, config, self._config)
        self._display.recorder.record_step(step)  # first: of what is done, the history knows whatever follows
        self._take_step(step, self._carry_out)
        self._acknowledger.offer([action for action in actions if isinstance(action, terms.Approve)], config)
        self._display.report_step(step, dry_run=False)

    def _carry_out(self, action: terms.Action, config: terms.Config) -> None:
        if isinstance(action, terms.RunHooks):
            problem = self._hooks.ask(effects.job_of(action, config, self._settings))
            if problem:
                self._results.append(NotAsked(action.request_id, problem))

    def _rehearse(self, document: Optional[Document], config: terms.Config) -> None:
        now = self._now()
        state, actions = effects.rehearse(self._state, document, self._results, now, config)
        done = terms.ReportKind.ENDED, terms.ReportKind.ACKNOWLEDGED
        actions = [each for each in actions if not (isinstance(each, terms.Report) and each.kind in done)]
        step = Step(self._state, state, actions, now, config, self._config)
        self._take_step(step, lambda action, _config: systemd.log(systemd.INFO, of_action(action, {})))
        self._display.report_step(step, dry_run=True)

    def _take_step(self, step: Step, carry_out: Callable[[terms.Action, terms.Config], None]) -> None:
        """The state after the step counts now. Report what the engine reports, and carry out the rest."""
        # A report on an event that has just ended is about an entry of the state before.
        known = {**step.before.events, **step.after.events}
        self._state, self._config, self._results = step.after, step.config, []
        for action in step.actions:
            if isinstance(action, terms.Report):
                self._display.report(action, known.get(action.key))
            else:
                carry_out(action, step.config)

    def _save(self, state: State) -> bool:
        problem = ""
        try:
            self._state_file.save(state)
            self._display.journal.better("state", "the state can be saved again")
        except (OSError, MemoryError) as error:
            self._blocked_until = self._clock.monotonic() + DISK_PAUSE
            problem = f"the state cannot be saved, so nothing can be done: {str(error) or 'no memory'}"
            self._display.journal.complain("state", problem)
        if problem != self._unsaved:
            self._display.hurry()
        self._unsaved = problem
        return not problem

    # Configuration

    def _reload(self) -> None:
        self._reloading = False
        systemd.notify_reloading()
        before = self._settings
        try:
            self._settings = self._load_settings()
        except WrongValue as error:
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
            self._source = _source_of(now, self._places)
            self._polling.connect(self._source)
            self._acknowledger.connect(self._source)
        if before.dry_run != now.dry_run:
            self._results = []
            self._take_up()
        # Soon, but not before its time: a storm of reloads is not a storm of polls.
        self._next_poll = min(self._next_poll, self._polled_at + now.interval)

    # Showing how it is

    def _feed_watchdog(self) -> None:
        longest_poll = HANGING_POLL + self._source.resolver.longest_search
        hangs = self._polling.busy_for() >= longest_poll or self._acknowledger.busy_for() >= HANGING_ATTEMPT
        self._watchdog.feed(hangs=hangs)

    def _show(self) -> None:
        view = status.View(
            self._clock.wall(),
            self._settings,
            self._state,
            self._config,
            self._polls,
            self._source.resolver.known(),
            self._acknowledger.busy_for(),
            self._unsaved,
            self._hooks.unheard(self._clock.monotonic()),
        )
        self._display.show(view, self._places.status_file)


def _source_of(settings: Settings, places: Places) -> Source:
    # A poll that finds no service has failed, and another one follows.
    resolver = EndpointResolver(settings, lambda: find(settings, patience=0))
    return Source(settings, resolver, places.drill)


def _asked(settings: Settings) -> Tuple[Any, ...]:
    """Return the settings of requests to the service."""
    return settings.endpoint, settings.endpoint_networks, settings.api_version, settings.vm_name


def _handle(
    handlers: Mapping[signal.Signals, Callable[[int, Any], None]], wake_start: int, stack: contextlib.ExitStack
) -> None:
    """Handle signals until the end of the stack. They also write to the pipe that ends a wait."""
    for number, handler in handlers.items():
        stack.callback(signal.signal, number, signal.signal(number, handler))
    stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(wake_start))
