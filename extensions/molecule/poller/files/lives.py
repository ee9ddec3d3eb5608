# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of the test hosts, from the announcement to the removal: lives.py PREFIX COMMAND HOST [ARGUMENT]...

PREFIX begins the names of the containers. One program for many facts, because each task of Ansible on a host takes
half a second of processor time.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

ENTER = pathlib.Path(__file__).parents[2] / "shared" / "enter"
ROUNDED = 0.02  # seconds: a measured time has milliseconds, and the time of a boot has ticks
FROZEN = 4.0  # seconds; the unit notices a pause of more than 2.5
LIMIT = 900  # seconds for one thing to happen, also on a busy machine
DIRECTORY = "/var/lib/drill"
LOG = f"{DIRECTORY}/log"
# What the hooks of an event write down, in this order.
STEPS = ["prepare|first", "prepare|second", "prepare|third's $HOME", "started|first", "recover|first"]
SECRETS = ["T0SECRETPATH", "tokentoken", "hmachmac"]
WRITTEN = """
journalctl --no-pager --output json -u 'scheduled-events*'
systemctl show 'scheduled-events*'
scheduled-events status --json
find /var/lib/scheduled-events* /run/scheduled-events* /etc/scheduled-events -type f -not -name webhooks.json \
    -exec cat {} +
"""


class Wrong(Exception):
    """A host is not as expected."""


def expect(truth: object, otherwise: str) -> None:
    if not truth:
        raise Wrong(otherwise)


class Host:
    """A container with systemd."""

    def __init__(self, prefix: str, name: str) -> None:
        self.name, self.container = name, f"{prefix}-{name}"

    def attempt(self, *command: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command on the host, which may fail."""
        words = [str(ENTER), "exec", self.container, *command]
        return subprocess.run(words, input=given, capture_output=True, text=True, timeout=LIMIT, check=False)

    def run(self, *command: str, given: str = "") -> str:
        """Run a command on the host; its output."""
        done = self.attempt(*command, given=given)
        expect(not done.returncode, f"{command} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout.strip()

    def wait(self, what: str, check: Callable[[], object]) -> None:
        """Wait until it is so."""
        give_up_at = time.monotonic() + LIMIT
        while not check():
            expect(time.monotonic() < give_up_at, f"{LIMIT} s were not enough for: {what}")
            time.sleep(0.5)

    def shown(self) -> dict[str, Any]:
        """The status as the unit wrote it last; empty if there is none."""
        return json.loads(self.attempt("scheduled-events", "status", "--json").stdout or "{}")

    def freeze(self) -> tuple[float, float]:
        """Stop the poller for a known time. It stood still for at least, and at most, these seconds.

        Its last iteration before the freeze was not earlier than the last poll that its status shows. Its first
        iteration after it was not later than the status that shows a later poll. The commands run on the host:
        podman may need half a minute to stop a container on a busy machine, and the watchdog ends a unit then.
        """
        before = self.shown()["last_successful_poll"]
        kill = "systemctl kill --signal={} scheduled-events-poller.service"
        self.run("sh", "-e", "-c", f"{kill.format('STOP')}; sleep {FROZEN}; {kill.format('CONT')}")
        thawed = time.time()
        self.wait("a poll after the freeze", lambda: self.shown().get("last_successful_poll", 0) > thawed)
        return FROZEN, self.shown()["time"] - before

    def reboot(self) -> None:
        """Restart the container, and wait for systemd."""
        restart = ["podman", "restart", "--time=120", self.container]  # 10 s are too few beside other work
        subprocess.run(restart, stdout=subprocess.DEVNULL, timeout=LIMIT, check=True)
        up = ("running", "degraded")
        self.wait("the boot", lambda: self.attempt("systemctl", "is-system-running").stdout.strip() in up)
        failed = self.run("systemctl", "--failed", "--no-legend", "--no-pager")
        expect(not failed, f"a unit failed: {failed}")

    def main_pid(self) -> str:
        return self.run("systemctl", "show", "--property=MainPID", "--value", "scheduled-events-poller.service")

    def status(self) -> subprocess.CompletedProcess[str]:
        return self.attempt("scheduled-events", "status")

    def polls(self, *, without_problem: bool = False) -> bool:
        """Whether the poller that runs now has polled. A message that waits is a problem, too."""
        shown = self.shown()
        if without_problem and shown.get("exit_code"):
            return False
        return str(shown.get("pid")) == self.main_pid()  # without one, nothing has polled yet


class Life:
    """An event of a host."""

    def __init__(self, host: Host, azure: Host, event_id: str = "") -> None:
        self.host, self._azure, self.event_id = host, azure, event_id
        self._impacts: list[tuple[str, float, float]] = []  # outcome, and seconds at least and at most

    def emulator(self, *arguments: str) -> str:
        return self._azure.run("scheduled-events-emulator", *arguments)

    def begin(self, held: list[str]) -> None:
        """Announce the event. The first hook of these phases will wait."""
        for phase in held:
            self.host.run("touch", f"{DIRECTORY}/hold-{phase}")
        self.event_id = self.emulator("schedule", "Reboot", self.host.name, "--started-for", "3600")

    def entries(self) -> list[list[str]]:
        """The lines of the hooks about this event: id, phase, name, begin or end, time, user, process."""
        lines = [line.split("|") for line in self.host.attempt("cat", LOG).stdout.splitlines()]
        return [line for line in lines if line[0] == self.event_id]

    def wait_for_hook(self, step: str, moment: str) -> None:
        def happened() -> bool:
            return [*step.split("|"), moment] in [entry[1:4] for entry in self.entries()]

        self.host.wait(f"{moment} of {step} for {self.event_id}", happened)

    def run(self, phase: str, disturb: Callable[[], object] | None) -> None:
        """Go through a phase, with a disturbance while its first hook runs."""
        if phase == "recover":
            self.emulator("complete", self.event_id)
        if disturb:
            self.wait_for_hook(f"{phase}|first", "begin")
            disturb()
            self.host.run("rm", f"{DIRECTORY}/hold-{phase}")
        self.wait_for_hook([step for step in STEPS if step.startswith(phase)][-1], "end")

    def judge(self, rebooted: Collection[str] = ()) -> None:
        """Verify what the hooks and the emulator wrote down. A hook that a reboot ends begins again, and no other."""
        self.host.wait("the end of the event", lambda: self.host.shown().get("events") == [])
        entries = self.entries()
        ended = [entry for entry in entries if entry[3] == "end"]
        expect([f"{entry[1]}|{entry[2]}" for entry in ended] == STEPS, f"hooks did not end once, in order: {entries}")
        begun = [step for _id, *step in (entry[:4] for entry in entries) if step[0] not in rebooted]
        expect(len(begun) == len({tuple(step) for step in begun}), f"a hook began twice: {entries}")
        expect({entry[5] for entry in entries} == {"0"}, f"a hook did not run as root: {entries}")
        posts = [post for post in json.loads(self.emulator("--json", "log"))["log"] if post["kind"] == "post"]
        posts = [post for post in posts if self.event_id in post["event_ids"]]
        expect(len(posts) == 1, f"expected one acknowledgement: {posts}")
        expect(posts[0]["approved"] == [self.event_id] and posts[0]["vm"] == self.host.name, f"of another: {posts}")
        prepared_at = max(float(entry[4]) for entry in ended if entry[1] == "prepare")
        expect(posts[0]["at_real"] > prepared_at, f"acknowledged before the last hook ended at {prepared_at}: {posts}")

    def disturbance(self, kind: str) -> Callable[[], object]:
        """Something that happens to the poller or to the host."""
        kinds = {"kill": self._kill, "restart": self._restart, "reboot": self.host.reboot, "empty": self._empty}
        return {**kinds, "impact_of_freeze": self._freeze, "impact_of_reboot": self._reboot}[kind]

    def _freeze(self) -> None:
        self._impacts.append(("paused", *self.host.freeze()))

    def _reboot(self) -> None:
        began = time.monotonic()
        self.host.reboot()
        self.host.wait("a poll after the boot", self.host.polls)
        self._impacts.append(("rebooted", 0.0, time.monotonic() - began))

    def judge_impacts(self) -> None:
        """Verify what the unit measured."""
        facts = json.loads(self.host.run("scheduled-events", "history", "--json"))["facts"]
        found = [fact for fact in facts if fact["kind"] == "impact" and fact["event_id"] == self.event_id]
        for outcome, least, most in self._impacts:
            seconds = [fact["measured_seconds"] for fact in found if fact["outcome"] == outcome]
            fitting = [each for each in seconds if least - ROUNDED <= each <= most + ROUNDED]
            expect(fitting, f"{outcome} for {least} to {most} s, and the unit measured: {found}")
        reboots = sum(outcome == "rebooted" for outcome, *_seconds in self._impacts)
        expect(len([fact for fact in found if fact["outcome"] == "rebooted"]) == reboots, f"other reboots: {found}")

    def _kill(self) -> None:
        self._replace("systemctl kill --signal=KILL scheduled-events-poller.service")

    def _empty(self) -> None:
        self._replace("systemctl daemon-reexec; find /run/scheduled-events* -mindepth 1 -delete")

    def _replace(self, command: str) -> None:
        """Run a command of the shell after which another process has to poll."""
        before = self.host.main_pid()
        self.host.run("sh", "-c", command)
        self.host.wait("another poller", lambda: self.host.main_pid() not in ("0", before) and self.host.polls())

    def _restart(self) -> None:
        self.host.run("systemctl", "restart", "scheduled-events-poller.service")
        self.host.wait("the poller", self.host.polls)


def live(host: Host, azure: Host, options: argparse.Namespace) -> str:
    """Take an event through all phases; each argument is PHASE=DISTURBANCE."""
    disturbances = dict(pair.split("=") for pair in options.arguments)
    life = Life(host, azure)
    life.begin(list(disturbances))
    for phase in ("prepare", "started", "recover"):
        life.run(phase, life.disturbance(disturbances[phase]) if phase in disturbances else None)
    life.judge([phase for phase, kind in disturbances.items() if "reboot" in kind])
    life.judge_impacts()
    return life.event_id


def begin(host: Host, azure: Host, _options: argparse.Namespace) -> str:
    """Announce an event, and wait until its first hook runs and waits; prints the event's id."""
    life = Life(host, azure)
    life.begin(["prepare"])
    life.wait_for_hook("prepare|first", "begin")
    return life.event_id


def end(host: Host, azure: Host, options: argparse.Namespace) -> str:
    """Take the event in the argument, whose first hook waits, through the rest of its life."""
    life = Life(host, azure, options.arguments[0])
    life.run("prepare", lambda: None)
    life.run("started", None)
    life.run("recover", None)
    life.judge()
    return life.event_id


def webhooks(host: Host, azure: Host, options: argparse.Namespace) -> str:
    """Take an event through its life while the receiver is down. Then all messages arrive, and no secret is shown."""
    event_id = live(host, azure, options)
    # What another life left may wait, too.
    waiting = re.compile(r"\b([3-9]|[1-9]\d+) messages wait; .*refused")
    host.wait("messages that wait", lambda: waiting.search(host.status().stdout))
    host.run("systemctl", "kill", "--signal=KILL", "scheduled-events-webhooks.service")
    program = (pathlib.Path(__file__).parent / "receiver.py").read_text()
    host.run("sh", "-c", f"cat >{DIRECTORY}/receiver.py", given=program)
    receiver = ["python3", f"{DIRECTORY}/receiver.py", "8099", "hmachmac", f"{DIRECTORY}/received"]
    host.run("systemd-run", "--quiet", "--unit=receiver", *receiver)
    host.wait("all messages", lambda: re.search("ops. nothing waits", host.status().stdout))
    host.run("systemctl", "stop", "receiver.service")
    messages = [line.split("|") for line in host.run("cat", f"{DIRECTORY}/received").splitlines()]
    own = [message for message in messages if message[0] == event_id]
    expect([message[1] for message in own] == ["prepare", "started", "recover"], f"not once, in order: {messages}")
    expect(len({message[2] for message in messages}) == len(messages), f"a message came twice: {messages}")
    expect({message[3] for message in messages} == {"signed"}, f"not signed: {messages}")
    written = host.attempt("sh", "-c", WRITTEN).stdout
    expect("scheduled-events" in written, "there is no output to search")
    expect(not any(secret in written for secret in SECRETS), "a secret is in the output, the journal or a file")
    modes = host.run(
        "stat", "--format=%U %a", "/etc/scheduled-events/webhooks.json", "/var/lib/scheduled-events-webhooks"
    )
    expect(modes == "root 600\nroot 700", modes)
    return event_id


def damage(host: Host, _azure: Host, _options: argparse.Namespace) -> str:
    """Remove a hook, then break the configuration: the poller warns, and then does not start again and again."""
    host.run("mv", "/etc/scheduled-events/hooks/managed/prepare.d/10-first", f"{DIRECTORY}/")
    host.wait("a warning", lambda: (done := host.status()).returncode == 1 and "10-first" in done.stdout)
    host.run("sh", "-c", "echo '{' >/etc/scheduled-events/poller.json")
    done = host.attempt("systemctl", "restart", "scheduled-events-poller.service")
    expect(done.returncode, "the poller starts with a broken configuration")
    properties = ["--property=ActiveState", "--property=ExecMainStatus", "--property=NRestarts"]
    shown = host.run("systemctl", "show", *properties, "scheduled-events-poller.service")
    expect(sorted(shown.splitlines()) == ["ActiveState=failed", "ExecMainStatus=78", "NRestarts=0"], shown)
    return ""


def ready(host: Host, _azure: Host, _options: argparse.Namespace) -> str:
    """Wait until the poller polls and reports no problem."""
    host.wait("a poller without a problem", lambda: host.polls(without_problem=True))
    return host.main_pid()


COMMANDS = {function.__name__: function for function in (live, begin, end, webhooks, damage, ready)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prefix")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("hosts", help="separated by commas; all at the same time")
    parser.add_argument("arguments", nargs="*")
    options = parser.parse_args()
    azure = Host(options.prefix, "azure")
    hosts = [Host(options.prefix, name) for name in options.hosts.split(",")]
    failed = False
    with concurrent.futures.ThreadPoolExecutor(len(hosts)) as pool:
        results = {host.name: pool.submit(COMMANDS[options.command], host, azure, options) for host in hosts}
    for name, result in results.items():
        try:
            print(result.result() if len(hosts) == 1 else f"{name}: {result.result()}")
        except (Wrong, subprocess.SubprocessError, ValueError, LookupError) as error:
            failed = True
            print(f"{name}: {options.command}: {type(error).__name__}: {error}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
