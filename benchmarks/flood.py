# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a receiver of webhooks and a controller get when one event names a thousand VMs, and how long each VM waits.

The code of the VMs is that of the polling unit: a courier for each unit takes its message from its own spool, and a
hook for each unit has the controller run the one job of the event. They are threads of one process, which starts all
of them at once. So the cost of a thousand processes, of their imports and of their machines is left out, and all share
one processor.

Receivers: one that takes everything, and one that takes `--rate` messages a second and answers 429 to the rest.
Controller: the AWX of AWX_URL and AWX_TOKEN (of an administrator, with AWX_PROJECTS, its directory of projects). The
benchmark makes a separate organization, and removes it. Without an AWX that part is left out.

Prints lines for people and a line of JSON. The exit status is 1 if a message was lost, or if an event has more than one
job.
"""

import argparse
import collections
import http.server
import json
import os
import pathlib
import shutil
import sys
import tempfile
import threading
import time
import uuid

import requests

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / place) for place in ("plugins/module_utils", "roles/poller/files")]
from _scheduled_events.clock import CLOCK  # noqa: E402 - found only through the path set above, as are the next
from scheduled_events_poller import systemd  # noqa: E402
from scheduled_events_poller.notify import controller_hook, delivery, request  # noqa: E402
from scheduled_events_poller.notify.messages import MessageSpool  # noqa: E402
from scheduled_events_poller.notify.settings import parse_receivers  # noqa: E402

STACK = 256 * 1024  # bytes of a thread
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks: [{ansible.builtin.debug: {msg: prepared}, run_once: true}]
"""
PROMPTS = {f"ask_{field}_on_launch": True for field in ("limit", "labels", "variables")}


def limit(units):
    """Seconds for one flood; what has not ended then counts as lost. A hook asks up to N/5 s apart about N VMs."""
    return 80.0 + units  # five looks


def event_of(vms):
    return {
        "event_id": str(uuid.uuid4()).upper(),
        "event_type": "Reboot",
        "event_status": "Scheduled",
        "event_source": "Platform",
        "resource_type": "VirtualMachine",
        "resources": vms,
        "not_before": None,
        "seconds_until_not_before": None,
        "description": "Host server is undergoing maintenance.",
        "duration_in_seconds": -1,
        "affects_this_vm": True,
        "is_leader": False,
        "additional": {},
    }


def quantile(values, share):
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) if ordered else None


def at_once(functions):
    """Call each function in a thread, all from one moment on; returns that moment, in monotonic seconds."""
    begin = threading.Event()
    threads = [threading.Thread(target=lambda each=each: (begin.wait(), each()), daemon=True) for each in functions]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    begin.set()
    for thread in threads:
        thread.join(max(0.0, began + limit(len(functions)) - time.monotonic()))
    return began


# Webhooks


class Receiver:
    """Takes so many messages a second, and answers 429 to the rest. ``asked``: the moment of each request."""

    def __init__(self, rate):
        self.asked, self.taken, self._lock = [], [], threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                status = 200 if receiver.takes(rate) else 429
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                self.close_connection = True

            def log_message(self, *_arguments):
                """Keep the output readable."""

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 1024

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def takes(self, rate):
        now = time.monotonic()
        with self._lock:
            self.asked.append(now)
            free = not rate or sum(now - each < 1.0 for each in self.taken[-rate:]) < rate
            if free:
                self.taken.append(now)
            return free

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


def deliver(courier, ended):
    """Serve a courier until its message is gone."""
    while True:
        before = time.monotonic()
        pause = courier.step()
        if pause == 0.0:
            ended.append(before)
            return
        time.sleep(pause)


def measure_webhooks(directory, units, rate):
    receiver = Receiver(rate)
    names = [f"web{number}" for number in range(units)]
    event, couriers, ended = event_of(names), [], []
    for name in names:
        spool = MessageSpool(str(directory / name))
        message = {"version": 1, "id": str(uuid.uuid4()), "time": CLOCK.utc(), "phase": "prepare", "vm_name": name}
        content = json.dumps({**message, "failed_phase": None, "failed_reason": None, "event": event}).encode()
        spool.put(content, message["id"], "receiver", max_messages=10)
        (known,) = parse_receivers([{"name": "receiver", "url": receiver.url}], place="receivers")
        couriers.append(delivery.Courier(known, spool))
    try:
        began = at_once([lambda each=each: deliver(each, ended) for each in couriers])
    finally:
        receiver.stop()
    delays = [each - began for each in receiver.taken]
    # How many requests came in the worst second once the first wave was over: that of the retries.
    seconds = collections.Counter(int(each - began) for each in receiver.asked)
    quarters = collections.Counter(int(4 * (each - began)) for each in receiver.asked)
    return {
        "units": units,
        "rate": rate,
        "delivered": len(ended),
        "requests": len(receiver.asked),
        "delay_s_p50": quantile(delays, 0.5),
        "delay_s_p99": quantile(delays, 0.99),
        "delay_s_last": quantile(delays, 1.0),
        "most_requests_in_a_second": max(seconds.values()),
        "busiest_quarter_seconds": [count for _quarter, count in sorted(quarters.items())][:24],
    }


# A controller


class Counted(request.Transport):
    """Notes how each request to the controller ended, and its seconds."""

    answers, seconds = collections.Counter(), []

    def exchange(self, *arguments, **options):
        began = time.monotonic()
        kind = "defect"
        try:
            answer = super().exchange(*arguments, **options)
            kind = f"{answer.status // 100}xx" if answer.status < 300 else str(answer.status)
            return answer
        except Exception as error:
            kind = type(error).__name__
            raise
        finally:
            self.answers[kind] += 1
            self.seconds.append(time.monotonic() - began)


class Controller:
    """The objects in an AWX that the hooks need; a context manager."""

    def __init__(self, vms):
        self.url, self.token = os.environ["AWX_URL"].rstrip("/"), os.environ["AWX_TOKEN"]
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {self.token}"
        self._vms = vms
        self.name = f"flood-{uuid.uuid4().hex[:8]}"

    def _call(self, method, path, body=None, **query):
        url = f"{self.url}/api/v2/{path}"
        answer = self._session.request(method, url, json=body, params=query, timeout=limit(len(self._vms)))
        if not answer.ok:
            sys.exit(f"{method} {answer.url} answered {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None

    def _create(self, kind, **fields):
        return self._call("POST", f"{kind}/", {"name": self.name, **fields})["id"]

    def __enter__(self):
        self._organization = self._create("organizations")
        inventory = self._create("inventories", organization=self._organization)
        for place in range(0, len(self._vms), 100):
            hosts = [
                {"name": name, "variables": "ansible_connection: local"} for name in self._vms[place : place + 100]
            ]
            self._call("POST", "bulk/host_create/", {"inventory": inventory, "hosts": hosts})
        directory = pathlib.Path(os.environ["AWX_PROJECTS"], self.name)
        directory.mkdir()
        (directory / "respond.yml").write_text(PLAYBOOK)
        self._project = self._create("projects", organization=self._organization, local_path=self.name)
        fields = {"inventory": inventory, "project": self._project, "allow_simultaneous": True}
        self._template = self._create("job_templates", **fields, playbook="respond.yml", **PROMPTS)
        return self

    def __exit__(self, *_exception):
        self._call("DELETE", f"job_templates/{self._template}/")
        self._call("DELETE", f"projects/{self._project}/")
        self._call("DELETE", f"organizations/{self._organization}/")
        shutil.rmtree(pathlib.Path(os.environ["AWX_PROJECTS"], self.name))

    def jobs_of(self, event):
        """How many jobs the event has."""
        label = f"scheduled-event.{event['event_id'].lower()}."
        return self._call("GET", "jobs/", labels__name__startswith=label)["count"]


class HookOfVm:
    """A run of the hook of one VM. ``knows_at``: when it first knew a job of its event."""

    def __init__(self, directory, controller, name, event):
        self._name, self.event = name, event
        directory.mkdir()
        settings = directory / "controller.json"
        settings.touch(mode=0o600)
        known = {"url": controller.url, "token": controller.token}
        settings.write_text(json.dumps({**known, "job_template": f"{controller.name}++{controller.name}"}))
        places = (settings, directory / "status.json", directory / "memory", directory)
        self._files = controller_hook.HookFiles(*map(str, places))
        self.knows_at, self.ending = None, None

    def __call__(self):
        run = f"{self.event['event_id'].lower()}.prepare.1"
        variables = {
            "SCHEDULED_EVENT_RUN": run,
            "SCHEDULED_EVENT_FIRST_RUN": run,
            "SCHEDULED_EVENT_RECOVERED": "0",
            "SCHEDULED_EVENT_UNDONE": "false",
            "SCHEDULED_EVENTS_VM_NAME": self._name,
        }
        self.ending = controller_hook.run(self.event, variables, self._files, self._say)
        self._say(self.ending.reason)

    def _say(self, line):
        if self.knows_at is None and line.startswith("job "):
            self.knows_at = time.monotonic()


def measure_controller(directory, units, *, own_events):
    """Hooks of so many units, for one event or for an event each."""
    names = [f"web{number}" for number in range(units)]
    together = event_of(names)
    Counted.answers, Counted.seconds = collections.Counter(), []
    request.Transport = Counted
    with Controller(names) as controller:
        hooks = [
            HookOfVm(directory / name, controller, name, event_of([name]) if own_events else together) for name in names
        ]
        began = at_once(hooks)
        took = time.monotonic() - began
        jobs = [controller.jobs_of(each.event) for each in (hooks if own_events else hooks[:1])]
    known = [hook.knows_at - began for hook in hooks if hook.knows_at]
    done = [hook for hook in hooks if hook.ending is not None and hook.ending.exit_status == 0]
    reasons = collections.Counter(
        "no end" if hook.ending is None else hook.ending.reason[:80] for hook in hooks if hook not in done
    )
    return {
        "units": units,
        "events": units if own_events else 1,
        "jobs": sum(jobs),
        "most_jobs_of_an_event": max(jobs),
        "prepared": len(done),
        "others": dict(reasons.most_common(3)),
        "seconds": round(took, 1),
        "knows_job_s_p50": quantile(known, 0.5),
        "knows_job_s_p99": quantile(known, 0.99),
        "first_job_s": quantile(known, 0.0),
        "requests": dict(Counted.answers),
        "request_s_p50": quantile(Counted.seconds, 0.5),
        "request_s_p99": quantile(Counted.seconds, 0.99),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--units", type=int, default=1000, choices=range(1, 3001), metavar="1..3000")
    parser.add_argument("--rate", type=int, default=100, help="messages a second that the slow receiver takes")
    parser.add_argument("--controller-units", type=int, nargs="*", default=[20], help="that share one event")
    parser.add_argument("--controller-events", type=int, nargs="*", default=[10], help="units with an event each")
    options = parser.parse_args()
    threading.stack_size(STACK)
    systemd.log = lambda *_arguments: None  # a thousand journals
    problems, webhooks, controllers = [], [], []
    with tempfile.TemporaryDirectory(prefix="flood-", ignore_cleanup_errors=True) as temporary:
        base = pathlib.Path(temporary)
        for rate in (0, options.rate):
            row = measure_webhooks(base / f"rate-{rate}", options.units, rate)
            webhooks.append(row)
            print(
                f"{row['units']} units, one receiver {f'of {rate} a second' if rate else 'without a limit'}: "
                f"{row['delivered']} delivered with {row['requests']} requests, delay p50 {row['delay_s_p50']} s, "
                f"p99 {row['delay_s_p99']} s, last {row['delay_s_last']} s; "
                f"at most {row['most_requests_in_a_second']} requests in a second",
                flush=True,
            )
            if row["delivered"] < row["units"]:
                lost = row["units"] - row["delivered"]
                problems.append(f"{lost} messages did not arrive in {limit(row['units']):g} s")
        sizes = [(units, False) for units in options.controller_units]
        sizes += [(units, True) for units in options.controller_events]
        if sizes and not {"AWX_URL", "AWX_TOKEN", "AWX_PROJECTS"} <= os.environ.keys():
            print("the part of the controller is left out: AWX_URL, AWX_TOKEN and AWX_PROJECTS do not name an AWX")
            sizes = []
        for number, (units, own_events) in enumerate(sizes):
            (base / f"controller-{number}").mkdir()
            row = measure_controller(base / f"controller-{number}", units, own_events=own_events)
            controllers.append(row)
            print(
                f"{units} units with {row['events']} events, one controller: {row['jobs']} jobs, {row['prepared']} "
                f"prepared after {row['seconds']} s; a unit knows its job after p50 {row['knows_job_s_p50']} s, p99 "
                f"{row['knows_job_s_p99']} s, the first {row['first_job_s']} s; requests {row['requests']}, p50 "
                f"{row['request_s_p50']} s, p99 {row['request_s_p99']} s; others {row['others']}",
                flush=True,
            )
            if row["most_jobs_of_an_event"] > 1:
                problems.append(f"an event of {units} units has {row['most_jobs_of_an_event']} jobs")
    for problem in problems:
        print("missed:", problem)
    print(json.dumps({"benchmark": "flood", "missed": problems, "webhooks": webhooks, "controllers": controllers}))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
