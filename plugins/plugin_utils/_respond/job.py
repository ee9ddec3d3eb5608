# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a job of AWX or Ansible Automation Platform has ended, as it says itself. Private to the collection.

Each job has its own container, so a job cannot see the processes of another one. If its environment has a token, as
the credential type of the platform gives it, it asks for the job whose lease it meets.
"""

from __future__ import annotations

import json
import typing as t

from ansible.module_utils.urls import open_url

# Not "error": so ends a job whose node is lost, and it may still run there.
ENDED = ("successful", "failed", "canceled")
SECONDS = 5
MOST = 1024 * 1024  # bytes of an answer
_OFF = ("false", "no", "off", "0", "n", "f")

Environment = t.Mapping[str, str]


def this_job(variables: t.Mapping[str, t.Any], environment: Environment) -> dict[str, t.Any]:
    """The identity of the job that this run is; empty if it is none, or if no later job could ask for it."""
    number = str(variables.get("awx_job_id") or "")
    url = _url(environment)
    return {"controller": url, "job": int(number)} if url and number.isdecimal() else {}


def has_ended(owner: t.Mapping[str, t.Any], environment: Environment) -> bool:
    """Whether the controller of this run says that the job of another run has ended. What is not known is no."""
    number, url = owner.get("job"), _url(environment)
    if not url or owner.get("controller") != url or not isinstance(number, int) or isinstance(number, bool):
        return False
    prefix = environment.get("CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX", "").strip("/") or "api"
    try:
        answer = open_url(
            f"{url}/{prefix}/v2/jobs/{number}/",
            headers={"Authorization": f"Bearer {environment['CONTROLLER_OAUTH_TOKEN']}"},
            timeout=SECONDS,
            follow_redirects="none",
            validate_certs=environment.get("CONTROLLER_VERIFY_SSL", "").lower() not in _OFF,
        )
        found = json.loads(answer.read(MOST))
    except Exception:  # whatever goes wrong, the lease shows when the host is free; and a text could hold the token
        return False
    return isinstance(found, dict) and found.get("id") == number and found.get("status") in ENDED


def _url(environment: Environment) -> str:
    host = environment.get("CONTROLLER_HOST", "").rstrip("/")
    if not host or not environment.get("CONTROLLER_OAUTH_TOKEN"):
        return ""
    return host if "://" in host else f"https://{host}"
