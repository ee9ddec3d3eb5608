# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let a fleet of four VMs on loopback go through maintenance, and show what happens while it happens.

The emulator announces a Redeploy of two VMs and a Freeze of a third. The playbook `respond` drains them, acknowledges
each event once all its VMs are drained, waits until it is over, and brings them back. The exit code is 1 if anything
of this did not happen. The maintenance takes seconds here. At the end, the playbook `report` writes a report of it.
"""

import contextlib
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
REPORT = HERE.parent / ".nox" / "demo" / "report.html"
EMULATOR = HERE.parent / "roles" / "emulator" / "files" / "scheduled-events-emulator"
STARTED_FOR = 10  # seconds; the real thing takes 5 to 10 minutes
FLEET = {"web1": "127.0.30.1", "web2": "127.0.30.2", "web3": "127.0.30.3", "web4": "127.0.30.4"}
EVENTS = {"platform_redeploy": ["web1", "web2"], "host_agent_maintenance": ["web3"]}
LIMIT = 240.0  # seconds for a playbook
LOOK_GAP = 0.5  # seconds between two looks at what happened
SERVE = ["--port", "0", "--control", "127.0.0.1:0", "--exit-after", str(2 * LIMIT + 60)]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the emulator is on this machine
LOG_LINES = 60  # of the playbook, shown when it fails


@contextlib.contextmanager
def emulator(directory: pathlib.Path, fleet: dict[str, str], options: list[str]) -> Iterator[str]:
    """Run the emulator of a fleet, given by name and address; gives the URL of its control API."""
    vms = [{"name": name, "address": fleet[name], "kind": "availability_set", "set": "web"} for name in fleet]
    (directory / "fleet.json").write_text(json.dumps({"vms": vms}))
    started = directory / "started"
    process = subprocess.Popen(
        [EMULATOR, "serve", "--fleet", directory / "fleet.json", "--started-file", started, *options],
        env={**os.environ, "PYTHON": sys.executable},
    )
    try:
        while not started.exists():
            if process.poll() is not None:
                sys.exit("The emulator did not start.")
            time.sleep(0.05)
        yield started.read_text().strip()
    finally:
        process.terminate()
        process.wait(10)


def control(url: str, *arguments: str) -> Any:
    """The answer of the emulator's command."""
    environment = {**os.environ, "PYTHON": sys.executable}
    return json.loads(subprocess.check_output([EMULATOR, "--control", url, "--json", *arguments], env=environment))


def look(url: str, what: str) -> Any:
    """The state or the log of the emulator, without a process for each look."""
    with DIRECT.open(f"{url}/control/{what}", timeout=LIMIT) as answer:
        return json.load(answer)


def write_inventory(directory: pathlib.Path, endpoints: dict[str, str], tasks: pathlib.Path = HERE) -> pathlib.Path:
    """The inventory of the fleet, as a user writes one, with prepare.yml and recover.yml of the directory ``tasks``."""
    hosts = {}
    for name, endpoint in endpoints.items():
        (directory / name).mkdir()
        hosts[name] = {"scheduled_events_endpoint": endpoint, "vm_directory": str(directory / name)}
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "ansible_become": False,
        "respond_prepare_tasks": str(tasks / "prepare.yml"),
        "respond_recover_tasks": str(tasks / "recover.yml"),
        "scheduled_events_state_directory": "{{ vm_directory }}/state",
    }
    inventory = directory / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": hosts, "vars": variables}}))
    return inventory


def log_of(directory: pathlib.Path, name: str = "respond") -> pathlib.Path:
    """Where the output of a playbook is."""
    return directory / f"{name}.log"


@contextlib.contextmanager
def playbook(
    directory: pathlib.Path, inventory: pathlib.Path, name: str = "respond", hosts: str = "all", *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a playbook for the fleet; it is ended with the demo."""
    command = [
        "ansible-playbook",
        "-i",
        str(inventory),
        f"maintops.scheduled_events.{name}",
        "--limit",
        hosts,
        *options,
    ]
    print("$", " ".join(command).replace(str(directory), "DIRECTORY"), flush=True)
    with log_of(directory, name).open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def watch(directory: pathlib.Path, url: str, process: subprocess.Popen[bytes]) -> "Story":
    """Show each thing that happens as soon as it is known, until the playbook has ended; the whole story."""
    give_up_at = time.monotonic() + LIMIT
    shown: set[str] = set()
    while True:
        ended = process.poll() is not None or time.monotonic() > give_up_at
        story = Story(directory, look(url, "log")["log"])
        for at, text in sorted(story.lines):
            if text not in shown:
                shown.add(text)
                print(f"{at - story.began:6.1f} s  {text}", flush=True)
        if ended:
            return story
        time.sleep(LOOK_GAP)


class Story:
    """What happened, collected from the emulator's log and from the records of each host."""

    def __init__(self, directory: pathlib.Path, log: list[dict[str, Any]]) -> None:
        self.began = min(entry["at_real"] for entry in log)
        self.lines: list[tuple[float, str]] = []
        self.missing: list[str] = []
        for scheduled in [entry for entry in log if entry["kind"] == "scheduled"]:
            self.tell_event(directory, scheduled, [e for e in log if scheduled["event_id"] in str(e)])

    def tell_event(self, directory: pathlib.Path, scheduled: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        event_id, names = scheduled["event_id"], scheduled["vms"]
        title = f"{scheduled['type']} {event_id[:8]}"
        notice = (moment(scheduled["not_before"]) - moment(scheduled["at"])).total_seconds() / 60
        self.add(scheduled["at_real"], f"{title} announced {notice:.0f} minutes ahead, names {', '.join(names)}")
        prepared = [self.tell_host(directory, name, "prepared", event_id, title) for name in names]
        recovered = [self.tell_host(directory, name, "recovered", event_id, title) for name in names]
        approved, started, removed = (self.only(entries, kind, title) for kind in ("approved", "started", "removed"))
        if approved:
            ahead = moment(scheduled["not_before"]) - moment(approved["at"])
            minutes = ahead.total_seconds() / 60
            text = f"{title} acknowledged once, from {approved['vm']}, {minutes:.0f} minutes before NotBefore"
            self.add(approved["at_real"], text)
            self.expect(all(at and at < approved["at_real"] for at in prepared), f"{title}: all prepared before that")
            self.expect(minutes > 0, f"{title}: acknowledged before NotBefore")
        if started:
            self.add(started["at_real"], f"{title} started")
        if removed:
            self.add(removed["at_real"], f"{title} over")
            self.expect(all(at and at > removed["at_real"] for at in recovered), f"{title}: recovered after that")

    def tell_host(self, directory: pathlib.Path, name: str, what: str, event_id: str, title: str) -> float | None:
        path = directory / name / f"{what}-{event_id}.json"
        self.expect(path.exists(), f"{name} {what} for {title}")
        if not path.exists():
            return None
        at = json.loads(path.read_text())["at"]
        self.add(at, f"{title} {name} {'drained and prepared' if what == 'prepared' else 'recovered and back'}")
        return at

    def only(self, entries: list[dict[str, Any]], kind: str, title: str) -> dict[str, Any] | None:
        found = [entry for entry in entries if entry["kind"] == kind]
        self.expect(len(found) == 1, f"{title}: {kind} exactly once, not {len(found)} times")
        return found[0] if found else None

    def add(self, at: float, text: str) -> None:
        self.lines.append((at, text))

    def expect(self, condition: bool, what: str) -> None:
        if not condition:
            self.missing.append(what)


def report(directory: pathlib.Path, inventory: pathlib.Path) -> str:
    """Write the report of the maintenance; gives its verdict."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    data = directory / "report.json"
    hosts = ",".join(host for named in EVENTS.values() for host in named)  # another one has no history yet
    options = [f"--extra-vars=report_{name}" for name in (f"html={REPORT}", f"json={data}", "become=false")]
    with playbook(directory, inventory, "report", hosts, *options) as process:
        process.wait(LIMIT)
    return json.loads(data.read_text())["verdict"] if data.exists() else log_of(directory, "report").read_text()


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        with emulator(directory, FLEET, SERVE) as url:
            endpoints = {vm["name"]: vm["endpoint"] for vm in look(url, "state")["vms"]}
            inventory = write_inventory(directory, endpoints)
            for scenario, names in EVENTS.items():
                control(url, "scenario", scenario, *names, "--started-for", str(STARTED_FOR))
            print(
                f"{len(FLEET)} VMs on loopback; each event takes {STARTED_FOR} seconds in place of minutes", flush=True
            )
            with playbook(directory, inventory) as process:
                story = watch(directory, url, process)
                code = process.poll()
            story.expect(code == 0, f"the playbook succeeds, and does not end with {code} (None: not in {LIMIT:g} s)")
            bystander = [path.name for path in (directory / "web4").iterdir()]
            story.expect(not bystander, f"web4, which no event names, is unchanged: {bystander}")
            drained = [name for name in FLEET if (directory / name / "drained").exists()]
            story.expect(not drained, f"every host is back, not drained: {drained}")
            verdict = report(directory, inventory)
            story.expect("no problem" in verdict, f"the report has no problem, and does not say: {verdict}")
        log = log_of(directory).read_text().splitlines()
    if story.missing:
        print("\nThe end of the playbook's log:", *log[-LOG_LINES:], sep="\n")
    print()
    for what in story.missing:
        print(f"MISSING  {what}")
    print(f"Report: {REPORT}: {verdict}")
    print("All checks have passed." if not story.missing else "\nAt least one check has failed.")
    return 1 if story.missing else 0


if __name__ == "__main__":
    sys.exit(main())
