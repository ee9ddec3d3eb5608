# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role load_balancer with tasks of the user's own."""

import json
import time

import pytest
from balanced import ROLE, Host
from emulation import until

from playbooks import LOCAL


@pytest.fixture
def host(ansible, tmp_path):
    """A host that is "in" or "out", as the file place says."""
    place = tmp_path / "place"
    place.write_text("in")

    def tasks(name, *content):
        (tmp_path / name).write_text(json.dumps(content))
        return str(tmp_path / name)

    def write(content, path=place):
        return {"name": "Write", "ansible.builtin.copy": {"dest": str(path), "content": content, "mode": "0644"}}

    look = {
        "name": "Look",
        "ansible.builtin.set_fact": {"load_balancer_found": f"{{{{ lookup('ansible.builtin.file', '{place}') }}}}"},
    }
    variables = {
        "load_balancer_provider": "tasks",
        "load_balancer_find_tasks": tasks("find.yml", look),
        "load_balancer_drain_tasks": tasks(
            "out.yml", write("out"), write("{{ load_balancer_found }}", tmp_path / "found")
        ),
        "load_balancer_return_tasks": tasks("in.yml", write("{{ load_balancer_found }}")),
    }
    host = Host(ansible, tmp_path, variables)
    host.place = place
    return host


def test_the_tasks_take_the_host_out_and_bring_it_back_to_what_was_found_first(host, tmp_path):
    host.run("drained")
    (tmp_path / "fail.yml").write_text('[{"ansible.builtin.fail": {}}]')
    host.run("drained", load_balancer_find_tasks=str(tmp_path / "fail.yml"))  # which was found, so this is not run
    assert (host.place.read_text(), (tmp_path / "found").read_text()) == ("out", "in")
    host.run("active")
    assert host.place.read_text() == "in"
    host.place.write_text("elsewhere")
    host.run("active")  # nothing to put back
    assert host.place.read_text() == "elsewhere"


def test_a_host_that_was_out_stays_so_and_a_return_that_fails_holds_up_no_other_holder(host, tmp_path):
    host.place.write_text("out")
    host.run("drained")
    notify = {"ansible.builtin.debug": {}, "changed_when": True, "notify": "Fail"}
    (tmp_path / "fail.yml").write_text(json.dumps([notify]))
    play = {"handlers": [{"name": "Fail", "ansible.builtin.fail": {}}]}
    host.run("active", rc=2, play=play, load_balancer_return_tasks=str(tmp_path / "fail.yml"))
    returning = json.loads(host.marker.read_text())["returning"]
    assert (returning["holder"], returning["seconds"]) == ("operator", 0)
    host.run("active")
    assert host.place.read_text() == "out"


def test_what_another_holder_is_about_to_undo_is_not_noted_as_the_state_that_was_found(host):
    host.place.write_text("out")
    at = {"wall": time.time(), "monotonic": time.monotonic(), "boot_id": ""}
    returning = {"holder": "respond", "seconds": 600, "at": at}
    host.marker.parent.mkdir()
    host.marker.write_text(json.dumps({"holders": ["respond"], "found": {"found": "in"}, "returning": returning}))
    started = host.start("drained")
    until(lambda: "TASK [maintops.scheduled_events.load_balancer : Record the " in started.output, what="the wait")
    host.place.write_text("in")
    host.marker.unlink()
    assert started.result().rc == 0, started.output
    assert json.loads(host.marker.read_text())["found"] == {"found": "in"}


def test_a_host_that_was_drained_for_another_holder_during_its_return_is_taken_out_again(host, tmp_path):
    host.run("drained")
    drained = json.dumps({"holders": ["respond"], "found": {"found": "in"}})
    late = [
        {"name": name, "ansible.builtin.copy": {"dest": str(path), "content": content, "mode": "0600"}}
        for name, path, content in (("Return", host.place, "in"), ("Come", host.marker, drained))
    ]
    (tmp_path / "late.yml").write_text(json.dumps(late))
    run = host.run("active", load_balancer_return_tasks=str(tmp_path / "late.yml"))
    assert (host.place.read_text(), host.holders()) == ("out", ["respond"])
    assert "web1: stays drained for respond" in run.output
    host.run("drained")
    run = host.run("active", load_balancer_return_tasks=str(tmp_path / "late.yml"), check=True)
    assert (host.place.read_text(), sorted(host.holders())) == ("out", ["operator", "respond"])


def test_of_two_holders_that_find_at_the_same_time_both_get_what_the_first_one_has_recorded(host, tmp_path):
    content = json.dumps({"holders": ["respond", "operator"], "found": {"found": "in"}})
    meanwhile = {"ansible.builtin.copy": {"dest": str(host.marker), "content": content, "mode": "0600"}}
    late = {"ansible.builtin.set_fact": {"load_balancer_found": "out"}}
    (tmp_path / "late.yml").write_text(json.dumps([meanwhile, late]))
    host.run("drained", load_balancer_find_tasks=str(tmp_path / "late.yml"))
    assert (tmp_path / "found").read_text() == "in"


def test_a_host_whose_state_could_not_be_read_was_not_changed_and_is_not_put_back(host, tmp_path):
    (tmp_path / "fail.yml").write_text('[{"ansible.builtin.fail": {}}]')
    host.run("drained", rc=2, load_balancer_find_tasks=str(tmp_path / "fail.yml"))
    host.run("active", load_balancer_return_tasks=str(tmp_path / "fail.yml"))
    assert host.holders() == []


def test_a_simulated_drain_leaves_no_record_that_a_return_of_the_same_run_misses(host):
    drain, back = (
        {"ansible.builtin.include_role": {"name": ROLE}, "vars": {"wanted": wanted}} for wanted in ("drained", "active")
    )
    drain["ansible.builtin.include_role"] = {"name": ROLE, "apply": {"check_mode": True}}
    host.run("{{ wanted }}", play={"roles": [], "tasks": [drain, back]})
    assert not host.marker.exists()


def test_a_record_that_is_lost_between_a_drain_and_the_return_of_one_run_fails_it(host):
    drain, back = (
        {"ansible.builtin.include_role": {"name": ROLE}, "vars": {"wanted": wanted}} for wanted in ("drained", "active")
    )
    lose = {"ansible.builtin.file": {"path": str(host.marker.parent), "state": "absent"}}
    play = {"roles": [], "tasks": [drain, back, back, drain, lose, back]}
    run = host.run("{{ wanted }}", rc=2, play=play)
    assert "was taken out for operator, but its record" in " ".join(run.output.split())
    assert host.place.read_text() == "out"


def test_a_name_that_is_no_host_of_the_inventory_is_refused_among_those_that_are_out(ansible, tmp_path):
    read = {"ansible.builtin.set_fact": {"load_balancer_out": "{{ found }}"}}
    (tmp_path / "out.yml").write_text(json.dumps([read]))
    role = {"name": ROLE, "tasks_from": "out_tasks"}
    said = {}
    for found in (["web1"], ["web1", "wbe1"], "web1"):
        run = ansible.run_playbook(
            [{"hosts": "web1", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}],
            inventory={"all": {"hosts": {"web1": LOCAL}}},
            extra_vars={"load_balancer_out_tasks": str(tmp_path / "out.yml"), "found": found},
        )
        said[str(found)] = [each["msg"].partition(" Correct")[0] for each in run.tasks if each.failed]
    wrong = "load_balancer_out is '{}', expected a list of hosts of the inventory."
    assert said == {found: [] if found == "['web1']" else [wrong.format(found)] for found in said}


def test_a_slip_in_a_name_is_refused_before_the_tasks_take_the_host_out(host):
    run = host.run("drained", rc=2, load_balancer_drian_timeout=1)
    assert "load_balancer_drian_timeout has no effect" in " ".join(run.output.split())
    assert not host.marker.exists()


def test_missing_tasks_are_refused(host):
    run = host.run("drained", rc=2, load_balancer_return_tasks="in.yml")
    assert "expected the absolute path of a tasks file" in " ".join(run.output.split())
    assert not host.marker.exists()
