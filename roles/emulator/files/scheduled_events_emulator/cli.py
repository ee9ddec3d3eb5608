# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events-emulator``: serve, and one verb for each function of the control API."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import functools
import io
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable

from scheduled_events_emulator import faults, scenarios
from scheduled_events_emulator.arguments import (
    count,
    duration,
    host_and_port,
    ip,
    port,
    seconds,
    speed,
    status,
    step,
    token,
    url,
)
from scheduled_events_emulator.checks import InputError
from scheduled_events_emulator.client import DEFAULT_CONTROL, WAIT, ControlError, quoted, request, strange
from scheduled_events_emulator.clock import LATEST, SPAN, Clock, parse_iso
from scheduled_events_emulator.event_grid import EVENT_GRID, SCHEMAS, Delivery
from scheduled_events_emulator.events import KEYS, TYPES
from scheduled_events_emulator.fleet import load_fleet
from scheduled_events_emulator.rendering import CURRENT, VERSIONS

Answer = Any
PROGRAM = "scheduled-events-emulator"


def _options(parser: argparse._ActionsContainer) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """What adds an option, and what adds one that is a time."""
    return parser.add_argument, functools.partial(parser.add_argument, type=seconds, metavar="SECONDS")


# serve


def _add_serve(verbs: Any) -> None:
    text = "run the emulator"
    parser = verbs.add_parser("serve", help=text, description="Run it until it is stopped.", allow_abbrev=False)
    parser.set_defaults(run=_serve)
    add, delay = _options(parser)
    add("--fleet", required=True, metavar="FILE", help="the VMs, as JSON")
    add("--port", type=port, default=8169, help="port of the IMDS on every VM's address (0: choose one)")
    add(
        "--listen",
        action="append",
        type=ip,
        default=[],
        metavar="ADDRESS",
        help="also serve on this address, for VMs with 'from'",
    )
    add("--control", dest="serve_on", type=host_and_port, default=("127.0.0.1", 8170), metavar="ADDRESS:PORT")
    add("--speed", type=speed, default=1.0, help="speed relative to real time")
    add("--manual-clock", action="store_true", help="stop the clock until 'advance'")
    add("--start-time", metavar="ISO", help="emulator time at the start (default: now)")
    delay("--first-answer-delay", default=0.0, help="duration of the first answer, in real time")
    add("--empty-first", action="store_true", help="answer the first GET with 200 and an empty body")
    delay("--cotenant-delay", default=0.0, help="time from approval to Started")
    add("--etag", action="store_true", help="send an ETag and answer If-None-Match with 304")
    add(
        "--unknown-event-status",
        type=int,
        choices=(200, 400, 404),
        default=400,
        help="answer to a POST with an unknown id",
    )
    add("--unknown-version-status", type=int, choices=(400, 404), default=400, help="answer to a newer api-version")
    add("--newest-version", choices=VERSIONS, default=CURRENT, help="newest api-version that this host knows")
    add("--rate-limit", type=count, default=5, metavar="N", help="requests per real second and VM before 429 (0: none)")
    _add_event_grid(
        parser.add_argument_group("messages of Event Grid", "They follow Microsoft's pages, and were not measured.")
    )
    delay("--exit-after", default=3600.0, help="end after this real time (0: never)")
    add("--started-file", metavar="FILE", help="write the control URL to this file when the emulator listens")


def _add_event_grid(group: argparse._ArgumentGroup) -> None:
    add, delay = _options(group)
    add(
        "--event-grid-url", type=url, metavar="URL", help="post a message about each change of an event to this webhook"
    )
    add("--event-grid-schema", choices=SCHEMAS, default=EVENT_GRID, help="schema of the messages")
    add("--event-grid-repeats", type=count, default=0, metavar="N", help="post each message so many more times")
    delay("--event-grid-disorder", default=0.0, help="delay each message by a random real time up to this one")
    add("--event-grid-token-file", dest="event_grid_token", type=token, metavar="FILE", help="token of the webhook")


def _add_check_fleet(verbs: Any) -> None:
    parser = verbs.add_parser("check-fleet", help="check a fleet file", description="Check a fleet file.")
    parser.set_defaults(run=_check_fleet)
    parser.add_argument("fleet", metavar="FILE")


def _check_fleet(arguments: argparse.Namespace) -> None:
    fleet = load_fleet(arguments.fleet)
    print(f"{arguments.fleet}: {len(fleet.machines)} VM{'' if len(fleet.machines) == 1 else 's'}")


def _clock(arguments: argparse.Namespace) -> Clock:
    if arguments.manual_clock and arguments.speed != 1.0:
        raise InputError("--speed: a manual clock stands still, expected one of --speed and --manual-clock")
    try:
        start = parse_iso(arguments.start_time) if arguments.start_time else time.time()
    except (ValueError, OverflowError):
        start = -1.0
    if not 0 <= start < LATEST:
        raise InputError(f"--start-time {arguments.start_time}: expected ISO 8601 such as 2026-01-31T12:00:00Z, {SPAN}")
    # Whole seconds let a stepped NotBefore be hit exactly.
    return Clock(float(int(start)), speed=0) if arguments.manual_clock else Clock(start, arguments.speed)


def _serve(arguments: argparse.Namespace) -> None:
    if arguments.control != DEFAULT_CONTROL:
        raise InputError(f"--control {arguments.control} stands before serve, expected serve --control ADDRESS:PORT")
    try:
        from scheduled_events_emulator import server
    except ImportError as error:
        if (error.name or "").split(".", maxsplit=1)[0] != "aiohttp":
            raise
        raise InputError(
            f"serve needs the library aiohttp, which {sys.executable} does not find. Install the package"
            " python3-aiohttp, or run pip install aiohttp"
        ) from None
    from scheduled_events_emulator.protocol import ServiceSettings

    values = vars(arguments)
    settings = ServiceSettings(**{each.name: values[each.name] for each in dataclasses.fields(ServiceSettings)})
    delivery = {each.name: values[f"event_grid_{each.name}"] for each in dataclasses.fields(Delivery)}
    if delivery["token"] and "@" in (delivery["url"] or "").partition("//")[2].partition("/")[0]:
        raise InputError("--event-grid-url has a user, and --event-grid-token-file a token, expected one of them")
    values["delivery"] = Delivery(**delivery)
    options = server.Options(**{each.name: values[each.name] for each in dataclasses.fields(server.Options)})
    fleet, clock = load_fleet(arguments.fleet), _clock(arguments)
    asyncio.run(server.Emulator(fleet, clock, settings, options, arguments.cotenant_delay).run())


# Verbs of the control API


def _add_event_options(parser: argparse.ArgumentParser) -> None:
    add, delay = _options(parser)
    add("vms", nargs="+", metavar="VM")
    delay("--notice", help="time from now to NotBefore")
    add("--duration", type=duration, metavar="SECONDS", help="duration of the impact (-1: unknown)")
    add("--source", choices=("Platform", "User"))
    add("--description")
    delay("--started-for", help="time from Started, or from the announcement of a hint, to removal")
    delay("--cancel-after", help="remove the event without impact after this time")
    delay("--cotenant-delay", help="time from approval to Started")
    add("--auto-approve", action="store_true", help="start the event at once, as if approved by a policy")
    add("--direct-started", action="store_true", help="omit the state Scheduled, as after a hardware failure")


def _add_control_verbs(verbs: Any) -> None:
    def verb(
        name: str, call: str, show: Callable[[Answer], str], text: str, options: Sequence[str] = ()
    ) -> argparse.ArgumentParser:
        """Add a verb: the method and path of its request, and the options that the body holds, if they were given."""
        parser: argparse.ArgumentParser = verbs.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
        )
        parser.set_defaults(run=_control, call=call, show=show, options=options, step={})
        _add_common(parser, after_verb=True)
        return parser

    verb("state", "GET /control/state", _show_state, "show VMs and events")
    parser = verb("schedule", "POST /control/events", _show_id, "schedule an event; prints its id", KEYS)
    parser.add_argument("type", choices=TYPES)
    _add_event_options(parser)
    parser.add_argument("--event-id", metavar="GUID")
    for name, text in (
        ("cancel", "remove a Scheduled event without impact"),
        ("start", "start a Scheduled event now"),
        ("complete", "remove a Started or Advisory event now"),
    ):
        verb(name, f"POST /control/events/{{event_id}}/{name}", _show_id, text).add_argument("event_id")
    parser = verb(
        "advance", "POST /control/advance", lambda answer: answer["now"], "move the clock forward; prints the time"
    )
    parser.add_argument(
        "step", type=step, metavar="SECONDS|next", help="seconds such as 90 or 5m, or next for the next change"
    )
    parser = verb("log", "GET /control/log?since={since}", _show_log, "show approvals and transitions in order")
    parser.add_argument("--since", type=count, default=0, metavar="SEQ", help="show only entries after this one")
    parser = verb(
        "event-grid",
        "GET /control/event-grid?schema={schema}",
        _show_each("messages"),
        "show the messages of Event Grid, one JSON object per line",
    )
    parser.add_argument("--schema", choices=SCHEMAS, default=EVENT_GRID)
    verb("polls", "GET /control/polls", _show_polls, "show how often each VM has polled")
    text = "make requests fail; prints the fault's id"
    _add_fault(verb("fault", "POST /control/faults", lambda answer: answer["fault_id"], text, faults.KEYS))
    verb("faults", "GET /control/faults", _show_each("faults"), "show the active faults")
    verb("clear-faults", "DELETE /control/faults", _show_cleared, "remove all faults")
    call = "POST /control/scenarios/{name}"
    parser = verb("scenario", call, lambda answer: "\n".join(answer["event_ids"]), "start a named timeline", KEYS)
    parser.add_argument("name", choices=scenarios.NAMES)
    _add_event_options(parser)
    for name, text in (
        ("deallocate", "deallocate a VM, which removes its events"),
        ("restart", "restart a VM by hand, which removes no events"),
    ):
        verb(name, f"POST /control/vms/{{name}}/{name}", _show_vm, text).add_argument("name", metavar="VM")
    verb("shutdown", "POST /control/shutdown", lambda _: "shutting down", "end the emulator")


def _add_common(parser: argparse.ArgumentParser, *, after_verb: bool = False) -> None:
    """Add what may stand before or after the verb; after it, only what is given there replaces what stood before."""
    control, as_json, wait = (argparse.SUPPRESS,) * 3 if after_verb else (DEFAULT_CONTROL, False, WAIT)
    add, delay = _options(parser)
    add("--control", default=control, metavar="URL", help=f"URL of the control API (default: {DEFAULT_CONTROL})")
    add("--json", action="store_true", default=as_json, help="print the answer as JSON")
    delay("--wait", default=wait, help=f"wait for the start of the emulator (default: {WAIT:g})")


def _add_fault(parser: argparse.ArgumentParser) -> None:
    add, delay = _options(parser)
    add("kind", choices=faults.KINDS)
    add("--vm", dest="vms", action="append", metavar="VM", help="only this VM (repeatable; default: all)")
    add("--status", type=status)
    add("--count", type=count, metavar="N", help="only the next N requests of each VM")
    delay("--seconds", help="only for this real time")
    delay("--delay", help="real time before the answer")
    add("--method", dest="methods", action="append", choices=("GET", "POST"))
    add("--path", dest="paths", action="append", choices=("events", "name"))
    add("--body", help="body of the failing answer")
    add("--location", metavar="URL", help="target of a redirect")


def _control(arguments: argparse.Namespace) -> None:
    values = vars(arguments)
    method, path = arguments.call.format_map({name: quoted(str(value)) for name, value in values.items()}).split()
    # The emulator has the defaults of the options that were not given.
    given = {name: value for name, value in values.items() if value is not None and value is not False}
    body = {**arguments.step, **{name: given[name] for name in given.keys() & arguments.options}}
    answer = request(arguments.control, method, path, body if method == "POST" else None, wait=arguments.wait)
    try:
        text = json.dumps(answer, indent=2) if arguments.json else arguments.show(answer)
    except (LookupError, TypeError, AttributeError):
        raise strange(f"{method} {arguments.control} {path}", "answered other JSON") from None
    print(text)


# What a person reads


def _show_id(answer: Answer) -> str:
    return str(answer["event_id"])


def _show_vm(answer: Answer) -> str:
    return f"{answer['vm']}: cleared {', '.join(answer['cleared']) or 'nothing'}"


def _show_cleared(answer: Answer) -> str:
    return f"removed {answer['cleared']} faults"


def _show_each(what: str) -> Callable[[Answer], str]:
    return lambda answer: "\n".join(json.dumps(each) for each in answer[what]) or f"no {what}"


def _show_state(answer: Answer) -> str:
    lines = [f"now {answer['now']}   next change {answer['next_change'] or '-'}", "", "VM  SCOPE  ENDPOINT  POLLING"]
    for vm in answer["vms"]:
        lines.append(f"{vm['name']}  {vm['scope']}  {vm['endpoint']}  {'yes' if vm['enabled'] else 'no'}")
    lines += ["", "EVENT  TYPE  STATUS  NOT BEFORE  VMS  APPROVED BY"]
    for event in answer["events"]:
        approvers = ",".join(dict.fromkeys(approval["vm"] for approval in event["approved_by"]))
        columns = (event["event_id"], event["type"], event["status"], event["not_before"] or "-")
        lines.append("  ".join((*columns, ",".join(event["resources"]), approvers or "-")))
    return "\n".join(lines if answer["events"] else [*lines[:-1], "no events"])


def _show_log(answer: Answer) -> str:
    lines = []
    for entry in answer["log"]:
        details = {key: value for key, value in entry.items() if key not in ("seq", "kind", "at", "at_real")}
        shown = "  ".join(f"{key}={_plain(value)}" for key, value in details.items())
        lines.append(f"{entry['seq']:>5}  {entry['at']}  {entry['kind']:<10}  {shown}")
    return "\n".join(lines) or "nothing logged"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(str(item) for item in value) or "-"
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _show_polls(answer: Answer) -> str:
    lines = ["VM  POLLS  POSTS  FAILED  THROTTLED  FIRST  LAST"]
    for name, row in answer["polls"].items():
        figures = (row["polls"], row["posts"], row["failures_injected"], row["throttled"])
        lines.append("  ".join((name, *map(str, figures), row["first"] or "-", row["last"] or "-")))
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Emulate Azure Scheduled Events for a fleet of VMs.",
        epilog="SECONDS may have a unit: 90, 90s, 5m, 1h, 2d.",
        allow_abbrev=False,  # a later option would change what an abbreviation means
    )
    _add_common(parser)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_serve(verbs)
    _add_check_fleet(verbs)
    _add_control_verbs(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 done, 1 refused or not reached, 2 wrong usage."""
    # The command must not fail because a terminal cannot show a character.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        parsed = _parser().parse_args(arguments)
        parsed.run(parsed)
        sys.stdout.flush()
    except (InputError, ControlError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        return _cannot_write(error)
    return 0


def _cannot_write(error: OSError) -> int:
    """Report that standard output cannot be written, unless the reader has ended, such as ``head``."""
    # The rest of the buffer would fail again when Python ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        print(f"{PROGRAM}: {error}", file=sys.stderr)
    return 1
