# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events``: what the unit runs, and what its owner asks."""

import argparse
import datetime
import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from _scheduled_events.approval import ApprovalFailed, approve
from _scheduled_events.client import REQUESTS_IMPORT_ERROR, ImdsClient, ImdsError
from _scheduled_events.document import DocumentError, ScheduledEvent, describe, parse

from . import config, engine, hooks, poller, runner
from .state import RUNNING, State, StateError, StateFile

# Exit codes of `status`, as monitoring plugins have them; the other commands end with 0, 1, or 2 for a wrong usage.
STATUS_OK, STATUS_WARNING, STATUS_CRITICAL, STATUS_UNKNOWN = 0, 1, 2, 3
STALE = 30.0  # seconds without a sign of the poller, or without a document, that are no hiccup any more

COMMAND_TIMEOUT = 125.0


class CommandError(Exception):
    """The command cannot do what was asked; the message says why and what to do."""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command; returns its exit status."""
    chosen = _parser().parse_args(arguments)
    if REQUESTS_IMPORT_ERROR and chosen.needs_requests:
        return _fail("the Python library requests is missing; install your distribution's python3-requests")
    try:
        return int(chosen.function(chosen))
    except ApprovalFailed as error:
        return _fail(str(error))
    except (CommandError, config.ConfigError, poller.PollerError, ImdsError, StateError, OSError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130


def _fail(message: str) -> int:
    sys.stderr.write(f"scheduled-events: {message}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scheduled-events",
        description="Azure Scheduled Events of this VM: what is coming, and what is done about it.",
    )
    _add_places(parser)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True

    command = _command(commands, "list", _list, "show the events that the service tells of")
    command.add_argument("--all", action="store_true", help="those of other VMs too")
    command.add_argument("--json", action="store_true", help="as JSON, each event as a hook reads it")

    command = _command(commands, "status", _status, "show what the polling unit knows, does and waits for")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(needs_requests=False)

    command = _command(commands, "approve", _approve, "acknowledge events, which lets them start at once")
    command.add_argument("event_id", nargs="+", metavar="ID", help="EventId, in any case")
    command.add_argument(
        "--force", action="store_true", help="even if its hooks have not ended well, or it names other VMs too"
    )

    command = _command(commands, "poll", _poll, "show what the polling unit would do now")
    command.add_argument("--once", action="store_true", required=True, help="read one document")
    command.add_argument("--dry-run", action="store_true", required=True, help="do nothing about it")

    tests = _group(commands, "hooks", "try hooks")
    command = _command(tests, "test", _test_hooks, "run the hooks of a phase now, as root would for an event")
    command.add_argument("phase", choices=runner.PHASES, metavar="PHASE", help=", ".join(runner.PHASES))
    command.add_argument(
        "--event", required=True, metavar="FILE", help="an event, as list --json or as Azure writes it"
    )
    command.set_defaults(needs_requests=False)

    checks = _group(commands, "config", "look after the configuration")
    command = _command(checks, "check", _check_config, "check a configuration file")
    command.add_argument("file", nargs="?", metavar="FILE", help="default: the one in use")
    command.set_defaults(needs_requests=False)

    command = _command(commands, "run", _run, "poll, as the unit does")
    command.add_argument(
        "--spawn-hooks", action="store_true", help="run hooks as processes of our own, without systemd"
    )
    return parser


def _group(commands: Any, name: str, meaning: str) -> Any:
    group = commands.add_parser(name, help=meaning, description=meaning).add_subparsers(dest="what", metavar="COMMAND")
    group.required = True
    return group


def _command(commands: Any, name: str, function: Callable[[Any], int], meaning: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=meaning, description=meaning)
    command.set_defaults(function=function, needs_requests=True)
    return command


def _add_places(parser: argparse.ArgumentParser) -> None:
    for option, default in (
        ("config", config.CONFIG_FILE),
        ("state-file", poller.STATE_FILE),
        ("runtime-directory", runner.RUNTIME_DIRECTORY),
        ("hooks-directory", runner.HOOKS_DIRECTORY),
        ("hooks-runtime-directory", runner.HOOKS_RUNTIME_DIRECTORY),
    ):
        parser.add_argument(f"--{option}", default=default, metavar="PATH", help="default: %(default)s")


def _places(chosen: argparse.Namespace) -> poller.Places:
    directories = runner.Directories(chosen.hooks_directory, chosen.runtime_directory, chosen.hooks_runtime_directory)
    return poller.Places(chosen.state_file, directories)


def _client(settings: config.Settings) -> ImdsClient:
    return ImdsClient(
        endpoint=settings.endpoint,
        api_version=settings.api_version,
        request_timeout=COMMAND_TIMEOUT,
        retry_for=10,
    )


def _print(text: str) -> None:
    # Event text may hold anything; a terminal gets no control characters, and no locale makes us fail.
    shown = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    sys.stdout.buffer.write(shown.encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()


def _print_json(value: Any) -> None:
    _print(json.dumps(value, indent=2))


# Commands


def _run(chosen: argparse.Namespace) -> int:
    service = poller.Poller(lambda: config.load(chosen.config), _places(chosen), spawn_hooks=chosen.spawn_hooks)
    service.run()
    return 0


def _check_config(chosen: argparse.Namespace) -> int:
    config.load(chosen.file or chosen.config)
    return 0


def _list(chosen: argparse.Namespace) -> int:
    settings = config.load(chosen.config)
    client = _client(settings)
    document = client.fetch()
    vm_name = settings.vm_name or client.fetch_name()
    events = [event for event in document.events if chosen.all or event.affects(vm_name)]
    shown = [describe(event, vm_name=vm_name, now=_now()) for event in events]
    if chosen.json:
        _print_json({"vm_name": vm_name, "incarnation": document.incarnation, "events": shown})
    elif not shown:
        _print(f"no events{'' if chosen.all else ' of ' + vm_name} (incarnation {document.incarnation})")
    else:
        _print_table(shown)
    return 0


def _print_table(events: List[Dict[str, Any]]) -> None:
    rows: List[Tuple[str, ...]] = [("EVENT ID", "TYPE", "STATUS", "SOURCE", "NOT BEFORE", "SECONDS", "RESOURCES")]
    for event in events:
        cells = (
            event["event_id"],
            event["event_type"],
            event["event_status"],
            event["event_source"],
            event["not_before"],
            event["duration_in_seconds"],
            ", ".join(event["resources"]),
        )
        rows.append(tuple("-" if cell in (None, "") else str(cell) for cell in cells))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        _print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _status(chosen: argparse.Namespace) -> int:
    path = _places(chosen).status_file
    try:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)
        code, summary = _judge(known)
    except FileNotFoundError:
        code, summary, known = STATUS_CRITICAL, "the polling unit does not run, or has not since this boot", {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        code, summary, known = STATUS_UNKNOWN, f"{path} cannot be read: {error}", {}
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    if chosen.json:
        _print_json({**known, "exit_code": code, "summary": summary})
        return code
    _print(f"{word}: {summary}")
    for event in known.get("events", ()):
        phases = ", ".join(f"{phase} {outcome}" for phase, outcome in event["phases"].items())
        _print(f"  {event['event_type']} {event['event_id']} ({event['event_status']}): {event['doing']}")
        if phases:
            _print(f"    hooks: {phases}")
    return code


def _judge(known: Dict[str, Any]) -> Tuple[int, str]:
    """Exit code and summary of what the poller wrote down about itself."""
    now = time.time()
    silence = now - known["time"]
    if silence > STALE:
        return STATUS_CRITICAL, f"the polling unit gave no sign for {silence:.0f} seconds"
    last = known["last_successful_poll"]
    if last is None or now - last > STALE:
        since = "since it was started" if last is None else f"for {now - last:.0f} seconds"
        reason = known["error"] or "the service has not answered yet"
        return (STATUS_CRITICAL if known["failed_polls"] else STATUS_WARNING), f"no document {since}: {reason}"
    troubled = [event for event in known["events"] if event["trouble"]]
    name = known["vm_name"]
    if troubled:
        return STATUS_WARNING, f"{len(troubled)} of {len(known['events'])} events of {name} in trouble"
    if known["error"]:
        return STATUS_WARNING, known["error"]
    pretending = "dry run, " if known["dry_run"] else ""
    return STATUS_OK, f"{pretending}{len(known['events'])} events of {name}, incarnation {known['incarnation']}"


def _approve(chosen: argparse.Namespace) -> int:
    settings = config.load(chosen.config)
    client = _client(settings)
    vm_name = settings.vm_name or client.fetch_name()
    state = None if chosen.force else _load_state(chosen)
    reasons: Dict[str, str] = {}

    def allowed(event: ScheduledEvent) -> bool:
        reason = _objection(event, vm_name, state, force=chosen.force)
        if reason:
            reasons[event.key] = reason
        return reason is None

    outcome = approve(client, chosen.event_id, may_approve=allowed)
    for event_id in outcome.approved:
        _print(f"{event_id}: acknowledged")
    for event_id in outcome.already_started:
        _print(f"{event_id}: has started already")
    for event_id in outcome.absent:
        _print(f"{event_id}: there is no such event")
    for event_id in outcome.skipped:
        _print(f"{event_id}: not acknowledged: {reasons.get(event_id.lower(), 'it is not Scheduled')}")
    return 1 if outcome.absent or outcome.skipped else 0


def _load_state(chosen: argparse.Namespace) -> Optional[State]:
    return StateFile(_places(chosen).state_file).load()


def _objection(event: ScheduledEvent, vm_name: str, state: Optional[State], *, force: bool) -> Optional[str]:
    if not event.affects(vm_name):
        return f"it does not name this VM, {vm_name}"
    if force:
        return None
    if not event.affects_only(vm_name):
        return f"it names other VMs than {vm_name} too, and an acknowledgement speaks for all; --force does it"
    entry = state.events.get(event.key) if state else None
    prepare = entry.runs.get("prepare") if entry else None
    if prepare is not None and prepare.outcome not in (runner.OK, "no hooks"):
        state_of = "are still running" if prepare.outcome == RUNNING else f"ended with: {prepare.outcome}"
        return f"its prepare hooks {state_of}; --force does it"
    return None


def _poll(chosen: argparse.Namespace) -> int:
    settings = config.load(chosen.config)
    client = _client(settings)
    document = client.fetch()
    vm_name = settings.vm_name or client.fetch_name()
    state = _load_state(chosen) or State(serial=0)
    decided = engine.Config(
        vm_name=vm_name,
        hooks=hooks.phases_with_hooks(chosen.hooks_directory),
        rules=settings.rules,
        hook_timeout=settings.hook_timeout,
        margin=settings.margin,
        on_failure=settings.on_failure,
        approve=settings.approve,
    )
    boot_id = next((run.boot_id for entry in state.events.values() for run in entry.runs.values()), "")
    now = engine.Moment(time.time(), time.monotonic(), boot_id)
    _after, actions = engine.step(state, document, [], now, decided)
    for action in actions:
        _print(_words(action))
    if not actions:
        _print(f"nothing to do (incarnation {document.incarnation}, {len(document.events)} events)")
    return 0


def _words(action: engine.Action) -> str:
    if isinstance(action, engine.RunHooks):
        deadline = datetime.datetime.fromtimestamp(action.deadline, datetime.timezone.utc)
        event_id = action.event["event_id"]
        return f"{event_id}: would run the {action.phase} hooks, until {deadline:%Y-%m-%dT%H:%M:%SZ} at the latest"
    if isinstance(action, engine.Approve):
        return f"{action.event_id}: would acknowledge it"
    return f"{action.key or 'poll'}: {action.message}"


def _test_hooks(chosen: argparse.Namespace) -> int:
    settings = config.load(chosen.config) if os.path.exists(chosen.config) else config.Settings()
    vm_name = settings.vm_name or "this-vm"
    event = _read_event(chosen.event, settings, vm_name)
    job = runner.Job(
        request_id="test",
        phase=chosen.phase,
        event=event,
        vm_name=vm_name,
        timeout=settings.hook_timeout,
        not_later_than=None,
        deadline=time.time() + settings.hook_timeout,
    )
    result = runner.run_phase(job, chosen.hooks_directory, sys.stdout.buffer)
    if not result["hooks"]:
        _print(f"no hooks in {os.path.join(chosen.hooks_directory, chosen.phase)}.d")
    else:
        _print(f"{result['outcome']} after {result['seconds']:.1f} s {result['reason']}".rstrip())
    return 0 if result["outcome"] == runner.OK else 1


def _read_event(path: str, settings: config.Settings, vm_name: str) -> Dict[str, Any]:
    """The event in a file: one of ``list --json``, or an event or document of Azure, of which the first counts."""
    try:
        with open(0 if path == "-" else path, encoding="utf-8") as file:
            raw = json.load(file)
        if isinstance(raw, dict) and isinstance(raw.get("events"), list) and raw["events"]:
            raw = raw["events"][0]
        if isinstance(raw, dict) and ("EventId" in raw or "Events" in raw):
            azure = raw if "Events" in raw else {"Events": [raw]}
            events = parse(json.dumps(azure), api_version=settings.api_version).events
            raw = describe(events[0], vm_name=vm_name, now=_now()) if events else None
    except (OSError, ValueError, RecursionError, DocumentError) as error:
        raise CommandError(f"{path}: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("event_id"), str):
        raise CommandError(f"{path}: an event with an event_id (or EventId) was expected")
    return raw


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
