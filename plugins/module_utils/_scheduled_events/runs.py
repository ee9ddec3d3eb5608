# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names of what is run for an event: phases, outcomes, and the identity of one run."""

import re
from typing import NamedTuple, Optional

PHASES = ("prepare", "started", "recover", "advised", "failed")
BESIDE = ("advised", "failed")  # run beside the other phases of their event, and have no part in its recovery

WEBHOOK_HOOK = "0-webhooks"  # the hook of the role poller in each phase that has webhooks: it prepares nothing

OK, FAILED, TIMEOUT = "ok", "failed", "timeout"
NOTHING = "nothing"  # of the phase prepare: no hook failed, and none prepared this VM
OUTCOMES = (OK, FAILED, TIMEOUT, NOTHING)

_RUN_ID = re.compile(rf"([0-9a-z-]{{1,64}})\.({'|'.join(PHASES)})\.([0-9]{{1,18}})\Z")
_PLAIN_KEY = re.compile(r"[0-9a-wyz][0-9a-z-]{0,62}\Z")  # x begins what is hashed


class RunName(NamedTuple):
    """The parts of a run's id. ``token`` identifies the event; compare it with :func:`token_of`."""

    token: str
    phase: str
    serial: int


def run_id_of(key: str, phase: str, serial: int) -> str:
    """The id of a run: fit for a file and for an instance of a unit, whatever the EventId is."""
    return f"{token_of(key)}.{phase}.{serial}"


def parse_run_id(run_id: str) -> Optional[RunName]:
    """The parts of an id that :func:`run_id_of` made, or ``None`` if it is something else."""
    match = _RUN_ID.match(run_id)
    return RunName(match.group(1), match.group(2), int(match.group(3))) if match else None


def token_of(key: str) -> str:
    """An event's key (its EventId in lower case) as a part of a file name; unusual keys are hashed."""
    if _PLAIN_KEY.match(key):
        return key
    import hashlib  # here, since a start of hooks would wait for it, and an ordinary EventId needs none

    return "x" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:40]
