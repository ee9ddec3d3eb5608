# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets are hidden in text from outside, however they are escaped or cut there."""

import re
from typing import Iterable

HIDDEN = "…"
MOST = 8192  # characters that are looked at; the rest is cut
_PART = 8  # characters of a secret that are enough to hide them: a text may hold a part of it

# One character: escaped once or several times for a URL, for JSON, for HTML, or as it is.
_CHARACTER = re.compile(
    r"%(?:25)*([0-9a-f]{2})|\\+u([0-9a-f]{4})|\\+x([0-9a-f]{2})"
    r"|&(?:amp;)*#x0*([0-9a-f]{2,5});|&(?:amp;)*#0*([0-9]{2,6});|&(?:amp;)*(amp|lt|gt|quot|apos);|.",
    re.IGNORECASE | re.DOTALL,
)
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets and any larger part of them, each replaced by an ellipsis."""
    found = list(_CHARACTER.finditer(text[:MOST]))
    meant = list(map(_meant, found))
    plain, places = "".join(meant), [place for place, character in enumerate(meant) if character]
    hidden = [False] * len(found)
    for secret in filter(None, ("".join(map(_meant, _CHARACTER.finditer(each))) for each in secrets)):
        length = min(_PART, len(secret))
        for start in range(len(secret) - length + 1):
            part = secret[start : start + length]
            at = plain.find(part)
            while at >= 0:
                first, last = places[at], places[at + length - 1]
                hidden[first : last + 1] = [True] * (last + 1 - first)
                at = plain.find(part, at + 1)
    parts = [each.group() if not hides else HIDDEN for each, hides in zip(found, hidden)]
    return "".join(each for at, each in enumerate(parts) if not (at and hidden[at] and hidden[at - 1]))


def _meant(found: "re.Match[str]") -> str:
    """The one character that an escape stands for, in lower case if it is ASCII.

    Empty for a backslash, since each may be an escape of what follows.
    """
    hexadecimal = found.group(1) or found.group(2) or found.group(3) or found.group(4)
    character = _NAMED.get((found.group(6) or "").lower(), found.group())
    if hexadecimal or found.group(5):
        character = chr(int(hexadecimal, 16) if hexadecimal else int(found.group(5)))
    return "" if character == "\\" else _lower(character)


def _lower(character: str) -> str:
    return character.lower() if character < "\x80" else character
