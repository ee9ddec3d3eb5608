# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hiding secrets in text that comes from outside, however they are escaped or cut there."""

import re
from typing import Iterable

HIDDEN = "…"
MOST = 8192  # characters that are looked at; the rest is cut
_PART = 8  # characters of a secret that are enough to hide them: a text may hold a part of it

# One character: escaped once or several times for a URL, for JSON, for HTML, or as it is.
_CHARACTER = re.compile(
    r"%(?:25)*([0-9a-f]{2})|\\+u00([0-9a-f]{2})|\\+x([0-9a-f]{2})"
    r"|&(?:amp;)*#x0*([0-9a-f]{2});|&(?:amp;)*#0*([0-9]{2,3});|.",
    re.IGNORECASE | re.DOTALL,
)


def hide(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets and any larger part of them, each replaced by an ellipsis.

    :param secrets: of ASCII characters.
    """
    found = list(_CHARACTER.finditer(text[:MOST]))
    plain = "".join(map(_meant, found))
    hidden = [False] * len(found)
    for secret in filter(None, secrets):
        length = min(_PART, len(secret))
        for start in range(len(secret) - length + 1):
            part = secret[start : start + length].lower()
            at = plain.find(part)
            while at >= 0:
                hidden[at : at + length] = [True] * length
                at = plain.find(part, at + 1)
    shown = [each.group() if not hides else HIDDEN for each, hides in zip(found, hidden)]
    return "".join(each for at, each in enumerate(shown) if not (at and hidden[at] and hidden[at - 1]))


def _meant(found: "re.Match[str]") -> str:
    """The one character that an escape stands for, in lower case if it is ASCII."""
    hexadecimal = found.group(1) or found.group(2) or found.group(3) or found.group(4)
    character = found.group()
    if hexadecimal or found.group(5):
        character = chr(int(hexadecimal, 16) if hexadecimal else int(found.group(5)))
    return character.lower() if character < "\x80" else character
