# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The consumers: how each one works while a fault lasts and after it, and what it did."""

import contextlib
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import controller_standin
import fleet_hosts
import receiver as receivers
import responders
from emulation import Emulator, until
from faults import Fault, Front
from network import FORKED, SERVICE, Network
from polling_vm import PHASES, Vm

from playbooks import Ansible, StartedRun, TaskResult, module_task, play

SAME, WAITS, RETRIES, FAILS = "same", "waits", "retries", "fails"
TAKEN, DROPS, HOLDS = "taken", "drops", "holds"
HOLD = 3.0  # seconds for which a fault lasts at least, from when a consumer has met it
LIMIT = 300.0  # seconds; only so that what never decides is named
GIVES_UP = 30.0  # after which modules no longer look for a service that was never there, with their start
ROOT = pathlib.Path(__file__).parents[2]
SOURCE = ROOT / "extensions" / "eda" / "plugins" / "event_source" / "scheduled_events.py"
SHORT, PATIENT = "short", "patient"
TIMEOUT = 3  # seconds for an answer, where a consumer lets its user choose


class Cell:
    """One fault and one consumer, with a separate emulator of two VMs."""

    def __init__(self, fault: Fault, network: Network, collection: pathlib.Path, ansible: Ansible, directory: Any):
        self.fault, self.network, self.collection, self.ansible = fault, network, collection, ansible
        self.directory: pathlib.Path = directory
        (directory / "emulator").mkdir()
        vms = [{"name": name, "address": at} for name, at in zip((SHORT, PATIENT), FORKED, strict=True)]
        program = collection / "roles" / "emulator" / "files"
        self.emulator = Emulator(program, directory / "emulator", vms, ("--manual-clock", "--rate-limit", "0"))
        self.emulator.endpoints = {name: self._named(url) for name, url in self.emulator.endpoints.items()}
        self.front: Front | None = None
        self.output = ""  # of the consumer
        self.reached: dict[str, str] = {}  # variables of hosts that are reached over the network
        if fault.of == "partition":
            self.reached = network.start_sshd()
        # How long a fault lasts: what is harmless, until the consumer has done its work; what a module gives up where
        # there never was a service, longer than that.
        self.lasts = LIMIT if fault.of in ("harmless", "partition") else HOLD
        self.given_up = GIVES_UP if fault.of in ("unreachable", "nameless", "partition") else self.lasts

    def _named(self, url: str) -> str:
        for each in (*FORKED, SERVICE) if self.fault.by_name else ():
            url = url.replace(f"//{each}:", f"//n{each.rpartition('.')[2]}.example:")
        return url

    def front_of(self, url: str) -> str:
        """Put something that can fail before a web server on loopback; the URL for the VM."""
        address = url.split("/")[2]
        self.front = Front(int(address.rpartition(":")[2]))
        return self._named(url.replace(address, f"{SERVICE}:{self.front.port}"))

    @contextlib.contextmanager
    def broken(self) -> Iterator[None]:
        """The fault begins, and ends."""
        if self.fault.http:
            self.emulator.fault(**self.fault.http)
            if self.front:
                self.front.fault = self.fault.http
        self.fault.begin(self.network)
        try:
            yield
        finally:
            self.lift()

    def lift(self) -> None:
        if self.fault.http:
            self.emulator.clear_faults()
        else:
            self.network.repair()
        if self.front:
            self.front.lift()

    def hold(self, decided: Callable[[], Any], seconds: float) -> bool:
        """Let the fault last until the consumer has decided, or for these seconds; whether it has."""
        ends = 0.0
        while not decided():
            if not ends and self._is_met():
                ends = time.monotonic() + seconds
            if ends and time.monotonic() > ends:
                return False
            time.sleep(0.1)
        return True

    def _is_met(self) -> bool:
        """Whether a request has failed, as far as that can be known."""
        if not self.fault.http:
            return True
        if self.front:
            return self.front.failed
        return any(self.emulator.polls(name)["failures_injected"] for name in self.emulator.endpoints)

    def schedule(self, *vms: str) -> str:
        return self.emulator.schedule("Reboot", *vms)

    def acknowledged(self, event_id: str) -> bool:
        """Whether the service has taken an acknowledgement of the event."""
        return any(event_id in ids and status == 200 for _vm, ids, status in self.emulator.posts())

    def finish(self) -> None:
        """Let the events that have started be over."""
        for event in self.emulator.state()["events"]:
            if event["status"] == "Started":
                self.emulator.complete(event["event_id"])

    def spawn(self, *command: str, stdin: str = "", **variables: str) -> subprocess.Popen[bytes]:
        """Start a program on the VM; its output is in the file ``log``."""
        given = self.directory / "stdin"
        given.write_text(stdin)
        with self.network.on_vm(), (self.directory / "log").open("ab") as log, given.open("rb") as file:
            environment = {**os.environ, **variables}
            return subprocess.Popen(command, stdin=file, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def log(self) -> str:
        path = self.directory / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self) -> None:
        if self.front:
            self.front.stop()
        self.emulator.stop()


def within(done: bool, decided: bool) -> str:
    """The outcome of what goes on after the fault."""
    return SAME if done and decided else WAITS


# Modules


def _modules(cell: Cell, name: str, arguments: dict[str, dict[str, Any]]) -> StartedRun:
    inventory = cell.emulator.inventory(arguments=arguments.__getitem__)
    for host in inventory["all"]["hosts"].values():
        host.update(cell.reached)
    task = module_task(name, "{{ arguments }}", ignore_unreachable=True)  # type: ignore[arg-type]
    return cell.ansible.start_playbook([play([task], strategy="free")], inventory=inventory)


def _of(run: StartedRun, host: str) -> TaskResult | None:
    return next(iter(run.all(host=host)), None)


def _once(
    cell: Cell, name: str, arguments: dict[str, Any], claim: Callable[[str, TaskResult], bool]
) -> tuple[str, str]:
    """A module with little and with its usual patience.

    :param claim: whether the result of a host is right.
    """
    endpoints = cell.emulator.endpoints
    given = {vm: {"endpoint": endpoints[vm], "request_timeout": TIMEOUT, **arguments.get(vm, {})} for vm in endpoints}
    given[SHORT]["retry_for"] = 1
    del given[PATIENT]["request_timeout"]
    with cell.broken():
        run = _modules(cell, name, given)
        until(lambda: _of(run, SHORT), what="an end of the module")
        decided = cell.hold(lambda: _of(run, PATIENT), cell.given_up)
    ended = run.result()
    cell.output += ended.output
    short, patient = ended.one(host=SHORT), ended.one(host=PATIENT)
    for result in (short, patient):
        assert claim(result.host, result) is not result.failed, result.result
    if not patient.failed:
        return (SAME if not short.failed else RETRIES), str(short.result.get("msg", ""))
    assert decided, "failed after the fault had ended"
    assert short.failed, "failed with more patience"
    again = _modules(cell, name, given).result()
    cell.output += again.output
    for host in (SHORT, PATIENT):
        assert claim(host, again.one(host=host)), again.output
    return FAILS, str(patient.result.get("msg", ""))


def info(cell: Cell) -> tuple[str, str]:
    events = {vm: cell.schedule(vm) for vm in (SHORT, PATIENT)}

    def claim(vm: str, result: TaskResult) -> bool:
        return [each["event_id"] for each in result.result.get("events", [])] == [events[vm]]

    return _once(cell, "scheduled_events_info", {}, claim)


def approve(cell: Cell) -> tuple[str, str]:
    events = {vm: cell.schedule(vm) for vm in (SHORT, PATIENT)}

    def claim(vm: str, result: TaskResult) -> bool:
        lists = [result.result.get(name) for name in ("approved", "already_started")]
        claimed = [events[vm]] in lists and not result.failed
        assert claimed is cell.acknowledged(events[vm]), result.result
        return claimed

    outcome = _once(cell, "scheduled_event_approve", {vm: {"event_id": events[vm]} for vm in events}, claim)
    assert all([vm, events[vm]] == [vm, *ids] for vm, ids, _status in cell.emulator.posts())
    return outcome


def wait(cell: Cell) -> tuple[str, str]:
    event_id = cell.schedule(PATIENT)
    given = {"endpoint": cell.emulator.endpoints[PATIENT], "timeout": 200, "sleep": 0.5, "event_id": event_id}
    inventory = cell.emulator.inventory(arguments=lambda _name: given)
    inventory["all"]["hosts"] = {PATIENT: {**inventory["all"]["hosts"][PATIENT], **cell.reached}}
    task = module_task("scheduled_events_wait", "{{ arguments }}", ignore_unreachable=True)  # type: ignore[arg-type]
    with contextlib.ExitStack() as stack:
        if cell.reached:  # a module that runs needs its connection no more than before
            stack.enter_context(cell.broken())
        run = cell.ansible.start_playbook([play([task])], inventory=inventory)
        if not cell.reached:
            until(lambda: cell.emulator.polls(PATIENT)["polls"] or not run.running, what="the first poll")
            stack.enter_context(cell.broken())
        cell.emulator.start(event_id)
        cell.emulator.complete(event_id)
        decided = cell.hold(lambda: not run.running, cell.lasts)
    ended = run.result()
    cell.output += ended.output
    result = ended.one(host=PATIENT)
    if result.failed:
        return FAILS, str(result.result.get("msg", ""))
    return within(True, decided), ""


# Roles


def respond(cell: Cell) -> tuple[str, str]:
    event_id = cell.schedule(PATIENT)
    hosts = responders.Hosts(cell.emulator, cell.ansible, cell.directory)

    def start() -> StartedRun:
        return hosts.start([PATIENT], host_vars={PATIENT: cell.reached})

    with cell.broken():
        run = start()
        decided = cell.hold(lambda: cell.acknowledged(event_id) or not run.running, cell.given_up)
        done = cell.acknowledged(event_id)
    failed = decided and not done
    if failed:
        first = run.result()
        cell.output += first.output
        assert first.rc != 0, "ended well, without an acknowledgement"
        assert cell.fault.of.startswith("POST") or not hosts.traces(PATIENT), "prepared without a document"
        run = start()
    until(lambda: cell.acknowledged(event_id) or not run.running, what="the acknowledgement")
    cell.finish()
    ended = run.result()
    cell.output += ended.output
    assert ended.rc == 0, ended.output
    assert cell.acknowledged(event_id)
    posted = min(entry["at_real"] for entry in cell.emulator.log("post"))
    assert hosts.prepared_at(PATIENT, event_id) < posted, "acknowledged before it was prepared"
    assert len(hosts.recoveries(PATIENT)) == 1
    return (FAILS, _message(first.tasks)) if failed else (within(done, decided), "")


def rolling_maintenance(cell: Cell) -> tuple[str, str]:
    hosts = fleet_hosts.Hosts(cell.emulator, cell.ansible, cell.directory)
    mark = cell.directory / PATIENT / "maintained"
    reached = dict.fromkeys((PATIENT, SHORT), cell.reached)
    with cell.broken():
        run = hosts.start(hosts=[PATIENT], rolling_maintenance_fleet=[PATIENT, SHORT], host_vars=reached)
        decided = cell.hold(lambda: mark.exists() or not run.running, cell.given_up)
        done = mark.exists()
    ended = run.result()
    cell.output += ended.output
    if ended.rc:
        assert not mark.exists()
        return FAILS, _message(ended.tasks)
    assert mark.exists()
    assert not hosts.marked()
    return within(done, decided), ""


def _message(tasks: list[TaskResult]) -> str:
    return next((str(each.result.get("msg", "")) for each in reversed(tasks) if each.failed), "")


# Programs on the VM


def polling_unit(cell: Cell) -> tuple[str, str]:
    vm = Vm(cell.collection, cell.directory, cell.emulator.endpoints[PATIENT])
    with cell.network.on_vm():
        vm.start()

    def marks() -> list[tuple[str, str]]:
        return [each[:2] for each in vm.hooks_of(event_id)]

    try:
        until(lambda: vm.remembered() is not None, what="the first document")
        with cell.broken():
            event_id = cell.schedule(PATIENT)
            decided = cell.hold(lambda: cell.acknowledged(event_id), cell.lasts)
        until(lambda: cell.acknowledged(event_id), what="the acknowledgement")
        until(lambda: ("started", "end") in marks(), what="the hook of the start")
        cell.finish()
        until(lambda: vm.remembers_nothing() and ("recover", "end") in marks(), what="the recovery")
        assert vm.runs()
        assert [phase for phase, mark in marks() if mark == "begin"] == list(PHASES), vm.journal()
        prepared = next(at for phase, mark, at in vm.hooks_of(event_id) if (phase, mark) == ("prepare", "end"))
        assert prepared < min(entry["at_real"] for entry in cell.emulator.log("post")), "acknowledged before prepared"
    finally:
        vm.stop()
        cell.output += vm.journal()
    return within(True, decided), ""


def event_source(cell: Cell) -> tuple[str, str]:
    first = cell.schedule(PATIENT)
    arguments = {"endpoints": [cell.emulator.endpoints[PATIENT]], "interval": 0.5}
    process = cell.spawn(
        sys.executable, str(pathlib.Path(__file__).with_name("listen.py")), str(SOURCE), json.dumps(arguments)
    )

    def sent() -> list[tuple[str, str]]:
        lines = [json.loads(line) for line in cell.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [(line["event_id"], line["change"]) for line in lines]

    try:
        until(sent, what="the first event")
        with cell.broken():
            second = cell.schedule(PATIENT)
            cell.emulator.start(first)
            cell.emulator.complete(first)
            expected = [(first, "gone"), (first, "new"), (second, "new")]
            decided = cell.hold(lambda: (first, "gone") in sent() and (second, "new") in sent(), cell.lasts)
        until(lambda: (first, "gone") in sent() and (second, "new") in sent(), what="what was sent")
        assert sorted(each for each in sent() if each[1] != "changed") == sorted(expected)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        cell.output += cell.log()
    return within(True, decided), ""


def webhook(cell: Cell) -> tuple[str, str]:
    service = receivers.Receiver()
    url = cell.front_of(service.url)
    config = cell.directory / "webhooks.json"
    places = [str(config), str(cell.directory / "state"), str(cell.directory / "run")]
    messages = cell.directory / "state" / "messages"
    for each in (messages, cell.directory / "run"):
        each.mkdir(parents=True)

    def configure() -> None:
        config.write_text(json.dumps([{"name": "receiver", "url": url, "request_timeout": TIMEOUT}]))
        config.chmod(0o600)

    def program(what: str, **how: str) -> subprocess.Popen[bytes]:
        path = cell.collection / "roles" / "poller" / "files" / "scheduled-events-webhooks"
        return cell.spawn(sys.executable, str(path), what, *places, **how)

    def leave() -> None:
        run = "c7061bac-afdc-4513-b24b-aa5f13a16123.prepare.1"
        names = {"PHASE": "prepare", "FIRST_RUN": run}
        variables = {f"SCHEDULED_EVENT_{name}": value for name, value in names.items()}
        assert program("spool", stdin=json.dumps(receivers.EVENT), **variables).wait(60) == 0

    configure()
    leave()
    with cell.broken():
        process = program("deliver")

        def has_decided() -> bool:
            return process.poll() is not None or "correct poller_webhooks" in cell.log()

        refused = cell.fault.http and cell.fault.http.get("status") == 400  # three times within some 4 seconds
        decided = cell.hold(has_decided, LIMIT if refused else cell.lasts)
        before = len(service.requests)
    outcome = WAITS
    if "correct poller_webhooks" in cell.log():
        outcome = HOLDS
        configure()
        process.wait(60)
        process = program("deliver")
    elif decided:
        dropped = "a message is dropped" in cell.log()
        outcome = DROPS if dropped else SAME if before else TAKEN
        leave() if outcome != SAME else None
        process.wait(60)
        process = program("deliver") if outcome != SAME else process
    assert process.wait(60) == 0, cell.log()
    assert len(service.ids()) == 1, service.ids()
    assert not [name for name in os.listdir(messages) if not name.startswith(".")]
    service.stop()
    cell.output += cell.log()
    return outcome, _line_with(cell.log(), "webhook receiver: it ") or _line_with(cell.log(), "; its messages wait")


def awx_job(cell: Cell) -> tuple[str, str]:
    controller = controller_standin.Controller()
    url = cell.front_of(controller.url)
    settings = {"url": url, "job_template": "respond", "token": "t0k3n", "allow_http": True}
    config = cell.directory / "controller.json"
    config.write_text(json.dumps({**settings, "interval": 1, "request_timeout": TIMEOUT}))
    config.chmod(0o600)
    (cell.directory / "run").mkdir()
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0, tzinfo=None)
    later = [f"{now + datetime.timedelta(minutes=minutes)}Z".replace(" ", "T") for minutes in (10, 30)]
    event = {**receivers.EVENT, "resources": ["vm1"], "not_before": later[1]}
    run = f"{event['event_id'].lower()}.prepare."

    def hook(number: int) -> subprocess.Popen[bytes]:
        path = cell.collection / "roles" / "poller" / "files" / "scheduled-events-controller"
        files = {"settings": config, "status": "status.json", "memory": "memory", "runtime": "run"}
        places = [f"--{name}={cell.directory / place}" for name, place in files.items()]
        variables = {
            "SCHEDULED_EVENT_DEADLINE": later[0],
            "SCHEDULED_EVENT_RUN": f"{run}{number}",
            "SCHEDULED_EVENT_FIRST_RUN": f"{run}1",
            "SCHEDULED_EVENT_RECOVERED": "0",
            "SCHEDULED_EVENT_UNDONE": "false",
            "SCHEDULED_EVENTS_VM_NAME": "vm1",
        }
        return cell.spawn(sys.executable, str(path), *places, stdin=json.dumps(event), **variables)

    with cell.broken():
        process = hook(1)
        decided = cell.hold(lambda: process.poll() is not None, cell.lasts)
        done = bool(controller.launched())
    status = process.wait(400)
    if failed := status != 0:
        assert decided, cell.log()
        assert not done, cell.log()
        first = cell.log()
        assert hook(2).wait(400) == 0, cell.log()
    assert len(controller.launched()) == 1, controller.asked
    assert cell.log().splitlines()[-1] == "job 1 has ended: successful"
    controller.stop()
    cell.output += cell.log()
    return (FAILS, first.splitlines()[-1]) if failed else (within(done, decided), cell.log().splitlines()[0])


def _line_with(text: str, words: str) -> str:
    return next((line for line in text.splitlines() if words in line), "")


class Consumer(NamedTuple):
    """A consumer, and its name on the page."""

    name: str
    run: Callable[[Cell], tuple[str, str]]


CONSUMERS = (
    Consumer("`info`", info),
    Consumer("`wait`", wait),
    Consumer("`approve`", approve),
    Consumer("unit", polling_unit),
    Consumer("`respond`", respond),
    Consumer("rolling", rolling_maintenance),
    Consumer("event source", event_source),
    Consumer("webhook", webhook),
    Consumer("AWX job", awx_job),
)
