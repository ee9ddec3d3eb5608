# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook of examples/ for Windows VMs, on stand-ins of Windows hosts: no Windows runs here."""

import pytest
import yaml
from emulation import until
from page_blocks import ROOT
from windows import CONNECTION, windows

HOSTS = ("web1", "web2", "web3", "web4")


def play_of_the_example(endpoint):
    """The play of the file, with an endpoint, and with shorter pauses."""
    (play,) = yaml.safe_load((ROOT / "examples" / "windows.yml").read_text(encoding="utf-8"))
    (wait,) = [task for task in play["tasks"] if "maintops.scheduled_events.scheduled_events_wait" in task]
    wait["maintops.scheduled_events.scheduled_events_wait"].update(sleep=0.5, stable_for=1)
    play["module_defaults"] = {"group/maintops.scheduled_events.imds": {"endpoint": endpoint}}
    return play


class Story:
    """Two hosts with one event, a third one on which an earlier run was ended, a fourth one that an operator has
    drained, and what could be seen half way."""

    def __init__(self, ansible, fleet, directory):
        emulator = self.emulator = fleet(*HOSTS)
        self.flags = {host: directory / host for host in HOSTS}
        self.marks = {host: directory / f"{host}-for-events" for host in HOSTS}
        for file in (self.marks["web3"], self.flags["web3"], self.flags["web4"]):
            file.touch()
        self.event_id = emulator.schedule("Redeploy", "web2", "web1")
        inventory = emulator.inventory(ansible_connection=lambda _host: CONNECTION)
        run = ansible.start_playbook(
            [play_of_the_example("{{ imds_endpoint }}")],
            inventory={"all": {"children": {"windows_web": inventory["all"]}}},
            extra_vars={"drained_flag": f"{directory}/{{{{ inventory_hostname }}}}", "notice_seconds": 1},
            env=windows(directory / "win_uri.log"),
        )
        until(lambda: emulator.posts() or not run.running, what="the acknowledgement")
        self.raised_when_acknowledged = [host for host, flag in self.flags.items() if flag.exists()]
        polled = emulator.polls("web1")["polls"]
        until(lambda: emulator.polls("web1")["polls"] > polled or not run.running, what="a poll of the wait")
        self.waited = run.running
        emulator.complete(self.event_id)
        self.run = run.result()


@pytest.fixture(scope="module")
def story(ansible, fleet, tmp_path_factory):
    return Story(ansible, fleet, tmp_path_factory.mktemp("flags"))


def test_the_flags_are_up_when_the_leader_acknowledges_once(story):
    assert story.emulator.posts() == [("web2", [story.event_id], 200)]
    assert set(story.raised_when_acknowledged) >= {"web1", "web2"}


def test_the_flags_come_down_after_the_event_and_after_a_run_that_was_ended(story):
    assert story.waited, "did not wait for the end of the event"
    assert story.run.rc == 0, story.run.output
    assert not any(story.flags[host].exists() for host in ("web1", "web2", "web3"))
    assert not any(mark.exists() for mark in story.marks.values())


def test_the_flag_of_an_operator_stays(story):
    assert story.flags["web4"].exists()


def test_a_vm_that_read_before_an_event_was_announced_is_out_when_another_one_acknowledges(ansible, fleet, tmp_path):
    emulator = fleet("web1", "web2")
    flags = [tmp_path / "web1", tmp_path / "web2"]
    inventory = emulator.inventory(ansible_connection=lambda _host: CONNECTION)
    emulator.fault("slow", vms=["web2"], delay=30, count=1)  # it looks after the event is announced
    run = ansible.start_playbook(
        [play_of_the_example("{{ imds_endpoint }}")],
        inventory={"all": {"children": {"windows_web": inventory["all"]}}},
        extra_vars={"drained_flag": f"{tmp_path}/{{{{ inventory_hostname }}}}", "notice_seconds": 0},
        options=("--forks", "1"),
        env=windows(tmp_path / "win_uri.log"),
    )
    until(lambda: emulator.polls("web1")["polls"] or not run.running, what="the look of web1")
    event_id = emulator.schedule("Redeploy", "web2", "web1")
    emulator.clear_faults()
    until(lambda: emulator.posts() or not run.running, what="the acknowledgement")
    assert [flag for flag in flags if not flag.exists()] == []
    emulator.complete(event_id)
    assert run.result().rc == 0
