# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The polling unit beside other clients of the service, in one run on one machine, each with its own emulator.

- `unit`: the polling unit, with one hook.
- `requests`: a plain loop of Python with `requests`, which catches what a request raises and goes on.
- `curl`: a shell loop with curl and jq.
- `azure-events-az`: the agent of Debian's package resource-agents, unchanged; a loop runs its `monitor` as Pacemaker
  does, whose commands are stand-ins.
- `operator`: `seoperator2.py` of github.com/180254/scheduled-events-operator-2, unchanged, with a stand-in of kubectl.
  Its file is given with `--operator FILE`.

All poll once a second for events, and without a pause for the cost. Counted are: the CPU time of a poll, of the process
and of what it starts; the largest memory of them; the seconds from the announcement to the action (a hook, `kubectl
cordon`, a changed health attribute of the node) and to the acknowledgement; and what five faults do, in the middle of
which an event is announced. A client that ended is not started again. The cost of each client is measured alone, their
speed at the same time, and the faults ten at a time.

Prints a table and a line of JSON.
"""

import argparse
import concurrent.futures
import contextlib
import http.server
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "integration" / "support")]

POLLS = {"unit": 1000, "requests": 1000, "curl": 200, "azure-events-az": 30, "operator": 1000}
VMS = {"azure-events-az": "vm1", "operator": "pool_18"}
WARM = 0.1  # of the polls, before the CPU time counts
LIMIT = 120.0  # seconds for one step; only so that a hang is named
FAULT = 8.0  # seconds that a fault lasts
AFTERWARDS = 30.0  # seconds after it in which a client may still act
AT_ONCE = 10  # faults
FORGED = "00000000-0000-0000-0000-00000000f05d"
FAULTS = {
    "500": {"kind": "status", "status": 500},
    "no answer": {"kind": "hang", "delay": 4},
    "broken JSON": {"kind": "broken_json"},
    "wrong types": {"kind": "wrong_types"},
    "redirect to a forged event": {"kind": "redirect", "location": "{elsewhere}/forged"},
}
CURL = """
while :; do
  document=$(curl --silent --max-time 5 --header Metadata:true "$URL")
  for id in $(printf %s "$document" | jq -r '.Events[]? | select(.EventStatus == "Scheduled") | .EventId'); do
    case "$done" in *"$id"*) continue;; esac
    "$ACT" "$id"
    start="{\\"StartRequests\\": [{\\"EventId\\": \\"$id\\"}]}"
    curl --silent --max-time 5 --header Metadata:true --data "$start" "$URL"
    done="$done $id"
  done
  sleep "$INTERVAL"
done
"""
ACT = """#!/bin/sh
echo "${{SCHEDULED_EVENT_ID:-$1}} $(date +%s.%N)" >> {directory}/acts
"""


# The clients, each a separate process


def be_unit(endpoint, directory, interval):
    from poller import be_unit as unit

    unit(endpoint, directory, interval)


def be_requests(endpoint, directory, interval):
    import requests

    url, headers, done = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01", {"Metadata": "true"}, set()
    while True:
        with contextlib.suppress(requests.RequestException, LookupError, TypeError, ValueError):
            for event in requests.get(url, headers=headers, timeout=5).json()["Events"]:
                event_id = event["EventId"]
                if event["EventStatus"] == "Scheduled" and event_id not in done:
                    subprocess.run([f"{directory}/act", event_id], check=True)
                    start = {"StartRequests": [{"EventId": event_id}]}
                    requests.post(url, headers=headers, json=start, timeout=5).raise_for_status()
                    done.add(event_id)
        time.sleep(interval)


def be_curl(endpoint, directory, interval):
    url = f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01"
    os.environ.update(URL=url, ACT=f"{directory}/act", INTERVAL=str(interval))
    os.execvp("sh", ["sh", "-c", CURL])  # noqa: S606 - the measured process itself


def be_agent(endpoint, directory, interval):
    from agents import Cluster

    place = pathlib.Path(directory)
    emulator = types.SimpleNamespace(endpoints={"vm1": endpoint})
    cluster, before = Cluster("azure-events-az", place.parent / "ocf", emulator, place), None
    while True:
        with contextlib.suppress(AssertionError):  # Pacemaker calls monitor again
            cluster.monitor("vm1")
        health = cluster.attribute("vm1", "#health-azure")
        if health != before and health not in (None, "0"):
            subprocess.run([place / "act", "-"], check=True)
        before = health
        time.sleep(interval)


def be_operator(endpoint, directory, interval):
    place = pathlib.Path(directory)
    kubectl = place / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(f'#!/bin/sh\ncase "$1" in cordon) {directory}/act -;; version) echo "{{}}";; esac\n')
    kubectl.chmod(0o755)
    settings = {
        "api-metadata-instance": f"{os.environ['ELSEWHERE']}/instance",
        "api-metadata-scheduledevents": f"{endpoint}/metadata/scheduledevents?api-version=2020-07-01",
        "polling-frequency-seconds": interval,
        "delay-before-uncordon-seconds": 0,
        "delay-before-program-close-seconds": 0,
    }
    (place / "settings.json").write_text(json.dumps(settings))
    os.environ["PATH"] = f"{kubectl.parent}:{os.environ['PATH']}"
    command = [sys.executable, os.environ["OPERATOR"], str(place / "settings.json"), str(place)]
    os.execv(sys.executable, command)  # noqa: S606 - the measured process itself


CLIENTS = {
    "unit": be_unit,
    "requests": be_requests,
    "curl": be_curl,
    "azure-events-az": be_agent,
    "operator": be_operator,
}


class Running:
    """A client, its emulator, and the actions that it wrote down."""

    _starting = threading.Lock()

    def __init__(self, name, directory, interval):
        from emulation import Emulator
        from poller import hook_units

        self.vm, self._directory = VMS.get(name, "vm1"), directory
        (directory / "hooks" / "prepare.d").mkdir(parents=True)
        (directory / "root").mkdir()
        for act in (directory / "act", directory / "hooks" / "prepare.d" / "10-act"):
            act.write_text(ACT.format(directory=directory))
            act.chmod(0o755)
        options = ("--rate-limit", "0", "--exit-after", "1800")
        files = directory / "emulator"
        files.mkdir()
        with self._starting:
            self.emulator = Emulator(ROOT / "roles" / "emulator" / "files", files, [{"name": self.vm}], options)
        command = [sys.executable, __file__, "--be", name, "--endpoint", self.emulator.endpoints[self.vm]]
        command += ["--directory", str(directory), "--interval", str(interval)]
        self._hook_units = hook_units(directory)
        if name == "unit":
            self._hook_units.start()
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self):
        return self

    def __exit__(self, *_raised):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._hook_units.stop()
        self.emulator.stop()

    def ended(self):
        return self._process.poll() is not None

    def polled(self, count):
        """Wait until it has polled so often."""
        from emulation import until

        until(
            lambda: self.ended() or self.emulator.polls(self.vm)["polls"] >= count,
            timeout=LIMIT,
            what=f"{count} polls",
            every=0.05,
        )
        if self.ended():
            sys.exit(f"the client has ended:\n{(self._directory / 'log').read_text()}")
        return self.emulator.polls(self.vm)["polls"]

    def usage(self):
        """CPU seconds of the process and of those it waited for, and MiB of its whole group now."""
        cpu, memory = 0.0, 0
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[2]) == self._process.pid:
                memory += int(fields[21]) * os.sysconf("SC_PAGESIZE")
                ticks = fields[11:15] if entry.parent.name == str(self._process.pid) else ()
                cpu += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return cpu, memory / 2**20

    def acts(self):
        """Event id, or "-", and moment of each action."""
        try:
            return [line.split() for line in (self._directory / "acts").read_text().splitlines()]
        except FileNotFoundError:
            return []


# What is measured


def measure_cost(name, directory):
    """CPU milliseconds of a poll, and MiB."""
    with Running(name, directory, 0) as client:
        start = client.polled(int(POLLS[name] * WARM))
        before, largest = client.usage()
        seen = start
        while seen < start + POLLS[name]:
            largest = max(largest, client.usage()[1])
            seen = client.polled(seen + 1)
        after = client.usage()[0]
        return {"cpu_ms": (after - before) * 1000 / (seen - start), "memory_mib": largest}


def measure_speed(name, directory, events):
    """Seconds from the announcement to the action and to the acknowledgement."""
    from emulation import until

    with Running(name, directory, 1) as client:
        client.polled(2)
        acted, acknowledged = [], []
        for number in range(events):
            time.sleep((number * 0.37) % 1)  # at any moment between two polls
            event_id = client.emulator.schedule("Reboot", client.vm, notice=900, started_for=3)
            until(
                lambda wanted=event_id: any(each["event_id"] == wanted for each in client.emulator.state()["ended"]),
                timeout=LIMIT,
                what="the end of the event",
            )
            log = [entry for entry in client.emulator.log("scheduled", "post") if event_id in json.dumps(entry)]
            at = {entry["kind"]: entry["at_real"] for entry in reversed(log)}
            acted.append(float(client.acts()[-1][1]) - at["scheduled"])
            acknowledged.append(at["post"] - at["scheduled"])
            time.sleep(2.5)  # so that it sees the end
        return {"action_s": max(acted), "acknowledged_s": max(acknowledged)}


def measure_fault(name, directory, kind, elsewhere):
    """What the client does about an event that is announced in the middle of a fault."""
    return {kind: outcome_of_fault(name, directory, FAULTS[kind], elsewhere)}


def outcome_of_fault(name, directory, fault, elsewhere):
    from emulation import until

    with Running(name, directory, 1) as client:
        client.polled(2)
        fields = {
            key: value.format(elsewhere=elsewhere) if key == "location" else value for key, value in fault.items()
        }
        client.emulator.fault(**fields, methods=["GET"], seconds=FAULT)
        over = time.time() + FAULT
        time.sleep(FAULT / 4)
        forged = len(client.acts())
        event_id = client.emulator.schedule("Reboot", client.vm, notice=900, started_for=600)

        def posted():
            return any(event_id in ids and status == 200 for _vm, ids, status in client.emulator.posts())

        with contextlib.suppress(AssertionError):
            until(lambda: client.ended() or posted(), timeout=FAULT + AFTERWARDS, what="the acknowledgement")
        acts = client.acts()
        if forged or any(each[0] == FORGED for each in acts) or any(float(each[1]) < over - 0.2 for each in acts):
            return "acts on the forged event" if "location" in fault else "acts on nothing that is true"
        if posted():
            return f"acts {max(0.0, float(acts[-1][1]) - over):.0f} s after it"
        return "ends" if client.ended() else "never acts"


def measure_run(names, base, events, elsewhere):
    """One value of each figure, by client."""
    found = {name: {} for name in names}

    def measure(at_once, steps):
        with concurrent.futures.ThreadPoolExecutor(at_once) as threads:
            waiting = []
            for name, function, *arguments in steps:
                directory = pathlib.Path(tempfile.mkdtemp(dir=base))
                waiting.append((name, threads.submit(function, name, directory, *arguments)))
            for name, future in waiting:
                found[name].update(future.result())

    measure(1, [(name, measure_cost) for name in names])
    measure(len(names), [(name, measure_speed, events) for name in names])
    measure(AT_ONCE, [(name, measure_fault, fault, elsewhere) for fault in FAULTS for name in names])
    return found


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """What is not the service: the instance document for the operator, and a forged event."""

    def do_GET(self):
        event = {
            "EventId": FORGED,
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": ["vm1", "pool_18"],
            "EventStatus": "Scheduled",
            "NotBefore": "Mon, 19 Sep 2050 18:29:47 GMT",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
        document = {"DocumentIncarnation": 99, "Events": [event]}
        answer = {"compute": {"name": "pool_18"}} if self.path.startswith("/instance") else document
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


# What is shown


def machine():
    """The machine in a line, without its name, and the day."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    processors = f"{len(os.sched_getaffinity(0))} cores{f' of {model}' if model else ''}"
    kernel = platform.release().partition("-")[0]
    return f"{processors}, Linux {kernel}, Python {platform.python_version()}, on {time.strftime('%Y-%m-%d')}"


def spread(values):
    """The median and, where they differ, the smallest and the largest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = 1 if high < 100 else 0
    shown = [f"{value:.{digits}f}" for value in (low, middle, high)]
    return shown[1] if shown[0] == shown[2] else f"{shown[1]} ({shown[0]} to {shown[2]})"


def table(figures):
    names = list(figures["clients"])
    rows = [["", *(f"`{name}`" for name in names)]]
    rows.append(["CPU of a poll, ms", *(spread(figures["clients"][name]["cpu_ms"]) for name in names)])
    rows.append(["memory, MiB", *(spread(figures["clients"][name]["memory_mib"]) for name in names)])
    rows.append(["to the action, s at most", *(spread(figures["clients"][name]["action_s"]) for name in names)])
    rows.append(["to the POST, s at most", *(spread(figures["clients"][name]["acknowledged_s"]) for name in names)])
    for fault in FAULTS:
        rows.append([fault, *(", or ".join(sorted(set(figures["clients"][name][fault]))) for name in names)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--events", type=int, default=8)
    parser.add_argument("--operator", help="seoperator2.py of scheduled-events-operator-2")
    parser.add_argument("--be", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    parser.add_argument("--interval", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.be:
        CLIENTS[chosen.be](chosen.endpoint, chosen.directory, chosen.interval)
        return

    from debian import unpacked

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    elsewhere = f"http://127.0.0.1:{server.server_port}"
    os.environ["ELSEWHERE"] = elsewhere
    names = [name for name in CLIENTS if name != "curl" or (shutil.which("curl") and shutil.which("jq"))]
    if chosen.operator:
        os.environ["OPERATOR"] = os.path.abspath(chosen.operator)
    else:
        names.remove("operator")
    figures = {"runs": chosen.runs, "machine": machine(), "clients": {}}
    with tempfile.TemporaryDirectory() as temporary:
        base = pathlib.Path(temporary)
        try:
            package = base / "package"
            package.mkdir()
            (base / "ocf").symlink_to(unpacked("resource-agents", package) / "usr" / "lib" / "ocf")
        except LookupError as error:
            print(error)
            names.remove("azure-events-az")
        for _run in range(chosen.runs):
            got = measure_run(names, base, chosen.events, elsewhere)
            print({name: dict(found) for name, found in got.items()}, flush=True)
            for name, found in got.items():
                for figure, value in found.items():
                    figures["clients"].setdefault(name, {}).setdefault(figure, []).append(value)
    server.shutdown()
    print(table(figures))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
