# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook that has a controller run a job for an event, and follows the job to its end.

scheduled-events-controller [--check] [--settings=FILE] [--status=FILE] [--marks=DIRECTORY]
The event is on standard input, as for every hook. With --check nothing is launched: it shows whether that would work.
"""

import contextlib
import json
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional

from _scheduled_events.document import parse_not_before
from _scheduled_events.runs import token_of
from _scheduled_events.text import shown

from . import controller_settings, status
from .config import ConfigError
from .controller_api import Controller, Refused, Unavailable
from .controller_job import SUCCESSFUL, Clock, Job, Jobs, Wanted
from .controller_settings import ControllerSettings, UnmappedHost
from .spool import LONGEST_REASON, Directories

DONE, FAILED, TRY_AGAIN = 0, 1, 75
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two requests, the first of which got no answer
TICK = 1.0  # seconds within which the end of an event is noticed
LOOKS = 3  # at a job that has ended, until the controller has counted its hosts

Environment = Mapping[str, str]


class Places(NamedTuple):
    """The paths of the hook; tests use other paths. ``marks`` is a directory that ends with the boot."""

    settings: str = controller_settings.CONTROLLER_FILE
    status: str = os.path.join(Directories().runtime, "status.json")
    marks: str = Directories().hooks_runtime


class Ending(NamedTuple):
    """The end of the hook."""

    exit_status: int
    reason: str


class Notice(NamedTuple):
    """The current knowledge of the polling unit about the event. ``not_before``: seconds since the epoch."""

    present: bool = True
    started: bool = False
    not_before: Optional[float] = None


class Mark:
    """Whether a job may run that this VM knows of. It outlasts the process: no later one may take over meanwhile."""

    def __init__(self, directory: str, event_id: str) -> None:
        self._path = os.path.join(directory, f"controller-{token_of(event_id.lower())}")
        self.is_set = os.path.exists(self._path)

    def set(self, may_run: bool) -> None:
        """Note whether a job may run."""
        if may_run == self.is_set:
            return
        self.is_set = may_run
        with contextlib.suppress(OSError):  # then this process alone knows
            if may_run:
                os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            else:
                os.unlink(self._path)


class Hook:
    """One run of the hook.

    :param look: what the polling unit knows of the event.
    :param deadline: seconds since the epoch; ``None``: none.
    :param not_before: that of the event when the hook began.
    """

    def __init__(
        self,
        jobs: Jobs,
        settings: ControllerSettings,
        mark: Mark,
        *,
        look: Callable[[], Optional[Notice]],
        say: Callable[[str], None],
        deadline: Optional[float],
        not_before: Optional[float],
        clock: Clock,
    ) -> None:
        self._jobs = jobs
        self._settings = settings
        self._mark = mark
        self._look = look
        self._say = say
        self._deadline = deadline
        self._not_before = not_before
        self._clock = clock
        self._job: Optional[Job] = None
        self._problem = ""
        self._failures = 0

    def run(self) -> Ending:
        """Have the job launched, and follow it."""
        while True:
            notice = self._look() or Notice(not_before=self._not_before)
            self._not_before = notice.not_before
            ending = self._over(notice) or self._out_of_time()
            if ending is not None:
                return ending
            pause = self._settings.interval
            try:
                ending = self._go_on(notice)
                self._problem, self._failures = "", 0
            except Unavailable as error:
                self._problem = str(error)
                pause = max(error.pause, min(FIRST_PAUSE * 2 ** min(self._failures, 10), LONGEST_PAUSE))
                self._failures += 1
                self._say(f"{self._known()}; trying again: {error}")
            except Refused as error:
                return self._refused(str(error))
            if ending is not None:
                return ending
            self._pause(pause)

    def _go_on(self, notice: Notice) -> Optional[Ending]:
        job = self._jobs.find()
        if job is None:
            if not notice.present:
                return Ending(DONE, "the event is cancelled, and has no job")
            self._jobs.attempt()
            return None
        self._job = job
        self._mark.set(not job.ended)
        if job.ended:
            return self._ended(job)
        if not notice.present:
            self._jobs.cancel(job)
            return Ending(DONE, f"the event is cancelled, and so is job {job.id}")
        self._say(self._known())
        return None

    def _over(self, notice: Notice) -> Optional[Ending]:
        """Return the end of the hook, because the event needs no preparation any more."""
        if notice.started:
            if self._mark.is_set:
                return Ending(DONE, f"the event has started; {self._known()}")
            return Ending(
                FAILED, f"the event has started, and no job was launched for it: {self._problem or 'too late'}"
            )
        if notice.present or self._settings.cancel_on_cancelled:
            return None
        return Ending(DONE, f"the event is cancelled; {self._known()}, and stays unchanged")

    def _out_of_time(self) -> Optional[Ending]:
        now = self._clock.wall()
        if self._deadline is not None and now >= self._deadline:
            # Not a failure: the deadline may have been moved since, and then the hook is run again.
            return Ending(TRY_AGAIN, f"{self._known()}{self._problem and ': ' + self._problem}")
        over = self._takes_over() and now >= (self._not_before or 0.0) - self._settings.grace
        if over and self._problem and not self._mark.is_set:
            return Ending(DONE, self._taken_over(self._problem))
        return None

    def _ended(self, job: Job) -> Ending:
        if job.status == SUCCESSFUL:
            return Ending(DONE, f"job {job.id} has ended: {job.status}")
        why = self._why(job)
        reason = f"job {job.id} has ended: {job.status}{why and ': ' + why}"
        if self._takes_over():
            return Ending(DONE, self._taken_over(reason))
        return Ending(FAILED, f"{reason}. Relaunch it on the controller first")

    def _why(self, job: Job) -> str:
        for _look in range(LOOKS):
            with contextlib.suppress(Refused, Unavailable):
                why = self._jobs.why(job)
                if why is not None:
                    return why
            self._clock.sleep(TICK)
        return ""

    def _refused(self, reason: str) -> Ending:
        if self._mark.is_set:  # the state of the job is not known: the VM must not continue without it
            return Ending(FAILED, f"{self._known()}, and cannot be followed: {reason}")
        if self._takes_over():
            return Ending(DONE, self._taken_over(reason))
        return Ending(FAILED, reason)

    def _takes_over(self) -> bool:
        return self._settings.grace > 0 and self._not_before is not None

    def _taken_over(self, reason: str) -> str:
        return f"{reason}; this VM continues without the job"

    def _known(self) -> str:
        if self._job is not None:
            return f"job {self._job.id} is {self._job.status}"
        return "a job may run" if self._mark.is_set else "there is no job yet"

    def _pause(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while self._clock.monotonic() < until:
            if self._deadline is not None and self._clock.wall() >= self._deadline:
                return
            self._clock.sleep(min(TICK, max(0.0, until - self._clock.monotonic())))


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
    said = Directories(hooks_runtime=places.marks).said(str(event["event_id"]))
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


def connect(settings: ControllerSettings) -> Controller:
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
    )


def _ignore(_something: object) -> None:
    pass


def check_settings(places: Places) -> Ending:
    """Whether a job could be launched, as far as that can be known without an event."""
    try:
        settings = controller_settings.load(places.settings)
        nobody = Wanted({"event_id": "check"}, ())
        jobs = Jobs(connect(settings), settings, nobody, note=_ignore, say=_ignore, clock=Clock())
        jobs.check_template()
        jobs.find()
    except (ConfigError, Refused, Unavailable) as error:
        return Ending(FAILED, str(error))
    return Ending(DONE, f"{settings.url} can launch the job template {settings.job_template} for an event")


def run(
    event: Dict[str, Any],
    environment: Environment,
    places: Places,
    say: Callable[[str], None],
    clock: Optional[Clock] = None,
) -> Ending:
    """Have the job of an event launched, and follow it."""
    clock = clock or Clock()
    try:
        settings = controller_settings.load(places.settings)
    except ConfigError as error:
        return Ending(FAILED, str(error))
    not_before = _epoch(event.get("not_before"))
    mark = Mark(places.marks, str(event["event_id"]))
    try:
        wanted = Wanted(event, tuple(controller_settings.hosts_of(event["resources"], settings)))
        jobs = Jobs(connect(settings), settings, wanted, note=mark.set, say=say, clock=clock)
    except (ConfigError, UnmappedHost) as error:
        jobs = Unusable(str(error))
    hook = Hook(
        jobs,
        settings,
        mark,
        look=_Looker(places.status, str(event["event_id"]), clock.wall()).look,
        say=say,
        deadline=_epoch(environment.get("SCHEDULED_EVENT_DEADLINE")),
        not_before=not_before,
        clock=clock,
    )
    return hook.run()


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
    """Reads in the status file of the polling unit what it knows of an event, if it wrote that since the hook began."""

    def __init__(self, path: str, event_id: str, began: float) -> None:
        self._path = path
        self._key = event_id.lower()
        self._began = began

    def look(self) -> Optional[Notice]:
        try:
            known = json.loads(status.read(self._path).decode("utf-8"))
            if known["time"] < self._began:
                return None
            for event in known["events"]:
                if str(event["event_id"]).lower() == self._key:
                    started = event["event_status"] == "Started"
                    return Notice(bool(event["present"]), started, _epoch(event["not_before"]))
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            pass  # what is not known changes nothing
        return None


def _epoch(text: Any) -> Optional[float]:
    moment = parse_not_before(text) if isinstance(text, str) else None
    return None if moment is None else moment.timestamp()
