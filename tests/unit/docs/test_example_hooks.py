# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first hooks that a reader pastes drain a service that counts its requests, and wait for the last one."""

import http.server
import os
import pathlib
import re
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]


def examples():
    for page in ("README.md", "roles/poller/README.md"):
        for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE):
            if "poller_hooks" in block and "10-drain" in block:
                yield page, yaml.safe_load(block)[0]["roles"][0]["poller_hooks"]
    specs = yaml.safe_load((ROOT / "roles/poller/meta/argument_specs.yml").read_text())
    example = yaml.safe_load(specs["argument_specs"]["main"]["examples"])
    yield "argument_specs.yml", example[0]["roles"][0]["poller_hooks"]


class Web:
    """A web server: 503 from /health while the file exists; other requests are counted, and last until released."""

    def __init__(self, flag):
        self.open, self.served, self.arrived, self.release = 0, 0, threading.Event(), threading.Event()
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path != "/health":
                    web.open += 1
                    web.arrived.set()
                    web.release.wait()
                    web.open -= 1
                    web.served += 1
                self.send_response(503 if self.path == "/health" and flag.exists() else 200)
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def health(self):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            return opener.open(f"{self.url}/health").status
        except urllib.error.HTTPError as error:
            return error.code


@pytest.mark.parametrize("hooks", [pytest.param(hooks, id=page) for page, hooks in examples()])
def test_the_first_example_drains_waits_for_the_last_request_and_returns(tmp_path, hooks):
    flag, listing = tmp_path / "draining", tmp_path / "open"
    drain, back = hooks
    assert (drain["phase"], back["phase"]) == ("prepare", "recover")
    # What the service has open stands in for the list of ss.
    (tmp_path / "ss").write_text(f"#!/bin/sh\ncat {listing}\n")
    (tmp_path / "ss").chmod(0o755)
    program = tmp_path / "hook"
    program.write_text(drain["content"].replace("/var/lib/draining", str(flag)).replace("sleep 15", "sleep 0"))
    program.chmod(0o755)
    web = Web(flag)

    def run():
        listing.write_text("a connection\n" * web.open)
        return subprocess.run([program], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False).returncode

    client = threading.Thread(target=urllib.request.build_opener(urllib.request.ProxyHandler({})).open, args=(web.url,))
    client.start()
    web.arrived.wait()
    assert web.health() == 200
    assert (run(), web.health(), web.served) == (75, 503, 0)
    web.release.set()
    client.join()
    assert (run(), web.health(), web.served) == (0, 503, 1)
    assert not drain["content"].count("/run/")  # which a reboot empties
    subprocess.run([word.replace("/var/lib/draining", str(flag)) for word in back["command"]], check=True)
    assert web.health() == 200
    web.server.shutdown()
    web.server.server_close()
