# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role rolling_maintenance, with its gate and a health probe, on a Linux host and a stand-in of a Windows host.

No Windows and no PowerShell run here: see test_respond_stand_in.py.
"""

import pytest
from emulation import until
from web_servers import Handler, WebServer
from windows import CONNECTION, windows

from playbooks import module_task, play

PLAYBOOK = "maintops.scheduled_events.rolling_maintenance"
PLACE = "C/Program Files/maintops"
TASKS = """---
- name: Check that the health endpoint fails
  ansible.builtin.uri:
    url: '{{ load_balancer_probe_url }}'
    status_code: 503
  check_mode: false

- name: Record the time
  ansible.builtin.debug:
    msg: "{{ inventory_hostname }} is maintained"
"""


class Health(Handler):
    """Answers 503 as long as the flag of the host exists that the path names."""

    def do_GET(self):
        status = 503 if self.server.flags[self.path.strip("/")].exists() else 200
        self.server.statuses.setdefault(self.path.strip("/"), []).append(status)
        self.reply(status, b"ok")


class Story:
    """A fleet of two, one of which Windows wants to reboot, and what was seen before and after its maintenance."""

    def __init__(self, ansible, fleet, directory, server):
        emulator = fleet("alpha", "omega", options=("--rate-limit", "0"))
        self.drive, state = directory / "drive", directory / "state"
        (self.drive / "C").mkdir(parents=True)
        (self.drive / "C" / "reboot-pending").touch()
        server.flags = {"alpha": directory / "drained", "omega": self.drive / PLACE / "drained"}
        (directory / "maintain.yml").write_text(TASKS)
        inventory = emulator.inventory(
            scheduled_events_endpoint=lambda name: emulator.endpoints[name],
            load_balancer_probe_url=lambda name: f"{server.url}/{name}",
        )
        hosts = inventory["all"]["hosts"]
        hosts["alpha"].update(scheduled_events_state_directory=str(state), rolling_maintenance_reboot="never")
        hosts["alpha"].update(load_balancer_probe_flag=str(server.flags["alpha"]))
        hosts["omega"].update(ansible_connection=CONNECTION, ansible_drive=str(self.drive))
        inventory["all"]["vars"] = {
            "ansible_become": False,
            "rolling_maintenance_load_balancer": True,
            "rolling_maintenance_tasks": str(directory / "maintain.yml"),
            "rolling_maintenance_settle": 0,
            "rolling_maintenance_gate_timeout": 250,
            "load_balancer_provider": "health_probe",
            "load_balancer_probe_interval": 1,
            "load_balancer_probe_count": 1,
        }
        look = {
            "step": "survey",
            "endpoint": "{{ scheduled_events_endpoint }}",
            "directory": "{{ scheduled_events_state_directory | default(omit) }}",
            "flag": "{{ load_balancer_probe_flag | default(omit) }}",
        }
        other = {"owner": "elsewhere/run/{{ inventory_hostname }}", "by": {"node": "elsewhere", "pid": 1}}
        before, over = (
            [{**module_task("maintenance_gate", {**look, **other, "lease": lease}), "name": "before"}]
            for lease in (3600, 1)
        )
        after = [{**module_task("maintenance_gate", look), "name": "after"}]
        how = {"inventory": inventory, "env": windows(directory / "windows.log")}
        started = ansible.start_playbook(
            [play(before), {"import_playbook": PLAYBOOK, "vars": {"rolling_maintenance_hosts": "all"}}, play(after)],
            **how,
        )
        # The other run keeps its marks until this one waits for them.
        until(lambda: "asks for it" in started.output or not started.running, what="the wait at the gate")
        ansible.run_playbook([play(over)], **how)
        self.run = started.result()
        self.statuses = server.statuses

    def survey(self, task, host):
        """What was seen, without what is of the host, of the moment, or of the release of ansible-core."""
        found = dict(self.run.one(task=task, host=host).result)
        kept = ("changed", "drained", "records", "marked", "unmarked_because", "mark", "events", "vm_name", "problem")
        return {name: found[name] for name in kept}


@pytest.fixture(scope="module")
def story(ansible, fleet, tmp_path_factory):
    server = WebServer(Health)
    server.statuses = {}
    yield Story(ansible, fleet, tmp_path_factory.mktemp("maintenance"), server)
    server.stop()


def test_a_survey_finds_the_same_on_both_hosts_before(story):
    alpha, omega = (story.survey("before", host) for host in ("alpha", "omega"))
    assert (alpha.pop("vm_name"), omega.pop("vm_name")) == ("alpha", "omega"), story.run.output
    assert alpha == omega
    assert (omega["marked"], omega["drained"], omega["records"]) == (True, False, {})


def test_the_gate_waits_for_the_mark_of_another_run_on_both_hosts(story):
    for host in ("alpha", "omega"):
        assert f"{host} (another run (elsewhere, process 1) asks for it)" in story.run.output


def test_both_hosts_are_maintained_one_after_the_other(story):
    assert story.run.rc == 0, story.run.output
    done = [task.host for task in story.run.all(task="Record the time")]
    assert done == ["alpha", "omega"]
    facts = [task.result.get("ansible_facts", {}).get("rolling_maintenance_result") for task in story.run.tasks]
    assert [result["outcome"] for result in facts if result] == ["maintained", "maintained"]


def test_the_stand_in_reboots_since_windows_wants_to(story):
    assert (story.drive / "C" / "reboots").read_text() == "rebooted\n"


@pytest.mark.parametrize("host", ["alpha", "omega"])
def test_the_health_endpoint_fails_while_a_host_is_maintained_and_then_no_more(story, host):
    statuses = story.statuses[host]
    assert 503 in statuses
    assert statuses[-1] == 200


def test_a_survey_finds_both_hosts_done_unmarked_and_in_service_after(story):
    alpha, omega = (story.survey("after", host) for host in ("alpha", "omega"))
    for found in (alpha, omega):
        [record] = found["records"].values()
        assert record["hosts"] == ["alpha", "omega"]
        assert (found["mark"], found["drained"], found["marked"]) == (None, False, False)
