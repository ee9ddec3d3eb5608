# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role respond costs with more and more hosts, beside tasks that do nothing.

Each host has an event of its own, that is over a second after it is acknowledged. After each run of respond, a play
with as many tasks for each host follows: `ping` where respond ran a module on the host, `debug` where it only thought
on the controller (includes count as such). Both use the strategy free and as many forks as hosts. All hosts are this
machine, so the CPU time holds what runs on the hosts, on both sides.

Prints lines for people and a line of JSON. A missed target is said, and does not change the exit status.
"""

import argparse
import collections
import json
import pathlib
import resource
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "integration" / "support"))
from emulation import Emulator  # noqa: E402 - found only through the path set above, as is the next

from playbooks import COLLECTION, Ansible  # noqa: E402

EMULATOR = ROOT / "roles" / "emulator" / "files" / "scheduled-events-emulator"
THINKING = {"set_fact", "include_tasks", "include_role", "debug", "assert", "fail"}
TARGET = 1.25  # cost per host with the most hosts, as a multiple of that with the fewest, beside the same of no-ops
LIMIT = 1500.0


def measured(started):
    """Wait for a run: seconds and CPU seconds that it took, and the run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = started.result(timeout=LIMIT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.rc:
        sys.exit(run.output)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return run.ended - run.started, cpu, run


def kind(result):
    return "debug" if result.action.rpartition(".")[2] in THINKING or result.status == "skipped" else "ping"


def no_ops(run, name):
    """Tasks that do nothing, as many and of the kinds that one host had."""
    results = [result for result in run.tasks if result.host == name]
    return [
        {"name": "Nothing", f"ansible.builtin.{kind(result)}": None if kind(result) == "ping" else {"msg": "nothing"}}
        for result in results
    ]


def measure(ansible, directory, hosts):
    names = [f"vm{number}" for number in range(1, hosts + 1)]
    vms = [{"name": name, "kind": "availability_set", "set": "web"} for name in names]
    emulator = Emulator(EMULATOR, directory, vms, ("--rate-limit", "0", "--exit-after", "3600"))
    try:
        for name in names:
            emulator.schedule("Reboot", name, notice=3600, started_for=1)
        inventory = emulator.inventory(
            respond_endpoint=lambda name: emulator.endpoints[name],
            respond_state_directory=lambda name: str(directory / name),
        )
        forks = ("--forks", str(hosts))
        variables = {"respond_become": False}
        how = {"inventory": inventory, "options": forks, "extra_vars": variables}
        seconds, cpu, run = measured(ansible.start_playbook(f"{COLLECTION}.respond", **how))
        if len(emulator.posts()) != hosts:
            sys.exit(f"{len(emulator.posts())} acknowledgements for {hosts} events")
        tasks = no_ops(run, names[0])
        play = {"hosts": "all", "gather_facts": False, "strategy": "ansible.builtin.free", "tasks": tasks}
        plain_seconds, plain_cpu, _run = measured(ansible.start_playbook([play], **how))
    finally:
        emulator.stop()
    by_action = collections.Counter()
    for result in run.tasks:
        by_action[result.action.rpartition(".")[2]] += result.seconds / hosts
    return {
        "hosts": hosts,
        "tasks_per_host": len(tasks),
        "on_the_host": sum("ansible.builtin.ping" in task for task in tasks),
        "seconds_per_host": round(seconds / hosts, 2),
        "cpu_per_host": round(cpu / hosts, 2),
        "no_op_seconds_per_host": round(plain_seconds / hosts, 2),
        "no_op_cpu_per_host": round(plain_cpu / hosts, 2),
        "ratio": round(seconds / plain_seconds, 2),
        "cpu_ratio": round(cpu / plain_cpu, 2),
        "slowest_actions": {action: round(value, 2) for action, value in by_action.most_common(5)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[4, 16, 64], help="how many hosts to try")
    sizes = parser.parse_args().hosts
    rows = []
    with tempfile.TemporaryDirectory(prefix="respond-scale-") as base:
        ansible = Ansible(pathlib.Path(base))
        for hosts in sizes:
            directory = pathlib.Path(base) / f"hosts-{hosts}"
            directory.mkdir()
            rows.append(measure(ansible, directory, hosts))
            row = rows[-1]
            print(
                f"{hosts:3} hosts: respond {row['seconds_per_host']} s and {row['cpu_per_host']} CPU s a host, "
                f"{row['tasks_per_host']} no-op tasks ({row['on_the_host']} of them on the host) "
                f"{row['no_op_seconds_per_host']} s and {row['no_op_cpu_per_host']} CPU s: "
                f"{row['ratio']} times the time, {row['cpu_ratio']} times the CPU",
                flush=True,
            )
    growth = rows[-1]["cpu_per_host"] / rows[0]["cpu_per_host"]
    print(f"CPU per host with {sizes[-1]} hosts is {growth:.2f} times that with {sizes[0]} (target: at most {TARGET})")
    print(json.dumps({"benchmark": "respond_scale", "growth": round(growth, 2), "rows": rows}))


if __name__ == "__main__":
    main()
