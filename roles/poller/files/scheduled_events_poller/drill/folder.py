# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a drill, in a directory of root that a reboot empties. The polling unit and the guard read them."""

import contextlib
import json
import os
from typing import Any, Dict, NamedTuple, Optional

from _scheduled_events.files import read_plain, write_atomically

POINTED = "pointed"

_MOST_BYTES = 1024 * 1024


class Plan(NamedTuple):
    """What a drill was begun with.

    :param endpoint: of the emulator. ``real``: what the polling unit asked before.
    :param lease: seconds without a look of the control node after which the guard ends the drill.
    :param longest: seconds after which the guard ends it in any case.
    :param began: when it began, on the monotonic clock of the host.
    """

    endpoint: str
    real: str
    lease: float
    longest: float
    began: float


class Folder:
    """The files of the drill."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        # The sandbox of the polling unit shows this file in the place of its configuration, if it exists.
        self.config = os.path.join(directory, "poller.json")
        # Exists from before the polling unit is pointed at the emulator until after it was pointed back.
        self.pointed = os.path.join(directory, POINTED)
        self._plan = os.path.join(directory, "drill.json")
        self._lease = os.path.join(directory, "lease")
        self._ended = os.path.join(directory, "ended")

    def make(self, plan: Plan) -> None:
        """Begin with this plan.

        :raises OSError: it cannot be written.
        """
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        _remove(self._ended)
        self.renew(plan.began)
        write_atomically(self._plan, json.dumps(plan._asdict()).encode(), mode=0o644)

    def plan(self) -> Plan:
        """The plan.

        :raises OSError: there is none, or it cannot be read.
        """
        return Plan(**_read(self._plan))

    def renew(self, now: float) -> None:
        """Note that the control node still conducts the drill.

        :param now: on the monotonic clock, which all processes of a host share.
        """
        write_atomically(self._lease, json.dumps({"at": now}).encode(), mode=0o644)

    def renewed(self) -> float:
        """When the control node looked last, on the monotonic clock."""
        return float(_read(self._lease)["at"])

    def point(self, config: bytes, group: int) -> None:
        """Let the next start of the polling unit use this configuration."""
        write_atomically(self.pointed, b"", mode=0o644)
        write_atomically(self.config, config, mode=0o600)
        if os.geteuid() == 0:
            os.chown(self.config, 0, group)
        os.chmod(self.config, 0o640)

    def is_pointed(self) -> bool:
        """Whether the polling unit may ask the emulator."""
        return os.path.exists(self.pointed) or os.path.exists(self.config)

    def unpoint(self) -> None:
        """Let the next start of the polling unit use its own configuration."""
        _remove(self.config)

    def is_restored(self) -> None:
        """Note that the polling unit was started with its own configuration."""
        _remove(self.pointed)

    def end(self, reason: str) -> None:
        """Note why the drill ended; the first reason stays."""
        if os.path.isdir(self.directory) and not os.path.exists(self._ended):
            write_atomically(self._ended, json.dumps({"reason": reason}).encode(), mode=0o644)

    def ended(self) -> Optional[str]:
        """Why the last drill ended; ``None`` while it goes on, or without one."""
        try:
            return str(_read(self._ended)["reason"])
        except FileNotFoundError:
            return None


def _read(path: str) -> Dict[str, Any]:
    try:
        read = json.loads(read_plain(path, most=_MOST_BYTES).decode("utf-8"))
        if not isinstance(read, dict):
            raise ValueError("it is not an object")
    except (ValueError, RecursionError) as error:
        raise OSError(f"{path} cannot be read: {error}") from error
    return read


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
