# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The examples that drain, as they stand on the pages but for addresses, paths and pauses.

A pause ends as soon as the balancer has taken the server out: how long that takes depends on the machine.

A web server is behind a balancer, which counts. The server ends as soon as the event is acknowledged.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import pytest
import yaml
from emulation import until
from haproxies import Backend
from hook_units import HookUnits, root_command
from page_blocks import block
from pages import ROOT
from ports import free_port

PROBES = 2  # failures until the balancer takes the server out
INTERVAL = 0.1  # seconds between two probes


class Balancer(threading.Thread):
    """Probes the server, sends a request after each probe that succeeded, and counts.

    :param out: a file that it makes once it has taken the server out.
    """

    def __init__(self, port, out):
        super().__init__(daemon=True)
        self._out, self._port, self._failures, self._ended = out, port, 0, threading.Event()
        self.sent = self.lost = 0

    def run(self):
        while not self._ended.wait(INTERVAL):
            self._failures = 0 if self._is_answered("/healthz") else self._failures + 1
            if self._failures < PROBES:
                self.sent += 1
                self.lost += not self._is_answered("/")
            else:
                self._out.touch()

    def _is_answered(self, path):
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                f"http://127.0.0.1:{self._port}{path}", timeout=60
            ).close()
        except OSError:
            return False
        return True

    def stop(self):
        self._ended.set()
        self.join()


class Site:
    """The server with its flag, the balancer, and the emulator."""

    def __init__(self, emulator, directory, ansible, collection):
        self.emulator, self.directory, self.ansible, self.collection = emulator, directory, ansible, collection
        self.flag = directory / "drained"
        self.port = free_port()
        self.server = Backend(self.flag, port=self.port)
        self.balancer = Balancer(self.port, directory / "out")
        self.pause = f"until [ -e {directory}/out ]; do sleep {INTERVAL}; done"
        self.balancer.start()

    def adapt(self, text, *pairs):
        """The text of a page with other values; each of them stands in it."""
        for old, new in pairs:
            assert old in text, old
            text = text.replace(old, new)
        return text

    def unit(self, text, *pairs):
        """Start a polling unit with the hooks and settings of an example."""
        flag = ("/var/lib/maintops/drained-for-events", str(self.flag))
        pairs = (("/var/lib/maintops", str(self.directory)), (":443", f":{self.port}"), ("sleep 15", self.pause))
        settings = yaml.safe_load(self.adapt(text, flag, *pairs))
        for hook in settings.pop("poller_hooks"):
            path = self.directory / "hooks" / f"{hook['phase']}.d" / hook["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            content = hook.get("content") or "#!/bin/sh\nexec " + " ".join(hook["command"]) + "\n"
            path.write_text(content)
            path.chmod(0o755)
        known = {name.removeprefix("poller_"): value for name, value in settings.items()}
        config = self.directory / "poller.json"
        config.write_text(json.dumps({**known, "endpoint": self.emulator.endpoints["web1"], "interval": 0.25}))
        (self.directory / "root").mkdir()
        programs = self.collection / "roles" / "poller" / "files"
        root = root_command(programs, self.directory)
        units = HookUnits(root, self.directory, "log")
        options = [f"--config={config}", f"--state-file={self.directory / 'state.json'}", *root[3:]]
        command = [sys.executable, programs / "scheduled-events", *options, "run"]
        units.start()
        with (self.directory / "log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def end():
            process.terminate()
            process.wait()
            units.stop()

        return end

    def play(self, playbook, **variables):
        """Start a playbook for web1."""
        own = {
            "ansible_become": False,
            "scheduled_events_endpoint": self.emulator.endpoints["web1"],
            "scheduled_events_state_directory": str(self.directory / "state"),
            **variables,
        }
        hosts = self.emulator.inventory(**{name: lambda _host, value=value: value for name, value in own.items()})
        run = self.ansible.start_playbook(playbook, inventory={"all": {"children": {"web": hosts["all"]}}})

        def end():
            ended = run.result()
            assert ended.rc == 0, ended.output

        return end

    def stop(self):
        self.balancer.stop()
        self.server.stop()


@pytest.fixture
def site(fleet, ansible, installed_collection):
    # Short, unlike tmp_path, since the path of a socket is.
    with tempfile.TemporaryDirectory(prefix="site-") as directory:
        made = Site(
            fleet("web1", options=("--rate-limit", "0")), pathlib.Path(directory), ansible, installed_collection
        )
        yield made
        made.stop()


def hooks_of_the_polling_unit(site):
    return site.unit(block("docs/polling-unit.md", "poller_hooks"))


def hooks_of_the_lab(site):
    text = block("docs/polling-unit.md", "- name: Prepare a machine for rehearsals")
    variables = yaml.safe_load(text)[0]["vars"]
    return site.unit(yaml.safe_dump({"poller_hooks": variables["poller_hooks"]}))


def delay(site):
    """A delay of Ansible that is 0 once the pause has ended."""
    return f"{{{{ lookup('ansible.builtin.pipe', '{site.pause}; echo 0') }}}}"


def files_of_five_minutes(site):
    text = block("docs/start-in-five-minutes.md", "mkdir -p ~/first")
    pairs = [("8080", str(site.port)), ("delay: 10\n", f'delay: "{delay(site)}"\n')]
    pairs.append(("hosts: localhost", "hosts: web1"))
    pairs.append(("    scheduled_events_endpoint: http://127.0.10.1:8169\n", ""))
    for name, content in re.findall(
        r"cat > (\S+) <<'END'\n(.*?)^END$", site.adapt(text, *pairs), re.DOTALL | re.MULTILINE
    ):
        (site.directory / name).write_text(content)
    return site.play(site.directory / "first.yml")


def modules_alone(site):
    text = block("docs/start-in-five-minutes.md", "- name: Drain, acknowledge, wait, return")
    (steps,) = yaml.safe_load(site.adapt(text, ("/usr/local/bin/", f"{site.directory}/")))
    programs = {"drain": f"touch {site.flag} && {site.pause}", "return": f"rm -f {site.flag}"}
    for name, command in programs.items():
        (site.directory / name).write_text(f"#!/bin/sh\n{command}\n")
        (site.directory / name).chmod(0o755)
    steps["module_defaults"] = {"group/maintops.scheduled_events.imds": {"endpoint": "{{ imds_endpoint }}"}}
    return site.play([steps])


def tasks_with_tests(site):
    shutil.copytree(ROOT / "examples" / "test-your-tasks", site.directory / "example")
    variables = {"web_directory": str(site.directory), "web_port": site.port, "web_notice": delay(site)}
    return site.play(site.directory / "example" / "respond.yml", **variables)


def behind_an_azure_load_balancer(site):
    text = block("docs/behind-an-azure-load-balancer.md", "- name: Respond to scheduled events")
    pairs = (("load_balancer_probe_interval: 5", "load_balancer_probe_interval: 0.5"), ("8080", str(site.port)))
    (site.directory / "playbook.yml").write_text(site.adapt(text, *pairs))
    return site.play(site.directory / "playbook.yml", load_balancer_probe_flag=str(site.flag))


@pytest.mark.parametrize(
    "example",
    [
        hooks_of_the_polling_unit,
        hooks_of_the_lab,
        files_of_five_minutes,
        modules_alone,
        tasks_with_tests,
        behind_an_azure_load_balancer,
    ],
    ids=lambda example: example.__name__,
)
def test_no_request_is_lost_when_the_server_ends_at_the_acknowledgement(site, example):
    until(lambda: site.balancer.sent > 0, what="a request")
    event_id = site.emulator.schedule("Reboot", "web1", notice=36000, started_for=36000)
    end = example(site)
    until(site.emulator.posts, what=f"the acknowledgement\n{log_of(site)}")
    site.server.stop()
    sent = site.balancer.sent
    time.sleep(10 * INTERVAL)  # requests would come in this time
    assert (site.balancer.sent, site.balancer.lost) == (sent, 0)
    assert [ids for _vm, ids, _status in site.emulator.posts()] == [[event_id]]
    site.server = Backend(site.flag, port=site.port)
    site.emulator.complete(event_id)
    until(lambda: site.balancer.sent > sent, what=f"a request after the event\n{log_of(site)}")
    end()
    assert site.balancer.lost == 0
    assert not site.flag.exists()


def log_of(site):
    log = site.directory / "log"
    return log.read_text()[-3000:] if log.exists() else ""


def test_modules_alone_bring_a_vm_back_that_an_interrupted_run_left_drained(site):
    site.flag.touch()
    modules_alone(site)()
    assert not site.flag.exists()
