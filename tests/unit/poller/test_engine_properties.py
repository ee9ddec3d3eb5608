# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must always hold, whatever the service, the hooks, the clock and the power do.

A model of the world plays the service, the disk and root. The engine is driven as the poller drives it: results are
read, the state is made durable, then actions are carried out one by one, and anything may end between any two of them.
ENGINE_PROPERTY_EXAMPLES and ENGINE_PROPERTY_STEPS make a run longer.
"""

import datetime
import json
import os
import re

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis runs on newer Pythons only")

from _scheduled_events import rules as decisions  # noqa: E402
from _scheduled_events.document import format_time, parse  # noqa: E402
from hypothesis import Phase, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule  # noqa: E402
from scheduled_events_poller import engine  # noqa: E402
from scheduled_events_poller.state import State, dump  # noqa: E402
from scheduled_events_poller.state import parse as parse_state  # noqa: E402

EXAMPLES = int(os.environ.get("ENGINE_PROPERTY_EXAMPLES", "1000"))
STEPS = int(os.environ.get("ENGINE_PROPERTY_STEPS", "60"))
LEAST_STEPS = 10000

VM = "vm1"
IDS = [f"AAAAAAAA-0000-0000-0000-00000000000{number}" for number in range(3)]
START = 1000000000.0

MINE_ALONE, MINE_LED, MINE_AMONG, OTHERS, NOBODY = ["VM1"], ["vm1", "vm10"], ["vm10", "vm1"], ["vm10"], []
RULES = {
    "default": decisions.DEFAULT_RULES,
    "hold reboots": decisions.parse_rules([{"event_types": ["Reboot"], "action": "hold"}]),
    "ignore freezes": decisions.parse_rules([{"event_types": ["Freeze"], "action": "ignore"}]),
    "approve redeploys": decisions.parse_rules([{"event_types": ["Redeploy"], "action": "approve"}]),
}
ALL_PHASES = frozenset(["prepare", "started", "recover", "failed"])

# The hooks that ran for one event, as letters in their order: P, S, R ended (well or not), p, s, r lost with the boot.
# Each life of an event: prepare and started at most once to their end, then recover exactly once to its end. A recovery
# that was lost may have undone a part of the preparation: should the event be back, all begins anew.
LIVES = re.compile(r"(?:(?=[pPsS])(?:p*P?s*S?r+)*p*P?s*S?R)*\Z")

steps_taken = []


class HookRun:
    """What root knows of one request."""

    def __init__(self, action):
        self.action = action
        self.asked = False  # the request has arrived
        self.ended = False
        self.result = None  # in the directory of results
        self.lost = False  # with the boot
        self.asked_at = None
        self.alive = True  # a unit that died without a word is not

    @property
    def running(self):
        return self.asked and not self.ended and not self.lost and self.alive

    @property
    def letter(self):
        letter = self.action.phase[0]
        return letter if self.lost else letter.upper()


class World(RuleBasedStateMachine):
    """The service, the disk, root, and the power switch around one engine."""

    def __init__(self):
        super().__init__()
        self.wall, self.monotonic, self.boots = START, 5000.0, 1
        self.azure = {}  # EventId: fields
        self.incarnation = 1
        self.documents = []  # all that there ever were
        self.last_document = None  # that the engine read
        self.runs = {}  # request id: HookRun, in order
        self.pending = []  # actions decided, not carried out
        self.tries = {}  # key: monotonic time of the last attempt to acknowledge, by this process
        self.approval_results = []
        self.accepted = set()  # keys, as far as the engine was told
        self.answers = []  # of the service to the next acknowledgements, the last first
        self.over = {}  # key: number of runs when it was over last
        self.seen_started = set()
        self.whole = True  # no check has failed yet

    @initialize(
        hooks=st.sampled_from(
            [ALL_PHASES, ALL_PHASES, ALL_PHASES - {"prepare"}, ALL_PHASES - {"recover"}, frozenset()]
        ),
        on_failure=st.sampled_from(["hold", "approve"]),
        approve=st.sampled_from(["alone", "alone", "leader", "any", "never"]),
        rules=st.sampled_from(sorted(RULES)),
    )
    def begin(self, hooks, on_failure, approve, rules):
        self.config = engine.Config(
            vm_name=VM,
            hooks=hooks,
            rules=RULES[rules],
            hook_timeout=100.0,
            margin=20.0,
            on_failure=on_failure,
            approve=approve,
        )
        self.state = State(serial=1)
        self.disk = dump(self.state)
        self._announce()

    # The service

    def _announce(self):
        self.incarnation += 1
        document = {"DocumentIncarnation": self.incarnation, "Events": list(self.azure.values())}
        self.documents.append(parse(json.dumps(document), api_version="2020-07-01"))

    @rule(
        event_id=st.sampled_from(IDS),
        kind=st.sampled_from(["Freeze", "Reboot", "Redeploy", "Preempt", "Other"]),
        status=st.sampled_from(["Scheduled", "Scheduled", "Scheduled", "Started", None]),
        resources=st.sampled_from([MINE_ALONE, MINE_ALONE, MINE_LED, MINE_AMONG, OTHERS, NOBODY]),
        notice=st.sampled_from([None, "soon", "", 5, 30, 60, 900]),
        duration=st.sampled_from([None, -1, 0, 5, 9]),
    )
    def service_announces(self, event_id, kind, status, resources, notice, duration):
        if event_id in self.azure:
            return
        event = {"EventId": event_id, "EventType": kind, "EventStatus": status, "Resources": resources}
        if isinstance(notice, int):
            moment = datetime.datetime.fromtimestamp(int(self.wall) + notice, datetime.timezone.utc)
            notice = format_time(moment)
        event.update(NotBefore=notice, DurationInSeconds=duration)
        self.azure[event_id] = event
        self._announce()

    @rule(event_id=st.sampled_from(IDS))
    def service_starts(self, event_id):
        if event_id in self.azure:
            self.azure[event_id] = dict(self.azure[event_id], EventStatus="Started", NotBefore="")
            self._announce()

    @rule(event_id=st.sampled_from(IDS))
    def service_removes(self, event_id):
        if self.azure.pop(event_id, None) is not None:
            self._announce()

    @rule(event_id=st.sampled_from(IDS), resources=st.sampled_from([MINE_ALONE, MINE_AMONG, OTHERS]))
    def service_names_other_vms(self, event_id, resources):
        if event_id in self.azure:
            self.azure[event_id] = dict(self.azure[event_id], Resources=resources)
            self._announce()

    @rule(present=st.booleans())
    def service_shows_an_event_without_an_id(self, present):
        self.azure.pop("", None)
        if present:
            self.azure[""] = {"EventType": "Reboot", "EventStatus": "Scheduled", "Resources": MINE_ALONE}
        self._announce()

    # The poller

    @rule()
    def poll(self):
        self._step(self.documents[-1])

    @rule()
    def poll_until_hooks_have_ended(self):
        self._step(self.documents[-1])
        self._carry_out_all()
        for run in self.runs.values():
            if run.running:
                self._end_hooks(run, "ok")
        self._step(self.documents[-1])

    @rule(reboot=st.booleans())
    def all_events_are_gone_for_a_moment(self, reboot):
        before, self.azure = self.azure, {}
        self._announce()
        self._step(self.documents[-1])
        if reboot:
            self._carry_out_all()
            self.vm_reboots(5.0)
        self.azure = before
        self._announce()

    @rule()
    def service_removes_all(self):
        self.azure = {}
        self._announce()
        self._step(self.documents[-1])

    @rule()
    def poll_is_repeated(self):
        self._step(self.documents[-1])
        self._step(self.documents[-1])

    @rule(back=st.integers(1, 4))
    def poll_brings_an_old_document(self, back):
        self._step(self.documents[max(0, len(self.documents) - 1 - back)])

    @rule()
    def poll_fails(self):
        before = {key: (entry.event, entry.present, entry.impact) for key, entry in self.state.events.items()}
        self._step(None)
        after = {key: (entry.event, entry.present, entry.impact) for key, entry in self.state.events.items()}
        self._check_4_a_failed_poll_changes_nothing(before, after)

    def _step(self, document):
        self.whole = False
        self._take_step(document)
        self.whole = True

    def _take_step(self, document):
        steps_taken.append(1)
        self._carry_out_all()
        results = self._read_results()
        before = self.state
        self.accepted |= {
            result.key
            for result in results
            if isinstance(result, engine.ApprovalResult) and result.accepted and result.key in before.events
        }
        self.state, actions = engine.step(before, document, results, self._now(), self.config)
        self.approval_results = []
        self._persist()
        self.pending = [action for action in actions if not isinstance(action, engine.Report)]
        if document is not None:
            self.last_document = document
            mine = [event for event in document.events if event.affects(VM) and event.key]
            started = {event.key for event in mine if event.event_status == "Started"}
            self.seen_started |= started & set(self.state.events)
            self._check_5_no_event_waits_for_another(mine, before)
            self._check_8_without_hooks_it_is_acknowledged_at_once(mine)
        for key in before.events:
            if key not in self.state.events:
                self.seen_started.discard(key)
                self.tries.pop(key, None)
                self.accepted.discard(key)
                self.over[key] = len(self.runs)
        for action in self.pending:
            if isinstance(action, engine.RunHooks):
                self._want(action)

    def _persist(self):
        text = dump(self.state)
        assert parse_state(text) == self.state, "the file does not hold the whole state"
        self.disk = text

    def _now(self):
        return engine.Moment(self.wall, self.monotonic, f"boot {self.boots}")

    def _read_results(self):
        running = {
            run.request_id
            for entry in self.state.events.values()
            for run in entry.runs.values()
            if run.outcome == "running"
        }
        found = [run.result for run in self.runs.values() if run.result and run.result.request_id in running]
        return found + self.approval_results

    def _want(self, action):
        known = self.runs.get(action.request_id)
        if known is not None:
            self._check_6_deadline_stays(known.action, action)
            return
        self._check_6_deadline(action)
        if action.phase == "prepare":
            self._check_3_prepare_is_not_repeated(action)
        if action.phase == "recover":
            self._check_2_recover(action)
        self._check_phases_do_not_overlap(action)
        self.runs[action.request_id] = HookRun(action)

    @precondition(lambda self: self.pending)
    @rule()
    def one_action_is_carried_out(self):
        self._carry_out(self.pending.pop(0))

    def _carry_out_all(self):
        while self.pending:
            self._carry_out(self.pending.pop(0))

    def _carry_out(self, action):
        if isinstance(action, engine.Approve):
            self._acknowledge(action)
            return
        run = self.runs[action.request_id]
        if not run.asked:
            run.asked, run.asked_at = True, self.monotonic

    # Acknowledging

    def _acknowledge(self, action):
        last = self.tries.get(action.key)
        assert last is None or self.monotonic - last >= engine.FIRST_PAUSE, "acknowledging hammers the service"
        self.tries[action.key] = self.monotonic
        assert action.key not in self.accepted, "acknowledged again what was accepted"
        answer = self.answers.pop() if self.answers else "accepted"
        event = self.documents[-1].find(action.key)  # read right before
        if event is None or not engine.may_approve(event, self.config):
            self.approval_results.append(engine.ApprovalResult(action.key, accepted=False, error="not any more"))
            return
        self._check_1_nothing_is_acknowledged_unprepared(event)
        self._check_7_nothing_started_is_acknowledged(event)
        if answer == "accepted":
            self.approval_results.append(engine.ApprovalResult(action.key, accepted=True))
        elif answer != "unknown":
            refused = answer == "refused"
            result = engine.ApprovalResult(action.key, accepted=False, error=answer, refused=refused)
            self.approval_results.append(result)

    @rule(answers=st.lists(st.sampled_from(["accepted", "refused", "unavailable", "unknown"]), min_size=1, max_size=4))
    def service_will_answer_acknowledgements_with(self, answers):
        self.answers = answers

    # Hooks

    @precondition(lambda self: any(run.running for run in self.runs.values()))
    @rule(data=st.data(), outcome=st.sampled_from(["ok", "ok", "ok", "failed", "timeout"]), at_once=st.booleans())
    def hooks_end(self, data, outcome, at_once):
        running = [name for name, run in self.runs.items() if run.running]
        self._end_hooks(self.runs[data.draw(st.sampled_from(running))], outcome)
        if at_once:
            self._step(None)

    def _end_hooks(self, run, outcome):
        run.ended = True
        run.result = engine.HookResult(run.action.request_id, outcome, "a reason")

    @precondition(lambda self: any(run.running for run in self.runs.values()))
    @rule(data=st.data())
    def hooks_die_without_a_word(self, data):
        running = [name for name, run in self.runs.items() if run.running]
        self.runs[data.draw(st.sampled_from(running))].alive = False

    # Time, crashes, power

    @rule(seconds=st.sampled_from([0.3, 1.0, 5.0, 30.0, 200.0]))
    def time_passes(self, seconds):
        self._carry_out_all()  # which takes no time, unless the poller crashes
        self.wall += seconds
        self.monotonic += seconds
        for run in self.runs.values():
            if run.running and self.monotonic - run.asked_at >= run.action.timeout:
                self._end_hooks(run, "timeout")

    @rule(seconds=st.sampled_from([-86400.0, -60.0, 60.0, 86400.0]))
    def clock_jumps(self, seconds):
        self.wall += seconds

    @rule()
    def poller_crashes(self):
        self.pending, self.approval_results = [], []
        self.last_document = None
        self.tries = {}
        self.state = engine.resume(parse_state(self.disk))

    @rule(with_document=st.booleans())
    def poller_crashes_before_its_state_is_kept(self, with_document):
        self._carry_out_all()
        document = self.documents[-1] if with_document else None
        engine.step(self.state, document, self._read_results(), self._now(), self.config)
        self.poller_crashes()

    @rule(downtime=st.sampled_from([5.0, 300.0]))
    def vm_reboots(self, downtime):
        known = {
            run.request_id
            for entry in parse_state(self.disk).events.values()
            for run in entry.runs.values()
            if run.outcome == "running"
        }
        for name, run in self.runs.items():
            if name in known:  # whatever became of it, nobody has read it, and /run is empty
                run.lost, run.result = True, None
                if run.action.phase == "recover":
                    # Should the event be back, all of it begins anew.
                    self.accepted.discard(run.action.key)
                    self.seen_started.discard(run.action.key)
        self.poller_crashes()
        self.boots += 1
        self.wall += downtime
        self.monotonic = 10.0

    @rule(
        rules=st.sampled_from(sorted(RULES)),
        approve=st.sampled_from(["alone", "any", "never"]),
        on_failure=st.sampled_from(["hold", "approve"]),
    )
    def owner_changes_the_configuration(self, rules, approve, on_failure):
        self._carry_out_all()  # what was decided is carried out by the configuration that it was decided by
        self.config = self.config._replace(rules=RULES[rules], approve=approve, on_failure=on_failure)

    # What must hold

    def _life(self, key):
        """The runs of the event since it was over last, without those for failures."""
        runs = list(self.runs.values())[self.over.get(key, 0) :]
        return [run for run in runs if run.action.key == key and run.action.phase != "failed"]

    def _attempt(self, key):
        """The runs of this life since a recovery was lost with the boot, if one was."""
        attempt = []
        for run in self._life(key):
            attempt = [] if run.action.phase == "recover" and run.lost else [*attempt, run]
        return attempt

    def _action(self, event):
        return decisions.decide(event, self.config.rules)

    def _check_1_nothing_is_acknowledged_unprepared(self, event):
        names = {name.lower() for name in event.resources}
        assert VM in names, "acknowledged an event of others"
        assert self.config.approve != "never", "acknowledged although the owner said never"
        if self.config.approve == "alone":
            assert names == {VM}, "acknowledged for others too"
        if self.config.approve == "leader":
            assert event.resources[0].lower() == VM, "acknowledged without being the leader"
        assert event.event_status == "Scheduled", "acknowledged what is not Scheduled"
        action = self._action(event)
        assert action in ("prepare", "approve"), "acknowledged although a rule says " + action
        if action == "approve" or "prepare" not in self.config.hooks:
            return
        if self.config.on_failure == "approve":
            assert any(run.action.phase == "prepare" for run in self._attempt(event.key)), (
                "acknowledged before preparing"
            )
            assert not any(run.running for run in self._life(event.key)), "acknowledged while prepare hooks run"
            return
        ended = [run.result.outcome for run in self._attempt(event.key) if run.action.phase == "prepare" and run.result]
        assert "ok" in ended, "acknowledged before preparing succeeded"

    def _check_2_recover(self, action):
        life = self._life(action.key)
        assert self.last_document is not None, "recovered before this process knew what is there"
        assert life, "recovered an event for which nothing ran"
        assert not any(run.action.phase == "recover" and not run.lost for run in life), "recovered twice"
        holding = [event for event in self.last_document.events if event.affects(VM)]
        assert all(event.key != action.key for event in holding), "recovered an event that is still there"
        blocking = [event for event in holding if self._action(event) != "ignore"]
        assert not blocking, "recovered while another event holds the VM"

    def _check_3_prepare_is_not_repeated(self, action):
        earlier = [run for run in self._attempt(action.key) if run.action.phase == "prepare"]
        assert all(run.lost for run in earlier), "prepared again what had ended"

    def _check_4_a_failed_poll_changes_nothing(self, before, after):
        assert all(after[key] == before[key] for key in after), "a failed poll changed an event"
        gone = [event for key, (event, present, _impact) in before.items() if present and key not in after]
        assert all(self._action(event) == "ignore" for event in gone), "a failed poll made an event disappear"
        self._carry_out_all()
        again, actions = engine.step(self.state, None, [], self._now(), self.config)
        assert (again, actions) == (self.state, []), "the same failed poll once more did something"

    def _check_5_no_event_waits_for_another(self, mine, before):
        for event in mine:
            entry = self.state.events.get(event.key)
            earlier = before.events.get(event.key)
            if entry is None and earlier is not None and "recover" in earlier.runs:
                continue  # back under the same id as its recovery ended: the next poll takes it for a new one
            if self._action(event) not in ("prepare", "hold"):
                continue
            assert entry is not None, "an event of this VM is not handled"
            if "recover" in entry.runs or not entry.present:
                continue  # back under the same id while it is recovered: an event of its own afterwards
            assert entry.impact or "prepare" in entry.runs, "preparation waits for something"
            if entry.impact and not self._is_running(entry, "prepare"):
                assert "started" in entry.runs, "started hooks wait for something"

    @staticmethod
    def _is_running(entry, phase):
        return phase in entry.runs and entry.runs[phase].outcome == "running"

    def _check_6_deadline(self, action):
        entry = self.state.events[action.key]
        assert action.timeout == self.config.hook_timeout
        binding = None
        if action.phase == "prepare" and entry.event.not_before is not None:
            moment = entry.event.not_before.timestamp() - self.config.margin
            binding = moment if moment > self.wall else None
        assert action.not_later_than == binding, "the deadline is not NotBefore less the margin"
        latest = self.wall + self.config.hook_timeout
        assert action.deadline == (latest if binding is None else min(latest, binding))

    def _check_6_deadline_stays(self, first, repeated):
        asked = ("timeout", "not_later_than", "deadline", "phase", "key")
        assert all(getattr(first, name) == getattr(repeated, name) for name in asked), "a repetition asks for other"

    def _check_7_nothing_started_is_acknowledged(self, event):
        assert event.key not in self.seen_started, "acknowledged what has been Started"

    def _check_8_without_hooks_it_is_acknowledged_at_once(self, mine):
        if "prepare" in self.config.hooks:
            return
        for event in mine:
            entry = self.state.events.get(event.key)
            if entry is None or "recover" in entry.runs or entry.impact or not entry.present:
                continue
            if engine.may_approve(entry.event, self.config):
                assert entry.approval.tries > 0, "an event that no hook handles is kept waiting"

    def _check_phases_do_not_overlap(self, action):
        if action.phase != "failed":
            assert not any(run.running for run in self._life(action.key)), "two phases of one event at once"

    def teardown(self):
        """Let everything come to its end, and look back."""
        if not self.whole:
            return
        self._run_dry()
        for event in self.documents[-1].events:
            if event.affects(VM) and event.key and self._action(event) == "prepare" and "prepare" in self.config.hooks:
                self._check_3_prepare_ran_at_least_once(event)
        self.azure = {}
        self._announce()
        self._run_dry()
        assert not self.state.events, "events are left that nobody needs any more"
        self._check_3_no_request_is_forgotten()
        for key in {run.action.key for run in self.runs.values()}:
            phases = [run for run in self.runs.values() if run.action.key == key and run.action.phase != "failed"]
            self._check_2_and_7_each_life_ends_with_one_recovery("".join(run.letter for run in phases))

    def _run_dry(self):
        for _round in range(8):
            self._step(self.documents[-1])
            self._carry_out_all()
            for run in self.runs.values():
                if run.running:
                    self._end_hooks(run, "ok")
            self.wall += 200.0
            self.monotonic += 200.0

    def _check_3_prepare_ran_at_least_once(self, event):
        entry = self.state.events[event.key]
        if entry.impact:
            return  # it started before it could be prepared
        prepare = entry.runs["prepare"]
        assert prepare.outcome not in ("running", "interrupted"), "preparation does not come to an end"

    def _check_3_no_request_is_forgotten(self):
        forgotten = [run.action.request_id for run in self.runs.values() if not run.asked and not run.lost]
        assert not forgotten, "hooks were never asked for"

    def _check_2_and_7_each_life_ends_with_one_recovery(self, letters):
        if "recover" in self.config.hooks:
            assert LIVES.match(letters), "the hooks of an event ran as " + letters
        else:
            assert "r" not in letters.lower()


IN_CI = "CI" in os.environ
World.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    derandomize=IN_CI,
    # To shrink an example takes minutes, which only somebody who waits for it has.
    phases=[phase for phase in Phase if not (IN_CI and phase is Phase.shrink)],
)


@pytest.mark.timeout(3600)
class TestTheEngine(World.TestCase):
    """Runs the world."""


def test_the_world_took_enough_steps():
    if not steps_taken:
        pytest.skip("the world did not run")
    assert len(steps_taken) >= LEAST_STEPS
