# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events replay``: the decisions for recorded documents and for a history."""

import glob
import json
import os

import pytest
from _scheduled_events import engine, terms
from _scheduled_events.clock import Moment
from _scheduled_events.document import parse
from _scheduled_events.history import Fact, line_of
from _scheduled_events.state import State
from polling_unit import ID, ROOT

pytestmark = pytest.mark.edge

PAYLOADS = sorted(glob.glob(os.path.join(ROOT, "tests", "payloads", "*.json")))
HOOKS = frozenset(["prepare", "recover"])


def decided(path, vm_name):
    """What the first step of the engine does about a document, in the words of the command."""
    with open(path, "rb") as file:
        document = parse(file.read(), api_version="2020-07-01")
    config = terms.Config(vm_name, HOOKS, acknowledge="any")
    _state, actions = engine.step(State(serial=0), document, [], Moment(1e9, 1.0, "boot"), config)
    return [
        f"would run the {action.phase} hooks" if isinstance(action, terms.RunHooks) else "would acknowledge it"
        for action in actions
        if not isinstance(action, terms.Report)
    ]


def a_vm_of(path):
    with open(path) as file:
        events = json.load(file)["Events"]
    return next((name for event in events for name in event.get("Resources") or []), "vm1")


def without_acknowledgements(lines):
    return [line for line in lines if line != "would acknowledge it"]


@pytest.mark.parametrize("path", PAYLOADS, ids=os.path.basename)
def test_a_recorded_document_gives_the_present_decisions(unit, path):
    unit.configure(acknowledge="any")
    for phase in HOOKS:
        unit.add_hook(phase, "touch ran")
    vm_name = a_vm_of(path)
    code, output, errors = unit.command("replay", "--vm-name", vm_name, path)
    found = [
        word
        for word in ("would run the prepare hooks", "would run the recover hooks")
        for line in output.splitlines()
        if word in line
    ]
    assert (code, errors, found) == (0, "", without_acknowledgements(decided(path, vm_name)))


def test_hooks_count_as_successful_and_none_runs(unit):
    unit.configure()
    unit.add_hook("prepare", f"touch {unit.path('ran')}")
    path = unit.path("document.json")
    event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    with open(path, "w") as file:
        json.dump([{"Events": [event]}, {"Events": [dict(event, EventStatus="Started")]}, {"Events": []}], file)
    _code, output, _errors = unit.command("replay", "--vm-name=vm1", path)
    assert f"{ID}: would acknowledge it" in output
    assert f"{ID}: started; recovery runs when the event is over" in output
    assert unit.ran() == ""


def test_a_rule_of_this_configuration_decides(unit):
    unit.configure(rules=[{"action": "hold"}])
    unit.add_hook("prepare", "true")
    path = unit.path("document.json")
    with open(path, "w") as file:
        event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
        json.dump({"Events": [event]}, file)
    output = unit.command("replay", "--vm-name=vm1", path)[1]
    assert "not acknowledged by this VM, because a rule holds or ignores it; waiting for NotBefore. Run " in output
    assert f"'scheduled-events approve {ID}', with --force if it names other VMs, to acknowledge it by hand" in output


def test_the_history_of_another_vm_is_replayed_under_its_name(unit):
    unit.configure()
    unit.add_hook("prepare", "true")
    path = unit.path("other.jsonl")
    same = {"source": "poller", "vm_name": "vm7", "event_id": ID, "event_type": "Reboot"}
    facts = [
        Fact(kind="seen", time=1.6e9, event_status="Scheduled", resources=("vm7",), not_before=1.6e9 + 900, **same),
        Fact(kind="phase_ended", time=1.6e9 + 5, phase="prepare", outcome="failed", **same),
        Fact(kind="started", time=1.6e9 + 900, **same),
        Fact(kind="over", time=1.6e9 + 1200, **same),
    ]
    with open(path, "wb") as file:
        file.writelines(map(line_of, facts))
    lines = unit.command("replay", path)[1].splitlines()
    times = [line for line in lines if line.startswith("2020")]
    assert [line.split()[:2] for line in times] == [
        ["2020-09-13T12:26:40.000Z", "1"],
        ["2020-09-13T12:41:40.000Z", "1"],
        ["2020-09-13T12:46:40.000Z", "0"],
    ]
    assert f"  {ID}: would acknowledge it" in lines
    assert ID.lower() not in "\n".join(lines)  # one spelling of the id


def test_a_history_decides_for_all_vms_of_an_event_of_which_it_has_the_first_names_alone(unit):
    unit.configure(acknowledge="any", rules=[{"action": "approve", "max_resources": 25}])
    unit.add_hook("prepare", "true")
    names = tuple(f"vm{number}" for number in range(1, 21))
    fact = announced(ID)._replace(vm_name="vm25", resources=names, resource_count=30)
    output = unit.command("replay", a_history(unit.path("history.jsonl"), fact))[1]
    assert f"{ID}: would run the prepare hooks" in output


def test_the_histories_of_two_vms_do_not_mix(unit):
    unit.configure()
    unit.add_hook("prepare", "true")
    other = announced("A2")._replace(vm_name="vm8", resources=("vm8",))
    paths = [a_history(unit.path(name), fact) for name, fact in (("1", announced(ID)), ("2", other))]
    output = unit.command("replay", *paths)[1]
    assert output.count("1 event in the document") == 2
    assert ID not in output.rpartition("1 event in the document")[2]


def test_a_document_with_a_byte_order_mark_is_read(unit):
    unit.configure()
    path = unit.path("document.json")
    with open(path, "w", encoding="utf-8-sig") as file:
        json.dump({"Events": [{"EventId": ID, "EventType": "Reboot", "Resources": ["vm1"]}]}, file)
    assert unit.command("replay", "--vm-name=vm1", path)[0] == 0


def test_the_moment_that_a_rule_chooses_is_shown_and_comes(unit):
    unit.configure(rules=[{"action": "prepare", "lead_time": 300}])
    unit.add_hook("prepare", "true")
    _code, output, _errors = unit.command("replay", a_history(unit.path("history.jsonl"), announced(ID)))
    lines = [line for line in output.splitlines() if "hooks ended" not in line and "seen as" not in line]
    assert lines[1:] == [
        f"  {ID}: in service: waits until 2020-09-13T12:36:40Z (300 s before NotBefore). To start it now, run "
        f"'scheduled-events retry {ID}'",
        "2020-09-13T12:36:40.000Z  a chosen moment",
        f"  {ID}: would run the prepare hooks, until 2020-09-13T12:41:30Z at the latest",
        f"  {ID}: would acknowledge it",
        f"  {ID}: acknowledged 600.0 s after it was seen",
        f"  {ID}: acknowledged; waiting for its start",
    ]


def a_history(path, *facts, first=b""):
    with open(path, "wb") as file:
        file.write(first)
        file.writelines(map(line_of, facts))
    return path


def announced(event_id, time=1.6e9):
    known = {"source": "poller", "vm_name": "vm7", "event_type": "Reboot", "event_status": "Scheduled"}
    return Fact(kind="seen", time=time, event_id=event_id, resources=("vm7",), not_before=time + 900, **known)


def test_the_vm_of_a_history_comes_before_that_of_the_configuration(unit):
    unit.configure(vm_name="vm1")
    unit.add_hook("prepare", "true")
    assert "would acknowledge it" in unit.command("replay", a_history(unit.path("other.jsonl"), announced(ID)))[1]


def test_an_event_that_does_not_change_is_shown_once(unit):
    unit.configure(rules=[{"action": "hold"}])
    path = a_history(unit.path("history.jsonl"), announced("A"), announced("B", 1.6e9 + 10))
    output = unit.command("replay", path)[1]
    assert output.count("  A: not acknowledged") == output.count("  B: not acknowledged") == 1


def test_more_open_events_than_a_vm_can_have_are_refused_with_the_time(unit):
    unit.configure()
    path = a_history(unit.path("history.jsonl"), *(announced(f"E{number}") for number in range(3000)))
    code, _output, errors = unit.command("replay", path)
    expected = (
        f"{path}: 51 events are open at 2020-09-13T12:26:40.000Z, expected at most 50. Replay a part of the history"
    )
    assert (code, errors) == (1, f"scheduled-events: {expected}\n")


@pytest.mark.parametrize("first", [b'id":"A"}\n', b'{"version":1,"kind":"seen","time":"9999-12-31T23:59:59.999Z"}\n'])
def test_a_line_that_is_not_a_fact_does_not_hide_the_others(unit, first):
    unit.configure()
    path = a_history(unit.path("history.jsonl"), announced(ID), first=first)
    code, output, errors = unit.command("replay", path)
    assert (code, errors, output.splitlines()[0]) == (0, "", "2020-09-13T12:26:40.000Z  1 event in the document")


def test_a_document_with_a_time_of_the_year_9999_is_replayed(unit):
    unit.configure()
    unit.add_hook("prepare", "true")
    path = unit.path("document.json")
    event = {"EventId": ID, "EventType": "Reboot", "EventStatus": "Scheduled", "Resources": ["vm1"]}
    with open(path, "w") as file:
        json.dump({"Events": [dict(event, NotBefore="Fri, 31 Dec 9999 23:59:59 GMT")]}, file)
    code, output, errors = unit.command("replay", "--vm-name=vm1", path)
    assert (code, errors) == (0, "")
    assert "would acknowledge it" in output


@pytest.mark.parametrize("content", ["", "nonsense", "[1]", '{"Events": 1}', "[" * 10000])
def test_a_file_with_something_else_is_refused(unit, content):
    unit.configure()
    path = unit.path("file")
    with open(path, "w") as file:
        file.write(content)
    code, _output, errors = unit.command("replay", "--vm-name=vm1", path)
    assert code == 1
    assert f"{path} is neither a document of the service, nor a list of them, nor a history: " in errors


def test_documents_without_the_name_of_a_vm_need_one(unit):
    unit.configure()
    code, _output, errors = unit.command("replay", PAYLOADS[0])
    assert (code, "does not name the VM: add --vm-name NAME" in errors) == (1, True)
