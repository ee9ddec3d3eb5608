# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fleet file: hostnames that Azure gives, and errors that say what to fix."""

import json

import pytest
from scheduled_events_emulator.checks import InputError
from scheduled_events_emulator.fleet import load_fleet, parse_fleet


def vm(**fields):
    return {"name": "vm1", "address": "127.0.10.1", **fields}


@pytest.mark.parametrize(
    ("fields", "hostname"),
    [
        ({"name": "vm1"}, "vm1"),
        ({"name": "vm1", "hostname": "other"}, "other"),
        ({"name": "issue_0", "kind": "scale_set_uniform", "set": "issue"}, "issue000000"),
        ({"name": "aks-pool-vmss_13", "kind": "scale_set_uniform", "set": "aks-pool-vmss"}, "aks-pool-vmss00000d"),
        ({"name": "set_123", "kind": "scale_set_uniform", "set": "set"}, "set00003f"),
    ],
)
def test_21_the_hostname_is_the_one_azure_gives(fields, hostname):
    assert parse_fleet({"vms": [vm(**fields)]}).machines[0].hostname == hostname


def test_21_a_flexible_vm_has_a_prefix_and_six_characters_as_hostname():
    hostname = (
        parse_fleet({"vms": [vm(name="flex_0a1b2c3d", kind="scale_set_flexible", set="flex")]}).machines[0].hostname
    )
    assert (hostname[:4], len(hostname)) == ("flex", 10)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "expected a JSON object, got []"),
        ({}, "vms: missing, expected a value"),
        ({"vms": []}, "vms: [] is not a list of one or more objects"),
        ({"vms": [7]}, "vms[0]: expected a JSON object, got 7"),
        ({"vms": [{"address": "127.0.10.1"}]}, "vms[0].name: missing"),
        ({"vms": [vm(name="")]}, 'vms[0].name: "" is not a VM name'),
        ({"vms": [vm(address="vm1.example")]}, 'vms[0].address: "vm1.example" is not an IP address'),
        ({"vms": [{"name": "vm1"}]}, "vms[0]: VM vm1 has neither address nor from"),
        ({"vms": [vm(kind="set")]}, 'vms[0].kind: "set" is not one of single, availability_set'),
        ({"vms": [vm(kind="availability_set")]}, "vms[0].set: null is not right for kind availability_set"),
        ({"vms": [vm(set="web")]}, 'vms[0].set: "web" is not right for kind single'),
        (
            {"vms": [vm(kind="scale_set_uniform", set="a")]},
            'vms[0].name: "vm1" is not a name of kind scale_set_uniform',
        ),
        ({"vms": [vm(resource_name="vm2")]}, 'vms[0].resource_name: "vm2" is not the name vm1 in the case'),
        ({"vms": [vm(placement_group="pg")]}, 'vms[0].placement_group: "pg" is not for this kind'),
        ({"vms": [vm(fault_domain=1.5)]}, "vms[0].fault_domain: 1.5 is not a whole number"),
        ({"vms": [vm(gpu="yes")]}, 'vms[0].gpu: "yes" is not true or false'),
        ({"vms": [vm(fault_domain="²")]}, 'vms[0].fault_domain: "\\u00b2" is not a number'),
        ({"vms": [vm(policy={"userInitiatedReboots": {}})]}, "vms[0].policy.userInitiatedReboots: unknown key"),
        (
            {"vms": [vm(policy={"userInitiatedReboot": {"automaticallyApprove": "yes"}})]},
            'vms[0].policy.userInitiatedReboot.automaticallyApprove: "yes" is not true or false',
        ),
        ({"vms": [vm(zone=1)]}, "vms[0].zone: 1 is not a string"),
        ({"vms": [vm(colour="red")]}, "vms[0].colour: unknown key, expected one of address, fault_domain"),
        ({"vms": [{"name": "vm1", "adress": "127.0.10.1"}]}, "vms[0].adress: unknown key, expected one of address"),
        ({"vms": [{"name": "vm1", "adress": "127.0.10.1"}]}, "did you mean address?"),
        ({"VMs": [vm()]}, "VMs: unknown key, expected one of vms; did you mean vms?"),
        ({"vms": [vm(kind="availability_set", Set="web")]}, "vms[0].Set: unknown key"),
        ({"vms": [vm(**{"a\nb": 1})]}, 'vms[0]."a\\nb": unknown key'),
        ({"vms": [vm(name="vm\n1")]}, 'vms[0].name: "vm\\n1" is not a text without control characters'),
        ({"vms": [vm(hostname="\ud800")]}, 'vms[0].hostname: "\\ud800" is not a text'),
        ({"vms": [vm(), vm(name="VM1")]}, 'vms[1].name: "vm1" is taken by VM vm1'),
        ({"vms": [vm(), vm(name="vm2")]}, 'vms[1].address: "127.0.10.1" is taken by VM vm1'),
    ],
)
def test_a_wrong_fleet_is_refused_with_path_value_and_expectation(document, message):
    with pytest.raises(InputError) as error:
        parse_fleet(document)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("[" * 200_000, "not JSON"),
        ("{}", "vms: missing"),
    ],
)
def test_an_error_names_the_fleet_file(tmp_path, text, message):
    path = tmp_path / "fleet.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as error:
        load_fleet(str(path))
    assert str(error.value).startswith(f"fleet file {path}: ")
    assert message in str(error.value)


def test_a_good_file_is_loaded(tmp_path):
    path = tmp_path / "fleet.json"
    path.write_text(json.dumps({"vms": [vm()]}))
    assert load_fleet(str(path)).addresses == ("127.0.10.1",)


def test_numbers_and_booleans_may_be_the_text_that_a_template_gives():
    approved = {"userInitiatedReboot": {"automaticallyApprove": "True"}}
    [machine] = parse_fleet({"vms": [vm(fault_domain="2", gpu="True", spot="False", policy=approved)]}).machines
    assert (machine.fault_domain, machine.gpu, machine.spot) == (2, True, False)
    assert machine.policy == {"userInitiatedReboot": {"automaticallyApprove": True}}
