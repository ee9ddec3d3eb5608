# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebook launch_job_template, from the emulator through a real ansible-rulebook to jobs of a real AWX."""

import shutil

import pytest
from rulebooks import Rulebook

pytestmark = pytest.mark.long

PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "a job for {{ inventory_hostname }}"}
"""


@pytest.fixture(scope="module")
def template(awx):
    """A job template that takes a limit, with an inventory of three hosts."""
    organization = awx.create("organizations", name="rulebook")["id"]
    inventory = awx.create("inventories", name="rulebook", organization=organization)["id"]
    for name in ("vm1.example.org", "vm2", "vm3"):
        awx.create("hosts", name=name, inventory=inventory, variables='{"ansible_connection": "local"}')
    path = awx.put_project("rulebook", {"say.yml": PLAYBOOK})
    project = awx.create("projects", name="rulebook", organization=organization, local_path=path)["id"]
    template = awx.create(
        "job_templates",
        name="rulebook",
        inventory=inventory,
        project=project,
        playbook="say.yml",
        ask_limit_on_launch=True,
        allow_simultaneous=True,
    )
    yield template["id"]
    awx.call("DELETE", f"organizations/{organization}/")


@pytest.fixture(scope="module")
def jobs(awx, template, fleet, tmp_path_factory):
    """The jobs after an event of two VMs that both endpoints report, and its end."""
    if not (shutil.which("ansible-rulebook") and shutil.which("java")):
        pytest.skip("ansible-rulebook or Java is not installed")
    emulator = fleet("vm1", "vm2")
    event_id = emulator.schedule("Redeploy", "vm1", "vm2")
    rulebook = Rulebook(
        tmp_path_factory.mktemp("rulebook"),
        "launch_job_template",
        {"all": {"hosts": {"localhost": {}}}},
        {
            "scheduled_events_job_template": "rulebook",
            "scheduled_events_organization": "rulebook",
            "scheduled_events_endpoints": list(emulator.endpoints.values()),
            "scheduled_events_host_names": {"vm1": "vm1.example.org"},
        },
        env={"EDA_CONTROLLER_URL": awx.url, "EDA_CONTROLLER_TOKEN": awx.token},
    )
    try:
        rulebook.until(lambda: awx.find("jobs", job_template=template, status="successful"), "the job")
        emulator.start(event_id)
        emulator.complete(event_id)
        polls = {name: emulator.polls(name)["polls"] + 3 for name in emulator.endpoints}
        rulebook.until(lambda: all(emulator.polls(name)["polls"] >= polls[name] for name in polls), "more polls")
        return awx.find("jobs", job_template=template)
    finally:
        rulebook.kill()


def test_an_event_that_two_endpoints_report_launches_one_job_on_its_hosts(jobs):
    assert [job["limit"] for job in jobs] == ["vm1.example.org,vm2"]


def test_the_job_is_given_no_text_of_the_event(jobs):
    assert jobs[0]["extra_vars"] == "{}"
