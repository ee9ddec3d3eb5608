# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role respond acknowledges for a host that no longer answers, with a stand-in of azure.azcollection."""

import json

import pytest
from arm_stand_in import ArmStandIn, environment, serve
from responders import AHEAD, ended, result
from zygotes import ZYGOTES


@pytest.fixture
def arm():
    """A stand-in of Azure Resource Manager on loopback."""
    stand_in = ArmStandIn()
    server = serve(stand_in)
    stand_in.url = server.url
    yield stand_in
    server.shutdown()
    server.server_close()


def test_a_host_that_is_lost_after_its_tasks_is_acknowledged_for_with_its_own_resource(hosts_of, arm, tmp_path):
    prepare = tmp_path / "prepare.yml"
    kept = ZYGOTES.home / "tmp"  # with what one task of the run leaves to the next
    prepare.write_text(
        json.dumps(
            [
                {
                    "name": "Find no credentials in a file",
                    "ansible.builtin.command": {"argv": ["grep", "-rsq", "auth_source", str(kept)]},
                    "register": "found",
                    "failed_when": "found.rc != 1",
                }
            ]
        )
    )
    hosts = hosts_of("vm1", options=("--speed", "1", "--rate-limit", "0"))
    event_id = hosts.emulator.schedule("Preempt", "vm1", notice=AHEAD)
    lost = {
        "ansible_connection": "breaks_once",
        "respond_fallback": "azure_resource_manager",
        "respond_fallback_credentials": {"auth_source": "msi"},
        "respond_prepare_tasks": str(prepare),
    }
    run = hosts.run(
        host_vars={"vm1": lost},
        options=("-e", "respond_fallback_max_age=250"),  # a string
        env={
            **environment(arm),
            "BREAKS_BEFORE": "scheduled_events_turn",
            "BREAKS_AT": "2",  # which would have taken the outcome
            "BREAKS_FOR_GOOD": "yes",
            "BREAKS_MARKER": str(tmp_path / "breaks"),
        },
    )
    assert run.rc == 0, run.output
    assert arm.acknowledged == [event_id]
    [(_method, path)] = arm.calls
    assert path.lower().partition("/providers/microsoft.maintenance")[0].endswith("/virtualmachines/vm1")
    assert result(run, "vm1")["acknowledged"] == [event_id]
    assert hosts.emulator.posts() == []
    assert "acknowledged through Azure Resource Manager" in ended(run, "vm1")["summary"]
