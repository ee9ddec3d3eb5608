# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role respond costs up to the acknowledgements, beside a playbook that is written by hand.

All drain with the same command. The role is imported as in the playbook of the collection. The playbook by hand reads
the events, drains, and acknowledges: it remembers nothing, waits for nothing, and brings nothing back. All use as many
forks as hosts, at most 20, or `--forks`. All hosts are this machine, so the CPU time holds what runs on the hosts, on
all sides.

Two shapes: `each` is an event for each host, and the time ends with the last acknowledgement. `one` is one event that
names all hosts: one host acknowledges it when all have drained. The role runs under both strategies.

One turn on a host without events is compared with scheduled_events_info: the CPU time of the module on the host.

Where other programs use the machine, only the CPU seconds and the number of module runs of all hosts mean something.

`--load N` keeps N busy loops beside the runs; `--notice S` announces Spot evictions S seconds ahead, once everything is
ready, and starts the playbook at once.

Python keeps the byte code of Ansible and `requests`, as an installation with pip or from packages has it. A run that is
not counted fills that cache, which is the benchmark's own. Python compiles each module that Ansible sends at each run,
and Ansible has its own defaults.

Prints lines for people and a line of JSON. A missed target is shown, and the exit status is then 1.
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["TIER"] = "soak"  # without what makes runs of Ansible and modules faster for the tests
sys.path.insert(0, str(ROOT / "tests" / "integration" / "support"))
from emulation import Emulator  # noqa: E402 - found only through the path set above, as is the next
from modules import COUNTING_SHELL, cpu_of_commands  # noqa: E402

from playbooks import COLLECTION, Ansible, play  # noqa: E402

EMULATOR = ROOT / "roles" / "emulator" / "files"
ON_CONTROLLER = {"set_fact", "include_tasks", "include_role", "debug", "assert", "fail", "meta"}
DRAIN = {"name": "Drain", "ansible.builtin.command": "true"}
BY_HAND = [
    {
        "name": "Read the events of this VM",
        f"{COLLECTION}.scheduled_events_info": {"endpoint": "{{ imds_endpoint }}", "event_statuses": ["Scheduled"]},
        "register": "maintenance",
    },
    {**DRAIN, "when": "maintenance.events | length > 0"},
    {
        "name": "Acknowledge",
        f"{COLLECTION}.scheduled_event_approve": {
            "endpoint": "{{ imds_endpoint }}",
            "event_id": "{{ maintenance.events | map(attribute='event_id') }}",
        },
    },
]
EACH, ONE = "each", "one"
BY_HAND_SIDE = "by_hand"
SIDES = (BY_HAND_SIDE, "free", "linear")
STARTED_FOR = {EACH: 20, ONE: 2}  # seconds; where hosts have an event each, the last one acknowledges later
# Times the playbook by hand, with one event for all: seconds by the number of hosts, and CPU seconds.
TIME_TARGETS = {1: 1.1, 4: 1.1, 16: 1.1, 64: 1.2, 256: 1.2}
EACH_TIME_TARGETS = {16: 1.2}  # with an event for each host
TIME_TARGET, CPU_RATIO_TARGET = 1.5, 1.2
CPU_TARGET = 30.0  # seconds for 16 hosts
RESULTS_TARGET, MODULES_TARGET = 9, 4  # for a host before its acknowledgement
MOST_FORKS = 20
TURNS, TURN_TARGET = 10, 1.2  # how many are measured; times the CPU of scheduled_events_info
SPOT_TARGET = 15.0  # seconds from the start to the acknowledgement, with load 20
LIMIT = 1500.0
MEMORY_INTERVAL = 0.5  # seconds between two looks
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_of_tree(pid):
    """CPU seconds of a process, its ended children, and its live descendants."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(cpu_of_tree(child) for child in children)


def memory_of_controller(pid):
    """MiB of the main process of Ansible, and of it together with what each of its workers does not share with it."""
    own, alone = _kilobytes(pid, "Rss"), 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        workers = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        alone = sum(_kilobytes(worker, "Private_Clean", "Private_Dirty") for worker in workers)
    return own / 1024, (own + alone) / 1024


def _kilobytes(pid, *names):
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    fields = [line.split() for line in lines]
    return sum(int(each[1]) for each in fields if each[0].rstrip(":") in names)


class Memory:
    """The peaks of the memory of a run of Ansible in MiB: of its main process, and with all its workers."""

    def __init__(self, pid):
        self._pid, self._next, self.main, self.tree = pid, 0.0, 0.0, 0.0

    def look(self):
        if time.monotonic() >= self._next:
            main, tree = memory_of_controller(self._pid)
            self.main, self.tree = max(self.main, main), max(self.tree, tree)
            self._next = time.monotonic() + MEMORY_INTERVAL


def to_the_posts(emulator, started, events, memory):
    """Wait until every event is acknowledged: seconds since the start, CPU seconds, and the results until then."""
    give_up_at, cpu = time.monotonic() + LIMIT, 0.0
    while len(emulator.posts()) < events:
        cpu = cpu_of_tree(started._process.pid)
        memory.look()
        if not started.running and len(emulator.posts()) < events:
            sys.exit(started.output)
        if time.monotonic() > give_up_at:
            sys.exit(f"no {events} acknowledgements in {LIMIT:g} s: {started.output}")
        time.sleep(0.05)
    cpu = max(cpu, cpu_of_tree(started._process.pid))  # it may have ended in between
    last = max(entry["at_real"] for entry in emulator.log("post"))
    return last - started._started, cpu, started.tasks


def playbook_of(side, shape, prepare):
    if side != BY_HAND_SIDE:
        own = {"respond_prepare_tasks": str(prepare)}
        role = {"ansible.builtin.import_role": {"name": f"{COLLECTION}.respond", "rolespec_validate": False}}
        return {"strategy": f"ansible.builtin.{side}", "tasks": [role], "vars": own}
    [*others, acknowledge] = BY_HAND
    return {"tasks": [*others, {**acknowledge, "run_once": shape == ONE}]}


def measure(ansible, directory, shape, hosts, options):
    notice, forks = options.notice, options.forks or min(hosts, MOST_FORKS)
    names = [f"vm{number}" for number in range(1, hosts + 1)]
    vms = [{"name": name, "kind": "availability_set", "set": "web"} for name in names]
    prepare = directory / "drain.yml"
    prepare.write_text(json.dumps([DRAIN]))
    rows = {}
    for side in options.sides:
        (directory / side).mkdir()
        emulator = Emulator(EMULATOR, directory / side, vms, ("--rate-limit", "0", "--exit-after", "3600"))
        try:
            events = [names] if shape == ONE else [[name] for name in names]
            for named in events:
                event_type = "Preempt" if notice else "Reboot"
                emulator.schedule(event_type, *named, notice=notice or 3600, started_for=STARTED_FOR[shape])
            inventory = emulator.inventory(
                scheduled_events_endpoint=emulator.endpoints.get,
                scheduled_events_state_directory=lambda name: str(directory / name),
            )
            playbook = [{"hosts": "all", "gather_facts": False, **playbook_of(side, shape, prepare)}]
            env = {"ANSIBLE_CONFIG": str(directory.parent / "ansible.cfg")}
            started = ansible.start_playbook(playbook, inventory=inventory, options=("--forks", str(forks)), env=env)
            memory = Memory(started._process.pid)
            seconds, cpu, results = to_the_posts(emulator, started, len(events), memory)
            emulator_polls = {name: emulator.polls(name)["polls"] for name in names}
            started.result(timeout=LIMIT)
        finally:
            emulator.stop()
        first = [result for result in results if result.host == names[0]]
        modules = [each for each in first if each.action.rpartition(".")[2] not in ON_CONTROLLER]
        rows[side] = {
            "seconds": round(seconds, 2),
            "cpu": round(cpu, 2),
            "cpu_of_host": round(1000 * cpu / hosts),
            "main_mib": round(memory.main),
            "controller_mib": round(memory.tree),
            "polls": sum(emulator_polls[name] for name in names),
            "results": len(first),
            "modules": len([each for each in modules if each.status != "skipped"]),
        }
    ratios, cpu_ratios = _ratios(rows, "seconds"), _ratios(rows, "cpu")
    return {"hosts": hosts, "shape": shape, "forks": forks, **rows, "ratios": ratios, "cpu_ratios": cpu_ratios}


def _ratios(rows, name):
    """What each side takes, times the playbook by hand, if that was measured."""
    sides = [side for side in rows if side != BY_HAND_SIDE and BY_HAND_SIDE in rows]
    return {side: round(rows[side][name] / rows[BY_HAND_SIDE][name], 2) for side in sides}


def cpu_of_modules(ansible, directory):
    """CPU milliseconds of a run of each module on a host without events, by the last word of its name."""
    found = {}
    emulator = Emulator(EMULATOR, directory, [{"name": "vm1"}], ("--rate-limit", "0"))
    try:
        for name, own in (("info", {}), ("turn", {"state_directory": str(directory / "state")})):
            log, shell = directory / f"{name}.times", directory / f"{name}.sh"
            shell.write_text(COUNTING_SHELL.format(log=log))
            shell.chmod(0o700)
            task = {f"{COLLECTION}.scheduled_events_{name}": {"endpoint": emulator.endpoints["vm1"], **own}}
            run = ansible.run_playbook([play([task] * TURNS)], env={"ANSIBLE_EXECUTABLE": str(shell)})
            if run.rc:
                sys.exit(run.output)
            found[name] = round(1000 * cpu_of_commands(log) / TURNS)
    finally:
        emulator.stop()
    return found


def keep_byte_code(ansible, base, options):
    """Have Python keep byte code below a directory, and fill the cache with one run of each side."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(base / "bytecode")
    (base / "ansible.cfg").touch()  # without settings
    (base / "warm-up").mkdir()
    measure(ansible, base / "warm-up", ONE, 1, options)


def missed(row, notice):
    """The targets that a row misses."""
    problems = []
    target = (TIME_TARGETS if row["shape"] == ONE else EACH_TIME_TARGETS).get(row["hosts"], TIME_TARGET)
    for strategy in [side for side in SIDES if side in row and side != BY_HAND_SIDE]:
        respond, ratio = row[strategy], row["ratios"].get(strategy, 0.0)
        if notice:
            if respond["seconds"] > SPOT_TARGET:
                problems.append(f"{strategy} {respond['seconds']} s to the POST > {SPOT_TARGET}")
            continue
        if ratio > target:
            problems.append(f"{strategy} {ratio} times the time by hand > {target}")
        if row["shape"] == ONE and row["cpu_ratios"].get(strategy, 0.0) > CPU_RATIO_TARGET:
            problems.append(f"{strategy} {row['cpu_ratios'][strategy]} times the CPU by hand > {CPU_RATIO_TARGET}")
        if row["hosts"] == 16 and respond["cpu"] > CPU_TARGET:
            problems.append(f"{strategy} {respond['cpu']} CPU s > {CPU_TARGET}")
        if respond["results"] > RESULTS_TARGET or respond["modules"] > MODULES_TARGET:
            problems.append(f"{strategy} {respond['results']} results, {respond['modules']} modules for a host")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[1, 4, 16, 64], help="how many hosts to try")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy loops beside the runs")
    parser.add_argument("--notice", type=float, metavar="S", help="Spot evictions with this notice in seconds")
    parser.add_argument("--shapes", nargs="+", default=[EACH, ONE], choices=[EACH, ONE], help="which events")
    parser.add_argument("--sides", nargs="+", default=SIDES, choices=SIDES, help="by hand, and which strategies")
    parser.add_argument("--forks", type=int, metavar="N", help="forks of Ansible")
    options = parser.parse_args()
    rows, problems = [], []
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _number in range(options.load)]
    try:
        with tempfile.TemporaryDirectory(prefix="respond-scale-") as base:
            ansible = Ansible(pathlib.Path(base))
            keep_byte_code(ansible, pathlib.Path(base), options)
            (pathlib.Path(base) / "modules").mkdir()
            modules = cpu_of_modules(ansible, pathlib.Path(base) / "modules")
            ratio = round(modules["turn"] / modules["info"], 2)
            print(f"CPU of a module on a host without events: {modules}, {ratio} times", flush=True)
            if ratio > TURN_TARGET:
                problems.append(f"a turn takes {ratio} times the CPU of scheduled_events_info > {TURN_TARGET}")
            for shape, hosts in itertools.product(options.shapes, options.hosts):
                directory = pathlib.Path(base) / f"{shape}-{hosts}"
                directory.mkdir()
                row = measure(ansible, directory, shape, hosts, options)
                rows.append(row)
                print(f"{hosts:3} hosts, events: {shape}, start to the last POST:", flush=True)
                for side in options.sides:
                    found = row[side]
                    print(
                        f"    {side:8} {found['seconds']:6} s, {row['ratios'].get(side, 1)} times the time by hand, "
                        f"{found['cpu']} CPU s, {row['cpu_ratios'].get(side, 1)} times that by hand, "
                        f"{found['cpu_of_host']} ms a host, "
                        f"{found['main_mib']} MiB of the main process, {found['controller_mib']} with its workers, "
                        f"{found['polls']} requests of all hosts, "
                        f"{found['results']} results and {found['modules']} module runs a host",
                        flush=True,
                    )
                problems += [f"{hosts} hosts, {shape}: {problem}" for problem in missed(row, options.notice)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    for problem in problems:
        print("missed:", problem)
    print(json.dumps({"benchmark": "respond_scale", "missed": problems, "modules": modules, "rows": rows}))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
