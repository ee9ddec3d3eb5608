# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook controller_setup on a real AWX, run by ansible-runner in a project that cannot be written to."""

import hashlib
import re
from typing import Any, NamedTuple

import pytest
from awx import Awx
from runner import RunnerRun, project_files

from playbooks import LOCALHOST

pytestmark = pytest.mark.timeout(1800)  # an AWX starts, and the role runs twice
ORGANIZATION = "Fleet of the tests"
SECRETS = ("machine-secret-1", "azure-secret-2", "webhook-secret-3")
PROJECT = "/runner/project"  # where a job of AWX finds its project
PREPARE = """
- name: Write a record
  ansible.builtin.copy:
    content: prepared
    dest: '{{ vm_directory }}/prepared'
    mode: '0600'
"""
SHOW = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ poller_controller.url }} {{ poller_controller.token | hash('sha256') }}"
      run_once: true
"""
WEBHOOK = {"url": "http://127.0.0.1:9/", "http_method": "POST", "headers": {}, "disable_ssl_verification": False}
KINDS = ("inventories", "job_templates", "labels", "projects", "credentials", "execution_environments")


def variables(token_file: str) -> dict[str, Any]:
    """What the owner of the controller gives."""
    azure = {"subscription": "s", "client": "c", "secret": SECRETS[1], "tenant": "t"}
    return {
        "controller_setup_organization": ORGANIZATION,
        "controller_setup_project_path": "fleet-of-the-tests",
        "controller_setup_credentials": [
            {"name": "VMs", "credential_type": "Machine", "inputs": {"username": "u", "password": SECRETS[0]}},
            {"name": "Azure", "credential_type": "Microsoft Azure Resource Manager", "inputs": azure},
        ],
        "controller_setup_azure_credential": "Azure",
        "controller_setup_template_credentials": ["VMs"],
        "controller_setup_variables": {
            "respond": {"ansible_become": False, "respond_prepare_tasks": f"{PROJECT}/prepare.yml"}
        },
        "controller_setup_notification": {
            "notification_type": "webhook",
            "notification_configuration": {**WEBHOOK, "username": "", "password": SECRETS[2]},
        },
        "controller_setup_schedules": {"report": "DTSTART:20300101T060000Z RRULE:FREQ=DAILY;INTERVAL=1"},
        "controller_setup_hook_token_file": token_file,
    }


class Setup(NamedTuple):
    """A controller that was set up twice, and what the runs showed."""

    awx: Awx
    hook: Awx
    token_file: Any
    runs: list[RunnerRun]
    play: Any

    def template(self, name: str) -> dict[str, Any]:
        return self.awx.one("job_templates", name=name, organization__name=ORGANIZATION)


def changed(run: RunnerRun) -> int:
    assert run.rc == 0, run.output
    return int(re.search(r"changed=(\d+)", run.output).group(1))


@pytest.fixture(scope="module")
def setup(awx, runner, tmp_path_factory):
    token_file = tmp_path_factory.mktemp("owner") / "token"
    awx.put_project("fleet-of-the-tests", {**project_files(), "prepare.yml": PREPARE, "show.yml": SHOW})

    def play(*, env=None, options="", **more):
        return runner.run(
            "controller_setup",
            inventory=LOCALHOST,
            extra_vars={**variables(str(token_file)), **more},
            env={**awx.environment, "CONTROLLER_REQUEST_TIMEOUT": "120", **(env or {})},
            options=options,
        )

    runs = [play(options="-vvv"), play(options="-v")]
    assert runs[0].rc == 0, runs[0].output
    yield Setup(awx, awx.as_user(token_file.read_text().strip()), token_file, runs, play)
    if awx.find("organizations", name=ORGANIZATION):
        play(controller_setup_state="absent")


def test_a_second_run_changes_nothing(setup):
    assert (changed(setup.runs[0]) > 10, changed(setup.runs[1])) == (True, 0), setup.runs[1].output


def test_no_secret_is_in_the_output_and_the_token_is_in_a_file_of_its_owner(setup):
    output = "".join(run.output for run in setup.runs)
    token = setup.token_file.read_text().strip()
    assert [secret for secret in (*SECRETS, token, setup.awx.token) if secret in output] == []
    assert setup.token_file.stat().st_mode & 0o777 == 0o600


def test_the_template_takes_what_the_hook_gives_and_is_never_split(setup):
    template = setup.template("Respond to scheduled events")
    wanted = ("ask_labels_on_launch", "ask_limit_on_launch", "ask_variables_on_launch", "allow_simultaneous")
    assert [template[name] for name in wanted] == [True] * 4
    assert (template["job_slice_count"], template["ask_job_slice_count_on_launch"]) == (1, False)


def test_the_template_that_installs_the_polling_unit_has_the_token_from_a_credential_alone(setup):
    template = setup.template("Install the polling unit")
    names = [credential["name"] for credential in template["summary_fields"]["credentials"]]
    assert sorted(names) == ["Scheduled Events hook", "VMs"]
    assert "{{ scheduled_events_hook_token }}" in template["extra_vars"]
    [credential] = setup.awx.find("credentials", name="Scheduled Events hook", organization__name=ORGANIZATION)
    assert credential["inputs"] == {"token": "$encrypted$"}


def test_the_hook_may_launch_its_template_alone_and_sees_nothing_else(setup):
    answers = {
        name: setup.hook.ask("POST", f"job_templates/{setup.template(name)['id']}/launch/", {"limit": "nobody"})
        for name in ("Respond to scheduled events", "Rolling maintenance", "Install the polling unit")
    }
    assert [answer.status_code for answer in answers.values()] == [201, 403, 403]
    setup.awx.ended(answers["Respond to scheduled events"].json()["job"])
    seen = {kind: [each["name"] for each in setup.hook.find(kind, organization__name=ORGANIZATION)] for kind in KINDS}
    assert seen == {
        **{kind: [] for kind in KINDS},
        "job_templates": ["Respond to scheduled events"],
        "labels": ["scheduled-events"],
    }


@pytest.fixture
def vms(setup, fleet, tmp_path):
    """An emulator of two VMs that are hosts of the inventory in AWX."""
    emulator = fleet("web1", "web2", options=("--speed", "60", "--rate-limit", "0"))
    inventory = setup.awx.one("inventories", name="Scheduled Events", organization__name=ORGANIZATION)["id"]
    hosts = []
    for name, endpoint in emulator.endpoints.items():
        (tmp_path / name).mkdir()
        own = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "scheduled_events_endpoint": endpoint,
            "scheduled_events_state_directory": str(tmp_path / name / "state"),
            "vm_directory": str(tmp_path / name),
        }
        text = "\n".join(f"{key}: '{value}'" for key, value in own.items())
        hosts.append(setup.awx.create("hosts", name=name, inventory=inventory, variables=text)["id"])
    yield emulator
    for host in hosts:
        setup.awx.call("DELETE", f"hosts/{host}/")


def launch(setup, by, **body):
    template = setup.template("Respond to scheduled events")["id"]
    launched = by.call("POST", f"job_templates/{template}/launch/", body)
    assert launched["ignored_fields"] == {}
    return launched


def test_a_job_of_the_hook_acknowledges_and_its_artifacts_say_so(setup, vms):
    event_id = vms.schedule("Redeploy", "web1", "web2", notice=86400, started_for=60)
    organization = setup.awx.one("organizations", name=ORGANIZATION)["id"]
    label = setup.hook.create("labels", name=f"event-{event_id}", organization=organization)["id"]
    answers = {"respond_acknowledge": "prepared", "respond_wait_timeout": 240}
    launched = launch(
        setup, setup.hook, limit="web1,web2", labels=[label], extra_vars={**answers, "scheduled_event": {"a": "b"}}
    )
    job = setup.awx.ended(launched["job"])
    output = setup.awx.output(job["id"])
    assert job["status"] == "successful", output
    [(sender, ids, _status)] = vms.posts()
    event = job["artifacts"]["scheduled_events_report"]["events"][event_id]
    assert ids == [event_id]
    assert (event["acknowledged_by"], sorted(event["hosts"])) == (sender, ["web1", "web2"])
    assert f"  Redeploy {event_id}: acknowledged by {sender} at {event['acknowledged_at']}" in output
    [found] = setup.hook.find("jobs", labels__name=f"event-{event_id}")
    assert found["id"] == job["id"]


@pytest.mark.long
def test_a_job_in_slices_is_refused(setup, vms):
    template = f"job_templates/{setup.template('Respond to scheduled events')['id']}/"
    setup.awx.call("PATCH", template, {"job_slice_count": 2})
    launched = launch(setup, setup.awx)
    setup.awx.call("PATCH", template, {"job_slice_count": 1})
    slices = setup.awx.ended_slices(launched["workflow_job"])
    assert [job["status"] for job in slices] == ["failed", "failed"]
    assert all("Set Job Slicing of the template to 1." in setup.awx.output(job["id"]) for job in slices)
    assert {name: vms.polls(name)["polls"] for name in vms.endpoints} == {"web1": 0, "web2": 0}


@pytest.mark.long
@pytest.mark.usefixtures("vms")
def test_a_job_that_installs_the_polling_unit_has_the_token_of_the_hook(setup):
    template = f"job_templates/{setup.template('Install the polling unit')['id']}/"
    setup.awx.call("PATCH", template, {"playbook": "show.yml"})
    job = setup.awx.ended(setup.awx.call("POST", f"{template}launch/")["job"])
    setup.awx.call("PATCH", template, {"playbook": "install_poller.yml"})
    token = setup.token_file.read_text().strip()
    shown = f"{setup.awx.url} {hashlib.sha256(token.encode()).hexdigest()}"
    assert (job["status"], shown in setup.awx.output(job["id"])) == ("successful", True)
    assert token not in setup.awx.output(job["id"]) + job["extra_vars"]


@pytest.mark.long
def test_a_new_token_works_beside_the_old_one(setup):
    run = setup.play(controller_setup_renew_hook_token=True)
    assert changed(run) > 0
    new = setup.awx.as_user(setup.token_file.read_text().strip())
    assert new.token not in (setup.hook.token, *SECRETS)
    assert [user.get("me/")["results"][0]["username"] for user in (setup.hook, new)] == ["scheduled-events-hook"] * 2


def test_a_collection_that_is_missing_is_named_with_what_to_do(setup):
    run = setup.play(controller_setup_collection="ansible.controller")
    assert run.rc == 2
    assert "ansible-galaxy collection install ansible.controller" in run.output


def test_absent_takes_all_of_it_back_also_through_the_prefix_of_a_gateway(setup):
    behind = {"CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX": "/api/controller/"}
    kept = setup.play(controller_setup_state="absent", controller_setup_existing=["organization"], env=behind)
    runs = [setup.play(controller_setup_state="absent", env=behind) for _number in range(2)]
    assert (changed(kept) > 8, *map(changed, runs)) == (True, 1, 0)
    assert setup.awx.find("organizations", name=ORGANIZATION) == []
    assert setup.awx.find("users", username="scheduled-events-hook") == []
    assert setup.awx.find("credential_types", name="Scheduled Events hook") == []
    assert setup.awx.find("job_templates", name="Respond to scheduled events") == []
    assert not setup.token_file.exists()
