# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading of outside input (fleet file, control API): every complaint names the key, the value and what is expected."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable

REQUIRED = object()
MOST = 10**10  # of any number: far more seconds than an event takes


class InputError(ValueError):
    """Input that cannot be used. The message is meant for the person who wrote the input."""


def shown(value: Any) -> str:
    """Return ``value`` as short JSON for a message."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 80 else text[:77] + "..."


def require_json(value: Any, where: str) -> None:
    """Raise InputError when ``value``, as Python read it, cannot be written as JSON again."""
    try:
        # A document holds the value this much deeper.
        json.dumps([[[[value]]]], allow_nan=False)
    except ValueError:
        raise InputError(f"{where}: NaN and Infinity are not JSON, expected a finite number") from None
    except RecursionError:
        raise InputError(f"{where}: nested too deeply to be written as JSON, expected fewer levels") from None


class Fields:
    """The fields of one JSON object, each read with its type.

    A key that is not ``known`` is refused before anything else, so that a misspelt one is never silently ignored and
    never reported as the lack of the right one.
    """

    def __init__(self, value: Any, path: str, known: Sequence[str]) -> None:
        if not isinstance(value, dict):
            raise InputError(f"{path + ': ' if path else ''}expected a JSON object, got {shown(value)}")
        self._values: Mapping[str, Any] = value
        self._path = path
        self._known = frozenset(known)
        for key in value:
            if key not in self._known:
                raise self._unknown(key)

    def _unknown(self, key: str) -> InputError:
        names = sorted(self._known)
        close = difflib.get_close_matches(key.lower(), names, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        name = key if key.isprintable() else shown(key)
        return InputError(f"{self.where(name[:80])}: unknown key, expected one of {', '.join(names)}{hint}")

    def where(self, key: str) -> str:
        """Return the path of ``key`` for a message."""
        return f"{self._path}.{key}" if self._path else key

    def _read(
        self,
        key: str,
        default: Any,
        is_right: Callable[[Any], bool],
        expected: str,
        convert: Callable[[str], Any] = str,
    ) -> Any:
        value = self._values.get(key)
        if isinstance(value, str):
            value = convert(value)
        if value is None and default is REQUIRED:
            raise InputError(f"{self.where(key)}: missing, expected a value")
        if value is not None and not is_right(value):
            raise self.fail(key, expected)
        return default if value is None else value

    def fail(self, key: str, expected: str) -> InputError:
        """Return the error for a value of ``key`` that is not what was ``expected``."""
        return InputError(f"{self.where(key)}: {shown(self._values.get(key))} is not {expected}")

    def text(self, key: str, default: Any = REQUIRED, *, choices: Sequence[str] | None = None) -> Any:
        """Return the string ``key``: one of the ``choices``, or without them any, also an empty one."""
        expected = f"one of {', '.join(choices)}" if choices else "a string"

        def is_right(value: Any) -> bool:
            return isinstance(value, str) and (choices is None or value in choices)

        return self._read(key, default, is_right, expected)

    def boolean(self, key: str, default: bool) -> bool:
        """Return the boolean ``key``."""
        expected = "true or false"
        return bool(self._read(key, default, lambda value: isinstance(value, bool), expected, _boolean_of))

    def number(self, key: str, default: Any = REQUIRED, *, least: float = 0, most: float = MOST) -> Any:
        """Return the number ``key``, from ``least`` to ``most``."""

        def is_right(value: Any) -> bool:
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return is_number and least <= value <= most  # nor NaN

        return self._read(key, default, is_right, f"a number from {least} to {most}", _number_of)

    def integer(self, key: str, default: Any = REQUIRED, *, least: int = 0, most: int = MOST) -> Any:
        """Return the whole number ``key``, from ``least`` to ``most``."""
        value = self.number(key, default, least=least, most=most)
        if value is not default and not isinstance(value, int):
            raise self.fail(key, "a whole number")
        return value

    def texts(self, key: str, default: Any = REQUIRED, *, choices: Sequence[str] | None = None) -> Any:
        """Return the list of strings ``key``; a given list must not be empty."""

        def is_right(value: Any) -> bool:
            return _is_list(value) and all(isinstance(item, str) and item for item in value)

        texts = self._read(key, default, is_right, "a list of one or more strings")
        for item in texts or ():
            if choices is not None and item not in choices:
                raise InputError(f"{self.where(key)}: {shown(item)} is not one of {', '.join(choices)}")
        return texts

    def objects(self, key: str) -> list[Any]:
        """Return the list ``key``, one or more elements, for further reading."""
        return list(self._read(key, REQUIRED, _is_list, "a list of one or more objects"))

    def mapping(self, key: str) -> dict[str, Any]:
        """Return the object ``key``, by default an empty one."""
        return dict(self._read(key, {}, lambda value: isinstance(value, dict), "an object"))


# A template gives text with ansible-core before 2.19, whatever the type of the value.


def _boolean_of(text: str) -> Any:
    return {"True": True, "False": False}.get(text, text)


def _number_of(text: str) -> Any:
    if not re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text):
        return text
    return float(text) if "." in text else int(text)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and value != []
