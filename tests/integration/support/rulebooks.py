# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rulebooks of the installed collection, each in a separate ansible-rulebook."""

import contextlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
from collections.abc import Callable
from typing import Any

from emulation import until
from page_blocks import block

from playbooks import environment

# It ends before the second compiler of Java has gained what its work costs.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

COMMANDS = {
    "respond_on_source": block(
        "docs/from-event-driven-ansible.md",
        "ansible-rulebook --rulebook maintops.scheduled_events.respond_on_source",
    ),
    "respond_on_webhook": block(
        "docs/from-event-driven-ansible.md",
        "ansible-rulebook --rulebook maintops.scheduled_events.respond_on_webhook",
    ),
}


def _read(path: pathlib.Path) -> str:
    """The content of a file of /proc; empty once the process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _read_command(process: str) -> str:
    return _read(pathlib.Path("/proc", process, "cmdline"))


class Rulebook:
    """A running ansible-rulebook.

    :param directory: for its files.
    :param name: of a rulebook of the collection.
    :param env: more variables of its environment.
    :param options: more options of its command.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        name: str,
        inventory: dict[str, Any],
        variables: dict[str, Any],
        *,
        env: dict[str, str] | None = None,
        options: tuple[str, ...] = (),
    ) -> None:
        for file, content in (("inventory.yml", inventory), ("vars.yml", variables)):
            (directory / file).write_text(json.dumps(content))  # JSON is YAML
        self._output = directory / "output.txt"
        (directory / "password").write_text("nothing is encrypted\n")
        shown = COMMANDS.get(name) or COMMANDS["respond_on_source"].replace("respond_on_source", name)
        command = [*shlex.split(shown.replace("\\\n", " ")), *options]
        own = {"RECORD_RESULTS": str(directory / "results.jsonl"), "ANSIBLE_HOME": str(directory)}
        own["JAVA_TOOL_OPTIONS"] = JAVA
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment(**own, **(env or {})),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it showed so far, and its plays."""
        return self._output.read_text(errors="replace")

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._process.poll() is not None

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for something that this rulebook is to bring about."""
        until(lambda: condition() or self.ended, what=what)
        assert not self.ended, self.output

    def wait_until_idle(self) -> None:
        """Wait until no playbook runs any more."""
        self.until(lambda: not self._playbooks(), "the end of the playbooks")

    def _playbooks(self) -> list[str]:
        """The ids of the playbooks that run."""
        lists = pathlib.Path("/proc", str(self._process.pid), "task").glob("*/children")
        return [child for each in lists for child in _read(each).split() if "ansible-playbook" in _read_command(child)]

    def kill(self) -> None:
        """End it and its playbooks without a warning."""
        if not self.ended:
            # Each has a separate session, and outlives the hangup where that is ignored.
            playbooks = self._playbooks()
            os.killpg(self._process.pid, signal.SIGKILL)
            for playbook in playbooks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(playbook), signal.SIGKILL)
        self._process.wait()
