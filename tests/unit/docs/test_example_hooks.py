# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples that a reader pastes drain a service that counts its requests, and wait for the last one.

Each hook that raises a flag runs here. The others ask a product, and are checked by what they contain.
"""

import json
import os
import pathlib
import re
import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest
import yaml
from code_blocks import data
from page_blocks import blocks, pages
from web_servers import Handler, WebServer

ROOT = pathlib.Path(__file__).parents[3]
SPECS = "roles/poller/meta/argument_specs.yml"
FLAG = "/var/lib/maintops/drained-for-events"
FLAG_OF_OTHERS = "/var/lib/maintops/drained"  # the default of load_balancer_probe_flag, which operators use, too
LOST_AT_A_REBOOT = re.compile(r"(?<![\w.-])/(run|tmp|var/run|var/tmp|dev/shm)\b")
WAITS = re.compile(r"\b(wait_for|win_wait_for)\b|^[- ]*ansible.builtin.command: /usr/local/bin/drain$", re.MULTILINE)


def below(data, key):
    """Each value with this key, at any depth."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from [value] if name == key else below(value, key)
    elif isinstance(data, list):
        for item in data:
            yield from below(item, key)


def sets_of_hooks():
    """The hooks of each example: the name of the page with the number of the example there, and the hooks."""
    found = [(block.page, data(block)) for block in blocks("yaml") if "poller_hooks:" in block.text]
    specs = yaml.safe_load((ROOT / SPECS).read_text())["argument_specs"]["main"]
    found.append((SPECS, yaml.safe_load(specs["examples"])))
    return [
        pytest.param(hooks, id=f"{page}-{number}")
        for number, (page, held) in enumerate(found)
        for hooks in below(held, "poller_hooks")
    ]


def tasks_files():
    """The tasks that drain, in the demo and in the blocks of the guides: pairs of a place and the text of the tasks."""
    yield "demo/prepare.yml", (ROOT / "demo/prepare.yml").read_text()
    for block in blocks("sh", "console"):
        for name, text in re.findall(r"cat > (\S*drain\S*) <<'END'\n(.*?)^END$", block.text, re.DOTALL | re.MULTILINE):
            yield f"{block.page}: {name}", text
    for block in blocks("yaml"):
        held = data(block)
        for tasks in below(held, "tasks") if isinstance(held, list) else ():
            text = yaml.safe_dump(tasks, width=1000, default_flow_style=False)
            if "scheduled_event_approve:" in text and "when: maintenance" in text:
                yield block.name, text.partition("scheduled_event_approve:")[0]


SETS = sets_of_hooks()
PREPARING = [
    pytest.param(hook, id=f"{hooks.id}-{hook['name']}")
    for hooks in SETS
    for hook in hooks.values[0]
    if hook["phase"] == "prepare"
]


FLAGGED = [each for each in SETS if any(FLAG in str(hook) for hook in each.values[0])]


class Web:
    """A web server: 503 from /health while the file exists; other requests are counted, and last until released."""

    def __init__(self, flag):
        self.open, self.served, self.arrived, self.release = 0, 0, threading.Event(), threading.Event()
        web = self

        class Answer(Handler):
            def do_GET(self):
                if self.path != "/health":
                    web.open += 1
                    web.arrived.set()
                    web.release.wait()
                    web.open -= 1
                    web.served += 1
                self.reply(503 if self.path == "/health" and flag.exists() else 200)

        self.server = WebServer(Answer)
        self.url = self.server.url

    def health(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            return opener.open(f"{self.url}/health").status
        except urllib.error.HTTPError as error:
            return error.code

    def stop(self):
        self.release.set()
        self.server.stop()


class Host:
    """A directory in place of a host: ``ss`` lists what the service has open, and nothing sleeps."""

    def __init__(self, directory):
        self.directory, self.flag = directory, directory / "lib" / "drained"
        self.listing = directory / "open"
        (directory / "bin").mkdir()
        self.command("ss", f"cat {self.listing}")
        self.command("sleep", ":")
        self.command("systemctl", "exit 0")

    def command(self, name, text):
        (self.directory / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.directory / "bin" / name).chmod(0o755)

    def here(self, text):
        """The same text with the paths of this host."""
        return text.replace(FLAG, str(self.flag)).replace(FLAG.rpartition("/")[0], str(self.flag.parent))

    def run(self, hook, connections):
        self.listing.write_text("a connection\n" * connections)
        program = self.directory / "bin" / "hook"
        program.write_text(self.here(hook.get("content", "")))
        program.chmod(0o755)
        command = [self.here(word) for word in hook.get("command", [str(program)])]
        path = f"{self.directory / 'bin'}:{os.environ['PATH']}"
        return subprocess.run(command, env={"PATH": path}, check=False).returncode

    def run_all(self, hooks, connections):
        """What the runner does: one hook after the other, until one does not succeed."""
        return next(filter(None, (self.run(hook, connections) for hook in hooks)), 0)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


@pytest.fixture
def web(host):
    new = Web(host.flag)
    yield new
    new.stop()


def raising(hooks):
    """The hooks that can run here: those that belong to the flag."""
    return [hook for hook in hooks if "notify" not in hook["name"]]


@pytest.mark.parametrize("hooks", FLAGGED)
def test_an_example_drains_waits_for_the_last_request_and_returns(host, web, hooks):
    prepare = [hook for hook in raising(hooks) if hook["phase"] == "prepare"]
    recover = [hook for hook in raising(hooks) if hook["phase"] == "recover"]
    client = threading.Thread(target=urllib.request.build_opener(urllib.request.ProxyHandler({})).open, args=(web.url,))
    client.start()
    web.arrived.wait()
    assert web.health() == 200
    assert (host.run_all(prepare, web.open), web.health(), web.served) == (75, 503, 0)
    web.release.set()
    client.join()
    assert (host.run_all(prepare, web.open), web.health(), web.served) == (0, 503, 1)
    assert host.flag.parent.stat().st_mode & 0o005 == 0o005  # the web server is another user
    assert host.run_all(recover, web.open) == 0
    assert web.health() == 200


@pytest.mark.parametrize("hooks", FLAGGED)
@pytest.mark.parametrize("broken", ["the flag cannot be created", "ss is not installed"])
def test_an_example_does_not_report_a_drain_that_did_not_happen(host, hooks, broken):
    if broken == "ss is not installed":
        host.command("ss", "exit 127")
    else:
        host.flag.parent.write_text("a file in place of the directory")
    assert host.run_all([hook for hook in raising(hooks) if hook["phase"] == "prepare"], connections=0) not in (0, 75)


class Patroni(Handler):
    """A node: it is the primary until a switchover has succeeded; ``answers`` are those of the next switchovers."""

    def do_GET(self):
        if self.path == "/patroni":
            self.reply(200, b'{"state": "running", "patroni": {"version": "4.0.4", "scope": "shop", "name": "db1"}}')
        else:
            self.reply(200 if self.server.primary else 503)

    def do_POST(self):
        status = self.server.answers.pop(0)
        self.server.asked.append(self.content().decode())
        self.server.primary = status != 200
        self.reply(status)


def recipe(name):
    """The text of a hook that a reader copies."""
    return (ROOT / "examples" / "hooks" / name).read_text()


def test_a_primary_is_handed_over_before_the_hook_of_patroni_succeeds(host):
    server = WebServer(Patroni)
    server.primary, server.answers, server.asked = True, [503, 200], []
    hook = {"content": recipe("patroni-prepare").replace("127.0.0.1:8008", f"127.0.0.1:{server.server_port}")}
    assert (host.run(hook, 0), server.primary) == (75, True)  # Patroni did not carry it out: ask again
    assert (host.run(hook, 0), server.primary) == (0, False)
    assert (host.run(hook, 0), server.asked) == (0, ['{"leader": "db1"}'] * 2)  # a replica has nothing to hand over
    server.stop()
    assert host.run(hook, 0) == 75


class Channel(Handler):
    """A receiver of messages."""

    def do_POST(self):
        self.server.posts.append((self.path, json.loads(self.content())))
        self.reply(200)


class Babble(socketserver.BaseRequestHandler):
    """What listens there does not speak HTTP."""

    def handle(self):
        self.request.recv(65536)
        self.request.sendall(b"220 mail.example.com ESMTP\r\n")


def notify(directory, url):
    """Run the hook that sends a message."""
    (directory / "webhook").write_text(f"{url}/channel\n")
    text = recipe("notify").replace("/etc/notify-webhook", str(directory / "webhook"))
    (directory / "notify").write_text(text.replace("#!/usr/bin/python3", f"#!{sys.executable}"))
    (directory / "notify").chmod(0o755)
    event = {"event_id": "C7061BAC", "event_type": "Reboot", "not_before": "2026-04-11T22:26:58Z"}
    env = {**os.environ, "SCHEDULED_EVENTS_VM_NAME": "web1", "SCHEDULED_EVENT_PHASE": "recover", "no_proxy": "*"}
    return subprocess.run(
        [str(directory / "notify")], input=json.dumps(event), env=env, check=False, stdout=subprocess.PIPE, text=True
    )


def test_a_channel_gets_a_message_and_one_that_is_down_holds_nothing_up(tmp_path):
    server = WebServer(Channel)
    server.posts = []
    assert notify(tmp_path, server.url).returncode == 77  # a message prepares nothing
    text = "web1 has come back from Reboot (C7061BAC), not before 2026-04-11T22:26:58Z"
    assert server.posts == [("/channel", {"text": text})]
    server.stop()
    ended = notify(tmp_path, server.url)
    assert (ended.returncode, ended.stdout) == (77, "no message was sent: URLError\n")  # its address stays secret


def test_a_channel_that_does_not_speak_http_holds_nothing_up(tmp_path):
    with socketserver.TCPServer(("127.0.0.1", 0), Babble) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        ended = notify(tmp_path, f"http://127.0.0.1:{server.server_address[1]}")
    assert (ended.returncode, ended.stdout) == (77, "no message was sent: BadStatusLine\n")


def test_the_page_lists_each_recipe():
    rows = pages()["docs/hooks.md"].partition("## Recipes")[2]
    named = {name for name in re.findall(r"`([a-z-]+)`", rows) if "-" in name or name == "notify"}
    assert named == {path.name for path in (ROOT / "examples" / "hooks").iterdir()}


def test_the_first_examples_of_each_page_raise_the_flag():
    pages = [each.id.rpartition("-")[0] for each in FLAGGED]
    assert pages == ["docs/polling-unit.md", "docs/polling-unit.md", "roles/poller/README.md", SPECS]


@pytest.mark.parametrize("hooks", SETS)
def test_the_hooks_of_a_page_leave_the_flag_of_others(hooks):
    assert not [hook for hook in hooks if re.search(rf"{FLAG_OF_OTHERS}(?![\w-])", str(hook))]


@pytest.mark.parametrize("hooks", SETS)
def test_the_hooks_of_a_page_start_only_what_they_stopped(hooks):
    def units(verb):
        return set(re.findall(rf"\bsystemctl {verb} ([\w.@-]+)", str(hooks)))

    assert units("start") <= units("stop")


@pytest.mark.parametrize("hook", PREPARING)
def test_a_preparing_hook_of_a_page_keeps_nothing_where_a_reboot_empties_it(hook):
    text = hook.get("content") or " ".join(hook.get("command", []))
    assert not LOST_AT_A_REBOOT.search(text)


@pytest.mark.parametrize("text", [pytest.param(text, id=place) for place, text in tasks_files()])
def test_tasks_that_drain_wait_until_it_is_over_and_keep_their_flag(text):
    assert WAITS.search(text)
    assert not LOST_AT_A_REBOOT.search(text)
