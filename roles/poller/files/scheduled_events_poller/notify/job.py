# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one job of a preparation on a controller, however many VMs see the event in the same second.

Nothing but a label can be the lock: a launch is not idempotent, and the name of a label is unique in its organization.
An event of a type has the labels ``PREFIX.EVENT.TYPE.NOTBEFORE.1``, ``.2`` …, one for each attempt. NotBefore
distinguishes the announcements of an id. The VM that made the label of an attempt may launch with that label for
:func:`launch_within` seconds. The others look for the job by the labels. A VM that sees a label without a job for LEASE
seconds assumes that its launcher has ended, and creates the next label. LEASE is longer than a launch and its answer.
Each VM counts on its own clock, from when it saw the label first.

A launch that was refused leaves the label of its attempt with REFUSED at its end, so that no VM waits for the lease.

Not every job with such a label counts. If the effect of an earlier preparation of this VM was undone, no job counts
that existed before: the memory has the newest of them. As long as one of those runs, none is launched, so that VMs
which have to prepare again at the same time share the next job. A job from before the event was absent
does not count once it has ended. A job in check mode never counts. A job without the limit that an event needs never
counts, and is canceled.
"""

import contextlib
import json
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set, Tuple, Union

from _scheduled_events.clock import Clock
from _scheduled_events.rulebook import harmless
from _scheduled_events.runs import token_of
from _scheduled_events.text import excerpt, shown

from .controller import ApiObject, Controller
from .memory import LAUNCHED, EventMemory
from .request import Declined, NotNow, Rejected
from .settings import EVENT_VARIABLE, ControllerSettings, hosts_of, vms_of

PREFIX, REFUSED = "scheduled-event", ".refused"
LEASE, SPARE = 90.0, 10.0  # seconds; an answer takes 60 at most
BEFORE_LAUNCH = 3  # answers that a launcher needs: the label, and two looks
RUNNING, SUCCESSFUL = "running", "successful"
ENDED = (SUCCESSFUL, "failed", "error", "canceled")
RELAUNCH = "relaunch"  # how a job was launched that repeats another one, also for a part of its hosts
CHECK = "check"  # the type of a job in check mode, whose tasks change nothing
NO_SUCH_JOB = 404  # the status of the answer; for a job that the user of the token may not see, it is 403
MOST = 50  # jobs and labels of one event that are looked at, the newest of them
_PLAIN_TYPE = re.compile(r"[a-z0-9]{1,40}\Z")
_NOT_PLAIN = re.compile(r"[^0-9A-Za-z]")


class ControllerJob(NamedTuple):
    """A job of the event, as the controller shows it.

    ``counts``: it was launched for the present preparation, and for this VM. ``wrong``: what it did not take of its
    launch.
    """

    id: int
    status: str
    counts: bool = False
    wrong: str = ""

    @property
    def ended(self) -> bool:
        """Whether it does not run any more."""
        return self.status in ENDED

    @property
    def waits(self) -> bool:
        """Whether no task of it can have run yet."""
        return self.status != RUNNING and not self.ended


class _Attempt(NamedTuple):
    """An attempt of this VM: its label, and when this VM began to make it, by both clocks."""

    number: int
    label: int
    began: float
    began_wall: float


class Jobs:
    """Finds the job of a preparation, or launches it. Each request can fail with ``Declined`` or ``NotNow``.

    :param say: takes a line for the owner.
    :raises WrongValue: a VM of the event has no name in the inventory.
    """

    def __init__(
        self,
        controller: Controller,
        settings: ControllerSettings,
        event: Mapping[str, Any],
        vm_name: str,
        memory: EventMemory,
        say: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._controller = controller
        self._settings = settings
        self._event = event
        self._memory = memory
        self._say = say
        self._clock = clock
        names = vms_of(event)
        self._hosts = hosts_of(names, settings)
        mine = [host for name, host in zip(names, self._hosts) if name.lower() == vm_name.lower()]
        self._own_hosts = mine or self._hosts
        self._counting: List[int] = []  # the jobs that count, as they were found last
        self._counted = 0  # a job whose hosts the controller has counted
        # The beginning of the labels of the event, and of those of this announcement while it has its present type.
        self._of_event = f"{PREFIX}.{token_of(str(event['event_id']).lower())}."
        self._prefix = f"{self._of_event}{_plain_type(event)}.{_NOT_PLAIN.sub('', memory.not_before)[:40] or 'none'}."
        self._template: Optional[ApiObject] = None
        self._inventory: Optional[int] = None
        self._mine: Optional[_Attempt] = None
        self._seen: Dict[int, float] = {}  # attempts of others without a job: when this VM saw them first

    @property
    def took(self) -> float:
        """The seconds of the last answer to a GET."""
        return self._controller.took

    @property
    def launches(self) -> bool:
        """Whether the others wait for this VM to launch the job."""
        return self._mine is not None

    def find(self) -> Optional[ControllerJob]:
        """The job that counts: one that has not ended, else the newest, which may be a relaunch.

        In place of it, one that is wrong, or one that does not count, as long as that has not ended.
        """
        unknown = [name for name in ("after", "gone") if getattr(self._memory, name) is None]
        if unknown:
            self._memory.set(**dict.fromkeys(unknown, max((job.id for job in self._list_of_event()), default=0)))
        jobs = self._list(labels__name__startswith=self._prefix)
        self._counting = [job.id for job in jobs if job.counts]
        for job in jobs:
            if job.wrong or (job.counts and not job.ended):
                return job
        for job in self._list_of_event():
            if not job.ended:
                return job._replace(counts=False)
        return next((job for job in jobs if job.counts), None)

    def _list_of_event(self) -> List[ControllerJob]:
        return self._list(labels__name__startswith=self._of_event)

    def _list(self, **query: Union[str, int]) -> List[ControllerJob]:
        """The jobs with such labels, the newest first."""
        listed = self._controller.list("jobs/", order_by="-id", page_size=MOST, **query)
        jobs: List[ControllerJob] = []
        for fields in reversed([each for each in listed if isinstance(each.get("id"), int)]):
            job = ControllerJob(fields["id"], str(fields.get("status")))
            if job.id > (self._memory.after or 0) and not (job.ended and job.id <= (self._memory.gone or 0)):
                limit = fields.get("limit")
                hosts = _lower(limit.split(",")) if isinstance(limit, str) else set()
                # A job that repeats one of this VM may leave out the hosts on which that succeeded.
                is_part = fields.get("launch_type") == RELAUNCH and any(each.counts for each in jobs)
                wrong = [] if hosts & _lower(self._hosts) else ["limit"]
                wrong += [] if _has_event(fields.get("extra_vars")) else [EVENT_VARIABLE]
                is_real = not wrong and fields.get("job_type") != CHECK
                counts = is_real and (is_part or bool(hosts & _lower(self._own_hosts)))
                job = job._replace(counts=counts, wrong=", ".join(wrong))
            jobs.append(job)
        return jobs[::-1]

    def attempt(self, left: Callable[[], float]) -> None:
        """Launch the job, unless another VM launches it first. To be called again as long as there is no job.

        :param left: the seconds until this VM continues without a job; a launch must be answered before.
        """
        template = self.check_template()
        if self._mine is None:
            self._mine = self._next_attempt(template)
        if self._mine is None:
            return
        if self.find() is not None:  # a late one of the attempt before
            return
        if left() < self._settings.request_timeout:
            raise NotNow("there is no time left to launch the job and to see the answer", sent=False)
        # Last, so that slow answers count. Also by the clock on the wall: the other may stop with the VM, and the lease
        # goes on elsewhere.
        passed = max(self._clock.monotonic() - self._mine.began, self._clock.wall() - self._mine.began_wall)
        if passed > launch_within(self._settings.request_timeout):
            self._say(f"attempt {self._mine.number} to launch the job took too long: the next VM takes over")
            self._mine = None
        else:
            self._launch(self._mine, template)

    def check_template(self) -> ApiObject:
        """The job template.

        :raises Declined: it does not take what it is launched with.
        """
        if self._template is None:
            template = self._controller.find("job_templates", self._settings.job_template)
            if self._settings.inventory:
                self._inventory = self._controller.find("inventories", self._settings.inventory).id
            launch = self._controller.get(f"job_templates/{template.id}/launch/")
            problems = list(self._problems(template, launch))
            if problems:
                name = excerpt(str(template.fields.get("name")))
                raise Declined(f"the job template {name} cannot be launched for an event: {'; '.join(problems)}")
            self._template = template
        return self._template

    def check_permission(self) -> None:
        """Raise ``Declined`` unless the user of the token may make a label, and launch the template.

        No label is made, since it has no name.
        """
        template = self.check_template()
        with contextlib.suppress(Rejected):  # the controller looks at the permission first
            self._make_label("", template)
        if not _may_start(template):
            name = excerpt(str(template.fields.get("name")))
            raise Declined(f"the user of the token may not launch the job template {name}: give it the role Execute")

    def cancel(self, job: ControllerJob) -> None:
        """Have the controller cancel a job, unless it has ended meanwhile."""
        try:
            self._controller.post(f"jobs/{job.id}/cancel/", {})
        except Declined:
            if not self.has_ended(job.id):
                raise

    def has_ended(self, job_id: int) -> bool:
        """Whether a job has ended, or does not exist any more.

        :raises Declined: the user of the token may not see it now, so it may run.
        """
        try:
            return self._controller.get(f"jobs/{job_id}/").get("status") in ENDED
        except Declined as error:
            if error.status != NO_SUCH_JOB:
                raise
            return True

    def ran_here(self, job: ControllerJob) -> bool:
        """Whether a job that has succeeded, or one that it repeats in part, did something on this VM. Ansible leaves
        out an unknown host, skips tasks, and ends well.

        :raises NotNow: the controller has not counted its hosts yet.
        """
        own = ",".join(self._own_hosts)
        query: Dict[str, Union[str, int]] = {"host_name__in": own, "ok__gt": 0, "failed": "false", "page_size": 1}
        if any(self._controller.list(f"jobs/{each}/job_host_summaries/", **query) for each in self._counting):
            return True
        counted = self._counted == job.id  # before this look
        if self._controller.get(f"jobs/{job.id}/").get("event_processing_finished"):
            self._counted = job.id
        if not counted:
            raise NotNow(f"the controller has not counted the hosts of job {job.id} yet")
        return False

    def why(self, job: ControllerJob) -> Optional[str]:
        """The result of a job in addition to its status; ``None`` until the controller has counted its hosts."""
        fields = self._controller.get(f"jobs/{job.id}/")
        if not fields.get("event_processing_finished"):
            return None
        if job.status == "failed" and not fields.get("host_status_counts"):
            limit = excerpt(str(fields.get("limit")))
            return f"it ran on no host: expected hosts of its inventory that match the limit {limit}"
        return shown(str(fields.get("job_explanation") or ""))

    # Attempts

    def _attempts(self, template: ApiObject) -> Tuple[Set[int], Set[int]]:
        """The attempts that were begun, and those whose launch was refused."""
        query = {"name__startswith": self._prefix, "organization": template.fields["organization"]}
        labels = self._controller.list("labels/", order_by="-id", page_size=MOST, **query)
        names = [str(each.get("name"))[len(self._prefix) :] for each in labels]
        refused = [name[: -len(REFUSED)] for name in names if name.endswith(REFUSED)]
        return _numbers(names), _numbers(refused)

    def _is_over(self, attempt: int, refused: Set[int]) -> bool:
        if attempt in refused:
            if attempt in self._seen:
                raise Declined(f"the launch of attempt {attempt} was refused to another VM: see its status")
            return True
        jobs = self._list(labels__name=f"{self._prefix}{attempt}")
        if jobs:  # of an earlier preparation; one that counts is found next
            return not any(job.counts for job in jobs)
        # A lost launch counts from here, too, since it may have been carried out.
        seen = self._seen.setdefault(attempt, self._clock.monotonic())
        return self._clock.monotonic() - seen > LEASE

    def _next_attempt(self, template: ApiObject) -> Optional[_Attempt]:
        """The next attempt, if this VM is the one that makes it."""
        attempts, refused = self._attempts(template)
        newest = max(attempts | refused, default=0)
        if newest and not self._is_over(newest, refused):
            self._say(f"attempt {newest} to launch the job has begun, by another VM or before: waiting for its job")
            return None
        number, began, began_wall = newest + 1, self._clock.monotonic(), self._clock.wall()
        try:
            return _Attempt(number, self._make_label(f"{self._prefix}{number}", template), began, began_wall)
        except Rejected:
            if number in self._attempts(template)[0]:
                return None  # another VM was faster
            raise

    def _make_label(self, name: str, template: ApiObject) -> int:
        fields = {"name": name, "organization": template.fields["organization"]}
        label = self._controller.post("labels/", fields).get("id")
        if not isinstance(label, int):
            raise NotNow("the controller created a label, expected its id in the answer")
        return label

    def _launch(self, attempt: _Attempt, template: ApiObject) -> None:
        body: Dict[str, Any] = {
            "limit": ",".join(self._hosts),
            "labels": [attempt.label],
            "extra_vars": {**self._settings.extra_vars, EVENT_VARIABLE: harmless(self._event)},
        }
        if self._inventory is not None:
            body["inventory"] = self._inventory
        before = self._memory.running
        self._memory.set(running=LAUNCHED)
        try:
            launched = self._controller.post(f"job_templates/{template.id}/launch/", body)
            if not isinstance(launched.get("id"), int):  # as without a body, which may have been cut
                raise NotNow("the controller launched a job, expected its id in the answer")
        except Declined:
            self._memory.set(running=before)
            self._mine = None
            with contextlib.suppress(Declined, NotNow):  # then the others wait for the lease
                self._make_label(f"{self._prefix}{attempt.number}{REFUSED}", template)
            raise
        except NotNow as error:
            if error.sent:
                self._mine = None  # it may have been carried out: its job shows this, or the lease expires
            else:
                self._memory.set(running=before)
            raise
        self._mine = None
        self._say(f"job {launched['id']} is launched, limited to {', '.join(self._hosts)}")

    # The template

    def _problems(self, template: ApiObject, launch: Mapping[str, Any]) -> List[str]:
        problems = []
        asked = ["limit", "labels", "variables"] + (["inventory"] if self._inventory is not None else [])
        silent = [each for each in asked if not launch.get(f"ask_{each}_on_launch")]
        if silent:
            problems.append(f'it does not ask for {" and ".join(silent)}: turn on "Prompt on launch" for that')
        given = {EVENT_VARIABLE, *self._settings.extra_vars}
        needed = launch.get("variables_needed_to_start")
        missing = [str(each) for each in needed if str(each) not in given] if isinstance(needed, list) else []
        if missing:
            problems.append(
                f"its survey needs {shown(', '.join(missing))}: add it to poller_controller.extra_vars, or give it a "
                f"default"
            )
        if launch.get("passwords_needed_to_start"):
            problems.append("a credential asks for a password: keep the password in the credential")
        if launch.get("inventory_needed_to_start") and self._inventory is None:
            problems.append("it has no inventory: give it one, or set poller_controller.inventory")
        if not isinstance(template.fields.get("organization"), int):
            problems.append("its project has no organization, which a label needs: give the project one")
        if template.fields.get("job_type") == CHECK:
            problems.append("its job type is check, which prepares nothing: set it to run")
        slices = template.fields.get("job_slice_count")
        if isinstance(slices, int) and slices > 1:
            problems.append(f"it has {slices} slices, which split the VMs of an event: set job_slice_count to 1")
        return problems


def _may_start(template: ApiObject) -> bool:
    """Whether the user of the token may launch the job template, as far as the controller shows that."""
    summary = template.fields.get("summary_fields")
    capabilities = summary.get("user_capabilities") if isinstance(summary, dict) else None
    return not isinstance(capabilities, dict) or capabilities.get("start") is not False


def launch_within(request_timeout: float) -> float:
    """Seconds for which a label may be used: all that a slow controller needs, if the lease leaves that much."""
    return min(max(20.0, BEFORE_LAUNCH * request_timeout), LEASE - SPARE - request_timeout)


def _numbers(texts: Iterable[str]) -> Set[int]:
    """Those texts that are numbers. Python refuses to read one of thousands of digits."""
    return {int(text) for text in texts if re.match(r"[0-9]{1,18}\Z", text)}


def _lower(hosts: Iterable[str]) -> Set[str]:
    return {host.lower() for host in hosts if host}


def _plain_type(event: Mapping[str, Any]) -> str:
    kind = str(event.get("event_type") or "none").lower()
    return kind if _PLAIN_TYPE.match(kind) else token_of(kind)


def _has_event(variables: Any) -> bool:
    """Whether the extra variables of a job, as the controller shows them, hold the event, or cannot be read."""
    if not isinstance(variables, str):
        return True
    try:
        decoded = json.loads(variables)
    except (ValueError, RecursionError):
        return True
    return not isinstance(decoded, dict) or EVENT_VARIABLE in decoded
