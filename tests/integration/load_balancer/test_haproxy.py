# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with two running HAProxies."""

import contextlib
import http.client
import threading
import time

import pytest
from emulation import LIMIT, until

from playbooks import ADDRESSED, LOCAL, module_task, play

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
        assert balancer.all_up()
    assert not haproxy_fleet.host.marker.exists()
    assert changed(haproxy_fleet.host.run("active")) == []


def test_a_drain_and_a_return_are_few_tasks(haproxy_fleet):
    haproxy_fleet.host.set_variables(load_balancer_haproxy_hosts=["lb1"])
    for state in ("drained", "active"):
        run = haproxy_fleet.host.run(state)
        assert len(run.tasks) <= 8, [task.task for task in run.tasks]


def test_each_balancer_is_asked_where_it_is_when_addresses_are_made_from_names(haproxy_fleet, tmp_path):
    for own in haproxy_fleet.host.inventory["all"]["hosts"].values():
        own.update(ADDRESSED)
    log = tmp_path / "addressed"
    for state in ("drained", "active"):
        haproxy_fleet.host.run(state, env={"ADDRESSED_LOG": str(log)})
    lines = [line.split() for line in log.read_text().splitlines()]
    on_balancers = ("haproxy_servers", "haproxy_servers_info")
    assert {(module, address) for address, module in lines if module in on_balancers} == {
        (module, balancer) for module in on_balancers for balancer in ("at-lb1", "at-lb2")
    }
    assert {address for address, module in lines if module not in on_balancers} == {"at-web1"}


def test_ports_users_keys_and_ssh_arguments_may_be_made_from_names(haproxy_fleet, ssh):
    hosts = haproxy_fleet.host.inventory["all"]["hosts"]
    for name in ("lb1", "lb2"):
        hosts[name].update(ssh.VARIABLES)
    haproxy_fleet.host.inventory["all"]["vars"] = {"numbers": {"lb1": 2201, "lb2": 2202, "web1": 2209}}
    haproxy_fleet.host.run("drained")
    assert set(haproxy_fleet.lb2.status().values()) == {"UP", "MAINT"}
    for name, port in (("lb1", 2201), ("lb2", 2202)):
        [arguments] = {" ".join(call) for call in ssh.calls() if f"at-{name}" in call}
        for expected in (f"Port={port}", f'User="user-{name}"', f'IdentityFile="/keys/{name}"', f"Tag={name}"):
            assert expected in arguments
    assert not any("web1" in argument for call in ssh.calls() for argument in call)


def test_variables_of_the_play_hold_for_the_balancers_too(haproxy_fleet, ssh):
    haproxy_fleet.host.set_variables(load_balancer_haproxy_hosts=["lb1"])
    hosts = haproxy_fleet.host.inventory["all"]["hosts"]
    del hosts["lb1"]["ansible_connection"]
    del hosts["lb1"]["ansible_python_interpreter"]  # so that Ansible looks for one there
    own = {**ssh.VARIABLES, "ansible_port": 22, "ansible_user": "play-{{ inventory_hostname }}"}
    haproxy_fleet.host.run("drained", play={"vars": {name: own[name] for name in own if name != "ansible_connection"}})
    assert any('User="play-lb1"' in call for call in ssh.calls())


def test_only_on_the_balancers_root_is_needed_and_in_the_way_of_each(haproxy_fleet, sudo):
    haproxy_fleet.host.set_variables(load_balancer_haproxy_hosts=["lb1"], load_balancer_haproxy_become=True)
    haproxy_fleet.host.inventory["all"]["hosts"]["lb1"].update(
        ansible_become_exe=str(sudo.program), ansible_become_user="root-of-{{ inventory_hostname }}"
    )
    haproxy_fleet.host.run("drained")
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"
    assert sudo.users() == {"root-of-lb1"}


def test_a_dead_balancer_fails_the_host_with_its_name_before_anything_is_changed(haproxy_fleet, ssh):
    haproxy_fleet.host.inventory["all"]["hosts"]["lb2"].update(ssh.VARIABLES, ansible_port=22)
    ssh.dead.touch()
    run = haproxy_fleet.host.run("drained", rc=2)
    assert "lb2 cannot be reached" in run.output
    assert [task.status for task in run.tasks if task.failed] == ["failed"]
    assert haproxy_fleet.lb1.all_up()
    assert not haproxy_fleet.host.marker.exists()


def test_a_host_that_cannot_be_reached_is_unreachable_and_stays_in(haproxy_fleet, ssh):
    haproxy_fleet.host.inventory["all"]["hosts"]["web1"].update(ssh.VARIABLES, ansible_port=22)
    ssh.dead.touch()
    run = haproxy_fleet.host.run("drained", rc=4)
    assert [task.status for task in run.tasks if task.failed] == ["unreachable"]
    assert haproxy_fleet.lb1.all_up()


def test_a_balancer_that_dies_while_the_host_is_out_holds_the_record_but_not_the_other_balancer(haproxy_fleet, ssh):
    haproxy_fleet.host.run("drained")
    haproxy_fleet.host.inventory["all"]["hosts"]["lb2"].update(ssh.VARIABLES, ansible_port=22)
    ssh.dead.touch()
    run = haproxy_fleet.host.run("active", rc=2)
    assert "lb2 cannot be reached" in run.output
    assert haproxy_fleet.lb1.all_up()
    assert haproxy_fleet.host.holders() == ["operator"]
    ssh.dead.unlink()
    haproxy_fleet.host.run("active")
    assert haproxy_fleet.lb2.all_up()
    assert not haproxy_fleet.host.marker.exists()


def test_a_balancer_that_the_inventory_lacks_is_named(haproxy_fleet):
    run = haproxy_fleet.host.run("drained", rc=2, load_balancer_haproxy_hosts="lb1,lb9")
    assert "lb9 is not a host of the inventory" in run.output
    assert not haproxy_fleet.host.marker.exists()


def test_options_may_be_text_as_a_survey_or_the_command_line_sends_them(haproxy_fleet):
    haproxy_fleet.host.run(
        "drained",
        load_balancer_haproxy_hosts="lb1, lb2",
        load_balancer_haproxy_backends=" api, ",
        load_balancer_haproxy_become="false",
        load_balancer_drain_timeout="20",
        load_balancer_return_timeout="20",
    )
    for balancer in (haproxy_fleet.lb1, haproxy_fleet.lb2):
        assert balancer.status() == {"www/web1": "UP", "www/web2": "UP", "api/web1": "MAINT", "api/web2": "UP"}
    haproxy_fleet.host.run("active", load_balancer_haproxy_backends="www")  # which changed meanwhile
    assert haproxy_fleet.lb1.all_up()
    assert haproxy_fleet.lb2.all_up()


def test_a_haproxy_that_is_restarted_during_the_drain_is_drained_again(haproxy_fleet, backend):
    request = slow_request(haproxy_fleet.lb1)
    run = haproxy_fleet.host.start("drained", load_balancer_drain_timeout=60)
    until(lambda: haproxy_fleet.lb1.status()["api/web1"] == "DRAIN")
    haproxy_fleet.lb1.restart()  # its sessions are over, and it has forgotten what was ordered
    assert run.result().rc == 0, run.result().output
    assert haproxy_fleet.lb1.status()["www/web1"] == haproxy_fleet.lb1.status()["api/web1"] == "MAINT"
    backend.release()
    request.join()


def test_a_haproxy_that_was_restarted_since_is_drained_by_the_next_run(haproxy_fleet):
    haproxy_fleet.host.run("drained")
    haproxy_fleet.lb1.restart()
    assert haproxy_fleet.lb1.status()["www/web1"].startswith("UP")
    haproxy_fleet.host.run("drained")
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"
    haproxy_fleet.host.run("active")
    assert haproxy_fleet.lb1.all_up()


def test_a_user_who_puts_the_host_back_during_the_drain_is_noticed(haproxy_fleet, backend):
    haproxy_fleet.host.set_variables(load_balancer_haproxy_hosts="lb1")
    request = slow_request(haproxy_fleet.lb1)
    run = haproxy_fleet.host.start("drained", load_balancer_drain_timeout=60)
    until(lambda: haproxy_fleet.lb1.status()["api/web1"] == "DRAIN")
    haproxy_fleet.lb1.command("set server api/web1 state ready")
    assert run.result().rc == 2
    assert "lb1: Another program put api/web1 back while it was taken out" in " ".join(run.result().output.split())
    backend.release()
    request.join()


def test_a_controller_that_is_killed_during_the_drain_is_followed_by_another(haproxy_fleet, backend):
    request = slow_request(haproxy_fleet.lb1)
    run = haproxy_fleet.host.start("drained")
    # Its worker ends the step that it has begun. All balancers have their order before another run follows.
    until(lambda: haproxy_fleet.lb1.status()["api/web1"] == "DRAIN")
    until(lambda: haproxy_fleet.lb2.status()["api/web1"] in ("DRAIN", "MAINT"))
    run.stop()
    backend.release()
    request.join()
    haproxy_fleet.host.run("active")
    for balancer in (haproxy_fleet.lb1, haproxy_fleet.lb2):
        assert balancer.all_up()
    assert not haproxy_fleet.host.marker.exists()


def test_two_plays_that_drain_the_host_at_once_both_hold_it(haproxy_fleet):
    runs = [haproxy_fleet.host.start("drained", load_balancer_holder=holder) for holder in ("first", "second")]
    assert [run.result().rc for run in runs] == [0, 0]
    assert sorted(haproxy_fleet.host.holders()) == ["first", "second"]
    assert "stays drained for second" in haproxy_fleet.host.run("active", load_balancer_holder="first").output
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"
    haproxy_fleet.host.run("active", load_balancer_holder="second")
    assert haproxy_fleet.lb1.all_up()


def test_a_weight_of_an_operator_stays(haproxy_fleet):
    haproxy_fleet.lb1.command("set server www/web1 weight 7")
    haproxy_fleet.lb2.command("set server www/web1 weight 0")
    haproxy_fleet.host.run("drained")
    haproxy_fleet.host.run("active")
    assert haproxy_fleet.lb1.command("get weight www/web1").startswith("7 ")
    assert haproxy_fleet.lb2.command("get weight www/web1").startswith("0 ")


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


def test_a_server_that_does_not_come_up_is_named_with_its_check(haproxy_fleet, backend):
    haproxy_fleet.host.run("drained")
    backend.flag.parent.mkdir()
    backend.flag.touch()
    run = haproxy_fleet.host.run("active", rc=2, load_balancer_return_timeout=2)
    assert "lb1 www/web1 is DOWN 2 s after it was put back; its last health check gave L7STS" in run.output
    assert haproxy_fleet.host.holders() == ["operator"]  # so that a second run goes on


def test_every_balancer_gets_its_order_at_once_and_its_sessions_are_waited_for(haproxy_fleet, backend):
    balancers = (haproxy_fleet.lb1, haproxy_fleet.lb2)
    requests = [slow_request(balancer) for balancer in balancers]
    run = haproxy_fleet.host.start("drained", load_balancer_drain_timeout=300)
    for balancer in balancers:
        until(lambda: balancer.status()["api/web1"] == "DRAIN")  # noqa: B023 - called at once
    assert haproxy_fleet.host.marker.exists()  # written before anything is changed
    backend.release()
    assert run.result().rc == 0, run.result().output
    for balancer, request in zip(balancers, requests, strict=True):
        request.join()
        assert (request.status, balancer.status()["api/web1"]) == (200, "MAINT")


def test_it_names_the_remaining_sessions(haproxy_fleet, backend):
    request = slow_request(haproxy_fleet.lb2)
    run = haproxy_fleet.host.run("drained", rc=2, load_balancer_drain_timeout=2)
    assert "after 2 s it still has sessions: 1 on lb2 api/web1" in " ".join(run.output.split())
    assert haproxy_fleet.lb2.status()["api/web1"] == "DRAIN"
    haproxy_fleet.host.run("drained", load_balancer_deadline=time.time() + 9, load_balancer_on_timeout="continue")
    assert haproxy_fleet.lb2.status()["api/web1"] == "MAINT"
    backend.release()
    request.join()
    assert request.status == 200


def test_check_mode_shows_the_change_and_changes_nothing(haproxy_fleet):
    run = haproxy_fleet.host.run("drained", check=True)
    assert "would take out lb1 www/web1, which is UP" in " ".join(run.output.split())
    assert haproxy_fleet.lb1.all_up()
    assert not haproxy_fleet.host.marker.exists()
    haproxy_fleet.host.run("drained")
    haproxy_fleet.host.run("active", check=True)
    assert haproxy_fleet.lb1.status()["www/web1"] == "MAINT"


def test_servers_are_read_by_host_and_backend_without_level_admin(ansible, haproxy_fleet):
    haproxy_fleet.lb1.command("set server api/web1 state maint")
    read = {"socket": str(haproxy_fleet.lb1.reader)}
    selections = {"all": {}, "host": {"server": "web1"}, "backend": {"backends": ["api"]}, "none": {"server": "web9"}}
    tasks = [
        {**module_task("haproxy_servers_info", {**read, **selection}), "name": name}
        for name, selection in selections.items()
    ]
    haproxy_fleet.lb2.command("set server www/web2 state maint")
    asked = ["web1", "web2", "lb1", "limited", "elsewhere"]
    survey = {"provider": "haproxy", "hosts": asked, "balancers": ["lb1"], "become": False, **read}
    tasks.append({**module_task("load_balancer_info", survey), "name": "out"})
    limited = {**LOCAL, "load_balancer_haproxy_server": "web1", "load_balancer_haproxy_backends": "www"}
    elsewhere = {**LOCAL, "load_balancer_haproxy_server": "web2", "load_balancer_haproxy_hosts": "lb2"}
    web1 = {**LOCAL, "load_balancer_haproxy_backends": "api"}
    hosts = {"lb1": LOCAL, "web1": web1, "web2": LOCAL, "limited": limited, "elsewhere": elsewhere}
    hosts["lb2"] = {**LOCAL, "load_balancer_haproxy_socket": str(haproxy_fleet.lb2.reader)}
    run = ansible.run_playbook([play(tasks, hosts="lb1")], inventory={"all": {"hosts": hosts}}, check=True)
    results = {name: run.one(task=name) for name in (*selections, "out")}
    shown = {name: {f"{each['backend']}/{each['server']}" for each in results[name]["servers"]} for name in selections}
    assert shown == {
        "all": {"www/web1", "www/web2", "api/web1", "api/web2"},
        "host": {"www/web1", "api/web1"},
        "backend": {"api/web1", "api/web2"},
        "none": set(),
    }
    assert results["host"]["found"] == {"www": "ready", "api": "MAINT"}
    assert (results["out"]["hosts_without_traffic"], results["out"]["unknown"]) == (["web1", "elsewhere"], ["lb1"])
    assert not any(result["changed"] for result in results.values())


def slow_request(balancer):
    """Start a request that web1 does not answer until it is released; it has arrived."""
    balancer.command("disable server api/web2")
    port = balancer.ports["api"]

    class Request(threading.Thread):
        status = None

        def run(self):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
            connection.request("GET", "/slow")
            with contextlib.suppress(http.client.RemoteDisconnected):  # its balancer was restarted
                self.status = connection.getresponse().status
            connection.close()

    request = Request()
    request.start()
    until(lambda: ",1,1," in balancer.command("show stat").partition("api,web1,")[2].split("\n")[0])
    balancer.command("enable server api/web2")
    return request
