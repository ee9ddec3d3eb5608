# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real ansible-rulebook costs with the rulebook of docs/from-outside.md: 500 events of 5,000 VMs.

The messages are those of event_filter.py: each of the three of an event comes twice, and all are shuffled. They are
posted one after the other to `eda.builtin.webhook`, at `--rate` messages in a second: an hour with 500 events has
3,000 messages, 0.83 in a second. ansible-rulebook stores the events (`--persistence-id`) unless `--memory` is given. It
launches jobs on a stand-in for the controller, which ends each job at once.

The delay of an event goes from the moment when its first message is due to the first launch for it. Then the rate is
doubled, from 10, until the delay grows while messages arrive.

Needs ansible-rulebook on PATH or in .nox/eda (`make eda`). Prints lines for people and a line of JSON.
"""

import argparse
import http.client
import http.server
import json
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import parse_qs, urlsplit

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests" / "support")]
from event_filter import messages  # noqa: E402 - found only through the path set above, as is the next
from page_blocks import block  # noqa: E402

PLACES = os.pathsep.join([os.environ["PATH"], str(ROOT / ".nox" / "eda" / "bin")])
PROGRAM = shutil.which("ansible-rulebook", path=PLACES)
TOKEN = "not-a-secret"  # noqa: S105
FIRST_RATE, LAST_RATE, EVENTS_OF_A_RATE = 10, 1280, 100
GROWS = 0.25  # seconds by which the last events of a rate are later than the first ones
LIMIT = 300.0  # seconds; only so that a hang is named
TICKS = os.sysconf("SC_CLK_TCK")
TEMPLATE = {
    "id": 1,
    "type": "job_template",
    "name": "Respond to scheduled events",
    "summary_fields": {"organization": {"name": "Cloud"}},
    "related": {"launch": "/api/v2/job_templates/1/launch/"},
    **{f"ask_{field}_on_launch": True for field in ("limit", "labels", "inventory", "variables")},
}


class Controller(http.server.ThreadingHTTPServer):
    """Answers ansible-rulebook as AWX does; ``launched`` is when the first job of each event was launched."""

    def __init__(self) -> None:
        self.launched: dict[str, float] = {}
        self.jobs = 0
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def launch(self, body: dict) -> dict:
        [event] = body["extra_vars"]["respond_published_events"]
        self.launched.setdefault(event["event_id"], time.monotonic())
        self.jobs += 1
        return {"id": self.jobs, "url": f"/api/v2/jobs/{self.jobs}/"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Controller

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if "/unified_job_templates/" in parts.path:
            self._answer({"count": 1, "results": [TEMPLATE]})
        elif "/jobs/" in parts.path:
            ids = asked["id__in"][0].split(",")
            ended = [{"id": int(each), "status": "successful", "created": ""} for each in ids]
            self._answer({"count": len(ended), "results": ended})
        elif "/config/" in parts.path:
            self._answer({"version": "24.6.1"})
        else:  # organizations and labels
            self._answer({"count": 1, "results": [{"id": 1, "name": asked.get("name", [""])[0]}]})

    def do_POST(self) -> None:
        self._answer(self.server.launch(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

    def _answer(self, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass


class Rulebook:
    """A running ansible-rulebook, and a connection to its webhook."""

    def __init__(self, directory: pathlib.Path, controller: Controller, *, stores: bool) -> None:
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            port = holder.getsockname()[1]
        [ruleset] = yaml.safe_load(block("docs/from-outside.md", "- name: Respond to the events of a subscription"))
        [[options]] = [each.values() for each in ruleset["sources"][0]["filters"]]
        options["memory_file"] = options["memory_file"].replace("/var/lib", str(directory))
        (directory / "rulebook").mkdir()
        webhook = {"host": "127.0.0.1", "port": port, "token": TOKEN}
        ruleset["sources"] = [{"eda.builtin.webhook": webhook, "filters": ruleset["sources"][0]["filters"]}]
        variables = yaml.safe_load(block("docs/from-outside.md", "drools_db_file_path"))
        variables["drools_db_file_path"] = variables["drools_db_file_path"].replace("/var/lib", str(directory))
        inventory = {"all": {"hosts": {"localhost": {}}}}
        for name, content in (("rulebook", [ruleset]), ("vars", variables), ("inventory", inventory)):
            (directory / f"{name}.yml").write_text(json.dumps(content))  # JSON is YAML
        command = [str(PROGRAM), "--rulebook", "rulebook.yml", "--inventory", "inventory.yml", "--vars", "vars.yml"]
        command += ["--controller-url", f"http://127.0.0.1:{controller.server_port}/", "--controller-token", TOKEN]
        self._output = directory / "output.txt"
        path = os.pathsep.join([str(pathlib.Path(str(PROGRAM)).parent), os.environ["PATH"]])
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *(["--persistence-id", "benchmark"] if stores else [])],
                cwd=directory,
                env={**os.environ, "PATH": path, "EDA_JOB_TEMPLATE_REFRESH_DELAY": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
        give_up_at = time.monotonic() + LIMIT
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(self._output.read_text())
            time.sleep(0.1)
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _listens(self) -> bool:
        try:
            self._connection.connect()
        except OSError:
            return False
        return True

    def post(self, message: dict) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self._connection.request("POST", "/", body=json.dumps([message]), headers=headers)
        answer = self._connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status} {answer.reason}")

    def cpu(self) -> float:
        """Its CPU seconds so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """The MiB that it has used at most."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def run(rulebook: Rulebook, controller: Controller, arriving: list[dict], rate: float) -> dict:
    """Post messages at a rate; what came of it."""
    cpu, began, due = rulebook.cpu(), time.monotonic(), {}
    for number, message in enumerate(arriving):
        moment = began + number / rate
        due.setdefault(message["data"]["resourceInfo"]["name"], moment)
        time.sleep(max(0, moment - time.monotonic()))
        rulebook.post(message)
    give_up_at = time.monotonic() + LIMIT
    while not due.keys() <= controller.launched.keys():
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"{len(due.keys() - controller.launched.keys())} events have no job")
        time.sleep(0.1)
    delays = [controller.launched[event_id] - moment for event_id, moment in due.items()]
    quarter = len(delays) // 4
    quantiles = statistics.quantiles(delays, n=100)
    return {
        "rate": rate,
        "messages": len(arriving),
        "p50_ms": round(quantiles[49] * 1000),
        "p99_ms": round(quantiles[98] * 1000),
        "growth_ms": round((statistics.median(delays[-quarter:]) - statistics.median(delays[:quarter])) * 1000),
        "cpu_ms_of_a_message": round((rulebook.cpu() - cpu) / len(arriving) * 1000, 2),
        "memory_mib": rulebook.memory(),
    }


def show(result: dict) -> None:
    print(
        f"{result['rate']:g} messages/s: p50 {result['p50_ms']} ms, p99 {result['p99_ms']} ms, "
        f"grows by {result['growth_ms']} ms; CPU {result['cpu_ms_of_a_message']} ms a message; "
        f"memory {result['memory_mib']} MiB",
        flush=True,
    )


def main() -> None:
    """Measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--vms", type=int, default=5000)
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--rate", type=float, default=25, help="messages in a second (default: 25, two minutes)")
    parser.add_argument("--memory", action="store_true", help="store no events")
    arguments = parser.parse_args()
    if not (PROGRAM and shutil.which("java")):
        print("left out: ansible-rulebook is neither on PATH nor in .nox/eda, or there is no Java")
        return
    controller = Controller()
    with tempfile.TemporaryDirectory() as directory:
        rulebook = Rulebook(pathlib.Path(directory), controller, stores=not arguments.memory)
        try:
            hour = run(rulebook, controller, messages(arguments.vms, arguments.events), arguments.rate)
            print(f"{hour['messages']} messages about {arguments.events} events of {arguments.vms} VMs")
            show(hour)
            rates, rate = [], FIRST_RATE
            while rate <= LAST_RATE and not (rates and rates[-1]["growth_ms"] > GROWS * 1000):
                rates.append(run(rulebook, controller, messages(arguments.vms, EVENTS_OF_A_RATE), rate))
                show(rates[-1])
                rate *= 2
        finally:
            rulebook.end()
    bounded = max((each["rate"] for each in rates if each["growth_ms"] <= GROWS * 1000), default=0)
    print(f"the delay stays bounded up to {bounded} messages/s")
    print(json.dumps({**hour, "vms": arguments.vms, "events": arguments.events, "rates": rates, "bounded": bounded}))


main()
