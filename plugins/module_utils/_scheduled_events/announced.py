# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is announced to this VM: the events of the service, and the event of a drill.

A drill is one event in a file of root's, which counts for a minute at a time and goes away with a reboot.
"""

import json
import os
import time
from typing import Any, Callable, Dict, Optional, Set

from .document import ADVISORY, SCHEDULED, STARTED, Document, ScheduledEvent, parse_event
from .files import plain

DIRECTORY, NAME = "/run/scheduled-events-drill", "event.json"
PREFIX = "drill-"  # of the id of every drill
LEASE = 60.0  # seconds for which the file counts at most, unless it is written again
MAX_BYTES = 16 * 1024
CLOCK_BOOTTIME = 7  # Python 3.6 has no name for it


class NoDrill(Exception):
    """The file adds no event. The message says why."""


def is_drill(event_id: str) -> bool:
    """Whether this is the id of a drill, which Azure does not know."""
    return event_id.lower().startswith(PREFIX)


def boottime() -> float:
    """Seconds since the boot, with those of a suspension."""
    return time.clock_gettime(CLOCK_BOOTTIME)


def announced(document: Document, directory: Optional[str], ended: Set[str]) -> Document:
    """The document of the service with the event of a drill, until an event of the service names the same VM.

    :param directory: of the drill; ``None`` for the document of another machine.
    :param ended: the drills that ended so, which stay ended: a recovery would wait for one whose control node is away.
    """
    if directory is None:
        return document
    try:
        drill = read_drill(directory)
    except FileNotFoundError:
        return document
    except NoDrill as error:
        return document._replace(drill_problem=f"{os.path.join(directory, NAME)} adds no event: {error}")
    holding = [event for event in document.events if event.event_status != ADVISORY and drill.names[0] in event.names]
    if holding or drill.key in ended or any(event.key == drill.key for event in document.events):
        ended.add(drill.key)
        return document._replace(drill_problem=f"{drill.event_id} has ended, since the service announced an event")
    return document._replace(events=(*document.events, drill), drill=drill.key)


def read_drill(directory: str, *, clock: Callable[[], float] = boottime) -> ScheduledEvent:
    """The event of the drill that runs now.

    :raises FileNotFoundError: there is no file.
    :raises NoDrill: the file cannot be trusted or read, or counts no longer.
    """
    # In another directory than root's, a test is the owner.
    owners = (0,) if directory == DIRECTORY else (0, os.geteuid())
    try:
        with plain(os.path.join(directory, NAME)) as (file, found):
            if found.st_uid not in owners or found.st_mode & 0o022:
                raise NoDrill("it is not root's, or others can write it")
            content = file.read(MAX_BYTES + 1)
        now = clock()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(directory) from None
    except OSError as error:
        raise NoDrill(str(error)) from error
    if len(content) > MAX_BYTES:
        raise NoDrill(f"it has more than {MAX_BYTES} bytes")
    try:
        decoded: Dict[str, Any] = json.loads(content.decode("utf-8"))
        left = decoded["until"] - now
        event = parse_event(decoded["event"])
    except (ValueError, RecursionError, LookupError, TypeError, OverflowError) as error:
        raise NoDrill(f"it cannot be read: {type(error).__name__}") from error
    if not 0 < left <= LEASE:
        raise NoDrill(f"its time is over, or more than {LEASE:g} s ahead")
    if not is_drill(event.key) or len(event.names) != 1 or event.event_status not in (SCHEDULED, STARTED):
        raise NoDrill(f"its event is not that of a drill, which has an id {PREFIX}…, one VM and a status")
    return event
