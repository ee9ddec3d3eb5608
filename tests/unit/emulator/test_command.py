# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command, as a separate process, straight from the checkout."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from scheduled_events_emulator import client
from scheduled_events_emulator.cli import main
from scheduled_events_emulator.client import ControlError, request

FILES = pathlib.Path(__file__).resolve().parents[3] / "roles" / "emulator" / "files"
COMMAND = FILES / "scheduled-events-emulator"
LIMIT = 300  # seconds; only so that a hang is named
FLEET = {"vms": [{"name": "vm1", "address": "127.0.40.1"}, {"name": "vm2", "address": "127.0.40.2"}]}


class Process:
    """A serving command and the client to it."""

    def __init__(self, folder, *arguments):
        self._fleet = folder / "fleet.json"
        self._fleet.write_text(json.dumps(FLEET))
        serve = ["serve", "--fleet", self._fleet, "--port=0", "--control=127.0.0.1:0", *arguments]
        if not any(argument.startswith("--exit-after") for argument in arguments):
            serve.append(f"--exit-after={LIMIT}")
        # A proxy that no program should ask.
        proxy = {"http_proxy": "http://127.0.0.1:9", "PYTHON": sys.executable}
        self.process = subprocess.Popen(
            [COMMAND, *serve], stdout=subprocess.PIPE, text=True, env={**os.environ, **proxy}
        )
        self.url = self.process.stdout.readline().rpartition(" ")[2].strip()

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=LIMIT)
        return self.process.returncode


@pytest.fixture
def serve(tmp_path):
    running = []

    def start(*arguments):
        running.append(Process(tmp_path, *arguments))
        return running[-1]

    yield start
    for process in running:
        process.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The URL of an emulator for tests that do not depend on its events, and change only these."""
    emulator = Process(tmp_path_factory.mktemp("served"))
    yield emulator.url
    emulator.stop(signal.SIGKILL)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a verb in this process; return (exit status, output, errors)."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    def call(url, *words):
        status = main(["--control", url, *words])
        return (status, *capsys.readouterr())

    return call


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well(serve, number):
    assert serve().stop(number) == 0


def test_a_hanging_request_does_not_keep_it_from_ending(serve, run):
    emulator = serve()
    run(emulator.url, "fault", "hang")
    endpoint = json.loads(run(emulator.url, "--json", "state")[1])["vms"][0]["endpoint"]
    host, _colon, port = endpoint.rpartition("/")[2].partition(":")
    with socket.create_connection((host, int(port))) as waiting:
        waiting.sendall(b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert emulator.stop() == 0


@pytest.mark.parametrize("missing", ["aiohttp", "aiohttp.web", "another"])
def test_a_missing_library_is_named_and_any_other_import_error_is_shown_as_it_is(capsys, monkeypatch, missing):
    def find_spec(name, _path, _target=None):
        if name == "scheduled_events_emulator.server":
            raise ModuleNotFoundError(name=missing)

    monkeypatch.setattr(sys, "meta_path", [SimpleNamespace(find_spec=find_spec), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "scheduled_events_emulator.server", raising=False)
    monkeypatch.delattr("scheduled_events_emulator.server", raising=False)
    if missing == "another":
        with pytest.raises(ModuleNotFoundError):
            main(["serve", "--fleet", "fleet.json"])
    else:
        assert main(["serve", "--fleet", "fleet.json"]) == 1
        assert "serve needs the library aiohttp" in capsys.readouterr().err


def test_it_ends_by_itself(serve):
    emulator = serve("--exit-after=0.01")
    assert emulator.process.wait(LIMIT) == 0


def test_shutdown_ends_it(serve, run):
    emulator = serve()
    assert run(emulator.url, "shutdown")[:2] == (0, "shutting down\n")
    assert emulator.process.wait(LIMIT) == 0


def test_the_started_file_holds_the_control_url(serve, tmp_path, run):
    started = tmp_path / "started"
    emulator = serve("--started-file", str(started))
    assert run(emulator.url, "state")[0] == 0
    assert started.read_text() == emulator.url + "\n"


def test_the_verbs_play_an_event_through(serve, run):
    emulator = serve("--manual-clock", "--start-time=2022-04-15T05:20:00Z")
    status, output, _errors = run(emulator.url, "schedule", "Redeploy", "vm1", "--notice", "60")
    event_id = output.strip()
    assert (status, len(event_id)) == (0, 36)
    assert f"{event_id}  Redeploy  Scheduled  2022-04-15T05:21:00.000Z  vm1  -" in run(emulator.url, "state")[1]
    assert run(emulator.url, "advance", "next")[1] == "2022-04-15T05:21:00.000Z\n"
    assert run(emulator.url, "complete", event_id)[1] == f"{event_id}\n"
    kinds = [line.split()[2] for line in run(emulator.url, "log")[1].splitlines()]
    assert kinds == ["scheduled", "started", "removed"]


def test_each_verb_answers_for_people_to_read(serve, run):
    url = serve().url
    for words, output in [
        ("state", "no events"),
        ("log", "nothing logged"),
        ("polls", "vm1  0  0  0  0  -  -"),
        ("faults", "no faults"),
        ("clear-faults", "removed 0 faults"),
        ("fault status --vm vm1 --status 410 --count 3 --method GET", "fault-1"),
        ("deallocate vm1", "vm1: cleared nothing"),
        ("restart vm1", "vm1: cleared nothing"),
    ]:
        status, printed, _errors = run(url, *words.split())
        assert (status, words) == (0, words)
        assert output in printed


def test_a_verb_answers_in_json_wherever_the_option_stands(served, run):
    before, after = run(served, "--json", "polls"), run(served, "polls", "--json")
    assert json.loads(before[1]) == json.loads(after[1])


def test_a_scenario_is_started_with_its_ids_printed(served, run):
    status, output, _errors = run(served, "scenario", "back_to_back", "vm1", "--notice", "60")
    assert (status, len(output.split())) == (0, 2)


def test_a_refusal_is_reported_with_its_reason(served, run):
    status, _output, errors = run(served, "schedule", "Reboot", "unknown")
    assert status == 1
    assert errors == (
        f"scheduled-events-emulator: POST {served}/control/events answered 400: "
        'vm "unknown": not in the fleet, expected one of vm1, vm2\n'
    )


def test_an_emulator_that_does_not_run_is_reported_with_its_url(run):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        status, _output, errors = run(url, "state", "--wait", "0")
    assert status == 1
    assert errors.startswith(f"scheduled-events-emulator: GET {url}/control/state: ")
    assert errors.endswith(
        "expected an emulator there: start one with the verb serve, or give the URL that it printed with --control\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--speed=60", "--manual-clock"], "--speed: a manual clock stands still"),
        (["--start-time=noon"], "--start-time noon: expected ISO 8601"),
    ],
)
def test_options_that_contradict_are_refused(tmp_path, capsys, arguments, message):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps(FLEET))
    assert main(["serve", "--fleet", str(fleet), *arguments]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_in_use_is_refused_with_its_address(tmp_path, capsys, shares):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps(FLEET))
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, shares)
        taken.bind(("127.0.40.2", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", "--fleet", str(fleet), f"--port={port}"]) == 1
    assert f"cannot listen on 127.0.40.2 port {port}: Address already in use" in capsys.readouterr().err


def test_a_started_file_that_cannot_be_written_is_refused(tmp_path, capsys):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps(FLEET))
    started = tmp_path / "missing" / "started"
    options = ["--port=0", "--control=127.0.0.1:0", "--exit-after=1", f"--started-file={started}"]
    assert main(["serve", "--fleet", str(fleet), *options]) == 1
    assert f"--started-file {started}: No such file or directory, expected a file" in capsys.readouterr().err


def test_a_verb_waits_for_an_emulator_that_is_about_to_start(tmp_path):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"vms": [{"name": "vm1", "address": "127.0.40.7"}]}))
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.40.7", 0))  # bound and not listening: connections are refused
        address = f"127.0.40.7:{reserved.getsockname()[1]}"
        # As `serve & schedule` does in a shell: the first try comes before the emulator listens.
        verb = subprocess.Popen(
            [COMMAND, "--control", address, "--wait", "120", "--json", "state"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHON": sys.executable},
        )
        with pytest.raises(subprocess.TimeoutExpired):
            verb.wait(1)
    serve = ["serve", "--fleet", fleet, "--port=0", "--control", address, "--exit-after=120"]
    serving = subprocess.Popen([COMMAND, *serve], env={**os.environ, "PYTHON": sys.executable})
    try:
        output, _errors = verb.communicate(timeout=120)
    finally:
        serving.kill()
        serving.wait()
    assert [vm["name"] for vm in json.loads(output)["vms"]] == ["vm1"]


def test_the_wait_for_an_emulator_ends(monkeypatch):
    now, pauses = [0.0], []

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(client, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"127.0.0.1:{reserved.getsockname()[1]}"
        with pytest.raises(ControlError):
            request(url, "GET", "/control/state", wait=3)
    assert 3 <= sum(pauses) <= 4


def test_a_closed_output_is_not_reported_as_a_failure(served):
    reading, writing = os.pipe()
    os.close(reading)
    verb = [COMMAND, "--control", served, "state"]
    ended = subprocess.run(
        verb, stdout=writing, stderr=subprocess.PIPE, env={**os.environ, "PYTHON": sys.executable}, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_full_disk_is_reported(served):
    verb = [COMMAND, "--control", served, "state"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            verb, stdout=full, stderr=subprocess.PIPE, env={**os.environ, "PYTHON": sys.executable}, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr == b"scheduled-events-emulator: [Errno 28] No space left on device\n"


def test_a_fleet_file_is_checked_without_serving_it(tmp_path, capsys):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps(FLEET))
    assert main(["check-fleet", str(fleet)]) == 0
    assert capsys.readouterr().out == f"{fleet}: 2 VMs\n"


def test_the_command_imports_nothing_from_the_working_directory(tmp_path):
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported')")
    result = subprocess.run(
        [COMMAND, "--help"], cwd=tmp_path, env={**os.environ, "PYTHON": sys.executable}, check=False
    )
    assert result.returncode == 0
