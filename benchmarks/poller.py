# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the polling unit costs and how fast it acts, beside a plain loop of `requests.get` without a session.

CPU and memory: the poller polls the emulator without a pause, so that ten thousand polls take a minute; a plain loop
asks the same emulator in the same run, one half before and one half after. Counted is the CPU time of the process
itself, the resident memory after a thousand polls and at the end.

Speed: four pollers, at the interval of a VM, go through events; the emulator tells when an event was announced and when
the acknowledgement came, hooks write down when they begin and end. Hooks are started without systemd.

Prints lines for people and a line of JSON. A missed target is said, and does not change the exit status.
"""

import argparse
import concurrent.futures
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ROOT / "roles" / "poller" / "files"
sys.path[:0] = [str(ROOT / "tests" / "integration" / "support"), str(FILES), str(ROOT / "plugins" / "module_utils")]

EMULATOR = ROOT / "roles" / "emulator" / "files" / "scheduled-events-emulator"
VMS = ("vm1", "vm2", "vm3", "vm4")
INTERVAL = 1.0
TARGET_MEMORY_MIB, TARGET_GROWTH_MIB = 30.0, 1.0
TARGET_HOOK_START = INTERVAL + 0.1
TARGET_POST = 0.2

HOOK = """#!/bin/sh
echo "$SCHEDULED_EVENT_ID begin $(date +%s.%N)" >> {log}
sleep 0.2
echo "$SCHEDULED_EVENT_ID end $(date +%s.%N)" >> {log}
"""


# Processes of their own, so that nothing but what is measured is in them


def poll(endpoint, polls, directory):
    """Be a poller without a pause; at its end print CPU milliseconds a poll, and MiB early and late."""
    from scheduled_events_poller import poller
    from scheduled_events_poller.config import Settings
    from scheduled_events_poller.runner import Directories

    class Measured(poller.Poller):
        seen = 0

        def _poll_succeeded(self, polled):
            super()._poll_succeeded(polled)
            self.seen += 1
            if self.seen == 1000:
                self.early = memory(), cpu()
            if self.seen == polls:
                self._stopping = True

    places = poller.Places(f"{directory}/state.json", Directories(f"{directory}/hooks", directory, directory))
    measured = Measured(lambda: Settings(endpoint=endpoint, vm_name="vm1", interval=0.0), places)
    measured.run()
    early_memory, early_cpu = measured.early
    print(json.dumps([(cpu() - early_cpu) / (polls - 1000) * 1000, early_memory, memory()]))


def loop(endpoint, polls, _directory):
    """Be a plain loop; at its end print CPU milliseconds a request, and MiB."""
    import requests

    url = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"
    for number in range(polls + 20):
        if number == 20:
            began = cpu()
        requests.get(url, headers={"Metadata": "true"}, timeout=5).json()
    print(json.dumps([(cpu() - began) / polls * 1000, memory()]))


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory():
    """Resident memory now, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


ROLES = {"poll": poll, "loop": loop}


def run_as(role, endpoint, polls, directory):
    command = [sys.executable, __file__, "--be", role, "--endpoint", endpoint, "--polls", str(polls)]
    return json.loads(subprocess.check_output([*command, "--directory", str(directory)], timeout=900))


# Figures


def measure_cost(emulator, directory, polls):
    endpoint = emulator.endpoints["vm1"]
    before = run_as("loop", endpoint, polls // 20, directory)
    cost, early, late = run_as("poll", endpoint, polls, directory)
    after = run_as("loop", endpoint, polls // 20, directory)
    plain = statistics.mean([before[0], after[0]])
    return {
        "cpu_ms_per_poll": cost,
        "cpu_ms_per_plain_get": plain,
        "cpu_ratio": cost / plain,
        "memory_mib_after_1000": early,
        "memory_mib_at_end": late,
        "memory_mib_of_plain_loop": after[1],
        "polls": polls,
    }


class Vm:
    def __init__(self, name, endpoint, directory):
        self.name = name
        self.directory = directory
        hook = directory / "hooks" / "prepare.d" / "10-log"
        hook.parent.mkdir(parents=True)
        (directory / "root").mkdir()
        hook.write_text(HOOK.format(log=directory / "hooks.log"))
        hook.chmod(0o755)
        (directory / "poller.json").write_text(json.dumps({"endpoint": endpoint, "interval": INTERVAL}))
        self.process = subprocess.Popen(
            [
                sys.executable,
                str(FILES / "scheduled-events"),
                f"--config={directory / 'poller.json'}",
                f"--state-file={directory / 'state.json'}",
                f"--runtime-directory={directory / 'run'}",
                f"--hooks-directory={directory / 'hooks'}",
                f"--hooks-runtime-directory={directory / 'root'}",
                "run",
                "--spawn-hooks",
            ],
            stderr=subprocess.DEVNULL,
        )

    def moments(self, event_id):
        """When its hook began and ended."""
        try:
            lines = [line.split() for line in (self.directory / "hooks.log").read_text().splitlines()]
        except FileNotFoundError:
            return {}
        return {mark: float(moment) for event, mark, moment in lines if event == event_id}


def go_through(emulator, vm, events):
    """Let the VM prepare so many events one after the other; seconds to hook start, and from hook end to POST."""
    from emulation import until

    starts, posts = [], []
    for number in range(events):
        time.sleep((number * 0.37) % INTERVAL)  # at any moment between two polls
        event_id = emulator.schedule("Reboot", vm.name, notice=900, started_for=1)
        until(
            lambda wanted=event_id: any(event["event_id"] == wanted for event in emulator.state()["ended"]),
            what="the end of an event",
        )
        log = [entry for entry in emulator.log("scheduled", "post") if event_id in json.dumps(entry)]
        at = {entry["kind"]: entry["at_real"] for entry in reversed(log)}
        moments = vm.moments(event_id)
        starts.append(moments["begin"] - at["scheduled"])
        posts.append(at["post"] - moments["end"])
    return starts, posts


def measure_speed(emulator, directory, events):
    vms = []
    for name in VMS:
        place = directory / name
        place.mkdir()
        vms.append(Vm(name, emulator.endpoints[name], place))
    try:
        time.sleep(2)
        with concurrent.futures.ThreadPoolExecutor(len(vms)) as threads:
            parts = list(threads.map(lambda vm: go_through(emulator, vm, events // len(vms)), vms))
    finally:
        for vm in vms:
            vm.process.terminate()
            vm.process.wait(10)
    starts = sorted(value for part in parts for value in part[0])
    posts = sorted(value for part in parts for value in part[1])
    return {
        "events": len(starts),
        "hook_start_s_p50": statistics.median(starts),
        "hook_start_s_p99": quantile(starts, 0.99),
        "post_ms_p50": statistics.median(posts) * 1000,
        "post_ms_p99": quantile(posts, 0.99) * 1000,
    }


def quantile(ordered, share):
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def say(figures):
    def verdict(met):
        return "met" if met else "MISSED"

    growth = figures["memory_mib_at_end"] - figures["memory_mib_after_1000"]
    met = figures["memory_mib_at_end"] <= TARGET_MEMORY_MIB and growth <= TARGET_GROWTH_MIB
    print(
        f"CPU: {figures['cpu_ms_per_poll']:.2f} ms a poll, which is {figures['cpu_ratio']:.2f} of a plain requests.get"
        f" ({figures['cpu_ms_per_plain_get']:.2f} ms)"
    )
    print(
        f"Memory after {figures['polls']} polls: {figures['memory_mib_at_end']:.1f} MiB, {growth:+.1f} since the first"
        f" 1000 (plain loop: {figures['memory_mib_of_plain_loop']:.1f}); target {TARGET_MEMORY_MIB:g} MiB, no growth:"
        f" {verdict(met)}"
    )
    print(
        f"Event to hook start: p50 {figures['hook_start_s_p50']:.2f} s, p99 {figures['hook_start_s_p99']:.2f} s of"
        f" {figures['events']} events; target {TARGET_HOOK_START:g} s:"
        f" {verdict(figures['hook_start_s_p99'] <= TARGET_HOOK_START)}"
    )
    print(
        f"Hook end to POST: p50 {figures['post_ms_p50']:.0f} ms, p99 {figures['post_ms_p99']:.0f} ms; target"
        f" {TARGET_POST * 1000:.0f} ms: {verdict(figures['post_ms_p99'] <= TARGET_POST * 1000)}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--polls", type=int, default=10000, help="at least 1001")
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--be", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.be:
        ROLES[chosen.be](chosen.endpoint, chosen.polls, chosen.directory)
        return
    from emulation import Emulator

    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        options = ("--rate-limit", "0", "--exit-after", "1800")
        emulator = Emulator(EMULATOR, directory, [{"name": name} for name in VMS], options)
        try:
            figures = {**measure_cost(emulator, directory, chosen.polls)}
            figures.update(measure_speed(emulator, directory, chosen.events))
        finally:
            emulator.stop()
    say(figures)
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
