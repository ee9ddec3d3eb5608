# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hooks of the hook reference, run as they stand there but for addresses and paths."""

import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
import yaml

GUIDE = (pathlib.Path(__file__).parents[3] / "docs" / "hooks.md").read_text()
EVENT = {"event_id": "C7061BAC", "event_type": "Reboot", "not_before": "2026-04-11T22:26:58Z"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


def hook(name):
    """The content of the hook with this name."""
    settings = [yaml.safe_load(block) for block in blocks("yaml")]
    hooks = [hook for each in settings if "poller_hooks" in each for hook in each["poller_hooks"]]
    (content,) = [hook["content"] for hook in hooks if hook["name"] == name and "content" in hook]
    return content


def run(tmp_path, program, *, phase="prepare", **replacements):
    """Run a hook as the unit does, with every key of ``replacements`` for the value before it."""
    for old, new in replacements.values():
        assert old in program
        program = program.replace(old, new)
    path = tmp_path / "hook"
    path.write_text(program)
    path.chmod(0o755)
    env = {**os.environ, "SCHEDULED_EVENTS_VM_NAME": "web1", "SCHEDULED_EVENT_PHASE": phase}
    given = json.dumps(EVENT)
    return subprocess.run([path], check=False, input=given, env=env, capture_output=True, text=True, timeout=60)


class Peer:
    """A service on loopback. ``status``: its answer to a GET; ``posts``: what it was sent."""

    def __init__(self):
        self.status, self.posts = 200, []
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(peer.status)
                self.end_headers()

            def do_POST(self):
                peer.posts.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def peer():
    started = Peer()
    yield started
    started.stop()


def hand_over(tmp_path, peer):
    patroni = ("http://127.0.0.1:8008", peer.url)
    return run(tmp_path, hook("10-hand-over"), patroni=patroni, name=("{{ patroni_name }}", "db1"))


def test_a_primary_is_handed_over(tmp_path, peer):
    assert hand_over(tmp_path, peer).returncode == 0
    assert peer.posts == [("/switchover", {"leader": "db1"})]


def test_a_replica_has_nothing_to_hand_over(tmp_path, peer):
    peer.status = 503
    assert hand_over(tmp_path, peer).returncode == 0
    assert peer.posts == []


def test_a_patroni_that_does_not_answer_is_asked_again(tmp_path, peer):
    peer.stop()
    assert hand_over(tmp_path, peer).returncode == 75


def notify(tmp_path, peer):
    webhook = tmp_path / "webhook"
    webhook.write_text(f"{peer.url}/channel\n")
    (program,) = [block for block in blocks("python") if "/etc/notify-webhook" in block]
    python = ("#!/usr/bin/python3", f"#!{sys.executable}")
    return run(tmp_path, program, phase="recover", python=python, webhook=("/etc/notify-webhook", str(webhook)))


def test_a_channel_is_notified(tmp_path, peer):
    assert notify(tmp_path, peer).returncode == 77  # a message prepares nothing
    text = "web1 has come back from Reboot (C7061BAC), not before 2026-04-11T22:26:58Z"
    assert peer.posts == [("/channel", {"text": text})]


def test_a_channel_that_is_down_holds_nothing_up_and_its_address_stays_secret(tmp_path, peer):
    peer.stop()
    ended = notify(tmp_path, peer)
    assert (ended.returncode, ended.stdout) == (77, "no message was sent: URLError\n")
