# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of the polling unit that has a controller run a job, against a real AWX: one job for each event, and a
defined end whatever happens to the job, to the controller and to the other VMs."""

import http.server
import json
import re
import signal
import threading
import time

import pytest
from hooks import Vm, new_event

PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Wait until the test lets the job go on
      ansible.builtin.wait_for: {path: "{{ until }}", timeout: 300}
      when: until is defined
    - name: Show the event
      ansible.builtin.debug: {msg: "for {{ scheduled_event.event_id }} of {{ scheduled_event.resources }}"}
"""
IDLE = ("others", "skips")  # playbooks that do nothing on web1
PROMPTS = {f"ask_{field}_on_launch": True for field in ("limit", "labels", "variables")}
# Still longer than a launch takes on a busy machine.
SHORT_LEASE = "from scheduled_events_poller.notify import job as j; j.LEASE = 20.0\nj.launch_within = lambda _: 20.0"
DIES = "import os; j.Jobs._launch = lambda *_: os.kill(os.getpid(), 9)"


@pytest.fixture(scope="module")
def place(awx):
    """An organization with two hosts and a project, and the user of the hook, who may launch one job template."""
    organization = awx.create("organizations", name="vmside")
    inventory = awx.create("inventories", name="vmside", organization=organization["id"])["id"]
    for name in ("web1", "web2.example.com"):
        awx.create(f"inventories/{inventory}/hosts", name=name, variables="ansible_connection: local")
    others = PLAYBOOK.replace("hosts: all", "hosts: web2.example.com")
    skips = "- hosts: all\n  gather_facts: false\n  tasks: [{debug: , when: false}]\n"
    path = awx.put_project("vmside", {"respond.yml": PLAYBOOK, "others.yml": others, "skips.yml": skips})
    project = awx.create("projects", name="vmside", organization=organization["id"], local_path=path)["id"]
    fields = {"inventory": inventory, "project": project, "playbook": "respond.yml", "allow_simultaneous": True}
    template = awx.create("job_templates", name="vmside", **fields, **PROMPTS)
    idle = [awx.create("job_templates", name=name, **{**fields, "playbook": f"{name}.yml"}, **PROMPTS) for name in IDLE]
    user = awx.create("users", username="vmside", password="vmside-password")["id"]
    for role in (
        *(each["summary_fields"]["object_roles"]["execute_role"] for each in (template, *idle)),
        organization["summary_fields"]["object_roles"]["member_role"],
    ):
        awx.call("POST", f"users/{user}/roles/", {"id": role["id"]})
    yield {"user": "vmside", "password": "vmside-password", "fields": fields}
    for path in (f"users/{user}", f"projects/{project}", f"organizations/{organization['id']}"):
        awx.call("DELETE", f"{path}/")


@pytest.fixture
def hook_user(awx, place):
    """AWX as the user of the hook."""
    return awx.as_user(awx.token_of(place["user"], place["password"]))


@pytest.fixture
def vms(tmp_path, hook_user):
    """Makes VMs with the settings of a hook."""
    made = []

    def make(awx=hook_user, **settings):
        options = {"job_template": "vmside++vmside", "host_names": {"WEB2": "web2.example.com"}, **settings}
        made.append(Vm(tmp_path / f"vm{len(made)}", awx, **options))
        return made[-1]

    return make


def jobs_of(awx, event):
    return awx.find("jobs", labels__name__startswith=f"scheduled-event.{event['event_id'].lower()}.", order_by="id")


def labels_of(awx, event):
    moment = re.sub("[^0-9TZ]", "", event["not_before"] or "") or "none"
    prefix = f"scheduled-event.{event['event_id'].lower()}.redeploy.{moment}."
    return [each["name"][len(prefix) :] for each in awx.find("labels", name__startswith=prefix, order_by="id")]


def test_of_ten_vms_that_race_for_an_event_one_launches_its_job_and_all_follow_it(awx, vms):
    event = new_event("web1", "web2")
    together = f"import time; time.sleep(max(0, {time.time() + 8} - time.time()))"
    runs = [vms().start(event, change=together) for _vm in range(10)]
    endings = {run.ended() for run in runs}
    (job,) = jobs_of(awx, event)
    assert endings == {(0, f"job {job['id']} has ended: successful")}
    assert job["limit"] == "web1,web2.example.com"
    assert labels_of(awx, event) == ["1"]
    assert f"for {event['event_id']} of" in awx.output(job["id"])
    assert "{ { lookup('pipe', 'id') }}" in job["extra_vars"]


@pytest.mark.parametrize("playbook", IDLE)
def test_a_job_that_did_nothing_on_the_vm_has_not_prepared_it(awx, vms, playbook):
    event = new_event("web1")
    status, line = vms(job_template=f"{playbook}++vmside").run(event)
    (job,) = jobs_of(awx, event)
    assert (job["status"], status) == ("successful", 1)
    assert line.startswith(f"job {job['id']} has ended: successful: it did nothing on this VM: expected it in")


@pytest.mark.long
def test_when_a_launcher_is_killed_between_label_and_launch_one_of_the_others_takes_over(awx, vms):
    event = new_event("web1")
    assert vms().run(event, change=f"{SHORT_LEASE}\n{DIES}")[0] == -signal.SIGKILL
    assert (labels_of(awx, event), jobs_of(awx, event)) == (["1"], [])
    runs = [vms().start(event, change=SHORT_LEASE) for _vm in range(3)]
    endings = {run.ended() for run in runs}
    (job,) = jobs_of(awx, event)
    assert endings == {(0, f"job {job['id']} has ended: successful")}
    assert labels_of(awx, event) == ["1", "2"]


@pytest.mark.long
def test_a_launcher_whose_time_is_over_before_it_sends_the_launch_leaves_it_to_the_next(awx, vms):
    event = new_event("web1")
    stops = "import time; j.launch_within = lambda _timeout: 2.0; label = j.Jobs._make_label\n"
    stops += "j.Jobs._make_label = lambda *given: (label(*given), time.sleep(2.5))[0]"
    run = vms().start(event, change=f"{SHORT_LEASE}\n{stops}")
    run.wait_for("attempt 1 to launch the job took too long")
    run.wait_for("attempt 1 to launch the job has begun, by another VM or before")
    assert (labels_of(awx, event), jobs_of(awx, event)) == (["1"], [])
    run.kill()


def test_a_controller_that_stops_and_starts_again_is_waited_for(awx, awx_relay, hook_user, vms, tmp_path):
    hook_user.url = awx_relay.url
    event, until = new_event("web1"), tmp_path / "until"
    run = vms(hook_user, extra_vars={"until": str(until)}).start(event)
    run.wait_for("is running")
    awx_relay.stop()
    assert "; trying again: GET http://127.0.0.1" in run.wait_for("trying again")
    awx_relay.start()
    until.touch()
    (job,) = jobs_of(awx, event)
    assert run.ended() == (0, f"job {job['id']} has ended: successful")


def test_a_job_that_is_cancelled_by_hand_has_failed_until_it_is_relaunched(awx, vms, tmp_path):
    event, until = new_event("web1"), tmp_path / "until"
    vm = vms(extra_vars={"until": str(until)})
    run = vm.start(event)
    run.wait_for("is running")
    (job,) = jobs_of(awx, event)
    awx.call("POST", f"jobs/{job['id']}/cancel/")
    status, reason = run.ended()
    assert (status, reason.startswith(f"job {job['id']} has ended: canceled")) == (1, True), reason
    until.touch()
    again = awx.call("POST", f"jobs/{job['id']}/relaunch/")["id"]
    assert vm.run(event) == (0, f"job {again} has ended: successful")


def test_a_token_that_is_revoked_fails_the_hook_and_never_takes_over_from_a_job_that_may_run(
    awx, hook_user, vms, tmp_path
):
    event = new_event("web1", not_before=30)
    vm = vms(extra_vars={"until": str(tmp_path / "until")}, grace=60.0)
    run = vm.start(event)
    run.wait_for("is running")
    (job,) = jobs_of(awx, event)
    for token in awx.find("tokens", user__username="vmside"):
        awx.call("DELETE", f"tokens/{token['id']}/")
    status, reason = run.ended()
    assert (status, f"job {job['id']} is running, and cannot be followed: GET " in reason) == (1, True), reason
    assert "answered 401 Unauthorized" in reason
    assert "it was revoked or has expired" in reason
    status, reason = vm.run(event)  # another process
    assert (status, reason.startswith("a job may run, and cannot be followed: GET ")) == (1, True), reason
    awx.call("POST", f"jobs/{job['id']}/cancel/")
    status, reason = vms(hook_user, grace=60.0).run(new_event("web1", not_before=30))  # knows of no job
    assert (status, "answered 401" in reason, reason.endswith("; this VM continues without the job")) == (
        77,
        True,
        True,
    )


@pytest.mark.long
def test_an_event_that_starts_ends_the_hook_and_one_that_is_cancelled_its_job_too(awx, vms, tmp_path):
    event = new_event("web1")
    options = {"extra_vars": {"until": str(tmp_path / "until")}}
    one, other = vms(**options), vms(**options, cancel_on_cancelled=True)
    run = one.start(event)
    run.wait_for("is running")
    (job,) = jobs_of(awx, event)
    one.knows(event, status="Started")
    assert run.ended() == (0, f"the event has started; job {job['id']} is running")
    run = other.start(event)
    run.wait_for("is running")
    other.knows(event, present=False)
    assert run.ended() == (77, f"the event is cancelled, and so is job {job['id']}")
    assert awx.ended(job["id"])["status"] == "canceled"


def test_a_limit_that_matches_no_host_is_named(awx, vms):
    event = new_event("web3")
    status, reason = vms().run(event)
    (job,) = jobs_of(awx, event)
    expected = f"job {job['id']} has ended: failed: it ran on no host: expected hosts of its inventory that match the "
    assert (status, reason) == (1, f'{expected}limit "web3". Relaunch it on the controller first')


@pytest.mark.long
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ask_limit_on_launch": False}, 'it does not ask for limit: turn on "Prompt on launch" for that'),
        ({"job_slice_count": 2}, "it has 2 slices, which split the VMs of an event: set job_slice_count to 1"),
        ({"survey_enabled": True}, "its survey needs reason: add it to poller_controller.extra_vars"),
    ],
)
def test_a_job_template_that_does_not_fit_is_refused_before_anything_is_launched(awx, place, vms, fields, expected):
    template = awx.create("job_templates", name="misfit", **place["fields"], **{**PROMPTS, **fields})
    question = {"question_name": "?", "variable": "reason", "type": "text", "required": True}
    awx.call(
        "POST", f"job_templates/{template['id']}/survey_spec/", {"name": "", "description": "", "spec": [question]}
    )
    event = new_event("web1")
    status, reason = vms(awx, job_template=template["id"]).run(event)
    awx.call("DELETE", f"job_templates/{template['id']}/")
    assert (status, expected in reason) == (1, True), reason
    assert labels_of(awx, event) == []


def test_a_user_who_may_see_a_job_template_but_not_launch_it_is_found_by_the_check(awx, place, vms):
    template = awx.create("job_templates", name="seen", **place["fields"], **PROMPTS)
    user = awx.one("users", username=place["user"])["id"]
    role = template["summary_fields"]["object_roles"]["read_role"]["id"]
    awx.call("POST", f"users/{user}/roles/", {"id": role})
    status, reason = vms(job_template="seen++vmside").check()
    awx.call("DELETE", f"job_templates/{template['id']}/")
    expected = 'the user of the token may not launch the job template "seen": give it the role Execute'
    assert (status, reason) == (1, expected)


@pytest.mark.long
def test_a_job_that_lacks_its_variables_is_canceled(awx, place, vms):
    template = awx.create("job_templates", name="forgetful", **place["fields"], **PROMPTS)
    event = new_event("web1")
    blind = "from scheduled_events_poller.notify import job as j; j.Jobs._problems = lambda *_: []"
    awx.call("PATCH", f"job_templates/{template['id']}/", {"ask_variables_on_launch": False})
    status, reason = vms(awx, job_template=template["id"]).run(event, change=blind)
    (job,) = jobs_of(awx, event)
    assert awx.ended(job["id"])["status"] == "canceled"
    awx.call("DELETE", f"job_templates/{template['id']}/")
    assert (status, "did not take scheduled_event, is canceled: turn on" in reason) == (1, True), reason


def test_a_refused_launch_is_reported_to_the_other_vms(awx, place, vms):
    """An answer that the survey does not take is known to AWX alone."""
    fields = {**place["fields"], **PROMPTS, "survey_enabled": True}
    template = awx.create("job_templates", name="strict", **fields)
    question = {"question_name": "?", "variable": "count", "type": "integer", "required": True}
    awx.call(
        "POST", f"job_templates/{template['id']}/survey_spec/", {"name": "", "description": "", "spec": [question]}
    )
    event = new_event("web1")
    status, reason = vms(awx, job_template=template["id"], extra_vars={"count": "many"}).run(event)
    awx.call("DELETE", f"job_templates/{template['id']}/")
    assert (status, bool(re.search(r"answered 400 Bad Request: .*count", reason))) == (1, True), reason
    assert labels_of(awx, event) == ["1", "1.refused"]


class Gateway(http.server.BaseHTTPRequestHandler):
    """A stand-in for the gateway of Automation Platform 2.5: the API of AWX, at the one place that it names."""

    awx = None
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/api/":
            self._answer(200, b'{"apis": {"gateway": "/api/gateway/", "controller": "/api/controller/"}}')
        elif self.path.startswith("/api/controller/v2/"):
            answer = self.awx.ask("GET", self.path)
            self._answer(answer.status_code, answer.content)
        else:
            self._answer(404, b"{}")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = self.awx.ask("POST", self.path, body)
        self._answer(answer.status_code, answer.content)

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


def test_the_check_fails_for_a_token_that_may_only_read(awx, place, vms):
    reader = awx.as_user(awx.token_of(place["user"], place["password"], scope="read"))
    status, reason = vms(reader).check()
    assert (status, "labels/ answered 403 Forbidden" in reason) == (1, True), reason
    assert awx.find("labels", name="") == []


def test_behind_a_gateway_the_api_is_found_where_the_gateway_says(hook_user, vms):
    handler = type("Handler", (Gateway,), {"awx": hook_user})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        behind = hook_user.as_user(hook_user.token)
        behind.url = f"http://127.0.0.1:{server.server_port}"
        checked = vms(behind).check()
        server.shutdown()
    assert checked == (0, f"{behind.url} can launch the job template vmside++vmside for an event")
