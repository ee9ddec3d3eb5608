# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with a health endpoint that honours its flag."""

import json
import socket

import pytest
from emulation import ask, until
from haproxies import Backend

PROBE = "Make the host fail the probe of its balancer or pass it again"
pytestmark = pytest.mark.timeout(900)  # several runs of a long playbook


def health(backend):
    return ask(f"http://127.0.0.1:{backend.port}", "GET", "/healthz")[0]


def changed(run):
    return [task.task for task in run.tasks if task.result.get("changed")]


def test_the_probe_fails_while_the_host_is_drained(probed_host, backend):
    probed_host.run("drained")
    assert health(backend) == 503
    assert backend.flag.stat().st_mode & 0o777 == 0o644
    assert changed(probed_host.run("drained")) == []
    probed_host.run("active")
    assert health(backend) == 200
    assert not probed_host.marker.exists()
    assert changed(probed_host.run("active")) == []


def test_a_host_that_is_drained_for_two_comes_back_when_both_are_done(probed_host, backend):
    probed_host.run("drained", load_balancer_holder="first")
    probed_host.run("drained", load_balancer_holder="second")
    assert "stays drained for second" in probed_host.run("active", load_balancer_holder="first").output
    assert health(backend) == 503
    probed_host.run("active", load_balancer_holder="first")  # again, and nothing happens
    assert health(backend) == 503
    probed_host.run("active", load_balancer_holder="second")
    assert health(backend) == 200


def test_a_slip_in_a_name_is_refused_before_the_drain_and_keeps_no_host_out(probed_host, backend):
    refused = probed_host.run("drained", rc=2, load_balancer_drian_timeout=1)
    problem = "load_balancer_drian_timeout has no effect, expected load_balancer_drain_timeout. Correct the name."
    assert (problem in " ".join(refused.output.split()), health(backend)) == (True, 200)
    probed_host.run("drained")
    probed_host.run("active", load_balancer_drian_timeout=1)
    assert health(backend) == 200


def test_it_names_the_peers_of_the_remaining_connections(probed_host, backend):
    with socket.create_connection(("127.0.0.1", backend.port)) as connection:
        run = probed_host.run("drained", rc=2, load_balancer_drain_timeout=1)
        peer = f"127.0.0.1:{connection.getsockname()[1]}"
        assert f"after 1 s it still has 1 on port {backend.port}, from {peer}" in " ".join(run.output.split())
        run = probed_host.run("drained", load_balancer_drain_timeout=1, load_balancer_on_timeout="continue")
        assert peer in run.output


def test_options_may_be_text_as_a_survey_or_the_command_line_sends_them(probed_host, backend):
    text = {
        "load_balancer_ports": str(backend.port),
        "load_balancer_drain_timeout": "1",
        "load_balancer_return_timeout": "5",
        "load_balancer_probe_interval": "0.1",
        "load_balancer_probe_count": "1",
        "load_balancer_haproxy_hosts": "",
    }
    with socket.create_connection(("127.0.0.1", backend.port)):
        assert "after 1 s it still has 1 on port" in " ".join(probed_host.run("drained", rc=2, **text).output.split())
    probed_host.run("active", **text)
    assert health(backend) == 200


def test_an_invalid_port_is_refused_before_anything_is_changed(probed_host, backend):
    run = probed_host.run("drained", rc=2, load_balancer_ports=[0])
    assert "ports is 0, expected a number from 1 to 65535" in run.output
    assert health(backend) == 200


def test_a_waiting_host_leaves_its_fork_to_others_and_continues_later(probed_host, backend):
    probed_host.set_variables(load_balancer_drain_timeout=120)
    probed_host.add_host("web2")
    with socket.create_connection(("127.0.0.1", backend.port)):
        run = probed_host.start("drained", options=("--forks", "1"))
        until(lambda: len(run.all(task=PROBE)) > 0, timeout=200, what="the end of the first stretch")
        assert run.running
    result = run.result()
    assert result.rc == 0, result.output
    assert len(result.all(task=PROBE)) > 1


def test_a_host_that_does_not_answer_is_not_back(probed_host, closed_port):
    probed_host.run("drained")
    run = probed_host.run(
        "active", rc=2, load_balancer_probe_url=f"{closed_port}/healthz", load_balancer_return_timeout=1
    )
    assert "/healthz does not answer 200 although" in run.output
    assert probed_host.holders() == ["operator"]  # so that a second run goes on


def test_check_mode_changes_nothing_on_a_host_that_was_never_drained(probed_host, backend):
    run = probed_host.run("drained", check=True)
    assert changed(run) != []
    assert f"would create {backend.flag}" in " ".join(run.output.split())
    assert not probed_host.marker.exists()
    assert health(backend) == 200
    probed_host.run("active", check=True)
    probed_host.run("drained")
    probed_host.run("active", check=True)
    assert health(backend) == 503


def probed(endpoint, port):
    return {
        "load_balancer_provider": "health_probe",
        "load_balancer_probe_flag": str(endpoint.flag),
        "load_balancer_probe_url": f"http://127.0.0.1:{endpoint.port}/healthz",
        "load_balancer_probe_interval": 0.2,
        "load_balancer_ports": [port],
    }


def test_a_host_is_back_when_haproxy_sends_it_traffic_but_for_what_an_operator_took_out_there(haproxy_fleet, backend):
    host = haproxy_fleet.host
    host.set_variables(**probed(backend, backend.port), load_balancer_on_timeout="continue")
    host.run("drained")
    for balancer in (haproxy_fleet.lb1, haproxy_fleet.lb2):
        assert {balancer.status()[f"{name}/web1"] for name in ("www", "api")} == {"DOWN"}
    haproxy_fleet.lb2.command("disable server api/web1")
    assert "lb2 api/web1 (MAINT) stays out" in " ".join(host.run("active").output.split())
    assert haproxy_fleet.lb1.status()["www/web1"].startswith("UP")
    assert host.holders() == []


def test_a_host_that_haproxy_still_sends_traffic_is_not_drained(haproxy_fleet, backend, tmp_path):
    asked = Backend(tmp_path / "drained")  # its health endpoint is not the one that the balancers ask
    host = haproxy_fleet.host
    host.set_variables(**probed(asked, backend.port), load_balancer_drain_timeout=1)
    try:
        run = host.run("drained", rc=2)
        assert "lb1 www/web1 is UP, lb1 api/web1 is UP" in " ".join(run.output.split())
        host.run("active")
    finally:
        asked.stop()
    assert host.holders() == []


def test_a_task_in_the_background_is_refused_since_a_part_of_it_runs_on_the_control_node(ansible, tmp_path):
    options = {"provider": "health_probe", "state": "drained", "directory": str(tmp_path / "state")}
    task = {"maintops.scheduled_events.load_balancer": options, "async": 60, "poll": 1}
    play = tmp_path / "play.yml"
    play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    run = ansible.run_playbook(play, inventory={"all": {"hosts": {"web1": {"ansible_connection": "local"}}}})
    assert run.rc == 2
    assert "This action (maintops.scheduled_events.load_balancer) does not support async" in run.output
    assert not (tmp_path / "state").exists()
