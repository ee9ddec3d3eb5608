# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exchange of the poller and the root side: the names of the files, and the formats of requests and results.

Both sides build and read them here alone. The root side reads a request as hostile input.
"""

import contextlib
import json
import os
from typing import Any, Dict, Iterable, NamedTuple, Optional, Sequence, Tuple

from _scheduled_events import checks
from _scheduled_events.checks import WrongValue
from _scheduled_events.runs import OUTCOMES, PHASES, parse_run_id, token_of
from _scheduled_events.text import clean

HOOKS_DIRECTORY = "/etc/scheduled-events/hooks"
MANAGED_HOOKS = "managed"  # in that directory: a link to the set of hooks of the role
RUNTIME_DIRECTORY = "/run/scheduled-events"  # the poller's own
HOOKS_RUNTIME_DIRECTORY = "/run/scheduled-events-hooks"  # root's own
WEBHOOKS_RUNTIME_DIRECTORY = "/run/scheduled-events-webhooks"  # of the delivery; missing without webhooks

# Above that of any event: a document has 1 MiB at most, and three times as much where each character is escaped.
MAX_REQUEST = 4 * 1024 * 1024
MOST_BRACKETS = 20000  # twice as many as a document can have: an empty object takes a hundred times its text in memory
LONGEST_ID = 256  # characters, as in a document
LONGEST_TIMEOUT = 7 * 24 * 3600.0  # seconds that the hooks of a phase may take

SAID = "said-"  # begins the name of the file with the last output of a running hook

MAX_RESULT = 64 * 1024
LONGEST_REASON = 2000  # characters
DEEPEST = 50  # levels of lists and objects in an event

VERSION = 2


class Directories(NamedTuple):
    """The paths of the spool; tests use other paths."""

    hooks: str = HOOKS_DIRECTORY
    runtime: str = RUNTIME_DIRECTORY
    hooks_runtime: str = HOOKS_RUNTIME_DIRECTORY

    @property
    def requests(self) -> str:
        """The directory of requests of the poller."""
        return os.path.join(self.runtime, "requests")

    @property
    def socket(self) -> str:
        """The socket of the poller: for the end of a run, and for commands of the operator."""
        return os.path.join(self.runtime, "notify")

    @property
    def jobs(self) -> str:
        """Accepted requests, which only root can write."""
        return os.path.join(self.hooks_runtime, "jobs")

    @property
    def results(self) -> str:
        """The results of ended runs, which the poller reads."""
        return os.path.join(self.hooks_runtime, "results")

    def said(self, event_id: str) -> str:
        """The last output of a running hook for an event. Only ``scheduled-events status`` uses it."""
        return os.path.join(self.hooks_runtime, SAID + token_of(event_id.lower()))


class Job(NamedTuple):
    """One run of the hooks of a phase for an event.

    ``timeout``: seconds that the hooks may take together. ``not_later_than``: seconds since the epoch at which they
    must have ended, or ``None``. ``deadline``: the earlier of both as the engine saw it, in seconds since the epoch.
    ``ends_at``: monotonic seconds of this boot after which no hook of the run may be running, whatever the clock says.
    ``hooks``: names of the hooks that the configuration requires. ``failed_phase`` and ``failure``: for the phase
    ``failed``, the phase that failed and why.
    ``first_run``: the id of the run that this one repeats, or its own.
    ``recovered``: the number of the newest run of this VM at the end of the last recovery before the first run.
    ``undone``: whether a recovery ended after the event may have been announced, or it was absent meanwhile.
    """

    request_id: str
    phase: str
    event: Dict[str, Any]
    vm_name: str
    timeout: float
    not_later_than: Optional[float]
    deadline: float
    ends_at: float
    hooks: Tuple[str, ...] = ()
    failed_phase: str = ""
    failure: str = ""
    first_run: str = ""
    recovered: int = 0
    undone: bool = False


class RunResult(NamedTuple):
    """The end of a run. ``seconds``: how long it took."""

    request_id: str
    outcome: str
    reason: str
    seconds: float


def hook_sets(hooks_directory: str) -> Tuple[str, str]:
    """The directories with hooks: that of the owner of the host, and the set of the role that is in use now.

    The link to the set is followed once, since it is moved to another set while hooks run.
    """
    return hooks_directory, os.path.realpath(os.path.join(hooks_directory, MANAGED_HOOKS))


def find_hooks(sets: Sequence[str], phase: str) -> Dict[str, str]:
    """The directory of each hook of a phase, by name, in their order; hidden files and backups of editors do not count.

    Names are read as UTF-8 whatever the locale is; other bytes become surrogates.

    :raises OSError: a directory cannot be read; one that does not exist holds no hooks.
    """
    found = {}
    for directory in [os.path.join(each, f"{phase}.d") for each in sets]:
        with contextlib.suppress(FileNotFoundError):
            for raw in os.listdir(os.fsencode(directory)):
                found[raw.decode("utf-8", "surrogateescape")] = directory
    return {name: found[name] for name in sorted(found) if name[:1] not in (".", "#") and name[-1:] != "~"}


def format_request(job: Job) -> bytes:
    """The request for a run, as the poller writes it to the file named ``job.request_id``."""
    fields = job._replace(failure=job.failure[:LONGEST_REASON])._asdict()
    del fields["request_id"], fields["phase"]  # the name of the file has both
    return json.dumps({"version": VERSION, **fields}).encode()


def parse_request(text: bytes, request_id: str) -> Job:
    """Check a request as it comes from a user who may be hostile.

    :raises WrongValue: the first thing wrong with it.
    """
    name = parse_run_id(request_id)
    if name is None:
        raise WrongValue("its name is not EVENT.PHASE.NUMBER")
    if len(text) > MAX_REQUEST:
        raise WrongValue(f"it is longer than {MAX_REQUEST} bytes")
    raw = checks.check_fields(_read_object(text), _REQUEST, required=_REQUIRED, others=True)
    if token_of(raw["event"]["event_id"].lower()) != name.token:
        raise WrongValue("its name belongs to another event")
    first = parse_run_id(raw["first_run"])
    if first is None or first[:2] != name[:2]:
        raise WrongValue("first_run is not a run of this phase and event")
    return Job(request_id=request_id, phase=name.phase, **{"not_later_than": None, **raw})


def _event(value: Any) -> Dict[str, Any]:
    event_id = value.get("event_id") if isinstance(value, dict) else None
    if not isinstance(event_id, str) or len(event_id) > LONGEST_ID or not _is_shallow(value):
        raise ValueError
    return dict(value)


_MOMENT = checks.number(0, 1e11)
_REQUEST = {
    "event": checks.converted(
        f"an event with an event_id of {LONGEST_ID} characters, and {DEEPEST} levels, at most", _event
    ),
    "vm_name": checks.TEXT,
    "timeout": checks.number(0, LONGEST_TIMEOUT),
    "not_later_than": _MOMENT,
    "deadline": _MOMENT,
    "ends_at": _MOMENT,
    "hooks": checks.list_of(checks.TEXT, "names of hooks"),
    "failed_phase": checks.choice("", *PHASES),
    "failure": checks.TEXT,
    "first_run": checks.TEXT,
    "recovered": checks.whole(0, 10**15),
    "undone": checks.FLAG,
}
_REQUIRED = [name for name in _REQUEST if name != "not_later_than"]


def _read_object(text: bytes) -> Dict[str, Any]:
    if text.count(b"{") + text.count(b"[") > MOST_BRACKETS:
        raise WrongValue(f"it holds more than {MOST_BRACKETS} objects and lists")
    raw = checks.decoded(text)
    if not isinstance(raw, dict) or raw.get("version") != VERSION:
        raise WrongValue(f"it is not an object of version {VERSION}")
    return raw


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _depth in range(DEEPEST):
        level = [inner for outer in level if isinstance(outer, (dict, list)) for inner in _values(outer)]
    return not level


def _values(container: Any) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def format_result(result: RunResult) -> bytes:
    """The result of a run, as the root side writes it to the file named ``result.request_id``."""
    fields = result._replace(reason=clean(result.reason, LONGEST_REASON))._asdict()
    del fields["request_id"]
    return json.dumps(fields).encode()


def parse_result(text: bytes, request_id: str) -> Optional[RunResult]:
    """Read a result; ``None`` if it is not one."""
    try:
        raw = checks.decoded(text)
        seconds = float(raw["seconds"])
        if raw["outcome"] not in OUTCOMES or not 0 <= seconds < float("inf"):  # nor NaN
            return None
        return RunResult(request_id, raw["outcome"], clean(str(raw["reason"]), LONGEST_REASON), seconds)
    except (ValueError, KeyError, TypeError):
        return None
