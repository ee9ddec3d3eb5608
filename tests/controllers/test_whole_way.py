# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole way: two VMs with systemd and the polling unit that a job of a real AWX installed, an event of both, the
one job that the VMs have AWX run for it, and its end on the VMs. Then with an AWX that stops, a job that is cancelled
by hand, and a token that is revoked."""

import base64
import datetime
import hashlib
import hmac
import http.server
import json
import re
import threading
import time

import pytest
from emulation import until
from machines import CONNECTION, GATEWAY, Machines
from relay import Relay
from runner import project_files

from playbooks import LOCALHOST

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]

ORGANIZATION = "Whole way"
PROJECT = "whole-way"
NAMES = ("web1", "web2")
GRACE = 45  # seconds before NotBefore
OUTAGE = 60.0  # seconds
INSTALLATION = 1200.0  # seconds for two VMs; only so that a hang is named
PHASE_TIMEOUT = 60  # seconds after which a relaunched job takes over from one that was cancelled
WEBHOOK_SECRET, WEBHOOK_PATH = "wholewayhmacsecret", "/hook/wholewayurlsecret"
DRILL, HOLD = "/usr/local/bin/drill", "/run/hold"
DIARY = '#!/bin/sh\necho "$1 $2 $(date +%s.%N)" >>/var/lib/diary\n'
FILES = {
    "drain.yml": f"""
- name: Wait until the test lets the drain go on
  ansible.builtin.wait_for: {{path: {HOLD}, state: absent, timeout: 600}}
- name: Drain
  ansible.builtin.command: {{argv: [{DRILL}, drained, '{{{{ respond_event.event_id }}}}']}}
""",
    "return.yml": f"""
- name: Return
  ansible.builtin.command: {{argv: [{DRILL}, back, '{{{{ item.event_id }}}}']}}
  loop: '{{{{ respond_events }}}}'
""",
}
# Wherever something of ours is written, except for the two files that only root can read.
WRITTEN = r"""
journalctl --no-pager --output json
cat /var/tmp/watched
/etc/ansible/facts.d/scheduled_events.fact
scheduled-events status --json
systemctl show 'scheduled-events*'
find /var/lib/scheduled-events* /var/lib/maintops /var/lib/diary /run/scheduled-events* /etc/scheduled-events* \
  -type f -not -path /etc/scheduled-events/controller.json -not -path /etc/scheduled-events/webhooks.json -print \
  -exec cat {} +
"""


class Receiver(http.server.ThreadingHTTPServer):
    """Takes webhooks; ``messages`` are those that came to the right place and are signed."""

    def __init__(self):
        receiver = self
        self.messages = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                names = "X-Scheduled-Events-Id", "X-Scheduled-Events-Timestamp"
                signed = b".".join([*(self.headers[name].encode() for name in names), body])
                expected = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), signed, hashlib.sha256).hexdigest()
                if (self.path, self.headers["X-Scheduled-Events-Signature"]) == (WEBHOOK_PATH, expected):
                    receiver.messages.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        super().__init__((GATEWAY, 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class WholeWay:
    """All that takes part. ``token_file`` has the token of the hook on the VMs."""

    def __init__(self, awx, emulator, machines, token_file):
        self.awx, self.emulator, self.machines = awx, emulator, machines
        self.token_file = token_file
        self.relay = Relay(awx.url, GATEWAY)  # of the VMs to AWX
        self.receiver = Receiver()
        self.events = []

    def stop(self):
        self.receiver.shutdown()
        self.receiver.server_close()
        self.relay.stop()

    def announce(self, notice):
        """The id of a new Redeploy of both VMs."""
        self.events.append(self.emulator.schedule("Redeploy", *NAMES, notice=notice, started_for=15))
        return self.events[-1]

    def jobs(self, event):
        return self.awx.find("jobs", labels__name__startswith=f"scheduled-event.{event.lower()}.", order_by="id")

    def job(self, event, *statuses):
        """The job of an event once it has one of these statuses."""

        def look():
            return [job for job in self.jobs(event) if job["status"] in statuses]

        return until(look, what=f"a job of {event} that is {' or '.join(statuses)}")[0]

    def says(self, event, text):
        """Wait until the status of each VM says this of the event."""

        until(lambda: all(event in each and text in each for each in self.statuses()), what=f"a status with {text!r}")

    def statuses(self):
        """What each VM shows, at most once a second; and shown when the test fails."""
        time.sleep(1)
        texts = [self.machines.run(name, "scheduled-events", "status", check=False) for name in NAMES]
        print("\n".join(texts))
        return texts

    def hold(self, *names):
        """Let the drains of these VMs wait, and those of the others not."""
        for name in NAMES:
            self.machines.run(name, *(["touch"] if name in names else ["rm", "-f"]), HOLD)

    def diary(self, event):
        """What the job did for an event: "VM drained" and "VM back", and when."""
        lines = [
            (float(at), f"{name} {what}")
            for name in NAMES
            for what, of, at in map(str.split, self.machines.run(name, "cat", "/var/lib/diary").splitlines())
            if of == event
        ]
        return sorted(lines)

    def answers(self, event):
        """Each acknowledgement that was posted: who sent it, and when, in seconds since the epoch."""
        return [(entry["vm"], entry["at_real"]) for entry in self.emulator.log("post") if event in entry["event_ids"]]

    def gone(self, event):
        """Wait until the event is gone, and no VM knows of it any more."""
        until(lambda: event not in json.dumps(self.emulator.state()["events"]), what=f"the end of {event}")
        until(
            lambda: not any(event in each for each in self.statuses()),
            what=f"VMs that have nothing left to do for {event}",
        )


def setup_variables(way):
    """What the owner of the controller gives to controller_setup."""
    return {
        "controller_setup_organization": ORGANIZATION,
        "controller_setup_project": ORGANIZATION,
        "controller_setup_project_path": PROJECT,
        "controller_setup_inventory": ORGANIZATION,
        "controller_setup_url": way.relay.url,
        "controller_setup_hook_user": "whole-way-hook",
        "controller_setup_hook_token_file": str(way.token_file),
        "controller_setup_playbooks": {name: f"{name}.yml" for name in ("respond", "install_poller", "drill")},
        "controller_setup_variables": {
            "drill": {"ansible_become": False},
            "respond": {
                "ansible_become": False,
                "respond_phase_timeout": PHASE_TIMEOUT,
                "respond_prepare_tasks": "/runner/project/drain.yml",
                "respond_recover_tasks": "/runner/project/return.yml",
            },
            "install_poller": {
                "ansible_become": False,
                "poller_controller_grace": GRACE,
                "poller_controller": {"allow_http": True},
                "poller_hooks": [{"name": "50-own", "phase": "prepare", "command": ["/bin/true"]}],  # of a takeover
            },
        },
    }


def install(way):
    """Have AWX install the polling unit on its hosts, which are the VMs."""
    inventory = way.awx.one("inventories", name=ORGANIZATION, organization__name=ORGANIZATION)["id"]
    endpoint = re.sub("//.*:", f"//{GATEWAY}:", way.emulator.endpoints["web1"])
    url = f"http://{GATEWAY}:{way.receiver.server_port}{WEBHOOK_PATH}"
    shared = {
        "scheduled_events_endpoint": endpoint,
        "poller_webhooks": [{"name": "ops", "url": url, "secret": WEBHOOK_SECRET}],
    }
    way.awx.call("PATCH", f"inventories/{inventory}/", {"variables": json.dumps(shared)})
    for name in NAMES:
        way.machines.run(name, "sh", "-c", f"cat >{DRILL} && chmod 755 {DRILL} && touch /var/lib/diary", text=DIARY)
        way.awx.create("hosts", name=name, inventory=inventory, variables=json.dumps(way.machines.variables(name)))
    template = way.awx.one("job_templates", name="Install the polling unit", organization__name=ORGANIZATION)["id"]
    launched = way.awx.call("POST", f"job_templates/{template}/launch/", {"limit": "all"})["job"]
    job = way.awx.ended(launched, timeout=INSTALLATION)
    assert job["status"] == "successful", way.awx.output(job["id"])


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    Machines.needed()
    machines = Machines(tmp_path_factory.mktemp("machines"), *NAMES)
    try:
        machines.start()
        yield machines
    finally:
        machines.stop()


@pytest.fixture(scope="module")
def way(awx, machines, runner, emulate, tmp_path_factory):
    """AWX is set up, and the polling unit is on the VMs."""
    connection = CONNECTION.read_text()
    awx.put_project(PROJECT, {**project_files(), **FILES, "connection_plugins/machine.py": connection})
    vms = [
        {"name": name, "kind": "availability_set", "set": "web", "from": [address]}
        for name, address in machines.addresses.items()
    ]
    emulator = emulate(vms, "--listen", GATEWAY, "--rate-limit", "0")
    way = WholeWay(awx, emulator, machines, tmp_path_factory.mktemp("owner") / "token")

    def set_up(state):
        run = runner.run(
            "controller_setup",
            inventory=LOCALHOST,
            extra_vars={**setup_variables(way), "controller_setup_state": state},
            env={**awx.environment, "CONTROLLER_REQUEST_TIMEOUT": "120"},
        )
        assert run.rc == 0, run.output

    set_up("present")
    install(way)
    yield way
    way.stop()
    set_up("absent")


def test_an_event_of_two_vms_becomes_one_job_that_drains_both_acknowledges_once_and_brings_both_back(way, capsys):
    announced = time.time()
    event = way.announce(notice=900)
    job = way.awx.ended(way.job(event, "running", "successful")["id"])
    assert job["status"] == "successful", way.awx.output(job["id"])
    way.gone(event)
    [(_vm, acknowledged)], diary = way.answers(event), way.diary(event)
    assert [each["id"] for each in way.jobs(event)] == [job["id"]]
    assert sorted(line for _at, line in diary) == ["web1 back", "web1 drained", "web2 back", "web2 drained"]
    assert [at < acknowledged for at, _line in diary] == [True, True, False, False]
    phases = {(message["vm_name"], message["phase"]) for message in way.receiver.messages}
    assert {(name, "prepare") for name in NAMES} <= phases
    launched = datetime.datetime.fromisoformat(job["created"]).timestamp()
    with capsys.disabled():
        print(
            f"\nseconds from the announcement: to the launch {launched - announced:.1f}, "
            f"to the acknowledgement {acknowledged - announced:.1f}"
        )


def test_a_drill_of_one_vm_launches_its_job_which_acknowledges_and_nothing_of_it_is_sent(way):
    posts = len(way.emulator.log("post"))
    template = way.awx.one("job_templates", name="Drill of scheduled events", organization__name=ORGANIZATION)["id"]
    drill = way.awx.ended(way.awx.call("POST", f"job_templates/{template}/launch/", {"limit": "web1"})["job"])
    output = way.awx.output(drill["id"])
    assert drill["status"] == "successful", output
    assert drill["artifacts"]["scheduled_events_drill"]["web1"]["outcome"] == "passed"
    event = re.search(r"announced (drill-[0-9a-f-]+)", output)[1]
    # Only the job of the event writes this.
    until(lambda: [line for _at, line in way.diary(event)] == ["web1 drained", "web1 back"], what="the end of the job")
    assert len(way.emulator.log("post")) == posts


def test_an_awx_that_is_stopped_for_a_minute_answers_the_event_when_it_is_back(way):
    way.relay.stop()
    event = way.announce(notice=900)
    way.says(event, "there is no job yet; trying again")
    time.sleep(OUTAGE)
    assert (way.jobs(event), way.answers(event)) == ([], [])
    way.relay.start()
    job = way.awx.ended(way.job(event, "running", "successful")["id"])
    way.gone(event)
    assert [each["id"] for each in way.jobs(event)] == [job["id"]]
    assert len(way.answers(event)) == 1
    assert [line.split()[1] for _at, line in way.diary(event)] == ["drained", "drained", "back", "back"]


def test_a_job_that_is_cancelled_by_hand_is_named_and_its_relaunch_acknowledges(way):
    way.hold("web1")
    event = way.announce(notice=900)
    job = way.job(event, "running")
    until(lambda: way.diary(event), what="the drain of web2")
    way.awx.call("POST", f"jobs/{job['id']}/cancel/")
    way.says(event, f"job {job['id']} has ended: canceled")
    assert way.answers(event) == []
    way.hold()
    again = way.awx.ended(way.awx.call("POST", f"jobs/{job['id']}/relaunch/")["id"])
    assert again["status"] == "successful", way.awx.output(again["id"])
    way.gone(event)
    assert len(way.answers(event)) == 1
    assert sorted({line for _at, line in way.diary(event)}) == [
        "web1 back",
        "web1 drained",
        "web2 back",
        "web2 drained",
    ]


def test_a_revoked_token_leaves_a_running_job_alone_and_the_next_event_to_the_vms(way):
    way.hold("web1")
    event = way.announce(notice=900)
    job = way.job(event, "running")
    until(lambda: way.diary(event), what="the drain of web2")
    for token in way.awx.find("tokens", user__username="whole-way-hook"):
        way.awx.call("DELETE", f"tokens/{token['id']}/")
    way.says(event, "cannot be followed: GET ")
    way.says(event, "it was revoked or has expired")
    way.hold()
    assert way.awx.ended(job["id"])["status"] == "successful"
    way.gone(event)
    assert len(way.answers(event)) == 1
    other = way.announce(notice=GRACE + 45)
    way.says(other, "it was revoked or has expired")
    way.gone(other)
    senders = [vm for vm, _at in way.answers(other)]  # both may be about to send it in the same moment
    assert senders
    assert len(senders) == len(set(senders))
    [started] = [entry for entry in way.emulator.log("started") if entry["event_id"] == other]
    assert (started["reason"], way.jobs(other)) == ("approved", [])


def spellings(secret):
    """A secret, and what stays of it in base64 wherever it begins."""
    encoded = [base64.b64encode(b"." * before + secret.encode())[4 if before else 0 :] for before in range(3)]
    return [secret.encode(), *(each.rstrip(b"=")[:-2] for each in encoded)]


def job_events(awx, job):
    """What AWX kept of each task."""
    page = {"next": f"/api/v2/jobs/{job['id']}/job_events/?page_size=200"}
    while page["next"]:
        page = awx.get(page["next"])
        yield json.dumps(page["results"])


def test_no_secret_is_in_what_the_vms_and_the_jobs_wrote(way):
    """The last of these tests: it looks at what the others left."""
    written = {name: way.machines.run(name, "sh", "-c", WRITTEN, check=False) for name in NAMES}
    for job in way.awx.find("jobs", inventory__name=ORGANIZATION, order_by="id"):
        written[f"job {job['id']}"] = way.awx.output(job["id"]) + "".join(job_events(way.awx, job))
    assert len(written) > len(NAMES) + len(way.events)
    for name in NAMES:  # so that the places are the right ones
        for known in (way.events[0], "/var/lib/scheduled-events/state.json", "scheduled-events-controller", '"age"'):
            assert known in written[name]
    secrets = (way.token_file.read_text().strip(), WEBHOOK_SECRET, WEBHOOK_PATH.rpartition("/")[2])
    found = [
        (place, secret, spelling)
        for place, text in written.items()
        for secret in secrets
        for spelling in spellings(secret)
        if spelling.decode() in text
    ]
    assert found == []
