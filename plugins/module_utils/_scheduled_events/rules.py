# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules of the owner: the first matching rule decides about an event."""

import math
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from .checks import Kind, WrongValue, check, check_fields, choice, converted, list_of, whole, words
from .document import EVENT_SOURCES, EVENT_STATUSES, TYPES, ScheduledEvent, one_of
from .time_windows import WINDOW, TimeWindow

PREPARE, APPROVE, IGNORE, HOLD = "prepare", "approve", "ignore", "hold"
ACTIONS = (PREPARE, APPROVE, IGNORE, HOLD)
ANNOUNCED = "announced"  # the lead time that begins with the announcement
LONGEST_LEAD_TIME = 30 * 86400  # seconds


def _lead_time(value: Any) -> float:
    if value == ANNOUNCED:
        return math.inf
    if isinstance(value, bool) or not 0 < float(value) <= LONGEST_LEAD_TIME:
        raise ValueError
    return float(value)


_FIELDS = {
    # A word that no event has is most likely a slip of the pen, and the rule would silently never match. A type that
    # Azure adds later can still be selected by a rule without event_types after the rules for these.
    "event_types": words(*TYPES, any_case=True),
    "event_sources": words(*EVENT_SOURCES, any_case=True),
    "event_statuses": words(*EVENT_STATUSES, any_case=True),
    "min_duration": whole(0),
    "max_duration": whole(0),
    "max_resources": whole(1),
    "action": choice(*ACTIONS),
    "lead_time": converted(f"seconds above 0, {LONGEST_LEAD_TIME} at most, or {ANNOUNCED}", _lead_time),
    "windows": list_of(WINDOW, "windows", least=1),
}


class Rule(NamedTuple):
    """A condition that is empty or ``None`` holds for every event. Durations are in seconds, both bounds inclusive.

    ``lead_time``: the preparation begins so many seconds before NotBefore at the latest; infinite: when the event is
    announced. ``windows``: when the VM may be prepared before that, and be acknowledged; any time if empty.
    """

    action: str
    event_types: Tuple[str, ...] = ()
    event_sources: Tuple[str, ...] = ()
    event_statuses: Tuple[str, ...] = ()
    min_duration: Optional[int] = None
    max_duration: Optional[int] = None
    max_resources: Optional[int] = None
    lead_time: Optional[float] = None
    windows: Tuple[TimeWindow, ...] = ()

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


def rule_for(event: ScheduledEvent, rules: Sequence[Rule]) -> Rule:
    """The first rule that matches the event; ``prepare`` if none does."""
    return next((rule for rule in rules if rule.matches(event)), _NO_RULE)


def decide(event: ScheduledEvent, rules: Sequence[Rule]) -> str:
    """The action of :func:`rule_for`."""
    return rule_for(event, rules).action


def parse_rules(value: Any, *, place: str = "rules") -> Tuple[Rule, ...]:
    """Check rules as they come from configuration.

    :param place: how messages call the list.
    :raises WrongValue: the first mistake found.
    """
    rules: Tuple[Rule, ...] = check(value, _RULES, place)
    for index, rule in enumerate(rules[:-1]):
        if rule == Rule(rule.action, lead_time=rule.lead_time, windows=rule.windows):  # which matches every event
            raise WrongValue(f"{place}[{index}]: without a condition, expected it behind all others: move it there")
    return rules


def _rule(value: Any, place: str) -> Rule:
    rule = Rule(**check_fields(value, _FIELDS, place=place, required=["action"]))
    if rule.min_duration is not None and rule.max_duration is not None and rule.min_duration > rule.max_duration:
        raise WrongValue(f"{place}.max_duration: expected min_duration or more, not {rule.max_duration}: exchange them")
    if rule.action not in (PREPARE, HOLD) and (rule.lead_time or rule.windows):
        raise WrongValue(f"{place}: expected no lead_time and no windows with the action {rule.action}: take them out")
    if rule.lead_time == math.inf and rule.windows:
        raise WrongValue(f"{place}: expected no windows with the lead_time {ANNOUNCED}: take one of them out")
    return rule


_NO_RULE = Rule(PREPARE)
_RULES = list_of(Kind("a dictionary", _rule), "rules")
