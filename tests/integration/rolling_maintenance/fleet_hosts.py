# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook rolling_maintenance, run for the VMs of an emulator."""

import pathlib

TASKS = pathlib.Path(__file__).parent / "tasks"
PLAYBOOK = "maintops.scheduled_events.rolling_maintenance"
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_retries": 0}


class Hosts:
    """The hosts of one emulator, each with a directory where its tasks leave their traces."""

    def __init__(self, emulator, ansible, directory):
        self.emulator, self.ansible, self.directory = emulator, ansible, directory
        for name in emulator.endpoints:
            (directory / name).mkdir()

    def start(self, *, check=False, host_vars=None, serial=1, env=None, extra=(), play=None, hosts=None, **variables):
        """Start the playbook, or the role in a ``play`` with these keywords.

        :param extra: more options of the command line.
        :param hosts: the hosts of the play; all if left out.
        """
        inventory = self.emulator.inventory(
            scheduled_events_endpoint=lambda name: self.emulator.endpoints[name],
            vm_directory=lambda name: str(self.directory / name),
        )
        for name, more in (host_vars or {}).items():
            inventory["all"]["hosts"].setdefault(name, {}).update(more)
        inventory["all"]["vars"] = {
            "ansible_become": False,
            "rolling_maintenance_load_balancer": False,
            "scheduled_events_state_directory": "{{ vm_directory }}/state",
            "rolling_maintenance_tasks": str(TASKS / "maintain.yml"),
            "rolling_maintenance_reboot": "never",
            "rolling_maintenance_reboot_tasks": str(TASKS / "reboot.yml"),
            "rolling_maintenance_gate_timeout": 250,
            "rolling_maintenance_settle": 0,
            # Where the gate looks for the flag; there is none on this machine.
            "load_balancer_probe_flag": "{{ vm_directory }}/drained",
            **variables,
        }
        # A play reads them before it knows any host.
        hosts = hosts or list(self.emulator.endpoints)
        of_play = {"rolling_maintenance_serial": serial, "rolling_maintenance_hosts": hosts}
        playbook = PLAYBOOK
        if play is not None:
            own = {"hosts": hosts, "serial": serial, "gather_facts": False, "roles": [{"role": PLAYBOOK}]}
            playbook = [{**own, **play}]
        return self.ansible.start_playbook(
            playbook, inventory=inventory, check=check, extra_vars=of_play, env=env, options=extra
        )

    def run(self, *, rc=0, **how):
        run = self.start(**how).result()
        assert run.rc == rc, run.output
        return run

    def maintained(self):
        """The hosts that were maintained since the last call, in order."""
        paths = [self.directory / name / "maintained" for name in self.emulator.endpoints]
        times = {path.parent.name: float(path.read_text()) for path in paths if path.exists()}
        for name in times:
            (self.directory / name / "maintained").unlink()
        return sorted(times, key=times.get)

    def mark(self, name):
        """The file that says that the host is under maintenance."""
        return self.directory / name / "state" / "maintenance-under-way"

    def marked(self):
        return [name for name in self.emulator.endpoints if self.mark(name).exists()]

    def trace(self, name):
        """What happened on the host, in order."""
        path = self.directory / name / "trace"
        return path.read_text().split() if path.exists() else []


def says(run, text):
    return " ".join(text.split()) in " ".join(run.output.split())
