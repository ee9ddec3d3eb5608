# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values from outside, such as settings and files, checked against one table of kinds."""

import json
import re
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .text import MAX_SHOWN, excerpt, parse_number, refuse_constant, sanitize_or_report, shown

_PASSWORD = re.compile(r"//[^/?#\s]*@")  # of a URL, with its user
_HOST = r"(?:[^/?#@:\s\[\]]+|\[[^/?#@\s\]]+\])"
# After a user or a port, an @ can be the end of a password whose special characters are not encoded.
_PROBED = re.compile(rf"https?://({_HOST}|([^/?#\s]*@)?{_HOST}(:[0-9]*)?(?!.*@))(?![^/?#])", re.IGNORECASE | re.DOTALL)


class WrongValue(ValueError):
    """A value that cannot be used; the message names its place, the value, and what was expected."""


class Kind(NamedTuple):
    """What a value can be.

    :param expected: for messages, such as "true or false".
    :param read: ``read(value, place)`` returns the value as it is used. It raises WrongValue for a mistake within the
        value, and any other ValueError or a TypeError if the value is of another kind.
    :param secret: no message shows the value.
    """

    expected: str
    read: Callable[[Any, str], Any]
    secret: bool = False


def check(value: Any, kind: Kind, place: str) -> Any:
    """The value as it is used.

    :param place: the name of the value in messages.
    :raises WrongValue: it is not of the kind.
    """
    try:
        return kind.read(value, place)
    except WrongValue:
        raise
    except (ValueError, TypeError, AttributeError, OverflowError):
        found = "this value, which may be secret" if kind.secret else show(value)
        raise WrongValue(f"{place}: expected {kind.expected}, not {found}") from None


def check_fields(
    value: Any, kinds: Mapping[str, Kind], *, place: str = "", required: Sequence[str] = (), others: bool = False
) -> Dict[str, Any]:
    """The checked values of an object, by key. A key without a value (null) counts as missing.

    :param place: the name of the object in messages; empty at the top of a file.
    :param others: whether other keys are left out; otherwise they are mistakes.
    :raises WrongValue: the first mistake.
    """
    if not isinstance(value, dict):
        raise WrongValue(f"{place}: expected a dictionary, not {show(value)}".lstrip(": "))
    within = place + "." if place else ""
    for key in () if others else value:
        if key not in kinds:
            raise WrongValue(f"{within}{shown(str(key))}: unknown key; allowed are {', '.join(kinds)}")
    checked = {}
    for key, kind in kinds.items():
        if value.get(key) is not None:
            checked[key] = check(value[key], kind, within + key)
        elif key in required:
            raise WrongValue(f"{within}{key}: it is missing; expected {kind.expected}")
    return checked


def show(value: Any) -> str:
    """The value for a message, on one line and not too long."""
    try:
        text_of_value = json.dumps(sanitize_or_report(value, MAX_SHOWN))
    except (TypeError, ValueError):  # what only YAML has, or a number of thousands of digits
        return f"this {type(value).__name__}"
    return shown(without_password(text_of_value))


def without_password(text_with_urls: str) -> str:
    """The text with its URLs as they can be shown."""
    return _PASSWORD.sub("//…@", text_with_urls)


def refusal_of_probed(url: str) -> str:
    """Why a URL cannot be requested, without what can be its password; empty if it can.

    A user and password may be in it, encoded: without that, no message could leave them out.
    """
    if _PROBED.match(url):
        return ""
    seen = excerpt(re.sub("(?is)^(https?://)?.*@", r"\1…@", url))
    encoded = ". Write special characters of a password, and an @ after the host, with %, as %40" if "@" in url else ""
    return f"{seen}, expected http://HOST/PATH or https://HOST/PATH{encoded}"


def decoded(text: Union[bytes, str]) -> Any:
    """What a file of ours holds as JSON.

    :raises WrongValue: it is something else.
    """
    try:
        raw = text.decode("utf-8") if isinstance(text, bytes) else text
        return json.loads(raw, parse_int=parse_number, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise WrongValue(f"it is not JSON: {shown(str(error))}") from error


def text(expected: str = "a text", *, longest: int = 512, pattern: str = "", secret: bool = False) -> Kind:
    """A printable text.

    :param pattern: that the whole text matches.
    """

    def read(value: Any, _place: str) -> str:
        if not isinstance(value, str) or len(value) > longest or not value.isprintable():
            raise ValueError
        if pattern and not re.match(rf"(?:{pattern})\Z", value):
            raise ValueError
        return value

    return Kind(expected, read, secret)


def number(least: float, most: float, what: str = "a number") -> Kind:
    """A number, read as float. ``what``: with its unit, such as "seconds"."""

    def read(value: Any, _place: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:  # nor NaN
            raise ValueError
        return float(value)

    return Kind(f"{what} from {least:g} to {most:g}", read)


def whole(least: int, most: Optional[int] = None) -> Kind:
    """A whole number, also if it is written as 3.0."""

    def read(value: Any, _place: str) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
            raise ValueError
        if value < least or (most is not None and value > most):
            raise ValueError
        return int(value)

    return Kind("a whole number" + (f", {least} or more" if most is None else f" from {least} to {most}"), read)


def choice(*allowed: str, any_case: bool = False) -> Kind:
    """One of these texts.

    :param any_case: whether upper and lower case make no difference.
    """

    def read(value: Any, _place: str) -> str:
        if value in allowed or (any_case and value.lower() in map(str.lower, allowed)):
            return str(value)
        raise ValueError

    return Kind(f"one of {', '.join(allowed)}", read)


def list_of(kind: Kind, expected: str, *, least: int = 0) -> Kind:
    """A list, read as tuple.

    :param expected: the plural of what is in it, such as "names of hooks".
    """
    limits = f" ({least} or more)" if least else ""

    def read(value: Any, place: str) -> Tuple[Any, ...]:
        if not isinstance(value, list) or len(value) < least:
            raise ValueError
        return tuple(check(each, kind, f"{place}[{index}]") for index, each in enumerate(value))

    return Kind(f"a list of {expected}{limits}", read)


def words(*known: str, any_case: bool = False) -> Kind:
    """Some of these words, in a list or separated by commas. Ansible splits a text at its commas, and keeps blanks."""
    one = choice(*known, any_case=any_case)
    trimmed = Kind(one.expected, lambda value, place: one.read(value.strip(), place))
    some = list_of(trimmed, ", ".join(known), least=1)

    def read(value: Any, place: str) -> Tuple[str, ...]:
        listed = value.split(",") if isinstance(value, str) else value
        return some.read(listed, place)  # type: ignore[no-any-return]

    return Kind(some.expected, read)


def map_of(kind: Kind, expected: str, *, keys: Optional[Kind] = None) -> Kind:
    """A dictionary with any keys, or with texts of a kind as keys.

    :param expected: such as "hosts by names of VMs".
    """

    def read(value: Any, place: str) -> Dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        if keys is not None:
            for key in value:
                check(key, keys, f"{place}: the key {show(key)}")
        return {key: check(each, kind, f"{place}.{shown(str(key))}") for key, each in value.items()}

    return Kind(f"a dictionary of {expected}", read)


def converted(expected: str, read: Callable[[Any], Any], *, secret: bool = False) -> Kind:
    """What a function accepts, and returns in the form in which it is used; it raises ValueError or TypeError."""
    return Kind(expected, lambda value, _place: read(value), secret)


def url(expected: str = "https://HOST/PATH or http://HOST/PATH", *, secret: bool = False) -> Kind:
    """A URL without user, password and fragment."""
    return converted(expected, _url, secret=secret)


def _url(value: Any) -> str:
    from urllib.parse import urlsplit  # here, since the start of a hook would wait for it

    parts = urlsplit(value) if isinstance(value, str) and re.match(r"[!-~]{1,4000}\Z", value) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError
    if parts.username is not None or parts.fragment:
        raise ValueError
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


FLAG = converted("true or false", _flag)
TEXT = converted("a text", _text)  # also one that cannot be printed
PATH = text("an absolute path", longest=4096, pattern="/.*")
