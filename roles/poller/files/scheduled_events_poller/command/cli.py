# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line ``scheduled-events``, which the unit and the operator run."""

import argparse
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from _scheduled_events import announced, history_file
from _scheduled_events.approval import ApprovalFailed
from _scheduled_events.checks import WrongValue
from _scheduled_events.client import REQUESTS_IMPORT_ERROR, WITHOUT_REQUESTS, ImdsError, NotAllowed
from _scheduled_events.document import EVENT_TYPES
from _scheduled_events.runs import PHASES

from .. import __version__, spool
from ..unit import config, control, poller, status
from . import commands, forecast, replay, show_history
from .output import CommandError, complain

EX_CONFIG = 78  # the unit is not started again until the configuration has been fixed
CLOSED = 4  # the Metadata Security Protocol does not let this user ask; a hook that ends so has failed, unlike with 77


def _event_id(text: str) -> str:
    if not text.strip():  # such as a variable of a script that is not set; to clear no id is to clear all events
        raise argparse.ArgumentTypeError("expected the EventId of an event, not an empty text")
    return text


EVENT_ID: Dict[str, Any] = {"type": _event_id, "metavar": "ID", "help": "EventId, in upper or lower case"}


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the command; returns its exit status: 0, 1 for a failure, 2 for a wrong usage, 4 if this user may not ask
    the service, 78 for a configuration with which ``run`` cannot begin; ``status`` and ``forecast`` have those of
    monitoring plugins."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it is closed
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    chosen = _parser().parse_args(arguments)
    if REQUESTS_IMPORT_ERROR and chosen.function is commands.run:  # which would go on and poll again
        return _fail(WITHOUT_REQUESTS)
    try:
        return int(chosen.function(chosen) or 0)
    except WrongValue as error:
        _fail(_with_advice(error))
        return {commands.run: EX_CONFIG, forecast.show_forecast: status.UNKNOWN}.get(chosen.function, 1)
    except NotAllowed as error:
        _fail(str(error))
        return CLOSED
    except (CommandError, control.NoUnit, poller.PollerError, ImdsError, ApprovalFailed) as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(_with_advice(error))
    except KeyboardInterrupt:
        return 130


def _with_advice(error: Exception) -> str:
    denied = isinstance(error, PermissionError) or isinstance(error.__cause__, PermissionError)
    return f"{error}. Run the command as root, for example with sudo" if denied and os.geteuid() != 0 else str(error)


def _fail(message: str) -> int:
    complain(f"scheduled-events: {message}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scheduled-events",
        description="Show and handle the Azure Scheduled Events of this VM.",
        allow_abbrev=False,  # a later option would change what an abbreviation means
    )
    parser.add_argument("--version", action="version", version=f"scheduled-events {__version__}")
    _add_places(parser)
    groups = parser.add_subparsers(dest="command", metavar="COMMAND")
    groups.required = True

    command = _command(groups, "list", commands.list_events, "show the events that the service announces")
    command.add_argument("--all", action="store_true", help="include events that name only other VMs")
    command.add_argument(
        "--json", action="store_true", help="print JSON, with each event in the format that hooks read"
    )

    command = _command(groups, "status", commands.show_status, "show the state of the polling unit and of its events")
    command.add_argument("--json", action="store_true", help="print JSON")

    _command(groups, "prepared", commands.show_prepared, "show the ids of the events from which this VM has to recover")

    command = _command(groups, "history", show_history.show_history, "show what happened to the events of this VM")
    command.add_argument(
        "--since",
        type=show_history.since_of,
        default=0.0,
        metavar="WHEN",
        help="a duration like 12h or 7d, or a time like 2026-01-31",
    )
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(
        groups, "forecast", forecast.show_forecast, "show whether the preparation fits into the notice of an event"
    )
    command.add_argument(
        "--event-types",
        type=forecast.types_of,
        default=",".join(EVENT_TYPES),
        metavar="TYPES",
        help="default: %(default)s",
    )
    command.add_argument("--json", action="store_true", help="print JSON")

    command = _command(groups, "replay", replay.show_replay, "show what this configuration decides for recorded events")
    command.add_argument("file", nargs="+", metavar="FILE", help="a document of the service, a list of them, a history")
    command.add_argument("--vm-name", metavar="NAME", help="the VM that decides; default: that of the file")

    _command(groups, "leases", commands.show_leases, "show the addresses of the service in DHCP leases")

    command = _command(groups, "approve", commands.approve_events, "acknowledge events, which lets them start at once")
    command.add_argument("event_id", nargs="+", **EVENT_ID)
    command.add_argument(
        "--force", action="store_true", help="also if the hooks have not succeeded, or if the event names other VMs"
    )

    command = _command(groups, "retry", commands.send_command, "run the preparation or recovery of an event again")
    command.add_argument("event_id", **EVENT_ID)

    command = _command(
        groups,
        "clear",
        commands.send_command,
        "remove events that are over from the state, after you have recovered this VM by hand",
    )
    chosen = command.add_mutually_exclusive_group(required=True)
    chosen.add_argument("event_id", nargs="?", **EVENT_ID)
    chosen.add_argument(
        "--all", action="store_true", help="all these events, and what is not known since the state was lost"
    )

    _command(groups, "poll", commands.poll, "show what the polling unit would do now, without doing it")

    tests = _group(groups, "hooks", "test hooks")
    command = _command(tests, "test", commands.test_hooks, "run the hooks of a phase now, as for an event")
    command.add_argument("phase", choices=PHASES, metavar="PHASE", help=", ".join(PHASES))
    command.add_argument(
        "--event",
        metavar="FILE",
        help="an event in the format of list --json or of Azure; default: a sample, unless an event is announced",
    )

    checks = _group(groups, "config", "check the configuration")
    command = _command(checks, "check", commands.check_config, "check a configuration file")
    command.add_argument(
        "file", nargs="?", metavar="FILE", help="default: the configuration in use; -: all settings of the role"
    )

    _command(groups, "run", commands.run, "poll in the foreground, as the unit does")
    return parser


def _group(commands_: Any, name: str, meaning: str) -> Any:
    group = commands_.add_parser(name, help=meaning, description=meaning).add_subparsers(dest="what", metavar="COMMAND")
    group.required = True
    return group


def _command(group: Any, name: str, function: Callable[[Any], Optional[int]], meaning: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = group.add_parser(name, help=meaning, description=meaning, allow_abbrev=False)
    command.set_defaults(function=function)
    return command


def _add_places(parser: argparse.ArgumentParser) -> None:
    for option, default in (
        ("config", config.CONFIG_FILE),
        ("state-file", poller.STATE_FILE),
        ("runtime-directory", spool.RUNTIME_DIRECTORY),
        ("hooks-directory", spool.HOOKS_DIRECTORY),
        ("hooks-runtime-directory", spool.HOOKS_RUNTIME_DIRECTORY),
        ("webhooks-runtime-directory", spool.WEBHOOKS_RUNTIME_DIRECTORY),
        ("roles-directory", history_file.ROLES_DIRECTORY),
        ("drill-directory", announced.DIRECTORY),
    ):
        parser.add_argument(f"--{option}", default=default, metavar="PATH", help="default: %(default)s")
