# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that respond to events: all of them on this machine, with an emulator that shares nothing with the role."""

import json
import pathlib
import re

from emulation import until

TASKS = pathlib.Path(__file__).parents[1] / "respond" / "tasks"
PLAYBOOK = "maintops.scheduled_events.respond"
NAMED = ("-e", "respond_hosts=all")
TURN = "maintops.scheduled_events.scheduled_events_turn"
AHEAD = 86400  # seconds of emulated notice, 24 minutes at the speed of these tests


class Hosts:
    """The hosts of one emulator, each with a directory where its tasks leave their traces."""

    def __init__(self, emulator, ansible, directory):
        self.emulator, self.ansible, self.directory = emulator, ansible, directory
        for name in emulator.endpoints:
            (directory / name).mkdir()

    def inventory(self, hosts=None, **host_vars):
        inventory = self.emulator.inventory(
            scheduled_events_endpoint=lambda name: self.emulator.endpoints[name],
            vm_directory=lambda name: str(self.directory / name),
        )
        if hosts is not None:
            inventory["all"]["hosts"] = {name: inventory["all"]["hosts"][name] for name in hosts}
        for name, variables in host_vars.items():
            inventory["all"]["hosts"].setdefault(name, {}).update(variables)
        inventory["all"]["vars"] = {
            "ansible_become": False,
            "respond_prepare_tasks": str(TASKS / "prepare.yml"),
            "respond_started_tasks": str(TASKS / "started.yml"),
            "respond_recover_tasks": str(TASKS / "recover.yml"),
            "scheduled_events_state_directory": "{{ vm_directory }}/state",
            "respond_wait_timeout": 120,
        }
        return inventory

    def run(self, hosts=None, *, playbook=PLAYBOOK, check=False, host_vars=None, options=(), env=None):
        inventory = self.inventory(hosts, **(host_vars or {}))
        options = (*NAMED, *options)
        return self.ansible.run_playbook(playbook, inventory=inventory, check=check, options=options, env=env)

    def start(self, hosts=None, *, playbook=PLAYBOOK, host_vars=None, options=(), env=None):
        inventory = self.inventory(hosts, **(host_vars or {}))
        return self.ansible.start_playbook(playbook, inventory=inventory, options=(*NAMED, *options), env=env)

    def traces(self, name):
        return sorted(path.name for path in (self.directory / name).iterdir() if path.name != "state")

    def is_prepared(self, name, event_id):
        return (self.directory / name / f"prepared-{event_id}").exists()

    def prepared_at(self, name, event_id):
        return float((self.directory / name / f"prepared-{event_id}").read_text())

    def recoveries(self, name):
        path = self.directory / name / "recovered"
        return [line.split()[1:] for line in path.read_text().splitlines()] if path.exists() else []

    def recovered_at(self, name):
        return float((self.directory / name / "recovered").read_text().split()[0])

    def remembered(self, name):
        path = self.directory / name / "state" / "respond.json"
        return json.loads(path.read_text())["events"] if path.exists() else {}


def approved_at(emulator, event_id):
    return [entry["at_real"] for entry in emulator.log("approved") if entry["event_id"] == event_id]


def removed_at(emulator, event_id):
    return next(entry["at_real"] for entry in emulator.log("removed") if entry["event_id"] == event_id)


def result(run, host):
    return ended(run, host)["respond_result"]


def ended(run, host):
    """The last turn of a host."""
    [last] = [turn for turn in run.all(host=host, action=TURN) if turn.result.get("next") == "done"]
    return last


# Of the tasks files of the tests.
LAST_TASKS = ("Record the end of preparing", "Record the run of the tasks for a started event")
FAILED = re.compile(r"^(\S+): \S+ \S+ prepare failed: ", re.MULTILINE)  # what the role shows


def cancel_once_waited_for(emulator, event_id, run, *names):
    """Withdraw an event as soon as these hosts have done what they do before they wait for its end."""

    def wait():
        done = [task.host for task in run.tasks if task.task.rpartition(" : ")[2] in LAST_TASKS]
        return set(names) <= {*done, *FAILED.findall(run.output)} or not run.running

    until(wait, what="the wait")
    emulator.cancel(event_id)
