# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plays of the pages, run as they stand there. What is peculiar to these hosts stands in the inventory."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest
import yaml
from arm_stand_in import COMPUTE, ArmStandIn, serve
from arm_stand_in import environment as with_arm
from haproxies import Backend, HAProxy
from page_blocks import block
from responders import ended, result
from windows import CONNECTION, windows
from zygotes import ZYGOTES

from playbooks import LOCAL, environment

pytestmark = pytest.mark.timeout(900)  # two hosts, one after the other
BALANCE = "maintops.scheduled_events.load_balancer"
INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/pool/virtualMachines/13"
TASK = '- name: Leave a trace\n  ansible.builtin.file: {path: "{{ vm_directory }}/%s", state: touch, mode: "0644"}\n'


class Web:
    """The hosts web1 and web2 with what the pages suppose: a service with a health endpoint, and tasks files."""

    def __init__(self, emulator, directory, ansible):
        self.emulator, self.directory, self.ansible = emulator, directory, ansible
        self.backends = {}
        for name in emulator.endpoints:
            (directory / name).mkdir()
            self.backends[name] = Backend(directory / name / "drained")
        for name in ("patch", "drain", "return", "deploy"):
            (directory / f"{name}.yml").write_text(TASK % name)

    def run(self, text, group="web", own=None, **how):
        """Run the text of a block as a playbook."""
        (self.directory / "playbook.yml").write_text(text)
        hosts = self.emulator.inventory(
            scheduled_events_endpoint=lambda name: self.emulator.endpoints[name],
            vm_directory=lambda name: str(self.directory / name),
            id=lambda name: f"{COMPUTE}/virtualMachines/{name}",
        )["all"]["hosts"]
        for variables in hosts.values():
            variables.update(
                ansible_become=False,
                **{"scheduled_events_state_directory": "{{ vm_directory }}/state", **(own or {})},
            )
        if "load_balancer_provider: health_probe" in text or "load_balancer_state:" in text:
            for name, backend in self.backends.items():
                hosts[name].update({} if "drive" in str(own) else {"load_balancer_probe_flag": str(backend.flag)})
                hosts[name]["service"] = f"http://127.0.0.1:{backend.port}/healthz"
            probe = {"load_balancer_probe_interval": 0.1, "load_balancer_probe_url": "{{ service }}"}
            how["extra_vars"] = {**probe, "load_balancer_ports": [self.backends["web1"].port]}
        groups = {group: {"hosts": hosts}, **how.pop("groups", {})}
        run = self.ansible.run_playbook(self.directory / "playbook.yml", inventory={"all": {"children": groups}}, **how)
        assert run.rc == 0, run.output
        return run

    def traces(self, name):
        return sorted(path.name for path in (self.directory / name).iterdir() if path.is_file())

    def approved(self):
        return [ids for _vm, ids, _status in self.emulator.posts()]

    def stop(self):
        for backend in self.backends.values():
            backend.stop()


@pytest.fixture
def web(fleet, tmp_path, ansible):
    made = Web(fleet("web1", "web2", options=("--rate-limit", "0")), tmp_path, ansible)
    yield made
    made.stop()


@pytest.fixture
def arm():
    """A stand-in of Azure Resource Manager on loopback."""
    stand_in = ArmStandIn(updating_for=0)
    server = serve(stand_in)
    stand_in.url = server.url
    yield stand_in
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    "play",
    [
        block("README.md", "- name: Respond to scheduled events"),
        block("docs/behind-an-azure-load-balancer.md", "- name: Respond to scheduled events"),
    ],
    ids=["README", "behind an Azure Load Balancer"],
)
def test_a_play_drains_the_host_of_an_event_acknowledges_and_returns_it(web, play):
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    run = web.run(play)
    assert [task["changed"] for task in run.all(action=BALANCE, host="web1")] == [True, True]  # out, and back
    assert run.all(action=BALANCE, host="web2") == []
    assert web.approved() == [[event_id]]
    assert web.traces("web1") == []  # the flag is gone


def test_the_play_of_the_role_respond_runs_the_tasks_of_the_owner(web):
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    web.run(block("roles/respond/README.md", "- hosts: web\n  strategy"))
    assert web.approved() == [[event_id]]
    assert (web.traces("web1"), web.traces("web2")) == (["drain", "return"], [])


def test_the_last_play_of_the_role_respond_concludes(web):
    web.run(block("roles/respond/README.md", "- hosts: web\n  gather_facts"))


NO_CREDENTIALS = """
- name: Find no credentials in what one task of the run leaves to the next
  ansible.builtin.command: {argv: [grep, -rsq, auth_source, %s]}
  register: found
  failed_when: found.rc != 1
"""


def test_the_play_with_a_fallback_acknowledges_for_a_host_that_is_lost_after_its_tasks(web, arm, tmp_path):
    with (web.directory / "drain.yml").open("a") as tasks:
        tasks.write(NO_CREDENTIALS % (ZYGOTES.home / "tmp"))
    event_id = web.emulator.schedule("Preempt", "web1", notice=36000)
    lost = {
        **with_arm(arm),
        "BREAKS_BEFORE": "scheduled_events_turn",
        "BREAKS_AT": "2",  # which would have taken the outcome
        "BREAKS_FOR_GOOD": "yes",
        "BREAKS_MARKER": str(tmp_path / "breaks"),
    }
    play = block("docs/azure-resource-manager.md", "- hosts: web", "respond_fallback")
    options = ("--limit", "web1", "-e", "respond_fallback_max_age=250")  # a string
    run = web.run(play, own={"ansible_connection": "breaks_once"}, env=lost, options=options)
    assert arm.acknowledged == [event_id]
    [(_method, path)] = arm.calls
    assert path.lower().partition("/providers/microsoft.maintenance")[0].endswith("/virtualmachines/web1")
    assert result(run, "web1")["acknowledged"] == [event_id]
    assert "acknowledged through Azure Resource Manager" in ended(run, "web1")["summary"]
    assert web.approved() == []
    assert web.traces("web1") == ["drain"]


def test_the_play_for_vms_that_do_not_answer_acknowledges_what_they_announced(web, arm):
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900)
    play = block("docs/azure-resource-manager.md", "- name: Acknowledge for VMs that no longer answer")
    own = {"announced_events": [event_id]}
    web.run(play, group="lost", own=own, env={**with_arm(arm), **SECRET}, options=("--limit", "web1"))
    assert arm.acknowledged == [event_id]


SECRET = {"AZURE_SECRET": "a secret"}  # credentials in the environment, in place of options


def test_a_play_maintains_each_host(web):
    play = block("roles/rolling_maintenance/README.md", "- hosts: web")
    tasks = {"rolling_maintenance_tasks": str(web.directory / "patch.yml")}
    web.run(play, extra_vars=tasks, own={"rolling_maintenance_reboot": "never"})
    assert (web.traces("web1"), web.traces("web2")) == (["patch"], ["patch"])


def test_the_play_behind_an_azure_load_balancer_takes_hosts_out_of_its_pool(web, arm):
    arm.add_balancer({name: {"ipAddress": f"10.0.0.{number}"} for number, name in enumerate(web.backends, 4)})
    play = block("docs/azure-resource-manager.md", "- hosts: web", "rolling_maintenance_max_unavailable")
    own = yaml.safe_load(block("docs/azure-resource-manager.md", "load_balancer_azure_credentials:"))
    own.update(load_balancer_azure_drain_time=0, rolling_maintenance_reboot="never")
    addresses = {f"web{number}": {"private_ipv4_addresses": [f"10.0.0.{number + 3}"]} for number in (1, 2)}
    web.run(play, own=own, env=with_arm(arm), groups={"addresses": {"hosts": addresses}})
    assert set(arm.states().values()) == {"None"}
    assert any(method == "PUT" for method, _path in arm.calls)
    assert (web.traces("web1"), web.traces("web2")) == (["patch"], ["patch"])


def test_the_tasks_that_protect_an_instance_patch_it_and_leave_it_as_it_was(web, arm):
    arm.put(INSTANCE)
    packages = "ansible.builtin.package:\n        name: '*'\n        state: latest"
    tasks = block("docs/azure-resource-manager.md", "# patch.yml")
    assert packages in tasks
    (web.directory / "protected.yml").write_text(tasks.replace(packages, "ansible.builtin.debug:"))
    include = f"- hosts: web\n  gather_facts: false\n  tasks: [include_tasks: {web.directory}/protected.yml]\n"
    how = {"extra_vars": {"id": INSTANCE}, "env": {**with_arm(arm), **SECRET}, "options": ("--limit", "web1")}
    done = [(task.task, task["changed"], task.result.get("before")) for task in web.run(include, **how).tasks]
    assert done[-3:] == [
        ("Protect the instance", True, False),
        ("Patch it", False, None),
        ("Protect it as it was before", True, True),
    ]
    assert arm.resources[INSTANCE.lower()]["properties"] == {"protectionPolicy": {"protectFromScaleIn": False}}


def test_the_play_behind_haproxy_takes_a_host_out_of_it(web):
    with tempfile.TemporaryDirectory(prefix="haproxy-") as directory:
        servers = {name: backend.port for name, backend in web.backends.items()}
        haproxy = HAProxy(pathlib.Path(directory), {"www": servers})
        try:
            balancers = {"hosts": {"lb1": {**LOCAL, "load_balancer_haproxy_socket": str(haproxy.socket)}}}
            run = web.run(
                block("docs/behind-haproxy.md", "- name: Patch the web servers behind HAProxy"),
                groups={"balancers": balancers},
                extra_vars={"load_balancer_haproxy_become": False},
                options=("--limit", "web1,balancers"),
            )
            assert [task["changed"] for task in run.all(action=BALANCE, host="web1")][-2:] == [True, True]
            assert haproxy.status() == {"www/web1": "UP", "www/web2": "UP"}
        finally:
            haproxy.stop()
    assert web.traces("web1") == ["patch"]


def test_the_play_of_the_role_load_balancer_takes_a_host_out_and_puts_it_back(web):
    run = web.run(block("roles/load_balancer/README.md", "- hosts: web"))
    for name in ("web1", "web2"):
        assert [task["changed"] for task in run.all(action=BALANCE, host=name)] == [True, True]
        assert web.traces(name) == []


def test_the_tasks_of_a_balancer_of_the_owner_read_which_hosts_are_out(web, web_host):
    members = b'{"members": [{"name": "web1", "enabled": true}, {"name": "web2", "enabled": false}]}'
    pool = web_host(200, members, headers={"Content-Type": "application/json"})
    tasks = block("roles/load_balancer/README.md", "- name: Read which hosts are out")
    tasks = tasks.replace("https://balancer.example", pool.endpoint)
    text = "".join(f"    {line}\n" for line in tasks.splitlines())
    run = web.run(f"- hosts: web\n  gather_facts: false\n  tasks:\n{text}")
    assert run.one(task="Store their names", host="web1")["ansible_facts"]["load_balancer_out"] == ["web2"]


def test_the_play_of_an_inventory_finds_the_hosts_that_an_event_names(web):
    play = block("docs/inventory-of-scale-sets.md", "- name: Respond on the hosts that an event from Event Grid names")
    run = web.run(play, extra_vars={"event_resources": ["WEB2", "another"]})
    assert [task["add_host"]["host_name"] for task in run.one(task="Find them")["results"]] == ["web2"]


def test_the_tasks_for_vms_outside_of_a_virtual_network_find_the_service(web):
    tasks = block("docs/outside-a-virtual-network.md", "- name: Read the events of VMs in and outside")
    text = "".join(f"    {line}\n" for line in tasks.splitlines())
    found = web.emulator.endpoints["web1"]
    text = text.replace("endpoint: auto", f"endpoint: {found}")
    run = web.run(f"- hosts: web\n  gather_facts: false\n  tasks:\n{text}", options=("--limit", "web1"))
    assert run.one(task="Show which service answered")["msg"] == f"{found} (given)"


def test_the_play_of_a_project_responds(web):
    play = block("docs/from-awx-and-aap.md", "# respond.yml")
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    tasks = {phase: str(web.directory / f"{name}.yml") for phase, name in (("prepare", "drain"), ("recover", "return"))}
    own = {f"respond_{phase}_tasks": path for phase, path in tasks.items()}
    web.run(play, extra_vars={**own, "respond_hosts": "web", "ansible_become": False})
    assert web.approved() == [[event_id]]
    assert web.traces("web1") == ["drain", "return"]


def test_the_play_for_windows_drains_waits_and_returns(web):
    event_id = web.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    wait = block("docs/windows-behind-a-gateway.md", "- name: Wait until the connections have ended")
    (web.directory / "wait.yml").write_text(wait)
    play = block("docs/windows-behind-a-gateway.md", "- name: Respond to the scheduled events of the Windows VMs")
    own = {"ansible_connection": CONNECTION, "ansible_drive": "{{ vm_directory }}/drive"}
    own["scheduled_events_state_directory"] = r"C:\Program Files\maintops"  # the default
    for name, backend in web.backends.items():
        backend.flag = web.directory / name / "drive" / "C" / "Program Files" / "maintops" / "drained"
    run = web.run(play, group="windows_web", own=own, env=windows(web.directory / "log"))
    assert web.approved() == [[event_id]]
    assert [task["changed"] for task in run.all(action=BALANCE, host="web1")] == [True, True]  # out, and back
    assert [task.host for task in run.all(task="Wait until the connections have ended")] == ["web1"]
    assert not [name for name, backend in web.backends.items() if backend.flag.exists()]


def test_the_commands_for_windows_read_and_respond(fleet, tmp_path):
    emulator = fleet("web1", "web2", "web3", options=("--rate-limit", "0"))
    for name, endpoint in emulator.endpoints.items():
        own = {"ansible_connection": CONNECTION, "ansible_drive": str(tmp_path / name), "service": f"{endpoint}/"}
        variables = {**LOCAL, **own, "scheduled_events_endpoint": endpoint, "vault_password": "secret"}
        (tmp_path / "host_vars").mkdir(exist_ok=True)
        (tmp_path / "host_vars" / f"{name}.yml").write_text(json.dumps(variables))
    (tmp_path / "vault-password").write_text("secret\n")
    (tmp_path / "inventory.yml").write_text(block("docs/windows-behind-a-gateway.md", "windows_web:"))
    (tmp_path / "inventory").write_text(block("docs/windows-vms.md", "windows_web:"))
    play = block("docs/windows-behind-a-gateway.md", "- name: Respond to the scheduled events of the Windows VMs")
    (tmp_path / "respond-windows.yml").write_text(play)
    (tmp_path / "windows").mkdir()
    for name in ("wait", "windows/drain", "windows/return"):
        (tmp_path / f"{name}.yml").write_text("[{ansible.builtin.debug: }]")
    command = block("docs/windows-behind-a-gateway.md", "ansible -i inventory.yml").strip()
    endpoint = "-a 'endpoint={{ scheduled_events_endpoint }}'"
    shown = type_in(tmp_path, f"{command} {endpoint}")
    assert shown.count('"events": []') == 3, shown
    checked = type_in(tmp_path, block("docs/windows-behind-a-gateway.md", "ansible-playbook -i inventory.yml"))
    assert "no event: 3 hosts" in checked, checked
    responded = type_in(tmp_path, block("docs/windows-vms.md", "ansible-playbook -i inventory"))
    assert "no event: 1 host" in responded, responded


def type_in(directory, text):
    """Run the text of a block in a shell; its output."""
    command = ["bash", "-e", "-c", text]
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    env = environment(**windows(directory / "log"), PATH=path)
    ended = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
