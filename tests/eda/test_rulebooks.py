# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rulebooks with a real ansible-rulebook, which runs the playbook respond on hosts that are all on this machine."""

import http.client
import json
import random
import time

import pytest
from emulation import ask
from ports import free_port
from responders import AHEAD, Hosts

TOKEN = "not-a-secret"
NOT_A_NAME = ["@/etc/hostname", "~.*", "!vm1", "vm1,vm2", "vm1:vm2", "vm*", "", "all", "ungrouped"]


class Fleet:
    """The hosts of an emulator, and what became of the events that were announced to them."""

    def __init__(self, azure, directory):
        self.azure = azure
        self.hosts = Hosts(azure.emulator, None, directory)
        self.inventory = self.hosts.inventory()
        self.posts = []  # of emulators that have ended

    def announce(self, *names):
        return self.azure.emulator.schedule("Redeploy", *names, notice=AHEAD, started_for=60)

    def restart_azure(self):
        self.posts += self.azure.emulator.posts()
        self.azure.restart()

    def is_over(self, event_id, *names):
        return all([event_id] in self.hosts.recoveries(name) for name in names)

    def acknowledgements(self, event_id):
        return [status for _vm, ids, status in self.posts + self.azure.emulator.posts() if event_id in ids]


@pytest.fixture(scope="module")
def fleet_of(azure, tmp_path_factory):
    return lambda *names, options=(): Fleet(azure(*names, options=options), tmp_path_factory.mktemp("vms"))


def post(port, body, token=TOKEN):
    """Send JSON to a webhook; the status of the answer, None without one."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        return ask(f"http://127.0.0.1:{port}", "POST", "/", body=json.dumps(body), headers=headers)[0]
    except (OSError, http.client.HTTPException):
        return None


class OnSource:
    """Three events: of two VMs, after the emulator was started again, and while the rulebook was down."""

    def __init__(self, fleet, start_rulebook):
        self.fleet = fleet
        endpoints = list(fleet.azure.emulator.endpoints.values())
        variables = {"scheduled_events_endpoints": endpoints, "scheduled_events_scope": "this_vm"}
        rulebook = start_rulebook("respond_on_source", fleet.inventory, variables)
        self.of_two = fleet.announce("vm1", "vm2")
        rulebook.until(lambda: fleet.is_over(self.of_two, "vm1", "vm2"), "the answer to the first event")
        fleet.restart_azure()
        self.after_restart = fleet.announce("vm1")
        rulebook.until(lambda: fleet.is_over(self.after_restart, "vm1"), "the answer after the restart")
        rulebook.wait_until_idle()
        rulebook.kill()
        self.while_down = fleet.announce("vm2")
        rulebook = start_rulebook("respond_on_source", fleet.inventory, variables)
        rulebook.until(lambda: fleet.is_over(self.while_down, "vm2"), "the answer to what came while it was down")
        self.left_over = self.leave_a_recovery(rulebook)
        variables = {**variables, "scheduled_events_sweep_after": 0}
        rulebook = start_rulebook("respond_on_source", fleet.inventory, variables)
        rulebook.until(lambda: fleet.is_over(self.left_over, "vm1"), "the recovery of the event from before")
        rulebook.wait_until_idle()

    def leave_a_recovery(self, rulebook):
        """Kill the rulebook and its play in the middle of an event, which ends then; the id of the event."""
        hosts, emulator = self.fleet.hosts, self.fleet.azure.emulator
        hold = hosts.directory / "vm1" / "hold"
        hold.touch()
        event_id = self.fleet.announce("vm1")
        rulebook.until(lambda: f"preparing-{event_id}" in hosts.traces("vm1"), "the preparation")
        rulebook.kill()
        hold.unlink()
        emulator.cancel(event_id)
        return event_id


@pytest.fixture(scope="module")
def on_source(fleet_of, start_rulebook):
    return OnSource(fleet_of("vm1", "vm2"), start_rulebook)


def test_an_event_of_two_vms_that_both_report_it_is_acknowledged_once(on_source):
    assert on_source.fleet.acknowledgements(on_source.of_two) == [200]


def test_an_event_after_a_restart_of_the_service_is_acknowledged_once(on_source):
    assert on_source.fleet.acknowledgements(on_source.after_restart) == [200]


def test_an_event_announced_while_the_rulebook_was_down_is_acknowledged_once_when_it_is_back(on_source):
    assert on_source.fleet.acknowledgements(on_source.while_down) == [200]


def test_a_host_whose_event_ended_while_the_rulebook_was_down_recovers_by_the_sweep(on_source):
    assert on_source.fleet.acknowledgements(on_source.left_over) == []
    assert [on_source.left_over] in on_source.fleet.hosts.recoveries("vm1")


def test_each_host_recovers_once_from_each_event(on_source):
    recoveries = on_source.fleet.hosts.recoveries
    assert recoveries("vm1") == [[on_source.of_two], [on_source.after_restart], [on_source.left_over]]
    assert recoveries("vm2") == [[on_source.of_two], [on_source.while_down]]


@pytest.mark.long
def test_an_event_that_was_accepted_before_the_rulebook_was_killed_is_responded_to_with_persistence_alone(
    fleet_of, start_rulebook, tmp_path
):
    fleet = fleet_of("vm1")
    variables = {
        "scheduled_events_endpoints": list(fleet.azure.emulator.endpoints.values()),
        "scheduled_events_sweep_after": 36000,
        "drools_db_file_path": str(tmp_path / "rules"),
    }
    options = ("--persistence-id", "1")
    rulebook = start_rulebook("respond_on_source", fleet.inventory, variables, options)
    hold = fleet.hosts.directory / "vm1" / "hold"
    hold.touch()
    event = fleet.announce("vm1")
    rulebook.until(lambda: f"preparing-{event}" in fleet.hosts.traces("vm1"), "the preparation")
    rulebook.kill()
    hold.unlink()
    fleet.azure.emulator.cancel(event)  # so that the source has nothing to send
    rulebook = start_rulebook("respond_on_source", fleet.inventory, variables, options)
    rulebook.until(lambda: fleet.is_over(event, "vm1"), "the run that was interrupted")
    rulebook.wait_until_idle()


class OnWebhook:
    """Two events that polling units report, the second one while the receiver is down."""

    def __init__(self, fleet, start_rulebook):
        self.fleet = fleet
        self.port = free_port()
        variables = {"scheduled_events_token": TOKEN, "scheduled_events_port": self.port}
        variables["scheduled_events_sweep_after"] = 3600  # no run but for the reports
        rulebook = start_rulebook("respond_on_webhook", fleet.inventory, variables)
        rulebook.until(lambda: self.report("", "vm1", token="guessed") is not None, "the receiver")
        self.without_resources = self.report("A1", vm_name="vm1")
        self.patterns = [self.report(f"A{number}", "vm1", name) for number, name in enumerate(NOT_A_NAME, 2)]
        self.first = fleet.announce("vm1", "vm2")
        self.refused = self.report(self.first, "vm1", "vm2", token="guessed")
        self.accepted = [self.report(self.first, "vm1", "vm2") for _unit in ("vm1", "vm2")]
        rulebook.until(lambda: fleet.is_over(self.first, "vm1", "vm2"), "the answer to the first event")
        rulebook.wait_until_idle()
        self.runs = rulebook.output.count("\nPLAY RECAP")
        self.extended = self.extend(rulebook)
        rulebook.kill()
        self.second = fleet.announce("vm2")
        self.while_down = self.report(self.second, "vm2")
        rulebook = start_rulebook("respond_on_webhook", fleet.inventory, variables)
        rulebook.until(lambda: self.report(self.second, "vm2") == 200, "the receiver")
        rulebook.until(lambda: fleet.is_over(self.second, "vm2"), "the answer to the second event")
        rulebook.wait_until_idle()

    def extend(self, rulebook):
        """Report an event of a VM and, while its run waits for the other one, of both VMs; the id of the event."""
        event_id = self.fleet.announce("vm1", "vm2")
        for names in (["vm1"], ["vm1", "vm2"]):  # within the time in which reports of the same content run once
            self.report(event_id, *names)
            rulebook.until(
                lambda name=names[-1]: self.fleet.hosts.is_prepared(name, event_id), "the last VM to prepare"
            )
        self.fleet.azure.emulator.cancel(event_id)
        rulebook.until(lambda: rulebook.output.count("\nPLAY RECAP") == self.runs + 2, "the end of both runs")
        rulebook.wait_until_idle()
        return event_id

    def report(self, event_id, *resources, vm_name=None, phase="prepare", token=TOKEN):
        """Send what a polling unit sends; the status of the answer, None without one."""
        body = {"event_id": event_id, "event_type": "Redeploy", "event_status": "Scheduled", "resources": resources}
        body.update(phase=phase, vm_name=vm_name or resources[0], id=f"{event_id}-{phase}", time="2026-11-22T00:00:00Z")
        return post(self.port, body, token)


@pytest.fixture(scope="module")
def on_webhook(fleet_of, start_rulebook):
    return OnWebhook(fleet_of("vm1", "vm2"), start_rulebook)


def test_an_event_that_two_polling_units_report_is_acknowledged_once(on_webhook):
    assert on_webhook.accepted == [200, 200]
    assert on_webhook.fleet.acknowledgements(on_webhook.first) == [200]


def test_a_report_without_resources_runs_nothing_and_two_of_one_event_run_once(on_webhook):
    assert on_webhook.without_resources == 200
    assert on_webhook.runs == 1


def test_a_report_with_a_resource_that_is_a_pattern_or_a_file_to_ansible_runs_nothing(on_webhook):
    assert on_webhook.patterns == [200] * len(NOT_A_NAME)
    assert on_webhook.runs == 1


def test_a_sender_without_the_token_is_refused(on_webhook):
    assert on_webhook.refused == 401


def test_an_event_that_is_reported_again_after_a_restart_of_the_receiver_is_acknowledged_once(on_webhook):
    assert on_webhook.while_down is None
    assert on_webhook.fleet.acknowledgements(on_webhook.second) == [200]


def test_each_host_recovers_once_from_each_reported_event(on_webhook):
    recoveries = on_webhook.fleet.hosts.recoveries
    assert recoveries("vm1") == [[on_webhook.first], [on_webhook.extended]]
    assert recoveries("vm2") == [[on_webhook.first], [on_webhook.extended], [on_webhook.second]]


def test_a_vm_that_an_event_names_later_is_prepared_while_the_first_run_waits(on_webhook):
    assert on_webhook.fleet.hosts.is_prepared("vm2", on_webhook.extended)
    assert on_webhook.fleet.acknowledgements(on_webhook.extended) == []


class OnEventGrid:
    """Two events, each message of which the emulator posts twice; those of the first come again after its end."""

    def __init__(self, fleet, port, start_rulebook):
        self.fleet = fleet
        variables = {"scheduled_events_token": TOKEN, "scheduled_events_port": port}
        variables["scheduled_events_sweep_after"] = 3600  # no run but for the messages
        self._rulebook = start_rulebook("respond_on_event_grid", fleet.inventory, variables)
        self.first = self._respond_to("vm1", "vm2")
        self.runs = [self._runs()]
        messages = fleet.azure.emulator.control("GET", "event-grid")["messages"]
        assert post(port, [*reversed(messages), {"eventType": "Perhaps"}]) == 200
        self._respond_to("vm2")
        self.runs.append(self._runs())

    def _respond_to(self, *names):
        """Announce an event, and wait for the end of its two runs; the id of the event."""
        expected = self._runs() + 2
        event = self.fleet.announce(*names)
        self._rulebook.until(lambda: self.fleet.is_over(event, *names), "the answer to the event")
        self._rulebook.until(lambda: self._runs() >= expected, "the run after the end")
        self._rulebook.wait_until_idle()
        return event

    def _runs(self):
        return self._rulebook.output.count("\nPLAY RECAP")


@pytest.fixture(scope="module")
def webhook(tmp_path_factory):
    """Return a function: a port for a rulebook, and the options with which the emulator posts messages there."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN)

    def choose():
        port = free_port()
        return port, ("--event-grid-url", f"http://127.0.0.1:{port}/", "--event-grid-token-file", str(token))

    return choose


@pytest.fixture(scope="module")
def on_event_grid(fleet_of, start_rulebook, webhook):
    port, options = webhook()
    return OnEventGrid(fleet_of("vm1", "vm2", options=(*options, "--event-grid-repeats", "1")), port, start_rulebook)


def test_an_event_that_event_grid_reports_twice_is_acknowledged_once(on_event_grid):
    assert on_event_grid.fleet.acknowledgements(on_event_grid.first) == [200]
    recoveries = on_event_grid.fleet.hosts.recoveries
    assert recoveries("vm1") == [[on_event_grid.first]]


def test_event_grid_starts_a_run_for_an_announcement_and_one_for_its_end_and_none_for_what_comes_late(on_event_grid):
    assert on_event_grid.runs == [2, 4]


MONTH = 30 * 86400
WAVES, EVENTS, CANCELED = 10, 6, 4  # 60 events, 40 of which are canceled, with 200 messages
RECORD = """
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.tempfile:
        path: {records}
        prefix: "{{{{ ansible_eda.event.event_id }}}} {{{{ ansible_eda.event.change }}}} "
"""


@pytest.mark.long
def test_each_of_60_events_has_one_run_for_its_announcement_at_most_and_one_for_its_end(
    azure, webhook, start_rulebook, tmp_path
):
    port, options = webhook()
    emulator = azure(
        "vm1", "vm2", options=(*options, "--event-grid-repeats", "1", "--event-grid-disorder", "3")
    ).emulator
    playbook, records = tmp_path / "record.yml", tmp_path / "records"
    records.mkdir()
    playbook.write_text(RECORD.format(records=records))
    variables = {"scheduled_events_token": TOKEN, "scheduled_events_port": port}
    more = {"scheduled_events_playbook": str(playbook), "scheduled_events_sweep_after": 36000}
    rulebook = start_rulebook("respond_on_event_grid", Hosts(emulator, None, tmp_path).inventory(), variables | more)

    def runs():
        return sorted(record.name.split()[:2] for record in records.iterdir())

    kept, gone = [], []
    for _wave in range(WAVES):
        ids = [emulator.schedule("Reboot", f"vm{number % 2 + 1}", notice=MONTH).lower() for number in range(EVENTS)]
        for event_id in ids[:CANCELED]:
            emulator.cancel(event_id)
        gone += ids[:CANCELED]
        kept += ids[CANCELED:]
        expected = [*([event_id, "new"] for event_id in kept), *([event_id, "gone"] for event_id in gone)]
        rulebook.until(lambda: all(run in runs() for run in expected), "a run for each event")  # noqa: B023
        rulebook.wait_until_idle()
    rulebook.kill()
    assert len(emulator.control("GET", "event-grid")["messages"]) * 2 == 200
    assert len({tuple(run) for run in runs()}) == len(runs())
    assert {event_id for event_id, change in runs() if change == "new"} >= set(kept)
    assert [event_id for event_id, change in runs() if change == "gone"] == sorted(gone)


@pytest.mark.long
@pytest.mark.parametrize("_time", range(3))
def test_no_event_is_lost_when_the_rulebook_is_killed_at_any_moment_since_a_sweep_follows(
    azure, webhook, start_rulebook, tmp_path, _time
):
    port, options = webhook()
    fleet = Fleet(azure("vm1", "vm2", options=options), tmp_path)
    variables = {"scheduled_events_token": TOKEN, "scheduled_events_port": port}
    rulebook = start_rulebook("respond_on_event_grid", fleet.inventory, variables)
    event = fleet.announce("vm1", "vm2")
    rulebook.until(lambda: fleet.hosts.traces("vm1"), "the preparation")
    time.sleep(random.uniform(0, 5))
    rulebook.kill()
    rulebook = start_rulebook(
        "respond_on_event_grid", fleet.inventory, {**variables, "scheduled_events_sweep_after": 0}
    )
    rulebook.until(lambda: fleet.is_over(event, "vm1", "vm2"), "the answer to the event")
    rulebook.wait_until_idle()
    rulebook.kill()
    assert 200 in fleet.acknowledgements(event)
