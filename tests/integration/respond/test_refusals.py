# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays that the role refuses, and prepare tasks that tags leave out or that no_log hides: all in one run."""

import json

import pytest
from emulation import until
from responders import AHEAD, TASKS, TURN, approved_at, result

SECRET = "correct-horse"
HIDDEN = [{"ansible.builtin.fail": {"msg": "the password is {{ password }}"}, "no_log": True}]
TAGGED = [{"ansible.builtin.debug": {}}, {"ansible.builtin.command": "true", "tags": "drain"}]
LEAVES = [{"ansible.builtin.meta": "end_host"}, {"ansible.builtin.command": "true"}]
RESPOND = {"ansible.builtin.include_role": {"name": "maintops.scheduled_events.respond"}}
REFUSED = [{"block": [RESPOND], "rescue": [{"ansible.builtin.debug": {"msg": "refused"}}]}]
PLAYS = [
    {"hosts": "all", "gather_facts": False, "serial": 1, "tasks": REFUSED},
    {"hosts": "all", "gather_facts": False, "strategy": "host_pinned", "tasks": REFUSED},
    {"hosts": "all", "gather_facts": False, "strategy": "free", "tasks": [RESPOND]},
]


class Story:
    def __init__(self, hosts, directory):
        self.hosts, self.directory = hosts, directory
        self.ids = {name: hosts.emulator.schedule("Reboot", name, notice=AHEAD) for name in ("vm1", "vm2")}
        self.ids["vm3"] = hosts.emulator.schedule("Reboot", "vm3", notice=AHEAD, started_for=60)
        for name, tasks in (("hidden", HIDDEN), ("tagged", TAGGED), ("leaves", LEAVES)):
            (directory / f"{name}.yml").write_text(f"---\n{json.dumps(tasks)}")
        inventory = hosts.inventory(
            vm1={"respond_prepare_tasks": str(directory / "hidden.yml"), "password": SECRET},
            vm2={"respond_prepare_tasks": str(directory / "tagged.yml")},
            vm3={"respond_prepare_tasks": str(TASKS / "prepare.yml"), "respond_allow_skip_tags": True},
            vm4={
                "load_balancer_provider": "tasks",
                "load_balancer_drain_tasks": str(directory / "leaves.yml"),
                "load_balancer_return_tasks": str(directory / "tagged.yml"),
            },
        )
        tags = ("--skip-tags", "drain")
        run = hosts.ansible.start_playbook(PLAYS, inventory=inventory, options=(*tags, "--forks", "2"))
        for name, ends in (("vm1", "prepare failed"), ("vm2", "prepared in part")):
            line = f"{name}: Reboot {self.ids[name]} {ends}"
            until(lambda line=line: line in run.output or not run.running, what=line)
        self.remembered = json.dumps(hosts.remembered("vm1"))
        for name in ("vm1", "vm2"):
            hosts.emulator.cancel(self.ids[name])
        self.run = run.result()


@pytest.fixture(scope="module")
def story(hosts_of, tmp_path_factory):
    return Story(hosts_of("vm1", "vm2", "vm3", "vm4"), tmp_path_factory.mktemp("tasks"))


def test_a_play_in_batches_and_one_that_pins_hosts_to_few_forks_are_refused_at_the_start(story):
    refusals = [task.result["msg"] for task in story.run.all(host="vm3", action=TURN) if task.status == "failed"]
    assert len(refusals) == 2, story.run.output
    assert "serial is 1, and the play has 4 hosts" in refusals[0]
    assert "4 hosts and 2 forks" in refusals[1]


def test_tasks_files_of_a_load_balancer_are_looked_at_as_those_of_the_phases(story):
    refusal = story.run.all(host="vm4", action=TURN)[0].result["msg"]
    assert f"load_balancer_drain_tasks is {story.directory}/leaves.yml, with meta: end_host in " in refusal
    assert refusal.endswith("use when on the tasks, or set respond_load_balancer to false")


def test_a_run_whose_tags_may_leave_out_a_preparation_acknowledges_nothing_and_says_what_to_do(story):
    assert not approved_at(story.hosts.emulator, story.ids["vm2"])
    [held] = result(story.run, "vm2")["held"]
    assert held["reason"] == (
        "the tags of this run may leave out tasks that prepare vm2. Run the role without --skip-tags and "
        "--tags untagged, or set respond_allow_skip_tags to true"
    )
    assert f"vm2: Reboot {story.ids['vm2']} seen as Scheduled, prepared in part" in story.run.output


def test_a_host_whose_owner_allows_such_tags_is_acknowledged(story):
    assert approved_at(story.hosts.emulator, story.ids["vm3"])


def test_what_no_log_hides_is_shown_nowhere(story):
    [failure] = result(story.run, "vm1")["failures"]
    place = f'the task "ansible.builtin.fail" ({story.directory / "hidden.yml"}:2)'
    assert failure == f"prepare failed for Reboot {story.ids['vm1']}: {place} failed: its output is hidden by no_log"
    assert "hidden by no_log" in story.remembered
    assert SECRET not in story.remembered
    assert SECRET not in json.dumps([task.result for task in story.run.all(action=TURN)])
    # The line that Ansible itself shows has the message.
    assert [line for line in story.run.output.splitlines() if SECRET in line and not line.startswith("[ERROR]")] == []
