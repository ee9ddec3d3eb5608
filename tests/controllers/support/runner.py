# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks as a controller runs them: by ansible-runner, in a project that cannot be written to."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any, NamedTuple

from playbooks import environment

LIMIT = 400.0  # seconds; only so that a run that hangs is named
PLAYBOOKS = ("controller_setup", "drill", "install_poller", "report", "respond", "rolling_maintenance")
# root may write where the mode of a directory forbids it
READ_ONLY = (
    'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/written" 2>/dev/null && shift && "$@"'
)


class RunnerRun(NamedTuple):
    """An ended run. ``tasks`` are the data of the events of its tasks that ended, in order."""

    rc: int
    output: str
    artifacts: dict[str, Any]
    tasks: list[dict[str, Any]]


def project_files() -> dict[str, str]:
    """What a user's project holds: a playbook of one line for each of the collection."""
    header = "---\n"
    return {
        f"{name}.yml": f"{header}- name: Run it\n  import_playbook: maintops.scheduled_events.{name}\n"
        for name in PLAYBOOKS
    }


class Runner:
    """Runs playbooks of a project. Each run gets a directory under ``base``."""

    def __init__(self, base: pathlib.Path) -> None:
        self._base = base
        self._count = 0

    def run(
        self,
        name: str,
        *,
        inventory: dict[str, Any],
        extra_vars: dict[str, Any],
        files: dict[str, str] | None = None,
        options: str = "",
        env: dict[str, str] | None = None,
    ) -> RunnerRun:
        """Run a playbook of the project to its end.

        :param extra_vars: as a survey and a controller give them; ``project`` is the directory of the project.
        :param files: more files of the project.
        :param options: more options of ansible-playbook.
        """
        self._count += 1
        directory = self._base / f"run-{self._count}"
        texts = {**project_files(), **(files or {})}
        named = {f"{prefix}_hosts": "all" for prefix in ("poller", "report", "respond", "rolling_maintenance")}
        for path, text in {
            **{f"project/{path}": text for path, text in texts.items()},
            "inventory/hosts.yml": json.dumps(inventory),
            "env/extravars": json.dumps({"project": str(directory / "project"), **named, **extra_vars}),
            "env/cmdline": options,
        }.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text)
        self._start(directory, name, env or {})
        return self._read(directory / "artifacts" / "job")

    def _start(self, directory: pathlib.Path, name: str, env: dict[str, str]) -> None:
        command = [
            str(pathlib.Path(sys.executable).with_name("ansible-runner")),
            *("run", str(directory), "--playbook", f"{name}.yml", "--ident", "job", "--quiet"),
        ]
        project = directory / "project"
        if os.geteuid() == 0 and shutil.which("unshare"):
            command = ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", str(project), *command]
        else:
            project.chmod(0o555)
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        home = directory / "home"
        home.mkdir()
        variables = environment(HOME=str(home), PATH=path, **env)
        variables.pop("ANSIBLE_CALLBACK_PLUGINS")  # those of ansible-runner, as in a controller
        variables.pop("ANSIBLE_CALLBACKS_ENABLED")
        ended = subprocess.run(
            command, check=False, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
        )
        assert (directory / "artifacts" / "job" / "rc").exists(), f"no run: {ended.stdout}{ended.stderr}"

    @staticmethod
    def _read(artifacts: pathlib.Path) -> RunnerRun:
        paths = sorted((artifacts / "job_events").glob("[0-9]*.json"), key=lambda path: int(path.name.split("-")[0]))
        events = [json.loads(path.read_text()) for path in paths]
        [stats] = [event for event in events if event["event"] == "playbook_on_stats"] or [{}]
        return RunnerRun(
            rc=int((artifacts / "rc").read_text()),
            output=(artifacts / "stdout").read_text(),
            artifacts=stats.get("event_data", {}).get("artifact_data", {}),
            tasks=[event["event_data"] for event in events if event["event"].startswith("runner_on_")],
        )
