# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send mutated documents through everything that text of the service passes on a VM.

Documents come in lives: a life is a poller on a new VM that reads about twenty documents one after the other, whose
hooks end in any way, whose clock jumps, and that restarts. Each document goes through the parser, the engine, the state
and its file, the metrics, the request for hooks and its reading by root, and the environment of a hook. Wrong is any
exception but the library's own, a text that cannot be shown, a state that cannot be read again or is far larger than
the documents that it is from, and a document that takes too long or too much memory.

    make fuzz                    a million documents, of a new seed, which is shown
    make fuzz SEED=5 LIFE=17     one life of an earlier run again

The end is a line of JSON with what was reached. The exit status is 1 if anything was wrong.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import faulthandler
import json
import os
import pathlib
import random
import re
import resource
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / place) for place in ("plugins/module_utils", "roles/poller/files", "tests/fuzz")]

import documents  # noqa: E402 - found only through the path set above, as are the next
from _scheduled_events import engine, history, rules, state, terms, transitions  # noqa: E402
from _scheduled_events.checks import WrongValue  # noqa: E402
from _scheduled_events.clock import Moment  # noqa: E402
from _scheduled_events.document import DocumentError, parse  # noqa: E402
from scheduled_events_poller import spool  # noqa: E402
from scheduled_events_poller.root import runner  # noqa: E402
from scheduled_events_poller.unit import config, display, metrics, status  # noqa: E402

DOCUMENTS_PER_LIFE = 20
LIVES_PER_PART = 250
MEMORY = 200 * 2**20  # bytes that a document may take
HANG = 600  # seconds of a life after which it counts as hanging

# What a state may take: so many times the documents that it is from, and what each event has of our own.
STATE_FACTOR, STATE_PER_EVENT, STATE_BASE = 30, 8192, 65536
LONGEST_VARIABLE = 128 * 1024 - 1  # bytes of NAME=VALUE that the kernel takes

UNSHOWABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
METRIC = re.compile(
    r'(#.*|[a-z_]+(\{[a-z]+="([^"\\\n]|\\[\\"n])*"(,[a-z]+="([^"\\\n]|\\[\\"n])*")*\})? [-+0-9.einfaI N]+)\Z'
)
PHASES = ("prepare", "started", "recover", "advised", "failed")
SHORT_FREEZES = (rules.Rule(action=rules.APPROVE, event_types=("Freeze",), min_duration=0, max_duration=8),)
RECORDED = documents.recorded()


class WrongError(Exception):
    """Something that is wrong although nothing raised an exception."""


def expect(condition, what):
    if not condition:
        raise WrongError(what)


class Life:
    """A poller on a new VM. ``counts``: what it came across."""

    def __init__(self, seed, number):
        self._of_documents = random.Random(f"{seed} {number} documents")  # the same whatever is made of them
        self.rng = rng = random.Random(f"{seed} {number}")
        self.counts = collections.Counter()
        self.vm_name = rng.choice([name for name in documents.NAMES if name])
        self._version = documents.VERSIONS[-1] if rng.random() < 0.6 else rng.choice(documents.VERSIONS)
        self._azure = {"DocumentIncarnation": 1, "Events": []}
        self._state = state.State(serial=1)
        self._metrics = metrics.Metrics()
        self._wall, self._monotonic, self._boot = 1474309000.0, 10.0, 1
        self._running, self._results = [], []
        self._bytes_read = 0
        self._config = terms.Config(
            vm_name=self.vm_name,
            hooks=frozenset(phase for phase in PHASES if rng.random() < 0.8),
            missing={phase: ("10-hook",) for phase in PHASES if rng.random() < 0.03},
            rules=rng.choice(((), SHORT_FREEZES, (rules.Rule(action=rng.choice(rules.ACTIONS)),))),
            on_failure=rng.choice(terms.ON_FAILURE),
            acknowledge=rng.choice(terms.ACKNOWLEDGE_POLICIES),
        )

    def documents(self):
        """The documents that it reads."""
        rng = self._of_documents
        for _number in range(DOCUMENTS_PER_LIFE):
            self._evolve()
            document = json.loads(json.dumps(self._azure))
            writer = documents.Writer(rng)
            for _mutation in range(rng.choice((0, 1, 1, 1, 2, 3))):
                documents.mutate(rng, document, writer)
            body = writer.write(document)
            if rng.random() < 0.12:
                body = documents.damage(rng, body)
            yield body[: documents.LONGEST]

    def _evolve(self):
        """Let the platform do what it does: announce, start, remove."""
        rng, events = self._of_documents, self._azure["Events"]
        chance = rng.random()
        if chance < 0.3 or not events:
            new = json.loads(rng.choice(RECORDED))["Events"]
            for event in new:
                event["EventId"] = f"{rng.getrandbits(32):08X}-C957-4500-9BC4-842D6FB531E4"
                if rng.random() < 0.9:
                    event["Resources"] = [*rng.sample(documents.NAMES, rng.choice((0, 0, 1, 3))), self.vm_name]
                    rng.shuffle(event["Resources"])
            events += new
        elif chance < 0.5:
            rng.choice(events).update(EventStatus="Started", NotBefore="")
        elif chance < 0.7 or len(events) > 6:
            del events[rng.randrange(len(events))]
        self._azure["DocumentIncarnation"] += rng.randrange(3)

    def read(self, body):
        """One poll, and what follows from it."""
        self._pass_time()
        self._bytes_read += len(body)
        try:
            document = parse(body, api_version=self._version)
        except DocumentError as error:
            self.counts["refused"] += 1
            check_text(str(error), "the error of the parser")
            expect(len(str(error)) < 2000, "the error of the parser is long")
            document = None
        if document is not None:
            self._measure(document)
        now = Moment(self._wall, self._monotonic, f"boot {self._boot}")
        before = self._state
        self._state, actions = engine.step(before, document, self._results, now, self._config)
        self._results = []
        self._record(transitions.Step(before, self._state, actions, now, self._config))
        self._show()
        self._persist()
        for action in actions:
            self._carry_out(action)
        self._show()
        self._let_hooks_end()
        self._let_the_operator_command()

    def _pass_time(self):
        rng = self.rng
        seconds = rng.choice((0.0, 1.0, 1.0, 1.0, 30.0, 700.0))
        self._monotonic += seconds
        self._wall += seconds
        if rng.random() < 0.02:
            self._wall += rng.choice((-3600.0, 3600.0, 1e8, -1e8))
        if rng.random() < 0.03:
            self._boot, self._monotonic, self._running = self._boot + 1, 5.0, []

    def _measure(self, document):
        self.counts["events"] += len(document.events)
        for event in document.events[:3]:
            for problem in event.problems():
                check_text(problem, "a problem of an event")
        self._metrics.poll_succeeded(document, vm_name=self.vm_name, now=self._wall)
        lines = self._metrics.render().encode("utf-8").decode().split("\n")
        expect(lines.pop() == "", "the metrics do not end with a newline")
        for line in lines:
            expect(METRIC.match(line), f"not a line of metrics: {ascii(line)[:200]}")

    def _persist(self):
        text = state.dump(self._state)
        size = len(text.encode("utf-8"))
        events = len(self._state.events) + len(self._state.ignored)
        most = STATE_FACTOR * self._bytes_read + STATE_PER_EVENT * events + STATE_BASE
        expect(size <= most, f"a state of {size} bytes from documents of {self._bytes_read}")
        read = state.parse(text)
        expect(state.dump(read) == text, "the state is not what its file says")
        chance = self.rng.random()
        if chance < 0.1:
            self._state = engine.resume(read)
            self.counts["restarts"] += 1
        elif chance < 0.15:
            damaged = documents.damage(self.rng, text.encode("utf-8")).decode("utf-8", "replace")
            with contextlib.suppress(WrongValue):
                state.parse(damaged)

    def _carry_out(self, action):
        if isinstance(action, terms.Report):
            entry = self._state.events.get(action.key)
            check_text(display.of_report(action, entry.event if entry else None)[1], "a report")
            self._metrics.acknowledged(action.seconds)
        elif isinstance(action, terms.RunHooks):
            self.counts["hooks"] += 1
            self._ask_root(action)
        else:
            self.counts["approvals"] += 1
            accepted, refused = self.rng.random() < 0.5, self.rng.random() < 0.5
            error = "" if accepted else "the service answered 500 Internal Server Error"
            self._results.append(terms.ApprovalResult(action.key, accepted, error, refused))

    def _show(self):
        """What the status file and the local fact show."""
        polls = status.Polls(self.vm_name, self._wall, 0, "")
        settings = config.Settings(endpoint="http://127.0.0.1")
        view = status.View(self._wall, settings, self._state, self._config, polls, None, 0.0, "", "")
        shown = status.describe(view, unrecorded="")
        read = json.loads(json.dumps(shown).encode("utf-8"))
        check_text("; ".join(status.judge(read, read["time"])[1]), "the status")
        for event in read["events"]:
            check_text(event["doing"], "the status of an event")

    @staticmethod
    def _record(step):
        """What the history holds, and what is read of it."""
        for fact in transitions.facts_of(step, transitions.Writer("poller", "the polling unit")):
            read = history.parse_line(history.line_of(fact))
            if read != history.cleaned(fact):
                raise AssertionError(f"{read} is not {fact}")
            check_text(read.reason, "a fact of the history")

    def _ask_root(self, action):
        fields = {name: getattr(action, name) for name in spool.Job._fields if hasattr(action, name)}
        job = spool.Job(**{"vm_name": self.vm_name, **fields})
        text = spool.format_request(job)
        self._running.append(job.request_id)
        check_environment(spool.parse_request(text, job.request_id))
        for _time in range(2):  # and as an attacker with control of the poller would write it
            hostile = documents.damage(self.rng, text)
            try:
                check_environment(spool.parse_request(hostile, job.request_id))
            except WrongValue as error:
                check_text(str(error), "the error of a request")

    def _let_hooks_end(self):
        rng = self.rng
        for request_id in [each for each in self._running if rng.random() < 0.4]:
            self._running.remove(request_id)
            outcome = rng.choice(("ok", "ok", "ok", "failed", "timeout", "odd"))
            reason = rng.choice(documents.TEXTS) if rng.random() < 0.3 else ""
            body = json.dumps(
                {"outcome": outcome, "reason": reason, "seconds": rng.choice((0, 1.5, -1, 1e400))}
            ).encode()
            if rng.random() < 0.1:
                body = documents.damage(rng, body)
            result = spool.parse_result(body, request_id)
            if result is not None:
                self._results.append(terms.HookResult(result.request_id, result.outcome, result.reason))
                self._metrics.hooks_took(request_id.split(".")[1], result.seconds)

    def _let_the_operator_command(self):
        if self._state.events and self.rng.random() < 0.05:
            command = self.rng.choice((terms.Retry, terms.Clear))(self.rng.choice(list(self._state.events)))
            check_text(engine.objection(self._state, command), "an objection")
            self._results.append(command)


def check_text(text, what):
    found = UNSHOWABLE.search(text)
    expect(not found, f"{what} holds {found and ascii(found.group())}: {ascii(text)[:200]}")


def check_environment(job):
    """A hook can be started with what the job says."""
    for name, value in runner.environment(job, job.deadline).items():
        expect(b"\0" not in value, f"{name} holds a NUL")
        expect(len(name) + 1 + len(value) <= LONGEST_VARIABLE, f"{name} has {len(value)} bytes")
    json.dumps(job.event).encode("utf-8")


class Wrong:
    """What was wrong, by its place in the code: how often, and the first time."""

    def __init__(self):
        self.times = collections.Counter()
        self.first = {}

    def add(self, error, seed, life, place, body):
        frames = traceback.extract_tb(error.__traceback__)
        where = next((frame for frame in reversed(frames) if "fuzz" not in frame.filename), frames[-1])
        kind = f"{type(error).__name__} at {os.path.basename(where.filename)}:{where.lineno} {where.name}"
        if isinstance(error, WrongError):
            kind = re.split(" holds |: |[0-9]", str(error))[0]
        self.times[kind] += 1
        message = f"{type(error).__name__}: {ascii(str(error))[:300]}\n" + "".join(traceback.format_list(frames[-4:]))
        text = (
            f"document {place} of make fuzz SEED={seed} LIFE={life}\n    {body[:300]!a} ({len(body)} bytes)\n{message}"
        )
        self.first.setdefault(kind, text)

    def merge(self, other):
        self.times.update(other.times)
        for kind, text in other.first.items():
            self.first.setdefault(kind, text)


def live(seed, number, seconds, wrong):
    """One life; it ends with the first thing that is wrong. Its counts."""
    faulthandler.dump_traceback_later(HANG, exit=True)
    life = Life(seed, number)
    for place, body in enumerate(life.documents()):
        began = time.process_time()
        life.counts["documents"] += 1
        try:
            life.read(body)
            took = time.process_time() - began
            life.counts["slowest ms"] = max(life.counts["slowest ms"], round(took * 1000))
            expect(took <= seconds, f"it took {took:.1f} s of CPU")
        except Exception as error:  # whatever it is: that is what is looked for
            wrong.add(error, seed, number, place, body)
            break
    faulthandler.cancel_dump_traceback_later()
    return life.counts


def limit_memory():
    """Let an allocation fail that takes this process too far beyond what it has now."""
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))


def live_many(seed, numbers, seconds):
    """Several lives; their counts, and what was wrong."""
    counts, wrong = collections.Counter(), Wrong()
    for number in numbers:
        of_one = live(seed, number, seconds, wrong)
        slowest = max(counts["slowest ms"], of_one["slowest ms"])
        counts.update(of_one)
        counts["slowest ms"] = slowest
    return counts, wrong


def run(seed, numbers, *, seconds, jobs):
    """All lives, in so many processes; their counts, and what was wrong."""
    parts = [numbers[place : place + LIVES_PER_PART] for place in range(0, len(numbers), LIVES_PER_PART)]
    counts, wrong = collections.Counter(), Wrong()
    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=limit_memory) as pool:
        futures = [pool.submit(live_many, seed, part, seconds) for part in parts]
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            of_part, wrong_of_part = future.result()
            slowest = max(counts["slowest ms"], of_part["slowest ms"])
            counts.update(of_part)
            counts["slowest ms"] = slowest
            wrong.merge(wrong_of_part)
            if done % max(1, len(parts) // 10) == 0:
                print(f"{counts['documents']} documents, {sum(wrong.times.values())} wrong", flush=True)
    return counts, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="a new one unless it is given")
    parser.add_argument("--life", type=int, help="only this life of the seed")
    parser.add_argument("--seconds", type=float, default=2.0, help="of CPU that a document may take (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (%(default)s)")
    chosen = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if chosen.seed is None else chosen.seed
    lives = (
        range(-(-chosen.documents // DOCUMENTS_PER_LIFE))
        if chosen.life is None
        else range(chosen.life, chosen.life + 1)
    )
    print(f"seed {seed}: {len(lives)} lives of {DOCUMENTS_PER_LIFE} documents", flush=True)
    counts, wrong = run(seed, lives, seconds=chosen.seconds, jobs=chosen.jobs)
    for kind, times in wrong.times.most_common():
        print(f"\n== {kind} ({times} times), first in\n{wrong.first[kind]}")
    print(json.dumps({"seed": seed, "wrong": sum(wrong.times.values()), **counts}))
    return 1 if wrong.times else 0


if __name__ == "__main__":
    sys.exit(main())
