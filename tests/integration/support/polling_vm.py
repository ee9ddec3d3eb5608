# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A polling unit as a process, with hooks that note their begin and end, and what has to hold after its event."""

import contextlib
import json
import pathlib
import subprocess
import sys

from emulation import LIMIT

# A line at its begin and its end: event, phase, time.
HOOK = """#!/bin/sh
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE begin $(date +%s.%N)" >> {log}
sleep 0.2
echo "$SCHEDULED_EVENT_ID $SCHEDULED_EVENT_PHASE end $(date +%s.%N)" >> {log}
"""


class Vm:
    """One VM: a poller with its files, and the hooks' own log."""

    def __init__(self, collection: pathlib.Path, directory: pathlib.Path, endpoint: str) -> None:
        self.directory = directory
        self.hook_log = directory / "hooks.log"
        self.hook_log.touch()
        for phase in ("prepare", "started", "recover"):
            hook = directory / "hooks" / f"{phase}.d" / "10-log"
            hook.parent.mkdir(parents=True)
            hook.write_text(HOOK.format(log=self.hook_log))
            hook.chmod(0o755)
        config = directory / "poller.json"
        config.write_text(json.dumps({"endpoint": endpoint, "interval": 0.25}))
        (directory / "root").mkdir()
        self._command = [
            str(collection / "roles" / "poller" / "files" / "scheduled-events"),
            f"--config={config}",
            f"--state-file={directory / 'state.json'}",
            f"--runtime-directory={directory / 'run'}",
            f"--hooks-directory={directory / 'hooks'}",
            f"--hooks-runtime-directory={directory / 'root'}",
            "run",
            "--spawn-hooks",
        ]

    def start(self, *through: str) -> None:
        """Start the polling unit, through another program with these arguments."""
        with (self.directory / "poller.log").open("ab") as output:
            self._poller = subprocess.Popen(
                [sys.executable, *through, *self._command], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def kill(self) -> None:
        self._poller.kill()
        self._poller.wait()

    def runs(self) -> bool:
        return self._poller.poll() is None

    def stop(self) -> None:
        self._poller.terminate()
        self._poller.wait(LIMIT)

    def remembers_nothing(self) -> bool:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return json.loads((self.directory / "state.json").read_text())["events"] == {}
        return False

    def hooks_of(self, event_id: str) -> list[tuple[str, str, float]]:
        lines = [line.split() for line in self.hook_log.read_text().splitlines()]
        return [(phase, mark, float(moment)) for event, phase, mark, moment in lines if event == event_id]

    def journal(self) -> str:
        return (self.directory / "poller.log").read_text()[-5000:]


def complaints_of(emulator, name: str, vm: Vm, event_id: str) -> list[str]:
    """What is wrong after an event that began, was acknowledged and is over."""
    hooks = vm.hooks_of(event_id)
    expected = [(phase, mark) for phase in ("prepare", "started", "recover") for mark in ("begin", "end")]
    found = [(phase, mark) for phase, mark, _moment in hooks]
    complaints = [] if found == expected else [f"{name} {event_id}: the hooks ran as {found}\n{vm.journal()}"]
    prepared = [moment for phase, mark, moment in hooks if (phase, mark) == ("prepare", "end")]
    posts = [entry["at_real"] for entry in emulator.log("post") if event_id in entry["event_ids"]]
    if not posts:
        complaints.append(f"{name} {event_id}: never acknowledged")
    # The log has whole milliseconds.
    elif not prepared or min(posts) < prepared[0] - 0.001:
        complaints.append(f"{name} {event_id}: acknowledged at {min(posts)}, prepared at {prepared}")
    return complaints
