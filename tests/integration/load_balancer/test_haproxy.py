# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with two running HAProxies."""

import http.client
import threading

import pytest
from emulation import until

from playbooks import ADDRESSED

pytestmark = pytest.mark.timeout(900)  # several runs of a long playbook


def changed(run):
    return [task.task for task in run.tasks if task.result.get("changed")]


def test_a_host_leaves_every_backend_on_every_balancer_and_comes_back(haproxy_fleet):
    haproxy_fleet.host.run("drained")
    for balancer in (haproxy_fleet.lb1, haproxy_fleet.lb2):
        assert balancer.status() == {"www/web1": "MAINT", "www/web2": "UP", "api/web1": "MAINT", "api/web2": "UP"}
    assert haproxy_fleet.host.marker.stat().st_mode & 0o777 == 0o600
    assert changed(haproxy_fleet.host.run("drained")) == []
    haproxy_fleet.host.run("active")
    for balancer in (haproxy_fleet.lb1, haproxy_fleet.lb2):
        assert set(balancer.status().values()) == {"UP"}
    assert not haproxy_fleet.host.marker.exists()
    assert changed(haproxy_fleet.host.run("active")) == []


def test_each_balancer_is_asked_where_it_is_when_addresses_are_made_from_names(haproxy_fleet, tmp_path):
    for own in haproxy_fleet.host.inventory["all"]["hosts"].values():
        own.update(ADDRESSED)
    log = tmp_path / "addressed"
    for state in ("drained", "active"):
        haproxy_fleet.host.run(state, env={"ADDRESSED_LOG": str(log)})
    lines = [line.split() for line in log.read_text().splitlines()]
    assert {(address, module) for address, module in lines if module in ("command", "haproxy")} == {
        (address, module) for address in ("at-lb1", "at-lb2") for module in ("command", "haproxy")
    }
    assert {address for address, module in lines if module not in ("command", "haproxy")} == {"at-web1"}


def test_what_an_operator_took_out_stays_out(haproxy_fleet):
    haproxy_fleet.lb1.command("set server www/web1 state maint")
    haproxy_fleet.lb2.command("set server api/web1 state drain")
    haproxy_fleet.host.run("drained")
    haproxy_fleet.host.run("drained")  # what counts is what it found first
    haproxy_fleet.host.run("active")
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"
    assert haproxy_fleet.lb1.status()["api/web1"] == "UP"
    assert haproxy_fleet.lb2.status()["api/web1"] == "DRAIN"
    assert haproxy_fleet.lb2.status()["www/web1"] == "UP"


def test_a_server_that_is_down_can_be_drained(haproxy_fleet, backend):
    backend.flag.parent.mkdir()
    backend.flag.touch()
    until(lambda: set(haproxy_fleet.lb2.status().values()) == {"DOWN"})
    haproxy_fleet.host.run("drained")
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"


def test_a_server_that_does_not_come_up_is_named_with_its_check(haproxy_fleet, backend):
    haproxy_fleet.host.run("drained")
    backend.flag.parent.mkdir()
    backend.flag.touch()
    run = haproxy_fleet.host.run("active", rc=2, load_balancer_return_timeout=2)
    assert "lb1 www/web1 is DOWN 2 s after it was put back; its last health check gave L7STS" in run.output
    assert haproxy_fleet.host.holders() == ["operator"]  # so that a second run goes on


def test_it_waits_for_the_sessions_of_every_balancer(haproxy_fleet, backend):
    request = slow_request(haproxy_fleet.lb2)
    run = haproxy_fleet.host.start("drained")
    until(lambda: haproxy_fleet.lb2.status()["api/web1"] == "DRAIN")
    assert haproxy_fleet.host.marker.exists()  # written before anything is changed
    backend.release()
    assert run.result().rc == 0, run.result().output
    request.join()
    assert request.status == 200
    assert haproxy_fleet.lb2.status()["api/web1"] == "MAINT"


def test_it_names_the_sessions_that_are_left(haproxy_fleet, backend):
    request = slow_request(haproxy_fleet.lb2)
    run = haproxy_fleet.host.run("drained", rc=2, load_balancer_drain_timeout=2)
    assert "after 2 s it still has sessions: 1 on lb2 api/web1" in " ".join(run.output.split())
    assert haproxy_fleet.lb2.status()["api/web1"] == "DRAIN"
    haproxy_fleet.host.run("drained", load_balancer_drain_timeout=2, load_balancer_on_timeout="continue")
    assert haproxy_fleet.lb2.status()["api/web1"] == "MAINT"
    backend.release()
    request.join()
    assert request.status == 200


def test_check_mode_tells_and_changes_nothing(haproxy_fleet):
    run = haproxy_fleet.host.run("drained", check=True)
    assert "would take out lb1 www/web1, which is UP" in run.output
    assert set(haproxy_fleet.lb1.status().values()) == {"UP"}
    assert not haproxy_fleet.host.marker.exists()
    haproxy_fleet.host.run("drained")
    haproxy_fleet.host.run("active", check=True)
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"


def test_a_server_name_that_no_balancer_knows_is_refused_before_anything_is_changed(haproxy_fleet):
    run = haproxy_fleet.host.run("drained", rc=2, load_balancer_haproxy_server="web9")
    assert "No server is called web9 on lb1, lb2, in any backend" in " ".join(run.output.split())
    assert not haproxy_fleet.host.marker.exists()


def slow_request(balancer):
    """Start a request that web1 does not answer until it is released; it has arrived."""
    balancer.command("disable server api/web2")
    port = balancer.ports["api"]

    class Request(threading.Thread):
        status = None

        def run(self):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/slow")
            self.status = connection.getresponse().status
            connection.close()

    request = Request()
    request.start()
    until(lambda: ",1,1," in balancer.command("show stat").partition("api,web1,")[2].split("\n")[0])
    balancer.command("enable server api/web2")
    return request
