# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Types of the command's arguments. Each takes any text, and refuses it with the value and what is expected."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import urllib.parse
from typing import Callable

from scheduled_events_emulator.checks import MOST, shown

SLOWEST, FASTEST = 0.001, 1e6
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SECONDS = f"a time from 0 to {MOST} seconds, such as 90, 90s, 5m, 1h or 2d"


def _refused(text: str, expected: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{shown(text)} is not {expected}")


def _float_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def speed(text: str) -> float:
    """Return the speed of a clock."""
    value = _float_or_nan(text)
    if not SLOWEST <= value <= FASTEST:
        raise _refused(text, f"a number from {SLOWEST:g} to {FASTEST:g}")
    return value


def whole(least: int, most: int, expected: str) -> Callable[[str], int]:
    """Return the type of a whole number from ``least`` to ``most``, which is called ``expected``."""

    def parse(text: str) -> int:
        # The limit on the length keeps numbers away that some versions of Python do not read.
        if len(text) > 20 or not text.removeprefix("-").isdecimal() or not least <= int(text) <= most:
            raise _refused(text, expected)
        return int(text)

    return parse


count = whole(0, MOST, f"a whole number from 0 to {MOST}")
port = whole(0, 65535, "a port from 0 to 65535 (0: one is chosen)")
status = whole(200, 599, "an HTTP status from 200 to 599")
duration = whole(-1, MOST, f"a whole number of seconds up to {MOST}, or -1 for an unknown duration")


def seconds(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``5m``, ``1h`` or ``2d``."""
    unit = _UNITS.get(text[-1:])
    value = _float_or_nan(text) if unit is None else _float_or_nan(text[:-1]) * unit
    if not 0 <= value <= MOST:
        raise _refused(text, SECONDS)
    return value


def step(text: str) -> dict[str, str | float]:
    """Return the body of a request that moves the clock: to the next change, or by seconds."""
    if text == "next":
        return {"until": text}
    try:
        return {"seconds": seconds(text)}
    except argparse.ArgumentTypeError:
        raise _refused(text, f"{SECONDS}, nor next") from None


def ip(text: str) -> str:
    """Return an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _refused(text, "an IP address such as 127.0.0.1") from None


def url(text: str) -> str:
    """Return an http or https URL."""
    with contextlib.suppress(ValueError):
        parts = urllib.parse.urlsplit(text)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return text
    raise _refused(text, "a URL such as http://127.0.0.1:5000/")


def token(path: str) -> str:
    """Return the token in the first line of a file."""
    try:
        with open(path, encoding="ascii") as stream:
            found = stream.readline(10_000).strip()
    except (OSError, ValueError):
        found = ""
    if not found.isprintable() or not found:
        raise _refused(path, "a readable file with a token in its first line")
    return found


def host_and_port(text: str) -> tuple[str, int]:
    """Return an IP address and a port."""
    host, _colon, port_text = text.rpartition(":")
    try:
        return ip(host[1:-1] if host.startswith("[") else host), port(port_text)
    except argparse.ArgumentTypeError:
        raise _refused(text, "ADDRESS:PORT such as 127.0.0.1:8170") from None
