# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The same playbook against a Linux host and a stand-in of a Windows host: the same registered results.

The stand-in is a connection whose shell claims to be the one of Windows, and a win_uri in Python with the documented
results (support/windows_stand_in). No Windows and no PowerShell run here. Update the golden files with GOLDEN=write.
"""

import json
import os
import pathlib
import re

import pytest
from windows import CONNECTION, windows

from playbooks import LOCAL, module_task, play

GOLDEN = pathlib.Path(__file__).parent / "golden"
INFO, WAIT, APPROVE = "scheduled_events_info", "scheduled_events_wait", "scheduled_event_approve"
HOSTS = ("alpha", "omega")  # the Linux host, and the stand-in of a Windows host
GONE = "00000000-0000-4000-8000-00000000DEAD"
FAULTS = {
    "html": {"kind": "html"},
    "moved": {"kind": "redirect", "location": "http://127.0.0.1:1/elsewhere"},
    "busy": {"kind": "status", "status": 429, "body": "Throttle Result: Too Many Requests", "count": 1},
    "error": {"kind": "status", "status": 500, "body": "oops", "methods": ["POST"]},
    "refused": {"kind": "status", "status": 400, "body": '{"error":"Bad request. No."}', "methods": ["POST"]},
    "broken": {"kind": "broken_json"},
    "wrong": {"kind": "wrong_types"},
}
ID = "{{ event }}"  # of the host's own Reboot
# Name of the golden file → module, VM of the host, arguments, whether in check mode
CASES = {
    "info": (INFO, "web", {}, False),
    "info_in_check_mode": (INFO, "web", {"event_types": ["reboot"]}, True),
    "info_of_all": (INFO, "web", {"scope": "all", "event_statuses": ["Scheduled", "Paused"]}, False),
    "info_by_id": (INFO, "web", {"event_id": [ID], "request_timeout": 30, "retry_for": "5"}, False),
    "info_of_the_preview": (INFO, "web", {"api_version": "2017-03-01"}, False),
    "info_of_an_unknown_version": (INFO, "web", {"api_version": "2024-07-09"}, False),
    "info_under_another_name": (INFO, "web", {"vm_name": "other"}, False),
    "info_with_a_wrong_time": (INFO, "web", {"request_timeout": 0}, False),
    "info_with_a_wrong_endpoint": (INFO, "web", {"endpoint": "ftp://somewhere"}, False),
    "info_of_html": (INFO, "html", {}, False),
    "info_of_a_redirect": (INFO, "moved", {}, False),
    "info_of_broken_json": (INFO, "broken", {}, False),
    "info_of_wrong_types": (INFO, "wrong", {}, False),
    "info_while_busy": (INFO, "busy", {}, False),
    "wait_present": (WAIT, "web", {"state": "present", "event_types": ["Redeploy"]}, False),
    "wait_absent": (WAIT, "web", {"event_types": ["Preempt"]}, False),
    "wait_timeout": (WAIT, "web", {"timeout": 2, "event_types": ["Reboot"]}, False),
    "wait_refused": (WAIT, "web", {"api_version": "2024-07-09"}, False),
    "wait_with_a_wrong_time": (WAIT, "web", {"stable_for": 900}, False),
    "approve_in_check_mode": (APPROVE, "web", {"event_id": [ID, GONE]}, True),
    "approve_of_another_leader": (APPROVE, "web", {"event_id": ["{{ led_by_other }}"], "leader_only": True}, False),
    "approve": (APPROVE, "web", {"event_id": [ID]}, False),
    "approve_again": (APPROVE, "web", {"event_id": [ID, GONE]}, False),
    "approve_nothing": (APPROVE, "web", {"event_id": [""]}, False),
    "approve_refused": (APPROVE, "refused", {"event_id": ["{{ events['refused'] }}"]}, False),
    "approve_with_an_error": (APPROVE, "error", {"event_id": ["{{ events['error'] }}"], "retry_for": 1}, False),
    "approve_without_ids": (APPROVE, "web", {}, False),
    "info_with_an_unknown_option": (INFO, "web", {"colour": "red"}, False),
}
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


class Both:
    """A run of all cases on both hosts, and what the emulator and the stand-in know of it."""

    def __init__(self, ansible, emulate, directory, closed_port):
        vms = ["web", "near", *FAULTS]
        fleet = [
            {"name": f"{host}-{vm}", "kind": "availability_set", "set": f"{host}-{vm if vm in FAULTS else 'web'}"}
            for host in HOSTS
            for vm in vms
        ]
        self.emulator = emulate(fleet, "--manual-clock", "--rate-limit", "0")
        self.log = directory / "win_uri.log"
        variables = {host: self._announce(host) for host in HOSTS}
        variables["omega"]["ansible_connection"] = CONNECTION
        tasks = [
            {
                **module_task(module, {"endpoint": f"{{{{ endpoints['{vm}'] }}}}", **arguments}, check_mode=check),
                "name": name,
            }
            for name, (module, vm, arguments, check) in CASES.items()
        ]
        self.run = ansible.run_playbook(
            [play(tasks)],
            inventory={"all": {"hosts": variables}},
            env={**windows(self.log), **dict.fromkeys(PROXIES, closed_port)},
        )

    def _announce(self, host):
        """The variables of a host: its endpoints and events."""
        faults = {vm: self.emulator.fault(vms=[f"{host}-{vm}"], **fault) for vm, fault in FAULTS.items()}
        schedule = self.emulator.schedule
        return {
            **LOCAL,
            "endpoints": {vm: self.emulator.endpoints[f"{host}-{vm}"] for vm in ("web", *faults)},
            "event": schedule(
                "Reboot", f"{host}-web", f"{host}-near", cotenant_delay=3600, description="Größe {{ x }}"
            ),
            "led_by_other": schedule("Redeploy", f"{host}-near", f"{host}-web"),
            "alone": schedule("Freeze", f"{host}-near", duration=5, source="User"),
            "events": {vm: schedule("Reboot", f"{host}-{vm}") for vm in FAULTS},
        }

    def result(self, host, case):
        """The registered result without what is of the host or of the moment."""
        found = self.run.one(host=host, task=case)
        # What some releases of ansible-core add: the arguments, and a text where a traceback would be
        added = ("invocation", "exception")
        shown = {key: value for key, value in found.result.items() if key not in added and key[:8] != "_ansible"}
        text = json.dumps({"the task": found.status, **shown}, indent=2, sort_keys=True, ensure_ascii=False)
        for vm, endpoint in self.emulator.endpoints.items():
            text = text.replace(endpoint, f"http://ENDPOINT-OF-{vm}")
        for number, event in enumerate(e for e in self.emulator.log("scheduled") if e["vms"][0].startswith(host)):
            text = text.replace(event["event_id"], f"EVENT-{number}")
        # On a busy machine, no answer may come within the last second, which the message adds.
        text = re.sub(r'("msg": "Timeout after [^"]*?); the last request failed: [^"]*', r"\1", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text.replace(host, "HOST"))
        return re.sub(r'("(?:elapsed|seconds_until_not_before)": )-?[0-9.]+', r'\1"NUMBER"', text) + "\n"


@pytest.fixture(scope="module")
def both(ansible, emulate, tmp_path_factory):
    return Both(ansible, emulate, tmp_path_factory.mktemp("windows"), "http://127.0.0.1:1")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("host", HOSTS)
def test_a_linux_host_and_the_stand_in_of_a_windows_host_register_the_golden_result(both, host, case):
    path = GOLDEN / f"{case}.json"
    found = both.result(host, case)
    if os.environ.get("GOLDEN") == "write" and host == "alpha":
        path.write_text(found)
    assert found == path.read_text()


@pytest.fixture(scope="module")
def calls(both):
    """The arguments of every run of win_uri."""
    return [json.loads(line) for line in both.log.read_text().splitlines()]


def test_every_request_of_the_stand_in_has_the_header_no_proxy_no_redirect_and_a_timeout(calls):
    assert calls
    for call in calls:
        assert call["headers"]["Metadata"] == "true"
        assert (call["use_proxy"], call["follow_redirects"]) == (False, "none")
        assert call["url_timeout"] >= 1


# Not those that ask again as long as there is time.
@pytest.mark.parametrize("vm", ["web", "html", "moved", "busy", "refused", "broken", "wrong"])
def test_the_service_is_asked_as_often_for_the_stand_in_as_by_a_linux_host(both, vm):
    asked = [both.emulator.polls(f"{host}-{vm}") for host in HOSTS]
    if vm != "web":  # which a wait polls as often as there is time
        assert asked[0]["polls"] == asked[1]["polls"]
    assert asked[0]["posts"] == asked[1]["posts"]


def test_the_stand_in_posts_what_a_linux_host_posts(both):
    def posts(host):
        sent = [(vm, ids, status) for vm, ids, status in both.emulator.posts() if vm.startswith(host)]
        return [(vm.removeprefix(host), len(ids), status) for vm, ids, status in sent if not vm.endswith("error")]

    assert posts("omega") == posts("alpha") == [("-web", 1, 200), ("-web", 1, 200), ("-refused", 1, 400)]
