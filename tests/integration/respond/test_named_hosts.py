# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbooks act on hosts that a user has named, by a variable or by a limit, and on no others."""

import pathlib

import pytest
import yaml

PLAYBOOKS = pathlib.Path(__file__).parents[3] / "playbooks"
NAMED_HOSTS = str(PLAYBOOKS / "tasks" / "named_hosts.yml")
CASES = {
    "forecast": "forecast_hosts",
    "install_poller": "poller_hosts",
    "report": "report_hosts",
    "respond": "respond_hosts",
    "rolling_maintenance": "rolling_maintenance_hosts",
}
# Nothing is asked of the host: it cannot be reached.
INVENTORY = {
    "all": {
        "hosts": {"web1": {"ansible_connection": "ssh", "ansible_host": "web1.invalid"}},
        "vars": {"ansible_become": False},
    }
}
# Of web1, on this machine
FORECAST = {"forecast_hosts": "web1", "__forecast_command": "/bin/true", "ansible_become": False}


def hosts_of(run):
    return {task.host for task in run.tasks}


@pytest.mark.parametrize(("playbook", "variable"), CASES.items())
def test_a_playbook_refuses_to_run_without_named_hosts(ansible, playbook, variable):
    run = ansible.run_playbook(f"maintops.scheduled_events.{playbook}", inventory=INVENTORY)
    assert run.rc == 2, run.output
    assert f"No hosts are named, expected {variable} in --extra-vars" in " ".join(run.output.split())
    assert "web1" not in hosts_of(run)


# For Ansible, a batch of 0 hosts is one of all hosts.
@pytest.mark.parametrize("serial", ["x", "0", [1, "50 %", "x"], ["1", None], ["50% "], "1,00"])
@pytest.mark.parametrize("playbook", ["drill", "rolling_maintenance"])
def test_a_serial_that_is_not_a_number_above_0_is_refused_by_its_name(ansible, playbook, serial):
    extra = {f"{playbook}_hosts": "web1", f"{playbook}_serial": serial}
    run = ansible.run_playbook(f"maintops.scheduled_events.{playbook}", inventory=INVENTORY, extra_vars=extra)
    assert run.rc != 0, run.output
    expected = f"{playbook}_serial is {serial}, expected a number above 0, a percentage, or a list of them"
    assert expected in " ".join(run.output.split())
    assert "probably a bug" not in run.output


@pytest.mark.parametrize(("playbook", "variable"), {**CASES, "drill": "drill_hosts"}.items())
def test_a_name_that_matches_no_host_is_no_success(ansible, playbook, variable):
    run = ansible.run_playbook(
        f"maintops.scheduled_events.{playbook}", inventory=INVENTORY, options=("-e", f"{variable}=webb")
    )
    assert run.rc == 2, run.output
    assert f"{variable} is webb, which matches no host of the inventory. Correct it" in " ".join(run.output.split())


@pytest.mark.parametrize(
    ("limit", "hosts"), [("web1", "webb"), ("web1", "db1"), ("@{directory}/each_line_is_one_pattern", "db1")]
)
def test_a_name_that_the_limit_leaves_out_is_no_success(ansible, tmp_path, limit, hosts):
    (tmp_path / "each_line_is_one_pattern").write_text("web1\nweb1,db1\nweb1:db1\nweb1 db1\n")
    limit = limit.format(directory=tmp_path)
    inventory = {"all": {**INVENTORY["all"], "hosts": {**INVENTORY["all"]["hosts"], "db1": {}}}}
    options = ("--limit", limit, "-e", f"respond_hosts={hosts}")
    run = ansible.run_playbook("maintops.scheduled_events.respond", inventory=inventory, options=options)
    assert run.rc == 2, run.output
    problem = f"respond_hosts is {hosts}, which matches no host of the inventory within --limit {limit}. Correct it"
    assert problem in " ".join(run.output.split())


def test_another_host_of_the_limit_need_have_no_connection(ansible):
    other = {"ansible_connection": "of.no.collection", "ansible_host": "{{ unknown }}"}
    inventory = {"all": {"hosts": {"a_switch": other, "web1": {"ansible_connection": "local"}}}}
    run = ansible.run_playbook(
        "maintops.scheduled_events.forecast", inventory=inventory, options=("--limit", "all"), extra_vars=FORECAST
    )
    assert "which matches no host" not in run.output
    assert hosts_of(run) == {"a_switch", "web1"}
    assert [task.status for task in run.all(host="a_switch")] == ["skipped", "skipped"], run.output
    assert "web1" in {task.host for task in run.tasks if task.action.endswith("command")}


@pytest.mark.parametrize("limit", ["all", "localhost"])
def test_a_name_that_matches_no_host_is_no_success_where_localhost_is_in_the_limit(ansible, limit):
    inventory = {"all": {"hosts": {"localhost": {"ansible_connection": "local"}, "web1": {}}}}
    options = ("--limit", limit, "-e", "respond_hosts=webb")
    run = ansible.run_playbook("maintops.scheduled_events.respond", inventory=inventory, options=options)
    assert run.rc == 2, run.output
    assert "respond_hosts is webb, which matches no host of the inventory within" in " ".join(run.output.split())


def test_variables_of_localhost_that_are_not_defined_stop_no_playbook(ansible):
    hosts = {"localhost": {"ansible_become_password": "{{ vault }}"}, "web1": {"ansible_connection": "local"}}
    run = ansible.run_playbook(
        "maintops.scheduled_events.forecast",
        inventory={"all": {"hosts": hosts}},
        options=("--limit", "web1"),
        extra_vars=FORECAST,
    )
    assert "web1" in {task.host for task in run.tasks if task.action.endswith("command")}, run.output


@pytest.mark.parametrize(
    ("limit", "hosts", "variables"),
    [
        ("web1,localhost", "localhost", {}),
        ("web1, @{directory}/retry.lst", "localhost", {}),
        ("all", None, {"respond_hosts": "web1"}),
    ],
    ids=["implicit localhost", "file", "variable of the inventory"],
)
def test_localhost_within_a_limit_is_taken_as_it_is(ansible, tmp_path, limit, hosts, variables):
    (tmp_path / "retry.lst").write_text("web2\nlocalhost\n")
    explicit = {"localhost": {"ansible_connection": "local"}} if variables else {}
    inventory = {"all": {"hosts": {"web1": {}, "web2": {}, **explicit}, "vars": variables}}
    play = {
        "hosts": "{{ 'all' if ansible_limit is defined and respond_hosts is defined else 'localhost' }}",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.import_tasks": NAMED_HOSTS, "vars": {"__named_by": "respond_hosts"}}],
    }
    extra = {"respond_hosts": hosts} if hosts else {}
    run = ansible.run_playbook(
        [play], inventory=inventory, options=("--limit", limit.format(directory=tmp_path)), extra_vars=extra
    )
    assert run.rc == 0, run.output
    assert "Could not match" not in run.output
    assert [task.status for task in run.tasks] == ["skipped", "skipped"]  # of one host


@pytest.mark.parametrize(("playbook", "variable"), {**CASES, "audit": "report_hosts", "drill": "drill_hosts"}.items())
def test_a_playbook_looks_at_the_named_hosts_also_with_a_limit(playbook, variable):
    first, second = yaml.safe_load((PLAYBOOKS / f"{playbook}.yml").read_text())[:2]
    assert first["hosts"] == f"{{{{ 'all' if ansible_limit is defined and {variable} is defined else 'localhost' }}}}"
    assert second["hosts"] == f"{{{{ {variable} | default('all' if ansible_limit is defined else '127.0.0.1') }}}}"


def test_patterns_lists_and_the_control_node_itself_name_hosts(ansible):
    for hosts in ("all", "web*", "nowhere,web1", ["web1"], "localhost"):
        tasks = [{"ansible.builtin.import_tasks": NAMED_HOSTS, "vars": {"__named_by": "drill_hosts"}}]
        play = {"hosts": "localhost", "gather_facts": False, "vars": {"drill_hosts": hosts}, "tasks": tasks}
        run = ansible.run_playbook([play], inventory=INVENTORY)
        assert run.rc == 0, (hosts, run.output)


@pytest.mark.parametrize(("playbook", "variable"), CASES.items())
def test_a_limit_and_a_variable_name_hosts(ansible, playbook, variable):
    for options in (("--limit", "web1"), ("-e", f"{variable}=web1")):
        run = ansible.run_playbook(
            f"maintops.scheduled_events.{playbook}", inventory=INVENTORY, options=(*options, "--list-hosts")
        )
        assert run.rc == 0, run.output
        assert "web1" in run.output
        assert "127.0.0.1" not in run.output
