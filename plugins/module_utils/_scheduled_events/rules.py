# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of the owner: the first matching rule decides about an event."""

import json
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from .document import ADVISORY_TYPES, EVENT_SOURCES, EVENT_STATUSES, EVENT_TYPES, ScheduledEvent, one_of
from .text import MAX_SHOWN, sanitize_or_report, shown

PREPARE, APPROVE, IGNORE, HOLD = "prepare", "approve", "ignore", "hold"
ACTIONS = (PREPARE, APPROVE, IGNORE, HOLD)

# A word that no event has is most likely a slip of the pen, and the rule would silently never match. A type that Azure
# adds later can still be selected by a rule without event_types after the rules for these.
_WORDS = {
    "event_types": (*EVENT_TYPES, *ADVISORY_TYPES),
    "event_sources": EVENT_SOURCES,
    "event_statuses": EVENT_STATUSES,
}
_NUMBERS = ("min_duration", "max_duration", "max_resources")
_KEYS = tuple(_WORDS) + _NUMBERS + ("action",)


class RuleError(ValueError):
    """A rule that cannot be used; the message names its place, its value and what is allowed."""


class Rule(NamedTuple):
    """A condition that is empty or ``None`` holds for every event. Durations are in seconds, both bounds inclusive."""

    action: str
    event_types: Tuple[str, ...] = ()
    event_sources: Tuple[str, ...] = ()
    event_statuses: Tuple[str, ...] = ()
    min_duration: Optional[int] = None
    max_duration: Optional[int] = None
    max_resources: Optional[int] = None

    def matches(self, event: ScheduledEvent) -> bool:
        """Whether every condition of the rule holds for the event."""
        return (
            one_of(event.event_type, self.event_types)
            and one_of(event.event_source, self.event_sources)
            and one_of(event.event_status, self.event_statuses)
            and self._matches_duration(event.duration_in_seconds)
            and (self.max_resources is None or len(event.resources) <= self.max_resources)
        )

    def _matches_duration(self, duration: Optional[int]) -> bool:
        if self.min_duration is None and self.max_duration is None:
            return True
        # -1 and a missing duration are unknown: neither short nor long (docs/contract.md, section 4).
        if duration is None or duration < 0:
            return False
        return (self.min_duration is None or self.min_duration <= duration) and (
            self.max_duration is None or duration <= self.max_duration
        )


def decide(event: ScheduledEvent, rules: Sequence[Rule]) -> str:
    """The action of the first rule that matches the event; ``prepare`` if none does."""
    return next((rule.action for rule in rules if rule.matches(event)), PREPARE)


def parse_rules(value: Any, *, place: str = "rules") -> Tuple[Rule, ...]:
    """Check rules as they come from configuration.

    :param place: how messages call the list.
    :raises RuleError: the first mistake found.
    """
    if not isinstance(value, list):
        raise RuleError(f"{place}: expected a list of rules, not {_show(value)}")
    return tuple(_parse_rule(rule, f"{place}[{index}]") for index, rule in enumerate(value))


def _parse_rule(value: Any, place: str) -> Rule:
    if not isinstance(value, dict):
        raise RuleError(f"{place}: expected a dictionary, not {_show(value)}")
    for key in value:
        if key not in _KEYS:
            raise RuleError(f"{place}.{key}: unknown key; allowed are {', '.join(_KEYS)}")
    if value.get("action") not in ACTIONS:
        action = _show(value.get("action"))
        raise RuleError(f"{place}.action: {action} is not an action; allowed are {', '.join(ACTIONS)}")
    checked: Dict[str, Any] = {"action": value["action"]}
    for key in _KEYS[:-1]:
        given = value.get(key)
        if given is None:  # a key without a value sets no condition
            continue
        checked[key] = _words(given, _WORDS[key]) if key in _WORDS else _whole_number(given)
        if checked[key] is None:
            expected = "a list of " + ", ".join(_WORDS[key]) if key in _WORDS else "a whole number, 0 or more"
            raise RuleError(f"{place}.{key}: expected {expected}, not {_show(given)}")
    return Rule(**checked)


def _words(value: Any, known: Tuple[str, ...]) -> Optional[Tuple[str, ...]]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return None
    return tuple(value) if all(one_of(word, known) for word in value) else None


def _whole_number(value: Any) -> Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _show(value: Any) -> str:
    return shown(json.dumps(sanitize_or_report(value, MAX_SHOWN)))
