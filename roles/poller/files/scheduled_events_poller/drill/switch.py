# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Point the polling unit at the emulator of a drill, and back. Runs as root.

systemd runs :func:`restore` whenever the guard ends (ExecStopPost), and everything is in a directory that a reboot
empties. So nothing has to survive for the polling unit to ask its own service again.
"""

import json
import os
import subprocess
from typing import Any, Dict, Sequence

from _scheduled_events.clock import Clock

from ..unit import config
from .folder import Folder, Plan
from .guard import ENDED, REASONS

POLLER, GUARD = "scheduled-events-poller.service", "scheduled-events-drill.service"
SYSTEMCTL_WITHIN = 180.0  # seconds; the guard waits for the first document of the real service
TRIES, PAUSE = 5, 2.0  # of a restart of the polling unit that fails; seconds
FAILED = "guard_failed"

# Why a drill ends before the control node ends it.
TEXTS = {
    "real_event": "an event of Azure names this VM, and the polling unit handles it",
    "service_silent": "the service of Azure did not answer, so an event could have been missed",
    "abandoned": "the control node did not look at the host in time",
    "too_long": "the drill took too long",
    ENDED: "it was ended on the host",
    FAILED: "the unit of the guard failed. See 'journalctl -u scheduled-events-drill'",
}


class DrillError(Exception):
    """The command cannot be carried out; the message says why, and what to do."""


class Systemd:
    """The manager of the units."""

    def is_active(self, unit: str) -> bool:
        """Whether the unit runs, or is about to."""
        done = self._call("is-active", unit)
        return done.stdout.decode("utf-8", "replace").strip() in ("active", "activating", "deactivating", "reloading")

    def run(self, verb: str, unit: str) -> None:
        """Start, stop or restart a unit, and wait.

        :raises DrillError: it failed.
        """
        done = self._call(verb, unit)
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise DrillError(f"systemctl {verb} {unit} failed: {said}. See 'journalctl -u {unit}'")

    @staticmethod
    def _call(*words: str) -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                ["systemctl", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=SYSTEMCTL_WITHIN,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DrillError(f"systemctl {' '.join(words)}: {error}") from error


class Switch:
    """The two units and the files of a drill.

    :param config_file: the configuration of the polling unit.
    """

    def __init__(self, folder: Folder, config_file: str, systemd: Systemd, clock: Clock) -> None:
        self._folder = folder
        self._config_file = config_file
        self._systemd = systemd
        self._clock = clock

    def begin(self, endpoint: str, *, lease: float, longest: float) -> None:
        """Begin a drill: start the guard, which points the polling unit at the emulator.

        :raises DrillError: it was not begun, and the polling unit asks its own service.
        """
        if self._systemd.is_active(GUARD):
            raise DrillError(
                f"another drill runs on this host. Wait until it ends, or end it with 'systemctl stop {GUARD}'"
            )
        self.restore("")  # what a drill has left whose end was cut off
        if not self._systemd.is_active(POLLER):
            raise DrillError(f"the polling unit does not run. Start it with 'systemctl start {POLLER}'")
        real = config.load(self._config_file).endpoint
        self._folder.make(Plan(endpoint, real, lease, longest, self._clock.monotonic()))
        try:
            self._systemd.run("start", GUARD)
        except DrillError as error:
            why = TEXTS.get(self._folder.ended() or FAILED, FAILED)
            raise DrillError(f"the drill did not begin: {why} ({error})") from error

    def point(self) -> None:
        """Point the polling unit at the emulator.

        :raises DrillError: the polling unit did not start.
        """
        with open(self._config_file, encoding="utf-8") as file:
            settings: Dict[str, Any] = json.load(file)
            group = os.fstat(file.fileno()).st_gid
        settings["endpoint"] = self._folder.plan().endpoint
        self._folder.point(json.dumps(settings).encode(), group)
        self._systemd.run("restart", POLLER)

    def restore(self, reason: str) -> None:
        """Point the polling unit back, if it is not already.

        :param reason: why the drill ended; empty if none did.
        :raises DrillError: the polling unit did not start. The next call tries it again.
        """
        if reason:
            self._folder.end(reason)
        if not self._folder.is_pointed():
            return
        self._folder.unpoint()
        for left in range(TRIES, 0, -1):
            try:
                self._systemd.run("restart", POLLER)
                break
            except DrillError:
                if left == 1:
                    raise
                self._clock.sleep(PAUSE)
        self._folder.is_restored()

    def end(self) -> None:
        """End the drill, if one goes on, and point the polling unit back.

        :raises DrillError: the polling unit did not start.
        """
        if self._systemd.is_active(GUARD):
            self._systemd.run("stop", GUARD)  # which waits for ExecStopPost
        self.restore(ENDED)


def reason_of(environment: Sequence[str]) -> str:
    """Why the guard ended, from what systemd says about it.

    :param environment: SERVICE_RESULT, EXIT_CODE and EXIT_STATUS.
    """
    result, code, status = environment
    if code == "exited" and status.isdigit() and int(status) in REASONS:
        return REASONS[int(status)]
    return ENDED if result == "success" else FAILED
