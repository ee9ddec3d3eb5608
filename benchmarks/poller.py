# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the polling unit costs and how fast it acts, beside a plain loop of `requests` without a session.

CPU and memory: the unit polls the emulator without a pause, so that ten thousand polls take a minute; a plain loop asks
the same emulator in the same run, before and after. Counted is the CPU time of the process itself, and its resident
memory after a thousand polls and at the end.

Speed: four units and four plain loops, which run the hook and acknowledge by themselves, go through events side by
side at the interval of a VM. The emulator says when an event was announced and when the acknowledgement came, hooks
write down when they begin and end. Hooks are started without systemd.

Many events: a unit and a plain loop each get twenty at once, from an emulator that throttles like the service.
The plain loop acknowledges them one after the other, and reads the document again before each.

Prints lines for people and a line of JSON. A missed target is said, and does not change the exit status. With the
defaults it takes two minutes, and with `--polls 500 --events 4` half a minute.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ROOT / "roles" / "poller" / "files"
TESTS = ROOT / "tests"
PLACES = (TESTS / "integration" / "support", TESTS / "support", FILES, ROOT / "plugins" / "module_utils")
sys.path[:0] = map(str, PLACES)

EMULATOR = ROOT / "roles" / "emulator" / "files"
WAYS = ("unit", "plain")
PAIRS = 4
INTERVAL = 1.0
MANY = 20
WARM = 1000  # polls before the CPU time counts
LIMIT = 300.0  # seconds for one step; only so that a hang is named

TARGET_MEMORY_MIB, TARGET_GROWTH_MIB = 3.0, 1.0  # more than the plain loop; more than after the first polls
TARGET_HOOK_START = INTERVAL + 0.1
TARGET_POST = 0.2
TARGET_MANY = 2.0

HOOK = """#!/bin/sh
echo "$SCHEDULED_EVENT_ID begin $(date +%s.%N)" >> {log}
sleep 0.2
echo "$SCHEDULED_EVENT_ID end $(date +%s.%N)" >> {log}
"""


# Separate processes, which do nothing but the measured work


def be_unit(endpoint, directory, interval):
    """Be the polling unit, whose hooks are in the directory. Without hooks, a rule says that it may acknowledge."""
    from _scheduled_events.rules import APPROVE, Rule
    from scheduled_events_poller.spool import Directories
    from scheduled_events_poller.unit import poller
    from scheduled_events_poller.unit.config import Settings

    directories = Directories(f"{directory}/hooks", f"{directory}/run", f"{directory}/root")
    places = poller.Places(f"{directory}/state.json", directories)
    rules = () if os.listdir(f"{directory}/hooks/prepare.d") else (Rule(APPROVE),)
    settings = Settings(endpoint=endpoint, interval=interval, rules=rules)
    poller.Poller(lambda: settings, places).run()


def be_plain(endpoint, directory, interval):
    """Be a plain loop, which runs the hook in the directory and acknowledges one event after the other."""
    import requests

    url = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"
    headers = {"Metadata": "true"}
    hook = pathlib.Path(directory) / "hooks" / "prepare.d" / "10-log"
    done = set()

    def asked(method, body=None):
        """The answer, asked for again as long as the service throttles."""
        while True:
            answer = requests.request(method, url, headers=headers, json=body, timeout=5)
            if answer.status_code != 429:
                return answer
            time.sleep(1)

    while True:
        began = time.monotonic()
        for event in asked("GET").json()["Events"]:
            event_id = event["EventId"]
            if event_id in done or event["EventStatus"] != "Scheduled":
                continue
            if hook.exists():
                subprocess.run([hook], env={**os.environ, "SCHEDULED_EVENT_ID": event_id}, check=True)
            if any(each["EventId"] == event_id for each in asked("GET").json()["Events"]):
                asked("POST", {"StartRequests": [{"EventId": event_id}]})
            done.add(event_id)
        time.sleep(max(0.0, interval - (time.monotonic() - began)))


ROLES = {"unit": be_unit, "plain": be_plain}


def hook_units(directory):
    """The stand-in for systemd, which runs the hooks of the polling unit in the directory."""
    from hook_units import HookUnits, root_command

    return HookUnits(root_command(FILES, directory), directory, "log")


class Running:
    """A process in one of the roles, for a VM of the emulator."""

    def __init__(self, role, emulator, vm, directory, *, interval=INTERVAL, hook=False):
        self.vm, self._directory = vm, directory / vm
        (self._directory / "hooks" / "prepare.d").mkdir(parents=True, exist_ok=True)
        (self._directory / "root").mkdir(exist_ok=True)
        if hook:
            path = self._directory / "hooks" / "prepare.d" / "10-log"
            path.write_text(HOOK.format(log=self._directory / "hooks.log"))
            path.chmod(0o755)
        command = [sys.executable, __file__, "--be", role, "--endpoint", emulator.endpoints[vm]]
        command += ["--directory", str(self._directory), "--interval", str(interval)]
        self._hook_units = hook_units(self._directory)
        if role == "unit":
            self._hook_units.start()
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def cpu(self):
        """CPU seconds so far."""
        fields = pathlib.Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Resident memory now, in MiB."""
        fields = pathlib.Path(f"/proc/{self._process.pid}/statm").read_text().split()
        return int(fields[1]) * resource.getpagesize() / 2**20

    def moments(self, event_id):
        """When its hook began and ended."""
        try:
            lines = [line.split() for line in (self._directory / "hooks.log").read_text().splitlines()]
        except FileNotFoundError:
            return {}
        return {mark: float(moment) for event, mark, moment in lines if event == event_id}

    def check(self):
        """Give up if the process has ended by itself."""
        if self._process.poll() is not None:
            sys.exit(f"{self.vm} has ended:\n{(self._directory / 'log').read_text()}")

    def stop(self):
        self._process.terminate()
        self._process.wait(60)
        self._hook_units.stop()


def wait(condition, running, what):
    """Wait for a condition while these processes run."""
    from emulation import until

    def checked():
        for each in running:
            each.check()
        return condition()

    until(checked, timeout=LIMIT, what=what)


# Figures


def cost_of(role, emulator, vm, directory, polls):
    """CPU milliseconds of a poll, and MiB early and late."""
    running = Running(role, emulator, vm, directory, interval=0.0)

    def polled():
        return emulator.polls(vm)["polls"]

    try:
        start = polled()
        wait(lambda: polled() >= start + WARM, [running], f"{WARM} polls")
        early_polls, early_cpu, early_memory = polled(), running.cpu(), running.memory()
        wait(lambda: polled() >= start + WARM + polls, [running], f"{polls} polls")
        late_polls, late_cpu, late_memory = polled(), running.cpu(), running.memory()
    finally:
        running.stop()
    return (late_cpu - early_cpu) / (late_polls - early_polls) * 1000, early_memory, late_memory


def measure_cost(emulator, directory, polls):
    before = cost_of("plain", emulator, "plain1", directory, max(200, polls // 10))
    cost, early, late = cost_of("unit", emulator, "unit1", directory, polls)
    after = cost_of("plain", emulator, "plain1", directory, max(200, polls // 10))
    plain = statistics.mean([before[0], after[0]])
    return {
        "cpu_ms_per_poll": cost,
        "cpu_ms_per_plain_get": plain,
        "cpu_ratio": cost / plain,
        "memory_mib_after_1000": early,
        "memory_mib_at_end": late,
        "memory_mib_of_plain_loop": after[2],
        "memory_ratio": late / after[2],
        "polls": polls,
    }


def go_through(emulator, running, events):
    """Let the VM prepare so many events one after the other; seconds to hook start, and from hook end to POST."""
    starts, posts = [], []
    for number in range(events):
        time.sleep((number * 0.37) % INTERVAL)  # at any moment between two polls
        event_id = emulator.schedule("Reboot", running.vm, notice=900, started_for=1)
        wait(
            lambda wanted=event_id: any(event["event_id"] == wanted for event in emulator.state()["ended"]),
            [running],
            "the end of an event",
        )
        log = [entry for entry in emulator.log("scheduled", "post") if event_id in json.dumps(entry)]
        at = {entry["kind"]: entry["at_real"] for entry in reversed(log)}
        moments = running.moments(event_id)
        starts.append(moments["begin"] - at["scheduled"])
        posts.append(at["post"] - moments["end"])
    return starts, posts


def measure_speed(emulator, directory, events):
    vms = {
        way: [Running(way, emulator, f"{way}{n}", directory, hook=True) for n in range(2, 2 + PAIRS)] for way in WAYS
    }
    everyone = [running for way in WAYS for running in vms[way]]
    try:
        wait(lambda: all(emulator.polls(each.vm)["polls"] > 1 for each in everyone), everyone, "the first polls")
        with concurrent.futures.ThreadPoolExecutor(len(everyone)) as threads:
            futures = {
                way: [threads.submit(go_through, emulator, vm, events // PAIRS) for vm in vms[way]] for way in WAYS
            }
            parts = {way: [future.result() for future in futures[way]] for way in WAYS}
    finally:
        for each in everyone:
            each.stop()
    figures = {"events": events // PAIRS * PAIRS}
    for way, prefix in (("unit", ""), ("plain", "plain_")):
        starts = sorted(value for part in parts[way] for value in part[0])
        posts = sorted(value for part in parts[way] for value in part[1])
        figures[f"{prefix}hook_start_s_p50"] = statistics.median(starts)
        figures[f"{prefix}hook_start_s_p99"] = quantile(starts, 0.99)
        figures[f"{prefix}post_ms_p50"] = statistics.median(posts) * 1000
        figures[f"{prefix}post_ms_p99"] = quantile(posts, 0.99) * 1000
    figures["hook_start_ratio_p99"] = figures["hook_start_s_p99"] / figures["plain_hook_start_s_p99"]
    figures["post_ratio_p99"] = figures["post_ms_p99"] / figures["plain_post_ms_p99"]
    return figures


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure_many(emulator, directory):
    """Twenty events for a unit, and twenty for a plain loop: seconds until the last is acknowledged, and requests."""
    vms = {way: Running(way, emulator, way, directory) for way in WAYS}
    everyone = list(vms.values())
    try:
        wait(lambda: all(emulator.polls(way)["polls"] > 1 for way in WAYS), everyone, "the first polls")
        time.sleep(2)  # so that no request of the start counts towards the rate
        before = {way: emulator.polls(way) for way in WAYS}
        ids = {way: set() for way in WAYS}
        for _number in range(MANY):
            for way in WAYS:
                ids[way].add(emulator.schedule("Reboot", way, notice=3600, started_for=3600))
        announced = max(entry["at_real"] for entry in emulator.log("scheduled"))
        figures = {}
        for way, prefix in (("unit", "many_"), ("plain", "plain_many_")):
            wait(lambda way=way: ids[way] <= acknowledged(emulator, way).keys(), [vms[way]], f"all events of {way}")
            last = max(acknowledged(emulator, way).values())
            after = emulator.polls(way)
            figures[f"{prefix}s"] = last - announced
            figures[f"{prefix}posts"] = after["posts"] - before[way]["posts"]
            figures[f"{prefix}429s"] = after["throttled"] - before[way]["throttled"]
    finally:
        for each in everyone:
            each.stop()
    figures["many_ratio"] = figures["many_s"] / figures["plain_many_s"]
    return figures


def acknowledged(emulator, vm):
    """Id → the moment of its first acknowledgement by this VM."""
    found = {}
    for entry in emulator.log("post"):
        if entry["vm"] == vm:
            for event_id in entry["approved"]:
                found.setdefault(event_id, entry["at_real"])
    return found


def say(figures):
    def verdict(met):
        return "met" if met else "MISSED"

    growth = figures["memory_mib_at_end"] - figures["memory_mib_after_1000"]
    above = figures["memory_mib_at_end"] - figures["memory_mib_of_plain_loop"]
    met = above <= TARGET_MEMORY_MIB and growth <= TARGET_GROWTH_MIB
    print(
        f"CPU: {figures['cpu_ms_per_poll']:.2f} ms a poll, which is {figures['cpu_ratio']:.2f} of a plain requests.get"
        f" ({figures['cpu_ms_per_plain_get']:.2f} ms)"
    )
    print(
        f"Memory after {figures['polls']} polls: {figures['memory_mib_at_end']:.1f} MiB, {above:+.1f} to the plain"
        f" loop, {growth:+.1f} since the first {WARM}; target {TARGET_MEMORY_MIB:+g} MiB, no growth: {verdict(met)}"
    )
    print(
        f"Event to hook start: p50 {figures['hook_start_s_p50']:.2f} s, p99 {figures['hook_start_s_p99']:.2f} s of"
        f" {figures['events']} events, {figures['hook_start_ratio_p99']:.2f} of the plain loop; target"
        f" {TARGET_HOOK_START:g} s: {verdict(figures['hook_start_s_p99'] <= TARGET_HOOK_START)}"
    )
    print(
        f"Hook end to POST: p50 {figures['post_ms_p50']:.0f} ms, p99 {figures['post_ms_p99']:.0f} ms,"
        f" {figures['post_ratio_p99']:.2f} of the plain loop; target {TARGET_POST * 1000:.0f} ms:"
        f" {verdict(figures['post_ms_p99'] <= TARGET_POST * 1000)}"
    )
    print(
        f"{MANY} events at once: acknowledged after {figures['many_s']:.1f} s with {figures['many_posts']} POSTs and"
        f" {figures['many_429s']} times 429, plain loop {figures['plain_many_s']:.1f} s,"
        f" {figures['plain_many_posts']} and {figures['plain_many_429s']}; target {TARGET_MANY:g} s:"
        f" {verdict(figures['many_s'] <= TARGET_MANY)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--polls", type=int, default=10000)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--be", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    parser.add_argument("--interval", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.be:
        ROLES[chosen.be](chosen.endpoint, chosen.directory, chosen.interval)
        return
    from emulation import Emulator

    figures = {}
    with tempfile.TemporaryDirectory() as temporary:
        names = [f"{way}{number}" for way in WAYS for number in range(1, 2 + PAIRS)]
        for place, vms, rate in (("fast", names, "0"), ("throttled", WAYS, "5")):
            directory = pathlib.Path(temporary) / place
            directory.mkdir()
            options = ("--rate-limit", rate, "--exit-after", "1800")
            emulator = Emulator(EMULATOR, directory, [{"name": name} for name in vms], options)
            try:
                if place == "fast":
                    figures.update(measure_cost(emulator, directory, chosen.polls))
                    figures.update(measure_speed(emulator, directory, chosen.events))
                else:
                    figures.update(measure_many(emulator, directory))
            finally:
                emulator.stop()
    say(figures)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
