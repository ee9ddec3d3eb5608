# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host side of a drill: the polling unit is pointed at an emulator, and comes back however the drill ends."""

import json
import os

import pytest
from _scheduled_events import history_file
from _scheduled_events.client import ImdsClient
from _scheduled_events.clock import Clock
from polling_unit import ID, until
from scheduled_events_poller.drill import guard, main, switch
from scheduled_events_poller.drill.folder import Folder, Plan
from scheduled_events_poller.drill.guard import ABANDONED, REAL_EVENT, REASONS, SILENT, TOO_LONG, Watch
from scheduled_events_poller.drill.switch import FAILED, GUARD, POLLER, DrillError, Switch, reason_of
from scheduled_events_poller.unit import config
from scheduled_events_poller.unit.config import Settings

EMULATOR = "http://127.0.0.1:8179"


class Units:
    """systemd with two units. ``asks``: by start of the polling unit, the endpoint that it asks."""

    def __init__(self, folder, config_file):
        self.folder, self.config_file = folder, config_file
        self.active, self.asks, self.failing, self.guard = {POLLER}, [], 0, None

    def is_active(self, unit):
        return unit in self.active

    def run(self, verb, unit):
        if unit == POLLER:
            if self.failing:
                self.failing -= 1
                raise DrillError("systemctl restart failed")
            path = self.folder.config if os.path.exists(self.folder.config) else self.config_file
            self.asks.append(config.load(path).endpoint)
        elif verb == "start":
            self.active.add(GUARD)
            self.guard()
        else:
            self.active.discard(GUARD)


class Time:
    """A clock that stands until it is slept on."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def sleep(self, seconds):
        self.now += max(seconds, 0.001)
        self.slept.append(seconds)

    @property
    def clock(self):
        return Clock(lambda: self.now, lambda: self.now, self.sleep)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def folder(tmp_path):
    return Folder(str(tmp_path / "drill"))


@pytest.fixture
def units(tmp_path, folder):
    path = tmp_path / "poller.json"
    path.write_text(json.dumps({"endpoint": "http://127.0.0.1:1", "interval": 1}))
    return Units(folder, str(path))


@pytest.fixture
def switched(folder, units, time):
    made = Switch(folder, units.config_file, units, time.clock)
    units.guard = made.point
    return made


def begin(switched):
    switched.begin(EMULATOR, lease=60, longest=600)


# The switch


def test_a_drill_points_the_polling_unit_at_the_emulator_and_its_end_points_it_back(switched, units, folder):
    begin(switched)
    assert (units.asks, folder.is_pointed()) == ([EMULATOR], True)
    switched.end()
    assert (units.asks, folder.is_pointed(), folder.ended()) == ([EMULATOR, "http://127.0.0.1:1"], False, "ended")


def test_all_settings_but_the_endpoint_are_those_of_the_owner(switched, folder):
    begin(switched)
    with open(folder.config) as file:
        assert json.load(file) == {"endpoint": EMULATOR, "interval": 1}
    assert os.stat(folder.config).st_mode & 0o777 == 0o640


@pytest.mark.parametrize("moment", ["before the pointing", "after the pointing", "while it was pointed back"])
def test_what_a_drill_left_whose_end_was_cut_off_is_restored_by_the_next_one(moment, switched, units, folder):
    begin(switched)
    units.active.discard(GUARD)
    if moment == "before the pointing":
        os.unlink(folder.config)
    elif moment == "while it was pointed back":
        folder.unpoint()
    units.guard = lambda: None
    begin(switched)
    assert units.asks == [EMULATOR, "http://127.0.0.1:1"]
    assert not folder.is_pointed()


def test_a_polling_unit_that_does_not_start_is_tried_again_and_stays_noted(switched, units, folder):
    begin(switched)
    units.failing = switch.TRIES - 1
    switched.restore("ended")
    assert (units.asks[-1], folder.is_pointed()) == ("http://127.0.0.1:1", False)
    begin_again = Switch(folder, units.config_file, units, Time().clock)
    begin_again.point()
    units.failing = switch.TRIES
    with pytest.raises(DrillError):
        begin_again.restore("ended")
    assert folder.is_pointed()
    begin_again.restore("ended")
    assert (units.asks[-1], folder.is_pointed()) == ("http://127.0.0.1:1", False)


def test_a_second_drill_is_refused_and_leaves_the_first_one_alone(switched, units):
    begin(switched)
    with pytest.raises(DrillError, match="another drill runs"):
        begin(switched)
    assert units.asks == [EMULATOR]


def test_a_host_whose_polling_unit_does_not_run_is_refused(switched, units):
    units.active.clear()
    with pytest.raises(DrillError, match="the polling unit does not run"):
        begin(switched)
    assert units.asks == []


def test_a_guard_that_does_not_start_shows_why(switched, units, folder):
    def fails():
        switched.restore("real_event")
        raise DrillError("systemctl start failed")

    units.guard = fails
    with pytest.raises(DrillError, match="an event of Azure names this VM"):
        begin(switched)
    assert (units.asks, folder.is_pointed()) == ([], False)


def test_the_first_reason_for_an_end_stays(switched, folder):
    begin(switched)
    switched.restore("real_event")
    switched.end()
    assert folder.ended() == "real_event"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (("success", "exited", "10"), "real_event"),
        (("success", "exited", "12"), "abandoned"),
        (("success", "killed", "TERM"), "ended"),
        (("signal", "killed", "KILL"), FAILED),
        (("watchdog", "dumped", "ABRT"), FAILED),
        (("exit-code", "exited", "1"), FAILED),
        (("", "", ""), FAILED),
    ],
)
def test_the_reason_is_what_systemd_says_of_the_guard(said, reason):
    assert reason_of(said) == reason


def test_each_reason_has_a_text():
    assert set(REASONS.values()) <= set(switch.TEXTS)


# The guard


@pytest.fixture
def watch(folder, time, imds):
    folder.make(Plan(EMULATOR, imds.url, 60.0, 120.0, time.now))
    client = ImdsClient(endpoint=imds.url, request_timeout=5, retry_for=0)
    made = Watch(client, Settings(endpoint=imds.url, vm_name="vm1"), folder, time.clock, lambda _message: None)
    yield made
    client.close()


def test_an_event_of_azure_ends_the_drill(watch, imds):
    polls = []

    def at_third(message):
        polls.append(message)
        if len(polls) == 4:
            imds.announce()

    assert guard.guard(watch._replace(notify=at_third)) == REAL_EVENT
    assert polls[0].startswith("READY=1")


def test_a_drill_does_not_begin_while_an_event_of_azure_is_announced(watch, imds):
    imds.announce()
    said = []
    assert guard.guard(watch._replace(notify=said.append)) == REAL_EVENT
    assert said == []


@pytest.mark.parametrize(
    ("event", "rules"),
    [
        ({"Resources": ["vm2"]}, []),
        ({"EventStatus": "Advisory", "EventType": "SpotRebalanceRecommendation"}, []),
        ({}, [{"event_types": ["Reboot"], "action": "ignore"}]),
    ],
    ids=["of another VM", "a hint", "ignored"],
)
def test_what_the_polling_unit_would_not_handle_does_not_end_the_drill(event, rules, watch, imds):
    imds.announce(**event)
    settings = config.parse({"endpoint": imds.url, "vm_name": "vm1", "rules": rules})
    assert guard.guard(watch._replace(settings=settings)) == ABANDONED


def test_a_service_that_does_not_answer_ends_the_drill(watch, imds, time):
    imds.status = 500
    assert guard.guard(watch) == SILENT
    assert 30 < time.now - 1000 < 33


def test_a_service_that_answers_again_in_time_does_not(watch, imds, time):
    imds.status = 500

    def sleep(seconds):
        time.sleep(seconds)
        imds.status = 500 if (time.now - 1000) % 40 < 20 else 200

    assert guard.guard(watch._replace(clock=time.clock._replace(sleep=sleep))) == ABANDONED


def test_a_drill_at_which_nobody_looks_ends(watch, time):
    assert guard.guard(watch) == ABANDONED
    assert 60 < time.now - 1000 < 63


def test_a_drill_at_which_somebody_looks_ends_after_its_longest_duration(watch, time, folder):
    def sleep(seconds):
        time.sleep(seconds)
        folder.renew(time.now)

    assert guard.guard(watch._replace(clock=time.clock._replace(sleep=sleep))) == TOO_LONG
    assert 120 < time.now - 1000 < 123


# What the control node asks


@pytest.fixture
def ask(unit, capsys):
    """A command of the host of ``unit``."""

    def run(*arguments, systemd=None):
        places = [each for each in unit.arguments[2:] if not each.startswith("--hooks-runtime")]
        code = main.main([*places, f"--directory={unit.path('drill')}", *arguments], systemd=systemd)
        out = capsys.readouterr()
        return code, json.loads(out.out) if out.out else out.err

    return run


def test_a_preview_shows_hooks_decision_and_what_stands_in_the_way(unit, ask, imds):
    unit.add_hook("prepare", "true")
    unit.start()
    until(lambda: imds.polls > 1, "a poll")
    code, shown = ask("preview", "--type", "Redeploy")
    assert (code, shown["vm_name"], shown["action"], shown["refusals"]) == (0, "vm1", "prepare", [])
    assert list(shown["hooks"]) == ["prepare"]
    imds.announce()
    _code, shown = ask("preview")
    assert shown["refusals"][0] == f"Reboot {ID} names this VM. Wait until it is over"


def test_a_preview_without_a_polling_unit_and_service_says_both(unit, ask, imds):
    unit.configure()
    imds.status = 500
    _code, shown = ask("preview")
    assert [text.split(":")[0].split(".")[0] for text in shown["refusals"]] == [
        "the service cannot be read",
        "the polling unit has no status",
    ]


def test_a_look_shows_the_facts_since_then_and_renews_the_lease_of_a_drill_that_goes_on(unit, ask, imds):
    unit.start()
    imds.announce()
    until(lambda: imds.polls > 2, "a poll")
    folder = Folder(unit.path("drill"))
    folder.make(Plan(EMULATOR, imds.url, 60.0, 600.0, 1.0))
    _code, shown = ask("look", "--since=0")
    assert (shown["pointed"], shown["ended"], folder.renewed()) == (False, None, 1.0)
    until(lambda: [fact["kind"] for fact in ask("look", "--since=0")[1]["facts"]][:1] == ["seen"], "the fact")
    folder.point(b"{}", 0)
    ask("look", "--since=0")
    assert folder.renewed() > 1.0


def test_the_history_of_a_drill_leaves_its_directory_to_the_others(unit, ask):
    unit.configure()
    names = ("--event-id", ID, "--type", "Reboot", "--vm-name", "vm1")
    assert ask("note", *names, "--outcome", "failed", "--reason", "prepare: \x1b[31mfailed")[0] == 0
    found = history_file.read(unit.path("roles"), now=main.CLOCK.wall())
    [fact] = found.facts
    assert (fact.kind, fact.source, fact.outcome, fact.key) == ("drilled", "drill", "failed", ID.lower())
    assert "\x1b" not in fact.reason
    assert os.stat(unit.path("roles")).st_mode & 0o777 == 0o755


def test_a_command_that_cannot_be_carried_out_says_why(unit, ask, units):
    unit.configure()
    units.active.clear()
    begin = ("begin", "--endpoint", EMULATOR, "--lease", "60", "--longest", "600", "--since", "0")
    code, said = ask(*begin, systemd=units)
    assert (code, said.split(".")[0]) == (1, "scheduled-events-drill: the polling unit does not run")
