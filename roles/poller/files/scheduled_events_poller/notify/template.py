# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A body that the owner wrote: JSON whose texts name fields of the message, as in ``${event_type}``.

Values are put into a decoded document, which is encoded afterwards. So no text of an event can change its shape.
"""

import re
import string
from typing import Any, Callable, Dict

from _scheduled_events.checks import WrongValue

FIELDS = (
    "id",
    "time",
    "phase",
    "vm_name",
    "text",
    "event_id",
    "event_type",
    "event_status",
    "event_source",
    "resource_type",
    "resources",
    "not_before",
    "duration_in_seconds",
    "description",
    "failed_phase",
    "failed_reason",
    "event",
)

DEEPEST = 20
_ALONE = re.compile(r"\$\{([a-z_]+)\}\Z")


def read(template: Any, place: str) -> Dict[str, Any]:
    """Check a template.

    :raises ValueError: it is not a dictionary.
    :raises WrongValue: it names what is not a field, or is nested too deep.
    """
    if not isinstance(template, dict):
        raise ValueError
    try:
        _walk(template, _check_text, 0)
    except ValueError as error:
        raise WrongValue(f"{place}: {error}") from error
    return template


def fill(template: Any, fields: Dict[str, Any]) -> Any:
    """The template with the values of the fields. A text that is only a field becomes its value, whatever its type."""
    fields = {name: fields.get(name) for name in FIELDS}
    shown = {name: _show(value) for name, value in fields.items()}

    def fill_text(text: str) -> Any:
        alone = _ALONE.match(text)
        return fields[alone.group(1)] if alone else string.Template(text).substitute(shown)

    return _walk(template, fill_text, 0)


def _show(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_show, value))
    return "" if value is None else str(value)


def _check_text(text: str) -> str:
    for found in string.Template.pattern.finditer(text):
        named, braced = found.group("named"), found.group("braced")
        # Without the text, which may be a password with a $.
        if found.group("invalid") is not None or (named is not None and named not in FIELDS):
            raise ValueError("a text has a lone $, expected ${FIELD}, or $$ for a $: correct it")
        if braced is not None and braced not in FIELDS:
            raise ValueError(f"${{{braced[:100]}}} is not a field, expected {', '.join(FIELDS)}: correct it")
    return text


def _walk(value: Any, change: Callable[[str], Any], depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"it is nested deeper than {DEEPEST} levels: make it flatter")
    if isinstance(value, dict):
        return {str(key): _walk(child, change, depth + 1) for key, child in value.items()}
    if isinstance(value, list):
        return [_walk(child, change, depth + 1) for child in value]
    return change(value) if isinstance(value, str) else value
