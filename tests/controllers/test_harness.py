# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The AWX of these tests: that the other tests may rely on what it gives them."""

import pytest
import requests

PLAYBOOK = """
- hosts: localhost
  gather_facts: false
  tasks:
    - name: Ask whether a real metadata service is out of reach
      ansible.builtin.command:
        argv: ["{{ ansible_playbook_python }}", -c, "import sys; sys.modules['metadata_guard']"]
    - name: Show the question
      ansible.builtin.debug: {msg: "asked {{ question }}"}
"""


@pytest.fixture(scope="module")
def template(awx):
    """A job template with a playbook of this file, in a separate organization."""
    organization = awx.create("organizations", name="harness")["id"]
    inventory = awx.create("inventories", name="harness", organization=organization)["id"]
    path = awx.put_project("harness", {"ask.yml": PLAYBOOK})
    project = awx.create("projects", name="harness", organization=organization, local_path=path)["id"]
    template = awx.create(
        "job_templates",
        name="harness",
        inventory=inventory,
        project=project,
        playbook="ask.yml",
        ask_variables_on_launch=True,
    )
    yield template["id"]
    awx.call("DELETE", f"organizations/{organization}/")


def test_the_api_answers_below_both_prefixes(awx):
    assert awx.get("ping/")["version"] == awx.get("/api/controller/v2/ping/")["version"]


def test_a_job_runs_and_cannot_reach_a_real_metadata_service(awx, template):
    launched = awx.call("POST", f"job_templates/{template}/launch/", {"extra_vars": {"question": "the harness"}})
    job = awx.ended(launched["job"])
    assert job["status"] == "successful", awx.output(job["id"])
    assert "asked the harness" in awx.output(job["id"])


def test_a_relay_refuses_while_it_is_stopped_and_answers_at_the_same_url_afterwards(awx_relay):
    url = f"{awx_relay.url}/api/v2/ping/"
    assert requests.get(url, timeout=60).status_code == 200
    awx_relay.stop()
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=60)
    awx_relay.start()
    assert requests.get(url, timeout=60).status_code == 200
