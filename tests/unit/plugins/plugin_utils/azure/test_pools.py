# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time that an application gateway gives requests to end."""

import pytest

from plugins.plugin_utils._azure.pools import gateway_drain

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
