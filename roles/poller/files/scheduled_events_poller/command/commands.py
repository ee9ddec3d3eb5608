# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of ``scheduled-events``. Each takes the parsed arguments; some return an exit status."""

import argparse
import contextlib
import json
import os
import sys
import time
from typing import Any, Dict, List, Tuple

from _scheduled_events import engine, policies, terms
from _scheduled_events import rules as decisions
from _scheduled_events.approval import approve
from _scheduled_events.checks import WrongValue, show
from _scheduled_events.client import REQUEST_TIMEOUT, ImdsClient, ImdsError
from _scheduled_events.clock import Moment
from _scheduled_events.condition import condition
from _scheduled_events.discovery import GIVEN, search_leases
from _scheduled_events.document import ScheduledEvent, announcement, describe, parse, parse_event
from _scheduled_events.exchange import DEFAULT_ENDPOINT
from _scheduled_events.files import read_status
from _scheduled_events.history_file import append_beside, experience
from _scheduled_events.runs import NOTHING, OK
from _scheduled_events.state import RUNNING, State, StateFile
from _scheduled_events.text import counted
from _scheduled_events.text import shown as one_line
from _scheduled_events.transitions import acknowledgement

from .. import spool
from ..unit import config, control, display, endpoint_resolver, instance, poller, status
from .output import CommandError, complain, histories, places, say, say_json, say_table

LISTED = ("event_id", "event_type", "event_status", "event_source", "not_before", "duration_in_seconds")
SAMPLE_ID = "00000000-0000-0000-0000-000000000000"
SAMPLE_NOTICE = 900.0  # seconds from now to the NotBefore of the sample event
LOOK_TIMEOUT = 5.0  # seconds for a look that may fail
MOST_IN_SUMMARY = 4  # problems in the first line of the status, which monitoring systems may cut
# What a status that was not written by this release can raise.
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


def run(chosen: argparse.Namespace) -> None:
    """Poll until a signal."""
    poller.Poller(lambda: config.load(chosen.config), places(chosen)).run()


def check_config(chosen: argparse.Namespace) -> None:
    """Check a configuration file, or all settings that the role is going to install."""
    if chosen.file == "-":
        check_settings(config.read_json("-"))
        return
    path = chosen.file or chosen.config
    config.load(path)
    say(f"{path}: the configuration is valid")


def check_settings(given: Any) -> None:
    """Check the settings of the unit, of the controller and of webhooks, by the names of their options.

    :raises WrongValue: the first mistake.
    """
    from ..notify import settings  # here, since only this command uses it

    if not isinstance(given, dict) or not {"config", "controller", "webhooks"} <= given.keys():
        raise WrongValue(f"-: expected a dictionary with config, controller and webhooks, not {show(given)}")
    config.parse(given["config"])
    if given["controller"]:
        settings.parse_controller(given["controller"])
    settings.parse_receivers(given["webhooks"], place="webhooks")


def list_events(chosen: argparse.Namespace) -> None:
    """Show the events of the service."""
    settings = config.load(chosen.config)
    client = _client(settings, chosen)
    document = client.fetch()
    vm_name = settings.vm_name or client.fetch_name()
    warning = settings.vm_name and client.other_name(vm_name, LOOK_TIMEOUT)
    if warning:
        complain(f"scheduled-events: {warning}")
    events = [event for event in document.events if chosen.all or event.affects(vm_name)]
    shown = [describe(event, vm_name=vm_name, now=time.time()) for event in events]
    if chosen.json:
        say_json({"vm_name": vm_name, "incarnation": document.incarnation, "events": shown})
    elif not shown:
        say(f"no events{'' if chosen.all else ' of ' + vm_name} (incarnation {document.incarnation})")
    else:
        _print_table(shown)


def _print_table(events: List[Dict[str, Any]]) -> None:
    rows: List[Tuple[str, ...]] = [("EVENT ID", "TYPE", "STATUS", "SOURCE", "NOT BEFORE", "SECONDS", "RESOURCES")]
    for event in events:
        cells = (*(event[name] for name in LISTED), ", ".join(event["resources"]))
        rows.append(tuple("-" if cell in (None, "") else str(cell) for cell in cells))
    say_table(rows)


def show_prepared(chosen: argparse.Namespace) -> None:
    """Show from which events this VM has to recover, as the saved state has it."""
    for event_id in policies.unrecovered(_load_state(chosen)):
        say(event_id)


def show_status(chosen: argparse.Namespace) -> int:
    """Show the state of the unit and rate it; the exit status is that of a monitoring plugin."""
    path = places(chosen).status_file
    known: Dict[str, Any] = {}
    try:
        read = read_status(path)
        code, judged = status.judge(read, time.time())
        for event in read["events"]:
            event["said"] = _said(event, places(chosen).directories)
        lines = [line for event in read["events"] for line in _event_lines(event)]
        # An endpoint of the owner may be that of an emulator.
        if read["endpoint_source"] and (read["endpoint_source"], read["endpoint"]) != (GIVEN, DEFAULT_ENDPOINT):
            lines.insert(0, f"  asks {read['endpoint']} ({read['endpoint_source']})")
        if read["drill"] or read["drill_problem"]:
            lines.insert(0, f"  drill: {read['drill_problem'] or 'its event is added to those of the service'}")
        known = read
    except FileNotFoundError:
        judged = ["the polling unit does not run, or cannot write its status. See its journal"]
        code, lines = status.CRITICAL, []
    except UNREADABLE as error:
        code, judged, lines = status.UNKNOWN, [f"{path} cannot be read: {error}"], []
    webhooks, problems, more = _webhooks(chosen.webhooks_runtime_directory)
    from ..root import runner  # here, since this is also the command that the unprivileged unit runs

    with contextlib.suppress(OSError):  # only root and the unit can list them
        problems += map(one_line, runner.refused(chosen.hooks_directory))
    found = ([] if problems and code == status.OK else judged) + problems
    if problems:
        code = code or status.WARNING
    if chosen.json:
        say_json({**known, "webhooks": webhooks, "exit_code": code, "summary": "; ".join(found)})
        return code
    first, others = found[:MOST_IN_SUMMARY], found[MOST_IN_SUMMARY:]
    if others:
        first.append(f"{counted(len(others), 'other problem')}, below")
    say(f"{('OK', 'WARNING', 'CRITICAL', 'UNKNOWN')[code]}: {'; '.join(first)}")
    for line in [f"  {each}" for each in others] + lines + more:
        say(line)
    return code


def _webhooks(runtime: str) -> Tuple[Dict[str, Any], List[str], List[str]]:
    """The status of the webhooks, its problems and its lines; without webhooks nothing of them is imported."""
    try:
        os.stat(runtime)
        from ..notify import delivery_status

        known = delivery_status.read(runtime)
        return (known, *delivery_status.judge(known, time.time()))
    except FileNotFoundError:
        return {}, [], []
    except UNREADABLE as error:
        return {}, [f"the status of the webhooks in {runtime} cannot be read: {error}"], []


def _event_lines(event: Dict[str, Any]) -> List[str]:
    of_azure = f" ({event['event_status']})" if event["present"] else ""
    lines = [f"  {event['event_type']} {event['event_id']}{of_azure}: {event['doing']}"]
    if event["hooks"]:
        phases = ", ".join(f"{phase} {outcome}" for phase, outcome in event["hooks"].items())
        lines.append(f"    hooks: {phases}")
    if event["said"]:
        lines.append(f"    output of the hook: {event['said']}")
    return lines


def _said(event: Dict[str, Any], directories: spool.Directories) -> str:
    """The last output of a running hook. The output of a hook that was killed is not shown."""
    if RUNNING in event["hooks"].values():
        with contextlib.suppress(OSError), open(directories.said(str(event["event_id"])), "rb") as file:
            return one_line(file.read(8 * spool.LONGEST_REASON), spool.LONGEST_REASON)
    return ""


def show_leases(_chosen: argparse.Namespace) -> None:
    """Show the addresses of the service in the DHCP leases of this host."""
    for line in search_leases().lines:
        say(line)


def send_command(chosen: argparse.Namespace) -> None:
    """Have the unit retry or clear an event."""
    name = chosen.event_id or "all events"
    objection = control.send(places(chosen).directories.socket, chosen.command, chosen.event_id or "")
    if objection:
        raise CommandError(f"{name}: {objection}. See 'scheduled-events status'")
    say(f"{name}: the polling unit has accepted the request. See 'scheduled-events status'")


def approve_events(chosen: argparse.Namespace) -> int:
    """Acknowledge events by hand."""
    settings = config.load(chosen.config)
    client = _client(settings, chosen)
    vm_name = settings.vm_name or client.fetch_name()
    decided = poller.engine_config(settings, vm_name, chosen.hooks_directory)

    def state() -> State:
        return State(serial=0) if chosen.force else _load_state(chosen)

    known = state()
    prepares = policies.can_prepare(decided) and "prepare" not in decided.missing
    begun = [event_id for event_id in chosen.event_id if prepares and _starts_now(event_id, known, chosen)]
    ids = [event_id for event_id in chosen.event_id if event_id not in begun]
    reasons: Dict[str, str] = {}
    seen: Dict[str, ScheduledEvent] = {}

    def allowed(event: ScheduledEvent) -> bool:
        seen[event.key] = event
        # To read the document may have taken minutes, in which a recovery can have begun.
        reason = _objection(event, state(), decided, force=chosen.force)
        if reason:
            reasons[event.key] = reason
        return not reason

    try:
        outcome = approve(client, ids, may_approve=allowed)
        _record_approval(chosen, [seen[event_id.lower()] for event_id in outcome.approved], vm_name)
    finally:  # last, since the disk of the output may be full
        for event_id in begun:
            say(
                f"{event_id}: its preparation begins now, before its moment. Run 'scheduled-events status' to follow it"
            )
    for ids, what in (
        (outcome.approved, "acknowledged"),
        (outcome.already_started, "has already started"),
        (outcome.absent, "the service announces no such event"),
    ):
        for event_id in ids:
            say(f"{event_id}: {what}")
    for event_id in outcome.skipped:
        say(f"{event_id}: not acknowledged: {reasons.get(event_id.lower(), 'it is not Scheduled')}")
    return 1 if outcome.absent or outcome.skipped else 0


def _starts_now(event_id: str, state: State, chosen: argparse.Namespace) -> bool:
    """Whether the preparation waited for a moment, and begins now."""
    entry = state.events.get(event_id.lower())
    waits = entry is not None and entry.is_put_off
    return waits and not control.send(places(chosen).directories.socket, "retry", event_id)


def _record_approval(chosen: argparse.Namespace, events: List[ScheduledEvent], vm_name: str) -> None:
    """Write who acknowledged into the history, if this user may write it."""
    by = f"{os.environ.get('SUDO_USER') or 'user ' + str(os.getuid())}, with scheduled-events approve"
    facts = [acknowledgement(event, by=by, vm_name=vm_name, now=time.time()) for event in events]
    append_beside(histories(chosen), facts)


def _load_state(chosen: argparse.Namespace) -> State:
    return StateFile(places(chosen).state_file).load() or State(serial=0)


def _objection(event: ScheduledEvent, state: State, decided: terms.Config, *, force: bool) -> str:
    """Why the event is not acknowledged; empty if it is."""
    if not event.affects(decided.vm_name):
        return f"it does not name this VM, {decided.vm_name}"
    if force:
        return ""
    own = _own_objection(event, state, decided)
    if event.affects_only(decided.vm_name):
        return own
    others = f"it also names other VMs than {decided.vm_name}, and an acknowledgement counts for all of them"
    return f"{others}, and {own}" if own else f"{others}. Use --force to acknowledge it"


def _own_objection(event: ScheduledEvent, state: State, decided: terms.Config) -> str:
    """Why this VM is not ready for the event; empty if it is."""
    if state.withheld:
        return f"the state of the polling unit was lost: {state.lost}. Use --force to acknowledge it"
    if policies.recovery_runs(state):
        return "a recovery of this VM is running. Use --force to acknowledge it"
    if decisions.decide(event, decided.rules) == decisions.APPROVE:
        return ""
    entry = state.events.get(event.key)
    unprepared = entry is None or "prepare" not in entry.runs or policies.prepared_nothing(entry)
    if unprepared and not policies.can_prepare(decided):
        return ""  # nothing is to be done first, so the word of the operator is enough
    if entry is None:
        return "prepare hooks are configured, and the polling unit has not run them for it; --force does it"
    fresh = entry._replace(event=event, present=True)
    if policies.is_ready(fresh, decided, recovered=state.recovered):
        return ""
    outcome = entry.runs["prepare"].outcome if policies.has_ended(entry, "prepare") else ""
    ended = {
        "": "have not ended",
        OK: "have to run again, since a recovery overlapped them or the event has changed",
        NOTHING: "prepared nothing",
    }.get(outcome, f"ended: {outcome}")
    return f"its prepare hooks {ended}; --force does it"


def engine_config(settings: config.Settings, vm_name: str, chosen: argparse.Namespace) -> terms.Config:
    """The configuration with which the unit decides now."""
    known = experience(places(chosen).history_directory, now=time.time())
    return poller.engine_config(settings, vm_name, chosen.hooks_directory)._replace(**known)


def poll(chosen: argparse.Namespace) -> None:
    """Show what the unit would do about the document of now."""
    settings = config.load(chosen.config)
    client = _client(settings, chosen)
    document = client.fetch()
    vm_name = settings.vm_name or client.fetch_name()
    state = _load_state(chosen)
    decided = engine_config(settings, vm_name, chosen)
    now = Moment(time.time(), time.monotonic(), instance.find_boot_id(chosen.runtime_directory))
    after, actions = engine.step(state, document, [], now, decided)
    for action in actions:
        say(display.of_action(action, after.events))
    for key, entry in after.events.items():
        if entry.waits_until is not None:
            say(f"{entry.event.event_id}: {condition(after, key, decided).sentence(entry.event.event_id)}")
    if not actions:
        say(f"nothing to do (incarnation {document.incarnation}, {counted(len(document.events), 'event')})")


def test_hooks(chosen: argparse.Namespace) -> int:
    """Run the hooks of a phase as the root side would."""
    settings = config.load(chosen.config) if os.path.exists(chosen.config) else config.Settings()
    event, vm_name = _event_for_hooks(chosen, settings)
    job = spool.Job(
        request_id="test",
        phase=chosen.phase,
        event=event,
        vm_name=vm_name,
        timeout=settings.hook_timeout,
        not_later_than=None,
        deadline=time.time() + settings.hook_timeout,
        ends_at=time.monotonic() + settings.hook_timeout,
        hooks=tuple(settings.hooks.get(chosen.phase, ())),
        failed_phase="prepare" if chosen.phase == "failed" else "",
        failure="a test of the failed hooks" if chosen.phase == "failed" else "",
        first_run="test",
    )
    from ..root import runner  # here, since this is also the command that the unprivileged unit runs

    result = runner.run_phase(job, chosen.hooks_directory, sys.stdout.buffer)
    if result.outcome in (OK, NOTHING) and not spool.find_hooks(spool.hook_sets(chosen.hooks_directory), chosen.phase):
        say(f"no hooks in {os.path.join(chosen.hooks_directory, chosen.phase)}.d")
    elif result.outcome == NOTHING:
        say(f"nothing prepared after {result.seconds:.1f} s, so an event is not acknowledged: {result.reason}")
    else:
        say(f"{result.outcome} after {result.seconds:.1f} s {result.reason}".rstrip())
    return 0 if result.outcome in (OK, NOTHING) else 1


def _event_for_hooks(chosen: argparse.Namespace, settings: config.Settings) -> Tuple[Dict[str, Any], str]:
    """The event in a file, or a sample; and the name of this VM.

    :raises CommandError: an event is announced, whose preparation a test of the hooks would undo or repeat.
    """
    vm_name = settings.vm_name or _known_name(places(chosen).status_file)
    if chosen.event is not None:
        return _read_event(chosen.event, settings, vm_name), vm_name
    event_id = _announced_event(settings, chosen)
    if event_id:
        raise CommandError(
            f"{event_id} is announced now, and the polling unit runs the hooks for it. Test the hooks after it, or "
            "use --event FILE to run them now for the event in a file"
        )
    say("with a sample event. Use --event FILE for another event")
    sample = sample_event(vm_name, "Reboot", not_before=time.time() + SAMPLE_NOTICE)
    return describe(sample, vm_name=vm_name, now=time.time()), vm_name


def _known_name(status_file: str) -> str:
    """The name of this VM that the polling unit heard last."""
    with contextlib.suppress(*UNREADABLE):
        return str(read_status(status_file)["vm_name"] or "this-vm")
    return "this-vm"


def sample_event(vm_name: str, event_type: str, *, not_before: float) -> ScheduledEvent:
    """An event of this VM, as the platform announces it.

    :param not_before: seconds since the epoch.
    """
    description = "A sample event for hooks"
    return parse_event(announcement(SAMPLE_ID, event_type, vm_name, not_before=not_before, description=description))


def _announced_event(settings: config.Settings, chosen: argparse.Namespace) -> str:
    """The id of an event of this VM that is announced now, or was when the service answered last; empty without one.

    One of a former name counts as long as the unit knows it.
    """
    known = _load_state(chosen).events
    try:
        client = _client(settings, chosen, briefly=True)
        document = client.poll()
        vm_name = settings.vm_name or client.poll_name()
    except ImdsError:
        announced = (entry for entry in known.values() if entry.is_announced)
        return next((entry.event.event_id or "" for entry in announced), "")
    own = (event for event in document.events if event.affects(vm_name) or event.key in known)
    return next((event.event_id for event in own if event.event_id), "")


def _read_event(path: str, settings: config.Settings, vm_name: str) -> Dict[str, Any]:
    """The event in a file: one of ``list --json``, or an event or document of Azure, of which the first counts."""
    raw = config.read_json(path)
    try:
        if isinstance(raw, dict) and isinstance(raw.get("events"), list) and raw["events"]:
            raw = raw["events"][0]
        if isinstance(raw, dict) and ("EventId" in raw or "Events" in raw):
            azure = raw if "Events" in raw else {"Events": [raw]}
            events = parse(json.dumps(azure), api_version=settings.api_version).events
            raw = describe(events[0], vm_name=vm_name, now=time.time()) if events else {}
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("event_id"), str):
        raise CommandError(f"{path}: the content is not an event, expected an object with event_id or EventId")
    return raw


def _client(settings: config.Settings, chosen: argparse.Namespace, *, briefly: bool = False) -> ImdsClient:
    found = endpoint_resolver.find(settings, patience=0) if briefly else endpoint_resolver.find(settings)
    return ImdsClient(
        endpoint=found.endpoint,
        api_version=settings.api_version,
        request_timeout=LOOK_TIMEOUT if briefly else REQUEST_TIMEOUT,
        retry_for=0 if briefly else 10,
        drill_directory=chosen.drill_directory,
    )
