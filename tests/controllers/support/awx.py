# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An AWX, and what tests do with its API."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse
from typing import Any

import pytest
import requests
from emulation import until
from ports import free_port
from zygotes import ZYGOTES

LIMIT = 300.0  # seconds for a job, or for a start; only so that a hang is named
LOOK = 0.5  # seconds: an answer of AWX costs more CPU time than a job needs in between
ENDED = ("successful", "failed", "error", "canceled")
ADMINISTRATOR = ("admin", "password")
ANSIBLE_CFG = (ZYGOTES.home / "ansible.cfg").read_text()  # a job that waits looks less often for a result


class Awx:
    """An AWX as one of its users.

    :param url: without the path, such as http://127.0.0.1:8052.
    :param token: of the user.
    :param projects: its directory of projects, where this machine has it.
    """

    def __init__(self, url: str, token: str, *, projects: str | None = None) -> None:
        self.url, self.token, self.projects = url.rstrip("/"), token, projects
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}"

    def as_user(self, token: str) -> "Awx":
        """The same AWX for the user of ``token``."""
        return Awx(self.url, token, projects=self.projects)

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which awx.awx finds this AWX."""
        return {"CONTROLLER_HOST": self.url, "CONTROLLER_OAUTH_TOKEN": self.token}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> requests.Response:
        """The answer to one request, whatever its status; ``path`` is below /api/v2/, or begins with a slash."""
        url = self.url + (path if path.startswith("/") else f"/api/v2/{path}")
        return self._session.request(method, url, json=body, timeout=LIMIT)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The document in the answer to a request that must succeed; None if there is none."""
        answer = self.ask(method, path, body)
        assert answer.ok, f"{method} {answer.url} answered {answer.status_code}: {answer.text}"
        return answer.json() if answer.content else None

    def get(self, path: str) -> Any:
        """The document at ``path``."""
        return self.call("GET", path)

    def find(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The objects of one kind, such as job_templates, with these ``fields``."""
        return self.get(f"{kind}/?{urllib.parse.urlencode({'page_size': 200, **fields})}")["results"]

    def one(self, kind: str, **fields: Any) -> dict[str, Any]:
        """The only object for which :meth:`find` holds."""
        found = self.find(kind, **fields)
        assert len(found) == 1, f"{len(found)} {kind} with {fields}: {[each['id'] for each in found]}"
        return found[0]

    def create(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A new object of one kind."""
        return self.call("POST", f"{kind}/", fields)

    def ended(self, job_id: int, *, timeout: float = LIMIT) -> dict[str, Any]:
        """The job after its end."""

        def look() -> dict[str, Any] | None:
            job = self.get(f"jobs/{job_id}/")
            return job if job["status"] in ENDED and job["event_processing_finished"] else None

        return until(look, timeout=timeout, what=f"the end of job {job_id}", every=LOOK)

    def ended_slices(self, workflow_job_id: int) -> list[dict[str, Any]]:
        """The jobs of a job in slices after their ends."""
        nodes = until(
            lambda: [each for each in self.find("workflow_job_nodes", workflow_job=workflow_job_id) if each["job"]],
            what="the start of the slices",
            every=LOOK,
        )
        return [self.ended(each["job"]) for each in nodes]

    def output(self, job_id: int) -> str:
        """What the job showed."""
        answer = self.ask("GET", f"jobs/{job_id}/stdout/?format=txt")
        return answer.text

    def token_of(self, username: str, password: str, *, scope: str = "write") -> str:
        """A new token of a user."""
        return new_token(self.url, username, password, scope=scope)

    def put_project(self, name: str, files: dict[str, str]) -> str:
        """A directory of ``files`` (path → text) among the projects of AWX; what a manual project calls local_path."""
        if self.projects is None:
            pytest.skip("this AWX has no project directory here: set AWX_PROJECTS")
        directory = pathlib.Path(self.projects, name)
        for path, text in {"ansible.cfg": ANSIBLE_CFG, **files}.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_text(text)
        return name


class StartedAwx(Awx):
    """An AWX that a script starts for these tests; see conftest.py. A context manager: at the end it is gone."""

    def __init__(self, script: str) -> None:
        self._script = script
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="awx-"))
        self.root.chmod(0o755)  # its database has its own user

    def __enter__(self) -> "StartedAwx":
        port = free_port()
        try:
            self._run("start", str(self.root), str(port))
            url = f"http://127.0.0.1:{port}"
            super().__init__(url, new_token(url, *ADMINISTRATOR), projects=str(self.root / "projects"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._run("stop", str(self.root))
        shutil.rmtree(self.root, ignore_errors=True)

    def _run(self, *arguments: str) -> None:
        # Its services inherit standard output: a pipe would never end.
        log = self.root / f"{arguments[0]}.log"
        with log.open("wb") as output:
            ended = subprocess.run(
                [self._script, *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=2 * LIMIT,
                env={**os.environ, "PYTHONPATH": ""},
            )
        assert ended.returncode == 0, f"{self._script} {' '.join(arguments)} failed:\n{log.read_text()}"


def new_token(url: str, username: str, password: str, *, scope: str = "write") -> str:
    """A new token of a user of the AWX at ``url``."""
    with requests.Session() as session:
        session.trust_env = False
        answer = session.post(f"{url}/api/v2/tokens/", auth=(username, password), json={"scope": scope}, timeout=LIMIT)
    assert answer.status_code == 201, f"{answer.status_code}: {answer.text}"
    return json.loads(answer.text)["token"]
