# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of VMs and hosts as azure.azcollection.azure_rm gives them, and hosts of inventories that know less."""

import pathlib
import re

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleError, AnsibleFilterError

from plugins.filter.inventory_hosts import computer_name, instance_name, inventory_hosts

pytestmark = pytest.mark.core

COMPUTE = "/subscriptions/1/resourceGroups/shop/providers/Microsoft.Compute"
GUIDE = pathlib.Path(__file__).parents[4] / "docs/inventory-of-scale-sets.md"


def instance(number, **more):
    """An instance of the uniform scale set pool."""
    own = {
        "id": f"{COMPUTE}/virtualMachineScaleSets/pool/virtualMachines/{number}",
        "name": f"pool_{number}",
        "vmss": {"name": "pool"},
        "private_ipv4_addresses": [f"10.0.0.{number}"],
    }
    return {**own, **more}


HOSTVARS = {
    "web1_8fe2": {"id": f"{COMPUTE}/virtualMachines/web1", "name": "web1", "computer_name": "shop-web-1"},
    "pool_13_77aa": instance(13, computer_name="pool00000D"),
    "pool_1_77ab": instance(1, computer_name="pool000001"),
    "pool_130_77ac": instance(130, computer_name="pool00003M"),
    "flex_1a2b3c4d_0001": {
        "id": f"{COMPUTE}/virtualMachines/flex_1a2b3c4d",
        "name": "flex_1a2b3c4d",
        "computer_name": "flexabcdef",
    },
    "other_7_1234": instance(7, name="other_7", id="", computer_name="node000007"),
}


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("web1", "web1_8fe2"),
        ("WEB1", "web1_8fe2"),
        ("shop-web-1", "web1_8fe2"),
        ("pool_13", "pool_13_77aa"),
        ("POOL_13", "pool_13_77aa"),
        ("pool00000D", "pool_13_77aa"),
        ("pool00000d", "pool_13_77aa"),
        ("pool_1", "pool_1_77ab"),
        ("pool_130", "pool_130_77ac"),
        ("flex_1a2b3c4d", "flex_1a2b3c4d_0001"),
        ("flexabcdef", "flex_1a2b3c4d_0001"),
        ("other_7", "other_7_1234"),
        ("node000007", "other_7_1234"),
    ],
)
def test_each_kind_of_name_finds_its_host(name, host):
    assert inventory_hosts([name], HOSTVARS) == [host]


@pytest.mark.parametrize("name", ["poo", "pool", "pool_3", "pool_013x", "ool_13", "web11", "node_7", ""])
def test_a_name_is_never_found_by_a_part_of_it(name):
    assert inventory_hosts([name], HOSTVARS, unknown="skip") == []


@pytest.mark.parametrize(("name", "host"), [("pool_13", "pool00000D"), ("pool00000d", "pool_13"), ("web1", "WEB1")])
def test_an_inventory_without_variables_of_azure_is_searched_by_its_own_names(name, host):
    assert inventory_hosts([name], {host: {}, "pool_1": {}, "localhost": {}}) == [host]


def test_a_host_without_a_name_of_azure_is_found_by_its_computer_name():
    assert inventory_hosts(["pool_13"], {"a": {"computer_name": "pool00000D"}}) == ["a"]


def test_the_name_that_azure_gives_wins_over_that_of_the_guest():
    hostvars = {"a": {"name": "web1", "computer_name": "web2"}, "b": {"name": "web2", "computer_name": "web1"}}
    assert inventory_hosts(["web1", "web2"], hostvars) == ["a", "b"]


def test_hosts_come_in_the_order_of_the_names_and_once():
    assert inventory_hosts(["pool_13", "web1", "pool00000D"], HOSTVARS) == ["pool_13_77aa", "web1_8fe2"]


def test_names_that_no_host_has_are_an_error_unless_they_are_to_be_skipped():
    with pytest.raises(AnsibleFilterError, match=r"no host of the inventory is the VM gone_1, gone_2\. Add it"):
        inventory_hosts(["web1", "gone_1", "gone_2"], HOSTVARS)
    assert inventory_hosts(["web1", "gone_1"], HOSTVARS, unknown="skip") == ["web1_8fe2"]


def test_a_name_of_two_hosts_is_an_error():
    with pytest.raises(AnsibleFilterError, match=r"pool_1 is the name of several hosts of the inventory: a, b"):
        inventory_hosts(["pool_1"], {"a": instance(1), "b": instance(1)})


@pytest.mark.parametrize(("names", "unknown"), [("web1", "fail"), (None, "fail"), (["web1"], "ignore")])
def test_names_that_are_not_a_list_and_unknown_choices_are_refused(names, unknown):
    with pytest.raises(AnsibleFilterError, match="expected"):
        inventory_hosts(names, HOSTVARS, unknown=unknown)


@pytest.mark.parametrize("number", [0, 1, 9, 10, 35, 36, 1295, 46655, 36**6 - 1])
def test_numbers_of_instances_and_computer_names_are_each_other_the_other_way_round(number):
    assert instance_name(computer_name(f"aks-pool-vmss_{number}")) == f"aks-pool-vmss_{number}"


def test_the_recipe_of_the_guide_names_hosts_as_events_do():
    recipe = yaml.safe_load(re.search(r"```yaml\n(# .*azure_rm\.yml\n.*?)```", GUIDE.read_text(), re.S)[1])

    def of(expression, host):
        return jinja2.Environment(autoescape=False).compile_expression(expression)(**HOSTVARS[host])  # noqa: S701

    assert recipe["plugin"] == "azure.azcollection.azure_rm"
    assert [of(recipe["hostnames"][0], host) for host in ("pool_13_77aa", "web1_8fe2")] == ["pool_13", "web1"]
    assert of(recipe["compose"]["ansible_host"], "pool_13_77aa") == "10.0.0.13"
    assert of(recipe["compose"]["event_name"], "pool_13_77aa") == "pool_13"


def test_a_name_with_thousands_of_digits_hides_no_other_vm():
    assert inventory_hosts(["pool_" + "9" * 5000, "web1"], HOSTVARS, unknown="skip") == ["web1_8fe2"]


@pytest.mark.parametrize("hostvars", [None, "web1", {"web1": None}, [["web1"]]])
def test_variables_that_are_not_those_of_hosts_are_refused(hostvars):
    with pytest.raises(AnsibleFilterError, match=r"expected the variables of each host\. Give it hostvars"):
        inventory_hosts(["web1"], hostvars)


class OfAnotherMeaning(dict):
    """The variables of a host, of which some are templates that need what is unknown."""

    def get(self, name, *_default):
        raise AnsibleError(f"'{name}' is undefined")


def test_a_variable_of_another_meaning_that_cannot_be_read_keeps_no_other_host_from_being_found():
    assert inventory_hosts(["web1", "odd"], {**HOSTVARS, "odd": OfAnotherMeaning()}) == ["web1_8fe2", "odd"]
