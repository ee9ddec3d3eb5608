# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one look of the gate of rolling_maintenance costs the control node, for fleets of hundreds and thousands.

ansible-playbook runs the role for a fleet whose connections reach no machine: each gives the answer of a host without
events, after the time that a host takes. All else is real: the inventory, the variables, the module that is built for
each host, and the processes. The run is ended when its first batch has passed the gate.

The memory is the proportional set size of all processes of the run. The CPU time is that of the gate, children
included. A line extrapolates to 5,000 hosts, from the growth between the two largest fleets.

Prints lines for people and a line of JSON. A missed target is shown, and the exit status is then 1.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "integration" / "support"), str(ROOT / "benchmarks")]
from respond_scale import cpu_of_tree  # noqa: E402 - found only through the path set above, as is the next

from playbooks import COLLECTION, Ansible  # noqa: E402

TARGETS = {1000: 60.0}  # seconds of one look, by the number of hosts
ON_PAPER = 5000
BATCH = 10
VARIABLES = 20  # of each host beside those of the connection, one in four of which is a template
LAST_BEFORE = "Read which hosts get no traffic from the load balancer"  # the task of the role before the gate
GATE = "Wait until the batch may begin"
LIMIT = 900.0
ANSWER = {
    "changed": True,
    "marked": False,
    "unmarked_because": "",
    "mark": None,
    "unfinished": {},
    "drained": False,
    "drained_because": "",
    "returning": None,
    "records": {},
    "waiting": [],
    "events": [],
    "drill": False,
    "vm_name": "HOST",
    "problem": "",
    "boot_id": "1e2b2f0e-6a0d-4b43-a4a5-5f0f5d4f4d0b",
}


def inventory_of(hosts):
    """A fleet with variables as people have them."""
    own = {f"variable_{number}": f"value {number}" for number in range(VARIABLES)}
    own.update({f"variable_{number}": "{{ inventory_hostname }}.example.com" for number in range(0, VARIABLES, 4)})
    own.update(ansible_connection="answers", ansible_python_interpreter="/usr/bin/python3")
    names = [f"web{number:04}" for number in range(1, hosts + 1)]
    return {"all": {"hosts": {name: {} for name in names}, "vars": own}}


def memory_of_tree(pid):
    """Proportional set size of a process and its descendants, in bytes."""
    try:
        rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    own = next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return own + sum(memory_of_tree(child) for child in children)


def measure(ansible, directory, hosts, options):
    """One look at so many hosts."""
    answer, count, tasks = directory / "answer.json", directory / "count", directory / "tasks.yml"
    answer.write_text(json.dumps(ANSWER))
    count.touch()
    tasks.write_text(json.dumps([{"ansible.builtin.debug": {"msg": "maintained"}}]))
    variables = {
        "rolling_maintenance_tasks": str(tasks),
        "rolling_maintenance_reboot": "never",
        "rolling_maintenance_load_balancer": False,
        "rolling_maintenance_max_unavailable": BATCH,
        "rolling_maintenance_settle": 0,
    }
    playbook = [
        {
            "hosts": "all",
            "gather_facts": False,
            "serial": BATCH,
            "vars": variables,
            "roles": [{"role": f"{COLLECTION}.rolling_maintenance"}],
        }
    ]
    env = {"ANSWERS": str(answer), "ANSWERS_AFTER": str(options.host_seconds), "ANSWERS_COUNT": str(count)}
    started = ansible.start_playbook(
        playbook, inventory=inventory_of(hosts), options=("--forks", str(options.forks)), env=env
    )
    pid, cpu_before, memory = started._process.pid, None, 0
    give_up_at, next_sample = time.monotonic() + LIMIT, 0.0
    try:
        while not (passed := started.all(task=GATE)):
            if not started.running or time.monotonic() > give_up_at:
                sys.exit(f"no batch passed the gate: {started.output}")
            if len(started.all(task=LAST_BEFORE)) < BATCH:
                cpu_before = cpu_of_tree(pid)
            if time.monotonic() >= next_sample:
                memory, next_sample = max(memory, memory_of_tree(pid)), time.monotonic() + 2.0
            time.sleep(0.1)
        cpu = cpu_of_tree(pid)
        if passed[0].failed or count.stat().st_size < hosts:
            sys.exit(f"{count.stat().st_size} of {hosts} hosts were asked: {started.output}")
    finally:
        started.stop()
        for left in started.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)
    return {
        "hosts": hosts,
        "forks": options.forks,
        "seconds": round(passed[0].seconds, 1),
        "cpu": round(cpu - (cpu_before or 0.0), 1),
        "memory_mib": round(memory / 2**20),
    }


def on_paper(rows, hosts):
    """The seconds of a look at more hosts, by the growth between the last two fleets."""
    [before, last] = rows[-2:]
    each = (last["seconds"] - before["seconds"]) / (last["hosts"] - before["hosts"])
    return round(last["seconds"] + each * (hosts - last["hosts"]), 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[200, 500, 1000], help="how many hosts to try")
    parser.add_argument("--forks", type=int, default=50, help="forks of Ansible")
    parser.add_argument("--host-seconds", type=float, default=0.5, help="that a host takes for its answer")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows, problems = [], []
    with tempfile.TemporaryDirectory(prefix="gate-", ignore_cleanup_errors=True) as base:
        ansible = Ansible(pathlib.Path(base))
        for hosts in options.hosts:
            directory = pathlib.Path(base) / str(hosts)
            directory.mkdir()
            row = measure(ansible, directory, hosts, options)
            rows.append(row)
            print(
                f"{hosts:5} hosts, {row['forks']} forks: one look in {row['seconds']} s with {row['cpu']} CPU s, "
                f"{1000 * row['cpu'] / hosts:.0f} ms a host; the run has {row['memory_mib']} MiB",
                flush=True,
            )
            if row["seconds"] > TARGETS.get(hosts, LIMIT):
                problems.append(f"{row['seconds']} s for {hosts} hosts > {TARGETS[hosts]}")
    paper = on_paper(rows, ON_PAPER) if len(rows) > 1 else None
    if paper:
        print(f"{ON_PAPER} hosts on paper, by the growth: {paper} s")
    for problem in problems:
        print("missed:", problem)
    print(json.dumps({"benchmark": "gate", "missed": problems, "rows": rows, "on_paper": {ON_PAPER: paper}}))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
