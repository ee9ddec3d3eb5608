# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events replay``: what this configuration would have decided. No hook runs, nothing is sent.

Hooks count as successful, and acknowledgements as accepted, as in a dry run.
"""

import argparse
import json
import math
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from _scheduled_events import history, terms
from _scheduled_events.checks import WrongValue
from _scheduled_events.clock import Moment
from _scheduled_events.condition import condition
from _scheduled_events.document import Document, ScheduledEvent, parse
from _scheduled_events.files import read_plain
from _scheduled_events.history import Fact
from _scheduled_events.lost_state import event_of
from _scheduled_events.state import State
from _scheduled_events.text import counted

from ..unit import config, display, effects
from .commands import engine_config
from .output import CommandError, say

MOST_BYTES = 4 * 1024 * 1024
MOST_OPEN = 50  # events of a history at the same time: each fact takes a step of the engine over all of them
_AHEAD = 600.0  # seconds before the first NotBefore of a recorded document at which it counts as read


class Read(NamedTuple):
    """A document, when it was read, and the name of the VM that read it; empty if that is not recorded. ``None``: time
    passes without a document."""

    document: Optional[Document]
    at: float
    vm_name: str = ""


def show_replay(chosen: argparse.Namespace) -> None:
    """Show the decisions for recorded documents, or for the history of a VM."""
    settings = config.load(chosen.config)
    state = State(serial=0)
    shown: Dict[str, str] = {}  # by event, its last line
    decided = None
    for path in chosen.file:
        for read in _read(path, settings.api_version):
            vm_name = chosen.vm_name or read.vm_name or settings.vm_name
            if not vm_name:
                raise CommandError(f"{path} does not name the VM: add --vm-name NAME")
            if decided is None or decided.vm_name != vm_name:
                if decided is not None:
                    _wait(state, math.inf, decided, shown)
                decided, state, shown = engine_config(settings, vm_name, chosen), State(serial=0), {}
            state, shown = _wait(state, read.at, decided, shown)
            state, shown = _step(state, read, decided, shown)
    if decided is not None:
        _wait(state, math.inf, decided, shown)


def _wait(state: State, until: float, decided: terms.Config, shown: Dict[str, str]) -> Tuple[State, Dict[str, str]]:
    """Let the moments come that rules chose, before the next document is read at ``until``."""
    while True:
        moments = [entry.waits_until for entry in state.events.values() if entry.waits_until is not None]
        if not moments or min(moments) >= until:
            return state, shown
        state, shown = _step(state, Read(None, min(moments)), decided, shown)


def _step(state: State, read: Read, decided: terms.Config, shown: Dict[str, str]) -> Tuple[State, Dict[str, str]]:
    what = (
        "a chosen moment" if read.document is None else f"{counted(len(read.document.events), 'event')} in the document"
    )
    say(f"{history.format_moment(read.at)}  {what}")
    before = state.events
    state, actions = effects.rehearse(state, read.document, [], Moment(read.at, read.at, "replay"), decided)
    for action in actions:
        say(f"  {display.of_action(action, {**before, **state.events})}")
    lines = {
        key: f"  {entry.event.event_id}: {condition(state, key, decided).sentence(entry.event.event_id)}"
        for key, entry in state.events.items()
    }
    for key, line in lines.items():
        if shown.get(key) != line:
            say(line)
    return state, lines


def _read(path: str, api_version: str) -> Iterator[Read]:
    try:
        content = read_plain(path, most=MOST_BYTES)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    facts = list(_facts(content))
    if facts:
        yield from _of_history(path, facts)
    else:
        yield from _documents(path, content, api_version)


def _facts(content: bytes) -> Iterator[Fact]:
    """The lines that are facts: the first and the last line of a history can be cut."""
    for line in content.splitlines():
        try:
            yield history.parse_line(line)
        except WrongValue:
            continue


def _documents(path: str, content: bytes, api_version: str) -> Iterator[Read]:
    """A document, or a list of them."""
    try:
        decoded = json.loads(content.decode("utf-8-sig"))
        for raw in decoded if isinstance(decoded, list) else [decoded]:
            document = parse(json.dumps(raw), api_version=api_version)
            moments = [event.not_before.timestamp() for event in document.events if event.not_before]
            yield Read(document, min(moments) - _AHEAD if moments else time.time())
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"{path} is neither a document of the service, nor a list of them, nor a history: {error}"
        ) from error


def _of_history(path: str, facts: List[Fact]) -> Iterator[Read]:
    """The documents that a VM must have read, by its facts."""
    events: Dict[str, ScheduledEvent] = {}
    for fact in facts:
        if fact.kind in (history.SEEN, history.STARTED) and fact.event_id:
            events[fact.key] = event_of(fact, events.get(fact.key))
        elif fact.kind != history.OVER or events.pop(fact.key, None) is None:
            continue
        if len(events) > MOST_OPEN:
            raise CommandError(
                f"{path}: {len(events)} events are open at {history.format_moment(fact.time)}, expected at most "
                f"{MOST_OPEN}. Replay a part of the history"
            )
        yield Read(Document(incarnation=None, events=tuple(events.values())), fact.time, fact.vm_name)
