# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook audit against the emulator's Resource Graph on loopback, with real polling units. No test asks Azure."""

import datetime
import json
import pathlib
import re
import shlex
import tempfile
import types

import pytest
from arm_stand_in import environment
from emulation import until
from page_blocks import block
from polling_vm import Vm

from playbooks import LOCAL

PUBLISHES = {"scheduledEventsAdditionalPublishingTargets": {"eventGridAndResourceGraph": {"enable": True}}}
HIDES = {**PUBLISHES, "userInitiatedReboot": {"automaticallyApprove": True}}
NOTIFIES = {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": "PT15M"}}


def lives_through_an_event(emulator, name, vm):
    event_id = emulator.schedule("Reboot", name, notice=3600, started_for=3600)
    until(lambda: ("started", "end") in [hook[:2] for hook in vm.hooks_of(event_id)], what=f"the start on {name}")
    emulator.complete(event_id)
    until(vm.remembers_nothing, what=f"the recovery of {name}")


def make_older(history, days):
    """Set back all that a history has."""

    def earlier(found):
        return (datetime.datetime.fromisoformat(found[0]) - datetime.timedelta(days=days)).isoformat()

    for path in history.iterdir():
        path.write_text(re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d", earlier, path.read_text()))


@pytest.fixture(scope="module")
def audited(ansible, emulate, installed_collection, tmp_path_factory):
    """The audit of three VMs: the unit of web2 is stopped before its second event, the policy of web3 hides some."""
    vms = [
        {"name": "web1", "policy": PUBLISHES, "profile": NOTIFIES},
        {"name": "web2", "policy": PUBLISHES, "profile": NOTIFIES},
        {"name": "web3", "policy": HIDES, "profile": NOTIFIES},
    ]
    emulator = emulate(vms, "--rate-limit", "0")
    outputs = {kind: tmp_path_factory.mktemp("audit") / f"audit.{kind}" for kind in ("html", "json")}
    inventory = {"all": {"hosts": {}}}
    with tempfile.TemporaryDirectory(prefix="vms-") as base:  # short, since the path of a socket is
        units = {}
        for name, endpoint in emulator.endpoints.items():
            directory = pathlib.Path(base) / name
            directory.mkdir()
            units[name] = Vm(installed_collection, directory, endpoint)
            history = {"report_history_directories": [str(directory / "history")]}
            inventory["all"]["hosts"][name] = {**LOCAL, **history}
        inventory["all"]["hosts"]["web1"]["id"] = "{{ a_role_of_the_owner }}"  # another meaning, and unknown here
        try:
            for name, unit in units.items():
                unit.start()
                lives_through_an_event(emulator, name, unit)
            units["web1"].stop()
            make_older(pathlib.Path(base, "web1", "history"), days=70)  # Azure still publishes such an event
            units["web2"].stop()
            missed = emulator.schedule("Reboot", "web2", notice=3600, started_for=3600)
            emulator.start(missed)
            emulator.complete(missed)
            command = block("docs/from-outside.md", "ansible-playbook").replace("audit.html", str(outputs["html"]))
            _program, _i, _inventory, *options = shlex.split(command)
            options.remove("maintops.scheduled_events.audit")
            run = ansible.run_playbook(
                "maintops.scheduled_events.audit",
                inventory=inventory,
                extra_vars={
                    "ansible_become": False,
                    "report_json": str(outputs["json"]),
                    "audit_credentials": {"auth_source": "msi"},
                },
                options=tuple(options),
                env=environment(types.SimpleNamespace(url=emulator.control_url)),
            )
        finally:
            for unit in units.values():
                if unit.runs():
                    unit.stop()
    assert run.rc == 0, run.output
    return missed, json.loads(outputs["json"].read_text()), outputs["html"].read_text()


def test_the_audit_of_the_emulator_finds_exactly_the_event_of_the_unit_that_was_stopped(audited):
    missed, report, html = audited
    [finding] = report["audit"]["findings"]
    assert finding == {
        "event_id": missed.lower(),
        "event_type": "Reboot",
        "event_status": "Completed",
        "host": "web2",
        "problem": "it was not heard",
    }
    assert not report["good"]
    assert missed.lower() in html


def test_the_audit_of_the_emulator_finds_exactly_the_vm_whose_policy_hides_events(audited):
    _missed, report, html = audited
    text = "automaticallyApprove: a restart by a user begins as Started, prepare hooks will not run"
    assert report["audit"]["policies"] == [{"policy": text, "hosts": ["web3"]}]
    assert text in html


def test_the_audit_of_the_emulator_shows_the_coverage_of_the_fleet(audited):
    _missed, report, _html = audited
    every = ["web1", "web2", "web3"]
    assert report["audit"]["event_count"] == 4
    assert report["audit"]["coverage"] == {
        "hosts": every,
        "found_in_azure": every,
        "published_by_policy": every,
        "history_read": every,
        "named_by_events": every,
        "heard_all_of_them": ["web1", "web3"],
        "vms_without_a_host": [],
    }


@pytest.mark.parametrize("given", [{}, {"audit_subscriptions": ""}, {"audit_subscriptions": []}])
def test_an_audit_without_a_subscription_is_refused_before_azure_is_asked(ansible, given):
    hosts = {"web1": {**LOCAL, "ansible_become": False}}
    variables = {"report_hosts": "web1", **given}
    run = ansible.run_playbook(
        "maintops.scheduled_events.audit", inventory={"all": {"hosts": hosts}}, extra_vars=variables
    )
    assert run.rc == 2, run.output
    assert "The audit has no subscription. Set audit_subscriptions to the ids of those of the VMs" in run.output
