# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the event filter azure_events costs: the messages of the emulator about 500 events of 5,000 VMs.

Each event names ten VMs of a set, and is scheduled, starts and completes. Each message comes twice, and all are
shuffled. The filter alone is measured, in this process, without ansible-rulebook: the time of each call, the CPU time,
and the memory that the filter adds.

Prints lines for people and a line of JSON.
"""

import argparse
import importlib.util
import json
import pathlib
import random
import statistics
import sys
import time
import tracemalloc

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "roles" / "emulator" / "files"))
from scheduled_events_emulator.clock import Clock  # noqa: E402 - found only through the path set above
from scheduled_events_emulator.event_grid import EVENT_GRID, Delivery, Outbox  # noqa: E402
from scheduled_events_emulator.events import parse_spec  # noqa: E402
from scheduled_events_emulator.fleet import parse_fleet  # noqa: E402
from scheduled_events_emulator.platform import Journal, Platform  # noqa: E402

FILTER = ROOT / "extensions" / "eda" / "plugins" / "event_filter" / "azure_events.py"
VMS_OF_AN_EVENT = 10


def messages(vms: int, events: int) -> list[dict]:
    """The messages of the events, each twice and in a random order."""
    machines = [
        {
            "name": f"web{number // VMS_OF_AN_EVENT}_{number % VMS_OF_AN_EVENT}",
            "kind": "scale_set_uniform",
            "set": f"web{number // VMS_OF_AN_EVENT}",
            "from": [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"],
        }
        for number in range(vms)
    ]
    fleet, clock = parse_fleet({"vms": machines}), Clock(1_650_000_000.0, speed=0)
    outbox = Outbox(fleet, Delivery(), monotonic=clock.now)
    platform = Platform(fleet, clock, Journal(clock.real_at), publish=outbox.add)
    for number in range(events):
        group = number % (vms // VMS_OF_AN_EVENT)
        names = [f"web{group}_{instance}" for instance in range(VMS_OF_AN_EVENT)]
        platform.schedule(parse_spec({"type": "Redeploy", "vms": names}))
    clock.move_to(clock.now() + 86400)
    platform.sync()
    found = [message.to_json(EVENT_GRID) for message in outbox.messages] * 2
    random.Random(0).shuffle(found)  # noqa: S311 - no secret
    return found


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vms", type=int, default=5000)
    parser.add_argument("--events", type=int, default=500)
    arguments = parser.parse_args()
    arriving = [{"payload": message} for message in messages(arguments.vms, arguments.events)]
    spec = importlib.util.spec_from_file_location("azure_events", FILTER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    passed, seconds, began = 0, [], time.process_time()
    for event in arriving:
        start = time.perf_counter()
        passed += "change" in module.main(event)
        seconds.append(time.perf_counter() - start)
    cpu = time.process_time() - began
    module._KNOWN.clear()
    tracemalloc.start()
    for event in arriving:
        module.main(event)
    kept, _peak = tracemalloc.get_traced_memory()
    quantiles = statistics.quantiles(seconds, n=100)
    result = {
        "vms": arguments.vms,
        "events": arguments.events,
        "messages": len(arriving),
        "passed": passed,
        "p50_ms": round(quantiles[49] * 1000, 3),
        "p99_ms": round(quantiles[98] * 1000, 3),
        "cpu_seconds": round(cpu, 2),
        "kept_kib": kept // 1024,
    }
    print(f"{result['messages']} messages about {result['events']} events of {result['vms']} VMs, {passed} changes")
    print(f"a message: p50 {result['p50_ms']} ms, p99 {result['p99_ms']} ms; CPU {result['cpu_seconds']} s")
    print(f"memory that stays: {result['kept_kib']} KiB")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
