# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules cost, beside what a playbook would do without them: tasks of ansible.builtin.uri.

Reading: in one play, tasks of scheduled_events_info and of uri fetch the same document alternately, in a new order each
round. Both are measured alike, by a callback on the controller, from the start of a task to its result: copying the
module, starting Python, the requests. scheduled_events_info asks twice, for the document and for the VM's name, uri
once; a third task gives the name, so that both ask once. Everything is on Ansible's defaults.

Waiting: scheduled_events_wait and a uri task with `until` and `delay: 1` wait side by side for the same event. Counted
is the CPU time of the controller: ansible-playbook with its forks and, where they are used, clients of ssh, without
what runs on the host. That is this machine too, so a shell in its way notes what the commands took, to be subtracted.
By default there is no ssh, which favours the loop: every one of its rounds is several commands. To measure with it,
name an sshd on this machine: --host-var ansible_connection=ssh --host-var ansible_port=2222. Two more plays show the
cost that is common to both: a play without tasks, and a play whose task only sleeps as long, since ansible-playbook
itself works while any task is under way.

Failing: on a machine without the service, where no program listens at the endpoint, each module with its defaults, and
uri.

Prints lines for people and a line of JSON. A missed target is said, and does not change the exit status.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["TIER"] = "soak"  # without what makes runs of Ansible and modules faster for the tests
sys.path.insert(0, str(ROOT / "tests" / "integration" / "support"))
from emulation import Emulator, until  # noqa: E402 - found only through the path set above, as is the next

from playbooks import COLLECTION, LOCAL, Ansible, play  # noqa: E402

EMULATOR = ROOT / "roles" / "emulator" / "files"
READ_TARGET, WAIT_TARGET = 1.0, 0.1
FAIL_TARGET = 10.0  # seconds
DEFAULTS = {"ANSIBLE_PIPELINING": "false", "ANSIBLE_HOST_KEY_CHECKING": "false"}

# Started by ansible-playbook instead of /bin/sh. What it starts may come here again, and is already counted.
COUNTING_SHELL = """#!/bin/bash
[ -n "$CPU_IS_COUNTED" ] && exec /bin/sh "$@"
CPU_IS_COUNTED=1 /bin/sh "$@"
status=$?
times >>'{log}'
exit $status
"""


def document_url(endpoint):
    return f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"


def uri_task(endpoint, **keywords):
    arguments = {"url": document_url(endpoint), "headers": {"Metadata": "true"}, "return_content": True}
    return {"name": "uri", "ansible.builtin.uri": arguments, **keywords}


def info_task(name, **arguments):
    return {"name": name, f"{COLLECTION}.scheduled_events_info": arguments}


def measure_reading(ansible, emulator, rounds):
    """Name of the task → the seconds that it took in each round."""
    endpoint = emulator.endpoints["reads"]
    tasks = [
        info_task("info", endpoint=endpoint),
        uri_task(endpoint),
        info_task("info, named", endpoint=endpoint, vm_name="reads"),
    ]
    alternating = []
    for number in range(rounds + 1):  # the first round warms the caches of files
        shift = number % len(tasks)
        alternating += tasks[shift:] + tasks[:shift]
    run = ansible.start_playbook([play(alternating)], env=DEFAULTS).result(timeout=60 + 10 * rounds)
    if run.rc:
        raise SystemExit(f"A task failed:\n{run.output}")
    measured = run.tasks[len(tasks) :]
    return {task["name"]: [result.seconds for result in measured if result.task == task["name"]] for task in tasks}


def measure_failing(ansible):
    """Name of the task → the seconds after which it failed where no program listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        endpoint = f"http://127.0.0.1:{holder.getsockname()[1]}"
        modules = {
            "scheduled_events_info": {},
            "scheduled_event_approve": {"event_id": ["A"]},
            "scheduled_events_wait": {},
        }
        tasks = [
            {"name": module, f"{COLLECTION}.{module}": {"endpoint": endpoint, **arguments}, "ignore_errors": True}
            for module, arguments in modules.items()
        ]
        tasks.append(uri_task(endpoint, ignore_errors=True))
        run = ansible.start_playbook([play(tasks)], env=DEFAULTS).result(timeout=1800)
    passed = [result.task for result in run.tasks if not result.failed]
    if passed or len(run.tasks) != len(tasks):
        raise SystemExit(f"Every task was to fail:\n{run.output}")
    return {result.task: result.seconds for result in run.tasks}


def cpu_of_commands(log):
    """The seconds in the log of the counting shell."""
    return sum(int(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", log.read_text()))


class Controller:
    """A run of ansible-playbook whose CPU is counted: in a separate process, for the usage of its children."""

    def __init__(self, directory, name, task, host_vars):
        self._directory, self._log = directory / name, directory / f"{name}.times"
        self._directory.mkdir()
        self._log.touch()
        self._shell = directory / f"{name}.sh"
        self._shell.write_text(COUNTING_SHELL.format(log=self._log))
        self._shell.chmod(0o700)
        self._task, self._host_vars = task, host_vars
        self._read_end, self._write_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._run_and_tell()

    def _run_and_tell(self):
        status = 1
        try:
            overrides = {} if self._host_vars else {"ANSIBLE_EXECUTABLE": str(self._shell)}
            inventory = {"all": {"hosts": {"localhost": {**LOCAL, **self._host_vars}}}}
            started = Ansible(self._directory).start_playbook(
                [play([self._task] if self._task else [])], inventory=inventory, env={**DEFAULTS, **overrides}
            )
            run = started.result(timeout=600)
            usage = resource.getrusage(resource.RUSAGE_CHILDREN)
            if run.rc:
                print(run.output, file=sys.stderr)
                return
            os.write(self._write_end, json.dumps(usage.ru_utime + usage.ru_stime).encode())
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)

    def cpu(self):
        """Wait for the end; the CPU seconds of the controller."""
        _pid, status = os.waitpid(self._pid, 0)
        os.close(self._write_end)
        if status:
            raise SystemExit(f"{self._directory.name}: ansible-playbook failed, see its output above")
        with os.fdopen(self._read_end) as told:
            return json.load(told) - cpu_of_commands(self._log)


def measure_waiting(emulator, directory, seconds, host_vars):
    """Name → the CPU seconds of the controller, for nothing, a task that only sleeps, a wait, and a loop."""

    def start(name, task):
        return Controller(directory, name, task, host_vars)

    idle = start("idle", None).cpu()
    loop = uri_task(
        emulator.endpoints["loops"],
        register="answer",
        until="answer.json.Events | length > 0",
        retries=int(seconds) + 60,
        delay=1,
    )
    # With their limits both end by themselves, should no event come.
    endpoint = emulator.endpoints["waits"]
    wait = {
        f"{COLLECTION}.scheduled_events_wait": {"endpoint": endpoint, "state": "present", "timeout": int(seconds) + 120}
    }
    running = {
        "sleep": start("sleep", {"ansible.builtin.wait_for": {"timeout": int(seconds)}}),
        "wait": start("wait", wait),
        "loop": start("loop", loop),
    }
    for vm in ("waits", "loops"):
        until(lambda vm=vm: emulator.polls(vm)["polls"], timeout=60, what=f"the first poll of {vm}")
    time.sleep(seconds)
    emulator.schedule("Reboot", "waits")
    emulator.schedule("Reboot", "loops")
    return {"nothing": idle, **{name: controller.cpu() for name, controller in running.items()}}


def verdict(ratio, target):
    return f"target at most {target:g}: {'met' if ratio <= target else 'missed'}"


def report_reading(times):
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratio, named = medians["info"] / medians["uri"], medians["info, named"] / medians["uri"]
    shown = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in medians.items())
    print(f"a task that reads the document, median of {len(times['uri'])}: {shown}")
    print(f"  info / uri = {ratio:.2f} ({verdict(ratio, READ_TARGET)}); with vm_name given {named:.2f}")
    return {
        "read_ms": {name: round(1000 * value, 1) for name, value in medians.items()},
        "read_ratio": round(ratio, 3),
        "read_ratio_named": round(named, 3),
    }


def report_failing(seconds):
    longest = max(seconds.values())
    met = "met" if longest <= FAIL_TARGET else "missed"
    shown = ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items())
    print(f"failing where no program listens: {shown} (target at most {FAIL_TARGET:g} s: {met})")
    ratios = {name: round(value / seconds["uri"], 2) for name, value in seconds.items() if name != "uri"}
    return {"fail_s": {name: round(value, 2) for name, value in seconds.items()}, "fail_ratio_to_uri": ratios}


def report_waiting(cpu, seconds, polls):
    ratio = (cpu["wait"] - cpu["nothing"]) / (cpu["loop"] - cpu["nothing"])
    above = {name: cpu[name] - cpu["sleep"] for name in ("wait", "loop")}
    print(
        f"CPU of the controller while waiting for {seconds:g} s: scheduled_events_wait {cpu['wait']:.2f} s"
        f" ({polls['waits']} polls), uri loop {cpu['loop']:.2f} s ({polls['loops']} polls),"
        f" a task that only sleeps {cpu['sleep']:.2f} s, a play without tasks {cpu['nothing']:.2f} s"
    )
    print(f"  wait / loop = {ratio:.3f}, the play without tasks subtracted ({verdict(ratio, WAIT_TARGET)})")
    per_poll = {"wait": above["wait"] / polls["waits"], "loop": above["loop"] / polls["loops"]}
    print(
        f"  above the task that only sleeps: wait {above['wait']:+.2f} s, {1000 * per_poll['wait']:.1f} ms a poll;"
        f" loop {above['loop']:+.2f} s, {1000 * per_poll['loop']:.1f} ms a poll"
    )
    return {
        "wait_seconds": seconds,
        "wait_cpu_s": {name: round(value, 3) for name, value in cpu.items()},
        "wait_polls": polls,
        "wait_ratio": round(ratio, 4),
        "above_sleep_ms_per_poll": {name: round(1000 * value, 2) for name, value in per_poll.items()},
    }


def host_var(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: expected NAME=VALUE")
    return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="of reading; 0 leaves it out")
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS", help="0 leaves the waiting out")
    parser.add_argument("--no-failing", action="store_true", help="leave the failing out")
    parser.add_argument("--host-var", action="append", type=host_var, default=[], metavar="NAME=VALUE", help="for ssh")
    arguments = parser.parse_args()

    directory = pathlib.Path(tempfile.mkdtemp(prefix="scheduled-events-benchmark-"))
    emulator = None
    try:
        vms = [{"name": name} for name in ("reads", "waits", "loops")]
        emulator = Emulator(EMULATOR, directory, vms, ("--rate-limit", "0"))
        emulator.schedule("Redeploy", "reads", description="Host server is undergoing maintenance.")
        result, ansible = {}, Ansible(directory)
        if arguments.rounds:
            result.update(report_reading(measure_reading(ansible, emulator, arguments.rounds)))
        if not arguments.no_failing:
            result.update(report_failing(measure_failing(ansible)))
        if arguments.wait:
            cpu = measure_waiting(emulator, directory, arguments.wait, dict(arguments.host_var))
            polls = {vm: emulator.polls(vm)["polls"] for vm in ("waits", "loops")}
            result.update(report_waiting(cpu, arguments.wait, polls))
        print(json.dumps({"benchmark": "modules", **result}))
    finally:
        if emulator:
            emulator.stop()
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
