# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks of the guides about fleets, run as they stand there."""

import pathlib
import re
import tempfile

import pytest
from haproxies import Backend, HAProxy

from playbooks import LOCAL

pytestmark = pytest.mark.timeout(900)  # two hosts, one after the other
GUIDES = pathlib.Path(__file__).parents[3] / "docs"
BALANCE = "maintops.scheduled_events.load_balancer"
TASK = '- name: Leave a trace\n  ansible.builtin.file: {path: "{{ vm_directory }}/%s", state: touch, mode: "0644"}\n'


@pytest.fixture
def web(fleet, tmp_path):
    """The hosts web1 and web2 with what the guides suppose: a service with a health endpoint, and tasks files."""
    emulator = fleet("web1", "web2", options=("--rate-limit", "0"))
    backends = {}
    for name in emulator.endpoints:
        (tmp_path / name).mkdir()
        backends[name] = Backend(tmp_path / name / "drained")
    (tmp_path / "patch.yml").write_text(TASK % "patched")
    yield Web(emulator, tmp_path, backends)
    for backend in backends.values():
        backend.stop()


class Web:
    """The fleet of the guides, on this machine: what is peculiar to it stands in the inventory."""

    def __init__(self, emulator, directory, backends):
        self.emulator, self.directory, self.backends = emulator, directory, backends

    def playbook(self, guide, title="- "):
        found = re.findall(r"^```yaml\n(.*?)^```", (GUIDES / guide).read_text(), re.DOTALL | re.MULTILINE)
        (text,) = [text for text in found if text.startswith(title)]

        path = self.directory / "playbook.yml"
        path.write_text(text)
        return path

    def inventory(self, **groups):
        hosts = self.emulator.inventory(
            scheduled_events_endpoint=lambda name: self.emulator.endpoints[name],
            respond_endpoint=lambda name: self.emulator.endpoints[name],
            vm_directory=lambda name: str(self.directory / name),
            load_balancer_probe_flag=lambda name: str(self.backends[name].flag),
            load_balancer_probe_url=lambda name: f"http://127.0.0.1:{self.backends[name].port}/healthz",
        )["all"]["hosts"]
        state = "{{ vm_directory }}/state"
        own = {"scheduled_events_state_directory": state}
        own["ansible_become"] = False
        return {"all": {"children": {"web": {"hosts": hosts, "vars": own}, **groups}}}

    def traces(self, name):
        return sorted(path.name for path in (self.directory / name).iterdir() if path.is_file())


def test_behind_an_azure_load_balancer(ansible, web):
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    ports = {"load_balancer_probe_interval": 0.1, "load_balancer_ports": [web.backends["web1"].port]}
    run = ansible.run_playbook(
        web.playbook("behind-an-azure-load-balancer.md"),
        inventory=web.inventory(),
        extra_vars=ports,
    )
    assert run.rc == 0, run.output
    assert [task["changed"] for task in run.all(action=BALANCE, host="web1")] == [True, True]  # out, and back
    assert run.all(action=BALANCE, host="web2") == []
    assert [ids for _vm, ids, _status in web.emulator.posts()] == [[event_id]]
    assert web.traces("web1") == []  # the flag is gone


def test_behind_haproxy(ansible, web):
    with tempfile.TemporaryDirectory(prefix="haproxy-") as directory:
        servers = {name: backend.port for name, backend in web.backends.items()}
        haproxy = HAProxy(pathlib.Path(directory), {"www": servers})
        try:
            balancers = {"hosts": {"lb1": {**LOCAL, "load_balancer_haproxy_socket": str(haproxy.socket)}}}
            run = ansible.run_playbook(
                web.playbook("behind-haproxy.md", "- name: Patch"),
                inventory=web.inventory(balancers=balancers),
                extra_vars={"load_balancer_haproxy_become": False},
                options=("--limit", "web1,balancers"),
            )
            assert run.rc == 0, run.output
            assert [task["changed"] for task in run.all(action=BALANCE, host="web1")][-2:] == [True, True]
            assert haproxy.status() == {"www/web1": "UP", "www/web2": "UP"}
        finally:
            haproxy.stop()
    assert web.traces("web1") == ["patched"]
