# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this VM has to remember of the jobs of an event: a file of root for each event, which outlasts a reboot."""

import contextlib
import json
import os
from typing import Any, Dict, Mapping, Optional

from _scheduled_events.files import read_status, trim, write_atomically
from _scheduled_events.runs import parse_run_id, token_of

MEMORY_DIRECTORY = "/var/lib/scheduled-events-controller"
LAUNCHED = -1  # a job whose launch was sent, and not answered
KEPT = 90 * 24 * 3600.0  # seconds for which an event is remembered after its last hook
MOST = 1000  # events besides the present one


class EventMemory:
    """The memory of one event, for the present preparation.

    :param environment: of the hook. A preparation is the one with the same SCHEDULED_EVENT_FIRST_RUN; it has another
        one after its effect was undone. SCHEDULED_EVENT_RECOVERED changes when a recovery of this VM ends.
    :ivar after: the id of the newest job that does not count. ``None``: not known yet. Then all jobs that exist when
        the controller answers do not count.
    :ivar job: the id of the newest job that this VM followed.
    :ivar gone: the id of the newest job from before the event was absent; ``None`` as for ``after``. Such a job does
        not count once it has ended: the role respond notices that, too, and ends well when it has recovered the VMs.
    :ivar running: the id of a job that may run, LAUNCHED if its id is not known, or 0. No later process may continue
        without this job.
    :ivar not_before: that of the event when the preparation began.
    :ivar unsaved: why the memory could not be written, or empty.
    """

    def __init__(self, directory: str, event: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._path = os.path.join(directory, token_of(str(event["event_id"]).lower()))
        run, first_run, recovered, undone = (
            environment.get(f"SCHEDULED_EVENT_{name}", "") for name in ("RUN", "FIRST_RUN", "RECOVERED", "UNDONE")
        )
        event_type = str(event.get("event_type") or "").lower()
        by_hand = parse_run_id(first_run) is None
        read = _read(self._path)
        known = read or {}
        repeats = known.get("first_run") == first_run and not by_hand
        self._preparation = {"first_run": first_run, "recovered": recovered, "event_type": event_type}
        self.not_before = str((known if repeats else event).get("not_before") or "")
        self.job, self.gone = _number(known.get("job")) or 0, _number(known.get("gone", 0))
        self.running = _running(read)
        self.unsaved = ""
        self.after: Optional[int] = None
        if repeats:
            self.after = _number(known.get("after"))
        elif read == {} and (by_hand or (run == first_run and undone == "false")):
            # The first run cannot have a job of its own yet. That of another VM counts, as nothing was undone since.
            self.after = 0
        elif known and known.get("recovered") == recovered:
            # Nothing was undone by this VM: another one may have launched the job for what was announced since already.
            self.after = _number(known.get("after"))
            if known.get("event_type") != event_type:
                self.after = max(self.after or 0, self.job)
            else:
                self.gone = None

    @property
    def may_run(self) -> bool:
        """Whether a job may run that this VM knows of."""
        return self.running != 0

    def set(self, **changes: Any) -> None:
        """Change ``after``, ``job``, ``gone`` or ``running``."""
        if any(getattr(self, name) != value for name, value in changes.items()):
            self.__dict__.update(changes)
            self.save()

    def save(self) -> None:
        """Make it durable. Where that is not possible, this process alone knows, and ``unsaved`` has the reason."""
        names = ("not_before", "after", "job", "gone", "running")
        fields = {**self._preparation, **{name: getattr(self, name) for name in names}}
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            write_atomically(self._path, json.dumps(fields).encode(), mode=0o600, durable=True)
        except OSError as error:
            self.unsaved = str(error)

    def forget_others(self, now: float) -> None:
        """Remove the memories of events that are too old to matter, and the oldest of too many, last those of jobs that
        may run.

        :param now: seconds since the epoch.
        """
        directory, name = os.path.split(self._path)
        with contextlib.suppress(OSError):
            trim(directory, now, oldest=KEPT, most=MOST, keep=(name,), matters=lambda path: _running(_read(path)) != 0)


def _read(path: str) -> Optional[Dict[str, Any]]:
    """A memory as it was written; empty without one, and ``None`` if it cannot be read."""
    try:
        return read_status(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None


def _running(read: Optional[Dict[str, Any]]) -> int:
    """The job that may run; see :class:`EventMemory`."""
    return LAUNCHED if read is None else _number(read.get("running")) or 0


def _number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
