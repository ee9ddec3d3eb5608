# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this VM has to remember of the jobs of an event: a file of root for each event, which outlasts a reboot."""

import contextlib
import json
import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from _scheduled_events.files import write_atomically
from _scheduled_events.runs import parse_run_id, token_of

MEMORY_DIRECTORY = "/var/lib/scheduled-events-controller"
LAUNCHED = -1  # a job whose launch was sent, and not answered
KEPT = 90 * 24 * 3600.0  # seconds for which an event is remembered after its last hook


class Preparation(NamedTuple):
    """What a job has to be launched for so that it counts.

    ``first_run``: the run of the hooks that this one repeats, or its own id: a preparation whose effect was undone has
    another one. ``recovered``: a number that changes when a recovery of this VM ends. ``event_type``: in lower case.
    ``undone``: a recovery ended after the event may have been announced. ``not_before``: that of the event when the
    preparation began, which distinguishes the announcements of an id.
    """

    run: str
    first_run: str
    recovered: str
    event_type: str
    undone: bool
    not_before: str

    @classmethod
    def of(cls, event: Mapping[str, Any], environment: Mapping[str, str]) -> "Preparation":
        """The preparation of a hook with this environment."""
        run, first, recovered = (
            environment.get(f"SCHEDULED_EVENT_{name}", "") for name in ("RUN", "FIRST_RUN", "RECOVERED")
        )
        undone = environment.get("SCHEDULED_EVENT_UNDONE") != "false"
        event_type, not_before = (str(event.get(key) or "") for key in ("event_type", "not_before"))
        return cls(run, first, recovered, event_type.lower(), undone, not_before)

    @property
    def is_trial(self) -> bool:
        """Whether an operator runs the hook by hand."""
        return parse_run_id(self.first_run) is None


class Memory:
    """The memory of one event.

    ``after``: the newest job that does not count for the present preparation; ``None`` while that is not known, which
    is when whatever there is when the controller answers next does not count. ``job``: the newest one that this VM
    followed. ``running``: a job that runs as far as this VM knows, LAUNCHED if that has no known id, or 0. No later
    process may continue without it.
    """

    def __init__(self, directory: str, event_id: str, preparation: Preparation) -> None:
        self._path = os.path.join(directory, token_of(event_id.lower()))
        known = self._read()
        if self._repeats(preparation, known):
            preparation = preparation._replace(not_before=str(known.get("not_before") or ""))
        self.preparation = preparation
        self.unsaved = ""
        self.running = _number(known.get("running")) or 0
        self.job = _number(known.get("job")) or 0
        self.after = self._after(known)

    @property
    def may_run(self) -> bool:
        """Whether a job may run that this VM knows of."""
        return self.running != 0

    @staticmethod
    def _repeats(now: Preparation, known: Dict[str, Any]) -> bool:
        return known.get("first_run") == now.first_run and not now.is_trial

    def _after(self, known: Dict[str, Any]) -> Optional[int]:
        now = self.preparation
        if not known:
            # Without a memory, a repetition cannot know which job is its own. A job of another VM counts unless it may
            # have been launched before the recovery that has ended.
            return 0 if now.is_trial or (now.run == now.first_run and not now.undone) else None
        if self._repeats(now, known):
            return _number(known.get("after"))
        if known.get("recovered") == now.recovered and known.get("event_type") != now.event_type:
            # Nothing was undone: another VM may have launched the job for the new type already.
            return max(_number(known.get("after")) or 0, self.job)
        return None

    def set(self, **changes: Any) -> None:
        """Change ``after``, ``job`` or ``running``."""
        if all(getattr(self, name) == value for name, value in changes.items()):
            return
        for name, value in changes.items():
            setattr(self, name, value)
        self.save()

    def save(self) -> None:
        """Make it durable. Where that is not possible, this process alone knows, and ``unsaved`` has the reason."""
        fields = {**self.preparation._asdict(), "after": self.after, "job": self.job, "running": self.running}
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            write_atomically(self._path, json.dumps(fields).encode(), mode=0o600, durable=True)
        except OSError as error:
            self.unsaved = str(error)

    def forget_others(self, now: float) -> None:
        """Remove what is too old to matter.

        :param now: seconds since the epoch.
        """
        directory = os.path.dirname(self._path)
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                path = os.path.join(directory, name)
                if path != self._path and now - os.stat(path).st_mtime > KEPT:
                    os.unlink(path)

    def _read(self) -> Dict[str, Any]:
        try:
            with open(self._path, encoding="utf-8") as file:
                known = json.load(file)
        except (OSError, ValueError, RecursionError):
            return {}
        return known if isinstance(known, dict) else {}


def _number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
