# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text and values of the service, made harmless once: they can be encoded, printed and stored, whatever was sent."""

import json
import math
import re
from typing import Any, Dict, Sequence, Tuple, Union

MAX_DEPTH = 32
MAX_SHOWN = 200

# What a terminal obeys (control characters, also those of the right-to-left kind), what ends a line for some reader,
# and what cannot be encoded (surrogates).
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BLANKS = "\t\n\r"

# The longest number that a text of the service can hold: any of 64 bits.
MAX_DIGITS = 20


class TooMuch(ValueError):
    """A value is nested too deep or too large; the message says which."""


def clean(text: str, limit: int) -> str:
    """The text with a space for each line break and U+FFFD for any other control character or lone surrogate.

    :param limit: the number of characters after which the rest is cut, with an ellipsis in its place.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return _HARMFUL.sub(lambda found: " " if found.group() in _BLANKS else "\ufffd", cut)


def shown(text: Union[bytes, str], limit: int = MAX_SHOWN) -> str:
    """The beginning of a text on one line, fit for a message."""
    beginning = text[: limit * 8]  # whatever is left of it after its blanks are joined
    if isinstance(beginning, bytes):
        beginning = beginning.decode("utf-8", "replace")
    return clean(" ".join(beginning.split()), limit)


def excerpt(text: Union[bytes, str]) -> str:
    """The beginning of a text on one line and in quotes."""
    return f'"{shown(text)}"'


def sanitize(value: Any, room: int) -> Tuple[Any, int]:
    """Copy a decoded JSON value with clean text, and return its length as JSON.

    :param room: the length as JSON that is allowed.
    :raises TooMuch: the value is longer, or nested deeper than 32 levels.
    """
    left = room

    def take(length: int) -> None:
        nonlocal left
        left -= length
        if left < 0:
            raise TooMuch(f"longer than {room} characters")

    def copy_of(item: Any, depth: int) -> Any:
        if not isinstance(item, (dict, list)):
            scalar = _scalar(item, room)
            take(len(json.dumps(scalar)))
            return scalar
        if depth == MAX_DEPTH:
            raise TooMuch(f"nested deeper than {MAX_DEPTH} levels")
        # Each element takes two characters at least: a long list is refused before it is copied.
        take(2 + 2 * len(item))
        if isinstance(item, list):
            return [copy_of(child, depth + 1) for child in item]
        copy = {}
        for key, child in item.items():
            name = _name(key, room)
            take(len(json.dumps(name)) + 2)
            copy[name] = copy_of(child, depth + 1)
        return copy

    copied = copy_of(value, 0)
    return copied, room - left


def _name(key: str, limit: int) -> str:
    """The clean name of a field, without those that mean something to ansible-rulebook, or to Ansible in a result."""
    name = clean(key, limit) or "(empty)"
    return f"({name})" if name.startswith("__ansible_") else name


def _scalar(value: Any, room: int) -> Any:
    if isinstance(value, str):
        return clean(value, room + 1)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such number
    return value


def sanitize_or_report(value: Any, room: int) -> Any:
    """As :func:`sanitize`, and a text that says why in place of a value that is too much."""
    try:
        return sanitize(value, room)[0]
    except TooMuch as error:
        return f"(cut: {error})"


def sanitize_fields(fields: Dict[str, Any], room: int) -> Dict[str, Any]:
    """The sanitized fields, as long as there is room; a text that says why in place of the others."""
    sanitized: Dict[str, Any] = {}
    left = room
    for name, value in fields.items():
        key = _name(name, 256)
        left -= len(json.dumps(key)) + 4
        if left <= 0:
            sanitized["(cut)"] = (
                f"{len(fields) - len(sanitized)} more fields, which are longer than {room} characters in all"
            )
            break
        try:
            sanitized[key], size = sanitize(value, left)
            left -= size
        except TooMuch as error:
            sanitized[key] = f"(cut: {error})"
            left -= len(sanitized[key])
    return sanitized


def some(names: Sequence[str]) -> str:
    """The first names, and how many there are besides."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more


def counted(number: int, what: str) -> str:
    """The number of things for a sentence."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def in_words(seconds: float) -> str:
    """The time for a sentence."""
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def parse_number(digits: str) -> Union[int, str]:
    """Read an integer of a JSON text. An absurdly long one stays a text: reading its digits takes seconds."""
    return int(digits) if len(digits) <= MAX_DIGITS else clean(digits, 2 * MAX_DIGITS)


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not a number of JSON")
