# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time that an application gateway gives requests to end."""

import pytest

from plugins.plugin_utils._azure.pools import (
    COMPUTE_API,
    NETWORK_API,
    PoolMember,
    api_version_of,
    apply,
    gateway_drain,
    without_place,
)

POOL, OTHER = "/gateway/backendAddressPools/www", "/gateway/backendAddressPools/api"
SLOW = {"id": "/gateway/settings/slow"}


def rule(pool=POOL, settings="backendHttpSettings"):
    return {"properties": {"backendAddressPool": {"id": pool}, settings: SLOW}}


def path_map(**properties):
    return {"urlPathMaps": [{"properties": properties}]}


def gateway(collection="backendHttpSettingsCollection", enabled=True, **properties):
    draining = {"connectionDraining": {"enabled": enabled, "drainTimeoutInSec": 90}}
    return {"properties": {collection: [{"id": SLOW["id"].upper(), "properties": draining}], **properties}}


@pytest.mark.parametrize(
    "uses",
    [
        {"requestRoutingRules": [rule()]},
        {"routingRules": [rule(settings="backendSettings")]},
        path_map(defaultBackendAddressPool={"id": POOL}, defaultBackendHttpSettings=SLOW),
        path_map(pathRules=[rule()]),
    ],
)
def test_the_drain_timeout_counts_wherever_the_gateway_uses_the_pool_with_these_settings(uses):
    assert gateway_drain(gateway(**uses), POOL.upper()) == 90.0
    assert gateway_drain(gateway("backendSettingsCollection", **uses), POOL) == 90.0


@pytest.mark.parametrize(
    "unused", [gateway(), gateway(requestRoutingRules=[rule(OTHER)]), gateway(enabled=False, routingRules=[rule()]), {}]
)
def test_without_a_drain_timeout_for_the_pool_the_usual_time_counts(unused):
    assert gateway_drain(unused, POOL) == 30.0


def group(name):
    return f"/subscriptions/S/resourceGroups/{name}/providers"


def test_a_resource_is_recognised_by_its_type_and_not_by_the_name_of_its_group():
    target = f"{group('LoadBalancers')}/Microsoft.Network/applicationGateways/gw"
    pool = f"{target}/backendAddressPools/web"
    own = {"backendAddresses": [{"ipAddress": "10.0.0.4"}, {"ipAddress": "10.0.0.5"}]}
    body = {"properties": {"backendAddressPools": [{"id": pool, "properties": own}]}}
    changed = apply(target, body, {PoolMember(target, pool, "10.0.0.4").key: "removed"})
    [left] = changed["properties"]["backendAddressPools"]
    assert left["properties"]["backendAddresses"] == [{"ipAddress": "10.0.0.5"}]


def test_a_gateway_without_pools_has_no_place_for_a_member():
    target = f"{group('shop')}/Microsoft.Network/applicationGateways/gw"
    key = PoolMember(target, f"{target}/backendAddressPools/web", "10.0.0.4").key
    assert without_place(target, {}, [key]) == without_place(target, gateway(), [key]) == [key]


@pytest.mark.parametrize(
    ("target", "version"),
    [
        (f"{group('virtualMachineScaleSets')}/Microsoft.Network/networkInterfaces/nic", NETWORK_API),
        (f"{group('shop')}/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/13", COMPUTE_API),
    ],
)
def test_the_version_of_the_api_is_that_of_the_type(target, version):
    assert api_version_of(target) == version
