# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell and the command: a real process against a small service on loopback."""

import contextlib
import http.server
import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time

import pytest
from scheduled_events_poller import cli, poller, service, state, systemd
from scheduled_events_poller.config import Settings
from scheduled_events_poller.runner import Directories

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
COMMAND = os.path.join(ROOT, "roles", "poller", "files", "scheduled-events")
ID = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
GIVE_UP = 30.0
EXECUTABLE = 0o755


def until(condition, what):
    give_up_at = time.monotonic() + GIVE_UP
    while not condition():
        assert time.monotonic() < give_up_at, what + " did not come about"
        time.sleep(0.01)


class Imds:
    """A service of one VM: ``events`` is what it tells, ``posts`` what it was sent."""

    def __init__(self):
        self.events, self.posts, self.connections, self.polls = [], [], set(), 0
        self.status, self.hanging = 200, threading.Event()
        self.hang_next, self.release = False, threading.Event()
        imds = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_arguments):
                pass

            def do_GET(self):
                if self.path.startswith("/metadata/instance/"):
                    self.answer(200, b"vm1")
                    return
                imds.polls += 1
                imds.connections.add(self.client_address)
                if imds.hang_next:
                    imds.hang_next = False
                    imds.hanging.set()
                    imds.release.wait(GIVE_UP)
                document = {"DocumentIncarnation": len(imds.events), "Events": imds.events}
                self.answer(imds.status, json.dumps(document).encode())

            def do_POST(self):
                imds.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                self.answer(200, b"")

            def answer(self, status, body):
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def announce(self, **changes):
        event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
        self.events = [dict(event, **changes)]

    def stop(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


class Unit:
    """The polling unit as a process, its files in one directory."""

    def __init__(self, directory, url):
        self.directory = directory
        self.process = None
        self.settings = {"endpoint": url, "interval": 0.25}
        self.arguments = [
            sys.executable,
            COMMAND,
            f"--config={self.path('poller.json')}",
            f"--state-file={self.path('state.json')}",
            f"--runtime-directory={self.path('run')}",
            f"--hooks-directory={self.path('hooks')}",
            f"--hooks-runtime-directory={self.path('root')}",
        ]
        os.mkdir(self.path("root"))
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind(self.path("systemd"))
        self.notified.settimeout(GIVE_UP)

    def path(self, name):
        return os.path.join(str(self.directory), name)

    def configure(self, **changes):
        self.settings.update(changes)
        with open(self.path("poller.json"), "w") as file:
            json.dump(self.settings, file)

    def add_hook(self, phase, script):
        directory = os.path.join(self.path("hooks"), phase + ".d")
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, "10-hook")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path, EXECUTABLE)

    def start(self):
        if not os.path.exists(self.path("poller.json")):
            self.configure()
        environment = dict(
            os.environ, NOTIFY_SOCKET=self.path("systemd"), PYTHONPATH=os.path.join(ROOT, "tests", "guard")
        )
        with open(self.path("log"), "ab") as log:
            self.process = subprocess.Popen(
                [*self.arguments, "run", "--spawn-hooks"], stdout=log, stderr=log, env=environment
            )
        self.await_notification("READY=1")

    def await_notification(self, wanted):
        while True:
            message = self.notified.recv(4096).decode()
            if wanted in message:
                return message

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(GIVE_UP)
        self.notified.close()

    def log(self):
        with open(self.path("log")) as file:
            return file.read()

    def command(self, *arguments):
        ended = subprocess.run(
            [*self.arguments, *arguments],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
        assert "Traceback" not in ended.stderr
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
def imds():
    service_of_test = Imds()
    yield service_of_test
    service_of_test.stop()


@pytest.fixture
def unit(tmp_path, imds):
    made = Unit(tmp_path, imds.url)
    yield made
    made.stop()


def test_an_event_is_prepared_acknowledged_and_recovered(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, f"echo $SCHEDULED_EVENT_PHASE >> {unit.path('ran')}")
    unit.start()
    imds.announce()
    until(lambda: imds.posts, "the acknowledgement")
    assert imds.posts == [{"StartRequests": [{"EventId": ID}]}]
    imds.events = []
    until(lambda: ": over\n" in unit.log(), "the end")
    with open(unit.path("ran")) as file:
        assert file.read() == "prepare\nrecover\n"


def test_polls_share_one_connection(unit, imds):
    unit.start()
    until(lambda: imds.polls > 5, "the sixth poll")
    assert len(imds.connections) == 1


def test_a_hanging_poll_holds_up_no_acknowledgement(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks are running" in unit.log(), "preparation")
    imds.hang_next = True
    assert imds.hanging.wait(GIVE_UP)
    open(unit.path("go"), "w").close()
    until(lambda: imds.posts, "the acknowledgement")
    assert not imds.release.is_set()


def test_sigterm_ends_it_while_a_request_hangs_and_leaves_hooks_alone(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done; echo > {unit.path('ended')}")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks are running" in unit.log(), "preparation")
    imds.hang_next = True
    assert imds.hanging.wait(GIVE_UP)
    unit.process.terminate()
    unit.await_notification("STOPPING=1")
    assert unit.process.wait(GIVE_UP) == 0
    open(unit.path("go"), "w").close()
    until(lambda: os.path.exists(unit.path("ended")), "the end of the hook")
    unit.start()  # and the next process finds its result
    until(lambda: imds.posts, "the acknowledgement")


def test_a_reload_with_a_bad_configuration_keeps_the_running_one_and_says_so(unit, imds):
    unit.start()
    unit.configure(approve="sometimes")
    unit.process.send_signal(signal.SIGHUP)
    unit.await_notification("RELOADING=1")
    unit.await_notification("READY=1")
    assert "the new configuration is refused, the running one stays in force" in unit.log()
    imds.announce()
    until(lambda: imds.posts, "the acknowledgement")


def test_a_reload_brings_new_rules_into_force(unit, imds):
    unit.configure(approve="never")
    unit.start()
    imds.announce()
    until(lambda: "because approve is never" in unit.log(), "the note")
    unit.configure(approve="alone")
    unit.process.send_signal(signal.SIGHUP)
    until(lambda: imds.posts, "the acknowledgement")


def test_an_unreadable_state_is_kept_and_told(unit, imds):
    with open(unit.path("state.json"), "w") as file:
        file.write("{broken")
    unit.start()
    imds.announce()
    until(lambda: imds.posts, "the acknowledgement")
    (kept,) = [name for name in os.listdir(unit.path("")) if name.startswith("state.json.broken-")]
    with open(unit.path(kept)) as file:
        assert file.read() == "{broken"
    assert f"kept as {unit.path(kept)}" in unit.log()


def test_a_dry_run_runs_no_hook_posts_nothing_and_remembers_nothing(unit, imds):
    unit.add_hook("prepare", f"touch {unit.path('ran')}")
    unit.configure(dry_run=True)
    unit.start()
    imds.announce()
    until(lambda: "dry run: would acknowledge it" in unit.log(), "the note")
    assert "dry run: would run the prepare hooks" in unit.log()
    assert imds.posts == []
    assert not os.path.exists(unit.path("ran"))
    assert not os.path.exists(unit.path("state.json"))


def test_a_failing_service_is_no_empty_list(unit, imds):
    unit.add_hook("recover", "")
    unit.add_hook("prepare", "")
    unit.start()
    imds.announce()
    until(lambda: imds.posts, "the acknowledgement")
    imds.events, imds.status = [], 503
    seen = imds.polls
    until(lambda: imds.polls > seen + 2, "failing polls")
    assert "recover hooks" not in unit.log()
    imds.status = 200
    until(lambda: "recover hooks ended: ok" in unit.log(), "recovery")


def test_metrics_are_written_where_a_directory_is_given(unit, imds):
    unit.configure(metrics_directory=unit.path(""))
    unit.start()
    imds.announce(EventType='Odd"\n')
    until(lambda: imds.posts, "the acknowledgement")

    def metrics():
        with contextlib.suppress(FileNotFoundError), open(unit.path("scheduled_events.prom")) as file:
            return file.read()
        return ""

    until(lambda: 'scheduled_events_approvals_total{result="accepted"} 1\n' in metrics(), "the count")
    assert 'scheduled_events_events{type="Odd\\"\\n",status="Scheduled"} 1\n' in metrics()
    assert "scheduled_events_approval_delay_seconds_count 1\n" in metrics()


def test_status_tells_what_it_does_with_an_exit_code(unit, imds):
    code, output, _errors = unit.command("status")
    assert (code, output) == (2, "CRITICAL: the polling unit does not run, or has not since this boot\n")
    unit.add_hook("prepare", "exit 1")
    unit.start()
    until(lambda: unit.command("status")[0] == 0, "the status OK")
    imds.announce()
    until(lambda: "did not succeed" in unit.log(), "the failure")
    until(lambda: unit.command("status")[0] == 1, "the status WARNING")
    output = unit.command("status")[1]
    assert output.startswith("WARNING: 1 of 1 events of vm1 in trouble\n")
    assert "not acknowledged, because its prepare hooks did not succeed: 10-hook: exit status 1" in output
    assert json.loads(unit.command("status", "--json")[1])["exit_code"] == 1


def test_list_shows_the_events_of_this_vm(unit, imds):
    unit.configure()
    assert unit.command("list")[1] == "no events of vm1 (incarnation 0)\n"
    imds.announce(Resources=["vm2"])
    assert unit.command("list")[1] == "no events of vm1 (incarnation 1)\n"
    lines = unit.command("list", "--all")[1].splitlines()
    assert lines[1].split() == [ID, "Reboot", "Scheduled", "-", "-", "-", "vm2"]
    shown = json.loads(unit.command("list", "--all", "--json")[1])
    assert [event["event_id"] for event in shown["events"]] == [ID]


@pytest.mark.parametrize(
    ("resources", "options", "code", "message"),
    [
        (["vm1"], [], 0, "acknowledged"),
        (["vm1", "vm2"], [], 1, "it names other VMs than vm1 too"),
        (["vm1", "vm2"], ["--force"], 0, "acknowledged"),
        (["vm2"], ["--force"], 1, "it does not name this VM, vm1"),
    ],
)
def test_approve_speaks_for_others_only_by_force_and_never_for_others_alone(
    unit, imds, resources, options, code, message
):
    unit.configure()
    imds.announce(Resources=resources)
    ended, output, _errors = unit.command("approve", ID.lower(), *options)
    assert ended == code
    assert message in output
    assert len(imds.posts) == (1 if code == 0 else 0)


def test_approve_refuses_what_is_not_prepared(unit, imds):
    unit.add_hook("prepare", "exit 1")
    unit.start()
    imds.announce()
    until(lambda: "did not succeed" in unit.log(), "the failure")
    code, output, _errors = unit.command("approve", ID)
    assert code == 1
    assert "its prepare hooks ended with: failed; --force does it" in output


def test_poll_once_tells_what_would_be_done_and_does_nothing(unit, imds):
    unit.configure()
    unit.add_hook("prepare", f"touch {unit.path('ran')}")
    imds.announce()
    code, output, _errors = unit.command("poll", "--once", "--dry-run")
    assert code == 0
    assert f"{ID}: would run the prepare hooks" in output
    assert (imds.posts, os.path.exists(unit.path("ran"))) == ([], False)


@pytest.mark.parametrize("content", [{"event_id": ID}, {"EventId": ID}, {"Events": [{"EventId": ID}]}])
def test_hooks_test_runs_the_hooks_of_a_phase(unit, content):
    unit.add_hook("prepare", 'echo "id $SCHEDULED_EVENT_ID"')
    with open(unit.path("event"), "w") as file:
        json.dump(content, file)
    code, output, _errors = unit.command("hooks", "test", "prepare", "--event", unit.path("event"))
    assert code == 0
    assert f"id {ID}\n" in output


def test_config_check_refuses_a_mistake_with_its_place(unit):
    unit.configure(margin="x")
    code, _output, errors = unit.command("config", "check", unit.path("poller.json"))
    assert code == 1
    assert errors.startswith(f"scheduled-events: {unit.path('poller.json')}: margin: seconds from 0 to 86400")
    unit.configure(margin=1)
    assert unit.command("config", "check", unit.path("poller.json")) == (0, "", "")


def test_run_with_a_bad_configuration_ends_with_the_reason(unit):
    unit.configure(interval=0)
    code, _output, errors = unit.command("run")
    assert code == 1
    assert "interval: seconds from 0.25 to 5 were expected, not 0" in errors


# The loop, in single turns


@pytest.fixture
def quiet(tmp_path):
    """A poller that has not begun, and polls nobody."""
    places = poller.Places(str(tmp_path / "state"), Directories(str(tmp_path), str(tmp_path), str(tmp_path)))
    made = poller.Poller(lambda: Settings(endpoint="http://127.0.0.1:9"), places)
    made._poll_worker = FakeWorker()
    made._poll_service = made._approve_service = service.Service(Settings(endpoint="http://127.0.0.1:9"))
    return made


class FakeWorker:
    busy = 0.0

    def submit(self, _job):
        pass

    def busy_for(self):
        return self.busy


@pytest.mark.parametrize(("failures", "gap"), [(0, 1.0), (1, 2.0), (2, 4.0), (3, 5.0), (1000000, 5.0)])
def test_polls_back_off_to_five_seconds(quiet, monkeypatch, failures, gap):
    monkeypatch.setattr(time, "monotonic", lambda: 1000.0)
    quiet._failures = failures
    quiet._poll_if_due()
    assert quiet._next_poll == 1000.0 + gap


@pytest.mark.parametrize(("busy", "fed"), [(0.0, True), (500.0, True), (511.0, False)])
def test_the_watchdog_is_fed_while_requests_come_to_their_end(quiet, monkeypatch, busy, fed):
    sent = []
    monkeypatch.setattr(systemd, "notify", sent.append)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    quiet._poll_worker.busy = busy
    quiet._feed_watchdog()
    assert sent == (["WATCHDOG=1"] if fed else [])


def test_nothing_is_done_that_could_not_be_remembered(quiet, monkeypatch, capsys):
    def fail(*_arguments):
        raise OSError("disk full")

    quiet._state = state.State(serial=1)
    quiet._state_file = state.StateFile("/nowhere/state.json")
    quiet._boot_id, quiet._vm_name = "boot", "vm1"
    monkeypatch.setattr(quiet, "_carry_out", fail)
    event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    document = cli.parse(json.dumps({"Events": [event]}), api_version="2020-07-01")
    quiet._decide(service.Polled(document, "vm1"))
    assert quiet._state == state.State(serial=1)
    assert "the state cannot be kept, so nothing can be done" in capsys.readouterr().err
