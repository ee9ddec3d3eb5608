# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from ansible.errors import AnsibleActionFail

from plugins.plugin_utils._run.balancer_choice import refuse_half_a_balancer

HALF = {"load_balancer_ports": [443], "load_balancer_haproxy_hosts": ["lb1"]}


@pytest.mark.parametrize("role", ["respond", "rolling_maintenance"])
@pytest.mark.parametrize("unset", [{}, {"{}_load_balancer": None}, {"{}_load_balancer": ""}])
def test_a_balancer_without_a_provider_is_refused_with_what_to_do(role, unset):
    variables = {**HALF, **{name.format(role): value for name, value in unset.items()}}
    message = (
        "load_balancer_haproxy_hosts, load_balancer_ports describes a load balancer, .* Set load_balancer_provider, .*"
        f"or set {role}_load_balancer to false"
    )
    with pytest.raises(AnsibleActionFail, match=message):
        refuse_half_a_balancer(role, variables)


@pytest.mark.parametrize(
    "chosen",
    [
        {"load_balancer_provider": "haproxy"},
        {"respond_load_balancer": False},
        {"respond_load_balancer": True},
        {"respond_load_balancer": "{{ behind_haproxy }}"},
    ],
)
def test_an_owner_who_has_chosen_is_not_refused(chosen):
    refuse_half_a_balancer("respond", {**HALF, **chosen})


def test_variables_that_serve_without_a_balancer_are_not_refused():
    others = ["load_balancer_probe_flag", "load_balancer_nginx_snippet", "load_balancer_state_directory"]
    refuse_half_a_balancer("rolling_maintenance", dict.fromkeys(others, "/var/lib/maintops"))
