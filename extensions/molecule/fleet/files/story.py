# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet under load while Azure and the operator take its hosts: story.py short|long PREFIX.

PREFIX begins the names of the containers; FLEET_INVENTORIES names the inventories. Prints the figures, and fails if a
request was lost with the collection, if none was lost without it, or if the budget was exceeded. A failure shows the
timeline of the part: what each HAProxy saw of each server, with its health checks, and what happened meanwhile.
"""

import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

VMS = ["web1", "web2", "web3", "web4"]
BALANCERS = ["lb1", "lb2"]
BUDGET = 2
LIMIT = 900  # seconds after which any one command is ended
ENTER = str(pathlib.Path(__file__).parents[2] / "shared" / "enter")
LEAVE = "/etc/scheduled-events/hooks/managed/prepare.d/leave"
SHOW_STAT = "echo show stat | socat stdio /run/haproxy/admin.sock"


class Form(NamedTuple):
    """``vms``: those that the platform takes; ``requests``: at least so many while it does, with the collection;
    ``rate``: requests per second; ``rolling_vms``: those that are maintained."""

    vms: list[str]
    requests: int
    rate: int
    rolling_vms: list[str]
    rolling_runs: int


FORMS = {
    "short": Form(["web1"], 1_500, 50, ["web2", "web3"], 1),
    "long": Form(VMS, 100_000, 400, VMS, 20),
}


class Hosts:
    """The containers, by the names that the inventory gives them."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def run(self, host: str, *command: str) -> str:
        """Run a command on a host; its output."""
        return self._call(ENTER, "exec", f"{self._prefix}-{host}", *command)

    def start(self, host: str, unit: str, *command: str) -> None:
        """Start a command on a host in the background."""
        self.run(host, "systemd-run", "--quiet", "--collect", f"--unit={unit}", *command)

    def stop(self, host: str, unit: str) -> None:
        """End it."""
        self.run(host, "systemctl", "stop", unit)

    def restart(self, host: str) -> None:
        """What the platform does to a VM."""
        self._call("podman", "restart", "--time=120", f"{self._prefix}-{host}")

    def address(self, host: str) -> str:
        """Its address on the test network."""
        return self.run(host, "hostname", "--all-ip-addresses").split()[0]

    def schedule(self, *arguments: str) -> None:
        """Let the emulator schedule an event."""
        self.run("azure", "scheduled-events-emulator", "schedule", *arguments)

    def emulator(self, what: str) -> Any:
        """The state or the log of the emulator; asked every few seconds, so without its command."""
        return json.loads(self.run("azure", "curl", "--silent", "--fail", f"http://127.0.0.1:8170/control/{what}"))

    @staticmethod
    def _call(*words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout


class Platform(threading.Thread):
    """Restarts the container of each VM whose Reboot or Redeploy has started, and ends the event then."""

    def __init__(self, hosts: Hosts, note: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._hosts, self._ended = hosts, threading.Event()
        self._note = note
        self._seen = max([entry["seq"] for entry in hosts.emulator("log")["log"]], default=0)
        self.restarts: list[str] = []

    def run(self) -> None:
        while not self._ended.wait(2):
            for entry in self._hosts.emulator("log")["log"]:
                if entry["seq"] > self._seen:
                    self._seen = entry["seq"]
                    self._note(f"event {entry['kind']}: {', '.join(entry.get('vms', []))}")
                    if entry["kind"] == "started":
                        for vm in entry["vms"]:
                            self._hosts.restart(vm)
                            self._note(f"{vm} is restarted")
                            self.restarts.append(vm)
                        self._hosts.run("azure", "scheduled-events-emulator", "complete", entry["event_id"])

    def end(self) -> None:
        self._ended.set()
        self.join(LIMIT)


class Story:
    """The parts of the story."""

    def __init__(self, form: Form, hosts: Hosts) -> None:
        self._form, self._hosts = form, hosts
        self._urls = [f"http://{hosts.address(name)}:{port}/" for name in BALANCERS for port in (80, 8080)]
        self._inventories = os.environ["FLEET_INVENTORIES"].split(":")
        self._happened: list[tuple[float, str]] = []
        self.timelines: list[str] = []
        self._logs, self._started = pathlib.Path(tempfile.mkdtemp(prefix="fleet-")), 0
        print(f"What the playbooks say is in {self._logs}", flush=True)

    def note(self, what: str) -> None:
        """Add it to the timeline."""
        self._happened.append((time.time(), what))

    def platform(self) -> Platform:
        platform = Platform(self._hosts, self.note)
        platform.start()
        return platform

    def playbook(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a playbook of the collection."""
        self._started += 1
        log = self._logs / f"{self._started}-{name}.txt"
        self.note(f"start of {self._started}-{name}")
        inventories = [word for path in self._inventories for word in ("-i", path)]
        return subprocess.Popen(
            ["ansible-playbook", f"maintops.scheduled_events.{name}", *inventories, *options],
            stdin=subprocess.DEVNULL,
            stdout=log.open("w"),
            stderr=subprocess.STDOUT,
        )

    def respond(self) -> subprocess.Popen[bytes]:
        return self.playbook("respond", "-e", "respond_hosts=vms")

    @contextlib.contextmanager
    def load(self, least: int = 0):
        """Load while the block runs, and until ``least`` requests are made; then the dict that it gives is filled."""
        result: dict[str, Any] = {}
        self._happened.clear()
        began = time.monotonic()
        urls = 3 * self._urls + [f"{url}slow" for url in self._urls]
        command = ["python3", "/root/load.py", "/root/load.json", str(self._form.rate), "7200", *urls]
        self._hosts.start("azure", "fleet-load", *command)
        for balancer in BALANCERS:
            self._hosts.start(balancer, "fleet-sample", "python3", "/root/sample.py", "/root/sample.json", "7200")
        try:
            yield result
            time.sleep(max(0.0, least / self._form.rate * 1.1 - (time.monotonic() - began)))
        finally:
            self._hosts.stop("azure", "fleet-load")
            for balancer in BALANCERS:
                self._hosts.stop(balancer, "fleet-sample")
        samples = [json.loads(self._hosts.run(balancer, "cat", "/root/sample.json")) for balancer in BALANCERS]
        for balancer, sample in zip(BALANCERS, samples, strict=True):
            self._happened += [(at, f"{balancer} {change}") for at, change in sample["changes"]]
        result.update(json.loads(self._hosts.run("azure", "cat", "/root/load.json")))
        worst = max(samples, key=lambda sample: sample["most_out"])
        result.update(most_out=worst["most_out"], out=worst["worst"])
        result["seconds"] = round(time.monotonic() - began)
        self._happened += [(at, f"{url} failed: {reason}") for at, url, reason in result["first_failures"]]
        self.timelines.append("\n".join(f"{_clock(at)} {what}" for at, what in sorted(self._happened)))

    def schedule(self, number: int, vm: str, notice: int) -> None:
        kind = ("Redeploy", "Reboot")[number % 2]
        self._hosts.schedule(kind, vm, "--notice", str(notice), "--started-for", "3600")

    def until_quiet(self) -> None:
        """Wait until no event is left and every server is up."""
        give_up_at = time.monotonic() + LIMIT
        while self._hosts.emulator("state")["events"] or self.out():
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"not quiet after {LIMIT} s; out: {self.out()}")
            time.sleep(3)

    def out(self) -> list[str]:
        """The servers that some balancer says are not up."""
        rows = [
            (balancer, line.split(","))
            for balancer in BALANCERS
            for line in self._hosts.run(balancer, "sh", "-c", SHOW_STAT).splitlines()
        ]
        return [
            f"{lb} {row[0]}/{row[1]} {row[17]}"
            for lb, row in rows
            if len(row) > 17 and row[1] in VMS and row[17] != "UP"
        ]

    def platform_with_respond(self) -> dict[str, Any]:
        """The platform takes one VM after the other, and the controller responds."""
        platform = self.platform()
        with self.load(self._form.requests) as result:
            for number, vm in enumerate(self._form.vms):
                self.schedule(number, vm, notice=600)
                expect_success(self.respond())
                self.until_quiet()
        platform.end()
        expect(platform.restarts == self._form.vms, f"the platform restarted {platform.restarts}")
        return result

    def platform_with_polling_unit(self) -> dict[str, Any]:
        """The same, and the polling units on the VMs respond."""
        platform = self.platform()
        self.polling_units("enable")
        with self.load(self._form.requests) as result:
            for number, vm in enumerate(self._form.vms):
                self.schedule(number, vm, notice=600)
                self.until_quiet()
        self.polling_units("disable")
        platform.end()
        expect(platform.restarts == self._form.vms, f"the platform restarted {platform.restarts}")
        return result

    def polling_units(self, verb: str) -> None:
        for vm in self._form.vms:
            self._hosts.run(vm, "systemctl", verb, "--now", "--quiet", "scheduled-events-poller.service")

    def platform_alone(self) -> dict[str, Any]:
        """The same, without a response to the event."""
        platform = self.platform()
        with self.load() as result:
            for number, vm in enumerate(self._form.vms):
                self.schedule(number, vm, notice=1)
                time.sleep(5)
                self.until_quiet()
        platform.end()
        return result

    def drill(self) -> dict[str, Any]:
        """A drill that passes, and one with a sabotaged hook, whose verdict names it."""
        vm = self._form.vms[0]
        self.polling_units("enable")
        options = ("-e", json.dumps({"drill_hosts": [vm], "drill_probe_urls": self._urls}))
        passing = self.playbook("drill", *options)
        expect_success(passing)
        self._hosts.run(vm, "sh", "-c", f"cp -p {LEAVE} /root/leave; printf '#!/bin/sh\\nexit 7\\n' > {LEAVE}")
        failing = self.playbook("drill", *options)
        expect(failing.wait(LIMIT) != 0, "the drill with a sabotaged hook passed")
        self._hosts.run(vm, "cp", "-p", "/root/leave", LEAVE)
        said = max(self._logs.glob("*-drill.txt"), key=lambda path: int(path.name.split("-")[0])).read_text()
        expect(f"{vm}: failed: the preparation failed: leave: " in said, f"the verdict does not name the hook:\n{said}")
        expect("exit status 7" in said, f"the verdict does not name the exit status:\n{said}")
        status = json.loads(self._hosts.run(vm, "scheduled-events", "status", "--json"))
        expect(not (status["drill"] or status["events"]), f"the drill of {vm} is not over: {status}")
        self.polling_units("disable")
        self.until_quiet()
        return {"lost": 0, "most_out": 1, "out": [vm]}

    def rolling(self) -> dict[str, Any]:
        """A rolling maintenance, an event at a random moment, and a controller that responds."""
        platform = self.platform()
        chance = random.SystemRandom()
        with self.load() as result:
            hosts = {"rolling_maintenance_hosts": self._form.rolling_vms, "rolling_maintenance_fleet": VMS}
            rolling = self.playbook("rolling_maintenance", "-e", json.dumps(hosts))
            event_at = time.monotonic() + chance.uniform(0, 30 * len(self._form.rolling_vms))
            result["event"] = vm = chance.choice(VMS)
            scheduled = False
            while rolling.poll() is None or not scheduled:
                if not scheduled and time.monotonic() >= event_at:
                    self.schedule(0, vm, notice=600)
                    scheduled = True
                if scheduled and self._hosts.emulator("state")["events"]:
                    responding = self.respond()
                    responding.wait(LIMIT)  # a host that reboots just then is taken up by the next run
                time.sleep(1)
            expect_success(rolling)
            expect_success(self.respond())
            self.until_quiet()
        platform.end()
        return result


def expect_success(process: subprocess.Popen[bytes]) -> None:
    rc = process.wait(LIMIT)
    if rc:
        raise RuntimeError(f"{process.args} ended with {rc}; what it said is in the directory printed above")


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 10)}"


def expect(truth: bool, otherwise: str) -> None:
    """End with this message unless it is true."""
    if not truth:
        sys.exit(otherwise)


def main() -> None:
    form = FORMS[sys.argv[1]]
    story = Story(form, Hosts(sys.argv[2]))
    story.until_quiet()
    parts = {
        "platform, with respond": story.platform_with_respond,
        "platform, with polling unit": story.platform_with_polling_unit,
        "platform, alone": story.platform_alone,
        **{f"rolling maintenance {number + 1}": story.rolling for number in range(form.rolling_runs)},
        "drill": story.drill,
    }
    results, timelines = {}, {}
    for name, part in parts.items():
        results[name] = part()
        timelines[name] = story.timelines[-1]
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    for name, result in results.items():
        if name == "platform, alone":
            expect(result["lost"] > 0, "no request was lost without the collection, so this shows nothing")
        else:
            expect(result["lost"] == 0, f"{name}: requests were lost\n{timelines[name]}")
            out = f"{name}: more than {BUDGET} servers were out: {result['out']}\n{timelines[name]}"
            expect(result["most_out"] <= BUDGET, out)


if __name__ == "__main__":
    main()
