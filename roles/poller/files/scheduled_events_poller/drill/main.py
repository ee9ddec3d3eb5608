# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command of drills, which the playbook ``drill`` and the unit of the guard run."""

import argparse
import json
import os
import sys
from typing import Any, Dict, List, Optional

from _scheduled_events import history, history_file
from _scheduled_events.client import ImdsClient, ImdsError
from _scheduled_events.clock import CLOCK
from _scheduled_events.document import EVENT_TYPES
from _scheduled_events.history import Fact

from .. import spool
from ..unit import config, endpoint_resolver, poller
from .folder import Folder
from .guard import REQUEST_TIMEOUT, Watch, guard
from .look import Places, look, preview
from .switch import DrillError, Switch, Systemd, reason_of

LOOK_WITHIN = 125.0  # seconds for one answer: the first one may take two minutes (docs/contract.md, section 6)


def main(arguments: Optional[List[str]] = None, *, systemd: Optional[Systemd] = None) -> int:
    """Carry out the command; returns its exit status."""
    chosen = _parser().parse_args(arguments)
    switch = Switch(Folder(chosen.directory), chosen.config, systemd or Systemd(), CLOCK)
    try:
        return int(chosen.function(chosen, switch) or 0)
    except (DrillError, config.ConfigError, ImdsError, OSError) as error:
        print(f"scheduled-events-drill: {error}", file=sys.stderr)
        return 1


def _preview(chosen: argparse.Namespace, _switch: Switch) -> None:
    _say(preview(_places(chosen), Folder(chosen.directory), _client(chosen, LOOK_WITHIN), chosen.type, CLOCK))


def _begin(chosen: argparse.Namespace, switch: Switch) -> None:
    switch.begin(chosen.endpoint, lease=chosen.lease, longest=chosen.longest)
    _look(chosen, switch)


def _look(chosen: argparse.Namespace, _switch: Switch) -> None:
    _say(look(_places(chosen), Folder(chosen.directory), chosen.since, CLOCK))


def _note(chosen: argparse.Namespace, _switch: Switch) -> None:
    """Write into the history that the event is a drill, and how the drill ended."""
    fact = Fact(
        kind=history.DRILLED,
        time=CLOCK.wall(),
        source=history.DRILL,
        vm_name=chosen.vm_name,
        event_id=chosen.event_id,
        event_type=chosen.type,
        outcome=chosen.outcome,
        reason=chosen.reason,
    )
    if not os.path.isdir(chosen.roles_directory):
        os.umask(0o022)  # the role load_balancer keeps the flag there that a web server reads
        os.makedirs(chosen.roles_directory)
    history_file.History(chosen.roles_directory).append([fact], now=fact.time)


def _guard(chosen: argparse.Namespace, _switch: Switch) -> int:
    client = _client(chosen, REQUEST_TIMEOUT)
    return guard(Watch(client, config.load(chosen.config), Folder(chosen.directory), CLOCK))


def _restore(_chosen: argparse.Namespace, switch: Switch) -> None:
    switch.restore(reason_of([os.environ.get(name, "") for name in ("SERVICE_RESULT", "EXIT_CODE", "EXIT_STATUS")]))


def _client(chosen: argparse.Namespace, timeout: float) -> ImdsClient:
    settings = config.load(chosen.config)
    endpoint = endpoint_resolver.find(settings).endpoint
    return ImdsClient(endpoint=endpoint, api_version=settings.api_version, request_timeout=timeout, retry_for=0)


def _places(chosen: argparse.Namespace) -> Places:
    directories = spool.Directories(hooks=chosen.hooks_directory, runtime=chosen.runtime_directory)
    return Places(chosen.config, poller.Places(chosen.state_file, directories))


def _say(answer: Dict[str, Any]) -> None:
    print(json.dumps(answer))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scheduled-events-drill", description=__doc__)
    for option, default in (
        ("config", config.CONFIG_FILE),
        ("directory", "/run/scheduled-events-drill"),
        ("state-file", poller.STATE_FILE),
        ("runtime-directory", spool.RUNTIME_DIRECTORY),
        ("hooks-directory", spool.HOOKS_DIRECTORY),
        ("roles-directory", history_file.ROLES_DIRECTORY),
    ):
        parser.add_argument(f"--{option}", default=default, metavar="PATH", help="default: %(default)s")
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND")
    verbs.required = True

    def verb(name: str, function: Any, meaning: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = verbs.add_parser(name, help=meaning, description=meaning)
        added.set_defaults(function=function)
        return added

    command = verb("preview", _preview, "show what a drill would run here, and why it cannot begin")
    command.add_argument("--type", choices=EVENT_TYPES, default="Reboot")
    command = verb("begin", _begin, "begin a drill")
    command.add_argument("--endpoint", required=True, metavar="URL", help="of the emulator")
    command.add_argument("--lease", type=float, required=True, metavar="SECONDS", help="between two looks, at most")
    command.add_argument("--longest", type=float, required=True, metavar="SECONDS", help="of the drill")
    command.add_argument("--since", type=float, required=True, metavar="SECONDS", help="facts since then")
    command = verb("look", _look, "show what has happened, and renew the lease")
    command.add_argument("--since", type=float, required=True, metavar="SECONDS", help="facts since then")
    command = verb("note", _note, "write into the history that an event is a drill")
    for name in ("event-id", "type", "vm-name"):
        command.add_argument(f"--{name}", required=True)
    command.add_argument("--outcome", default="")
    command.add_argument("--reason", default="")
    verb("end", lambda _chosen, switch: switch.end(), "end the drill")
    verb("guard", _guard, "watch the real service; for the unit")
    verb("point", lambda _chosen, switch: switch.point(), "point the polling unit at the emulator; for the unit")
    verb("restore", _restore, "point the polling unit back; for the unit")
    return parser
