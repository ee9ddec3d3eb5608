# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a drill: it watches the real service while the polling unit asks the emulator.

It has no privileges. Its end, for whatever reason, makes systemd point the polling unit back (ExecStopPost).
"""

from typing import Callable, NamedTuple, Optional

from _scheduled_events import rules
from _scheduled_events.client import ImdsClient, ImdsError
from _scheduled_events.clock import Clock
from _scheduled_events.document import ADVISORY, ScheduledEvent

from .. import systemd
from ..unit.config import Settings
from .folder import Folder

# Exit statuses, and what they mean for the drill.
REAL_EVENT, SILENT, ABANDONED, TOO_LONG = 10, 11, 12, 13
REASONS = {REAL_EVENT: "real_event", SILENT: "service_silent", ABANDONED: "abandoned", TOO_LONG: "too_long"}
ENDED = "ended"  # by the control node, or by hand

SILENT_AFTER = 30.0  # seconds without a document of the real service
REQUEST_TIMEOUT = 2.5  # seconds


class Watch(NamedTuple):
    """What the guard uses."""

    client: ImdsClient
    settings: Settings
    folder: Folder
    clock: Clock
    notify: Callable[[str], object] = systemd.notify


def guard(watch: Watch) -> int:
    """Watch until the drill has to end; returns why, as an exit status.

    The drill begins only after the real service was read once: a maintenance that has been announced comes first.
    """
    plan, clock = watch.folder.plan(), watch.clock
    ready, read_at = False, clock.monotonic()
    while True:
        began = clock.monotonic()
        try:
            event = _real_event(watch)
            read_at = clock.monotonic()
            if event is not None:
                systemd.log(systemd.WARNING, f"{event.event_type} {event.event_id} of this VM: the drill ends")
                return REAL_EVENT
            if not ready:
                watch.notify("READY=1\nSTATUS=The polling unit asks the emulator of a drill")
                ready = True
        except ImdsError as error:
            systemd.log(systemd.WARNING, f"the real service: {error}")
        watch.notify("WATCHDOG=1")
        now = clock.monotonic()
        if now - read_at > SILENT_AFTER:
            return SILENT
        if now - watch.folder.renewed() > plan.lease:
            return ABANDONED
        if now - plan.began > plan.longest:
            return TOO_LONG
        clock.sleep(max(0.0, watch.settings.interval - (now - began)))


def _real_event(watch: Watch) -> Optional[ScheduledEvent]:
    """An event of this VM that the polling unit would handle.

    :raises ImdsError: the document, or the name of this VM, cannot be read.
    """
    document = watch.client.poll()
    if not document.events:
        return None
    vm_name = watch.settings.vm_name or watch.client.poll_name()
    return next(
        (
            event
            for event in document.events
            if event.affects(vm_name)
            and event.event_status != ADVISORY
            and rules.decide(event, watch.settings.rules) != rules.IGNORE
        ),
        None,
    )
