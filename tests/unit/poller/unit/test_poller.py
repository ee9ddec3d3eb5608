# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell: a real process against a small service on loopback."""

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import time
import types

import pytest
from _scheduled_events import engine, state, terms, transitions
from _scheduled_events.clock import Clock
from _scheduled_events.document import parse
from _scheduled_events.history import Fact, line_of
from _scheduled_events.rules import parse_rules
from polling_unit import GIVE_UP, ID, OTHER_ID, until
from scheduled_events_poller import systemd
from scheduled_events_poller.spool import Directories
from scheduled_events_poller.unit import display, instance, poller, service, status
from scheduled_events_poller.unit.config import Settings


@pytest.mark.edge
def test_an_event_is_prepared_acknowledged_and_recovered(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, f"echo $SCHEDULED_EVENT_PHASE >> {unit.path('ran')}")
    unit.start(separately=True)
    imds.announce()
    unit.await_acknowledgement()
    assert imds.posts == [{"StartRequests": [{"EventId": ID}]}]
    imds.events = []
    until(lambda: ": over\n" in unit.log(), "the end")
    with open(unit.path("ran")) as file:
        assert file.read() == "prepare\nrecover\n"


def test_an_event_that_nothing_prepares_for_is_left_to_its_not_before_and_every_view_says_so(unit, imds):
    unit.add_hook("prepare", f"echo $SCHEDULED_EVENT_PHASE >> {unit.path('ran')}; exit 77", name="0-notify")
    unit.configure(metrics_directory=unit.path(""))
    unit.start()
    imds.announce()
    reason = (
        "not acknowledged, because no prepare hook prepared this VM: 0-notify ended with exit status 77; waiting for "
        f"NotBefore. If a hook has to run again, run 'scheduled-events retry {ID}'"
    )
    until(lambda: f"{ID}: {reason}\n" in unit.log(), "the note")
    until(lambda: reason in unit.command("status")[1], "the status")
    with open(unit.path("scheduled_events.prom")) as file:
        metrics = file.read()
    assert "scheduled_events_unprepared_events 1\n" in metrics
    assert 'scheduled_events_hook_runs_total{phase="prepare",outcome="nothing"} 1\n' in metrics
    facts = json.loads(unit.command("history", "--json")[1])["facts"]
    assert [fact["outcome"] for fact in facts if fact["kind"] == "phase_ended"] == ["nothing"]
    assert [fact["reason"] for fact in facts if fact["kind"] == "held"] == [
        "nothing prepared: 0-notify ended with exit status 77"
    ]
    assert (unit.ran(), imds.posts) == ("prepare\n", [])
    unit.add_hook("prepare", f"echo drained >> {unit.path('ran')}")  # and this one is a preparation
    unit.await_acknowledgement()
    assert unit.ran() == "prepare\nprepare\ndrained\n"


def test_an_event_that_was_only_reported_is_not_acknowledged_although_its_owner_wants_that_after_a_failure(unit, imds):
    unit.add_hook("prepare", "exec sleep 60", name="0-webhooks")  # as on a disk that hangs
    unit.configure(on_failure="approve", hook_timeout=1)
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks ended: timeout" in unit.log(), "the failure")
    until(lambda: "not acknowledged, because its prepare hooks did not succeed" in unit.command("status")[1], "status")
    assert imds.posts == []


IN_2037, IN_2037_LESS_A_DAY = "Thu, 01 Jan 2037 00:00:00 GMT", "2036-12-31T00:00:00Z"


def waits(unit, imds, **rule):
    """An event that waits for years, with a hook that would run."""
    unit.add_hook("prepare", f"echo $SCHEDULED_EVENT_PHASE >> {unit.path('ran')}")
    unit.configure(rules=[{"lead_time": 86400, **rule}], metrics_directory=unit.path(""))
    unit.start()
    imds.announce(NotBefore=IN_2037)
    until(lambda: f"waits until {IN_2037_LESS_A_DAY} (86400 s before NotBefore)" in unit.log(), "the note")


def test_every_view_of_a_vm_shows_the_moment_for_which_an_event_waits(unit, imds):
    waits(unit, imds, action="prepare")
    until(lambda: "waits until" in unit.command("status")[1], "the status")
    known = json.loads(unit.command("status", "--json")[1])
    assert (known["exit_code"], known["maintenance_pending"]) == (0, True)
    assert [event["waits_until"] for event in known["events"]] == [IN_2037_LESS_A_DAY]
    with open(unit.path("scheduled_events.prom")) as file:
        assert "scheduled_events_waits_until_timestamp_seconds 2114294400\n" in file.read()
    facts = json.loads(unit.command("history", "--json")[1])["facts"]
    assert [fact["reason"] for fact in facts if fact["kind"] == "held"] == [
        "waits for its moment: 86400 s before NotBefore"
    ]
    assert f"{ID}: in service: waits until {IN_2037_LESS_A_DAY}" in unit.command("poll")[1]
    assert (unit.ran(), imds.posts) == ("", [])


@pytest.mark.parametrize("command", ["retry", "approve"])
def test_an_operator_starts_an_event_before_its_moment(unit, imds, command):
    waits(unit, imds, action="prepare")
    assert unit.command(command, ID)[0] == 0
    unit.await_acknowledgement()
    assert (unit.ran(), imds.acknowledged()) == ("prepare\n", [[ID]])


def test_the_longest_preparations_of_the_history_raise_a_lead_time_with_a_warning(unit, imds):
    path = unit.path("history")
    os.makedirs(path)
    same = {"source": "poller", "phase": "prepare", "event_id": OTHER_ID}
    facts = [
        Fact(kind="phase_began", time=time.time() - 90000, **same),
        Fact(kind="phase_ended", time=time.time() - 89500, outcome="ok", **same),
    ]
    with open(os.path.join(path, "history.jsonl"), "wb") as file:
        file.writelines(map(line_of, facts))
    unit.add_hook("prepare", "true")
    unit.configure(rules=[{"action": "prepare", "lead_time": 60}])
    unit.start()
    imds.announce(NotBefore=IN_2037)
    until(lambda: "(515 s before NotBefore, and not 60 s as its rule says, since" in unit.log(), "the warning")
    until(lambda: unit.command("status")[0] == 1, "the status WARNING")


def test_the_journal_shows_the_id_of_an_event_as_azure_writes_it_until_the_end(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, "true")
    unit.acknowledge(imds)
    imds.events = []
    until(lambda: ": over\n" in unit.log(), "the end")
    assert f"{ID}: over\n" in unit.log()
    assert f"{ID}: recover hooks ended: ok\n" in unit.log()
    assert ID.upper() == ID
    assert ID.lower() not in unit.log()


def test_polls_share_one_connection_and_the_patient_one_has_its_own(unit, imds):
    imds.status = 500
    unit.start()
    until(lambda: imds.polls > 2, "the patient poll")
    imds.status = 200
    until(lambda: imds.polls > 8, "more polls")
    assert len(imds.connections) == 2


def test_an_acknowledgement_at_the_start_stays_within_the_five_requests_of_a_second(unit, imds):
    unit.configure(interval=5, rules=[{"action": "approve"}])
    imds.announce()
    unit.start()
    unit.await_acknowledgement()
    assert (imds.polls, imds.names_asked, len(imds.posts)) == (2, 1, 1)


def test_a_hanging_poll_holds_up_no_acknowledgement(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks run" in unit.log(), "preparation")
    imds.hang_next = True
    assert imds.hanging.wait(GIVE_UP)
    open(unit.path("go"), "w").close()
    unit.await_acknowledgement()
    assert not imds.release.is_set()


@pytest.mark.edge
def test_sigterm_ends_it_while_a_request_hangs_and_leaves_hooks_alone(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done; echo > {unit.path('ended')}")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks run" in unit.log(), "preparation")
    imds.hang_next = True
    assert imds.hanging.wait(GIVE_UP)
    unit.process.terminate()
    unit.await_notification("STOPPING=1")
    assert unit.process.wait(GIVE_UP) == 0
    open(unit.path("go"), "w").close()
    until(lambda: os.path.exists(unit.path("ended")), "the end of the hook")
    unit.start()  # and the next process finds its result
    unit.await_acknowledgement()


def test_a_reload_with_a_bad_configuration_keeps_the_running_one_and_says_so(unit, imds):
    unit.add_hook("prepare", "true")
    unit.start()
    unit.configure(acknowledge="sometimes")
    unit.process.send_signal(signal.SIGHUP)
    unit.await_notification("RELOADING=1")
    unit.await_notification("READY=1")
    assert "the new configuration is refused, the running one stays in force" in unit.log()
    imds.announce()
    unit.await_acknowledgement()


def test_a_reload_brings_new_rules_into_force(unit, imds):
    unit.add_hook("prepare", "true")
    unit.configure(acknowledge="never")
    unit.start()
    imds.announce()
    until(lambda: "because acknowledge is never" in unit.log(), "the note")
    unit.configure(acknowledge="alone")
    unit.process.send_signal(signal.SIGHUP)
    unit.await_acknowledgement()


def test_a_unit_that_looks_for_the_events_of_another_name_does_not_look_well(unit, imds):
    def status():
        return json.loads(unit.command("status", "--json")[1])

    imds.announce()
    unit.add_hook("prepare", "true")
    unit.configure(vm_name="vm2")
    unit.start()
    until(lambda: 'gives this VM, which is "vm1"' in status()["summary"], "the warning")
    assert (status()["exit_code"], status()["events"], status()["maintenance_pending"]) == (1, [], True)
    assert unit.log().count('vm_name: "vm2" is not the name') == 1
    unit.configure(vm_name="VM1")
    unit.process.send_signal(signal.SIGHUP)
    until(lambda: len(status()["events"]) == 1, "the event")
    assert (status()["exit_code"], status()["misnamed"]) == (0, "")


def test_an_unreadable_state_is_kept_and_reported(unit, imds):
    unit.add_hook("prepare", "true")
    with open(unit.path("state.json"), "w") as file:
        file.write("{broken")
    unit.acknowledge(imds)
    (kept,) = [name for name in os.listdir(unit.path("")) if name.startswith("state.json.broken-")]
    with open(unit.path(kept)) as file:
        assert file.read() == "{broken"
    assert f"kept as {unit.path(kept)}" in unit.log()


def lose_the_state(unit, text="{broken"):
    """Kill the unit, and damage its state."""
    unit.kill()
    with open(unit.path("state.json"), "w") as file:
        file.write(text)


def drained_and_over(unit, imds, recover="true"):
    """An event that was prepared, and that Azure removes while the unit does not run."""
    unit.add_hook("prepare", "true")
    unit.add_hook("recover", recover)
    unit.acknowledge(imds)


@pytest.mark.parametrize("text", ["{broken", "", '{"version": 99}'])
def test_a_vm_that_was_drained_before_its_state_was_lost_is_a_failed_recovery_until_an_operator_acts(unit, imds, text):
    drained_and_over(unit, imds, recover=f"echo x >> {unit.path('recovered')}")
    lose_the_state(unit, text)
    imds.events = []
    unit.start()
    lost = "recovery failed: the state of the polling unit was lost"
    until(lambda: lost in unit.command("status")[1], "the status")
    assert unit.command("status")[0] == 1
    assert json.loads(unit.command("status", "--json")[1])["maintenance_pending"] is True
    unit.restart()
    until(lambda: lost in unit.command("status")[1], "the same status after a restart")
    assert not os.path.exists(unit.path("recovered"))
    assert unit.command("retry", ID)[0] == 0
    until(lambda: f"{ID}: over\n" in unit.log(), "the end")
    with open(unit.path("recovered")) as file:
        assert file.read() == "x\n"
    lose_the_state(unit)
    unit.start()
    until(lambda: unit.command("status")[1].startswith("OK: 0 events"), "nothing is owed any more")


def test_the_hooks_for_failures_run_for_an_event_whose_state_was_lost(unit, imds):
    unit.add_hook("failed", f"echo $SCHEDULED_EVENT_FAILED_PHASE >> {unit.path('failed')}")
    drained_and_over(unit, imds)
    lose_the_state(unit)
    imds.events = []
    unit.start()
    until(lambda: os.path.exists(unit.path("failed")), "the hooks")


def test_an_event_that_is_announced_when_the_state_is_lost_is_prepared_again_before_it_is_acknowledged(unit, imds):
    unit.add_hook("prepare", f"echo x >> {unit.path('ran')}; [ ! -e {unit.path('hold')} ] || sleep 60")
    unit.add_hook("recover", "true")
    unit.acknowledge(imds)
    lose_the_state(unit)
    with open(unit.path("hold"), "w"):
        pass
    unit.start()
    until(lambda: unit.ran() == "x\nx\n", "the second preparation")
    assert len(imds.posts) == 1


@pytest.mark.parametrize("damage", ["unreadable line", "a link"])
def test_without_a_readable_history_the_status_is_unknown_and_nothing_is_acknowledged_until_all_is_cleared(
    unit, imds, damage
):
    drained_and_over(unit, imds)
    lose_the_state(unit)
    path = unit.path("history/history.jsonl")
    if damage == "a link":
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
    else:
        with open(path, "a") as file:
            file.write("{}\n")
    imds.announce(OTHER_ID)
    unit.start()
    until(lambda: unit.command("status")[0] == 3, "the status")
    until(lambda: f"{OTHER_ID}: not acknowledged yet, because the state" in unit.log(), "the note")
    unit.restart()
    until(lambda: unit.command("status")[0] == 3, "the same status after a restart")
    assert json.loads(unit.command("status", "--json")[1])["maintenance_pending"] is True
    assert len(imds.posts) == 1
    assert unit.command("clear", "--all")[0] == 0
    until(lambda: imds.acknowledged()[1:] == [[OTHER_ID]], "the acknowledgement after another preparation")
    until(lambda: unit.command("status")[0] in (0, 1), "the status")


def test_without_any_history_the_status_is_unknown_until_all_is_cleared(unit):
    with open(unit.path("state.json"), "w") as file:
        file.write("{broken")
    unit.start()
    until(lambda: unit.command("status")[0] == 3, "the status")
    assert "there is no history in" in unit.command("status")[1]
    assert unit.command("clear", "--all")[0] == 0
    until(lambda: unit.command("status")[0] == 0, "the status")


def test_a_state_that_is_missing_beside_a_history_is_lost_too(unit, imds):
    drained_and_over(unit, imds)
    unit.kill()
    os.unlink(unit.path("state.json"))
    imds.events = []
    unit.start()
    until(lambda: "recovery failed" in unit.command("status")[1], "the status")


@pytest.mark.parametrize("arguments", [("clear",), ("clear", ID, "--all"), ("retry",), ("retry", "--all")])
def test_an_operator_names_an_event_or_all(unit, arguments):
    assert unit.command(*arguments)[0] == 2


def test_a_dry_run_runs_no_hook_posts_nothing_and_remembers_nothing(unit, imds):
    unit.add_hook("prepare", f"touch {unit.path('ran')}")
    unit.configure(dry_run=True)
    unit.start()
    imds.announce()
    until(lambda: "would acknowledge it" in unit.log(), "the note")
    until(lambda: "acknowledged" in unit.command("status")[1], "the status")
    first, asks, event = unit.command("status")[1].splitlines()[:3]
    assert first == "WARNING: dry run, nothing is done about 1 event of vm1"
    assert asks == f"  asks {imds.url} (given)"
    assert "would be: acknowledged" in event
    imds.events = []
    until(lambda: f"{ID}: over\n" in unit.log(), "the end")
    about = [line.split(f"{ID}: ")[1] for line in unit.log().splitlines() if ID in line]
    assert [line.partition(", until ")[0] for line in about] == [
        "Reboot seen as Scheduled, of vm1",
        "would run the prepare hooks",
        "would acknowledge it",
        "over",
    ]
    assert imds.posts == []
    assert not os.path.exists(unit.path("ran"))
    assert not os.path.exists(unit.path("state.json"))


def test_a_dry_run_says_what_would_hold_an_event(unit, imds):
    unit.add_hook("prepare", "")
    unit.configure(dry_run=True, rules=[{"action": "hold"}])
    unit.start()
    imds.announce()
    until(lambda: "not acknowledged by this VM, because a rule holds or ignores it" in unit.log(), "the reason")


def test_a_failing_service_does_not_count_as_an_empty_list(unit, imds):
    unit.add_hook("recover", "")
    unit.add_hook("prepare", "")
    unit.acknowledge(imds)
    imds.events, imds.status = [], 503
    seen = imds.polls
    until(lambda: imds.polls > seen + 2, "failing polls")
    assert "recover hooks" not in unit.log()
    imds.status = 200
    until(lambda: "recover hooks ended: ok" in unit.log(), "recovery")


def test_a_flood_of_events_is_a_failed_poll_that_every_view_shows_and_nothing_is_over(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, f"echo $SCHEDULED_EVENT_PHASE >> {unit.path('ran')}")
    unit.acknowledge(imds)
    imds.announce(*map(str, range(101)))  # and the event from before is not among them
    reason = "the document announces 101 more events of this VM, and 1 others are not over yet"
    until(lambda: reason in unit.command("status")[1], "the status")
    assert unit.command("status")[0] != 0
    assert json.loads(unit.command("status", "--json")[1])["maintenance_pending"]
    with open(unit.path("state.json")) as file:
        kept = json.load(file)["events"]
    assert (unit.ran(), len(kept)) == ("prepare\n", 1)
    imds.events = []
    until(lambda: unit.ran() == "prepare\nrecover\n", "the recovery")
    until(lambda: unit.command("status")[0] == 0, "the status OK")
    assert imds.acknowledged() == [[ID]]


def test_metrics_are_written_where_a_directory_is_given(unit, imds):
    unit.add_hook("prepare", "true")
    unit.configure(metrics_directory=unit.path(""))
    unit.start()
    imds.announce(EventType='Odd"\n')
    unit.await_acknowledgement()

    def metrics():
        with contextlib.suppress(FileNotFoundError), open(unit.path("scheduled_events.prom")) as file:
            return file.read()
        return ""

    until(lambda: 'scheduled_events_approvals_total{outcome="accepted"} 1\n' in metrics(), "the count")
    assert 'scheduled_events_events{type="Odd\\" ",status="Scheduled"} 1\n' in metrics()
    assert "scheduled_events_approval_delay_seconds_count 1\n" in metrics()


def test_back_to_back_an_event_is_not_acknowledged_while_the_recovery_of_another_runs_and_prepared_again_after(
    unit, imds
):
    unit.add_hook("prepare", f"echo prepare $SCHEDULED_EVENT_ID >> {unit.path('ran')}; touch {unit.path('draining')}")
    unit.add_hook("recover", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done; rm -f {unit.path('draining')}")
    unit.start()
    imds.announce(ID)
    unit.await_acknowledgement()
    imds.events = []
    until(lambda: "recover hooks run" in unit.log(), "recovery")
    imds.announce(OTHER_ID)
    until(lambda: f"prepare {OTHER_ID}" in unit.ran(), "the preparation beside it")
    until(lambda: "because a recovery of this VM is running" in unit.log(), "the reason")
    seen = imds.polls
    until(lambda: imds.polls > seen + 2, "further polls")
    assert imds.acknowledged() == [[ID]]
    open(unit.path("go"), "w").close()
    until(lambda: imds.acknowledged() == [[ID], [OTHER_ID]], "the second acknowledgement")
    assert os.path.exists(unit.path("draining"))
    assert unit.ran().count(f"prepare {OTHER_ID}") == 2


def test_twenty_events_that_are_ready_together_take_few_requests(unit, imds):
    ids = [f"AAAAAAAA-0000-0000-0000-0000000000{number:02}" for number in range(20)]
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.05; done")
    unit.start()
    imds.announce(*ids)
    until(lambda: unit.log().count("prepare hooks run") == 20, "the preparations")
    open(unit.path("go"), "w").close()
    until(lambda: sorted(each for post in imds.acknowledged() for each in post) == ids, "the acknowledgements")
    assert len(imds.posts) < 20


def test_an_event_whose_acknowledgement_is_refused_does_not_block_the_others(unit, imds):
    unit.add_hook("prepare", "true")
    imds.post_status = 400
    unit.start()
    imds.announce(ID, OTHER_ID)
    until(lambda: [ID] in imds.acknowledged() or [OTHER_ID] in imds.acknowledged(), "an attempt for one alone")
    imds.post_status = 200
    until(lambda: unit.log().count(": acknowledged ") == 2, "the acknowledgements")


def test_a_start_while_the_first_request_hangs_is_not_blind(unit, imds):
    unit.add_hook("prepare", "true")
    imds.hang_next = True
    imds.announce()
    unit.start()
    unit.await_acknowledgement()
    assert imds.hanging.is_set()
    assert not imds.release.is_set()


def test_a_reload_drops_an_acknowledgement_that_was_decided_and_not_sent(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks run" in unit.log(), "preparation")
    imds.hang_on_new_connection = True
    open(unit.path("go"), "w").close()
    assert imds.hanging.wait(GIVE_UP)
    unit.configure(acknowledge="never")
    unit.process.send_signal(signal.SIGHUP)
    unit.await_notification("RELOADING=1")
    unit.await_notification("READY=1")
    imds.release.set()
    until(lambda: "because acknowledge is never" in unit.log(), "the note")
    seen = imds.polls
    until(lambda: imds.polls > seen + 4, "further polls")
    assert imds.posts == []


def test_a_decided_acknowledgement_is_not_sent_when_its_event_is_over_and_recovery_begins(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done")
    unit.add_hook("recover", f"while ! [ -e {unit.path('end')} ]; do sleep 0.01; done")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks run" in unit.log(), "preparation")
    imds.hang_on_new_connection = True
    open(unit.path("go"), "w").close()
    assert imds.hanging.wait(GIVE_UP)  # the document that is read right before the request
    imds.events = []
    until(lambda: "recover hooks run" in unit.log(), "recovery")
    imds.announce()  # so that the document would allow it
    seen = imds.polls
    until(lambda: imds.polls > seen + 2, "further polls")
    imds.release.set()
    until(lambda: imds.polls > seen + 6, "further polls")
    assert imds.posts == []
    open(unit.path("end"), "w").close()
    until(lambda: imds.posts, "the acknowledgement after a new preparation")


def test_a_dry_run_shows_that_this_vm_is_prepared_and_waits_for_its_recovery(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, "true")
    unit.acknowledge(imds)
    unit.configure(dry_run=True)
    unit.process.send_signal(signal.SIGHUP)
    imds.events = []
    hidden = f"this VM was prepared for {ID} before the dry run, and recovers after it"
    until(lambda: hidden in unit.command("status")[1], "the warning")
    assert unit.command("status")[0] == 1
    assert unit.command("prepared")[:2] == (0, f"{ID}\n")
    with open(unit.path("run/status.json")) as file:
        known = json.load(file)
    assert (known["maintenance_pending"], known["unrecovered"]) == (True, [hidden])
    unit.configure(dry_run=False)
    unit.process.send_signal(signal.SIGHUP)
    until(lambda: unit.command("status")[1].startswith("OK: 0 events"), "the status OK")


def test_what_a_dry_run_left_out_is_done_when_it_ends(unit, imds):
    unit.add_hook("prepare", f"echo prepare >> {unit.path('ran')}")
    unit.configure(dry_run=True)
    unit.start()
    imds.announce()
    until(lambda: "would acknowledge it" in unit.log(), "the note")
    unit.configure(dry_run=False)
    unit.process.send_signal(signal.SIGHUP)
    unit.await_acknowledgement()
    assert unit.ran() == "prepare\n"


def test_hooks_that_are_configured_and_missing_hold_the_event_until_they_are_found(unit, imds):
    unit.configure(hooks={"prepare": ["10-hook"]})
    unit.start()
    imds.announce()
    until(lambda: "the prepare hooks 10-hook are configured but missing" in unit.log(), "the reason")
    until(lambda: unit.command("status")[0] == 1, "the status WARNING")
    assert imds.posts == []
    unit.add_hook("prepare", f"echo prepare >> {unit.path('ran')}")
    unit.await_acknowledgement()
    assert unit.ran() == "prepare\n"


def test_a_failed_recovery_stays_visible_until_a_retry_succeeds(unit, imds):
    unit.add_hook("prepare", "")
    unit.add_hook("recover", "exit 1")
    unit.acknowledge(imds)
    imds.events = []
    until(lambda: "recovery failed: 10-hook: exit status 1" in unit.log(), "the failure")
    unit.restart()
    shown = "recovery failed: 10-hook: exit status 1; this VM may still be drained"
    until(lambda: shown in unit.command("status")[1], "the failure in the status")
    assert unit.command("status")[0] == 1
    unit.add_hook("recover", "")
    code, output, _errors = unit.command("retry", ID.lower())
    assert (code, output) == (
        0,
        f"{ID.lower()}: the polling unit has accepted the request. See 'scheduled-events status'\n",
    )
    until(lambda: ": over\n" in unit.log(), "the end")
    until(lambda: unit.command("status")[0] == 0, "the status OK")


def test_the_operator_can_clear_a_failed_recovery_and_nothing_else(unit, imds):
    unit.add_hook("prepare", "")
    unit.add_hook("recover", "exit 1")
    unit.acknowledge(imds)
    until(lambda: unit.command("status")[0] == 0, "the status")
    code, _output, errors = unit.command("clear", ID)
    assert (code, errors) == (
        1,
        f"scheduled-events: {ID}: it is still announced. See 'scheduled-events status'\n",
    )
    imds.events = []
    until(lambda: "recovery failed" in unit.log(), "the failure")
    assert unit.command("clear", ID)[0] == 0
    until(lambda: "removed from the state on request of the operator" in unit.log(), "the end")
    until(lambda: unit.command("status")[0] == 0, "the status OK")
    assert "the polling unit does not know this event" in unit.command("clear", ID)[2]


def test_a_command_without_a_unit_says_what_to_do(unit):
    unit.configure()
    code, _output, errors = unit.command("retry", ID)
    assert (code, errors) == (
        1,
        "scheduled-events: the polling unit does not run. Start scheduled-events-poller.service\n",
    )


def test_a_request_from_a_socket_without_a_name_does_not_end_the_unit(unit):
    unit.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nameless:
        nameless.sendto(json.dumps({"verb": "retry", "event_id": ID}).encode(), unit.path("run/notify"))
    # Also a long id is read whole, and answered.
    assert "the polling unit does not know this event" in unit.command("retry", "x" * 5000)[2]


@pytest.mark.parametrize("name", ["run", "root"])
def test_it_ends_when_its_files_in_run_are_removed_and_goes_on_where_it_was_after_a_start(unit, imds, name):
    wait = f"until [ -e {unit.path('go')} ]; do sleep 0.02; done"
    unit.add_hook("prepare", f"echo $SCHEDULED_EVENT_RUN >> {unit.path('ran')}; {wait}")
    os.mkdir(unit.path("root/results"))  # an earlier event left it
    unit.start()
    imds.announce()
    until(unit.ran, "the hook")
    while os.path.exists(unit.path(name)):
        shutil.rmtree(unit.path(name), ignore_errors=True)  # the unit can add a file meanwhile
    os.mkdir(unit.path(name))
    assert unit.process.wait(GIVE_UP) == 1
    assert f"{unit.path(name)}" in unit.log()
    assert "was removed" in unit.log()
    unit.start()
    open(unit.path("go"), "w").close()
    unit.await_acknowledgement()
    assert unit.ran().count("\n") == 1


def test_what_is_removed_or_replaced_is_noticed_once_it_existed(tmp_path):
    places = Directories(runtime=str(tmp_path / "run"), hooks_runtime=str(tmp_path / "root"))
    os.makedirs(places.requests)
    passed = []
    clock = Clock(monotonic=lambda: sum(passed), sleep=passed.append)
    watched = instance.Watched(places, "of this boot", clock)
    watched.check()
    os.makedirs(places.results)
    watched.check()
    os.rename(places.results, places.results + ".old")
    os.mkdir(places.results)
    with pytest.raises(OSError, match=places.results):
        watched.check()
    os.rmdir(places.results)
    with pytest.raises(OSError, match=places.results):
        watched.check()
    assert instance.find_boot_id(places.runtime) == "of this boot"


def test_the_mark_of_the_boot_is_there_afterwards_although_the_removal_takes_it_at_last(tmp_path):
    places = Directories(runtime=str(tmp_path), hooks_runtime=str(tmp_path / "root"))
    os.makedirs(places.requests)
    instance.mark_boot(places.runtime, "of this boot")
    passed = []

    def remove(seconds):
        passed.append(seconds)
        if sum(passed) < instance.REMOVAL / 2:
            os.unlink(os.path.join(places.runtime, "boot"))

    watched = instance.Watched(places, "of this boot", Clock(monotonic=lambda: sum(passed), sleep=remove))
    watched.check()
    os.rmdir(places.requests)
    with pytest.raises(OSError, match="was removed"):
        watched.check()
    assert instance.find_boot_id(places.runtime) == "of this boot"


def test_a_state_that_a_crash_left_half_written_is_removed(unit):
    open(unit.path(".state.json.0123456789ab"), "w").close()
    unit.start()
    assert not os.path.exists(unit.path(".state.json.0123456789ab"))


def test_the_status_file_begins_with_a_brace_on_a_separate_line(unit, imds):
    unit.add_hook("prepare", "true")
    unit.start()
    imds.announce(EventSource="Platform")
    unit.await_acknowledgement()

    def known():
        with open(unit.path("run/status.json")) as file:
            assert file.readline() == "{\n"
            file.seek(0)
            return json.load(file)

    until(lambda: known()["events"] and known()["events"][0]["acknowledged"], "the status")
    assert known()["maintenance_pending"] is True
    [event] = known()["events"]
    assert (event["event_id"], event["condition"], event["trouble"]) == (ID, "acknowledged", False)


# The loop, in single iterations


class Idle:
    """Stands in for polling and for the acknowledger: nothing is under way but what a test says."""

    busy, next_attempt, busy_seconds = False, None, 0.0

    def ask(self):
        self.asked = True

    def ask_patiently(self):
        self.asked_patiently = True

    def busy_for(self):
        return self.busy_seconds

    def offer(self, _actions, _config):
        pass


@pytest.fixture
def now():
    """The monotonic time of a poller that has not begun, in a list."""
    return [1000.0]


@pytest.fixture
def quiet(tmp_path, now):
    """A poller that has not begun, and polls nothing."""
    clock = Clock(monotonic=lambda: now[0])
    places = poller.Places(str(tmp_path / "state"), Directories(str(tmp_path), str(tmp_path), str(tmp_path)))
    settings = Settings(endpoint="http://127.0.0.1:9", vm_name="vm1")
    made = poller.Poller(lambda: settings, places, clock=clock)
    made._polling, made._acknowledger = Idle(), Idle()
    made._state, made._state_file = state.State(serial=1), state.StateFile("/nowhere/state.json")
    made._boot_id = "boot"
    made._hooks = NoHooks()
    return made


class NoHooks:
    def unheard(self, _now):
        return ""

    def result(self, _request_id):
        return None


def document(*, events=True, **changes):
    event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"], **changes}
    text = json.dumps({"Events": [event] if events else []})
    return service.Polled(parse(text, api_version="2020-07-01"), "vm1")


def test_a_storm_of_reloads_is_not_a_storm_of_polls(quiet, now, monkeypatch):
    polls = []
    monkeypatch.setattr(Idle, "ask", lambda _self: polls.append(now[0]))
    monkeypatch.setattr(Idle, "drop", lambda _self: None, raising=False)
    for _signal in range(1000):
        quiet._reload()
        quiet._poll_if_due()
        now[0] += 0.01
    assert len(polls) == 10


def test_what_wakes_the_poller_between_two_polls_does_not_delay_the_next(quiet, now):
    pauses = []
    quiet._inbox = types.SimpleNamespace(wait=lambda pause, _take: pauses.append(pause))
    quiet._display = types.SimpleNamespace(next_heartbeat=2000.0)
    quiet._watchdog = types.SimpleNamespace(next_sign=2000.0)
    quiet._poll_if_due()
    for moment in (1000.0, 1000.75):
        now[0] = moment
        quiet._wait()
    assert pauses == [1.0, 0.25]


@pytest.mark.parametrize(
    ("interval", "failures", "gap"),
    [(1.0, 0, 1.0), (1.0, 1, 2.0), (1.0, 2, 2.0), (0.25, 2, 1.0), (0.25, 1000000, 2.0), (5.0, 0, 5.0), (5.0, 3, 5.0)],
)
def test_polls_back_off_to_two_seconds_or_to_the_interval(quiet, interval, failures, gap):
    quiet._settings = quiet._settings._replace(interval=interval)
    quiet._polls = quiet._polls._replace(failures=failures)
    quiet._poll_if_due()
    assert quiet._next_poll == 1000.0 + gap


@pytest.mark.parametrize(
    ("polling", "acknowledging", "fed"),
    [(0.0, 0.0, True), (14.0, 0.0, True), (16.0, 0.0, False), (0.0, 119.0, True), (0.0, 121.0, False)],
)
def test_the_watchdog_is_fed_while_requests_come_to_their_end(quiet, monkeypatch, polling, acknowledging, fed):
    sent = []
    monkeypatch.setattr(systemd, "notify", sent.append)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    quiet._polling.busy_seconds, quiet._acknowledger.busy_seconds = polling, acknowledging
    quiet._feed_watchdog()
    assert sent == (["WATCHDOG=1"] if fed else [])


def test_each_turn_of_the_loop_gives_a_sign_of_life_that_is_due(quiet, now, monkeypatch):
    quiet._inbox = types.SimpleNamespace(wait=lambda _pause, _take: None, outcomes=list)
    monkeypatch.setattr(quiet, "_show", lambda: None)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    sent = []
    monkeypatch.setattr(systemd, "notify", sent.append)
    for _turn in range(3):
        quiet._iterate()
        now[0] += 6.0
    assert sent == ["WATCHDOG=1"] * 2


def test_an_attempt_to_acknowledge_follows_another_after_a_pause():
    source = service.Source(Settings(endpoint="http://127.0.0.1:9"), None, "")
    acknowledger = service.Acknowledger(source, None, Clock(monotonic=lambda: 1000.0))
    acknowledger.end()
    assert acknowledger.next_attempt == 1000.0 + service.ACKNOWLEDGE_GAP


@pytest.mark.parametrize("heard", [True, False])
def test_the_service_is_asked_patiently_too_while_no_poll_of_a_unit_that_asked_it_has_an_answer(quiet, heard):
    quiet._polls = quiet._polls._replace(failures=1, last_success=1.0 if heard else None)
    quiet._document_at = 1000.0
    quiet._poll_if_due()
    assert hasattr(quiet._polling, "asked_patiently") is not heard


@pytest.mark.parametrize(
    ("settings", "polls", "line"),
    [
        ({}, {}, "Waiting for the first document"),
        ({}, {"last_success": 1.0}, "No event of this VM"),
        ({"dry_run": True}, {"last_success": 1.0}, "Dry run: No event of this VM"),
        ({}, {"last_success": 1.0, "error": "no\nanswer"}, "polling fails: no answer"),
    ],
)
def test_systemctl_status_shows_what_the_unit_does_in_one_line(quiet, monkeypatch, settings, polls, line):
    sent = []
    monkeypatch.setattr(systemd, "notify", sent.append)
    quiet._settings, quiet._polls = quiet._settings._replace(**settings), quiet._polls._replace(**polls)
    quiet._show()
    quiet._show()  # nothing new
    assert sent == [f"STATUS={line}"]


def test_nothing_is_done_that_could_not_be_remembered(quiet, monkeypatch, capsys):
    monkeypatch.setattr(quiet, "_take_step", pytest.fail)
    quiet._decide(document())
    assert quiet._state == state.State(serial=1)
    assert "the state cannot be saved, so nothing can be done" in capsys.readouterr().err


def test_a_state_that_can_be_saved_again_is_in_the_journal_once(quiet, tmp_path, capsys):
    assert not quiet._save(quiet._state)
    quiet._state_file = state.StateFile(str(tmp_path / "state.json"))
    for _time in range(2):
        assert quiet._save(quiet._state)
    assert capsys.readouterr().err.count("the state can be saved again") == 1


def test_a_history_that_cannot_be_written_is_in_the_journal_and_so_is_its_end(quiet, capsys):
    step = transitions.Step(quiet._state, quiet._state, [], quiet._now(), terms.Config(vm_name="vm1", hooks={}), None)
    said = []
    for problem in ("", "no space", ""):
        quiet._display.recorder.problem = problem
        quiet._display.report_step(step, dry_run=False)
        said.append(capsys.readouterr().err)
    assert said[0] == ""
    assert "no space" in said[1]
    assert "the history can be written again" in said[2]


def test_a_measured_impact_is_in_the_journal(quiet, capsys):
    quiet._display._record_impact(
        [Fact("impact", 0.0, "poller", event_id=ID, reason="rebooted, 48 s until the first poll")]
    )
    assert f"{ID}: rebooted, 48 s until the first poll" in capsys.readouterr().err


def shown(poller_):
    """What the status file and the metrics show now, and how the status is rated."""
    poller_._settings = poller_._settings._replace(metrics_directory=poller_._places.directories.runtime)
    poller_._show()
    with open(poller_._places.status_file) as file:
        known = json.load(file)
    code, problems = status.judge(known, time.time())
    with open(os.path.join(poller_._settings.metrics_directory, "scheduled_events.prom")) as file:
        [unsaved] = [line.split()[1] for line in file if line.startswith("scheduled_events_state_unsaved ")]
    return known["maintenance_pending"], code, "cannot be saved" in "; ".join(problems), int(unsaved)


def test_while_the_state_cannot_be_saved_each_view_shows_it(quiet, now, tmp_path):
    hidden = (True, status.WARNING, True, 1)
    for polled in (document(), document(), document(events=False)):
        now[0] += 5.0
        quiet._poll_succeeded(polled)
        quiet._decide(polled)
        assert shown(quiet) == hidden
    quiet._state_file = state.StateFile(str(tmp_path / "state.json"))
    assert shown(quiet) == hidden  # until a save succeeds
    now[0] += 5.0
    quiet._decide(document(events=False))
    assert shown(quiet) == (False, status.OK, False, 0)


def test_a_dry_run_that_begins_while_the_state_cannot_be_saved_ends_that_in_each_view(quiet, tmp_path, monkeypatch):
    monkeypatch.setattr(Idle, "drop", lambda _self: None, raising=False)
    quiet._poll_succeeded(document(events=False))
    quiet._decide(document())
    assert shown(quiet) == (True, status.WARNING, True, 1)
    quiet._state_file = state.StateFile(str(tmp_path / "state.json"))
    quiet._load_settings = lambda: quiet._settings._replace(dry_run=True)
    quiet._reload()
    assert shown(quiet) == (False, status.OK, False, 0)


def test_a_status_that_cannot_be_written_leaves_none_that_is_old(quiet, now, monkeypatch):
    quiet._show()
    assert os.path.exists(quiet._places.status_file)

    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(display, "write_atomically", full)
    for _time in range(2):
        now[0] += 5.0
        quiet._display.heartbeat(quiet._show)
        assert not os.path.exists(quiet._places.status_file)


@pytest.mark.parametrize(("event_status", "pending"), [("Scheduled", True), ("Started", True), ("Advisory", False)])
def test_an_event_that_a_rule_ignores_is_maintenance_too(quiet, event_status, pending, tmp_path):
    quiet._state_file = state.StateFile(str(tmp_path / "state.json"))
    quiet._settings = quiet._settings._replace(rules=parse_rules([{"action": "ignore"}]))
    polled = document(EventStatus=event_status)
    quiet._poll_succeeded(polled)
    quiet._decide(polled)
    assert quiet._state.events == {}
    assert shown(quiet)[0] is pending


def test_a_command_from_before_the_name_of_the_vm_is_known_does_not_make_the_poller_spin(quiet, now):
    pauses = []
    quiet._inbox = types.SimpleNamespace(wait=lambda pause, _take: pauses.append(pause))
    quiet._polls, quiet._next_poll = status.Polls(), now[0] + 1.0
    quiet._display.next_heartbeat = quiet._watchdog.next_sign = now[0] + 30.0
    quiet._results = [terms.ApprovalResult("x", accepted=False)]
    quiet._wait()
    assert pauses == [1.0]


def test_a_full_disk_with_a_result_pending_is_tried_every_two_seconds(quiet, now, monkeypatch):
    attempts = []
    monkeypatch.setattr(quiet, "_save", lambda _state: attempts.append(now[0]) or quiet.__class__._save(quiet, _state))
    quiet._results = [terms.ApprovalResult("x", accepted=False)]
    for _attempt in range(100):
        quiet._decide(document())
        now[0] += 0.1
    assert len(attempts) == 5


def test_a_defect_of_the_engine_does_not_end_the_process(quiet, monkeypatch, capsys):
    def fail(*_arguments):
        raise RuntimeError("\ud800")

    monkeypatch.setattr(engine, "step", fail)
    quiet._decide_safely(document())
    assert "a defect of the poller keeps it from deciding" in quiet._polls.error
    assert "Traceback" in capsys.readouterr().err


def test_flapping_polls_write_two_lines_a_minute(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(systemd, "log", lambda _priority, message: lines.append(message))
    journal = systemd.Journal(Clock(monotonic=lambda: now[0]))
    for second in range(24 * 3600):
        now[0] = float(second)
        journal.complain("poll", "fails") if second % 2 else journal.better("poll", "works")
    assert len(lines) <= 2 * 24 * 60


def test_a_document_that_was_asked_for_before_another_was_read_is_not_taken(quiet):
    class Current(Idle):
        def end(self, _ended):
            return "patient"

    quiet._polling = Current()
    quiet._polls = quiet._polls._replace(last_success=1.0)
    quiet._document_at = 500.0
    assert quiet._take_poll(service.PollEnded(None, 499.0, document())) is None
    assert quiet._take_poll(service.PollEnded(None, 501.0, document())) == document()


def test_a_poll_that_ends_with_an_error_without_a_text_has_failed(quiet):
    class Broken:
        def poll(self):
            raise MemoryError

    class Current(Idle):
        def end(self, _ended):
            return "poll"

    quiet._polling = Current()
    assert quiet._take_poll(service._poll(Broken(), Clock())) is None
    assert (quiet._polls.failures, quiet._polls.error) == (1, "MemoryError()")


def test_a_runtime_directory_whose_path_is_too_long_for_a_socket_is_named(unit):
    unit.configure()
    runtime = unit.path("r" * 107)
    assert unit.command(f"--runtime-directory={runtime}", "run") == (
        1,
        "",
        f"scheduled-events: the poller cannot begin: {runtime}/notify: AF_UNIX path too long\n",
    )


def facts(unit_, *arguments):
    return json.loads(unit_.command("history", "--json", *arguments)[1])["facts"]


def test_a_maintenance_leaves_a_history(unit, imds):
    unit.add_hook("prepare", "true")
    unit.add_hook("recover", "true")
    unit.start()
    imds.announce(DurationInSeconds=5)
    unit.await_acknowledgement()
    imds.announce(EventStatus="Started")
    until(lambda: "started; recovery" in unit.log(), "the start")
    imds.events = []
    until(lambda: "returned" in [fact["kind"] for fact in facts(unit)], "the return")
    # A busy machine can hold up the unit, which then measures a pause.
    found = [" ".join([fact["kind"], fact.get("phase", "")]).strip() for fact in facts(unit)]
    assert "impact" in found
    assert [word for word in found if word != "impact"] == [
        "seen",
        "phase_began prepare",
        "phase_ended prepare",
        "acknowledged",
        "started",
        "over",
        "phase_began recover",
        "phase_ended recover",
        "returned",
    ]
    assert {(fact["vm_name"], fact["event_id"], fact["source"]) for fact in facts(unit)} == {("vm1", ID, "poller")}


def test_a_restart_of_the_unit_repeats_no_fact(unit, imds):
    unit.add_hook("prepare", "exit 1")
    unit.start()
    imds.announce()
    until(lambda: [fact["kind"] for fact in facts(unit)][-1:] == ["held"], "the fact that the event is held")
    before = facts(unit)
    unit.restart()
    polls = imds.polls
    until(lambda: imds.polls > polls + 2, "three more polls")
    assert facts(unit) == before


def test_a_poll_without_a_change_writes_no_fact(unit, imds):
    unit.start()
    until(lambda: imds.polls > 3, "four polls")
    assert os.listdir(unit.path("history")) == []


def test_a_history_that_cannot_be_written_delays_nothing_and_shows_as_a_warning(unit, imds):
    with open(unit.path("history"), "w"):
        pass  # a file in place of the directory
    unit.add_hook("prepare", "true")
    unit.acknowledge(imds)
    until(lambda: unit.command("status")[0] == status.WARNING, "the warning")
    assert f"the history in {unit.path('history')} cannot be written: " in unit.command("status")[1]


def test_a_dry_run_leaves_no_history(unit, imds):
    unit.configure(dry_run=True)
    unit.add_hook("prepare", "true")
    unit.start()
    imds.announce()
    until(lambda: "would acknowledge" in unit.log(), "the acknowledgement of the dry run")
    assert facts(unit) == []
