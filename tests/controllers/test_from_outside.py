# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebook of the page "From outside" with a real ansible-rulebook, and with jobs of a real AWX."""

import collections
import contextlib
import datetime
import http.client
import json
import random
import shutil
import threading
import time

import pytest
import yaml
from emulation import ask, until
from hooks import Vm, new_event
from page_blocks import block
from ports import free_port
from rulebooks import Rulebook
from runner import project_files

from playbooks import LOCALHOST

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

ORGANIZATION = "Outside"
TOKEN = "not-a-secret"
MONTH = 30 * 86400  # seconds
MESSAGES, EVENTS, STARTED, OVER = 200, 60, 40, 20  # of the 60 events, 40 start, and 20 of these are over
KILLS = 4
LAST = "last"  # the VM of an event after all others
TRIVIAL = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ respond_published_events[0].event_id }}"}
"""
PROMPTS = {f"ask_{field}_on_launch": True for field in ("limit", "labels", "variables")}


@pytest.fixture
def place(awx):
    """Return a function that creates the template of the page, and what it needs, in a new organization."""
    if not (shutil.which("ansible-rulebook") and shutil.which("java")):
        pytest.skip("ansible-rulebook or Java is not installed")
    made = []

    def create(kind, **fields):
        made.append((kind, awx.create(kind, **fields)["id"]))
        return made[-1][1]

    def place(files, hosts):
        organization = create("organizations", name=ORGANIZATION)
        inventory = create("inventories", name=ORGANIZATION, organization=organization)
        for name, variables in hosts.items():
            text = json.dumps({"ansible_connection": "local", **variables})
            awx.create(f"inventories/{inventory}/hosts", name=name, variables=text)
        path = awx.put_project("outside", files)
        project = create("projects", name=ORGANIZATION, organization=organization, local_path=path)
        fields = {"inventory": inventory, "project": project, "playbook": "respond.yml", "allow_simultaneous": True}
        return create("job_templates", name="Respond to scheduled events", **fields, **PROMPTS)

    yield place
    for job in awx.find("jobs", organization__name=ORGANIZATION):
        awx.ended(job["id"])
    for kind, number in reversed(made):
        awx.call("DELETE", f"{kind}/{number}/")


class Outside:
    """The rulebook of the page with another source, which can be killed and started again."""

    def __init__(self, awx, directory, source):
        [ruleset] = yaml.safe_load(block("docs/from-outside.md", "- name: Respond to the events of a subscription"))
        [before] = ruleset["sources"]
        [[options]] = [each.values() for each in before["filters"]]
        options["memory_file"] = options["memory_file"].replace("/var/lib", str(directory))
        (directory / "rulebook").mkdir()
        ruleset["sources"] = [{"name": before["name"], **source, "filters": before["filters"]}]
        for rule in ruleset["rules"]:
            rule["action"]["run_job_template"]["organization"] = ORGANIZATION
        self._directory, self._awx = directory, awx
        self._rulebook = directory / "rulebook.yml"
        self._rulebook.write_text(yaml.safe_dump([ruleset], sort_keys=False))
        self.running = None

    def start(self):
        variables = yaml.safe_load(block("docs/from-outside.md", "drools_db_file_path"))
        variables["drools_db_file_path"] = variables["drools_db_file_path"].replace("/var/lib", str(self._directory))
        self.running = Rulebook(
            self._directory,
            "respond_on_source",
            LOCALHOST,
            variables,
            options=("--rulebook", str(self._rulebook), "--persistence-id", "outside"),
            env={
                "EDA_CONTROLLER_URL": self._awx.url,
                "EDA_CONTROLLER_TOKEN": self._awx.token,
                "EDA_JOB_TEMPLATE_REFRESH_DELAY": "1",
            },
        )

    def keep_running(self):
        if not self.running or self.running.ended:
            self.start()

    def kill(self):
        if self.running:
            self.running.kill()


def jobs_of(awx, template):
    """How often a job was launched for each change of each event: (id of the event, change)."""
    found = awx.find("jobs", job_template=template)
    events = [json.loads(job["extra_vars"])["respond_published_events"][0] for job in found]
    return collections.Counter((event["event_id"], event["change"]) for event in events)


def messages_of(emulator, *, repeated):
    """The messages of an emulator, as many of them repeated, in another order: no end comes before what it ends."""
    published = emulator.control("GET", "event-grid")["messages"]
    messages = [*published, *random.choices(published, k=repeated)]
    random.shuffle(messages)

    def of(place):
        properties = messages[place]["data"]["resourceInfo"]["properties"]
        return properties["EventId"], properties["EventStatus"] == "Completed"

    for place in range(len(messages)):
        event_id, is_over = of(place)
        if is_over and (event_id, False) not in map(of, range(place)):
            other = next(each for each in range(place, len(messages)) if of(each) == (event_id, False))
            messages[place], messages[other] = messages[other], messages[place]
    return messages


class Posted:
    """A webhook that gets the messages one after the other, each of them until it answers."""

    def __init__(self, _directory):
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.source = {"eda.builtin.webhook": {"host": "127.0.0.1", "port": port, "token": TOKEN}}

    def deliver(self, outside, messages, kills):
        moments, timers = random.sample(range(len(messages)), kills), []
        for place, message in enumerate(messages):
            if place in moments:
                timers.append(threading.Timer(random.uniform(0, 1), outside.kill))
                timers[-1].start()
            until(lambda: self._post(outside, message), what="the answer to a message")  # noqa: B023
        for timer in timers:
            timer.join()
        outside.keep_running()

    def _post(self, outside, message):
        outside.keep_running()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        return self._ask("POST", body=json.dumps([message]), headers=headers) == 200

    def listens(self):
        """Whether it answers."""
        return self._ask("GET") is not None

    def _ask(self, method, **request):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return ask(self.url, method, "/", **request)[0]
        return None


class FromFile:
    """A file, which is read from its beginning after each start."""

    def __init__(self, directory):
        self._file = directory / "messages.yml"
        self.source = {
            "eda.builtin.generic": {"payload_file": str(self._file), "event_delay": 0.02, "shutdown_after": 36000}
        }
        self._all = []

    def deliver(self, outside, messages, kills):
        self._all += messages
        self._file.write_text(json.dumps(self._all))
        outside.kill()
        for _time in range(kills):
            outside.start()
            time.sleep(random.uniform(4, 12))  # it starts for some of them
            outside.kill()
        outside.start()


@pytest.mark.parametrize("way", [Posted, FromFile])
def test_each_of_60_events_has_one_job_and_one_for_its_end_however_often_the_rulebook_is_killed(
    awx, place, emulate, tmp_path, way
):
    names = [f"vm{number}" for number in range(EVENTS)]
    template = place({"respond.yml": TRIVIAL}, {name: {} for name in (*names, LAST)})
    emulator = emulate([{"name": name} for name in (*names, LAST)], "--manual-clock")
    announced = [emulator.schedule("Redeploy", name, notice=MONTH).lower() for name in names]
    for event_id in announced[:STARTED]:
        emulator.start(event_id)
    for event_id in announced[:OVER]:
        emulator.complete(event_id)
    messages = messages_of(emulator, repeated=MESSAGES - EVENTS - STARTED - OVER)
    assert len(messages) == MESSAGES
    arrival = way(tmp_path)
    outside = Outside(awx, tmp_path, arrival.source)
    expected = {**{(each, "new"): 1 for each in announced}, **{(each, "gone"): 1 for each in announced[:OVER]}}
    try:
        arrival.deliver(outside, messages, KILLS)
        outside.running.until(lambda: jobs_of(awx, template).keys() >= expected.keys(), "a job for each event")
        # What waits for a job of its event is launched when this one is.
        last = emulator.schedule("Redeploy", LAST, notice=MONTH).lower()
        emulator.cancel(last)
        arrival.deliver(outside, emulator.control("GET", "event-grid")["messages"][-2:], 0)
        expected |= {(last, "new"): 1, (last, "gone"): 1}
        outside.running.until(lambda: (last, "gone") in jobs_of(awx, template), "the last job")
    finally:
        outside.kill()
    assert jobs_of(awx, template) == expected


TEN = [f"web{number}" for number in range(10)]


def touch(path):
    return f"- ansible.builtin.file: {{path: '{{{{ vm_directory }}}}/{path}', state: touch, mode: '0600'}}\n"


class Respond:
    """Ten VMs without a polling unit, and the role respond in AWX."""

    def __init__(self, awx, place, emulator, directory):
        self.awx, self.emulator, self._directory = awx, emulator, directory
        hosts = {}
        for name in TEN:
            (directory / name).mkdir()
            hosts[name] = {
                "vm_directory": str(directory / name),
                "scheduled_events_state_directory": str(directory / name / "state"),
                "scheduled_events_endpoint": emulator.endpoints[name],
                "ansible_become": False,
                "respond_prepare_tasks": "/runner/project/prepare.yml",
                "respond_recover_tasks": "/runner/project/recover.yml",
                "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            }
        recover = touch("recovered-{{ respond_events[0].event_id }}")
        files = {"prepare.yml": touch("prepared-{{ respond_event.event_id }}"), "recover.yml": recover}
        self.template = place({"respond.yml": project_files()["respond.yml"], **files}, hosts)

    def announce(self):
        """The id of an event of all VMs, and when it was announced, in seconds since the epoch."""
        moment = time.time()
        return self.emulator.schedule("Redeploy", *TEN, notice=900, started_for=10), moment

    def have(self, trace, event_id):
        """The VMs with a trace of the event."""
        traces = self._directory.glob(f"*/{trace}-*")
        return sorted(path.parent.name for path in traces if path.name.lower() == f"{trace}-{event_id}".lower())

    def posts(self, event_id):
        """When the event was acknowledged, in seconds since the epoch."""
        return [entry["at_real"] for entry in self.emulator.log("post") if event_id in entry["event_ids"]]

    def seconds(self, event_id, announced):
        """From the announcement to the launch of the first job, and to the acknowledgement."""
        first = self.awx.find("jobs", job_template=self.template, order_by="id", created__gt=iso(announced))[0]
        launched = datetime.datetime.fromisoformat(first["created"]).timestamp()
        return f"{launched - announced:.1f} to the launch, {self.posts(event_id)[0] - announced:.1f} to the POST"


def iso(moment):
    return datetime.datetime.fromtimestamp(moment, datetime.UTC).isoformat().replace("+00:00", "Z")


def test_an_event_of_ten_vms_without_a_unit_is_prepared_acknowledged_once_and_recovered_from(
    awx, place, emulate, tmp_path, capsys
):
    arrival, token = Posted(tmp_path), tmp_path / "token"
    token.write_text(TOKEN)
    vms = [{"name": name, "kind": "availability_set", "set": "web"} for name in TEN]
    url = ("--event-grid-url", arrival.url, "--event-grid-token-file", str(token))
    respond = Respond(awx, place, emulate(vms, "--rate-limit", "0", *url), tmp_path)
    outside = Outside(awx, tmp_path, arrival.source)
    outside.start()
    try:
        outside.running.until(arrival.listens, "the webhook")
        event_id, announced = respond.announce()
        jobs = {(event_id.lower(), "new"): 1, (event_id.lower(), "gone"): 1}
        outside.running.until(lambda: jobs_of(awx, respond.template) == jobs, "a job for the event and one for its end")
    finally:
        outside.kill()
    assert [awx.ended(job["id"])["status"] for job in awx.find("jobs", job_template=respond.template)] == [
        "successful"
    ] * 2
    assert jobs_of(awx, respond.template) == jobs
    assert respond.have("prepared", event_id) == respond.have("recovered", event_id) == TEN
    assert len(respond.posts(event_id)) == 1
    messages = respond.emulator.control("GET", "event-grid")["messages"]
    statuses = [message["data"]["resourceInfo"]["properties"]["EventStatus"] for message in messages]
    assert statuses == ["Scheduled", "Started", "Completed"]
    with capsys.disabled():
        print(f"\nseconds from the announcement through Event Grid: {respond.seconds(event_id, announced)}")


def test_the_hook_of_the_polling_unit_has_the_same_template_respond_for_ten_vms(awx, place, emulate, tmp_path, capsys):
    vms = [{"name": name, "kind": "availability_set", "set": "web"} for name in TEN]
    respond = Respond(awx, place, emulate(vms, "--rate-limit", "0"), tmp_path)
    launcher = Vm(tmp_path / "launcher", awx, job_template=f"Respond to scheduled events++{ORGANIZATION}")
    event_id, announced = respond.announce()
    assert launcher.run({**new_event(*TEN), "event_id": event_id})[0] == 0
    assert respond.have("prepared", event_id) == TEN
    assert len(respond.posts(event_id)) == 1
    with capsys.disabled():
        print(f"\nseconds from the announcement through the hook: {respond.seconds(event_id, announced)}")
