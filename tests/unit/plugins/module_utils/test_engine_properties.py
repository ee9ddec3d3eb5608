# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must always hold, whatever the service, the hooks, the clock, the operator and the power do.

A model of the world plays the service, the disk, the root side and the operator. The engine is driven as the poller
drives it: results are read, the state is made durable, then actions are carried out one by one, and anything may end
between any two of them. The model keeps its own record of what happened on the VM, and compares the engine's actions
with that record, not with the engine's state.
The number of examples follows the profile of the tier: see tests/unit/conftest.py.
"""

import datetime
import json

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis runs on newer Pythons only")

from _scheduled_events import condition, engine, history, hook_runs, lost_state, policies, terms, transitions  # noqa: E402
from _scheduled_events import rules as decisions  # noqa: E402
from _scheduled_events.clock import Moment  # noqa: E402
from _scheduled_events.document import format_time, parse, parse_not_before  # noqa: E402
from _scheduled_events.state import State, dump  # noqa: E402
from _scheduled_events.state import parse as parse_state  # noqa: E402
from hypothesis import HealthCheck, Phase, seed, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.stateful import (  # noqa: E402
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

EXAMPLES = 5 * settings.default.max_examples
STEPS = 60
PART = min(500, EXAMPLES)  # examples at once: Hypothesis remembers all of them, about 200 kB each
LEAST_STEPS = 50 * EXAMPLES

VM = "vm1"
IDS = [f"AAAAAAAA-0000-0000-0000-00000000000{number}" for number in range(3)]
START = 1000000000.0
TIMEOUT, MARGIN = 100.0, 20.0

GRACES = (0.0, 60.0, 900.0)

MINE_ALONE, MINE_LED, MINE_AMONG, OTHERS, NOBODY = ["VM1"], ["vm1", "vm10"], ["vm10", "vm1"], ["vm10"], []
KINDS = ["Freeze", "Reboot", "Redeploy", "Preempt", "Other"]
SHORT_FREEZE = {"event_types": ["Freeze"], "min_duration": 0, "max_duration": 8}
RULES = {
    "short freezes": decisions.parse_rules([{**SHORT_FREEZE, "action": "approve"}]),
    "none": (),
    "hold reboots": decisions.parse_rules([{"event_types": ["Reboot"], "action": "hold"}]),
    "ignore freezes": decisions.parse_rules([{"event_types": ["Freeze"], "action": "ignore"}]),
    "approve redeploys": decisions.parse_rules([{"event_types": ["Redeploy"], "action": "approve"}]),
    "lead time of 300 s": decisions.parse_rules([{"action": "prepare", "lead_time": 300}]),
    "lead time of 1 s": decisions.parse_rules([{"action": "prepare", "lead_time": "1"}]),
    "windows": decisions.parse_rules(
        [{"action": "prepare", "windows": [{"from": "02:00", "to": "02:20"}, {"from": "03:00", "to": "03:05"}]}]
    ),
    "held, with a window": decisions.parse_rules(
        [{"action": "hold", "lead_time": 200, "windows": [{"from": "02:00", "to": "02:20"}]}]
    ),
}
# By the names above: the lead time, and the windows in seconds of the day.
LATE = {
    "lead time of 300 s": (300.0, ()),
    "lead time of 1 s": (1.0, ()),
    "windows": (None, ((7200, 8400), (10800, 11100))),
    "held, with a window": (200.0, ((7200, 8400),)),
}
USUAL = (0.0, 30.0)
PHASES = ("prepare", "started", "recover", "advised", "failed")
BESIDE = ("advised", "failed")
CONFIGURED, MISSING, UNCONFIGURED = "configured", "missing", "unconfigured"

steps_taken = []


def _last_moment(not_before, now):
    """When hooks that begin now have to end; a short notice leaves them as much as the margin."""
    if not_before <= now:
        return None
    return not_before - MARGIN if not_before - now > 2 * MARGIN else min(not_before, now + MARGIN)


def _find(document, key):
    return next((event for event in document.events if event.key == key), None) if document else None


class Job:
    """What happened to one request for hooks. Times are those of ``World.happenings``."""

    def __init__(self, action, *, boot, asked, on_failure):
        self.first = self.last = action  # as the engine asked first and last
        self.key, self.phase = action.event["event_id"].lower(), action.phase
        self.asked_last_at = None  # by the clock
        self.boot = boot
        self.process = None  # of the poller, that asked last with success
        self.asked = asked
        self.on_failure = on_failure
        self.reached_root = self.may_have_reached_root = False
        self.kinds = {action.event["event_type"]}
        self.received = None  # by root, as asked last
        self.waiting = False  # in the spool, root has not looked yet
        self.began = self.ended = None  # of the processes
        self.began_at = None  # monotonic
        self.kind = None  # the type of event that the processes read
        self.preparation = ""  # what the engine knew of when it asked, before root may have received the request
        self.can_prepare = False  # whether there was a hook that prepares the VM when the processes began
        self.killed = False  # by a power cut
        self.lost = False  # with the state
        self.will_report = True
        self.result = None  # in the directory of results
        self.outcome = None  # that the engine was given
        self.known = None  # when the engine learnt that it was over
        self.absent = False  # whether a document lacked its event before that, or after it prepared nothing

    @property
    def alive(self):
        return self.began is not None and self.ended is None


class Attempt:
    """One attempt to acknowledge, as the thread of the poller makes it: read, compare, send."""

    def __init__(self, actions, config):
        self.actions, self.config = actions, config
        self.wanted = True
        self.fresh = None


class World(RuleBasedStateMachine):
    """The service, the disk, root, the operator and the power switch around one engine."""

    def __init__(self):
        super().__init__()
        self.wall, self.monotonic, self.boots, self.processes = START, 5000.0, 1, 1
        self.happenings = 0
        self.azure = {}  # EventId: fields
        self.incarnation = 1
        self.documents = []  # all that there ever were
        self.last_document = None  # that this process read
        self.acknowledged = set()  # keys, as the service knows, and as far as documents show
        self.answers = []  # of the service to the next acknowledgements, the last first
        self.jobs = {}  # request id: Job, in order
        self.spool_full = self.root_sleeps = self.service_is_slow = False
        self.pending = []  # actions decided, not carried out
        self.results = []  # for the next step, besides those of hooks
        self.old_results = []  # of hooks, given to the engine before
        self.attempt = None
        self.accepted = set()  # keys, as far as the engine knows
        self.not_before_pause = {}  # key: monotonic seconds before which this process must not try again
        self.failures = []  # key, phase and reason, as the engine learnt them
        self.debts = set()  # keys for which a recovery is owed
        self.started = {}  # key: when a document that the engine took in said so
        self.perhaps_started = set()  # keys for which one said so while a recovery was asked for
        self.cleared, self.retried, self.forgotten, self.announced = {}, {}, {}, {}  # key: when
        self.renewed = {}  # key: when its recovery was asked for last, after which it may be a new event
        self.in_history = set()  # keys of the events that are announced and not over, by the facts
        self.facts = []
        self.hurried = set()  # keys of events that waited for a moment when the operator wanted them now
        self.lost_at = 0  # when the state was lost the last time
        self.polls_in_a_row = 0
        self.whole = True  # no check has failed yet

    @initialize(
        hooks=st.sampled_from([(), (), ("prepare",), ("recover",), ("failed",), PHASES]),
        on_failure=st.sampled_from(["hold", "hold", "approve"]),
        acknowledge=st.sampled_from(["alone", "alone", "leader", "any", "never", "controller"]),
        grace=st.sampled_from(GRACES),
        rules=st.sampled_from(sorted(RULES)),
        preparation=st.sampled_from(["drain", "drain", "drain", ""]),
        usual=st.sampled_from(USUAL),
    )
    def begin(self, hooks, on_failure, acknowledge, grace, rules, preparation, usual):
        self.usual = usual
        self.preparation = self.ever_prepared = preparation  # the names of the prepare hooks
        self.hooks = {phase: UNCONFIGURED if phase in hooks else CONFIGURED for phase in PHASES}
        self.ever_configured = {phase for phase in PHASES if self.hooks[phase] == CONFIGURED}
        self.failed_always_configured = "failed" in self.ever_configured
        self._configure(on_failure, acknowledge, grace, rules)
        self.state = State(serial=1)
        self.disk = dump(self.state)
        self._announce()

    def _configure(self, on_failure, acknowledge, grace, rules):
        self.late = LATE.get(rules, (None, ()))
        self.options = {
            "on_failure": on_failure,
            "acknowledge": acknowledge,
            "controller_grace": grace,
            "rules": RULES[rules],
        }

    def _happens(self):
        self.happenings += 1
        return self.happenings

    def _config(self):
        return terms.Config(
            vm_name=VM,
            hooks=frozenset(phase for phase, how in self.hooks.items() if how != UNCONFIGURED),
            hook_timeout=TIMEOUT,
            margin=MARGIN,
            missing={phase: ("10-x",) for phase, how in self.hooks.items() if how == MISSING},
            preparation=self.preparation,
            usual=self.usual,
            **self.options,
        )

    def _available(self, phase):
        return self.hooks[phase] == CONFIGURED

    def _action(self, event):
        return decisions.decide(event, self.options["rules"])

    # The service

    def _announce(self):
        self.incarnation += 1
        document = {"DocumentIncarnation": self.incarnation, "Events": list(self.azure.values())}
        self.documents.append(parse(json.dumps(document), api_version="2020-07-01"))

    def _change(self, event_id, **fields):
        if event_id in self.azure:
            self.azure[event_id] = dict(self.azure[event_id], **fields)
            self._announce()

    def _not_before(self, notice):
        if not isinstance(notice, int):
            return notice
        return format_time(datetime.datetime.fromtimestamp(int(self.wall) + notice, datetime.timezone.utc))

    @rule(
        event_id=st.sampled_from(IDS),
        kind=st.sampled_from(KINDS),
        status=st.sampled_from([*["Scheduled"] * 5, "Started", "Advisory", None]),
        resources=st.sampled_from([MINE_ALONE, MINE_ALONE, MINE_ALONE, MINE_LED, MINE_AMONG, OTHERS, NOBODY]),
        notice=st.sampled_from([None, "soon", "", 5, 30, 60, 900, 7200]),
        duration=st.sampled_from([None, -1, 0, 5, 9]),
    )
    def service_announces(self, event_id, kind, status, resources, notice, duration):
        if event_id in self.azure:
            return
        self.azure[event_id] = {
            "EventId": event_id,
            "EventType": kind,
            "EventStatus": status,
            "Resources": resources,
            "NotBefore": self._not_before(notice),
            "DurationInSeconds": duration,
        }
        self._announce()

    @rule(event_id=st.sampled_from(IDS))
    def service_starts(self, event_id):
        self._change(event_id, EventStatus="Started", NotBefore="")

    @rule(event_id=st.sampled_from(IDS), status=st.sampled_from(["Scheduled", "Advisory", "Paused", None]))
    def service_changes_the_status(self, event_id, status):
        self._change(event_id, EventStatus=status)

    @rule(event_id=st.sampled_from(IDS))
    def service_removes(self, event_id):
        if self.azure.pop(event_id, None) is not None:
            self._announce()

    @rule(event_id=st.sampled_from(IDS), resources=st.sampled_from([MINE_ALONE, MINE_AMONG, OTHERS, NOBODY]))
    def service_names_other_vms(self, event_id, resources):
        self._change(event_id, Resources=resources)

    @rule(event_id=st.sampled_from(IDS), notice=st.sampled_from([None, "soon", 5, 60, 900, 7200]))
    def service_moves_not_before(self, event_id, notice):
        self._change(event_id, NotBefore=self._not_before(notice))

    @rule(event_id=st.sampled_from(IDS), kind=st.sampled_from(KINDS), duration=st.sampled_from([None, 5, 9]))
    def service_changes_the_type(self, event_id, kind, duration):
        self._change(event_id, EventType=kind, DurationInSeconds=duration)

    @rule(present=st.booleans())
    def service_shows_an_event_without_an_id(self, present):
        self.azure.pop("", None)
        if present:
            self.azure[""] = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": MINE_ALONE}
        self._announce()

    @rule()
    def service_removes_all(self):
        self.azure = {}
        self._announce()
        self._step(self.documents[-1])

    @rule(reboot=st.booleans(), wait=st.booleans())
    def all_events_are_gone_for_a_moment(self, reboot, wait):
        before, self.azure = self.azure, {}
        self._announce()
        self._step(self.documents[-1])
        if wait:
            self._carry_out_all()
        if reboot:
            self._cut_the_power(5.0)
        self.azure = before
        self._announce()

    @rule(event_id=st.sampled_from(IDS), kind=st.sampled_from(KINDS), duration=st.sampled_from([5, 9]))
    def one_event_follows_another(self, event_id, kind, duration):
        self.azure = {}
        self._announce()
        self._step(self.documents[-1])
        self.service_announces(event_id, kind, "Scheduled", MINE_ALONE, 900, duration)
        self._step(self.documents[-1])

    # The poller

    @rule()
    def poll(self):
        self._step(self.documents[-1])

    @rule()
    def poll_until_hooks_have_ended(self):
        self._step(self.documents[-1])
        self._carry_out_all()
        self._end_all_hooks()
        self._step(self.documents[-1])

    @rule(back=st.integers(1, 4))
    def poll_brings_an_old_document(self, back):
        self._step(self.documents[max(0, len(self.documents) - 1 - back)])

    @rule()
    def poll_fails(self):
        before = self._announced()
        self._step(None)
        self._check_4_a_failed_poll_changes_nothing(before, self._announced())

    def _announced(self):
        """The service as the engine knows it. After an event is over, a lost recovery may end the impact."""
        return {
            key: (entry.event, entry.present, entry.present and entry.impact)
            for key, entry in self.state.events.items()
        }

    @rule()
    def poll_while_the_disk_is_full(self):
        self._carry_out_all()
        engine.step(self.state, self.documents[-1], self._hook_results() + self.results, self._now(), self._config())

    def _now(self):
        return Moment(self.wall, self.monotonic, f"boot {self.boots}")

    def _hook_results(self):
        running = {
            run.request_id
            for entry in self.state.events.values()
            for run in entry.runs.values()
            if run.outcome == "running"
        }
        return [job.result for name, job in self.jobs.items() if job.result and name in running]

    def _step(self, document):
        self.whole = False
        self._take_step(document)
        self.whole = True

    def _take_step(self, document):
        steps_taken.append(1)
        began = self._happens()
        self._carry_out_all()
        config = self._config()
        results = self._hook_results()
        self.old_results += results
        results += self.results
        self.results = []
        before = self.state
        self.state, actions = engine.step(before, document, results, self._now(), config)
        self._persist()
        self._check_the_history_holds_what_is_announced(
            transitions.Step(before, self.state, actions, self._now(), config)
        )
        if before.withheld and self.state.withheld:
            assert not any(isinstance(action, terms.Approve) for action in actions), "acknowledged without a memory"
        self._note_results(results, before)
        for action in actions:
            if isinstance(action, terms.Report) and action.kind == terms.ReportKind.CLEARED:
                self._note_clearing(action.key)
        self._note_document(document)
        self._note_silence(began)
        for key in set(before.events) - set(self.state.events):
            self._note_end(key)
        self.pending = [action for action in actions if isinstance(action, terms.RunHooks)]
        for action in self.pending:
            self._note_request(action)
        approvals = [action for action in actions if isinstance(action, terms.Approve)]
        for action in approvals:
            self._check_15_acknowledged_at_a_chosen_moment(action)
            self._check_1_a_controller_has_its_time(action)
            self._check_1_every_hook_has_run(action)
        self._check_10_what_is_owed_is_remembered()
        for key in self.state.events:
            condition.condition(self.state, key, config)
        if document is not None:
            self._check_5_no_event_waits_for_another(document)
            self._check_8_what_a_rule_approves_is_acknowledged_at_once(document, approvals, began)
            self._check_6_a_moved_not_before_reached_the_hooks()
        self._offer(approvals, config)

    def _persist(self):
        text = dump(self.state)
        assert parse_state(text) == self.state, "the file does not hold the whole state"
        self.disk = text

    def _note_results(self, results, before):
        for result in results:
            if isinstance(result, terms.ApprovalResult):
                self._note_approval(result, before)
            elif isinstance(result, terms.HookResult):
                job = self.jobs[result.request_id]
                if job.known is None:
                    self._note_outcome(job, result.outcome)
                    if job.phase != "failed" and result.outcome in ("failed", "timeout"):
                        self.failures.append((job.key, job.phase, result.reason))
            elif isinstance(result, terms.Clear) and not result.key and before.lost:
                self.cleared[""] = self._happens()
            elif isinstance(result, terms.Retry):
                self.retried[result.key] = self._happens()
                if result.key in before.events and before.events[result.key].waits_until is not None:
                    self.hurried.add(result.key)

    def _note_clearing(self, key):
        self.cleared[key] = self._happens()
        if key in self.debts:
            announced = self.last_document.events if self.last_document else ()
            # An event announced again while its recovery ran is a new event. The clearing is for the previous event.
            again = any(job.phase == "recover" for job in self._jobs_of(key))
            named = {event.key for event in announced if event.affects(VM)}
            assert again or key not in named, "cleared what is announced"
            assert not any(self._may_run(job) for job in self._jobs_of(key)), "cleared an event while its hooks run"
            self.debts.discard(key)
        self._note_end(key)

    def _jobs_of(self, key):
        return [job for job in self.jobs.values() if job.key == key and job.phase not in BESIDE]

    def _may_run(self, job):
        """Whether its hooks run, or will when root looks."""
        return job.alive or (job.waiting and self.monotonic < job.received.ends_at)

    def _note_outcome(self, job, outcome):
        job.outcome, job.known = outcome, self._happens()
        if job.phase == "recover":
            self.accepted.discard(job.key)
            self.perhaps_started.discard(job.key)
            if outcome == "ok":
                self.debts.discard(job.key)

    def _note_silence(self, began):
        for job in self.jobs.values():
            if job.known is None and self.monotonic >= job.last.ends_at + hook_runs.SILENCE:
                if job.process == self.processes:
                    self._note_outcome(job, "timeout")
                elif job.may_have_reached_root:  # it is unknown whether the job ran
                    self._note_outcome(job, None)
            if job.phase == "recover" and job.known is not None and job.known > began:
                self.not_before_pause.pop(job.key, None)  # should the event be announced again, it is a new one

    def _note_approval(self, result, before):
        if result.key not in before.events:
            return
        if result.accepted:
            self.accepted.add(result.key)
        elif result.key not in self.accepted:
            self.not_before_pause[result.key] = self.monotonic + hook_runs.FIRST_PAUSE

    def _note_document(self, document):
        if document is None:
            return
        self.last_document = document
        self.polls_in_a_row += 1
        named = [event for event in document.events if event.affects(VM)]
        keys = {event.key for event in named}
        self.accepted &= keys  # what is announced again later is acknowledged again
        self.acknowledged &= keys  # and has to be, if a document shows that it was gone
        for job in self.jobs.values():
            job.absent |= (job.known is None or job.outcome == "nothing") and job.key not in keys
        for event in named:
            self.announced[event.key] = self._happens()
            if event.key in self.state.events and event.event_status == "Started":
                recoveries = [job for job in self.jobs.values() if job.key == event.key and job.phase == "recover"]
                if all(job.known is not None for job in recoveries):
                    self.started[event.key] = self._happens()
                else:  # the engine takes it for the old event or for a new one, as it has asked root or not
                    self.perhaps_started.add(event.key)

    def _note_end(self, key):
        self.forgotten[key] = self._happens()
        self.hurried.discard(key)
        self.accepted.discard(key)
        self.started.pop(key, None)
        self.perhaps_started.discard(key)
        self.not_before_pause.pop(key, None)

    def _note_request(self, action):
        job = self.jobs.get(action.request_id)
        if job is not None and action[3:7] != job.last[3:7]:
            job.asked_last_at = self.wall
        if job is None:
            job = Job(action, boot=self.boots, asked=self._happens(), on_failure=self.options["on_failure"])
            self._check_6_deadline(action)
            self._check_what_may_begin(job)
            job.asked_last_at, job.preparation = self.wall, self.preparation
            self.jobs[action.request_id] = job
            if action.phase in ("prepare", "started") and self.hooks["recover"] != UNCONFIGURED:
                self.debts.add(job.key)
            return
        assert (action.event["event_id"].lower(), action.phase) == (job.key, job.phase)
        if job.may_have_reached_root:
            assert action.ends_at == job.last.ends_at, "hooks that may run get more time"
            self._check_6_revised_deadline(job.last, action)
        else:
            self._check_6_deadline(action)
            self._check_what_may_begin(job)
            job.preparation = self.preparation
        job.last = action
        job.kinds.add(action.event["event_type"])

    # Carrying out

    @precondition(lambda self: self.pending)
    @rule()
    def one_action_is_carried_out(self):
        self._carry_out(self.pending.pop(0))

    def _carry_out_all(self):
        while self.pending:
            self._carry_out(self.pending.pop(0))

    def _carry_out(self, action):
        job = self.jobs[action.request_id]
        job.process = None if self.spool_full else self.processes
        if self.spool_full:
            self.results.append(terms.NotAsked(action.request_id, "the spool is full"))
            return
        job.received = action
        self._may_reach_root(job)
        if not job.reached_root:
            job.reached_root = job.waiting = True
        if not self.root_sleeps:
            self._root_looks()

    def _may_reach_root(self, job):
        job.may_have_reached_root = True
        if job.phase == "recover":  # should the event be announced again, it is a new one
            self.started.pop(job.key, None)

    # The root side

    def _root_looks(self):
        for job in self.jobs.values():
            if job.waiting:
                job.waiting = False
                self._root_starts(job)

    def _root_starts(self, job):
        if self.monotonic >= job.received.ends_at:
            self._reports(job, "timeout")
        elif not self._available(job.phase):
            self._reports(job, "failed")
        else:
            if job.phase not in BESIDE:
                assert not any(each.alive and not each.lost for each in self._jobs_of(job.key)), (
                    "two phases of one event at once"
                )
            job.began, job.began_at = self._happens(), self.monotonic
            job.kind = job.received.event["event_type"]
            job.can_prepare = bool(self.preparation)

    def _reports(self, job, outcome):
        job.result = terms.HookResult(job.first.request_id, outcome, f"reason {self._happens()}")

    def _end_hooks(self, job, outcome):
        job.ended = self._happens()
        if outcome == "ok" and job.phase == "prepare" and not job.can_prepare:
            outcome = "nothing"
        if job.will_report:
            self._reports(job, outcome)

    def _end_all_hooks(self):
        for job in self.jobs.values():
            if job.alive:
                self._end_hooks(job, "ok")

    @rule(full=st.booleans())
    def spool_is_full(self, full):
        self.spool_full = full

    @rule(sleeps=st.booleans())
    def root_side_is_slow(self, sleeps):
        self.root_sleeps = sleeps
        if not sleeps:
            self._root_looks()

    @rule(phase=st.sampled_from(PHASES), how=st.sampled_from([CONFIGURED, MISSING, UNCONFIGURED]))
    def hooks_change(self, phase, how):
        self._carry_out_all()
        self.hooks[phase] = how
        if how == UNCONFIGURED and phase == "failed":
            self.failed_always_configured = False
        if how != UNCONFIGURED:
            self.ever_configured.add(phase)

    @rule(preparation=st.sampled_from(["drain", "drain/notify", ""]))
    def prepare_hooks_change(self, preparation):
        self._carry_out_all()
        self.preparation = preparation
        self.ever_prepared = preparation or self.ever_prepared

    @precondition(lambda self: any(job.alive for job in self.jobs.values()))
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["ok", "ok", "ok", "nothing", "failed", "timeout"]),
        at_once=st.booleans(),
    )
    def hooks_end(self, data, outcome, at_once):
        alive = [name for name, job in self.jobs.items() if job.alive]
        job = self.jobs[data.draw(st.sampled_from(alive))]
        self._end_hooks(job, "ok" if outcome == "nothing" and job.phase != "prepare" else outcome)
        if at_once:
            self._step(None)

    @precondition(lambda self: any(job.alive for job in self.jobs.values()))
    @rule(data=st.data(), dead=st.booleans())
    def runner_is_lost(self, data, dead):
        """It leaves no result. Its hooks die with it, or go on until the last moment that they have."""
        alive = [name for name, job in self.jobs.items() if job.alive]
        job = self.jobs[data.draw(st.sampled_from(alive))]
        job.will_report = False
        if dead:
            self._end_hooks(job, "")

    @rule()
    def old_results_come_again(self):
        self.results += self.old_results
        self._step(None)

    # Acknowledging

    def _offer(self, approvals, config):
        if self.attempt and not all(action in approvals for action in self.attempt.actions):
            self.attempt.wanted = False
        if self.attempt or not approvals:
            return
        together = [action for action in approvals if not action.alone]
        self.attempt = Attempt(together or approvals[:1], config)
        for action in self.attempt.actions:
            assert self.monotonic >= self.not_before_pause.get(action.key, 0), "acknowledging hammers the service"
            assert action.key not in self.accepted, "acknowledged again what was accepted"
        if not self.service_is_slow:
            self._finish_attempt()

    def _finish_attempt(self):
        while self.attempt:
            self._go_on_with_attempt()

    def _go_on_with_attempt(self):
        if self.attempt.fresh is None:
            self.attempt.fresh = self.documents[-1]
            return
        attempt, self.attempt = self.attempt, None
        agreed = []
        for action in attempt.actions:
            event = _find(attempt.fresh, action.key)
            if attempt.wanted and event is not None and policies.still_agrees(action, event, attempt.config):
                agreed.append((action, event))
            else:
                self.results.append(terms.ApprovalResult(action.key, accepted=False, error="not any more"))
        if agreed:
            self._post(agreed)

    def _post(self, agreed):
        whole, self.whole = self.whole, False
        for action, event in agreed:
            self._check_1_nothing_is_acknowledged_unprepared(action, event)
        self.whole = whole
        answer = self.answers.pop() if self.answers else "accepted"
        for action, _event in agreed:
            if answer in ("accepted", "unknown"):
                self.acknowledged.add(action.key)
            if answer == "accepted":
                self.results.append(terms.ApprovalResult(action.key, accepted=True))
            else:
                refused = answer == "refused"
                self.results.append(terms.ApprovalResult(action.key, accepted=False, error=answer, refused=refused))

    @rule(answers=st.lists(st.sampled_from(["accepted", "refused", "unavailable", "unknown"]), min_size=1, max_size=4))
    def service_will_answer_acknowledgements_with(self, answers):
        self.answers = answers

    @rule(slow=st.booleans())
    def service_answers_acknowledgements_slowly(self, slow):
        self.service_is_slow = slow

    @precondition(lambda self: self.attempt)
    @rule()
    def attempt_goes_on(self):
        self._go_on_with_attempt()

    @rule(event_id=st.sampled_from(IDS), kind=st.sampled_from(KINDS), duration=st.sampled_from([None, 5, 9]))
    def document_changes_while_an_attempt_is_under_way(self, event_id, kind, duration):
        slow, self.service_is_slow = self.service_is_slow, True
        self._step(self.documents[-1])
        self.service_is_slow = slow
        self.service_changes_the_type(event_id, kind, duration)
        self._finish_attempt()

    # The owner and the operator

    @rule(
        rules=st.sampled_from(sorted(RULES)),
        acknowledge=st.sampled_from(["alone", "any", "never", "controller"]),
        grace=st.sampled_from(GRACES),
        on_failure=st.sampled_from(["hold", "approve"]),
    )
    def owner_changes_the_configuration(self, rules, acknowledge, grace, on_failure):
        self._carry_out_all()
        if self.attempt:
            self.attempt.wanted = False
        self._configure(on_failure, acknowledge, grace, rules)

    @rule(event_id=st.sampled_from(IDS))
    def operator_retries(self, event_id):
        self.results.append(terms.Retry(event_id.lower()))

    @rule(event_id=st.sampled_from([*IDS, ""]))
    def operator_clears(self, event_id):
        self._operator_looks_at_the_vm(event_id.lower())
        self.results.append(terms.Clear(event_id.lower()))

    def _operator_looks_at_the_vm(self, key):
        """An operator who clears an event, or all, has ended what the lost state had asked for."""
        for job in self.jobs.values():
            if job.lost and key in ("", job.key):
                job.waiting = False
                if job.alive:
                    self._end_hooks(job, "ok")

    # Time, crashes, power

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 30.0, 200.0, 700.0]))
    def time_passes(self, seconds):
        self._carry_out_all()  # which takes no time, unless the poller crashes
        self._pass(seconds)

    def _pass(self, seconds):
        self.wall += seconds
        self.monotonic += seconds
        for job in self.jobs.values():
            if not job.alive:
                continue
            asked = job.received
            late = asked.not_later_than is not None and self.wall >= asked.not_later_than and job.will_report
            if late or self.monotonic >= min(asked.ends_at, job.began_at + asked.timeout):
                self._end_hooks(job, "timeout")
        if seconds > 1:
            self._root_looks()

    @rule(seconds=st.sampled_from([-86400.0, -3600.0, -60.0, 60.0, 3600.0, 86400.0]))
    def clock_jumps(self, seconds):
        self.wall += seconds
        self._pass(0.0)  # the runner looks at the clock each second

    @rule()
    def poller_crashes(self):
        untold = [each for each in self.results if isinstance(each, terms.NotAsked)]
        for each in self.pending + untold:
            self._may_reach_root(self.jobs[each.request_id])  # for all that the next process knows
        self.pending, self.results, self.attempt = [], [], None
        self.last_document = None
        self.processes += 1
        self.not_before_pause = {}
        self.polls_in_a_row = 0
        self.state = engine.resume(parse_state(self.disk))

    @rule(downtime=st.sampled_from([5.0, 200.0]))
    def poller_is_down(self, downtime):
        self.poller_crashes()
        self._pass(downtime)

    @rule(reboot=st.booleans(), readable=st.sampled_from([True, True, False]))
    def state_is_lost(self, reboot, readable):
        """Damaged while the poller does not run. What it had decided was not carried out, and not written down."""
        self._carry_out_all()
        if reboot:
            self._cut_the_power(5.0)
        self.poller_crashes()
        unread = "" if readable else "1 line left out"
        facts = self.facts if readable else []
        self.state = lost_state.state_from(facts, now=self._now(), hook_timeout=TIMEOUT, unread=unread)
        self.wall += 1.0  # a number of a run takes a millisecond, and no number comes again
        self.disk = dump(self.state)
        self.lost_at = self._happens()
        # What ran for an event before is not undone, so the VM does not go back into service for its moment.
        self.hurried = {key for key, entry in self.state.events.items() if entry.ran}
        if readable:
            self._check_10_what_is_owed_survives_the_loss()
        self.debts &= set(self.state.events)
        self.accepted, self.perhaps_started, self.started, self.in_history = set(), set(), {}, set()
        told = {(job.key, job.first.failed_phase, job.first.failure) for job in self.jobs.values()}
        self.failures = [failure for failure in self.failures if failure in told]
        adopted = set()
        for key, entry in self.state.events.items():
            self.failures += [(key, failure.phase, failure.reason) for failure in entry.failures]
            adopted.add(entry.runs["recover"].request_id)
        for name, job in self.jobs.items():
            if name in adopted:
                self._may_reach_root(job)  # for all that its history says
                if job.lost:  # by an earlier loss, whose history could not be read
                    job.lost, job.known = False, None
                job.process, job.last = self.processes, job.last._replace(ends_at=self.monotonic + TIMEOUT)
            else:
                job.lost = True
                job.known = job.known or self._happens()

    @rule(with_document=st.booleans())
    def poller_crashes_before_its_state_is_kept(self, with_document):
        self._carry_out_all()
        document = self.documents[-1] if with_document else None
        engine.step(self.state, document, self._hook_results() + self.results, self._now(), self._config())
        self.poller_crashes()

    @rule(downtime=st.sampled_from([5.0, 300.0]))
    def vm_reboots(self, downtime):
        self._cut_the_power(downtime)

    def _cut_the_power(self, downtime):
        for job in self.jobs.values():
            if job.alive:
                job.ended, job.killed = self._happens(), True
            job.waiting = False
            job.result = None  # /run is empty afterwards
        self.old_results = []
        self.poller_crashes()
        self.boots += 1
        self.wall += downtime
        self.monotonic = 10.0
        for job in self.jobs.values():
            if job.known is None:
                job.known = self._happens()
                if job.phase == "recover":  # should its event be announced again, all of it begins again
                    self.accepted.discard(job.key)

    # What must hold

    def _check_1_nothing_is_acknowledged_unprepared(self, action, event):
        names = {name.lower() for name in event.resources}
        assert VM in names, "acknowledged an event of others"
        acknowledge = self.options["acknowledge"]
        assert acknowledge != "never", "acknowledged although the owner said never"
        assert acknowledge != "alone" or names == {VM}, "acknowledged for others too"
        assert acknowledge != "leader" or event.resources[0].lower() == VM, "acknowledged without being the leader"
        assert event.event_status == "Scheduled", "acknowledged what is not Scheduled"
        assert event.key not in self.started, "acknowledged what has been Started"
        decision = self._action(event)
        assert decision in ("prepare", "approve"), "acknowledged although a rule says " + decision
        assert (decision, event.event_type) == (action.decision, action.event_type), "acknowledged by another decision"
        recoveries = [job for job in self.jobs.values() if job.phase == "recover"]
        assert not any(self._may_run(job) for job in recoveries), "acknowledged while a recovery of this VM may run"
        if acknowledge == "controller" and decision == "prepare":
            assert event.not_before.timestamp() == action.not_before, "took over for another NotBefore"
        if self.late[1] and event.not_before:
            assert event.not_before.timestamp() == action.not_before, "acknowledged for another NotBefore"
        if decision == "approve":
            assert acknowledge != "controller" or names == {VM}, "acknowledged for others too"
            return
        prepared = [job for job in self.jobs.values() if job.phase == "prepare" and job.key == event.key]
        assert not any(self._may_run(job) for job in prepared), "acknowledged while prepare hooks run"
        assert any(self._is_a_preparation(job, event, recoveries) for job in prepared), "acknowledged unprepared"

    def _check_1_a_controller_has_its_time(self, action):
        if self.options["acknowledge"] == "controller" and action.decision == "prepare":
            grace = self.options["controller_grace"]
            assert grace, "took over from the controller although the owner did not say so"
            assert self.wall >= action.not_before - grace, "took over from the controller before its time was over"

    def _check_1_every_hook_has_run(self, action):
        if action.decision == "prepare" and self.hooks["prepare"] != UNCONFIGURED:
            succeeded = [job for job in self._jobs_of(action.key) if (job.phase, job.outcome) == ("prepare", "ok")]
            if succeeded and self.options["on_failure"] != "approve":
                assert not all(map(self._lacks_hooks, succeeded)), "acknowledged before a configured hook has run"

    def _is_a_preparation(self, job, event, recoveries):
        """Whether this run has prepared the VM for the event, and no recovery has undone it since."""
        if job.outcome == "nothing" or (job.outcome != "ok" and not job.preparation):
            return False
        if self.options["on_failure"] == "approve" and self.options["acknowledge"] != "controller":
            if job.killed or (job.known is None and not job.reached_root):
                return False
        elif job.outcome != "ok":
            return False
        since = job.asked if job.began is None else job.began
        if any(job.began is not None and (job.ended is None or job.ended > since) for job in recoveries):
            return False
        if any(moment > since for moment in self.cleared.values()):
            return False
        return event.event_type == job.kind or (job.kind is None and event.event_type in job.kinds)

    def _check_what_may_begin(self, job):
        assert self._available(job.phase), "asked for hooks that cannot be found"
        if job.phase == "failed":
            self._check_failed_hooks_learn_why(job)
            return
        if job.phase == "advised":
            self._check_advised_hooks_learn_a_hint_once(job)
            return
        same_event = self._jobs_of(job.key)
        assert not any(self._may_run(each) and not each.lost for each in same_event), (
            "asked for a phase while another may run"
        )
        if job.phase == "recover":
            self.renewed[job.key] = self._happens()
            self._check_2_recover(job, same_event)
        if job.phase == "prepare":
            assert job.first.event["event_status"] == "Scheduled", "prepared for what is not Scheduled"
            self._check_3_prepare_is_not_repeated(job, same_event)
            self._check_15_prepared_at_a_chosen_moment(job)

    def _check_advised_hooks_learn_a_hint_once(self, job):
        assert job.first.event["event_status"] == "Advisory", "advised hooks for something else"
        since = max(self.forgotten.get(job.key, 0), self.renewed.get(job.key, 0), self.lost_at)
        earlier = [each for each in self.jobs.values() if each.key == job.key and each.phase == "advised"]
        assert not any(self._may_run(each) for each in earlier if each is not job and not each.lost), (
            "two runs for one hint at once"
        )
        done = [each for each in earlier if each is not job and each.outcome and each.asked > since]
        assert not done, "a hint was passed on again"

    def _check_failed_hooks_learn_why(self, job):
        failure = (job.key, job.first.failed_phase, job.first.failure)
        assert failure in self.failures or "no result" in job.first.failure, "failed hooks learn of another failure"

    def _check_2_recover(self, job, same_event):
        assert self.last_document is not None, "recovered before this process knew what is announced"
        holding = [event for event in self.last_document.events if event.affects(VM)]
        assert all(event.key != job.key for event in holding), "recovered an event that is still announced"
        blocking = [
            event
            for event in holding
            if self._action(event) != "ignore" and (event.event_status != "Advisory" or event.key in self.started)
            if not self._waits(event, knows_all=False)
        ]
        assert not blocking, "recovered while another event holds the VM"
        since = 0
        for each in same_event:
            if each.phase == "recover" and each is not job:
                wanted = max(self.retried.get(job.key, 0), self.announced.get(job.key, 0))
                if each.outcome == "ok" or (each.outcome and wanted < each.asked):
                    since = each.asked
        ran = [each for each in same_event if each.phase in ("prepare", "started") and each.asked > since]
        assert ran, "recovered again, or an event for which nothing ran"

    def _check_3_prepare_is_not_repeated(self, job, same_event):
        earlier = [
            each
            for each in same_event
            if each.phase == "prepare" and each is not job and not each.lost
            if each.asked > self.forgotten.get(job.key, 0)
        ]
        if not earlier or earlier[-1].outcome is None:
            return
        last = earlier[-1]
        undone = any(
            each.phase == "recover" and (each.known is None or each.known > last.asked) for each in self.jobs.values()
        ) or any(moment > last.asked for moment in self.cleared.values())
        if undone or last.kinds != {job.first.event["event_type"]}:
            return
        if last.absent:  # a hook that noticed that may have ended before it had prepared anything
            assert (job.first.first_run, job.first.undone) == (job.first.request_id, True), "counts what was undone"
            return
        if last.outcome == "nothing":
            retried = self.retried.get(job.key, 0) > last.asked
            assert retried or self.preparation not in ("", last.preparation), "prepared again what prepared nothing"
            return
        if last.outcome == "ok":
            assert self._lacks_hooks(last), "prepared again what had ended well"
            assert job.key not in self.accepted, "prepared again what was acknowledged"
            return
        later = self._moment(job.first) > self._moment(last.first)
        assert self.retried.get(job.key, 0) > last.asked or (last.outcome == "timeout" and later), (
            "prepared again what had failed"
        )

    def _lacks_hooks(self, job):
        """Whether a prepare hook was configured since."""
        more = set(self.preparation.split("/")) - set(job.preparation.split("/"))
        return bool(self.preparation and more)

    @staticmethod
    def _moment(action):
        not_before = parse_not_before(action.event["not_before"])
        return not_before.timestamp() if not_before else 0.0

    def _check_4_a_failed_poll_changes_nothing(self, before, after):
        assert all(after[key] == before[key] for key in after), "a failed poll changed an event"
        gone = [event for key, (event, present, _impact) in before.items() if present and key not in after]
        assert all(self._action(event) == "ignore" for event in gone), "a failed poll made an event disappear"

    def _check_5_no_event_waits_for_another(self, document):
        if not self._available("prepare"):
            return
        for event in document.events:
            if not event.affects(VM) or not event.key or self._action(event) not in ("prepare", "hold"):
                continue
            jobs = [job for job in self.jobs.values() if job.key == event.key]
            assert event.key in self.state.events, "an event of this VM is not handled"
            waits = self._waits(event, knows_all=False) or event.key in self.hurried
            if event.key not in self.started and event.event_status == "Scheduled" and not waits:
                assert any(job.phase in ("prepare", "recover") for job in jobs), "preparation waits for something"

    def _check_6_deadline(self, action):
        assert action.timeout == TIMEOUT
        assert action.ends_at == self.monotonic + TIMEOUT
        self._check_not_later_than(action)
        latest = self.wall + TIMEOUT
        not_later_than = action.not_later_than
        assert action.deadline == (latest if not_later_than is None else min(latest, not_later_than))

    def _check_6_revised_deadline(self, before, action):
        if action.not_later_than == before.not_later_than:
            return
        self._check_not_later_than(action)
        assert action.not_later_than is None or action.deadline <= action.not_later_than

    def _check_not_later_than(self, action):
        not_before = self._moment(action) if action.phase == "prepare" else 0.0
        assert action.not_later_than == _last_moment(not_before, self.wall), "the deadline does not fit NotBefore"

    def _check_6_a_moved_not_before_reached_the_hooks(self):
        if self.polls_in_a_row < 2 or self.spool_full:
            return
        for job in self.jobs.values():
            event = _find(self.last_document, job.key)
            if event and event.affects(VM) and job.alive and self._prepares(job):
                moment = event.not_before.timestamp() if event.not_before else 0.0
                known = _last_moment(moment, job.asked_last_at)
                assert job.last.not_later_than == known, "the hooks do not know that NotBefore has moved"

    def _prepares(self, job):
        entry = self.state.events.get(job.key)
        run = entry and entry.runs.get("prepare")
        return bool(run) and run.request_id == job.first.request_id and run.outcome == "running" and not run.asked

    def _check_8_what_a_rule_approves_is_acknowledged_at_once(self, document, approvals, began):
        if any(job.phase == "recover" and (job.known is None or job.known > began) for job in self.jobs.values()):
            return
        if self.state.withheld:
            return
        wanted = {action.key for action in approvals}
        for event in document.events:
            if event.key in self.accepted | set(self.started) or not self._is_to_be_acknowledged(event):
                continue
            if self._action(event) != "approve" or event.key in self.perhaps_started:
                continue
            refused = event.key in self.not_before_pause
            assert event.key in wanted or refused, "an event that a rule approves is kept waiting"

    def _is_to_be_acknowledged(self, event):
        names = [name.lower() for name in event.resources]
        allowed = {
            "alone": set(names) == {VM},
            "leader": names[:1] == [VM],
            "any": VM in names,
            "never": False,
            "controller": set(names) == {VM} and self._action(event) == "approve",
        }
        return (
            event.event_status == "Scheduled"
            and bool(event.key)
            and allowed[self.options["acknowledge"]]
            and (self._action(event) == "approve" or (self._action(event) == "prepare" and self._can_prepare()))
        )

    def _can_prepare(self):
        return bool(self.preparation) and self.hooks["prepare"] == CONFIGURED

    def _is_to_be_taken_over(self, event):
        """Whether the controller has had its time for an event that this VM can prepare for."""
        return (
            self.options["acknowledge"] == "controller"
            and self.options["controller_grace"] > 0
            and self._can_prepare()
            and event.event_status == "Scheduled"
            and bool(event.key)
            and VM in [name.lower() for name in event.resources]
            and self._action(event) == "prepare"
            and event.not_before is not None
            and self.wall - 200.0 >= event.not_before.timestamp() - self.options["controller_grace"]
        )

    def _latest(self, event):
        """When the preparation begins at the latest, by the clock; 0: at once."""
        names = [name.lower() for name in event.resources]
        acknowledged = {
            "alone": set(names) == {VM},
            "leader": True,
            "any": True,
            "never": False,
            "controller": True,
        }[self.options["acknowledge"]]
        lead_time = self.late[0]
        if not event.not_before or (not any(self.late) and acknowledged and self._action(event) == "prepare"):
            return 0.0
        is_left = self.options["acknowledge"] == "controller" and self._action(event) == "prepare"
        around = 5 + (max(MARGIN, self.options["controller_grace"]) if is_left else MARGIN)
        least = max(lead_time, min(self.usual, TIMEOUT) + around) if lead_time else TIMEOUT + around
        return event.not_before.timestamp() - least

    def _is_too_early(self, event):
        is_open = any(begins <= self.wall % 86400 < ends for begins, ends in self.late[1])
        return self.wall < self._latest(event) and not is_open

    def _waits(self, event, *, knows_all=True):
        """Whether the VM is in service until the moment that the rule chooses.

        :param knows_all: whether the engine knows of hooks that ran before the state was lost. It may.
        """
        if event.event_status != "Scheduled" or self._action(event) not in ("prepare", "hold"):
            return False
        if event.key in self.accepted:
            return False
        jobs = [job for job in self.jobs.values() if job.key == event.key]
        recovered = [job.known for job in jobs if job.phase == "recover" and job.outcome == "ok"]
        since = max([self.forgotten.get(event.key, 0), *recovered])
        begun = any(
            job.phase in ("prepare", "started") and job.asked > since and (knows_all or not job.lost) for job in jobs
        )
        return self._is_too_early(event) and not begun and event.key not in self.hurried

    def _check_15_prepared_at_a_chosen_moment(self, job):
        event = _find(self.last_document, job.key)
        assert not (event and self._waits(event)), "prepared before the moment that the rule chooses"

    def _check_15_acknowledged_at_a_chosen_moment(self, action):
        event = _find(self.last_document, action.key)
        if event and self.late[1] and action.key not in self.hurried:
            assert not self._is_too_early(event), "acknowledged outside of a window"

    def _check_10_what_is_owed_is_remembered(self):
        assert self.debts <= set(self.state.events), "a recovery that is owed was forgotten"

    def _check_10_what_is_owed_survives_the_loss(self):
        boots = {f"boot {self.boots}"}
        boots.update([fact.boot_id for fact in self.facts if fact.boot_id not in boots][-1:])
        recent = {fact.key for fact in self.facts if fact.boot_id in boots}
        assert self.debts & recent <= set(self.state.events), "what was owed before the state was lost is not shown"
        for entry in self.state.events.values():
            assert entry.runs["recover"].outcome in ("failed", "running"), "a debt looks paid after the state was lost"

    # The end: everything works, and everything comes to its end

    def teardown(self):
        if not self.whole:
            return
        self.spool_full = self.root_sleeps = self.service_is_slow = False
        self.answers = []
        self.hooks = {phase: CONFIGURED if phase in self.ever_configured else UNCONFIGURED for phase in PHASES}
        self.preparation = self.ever_prepared
        self._root_looks()
        if self.state.lost:
            self.operator_clears("")
        self._live_on(4)
        self._retry_all()
        self._live_on(8)
        for event in self.documents[-1].events:
            due = self._is_to_be_acknowledged(event) or self._is_to_be_taken_over(event)
            if due and event.key not in self.started and event.key not in self.perhaps_started:
                assert event.key in self.acknowledged, "an event is never acknowledged"
        self.azure = {}
        self._announce()
        self._live_on(4)
        self._retry_all()
        if "recover" not in self.ever_configured:
            self.operator_clears("")
        self._live_on(8)
        assert not self.state.events, "the state keeps events without any use"
        assert not self.debts
        self._check_every_failure_was_reported()

    def _live_on(self, rounds):
        for _round in range(rounds):
            self._step(self.documents[-1])
            self._carry_out_all()
            self._finish_attempt()
            self._end_all_hooks()
            self._step(self.documents[-1])
            self._pass(200.0)

    def _retry_all(self):
        self.results += [terms.Retry(key) for key in self.state.events]

    def _check_the_history_holds_what_is_announced(self, step):
        facts = transitions.facts_of(step, transitions.Writer(history.POLLER, "the unit", step.now.boot_id))
        self.facts += facts
        for fact in facts:
            if fact.kind == history.SEEN:
                self.in_history.add(fact.key)
            elif fact.kind == history.OVER:
                assert fact.key in self.in_history, "over, and not seen before"
                self.in_history.discard(fact.key)
        announced = {key for key, entry in self.state.events.items() if entry.present}
        assert self.in_history == announced | set(self.state.ignored), "the history is not what was decided"

    def _check_every_failure_was_reported(self):
        if not self.failed_always_configured:
            return
        told = {(job.key, job.first.failed_phase, job.first.failure) for job in self.jobs.values()}
        untold = [failure for failure in self.failures if failure not in told and failure[0] not in self.cleared]
        assert not untold, "failed hooks did not learn of a failure"


IN_MAKE_TEST = settings.default.derandomize  # see tests/unit/conftest.py
SETTINGS = settings(
    max_examples=PART,
    stateful_step_count=STEPS,
    deadline=None,
    # To shrink an example takes minutes, and `make test` runs in CI, where no developer waits for this.
    phases=[phase for phase in Phase if not (IN_MAKE_TEST and phase is Phase.shrink)],
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(-(-EXAMPLES // PART)))
def test_the_engine_keeps_its_promises_in_any_world(part):
    class ThisWorld(World):
        pass

    # In `make test`, each run uses the same examples, because a failure that comes and goes cannot be examined.
    run_state_machine_as_test(seed(part)(ThisWorld) if IN_MAKE_TEST else ThisWorld, settings=SETTINGS)


def test_the_world_took_enough_steps():
    if not steps_taken:
        pytest.skip("the world did not run")
    assert len(steps_taken) >= LEAST_STEPS
