# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role respond with hosts that leave their load balancer first and return last."""

import os
import random
import socket
import time

import pytest
from emulation import until
from haproxies import Backend

PLAYBOOK = "maintops.scheduled_events.respond"
KILLS = int(os.environ.get("RESPOND_KILLS", "2"))


class Fleet:
    """Hosts that are all this machine, each with a service behind a balancer that probes."""

    def __init__(self, emulator, ansible, directory):
        self.emulator, self._ansible, self.directory = emulator, ansible, directory
        self.backends = {}
        for name in emulator.endpoints:
            (directory / name).mkdir()
            self.backends[name] = Backend(directory / name / "drained")

    def start(self, *options):
        inventory = self.emulator.inventory(
            scheduled_events_endpoint=lambda name: self.emulator.endpoints[name],
            scheduled_events_state_directory=lambda name: str(self.directory / name / "state"),
            load_balancer_probe_flag=lambda name: str(self.backends[name].flag),
            load_balancer_probe_url=lambda name: f"http://127.0.0.1:{self.backends[name].port}/healthz",
            load_balancer_ports=lambda name: [self.backends[name].port],
        )
        inventory["all"]["vars"] = {
            "ansible_become": False,
            "respond_load_balancer": True,
            "respond_wait_timeout": 300,
            "load_balancer_probe_interval": 0.1,
        }
        return self._ansible.start_playbook(
            PLAYBOOK, inventory=inventory, options=("-e", "respond_hosts=all", *options)
        )

    def left_behind(self):
        """What there should not be once all is over, unlike the history and the lock."""
        files = (path for name in self.backends for path in (self.directory / name).rglob("*") if path.is_file())
        return [str(path) for path in files if path.name not in ("history.jsonl", ".lock")]

    def stop(self):
        for backend in self.backends.values():
            backend.stop()


@pytest.fixture
def fleet_of(fleet, ansible, tmp_path):
    running = []

    def start(*names, options=()):
        options = ("--rate-limit", "0", "--exit-after", "7200", *options)
        running.append(Fleet(fleet(*names, options=options), ansible, tmp_path))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def changes(run, name):
    """How often the host was taken out or put back."""
    tasks = run.all(action="maintops.scheduled_events.load_balancer", host=name)
    return len([task for task in tasks if task["changed"]])


@pytest.mark.timeout(900)
def test_a_short_notice_is_not_held_up_by_a_long_drain_even_with_a_single_fork(fleet_of):
    hosts = fleet_of("web1", "web2")
    slow = hosts.emulator.schedule("Redeploy", "web1", notice=900, started_for=1)
    urgent = hosts.emulator.schedule("Preempt", "web2", notice=600, started_for=1)
    with socket.create_connection(("127.0.0.1", hosts.backends["web1"].port)):
        started = hosts.start("--forks", "1")
        until(hosts.emulator.posts, what="the acknowledgement of the urgent event")
        assert [ids for _vm, ids, _status in hosts.emulator.posts()] == [[urgent]]
        assert hosts.backends["web1"].flag.exists()
    run = started.result()
    assert run.rc == 0, run.output
    assert [ids for _vm, ids, _status in hosts.emulator.posts()] == [[urgent], [slow]]
    assert changes(run, "web1") == changes(run, "web2") == 2
    assert hosts.left_behind() == []


@pytest.mark.timeout(900)
def test_a_host_under_maintenance_is_prepared_when_not_before_is_near_whatever_its_connections_do(fleet_of):
    hosts = fleet_of("web1", options=("--manual-clock",))  # so that no NotBefore comes
    mark = hosts.directory / "web1" / "state" / "maintenance-under-way"
    mark.parent.mkdir()
    mark.touch()
    event_id = hosts.emulator.schedule("Redeploy", "web1", notice=25)
    with socket.create_connection(("127.0.0.1", hosts.backends["web1"].port)):
        started = hosts.start("-e", "respond_maintenance_margin=10", "-e", "load_balancer_on_timeout=continue")
        until(lambda: hosts.emulator.log("approved") or not started.running, what="the acknowledgement")
    hosts.emulator.complete(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    assert "after 0 s it still has 1 on port" in run.output
    (scheduled,), (approved,) = hosts.emulator.log("scheduled"), hosts.emulator.log("approved")
    assert approved["at_real"] - scheduled["at_real"] >= 14  # a second is lost to rounding


@pytest.mark.timeout(900)
def test_extra_variables_of_the_load_balancer_replace_nothing_that_the_phase_decides(fleet_of):
    hosts = fleet_of("web1", options=("--manual-clock",))
    event_id = hosts.emulator.schedule("Reboot", "web1", notice=900)
    hosts.emulator.start(event_id)
    own = {"drain_timeout": 600, "on_timeout": "fail", "holder": "ops", "state": "active"}
    options = (word for name, value in own.items() for word in ("-e", f"load_balancer_{name}={value}"))
    with socket.create_connection(("127.0.0.1", hosts.backends["web1"].port)):
        started = hosts.start(*options)
        until(lambda: "after 0 s it still has 1 on port" in started.output or not started.running, what="the drain")
    assert hosts.backends["web1"].flag.exists()
    hosts.emulator.complete(event_id)
    run = started.result()
    assert run.rc == 0, run.output
    assert hosts.left_behind() == []


def kill(run, results, later):
    """Kill a run some time after it has so many results: a time alone is often before the first or after the end."""
    until(lambda: len(run.tasks) >= results or not run.running, what=f"{results} results")
    time.sleep(later)
    run.stop()


@pytest.mark.timeout(300 * KILLS)
def test_a_controller_that_dies_at_a_random_moment_leaves_nothing_that_the_next_run_does_not_finish(fleet_of):
    hosts = fleet_of("web1", "web2")
    chance = random.Random()
    results = 20  # of a run, about
    for _kill in range(KILLS):
        event_id = hosts.emulator.schedule("Redeploy", "web1", "web2", notice=900, started_for=1)
        interrupted = hosts.start()
        moment, later = chance.randrange(results), chance.uniform(0, 1)
        kill(interrupted, moment, later)
        run = hosts.start().result()
        results = len(run.tasks)
        killed = f"killed {later:.2f} s after {moment} results"
        assert run.rc == 0, f"{killed}\n{run.output}"
        posts = [ids for _vm, ids, _status in hosts.emulator.posts() if event_id in ids]
        assert 1 <= len(posts) <= 2, f"{killed}: {posts}"
        assert hosts.emulator.state()["events"] == []
        assert hosts.left_behind() == [], killed
