# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook that has a controller run a job for an event, and follows the job to its end.

The event is on standard input, as for every hook.
"""

import argparse
import contextlib
import json
import math
import os
import sys
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple

from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import CLOCK, Clock, pause_after
from _scheduled_events.document import parse_not_before
from _scheduled_events.files import LARGEST_STATUS, read_plain
from _scheduled_events.text import shown

from .. import systemd
from ..spool import LONGEST_REASON, Directories
from .controller import Controller
from .job import LEASE, RUNNING, SUCCESSFUL, ControllerJob, Jobs
from .memory import LAUNCHED, MEMORY_DIRECTORY, EventMemory
from .request import Declined, NotNow, spread
from .settings import CONTROLLER_FILE, ControllerSettings, load_controller, vms_of

DONE, FAILED, TRY_AGAIN, NOTHING_PREPARED = 0, 1, 75, 77
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0  # seconds between two requests, the first of which got no answer
TICK, MOMENT = 1.0, 0.05  # seconds within which the end of an event is noticed; the shortest pause
TOGETHER = 10.0  # looks in a second, of the hooks of all VMs of an event
BUSY, OF_AGE = 10.0, 0.05  # a pause in times of the last answer and of the age of a job
OF_LEFT = 0.125  # of the remaining time, the most for a pause, which is then stretched up to twice
LOOKS = 3  # at a job that has ended, until the controller has counted its hosts
NAMES_NO_VM = (
    "the event names no VM, so its job would have no limit, and would run on the whole inventory: name its VMs in "
    "resources"
)


class HookFiles(NamedTuple):
    """The paths of the hook; tests use other paths. ``runtime`` is a directory that ends with the boot."""

    settings: str = CONTROLLER_FILE
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


class ControllerHook:
    """One run of the hook. Its moments are in seconds since the epoch.

    :param say: takes a line for the owner.
    :param spread: see :func:`.request.spread`.
    """

    def __init__(
        self,
        event: Mapping[str, Any],
        environment: Mapping[str, str],
        files: HookFiles,
        settings: ControllerSettings,
        *,
        say: Callable[[str], None],
        clock: Clock,
        spread: Callable[[], float] = spread,
    ) -> None:
        self.memory = EventMemory(files.memory, event, environment)
        self._event = event
        self._vms = vms_of(event)
        self._environment = environment
        self._settings = settings
        self._say_plainly = say
        self._hide: Callable[[str], str] = str
        self._clock = clock
        self._spread = spread
        self._not_before = _epoch(event.get("not_before"))
        self._has_moment = self._takes_over and self._until_grace() > 0  # to continue without a job
        self._deadline = _epoch(environment.get("SCHEDULED_EVENT_DEADLINE")) or float("inf")
        self._status_file = files.status
        self._status_before = self._read_status()
        self._job: Optional[ControllerJob] = None
        self._problem = ""
        self._failures = 0
        self._job_since = self._gone_since = 0.0

    def run(self) -> Ending:
        """Have the job launched, and follow it."""
        self.memory.save()
        self.memory.forget_others(self._clock.wall())
        if self.memory.unsaved:
            self._say(
                f"WARNING: the memory of this hook cannot be written ({self.memory.unsaved}). If this VM goes down "
                f"now, a later hook may launch a second job. Correct the directory"
            )
        if not self._vms:
            return self._refused(NAMES_NO_VM)
        vm_name = self._environment.get("SCHEDULED_EVENTS_VM_NAME", "")
        try:
            controller = Controller(self._settings, left=self.left, clock=self._clock)
            self._hide = controller.hide
            jobs = Jobs(controller, self._settings, self._event, vm_name, self.memory, self._say, self._clock)
        except WrongValue as error:
            return self._refused(str(error))
        ending = self._follow(jobs)
        return ending._replace(reason=self._hide(ending.reason))

    def _say(self, line: str) -> None:
        self._say_plainly(self._hide(line))  # no text of the controller leaves this process with the token in it

    def _follow(self, jobs: Jobs) -> Ending:
        present, ask_at = True, self._clock.monotonic() + self._turn()
        while True:
            # Also between two requests, however long the controller wants to be left alone.
            notice = self._look()
            self._not_before = notice.not_before
            if present and not notice.present:
                self._gone_since = self._clock.monotonic()
                ask_at = min(ask_at, self._gone_since + self._turn())
            present = notice.present
            if notice.started and (self._job is None or self._job.waits):
                with contextlib.suppress(Declined, NotNow):  # it may have begun since, and acknowledged the event
                    self._job = jobs.find() or self._job
            ending = self._over(notice) or self._out_of_time()
            if ending is None and self._clock.monotonic() >= ask_at:
                ending, pause = self._ask(jobs, notice)
                ask_at = self._clock.monotonic() + pause
            if ending is not None:
                return ending
            self._clock.sleep(max(MOMENT, min(TICK, ask_at - self._clock.monotonic(), self.left())))

    # The moments

    @property
    def _takes_over(self) -> bool:
        """Whether this VM continues without the job, if that cannot be had."""
        return self._settings.grace > 0 and self._not_before is not None

    def _until_due(self) -> float:
        """Seconds until this VM continues without a job, as long as that lies ahead and is possible."""
        left = self._until_grace()
        return left if self._takes_over and not self.memory.may_run and left > 0 else float("inf")

    def left(self) -> float:
        """Seconds until the next moment, after which an answer of the controller comes too late."""
        return min(self._deadline - self._clock.wall(), self._until_due())

    def _until_grace(self) -> float:
        return (self._not_before or 0.0) - self._settings.grace - self._clock.wall()

    def _out_of_time(self) -> Optional[Ending]:
        if self._clock.wall() >= self._deadline:
            # Not a failure: the deadline may have been moved since, and then the hook is run again.
            return Ending(TRY_AGAIN, self._known_now())
        is_due = self._takes_over and not self.memory.may_run and self._until_grace() <= 0
        nobody = "no VM has launched the job" if self._has_moment and self._job is None else ""
        if is_due and (self._problem or nobody):
            return self._without_the_job(self._problem or nobody)
        return None

    # What the polling unit knows

    def _look(self) -> Notice:
        """What the status file of the polling unit says of the event, if the unit wrote that since the hook began.

        That is so as soon as the file is another one. Its time does not show that: the clock may have been set.
        """
        text = self._read_status()
        if text is not None and text != self._status_before:
            key = str(self._event["event_id"]).lower()
            with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):  # it changes nothing then
                for event in json.loads(text.decode("utf-8"))["events"]:
                    if str(event["event_id"]).lower() == key:
                        started = event["event_status"] == "Started"
                        return Notice(bool(event["present"]), started, _epoch(event["not_before"]))
        return Notice(not_before=self._not_before)

    def _read_status(self) -> Optional[bytes]:
        with contextlib.suppress(OSError):
            return read_plain(self._status_file, most=LARGEST_STATUS)
        return None

    # The job

    def _ask(self, jobs: Jobs, notice: Notice) -> Tuple[Optional[Ending], float]:
        """Take the next step with the controller; returns the end of the hook, or the seconds until the next step."""
        ending, pause = None, self._settings.interval
        try:
            ending = self._go_on(jobs, notice)
            self._problem, self._failures = "", 0
        except NotNow as error:
            self._problem = str(error)
            pause = max(error.pause, pause_after(self._failures, first=FIRST_PAUSE, longest=LONGEST_PAUSE))
            pause *= self._spread()
            self._failures += 1
            self._say(f"{self._known()}; trying again: {error}")
        except Declined as error:
            return self._refused(str(error)), 0.0
        launches = jobs.launches and self._job is None  # the other VMs wait for this one
        return ending, pause if launches else self._rest(pause, jobs.took)

    def _turn(self) -> float:
        """Seconds until this VM asks about something new. Few VMs ask at first, so that one acts before most ask."""
        return 2 * math.sqrt(self._spread() - 1.0) * self._share()

    def _rest(self, least: float, took: float) -> float:
        """Seconds until the next look, so that a slow controller, or one of many VMs, is not overloaded.

        :param took: seconds of the last answer.
        """
        age = self._clock.monotonic() - self._job_since if self._job else 0.0
        return max(least, self._spread() * self._share(BUSY * took, OF_AGE * age))

    def _share(self, *longer: float) -> float:
        """Seconds after which each VM of the event asks once, or longer; a part of the remaining time at most."""
        return min(max((len(self._vms) / TOGETHER, *longer)), OF_LEFT * self.left())

    def _go_on(self, jobs: Jobs, notice: Notice) -> Optional[Ending]:
        job, before = jobs.find(), self._job
        self._job = job
        if job is None:
            # A job that is not listed any more can still run, such as one that the user of the token may not see now.
            still_runs = self.memory.running not in (0, LAUNCHED) and not jobs.has_ended(self.memory.running)
            if self.memory.running != LAUNCHED and not still_runs:
                self.memory.set(running=0)
            if not notice.present:
                may_show = self.memory.may_run and self._clock.monotonic() - self._gone_since < LEASE
                return None if may_show else _cancelled(f"; {self._known()}")
            if not still_runs:
                jobs.attempt(self._until_due)
            return None
        if before is None or before.id != job.id:
            self._job_since = self._clock.monotonic()
        if job.wrong:
            return self._wrong(jobs, job)
        self.memory.set(running=0 if job.ended else job.id)
        if job.counts:
            self.memory.set(job=max(self.memory.job, job.id))
        if not notice.present:
            return self._cancel(jobs, job)
        if job.ended:
            return self._ended(jobs, job)
        self._say(self._known())
        return None

    def _cancel(self, jobs: Jobs, job: ControllerJob) -> Ending:
        """Cancel the job, unless another VM has done so. If the event is announced again, it needs another job."""
        if not job.ended:
            jobs.cancel(job)
        self.memory.set(after=max(self.memory.after or 0, job.id))
        return _cancelled(f"; {self._known()}" if job.ended else f", and so is job {job.id}")

    def _wrong(self, jobs: Jobs, job: ControllerJob) -> Optional[Ending]:
        """End a job that does not do what it was launched for. It never counts, whatever becomes of it."""
        if not job.ended:
            self.memory.set(running=job.id)
            try:
                jobs.cancel(job)
            except Declined as error:
                self.memory.set(after=job.id)
                reason = f"{self._known()}, and it cannot be canceled: {error}. Cancel it on the controller"
                return Ending(FAILED, reason)
            self._say(self._known())
            return None
        self.memory.set(running=0, after=job.id)
        return self._without_the_job(
            f'{self._known()}: turn on "Prompt on launch" of the job template for limit, labels, variables and what '
            f"else poller_controller gives"
        )

    def _over(self, notice: Notice) -> Optional[Ending]:
        """Return the end of the hook, because the event needs no preparation any more."""
        if notice.started:
            job = self._job
            prepares = job.counts and job.status in (RUNNING, SUCCESSFUL) if job else self.memory.may_run
            return Ending(DONE if prepares else FAILED, f"the event has started; {self._known_now()}")
        if notice.present or self._settings.cancel_on_cancelled:
            return None
        stays = ", and stays unchanged" if self._job or self.memory.may_run else ""
        return _cancelled(f"; {self._known()}{stays}")

    def _ended(self, jobs: Jobs, job: ControllerJob) -> Ending:
        reason = f"job {job.id} has ended: {job.status}"
        if job.status == SUCCESSFUL:
            if jobs.ran_here(job):
                return Ending(DONE, reason)
            why = "it did nothing on this VM: expected it in the inventory, and a task that runs on it, not run_once"
        else:
            why = self._why(jobs, job)
        reason += why and f": {why}"
        return self._without_the_job(reason, "Relaunch it on the controller first")

    def _why(self, jobs: Jobs, job: ControllerJob) -> str:
        for _look in range(LOOKS):
            with contextlib.suppress(Declined, NotNow):
                why = jobs.why(job)
                if why is not None:
                    return why
            if self.left() <= LOOKS * TICK:
                break
            self._clock.sleep(TICK)
        return ""

    def _refused(self, reason: str) -> Ending:
        if self.memory.may_run:  # the state of the job is not known: the VM must not continue without it
            return Ending(FAILED, f"{self._known()}, and cannot be followed: {reason}")
        return self._without_the_job(reason)

    def _without_the_job(self, reason: str, todo: str = "") -> Ending:
        """Leave the preparation to the other hooks of this VM, if it may continue without the job."""
        if self._takes_over:
            return Ending(NOTHING_PREPARED, f"{reason}; this VM continues without the job")
        return Ending(FAILED, f"{reason}. {todo}" if todo else reason)

    def _known_now(self) -> str:
        return f"{self._known()}{self._problem and ': ' + self._problem}"

    def _known(self) -> str:
        job = self._job
        if job is None:
            if self.memory.may_run:
                return "a job may run"
            return f"the last job, {self.memory.job}, has ended" if self.memory.job else "there is no job yet"
        if job.wrong:
            return f"job {job.id}, which did not take {shown(job.wrong)}, is {job.status}"
        earlier = "" if job.counts else ", which does not count for this preparation,"
        return f"job {job.id}{earlier} is {job.status}"


# The command


def main(arguments: List[str]) -> int:
    """Carry out the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="launch nothing, and show whether that would work")
    for name, path in HookFiles()._asdict().items():
        parser.add_argument(f"--{name}", default=path)
    options = vars(parser.parse_args(arguments))
    checks = options.pop("check")
    files = HookFiles(**options)
    if checks:
        ending = check_settings(files)
        Speaker()(ending.reason)
        return ending.exit_status
    event = json.loads(sys.stdin.read())
    said = Directories(hooks_runtime=files.runtime).said(str(event["event_id"]))
    say = Speaker(said, os.environ.get("SCHEDULED_EVENT_REASON_FILE", ""))
    try:
        ending = run(event, os.environ, files, say)
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
        systemd.say(line)
        for path in self._files:
            with contextlib.suppress(OSError), open(path, "wb") as file:
                file.write(line.encode("utf-8", "replace"))


def check_settings(files: HookFiles) -> Ending:
    """Whether a job could be launched, as far as that can be known without an event."""
    hide: Callable[[str], str] = str
    try:
        settings = load_controller(files.settings)
        controller = Controller(settings)
        hide = controller.hide
        nothing = {"event_id": "check", "resources": []}
        memory = EventMemory(os.devnull, nothing, {})  # which keeps nothing
        jobs = Jobs(controller, settings, nothing, "", memory, lambda _line: None, CLOCK)
        template = jobs.check_template()
        jobs.find()
        jobs.check_permission()
    except (WrongValue, Declined, NotNow) as error:
        return Ending(FAILED, hide(str(error)))
    if template.fields.get("allow_simultaneous") is False:
        reason = "its jobs wait for one another, and the next event for the end of the one before"
        return Ending(FAILED, f'the job template {settings.job_template}: {reason}: turn on "Concurrent jobs"')
    return Ending(DONE, f"{settings.url} can launch the job template {settings.job_template} for an event")


def run(
    event: Mapping[str, Any],
    environment: Mapping[str, str],
    files: HookFiles,
    say: Callable[[str], None],
    clock: Clock = CLOCK,
    spread: Callable[[], float] = spread,
) -> Ending:
    """Have the job of an event launched, and follow it."""
    try:
        settings = load_controller(files.settings)
    except WrongValue as error:
        return Ending(FAILED, str(error))
    return ControllerHook(event, environment, files, settings, say=say, clock=clock, spread=spread).run()


def _cancelled(more: str) -> Ending:
    """Not a preparation that has succeeded: Azure can announce the event again before this VM recovers."""
    return Ending(NOTHING_PREPARED, f"the event is cancelled{more}")


def _epoch(text: Any) -> Optional[float]:
    moment = parse_not_before(text) if isinstance(text, str) else None
    return None if moment is None else moment.timestamp()
