# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the control node sees of the host: before a drill, and while it goes on."""

import json
from typing import Any, Dict, List, NamedTuple, Optional

from _scheduled_events import history, history_file, rules
from _scheduled_events.client import ImdsClient, ImdsError
from _scheduled_events.clock import Clock
from _scheduled_events.files import read_plain

from ..spool import find_hooks, hook_sets
from ..unit import config, hooks, poller, status
from ..unit.sample import sample_event
from .folder import Folder
from .switch import TEXTS

_MOST_FACTS = 500


class Places(NamedTuple):
    """The files of the polling unit."""

    config: str
    poller: poller.Places


def preview(places: Places, folder: Folder, client: ImdsClient, event_type: str, clock: Clock) -> Dict[str, Any]:
    """What a drill would run here, and why it cannot begin.

    :param client: of the real service.
    """
    settings = config.load(places.config)
    refusals: List[str] = []
    vm_name: Optional[str] = None
    action, events = "", []
    try:
        document = client.poll()
        vm_name = settings.vm_name or client.poll_name()
        sample = sample_event(vm_name, event_type, api_version=settings.api_version, now=clock.wall())
        action = rules.decide(sample, settings.rules)
        events = [event for event in document.events if event.affects(vm_name)]
    except ImdsError as error:
        refusals.append(f"the service cannot be read: {error}")
    for event in events:
        refusals.append(f"{event.event_type} {event.event_id} names this VM. Wait until it is over")
    found = hooks.phases(places.poller.directories.hooks, settings.hooks)
    for phase, names in found.missing.items():
        refusals.append(f"the {phase} hooks {', '.join(names)} are configured but missing. Run the role poller again")
    if settings.dry_run:
        refusals.append("the polling unit runs dry, so it runs no hook. Set poller_dry_run to false")
    refusals.extend(_unready(_status(places)))
    return {
        "vm_name": vm_name,
        "endpoint": settings.endpoint,
        "hooks": {phase: _names(places, settings, phase) for phase in sorted(found.configured)},
        "action": action,
        "acknowledge": settings.acknowledge,
        "on_failure": settings.on_failure,
        "hook_timeout": settings.hook_timeout,
        "margin": settings.margin,
        "pointed": folder.is_pointed(),
        "refusals": refusals,
        "time": clock.wall(),
    }


def look(places: Places, folder: Folder, since: float, clock: Clock) -> Dict[str, Any]:
    """What has happened since then. A look also renews the lease of the drill.

    :param since: seconds since the epoch, on the clock of this host.
    """
    if folder.is_pointed():
        folder.renew(clock.monotonic())
    read = history_file.read(places.poller.history_directory, now=clock.wall(), since=since)
    known, ended = _status(places), folder.ended()
    return {
        "pointed": folder.is_pointed(),
        "ended": ended,
        "why": TEXTS.get(ended or "", ""),
        "endpoint": known.get("endpoint"),
        "polled": known.get("last_successful_poll"),
        "facts": [history.as_json(fact) for fact in read.facts[-_MOST_FACTS:]],
        "problems": list(read.problems),
        "time": clock.wall(),
    }


def _status(places: Places) -> Dict[str, Any]:
    try:
        read = json.loads(read_plain(places.poller.status_file, most=status.MOST_BYTES).decode("utf-8"))
        return read if isinstance(read, dict) else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _unready(known: Dict[str, Any]) -> List[str]:
    if not known:
        return ["the polling unit has no status. Start it with 'systemctl start scheduled-events-poller'"]
    return [
        f"the polling unit still handles {event['event_type']} {event['event_id']}. See 'scheduled-events status'"
        for event in known.get("events", [])
    ]


def _names(places: Places, settings: config.Settings, phase: str) -> List[str]:
    try:
        return list(find_hooks(hook_sets(places.poller.directories.hooks), phase))
    except OSError:
        return list(settings.hooks.get(phase, ()))
