# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook that has a controller run a job for an event, and follows the job to its end.

scheduled-events-controller [--check] [--settings=FILE] [--status=FILE] [--memory=DIRECTORY]
                            [--runtime=DIRECTORY]
The event is on standard input, as for every hook. With --check nothing is launched: it shows whether that would work.
"""

import contextlib
import json
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events.clock import CLOCK, Clock, pause_after
from _scheduled_events.document import parse_not_before
from _scheduled_events.files import read_plain
from _scheduled_events.text import shown

from ..spool import LONGEST_REASON, Directories
from ..unit import status
from ..unit.config import ConfigError
from . import settings as controller_settings
from .api import Controller, Refused, Unavailable
from .job import SUCCESSFUL, Job, Jobs, Wanted
from .memory import LAUNCHED, MEMORY_DIRECTORY, Memory, Preparation
from .settings import ControllerSettings, UnmappedHost

DONE, FAILED, TRY_AGAIN, NOTHING_PREPARED = 0, 1, 75, 77
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two requests, the first of which got no answer
TICK, MOMENT = 1.0, 0.05  # seconds within which the end of an event is noticed; the shortest pause
LOOKS = 3  # at a job that has ended, until the controller has counted its hosts

Environment = Mapping[str, str]


class Places(NamedTuple):
    """The paths of the hook; tests use other paths. ``runtime`` is a directory that ends with the boot."""

    settings: str = controller_settings.CONTROLLER_FILE
    status: str = os.path.join(Directories().runtime, "status.json")
    memory: str = MEMORY_DIRECTORY
    runtime: str = Directories().hooks_runtime


class Ending(NamedTuple):
    """The end of the hook."""

    exit_status: int
    reason: str


class Notice(NamedTuple):
    """The current knowledge of the polling unit about the event. ``not_before``: seconds since the epoch."""

    present: bool = True
    started: bool = False
    not_before: Optional[float] = None


class Timer:
    """The moments of a hook.

    ``not_before``: that of the event, as far as it is known. ``busy``: whether a job may run, so that this VM may not
    continue without it.

    :param deadline: seconds since the epoch; ``None``: none.
    :param grace: this long before NotBefore the VM continues without a job; 0 is never.
    """

    def __init__(self, deadline: Optional[float], not_before: Optional[float], grace: float, clock: Clock) -> None:
        self._deadline = deadline
        self._grace = grace
        self._clock = clock
        self.not_before = not_before
        self.busy: Callable[[], bool] = lambda: False

    @property
    def takes_over(self) -> bool:
        """Whether this VM continues without the job, if that cannot be had."""
        return self._grace > 0 and self.not_before is not None

    def has_passed(self) -> bool:
        """Whether the hook has no more time."""
        return self._deadline is not None and self._clock.wall() >= self._deadline

    def is_due(self) -> bool:
        """Whether the moment has come at which this VM continues without a job."""
        return self.takes_over and self._clock.wall() >= (self.not_before or 0.0) - self._grace

    def until_due(self) -> float:
        """Seconds until this VM continues without a job, as long as that lies ahead and is possible."""
        left = (self.not_before or 0.0) - self._grace - self._clock.wall()
        return left if self.takes_over and not self.busy() and left > 0 else float("inf")

    def left(self) -> float:
        """Seconds until the next of these moments, after which an answer of the controller comes too late."""
        left = float("inf") if self._deadline is None else self._deadline - self._clock.wall()
        return min(left, self.until_due())


class Hook:
    """One run of the hook.

    :param look: what the polling unit knows of the event.
    """

    def __init__(
        self,
        jobs: Jobs,
        settings: ControllerSettings,
        memory: Memory,
        timer: Timer,
        *,
        look: Callable[[], Optional[Notice]],
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._memory = memory
        self._timer = timer
        self._look = look
        self._say = say
        self._clock = clock
        self._job: Optional[Job] = None
        self._problem = ""
        self._failures = 0
        timer.busy = lambda: memory.may_run

    def run(self) -> Ending:
        """Have the job launched, and follow it."""
        ask_at = self._clock.monotonic()
        before = self._timer.not_before
        while True:
            # Also between two requests, however long the controller wants to be left alone.
            notice = self._look() or Notice(not_before=before)
            before = self._timer.not_before = notice.not_before
            ending = self._over(notice) or self._out_of_time()
            if ending is None and self._clock.monotonic() >= ask_at:
                ending, pause = self._ask(notice)
                ask_at = self._clock.monotonic() + pause
            if ending is not None:
                return ending
            self._clock.sleep(max(MOMENT, min(TICK, ask_at - self._clock.monotonic(), self._timer.left())))

    def _ask(self, notice: Notice) -> Tuple[Optional[Ending], float]:
        """Take the next step with the controller; returns the end of the hook, or the seconds until the next step."""
        try:
            ending = self._go_on(notice)
        except Unavailable as error:
            self._problem = str(error)
            pause = max(error.pause, pause_after(self._failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
            self._failures += 1
            self._say(f"{self._known()}; trying again: {error}")
            return None, pause
        except Refused as error:
            return self._refused(str(error)), 0.0
        self._problem, self._failures = "", 0
        return ending, self._settings.interval

    def _go_on(self, notice: Notice) -> Optional[Ending]:
        job = self._jobs.find()
        if job is None:
            if self._memory.running != LAUNCHED:
                self._memory.set(running=0)
            if not notice.present:
                return Ending(DONE, "the event is cancelled, and has no job")
            self._jobs.attempt()
            return None
        self._job = job
        if job.wrong:
            return self._wrong(job)
        self._memory.set(running=0 if job.ended else job.id)
        if job.counts:
            self._memory.set(job=max(self._memory.job, job.id))
        if job.ended:
            return self._ended(job)
        if not notice.present:
            self._jobs.cancel(job)
            return Ending(DONE, f"the event is cancelled, and so is job {job.id}")
        self._say(self._known())
        return None

    def _wrong(self, job: Job) -> Optional[Ending]:
        """End a job that does not do what it was launched for. It never counts, whatever becomes of it."""
        if not job.ended:
            self._memory.set(running=job.id)
            try:
                self._jobs.cancel(job)
            except Refused as error:
                self._memory.set(after=job.id)
                reason = f"{self._known()}, and it cannot be canceled: {error}. Cancel it on the controller"
                return Ending(FAILED, reason)
            self._say(self._known())
            return None
        self._memory.set(running=0, after=job.id)
        reason = (
            f'{self._known()}: turn on "Prompt on launch" of the job template for limit, labels, variables and what '
            f"else poller_controller gives"
        )
        return self._without_the_job(reason)

    def _over(self, notice: Notice) -> Optional[Ending]:
        """Return the end of the hook, because the event needs no preparation any more."""
        if notice.started:
            if self._memory.may_run and (self._job is None or self._job.counts):
                return Ending(DONE, f"the event has started; {self._known()}")
            return Ending(
                FAILED, f"the event has started, and no job was launched for it: {self._problem or 'too late'}"
            )
        if notice.present or self._settings.cancel_on_cancelled:
            return None
        return Ending(DONE, f"the event is cancelled; {self._known()}, and stays unchanged")

    def _out_of_time(self) -> Optional[Ending]:
        if self._timer.has_passed():
            # Not a failure: the deadline may have been moved since, and then the hook is run again.
            return Ending(TRY_AGAIN, f"{self._known()}{self._problem and ': ' + self._problem}")
        if self._timer.is_due() and self._problem and not self._memory.may_run:
            return self._without_the_job(self._problem)
        return None

    def _ended(self, job: Job) -> Ending:
        if job.status == SUCCESSFUL:
            return Ending(DONE, f"job {job.id} has ended: {job.status}")
        why = self._why(job)
        reason = f"job {job.id} has ended: {job.status}{why and ': ' + why}"
        return self._without_the_job(reason, "Relaunch it on the controller first")

    def _why(self, job: Job) -> str:
        for _look in range(LOOKS):
            with contextlib.suppress(Refused, Unavailable):
                why = self._jobs.why(job)
                if why is not None:
                    return why
            if self._timer.left() <= LOOKS * TICK:
                break
            self._clock.sleep(TICK)
        return ""

    def _refused(self, reason: str) -> Ending:
        if self._memory.may_run:  # the state of the job is not known: the VM must not continue without it
            return Ending(FAILED, f"{self._known()}, and cannot be followed: {reason}")
        return self._without_the_job(reason)

    def _without_the_job(self, reason: str, todo: str = "") -> Ending:
        """Leave the preparation to the other hooks of this VM, if it may continue without the job."""
        if self._timer.takes_over:
            return Ending(NOTHING_PREPARED, f"{reason}; this VM continues without the job")
        return Ending(FAILED, f"{reason}. {todo}" if todo else reason)

    def _known(self) -> str:
        job = self._job
        if job is None:
            return "a job may run" if self._memory.may_run else "there is no job yet"
        if job.wrong:
            return f"job {job.id}, which did not take {shown(job.wrong)}, is {job.status}"
        earlier = "" if job.counts else ", which does not count for this preparation,"
        return f"job {job.id}{earlier} is {job.status}"


# The command


def main(arguments: List[str]) -> int:
    """Carry out the command; returns its exit status."""
    places = Places()
    check = False
    for argument in arguments:
        option, _is, value = argument.partition("=")
        if option == "--check":
            check = True
        elif option[2:] in Places._fields and option.startswith("--"):
            places = places._replace(**{option[2:]: value})
        else:
            sys.stderr.write(__doc__)
            return 2
    if check:
        ending = check_settings(places)
        Speaker()(ending.reason)
        return ending.exit_status
    event = json.loads(sys.stdin.read())
    said = Directories(hooks_runtime=places.runtime).said(str(event["event_id"]))
    say = Speaker(said, os.environ.get("SCHEDULED_EVENT_REASON_FILE", ""))
    try:
        ending = run(event, os.environ, places, say)
        say(ending.reason)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(said)
    return ending.exit_status


class Speaker:
    """Puts a line that is not the one before into the journal, and into files in place of the one before."""

    def __init__(self, *files: str) -> None:
        self._files = [file for file in files if file]
        self._last = ""

    def __call__(self, line: str) -> None:
        line = shown(line, LONGEST_REASON)
        if line == self._last:
            return
        self._last = line
        sys.stdout.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")
        sys.stdout.flush()
        for path in self._files:
            with contextlib.suppress(OSError), open(path, "wb") as file:
                file.write(line.encode("utf-8", "replace"))


def connect(settings: ControllerSettings, timer: Optional[Timer] = None) -> Controller:
    """The controller of the settings.

    :raises ConfigError: the token or the authorities cannot be read.
    """
    if settings.ca_file and not os.access(settings.ca_file, os.R_OK):
        raise ConfigError(
            f"{settings.ca_file}: it cannot be read, expected the authorities of poller_controller.ca_file: correct "
            f"its path"
        )
    return Controller(
        settings.url,
        controller_settings.read_token(settings),
        ca_file=settings.ca_file,
        proxy=settings.proxy,
        seconds=settings.request_timeout,
        **({} if timer is None else {"left": timer.left}),
    )


def _ignore(_something: object) -> None:
    pass


def check_settings(places: Places) -> Ending:
    """Whether a job could be launched, as far as that can be known without an event."""
    hide: Callable[[str], str] = str
    try:
        settings = controller_settings.load(places.settings)
        nobody = Wanted({"event_id": "check"}, (), (), "")
        controller = connect(settings)
        hide = controller.hide
        memory = Memory(
            os.devnull, "check", Preparation("", "", "", "", undone=False, not_before="")
        )  # which keeps nothing
        jobs = Jobs(controller, settings, nobody, memory, say=_ignore, clock=CLOCK)
        jobs.check_template()
        jobs.find()
    except (ConfigError, Refused, Unavailable) as error:
        return Ending(FAILED, hide(str(error)))
    return Ending(DONE, f"{settings.url} can launch the job template {settings.job_template} for an event")


def run(
    event: Dict[str, Any],
    environment: Environment,
    places: Places,
    say: Callable[[str], None],
    clock: Clock = CLOCK,
) -> Ending:
    """Have the job of an event launched, and follow it."""
    try:
        settings = controller_settings.load(places.settings)
    except ConfigError as error:
        return Ending(FAILED, str(error))
    timer = Timer(
        _epoch(environment.get("SCHEDULED_EVENT_DEADLINE")), _epoch(event.get("not_before")), settings.grace, clock
    )
    memory = Memory(places.memory, str(event["event_id"]), Preparation.of(event, environment))
    memory.save()
    memory.forget_others(clock.wall())
    hide: Callable[[str], str] = str

    def say_without_secrets(line: str) -> None:  # no text of the controller leaves this process with the token in it
        say(hide(line))

    if memory.unsaved:
        say_without_secrets(
            f"WARNING: the memory of this hook cannot be written ({memory.unsaved}). If this VM goes down now, a later "
            "hook may launch a second job. Correct the directory"
        )
    try:
        controller = connect(settings, timer)
        hide = controller.hide
        vm_name = environment.get("SCHEDULED_EVENTS_VM_NAME", "")
        wanted = _wanted(event, settings, vm_name, memory.preparation.not_before)
        jobs = Jobs(controller, settings, wanted, memory, say=say_without_secrets, clock=clock, left=timer.until_due)
    except (ConfigError, UnmappedHost) as error:
        jobs = Unusable(str(error))
    look = _Looker(places.status, str(event["event_id"])).look
    ending = Hook(jobs, settings, memory, timer, look=look, say=say_without_secrets, clock=clock).run()
    return ending._replace(reason=hide(ending.reason))


def _wanted(event: Dict[str, Any], settings: ControllerSettings, vm_name: str, not_before: str) -> Wanted:
    resources = event["resources"]
    hosts = controller_settings.hosts_of(resources, settings)
    own = [host for name, host in zip(resources, hosts) if name.lower() == vm_name.lower()]
    return Wanted(event, tuple(hosts), tuple(own or hosts), not_before)


class Unusable(Jobs):
    """The substitute for jobs when the hook cannot even send a request."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def find(self) -> Optional[Job]:
        """Say why.

        :raises Refused: always.
        """
        raise Refused(self._reason)


class _Looker:
    """Reads in the status file of the polling unit what it knows of an event, if it wrote that since the hook began.

    That is so as soon as the file is another one. Its time does not show that: the clock may have been set.
    """

    def __init__(self, path: str, event_id: str) -> None:
        self._path = path
        self._key = event_id.lower()
        self._old = self._read()

    def look(self) -> Optional[Notice]:
        text = self._read()
        if text is None or text == self._old:
            return None
        try:
            for event in json.loads(text.decode("utf-8"))["events"]:
                if str(event["event_id"]).lower() == self._key:
                    started = event["event_status"] == "Started"
                    return Notice(bool(event["present"]), started, _epoch(event["not_before"]))
        except (ValueError, RecursionError, KeyError, TypeError):
            pass  # what is not known changes nothing
        return None

    def _read(self) -> Optional[bytes]:
        try:
            return read_plain(self._path, most=status.MOST_BYTES)
        except OSError:
            return None


def _epoch(text: Any) -> Optional[float]:
    moment = parse_not_before(text) if isinstance(text, str) else None
    return None if moment is None else moment.timestamp()
