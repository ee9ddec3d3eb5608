# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses in option 245 of the DHCP leases of this host: the wire server of Azure.

Another program writes these files, so they are not trusted: their number and size are limited, links, FIFOs and devices
are left out, and only four bytes and a time are read from each.
"""

import calendar
import ipaddress
import os
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Pattern, Tuple, Union

from .files import plain
from .text import excerpt, shown

MOST_BYTES = 256 * 1024  # of a file. What is longer has its newest lease at its end.
MOST_FILES = 32  # of a directory, the newest ones
MOST_NAMES = 4096  # of a directory
INFINITE = 0xFFFFFFFF  # a lease time that never ends, as Azure gives it (RFC 2131, section 3.3)

_NAMES = r"(?:option|unknown|private)[-_]245"
_HEXADECIMAL = re.compile(r"[0-9a-f]{1,2}(?::[0-9a-f]{1,2})*\Z", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"(?:dhcp4\.)?([A-Za-z0-9_]{1,40})=(.*)\Z")
_OPTION_OF_DHCLIENT = re.compile(rf"option {_NAMES} (.*);\Z")
_OPTION_OF_ASSIGNMENTS = re.compile(rf"{_NAMES}\Z", re.IGNORECASE)
_OPTION_OF_WICKED = re.compile(r"<unknown-245>\s{0,80}<code>245</code>\s{0,80}<data>([^<]{0,80})</data>")
_SPAN = re.compile(r"([0-9]{1,10})(y|month|w|d|h|min|s|)\Z")
_SECONDS = {"y": 31557600, "month": 2629800, "w": 604800, "d": 86400, "h": 3600, "min": 60, "s": 1, "": 1}


class DhcpLease(NamedTuple):
    """A lease that is in force. ``modified``: when its file was written, in seconds since the epoch, as ``expires``.

    ``expires`` ``None``: never, or not known.
    """

    address: str
    path: str
    client: str
    modified: float
    expires: Optional[float]


class Searched(NamedTuple):
    """The leases in force that have the option, the newest first, and a line for each place on what was found there.

    :ivar missing: the directories that do not exist.
    """

    leases: Tuple[DhcpLease, ...]
    lines: Tuple[str, ...]
    missing: Tuple[str, ...] = ()

    def all_lines(self) -> List[str]:
        """The lines, and one for all directories that do not exist."""
        return [*self.lines, *(["no such directory: " + ", ".join(self.missing)] if self.missing else [])]


class _Found(NamedTuple):
    """A lease in a file. ``value``: the option's bytes; a text that cannot be read as such; or ``None`` without it."""

    value: Union[bytes, str, None]
    expires: Optional[float]


_Reader = Callable[[bytes, float], List[_Found]]


class _Place(NamedTuple):
    client: str
    directory: str
    names: Pattern[str]
    read: _Reader


def search(*, now: float, root: str = "/") -> Searched:
    """Look through the leases of all DHCP clients.

    :param now: seconds since the epoch.
    :param root: the directory that stands for the root of the file system.
    """
    leases: List[DhcpLease] = []
    lines: List[str] = []
    missing = set()
    for place in _PLACES:
        try:
            names, left_out = _newest(os.path.join(root, place.directory[1:]), place.names)
        except FileNotFoundError:
            missing.add(place.directory)
            continue
        except OSError as error:
            lines.append(f"{place.directory} ({place.client}): cannot be read: {error.strerror}")
            continue
        if left_out:
            lines.append(f"{place.directory} ({place.client}): {left_out} older files were left out")
        if not names:
            lines.append(f"{place.directory} ({place.client}): no lease")
        for name in names:
            found, line = _look_into(place, name, now=now, root=root)
            leases += found
            lines.append(line)
    return Searched(tuple(newest_first(leases)), tuple(dict.fromkeys(lines)), tuple(sorted(missing)))


def newest_first(leases: List[DhcpLease]) -> List[DhcpLease]:
    """The leases in the order in which they count."""
    return sorted(leases, key=lambda lease: lease.modified, reverse=True)


def _newest(directory: str, wanted: Pattern[str]) -> Tuple[List[str], int]:
    """The newest files with such a name, and how many others there are.

    :raises OSError: the directory cannot be read.
    """
    found: List[Tuple[float, str]] = []
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries):
            if count == MOST_NAMES:
                break
            if wanted.match(entry.name):
                try:
                    found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
                except OSError:
                    found.append((0.0, entry.name))
    found.sort(reverse=True)
    return [name for _time, name in found[:MOST_FILES]], max(0, len(found) - MOST_FILES)


def _look_into(place: _Place, name: str, *, now: float, root: str) -> Tuple[List[DhcpLease], str]:
    """The leases in force of a file, and what was found in it."""
    path = os.path.join(place.directory, name)
    about = f"{shown(path)} ({place.client})"
    try:
        content, modified = _read(os.path.join(root, path[1:]))
    except OSError as error:
        return [], f"{about}: cannot be read: {error.strerror or error}"
    leases, words = [], []
    for found in reversed(place.read(content, modified)):  # a file has its newest lease at its end
        if found.value is None:
            continue
        address = _address(found.value)
        if address is None:
            value = found.value if isinstance(found.value, str) else found.value[:16].hex()
            words.append(f"option 245 is {excerpt(value)}, which is not an IPv4 address")
        elif found.expires is not None and found.expires <= now:
            words.append(f"{address}, expired {now - found.expires:.0f} seconds ago")
        else:
            words.append(address)
            leases.append(DhcpLease(address, path, place.client, modified, found.expires))
    return leases, f"{about}: {', '.join(words[:4]) or 'no option 245'}"


def _read(path: str) -> Tuple[bytes, float]:
    """The file, or its end if it is long, and when it was written.

    :raises OSError: it cannot be read, or is not a regular file.
    """
    with plain(path) as (file, found):
        file.seek(max(0, found.st_size - MOST_BYTES))
        return file.read(MOST_BYTES), found.st_mtime


def _address(value: Union[bytes, str]) -> Optional[str]:
    return str(ipaddress.IPv4Address(value)) if isinstance(value, bytes) and len(value) == 4 else None


def _bytes(text: str) -> Union[bytes, str]:
    """A value as clients write it: ``a8:3f:81:10``, ``a83f8110``, ``168.63.129.16`` or, printable, in quotes."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return _bytes(inner) if _looks_written(inner) else _unescape(inner)
    if _HEXADECIMAL.match(text) and ":" in text:
        return bytes(int(each, 16) for each in text.split(":"))
    if re.match(r"(?:[0-9a-f]{2})+\Z", text, re.IGNORECASE):
        return bytes.fromhex(text)
    try:
        return ipaddress.IPv4Address(text).packed
    except ValueError:
        return text


def _looks_written(text: str) -> bool:
    return bool(len(text) > 4 and re.match(r"[0-9a-fA-F:.]+\Z", text))


def _unescape(text: str) -> bytes:
    """Bytes that dhclient wrote as a string."""
    parts = re.findall(r"\\[0-7]{3}|\\.|[^\\]", text)
    return bytes(int(each[1:], 8) & 255 if len(each) == 4 else ord(each[-1]) & 255 for each in parts)


def _lines(content: bytes) -> Iterator[str]:
    return (line.strip() for line in content.decode("latin-1").split("\n"))


# dhclient: blocks "lease {", one after the other, of which the last one of an interface counts


def _read_dhclient(content: bytes, _modified: float) -> List[_Found]:
    latest: Dict[str, _Found] = {}
    interface: Optional[str] = None
    value: Union[bytes, str, None] = None
    expires: Optional[float] = None
    infinite = False
    for line in _lines(content):
        if re.match(r"lease\s*\{", line):
            interface, value, expires, infinite = "", None, None, False
        elif interface is None:
            continue
        elif line == "}":
            latest.pop(interface, None)  # so that the newest comes last
            latest[interface] = _Found(value, None if infinite else expires)
            interface = None
        elif line.startswith("interface "):
            interface = line[:100]
        elif line == f"option dhcp-lease-time {INFINITE};":
            infinite = True  # dates of such a lease overflow: "expire" is then the time at which it began
        elif line.startswith("expire "):
            expires = _date(line)
        else:
            option = _OPTION_OF_DHCLIENT.match(line)
            value = _bytes(option.group(1)) if option else value
    return list(latest.values())


def _date(line: str) -> Optional[float]:
    """``expire 2 2154/01/01 08:18:55;`` in UTC, ``expire epoch 1700000000;`` or ``expire never;``."""
    epoch = re.match(r"expire epoch ([0-9]{1,12});", line)
    if epoch:
        return float(epoch.group(1))
    date = re.match(r"expire [0-9] ([0-9]{4})/([0-9]{2})/([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2});", line)
    try:
        return float(calendar.timegm(tuple(int(part) for part in date.groups()))) if date else None
    except ValueError:
        return None


# systemd-networkd and NetworkManager: KEY=value, of one lease


def _read_assignments(content: bytes, modified: float) -> List[_Found]:
    value: Union[bytes, str, None] = None
    expires: Optional[float] = None
    for line in _lines(content):
        assignment = _ASSIGNMENT.match(line)
        if not assignment:
            continue
        key, text = assignment.groups()
        if _OPTION_OF_ASSIGNMENTS.match(key):
            value = _bytes(text)
        elif key == "LIFETIME":
            lifetime = _span(text)
            expires = None if lifetime is None else modified + lifetime
        elif key == "expiry" and re.match(r"[0-9]{1,12}\Z", text):
            expires = float(text)
    return [_Found(value, expires)]


def _span(text: str) -> Optional[float]:
    """``3600`` or, of newer releases, ``1h 30min`` in seconds; ``None`` if it is endless or cannot be read."""
    parts = [_SPAN.match(part) for part in text.split()[:10]]
    seconds = sum(int(part.group(1)) * _SECONDS[part.group(2)] for part in parts if part)
    return None if not all(parts) or not parts or seconds >= INFINITE else float(seconds)


# wicked: XML with undeclared prefixes. No XML parser reads that, and none is needed.


def _read_wicked(content: bytes, _modified: float) -> List[_Found]:
    text = content.decode("latin-1")
    option = _OPTION_OF_WICKED.search(text)
    acquired = re.search(r"<acquired>([0-9]{1,12})</acquired>", text)
    lease_time = re.search(r"<lease-time>([0-9]{1,10})</lease-time>", text)
    expires = None
    if acquired and lease_time and int(lease_time.group(1)) != INFINITE:
        expires = float(acquired.group(1)) + int(lease_time.group(1))
    return [_Found(_bytes(option.group(1)) if option else None, expires)]


# dhcpcd: the answer of the server as it came


def _read_packet(content: bytes, modified: float) -> List[_Found]:
    if content[:1] != b"\2" or content[236:240] != b"\x63\x82\x53\x63":
        return []
    value: Optional[bytes] = None
    expires: Optional[float] = None
    for code, data in _options(content[240:]):
        if code == 245:
            value = data
        elif code == 51 and len(data) == 4 and int.from_bytes(data, "big") != INFINITE:
            expires = modified + int.from_bytes(data, "big")
    return [_Found(value, expires)]


def _options(content: bytes) -> Iterator[Tuple[int, bytes]]:
    at = 0
    while at < len(content) and content[at] != 255:
        if content[at] == 0:
            at += 1
            continue
        length = content[at + 1] if at + 1 < len(content) else 0
        data = content[at + 2 : at + 2 + length]
        if len(data) == length:
            yield content[at], data
        at += 2 + length


_PLACES = (
    _Place("dhclient", "/var/lib/dhcp", re.compile(r"dhclient(?!6).*\.leases?\Z"), _read_dhclient),
    _Place("dhclient", "/var/lib/dhclient", re.compile(r"dhclient(?!6).*\.leases?\Z"), _read_dhclient),
    _Place("systemd-networkd", "/run/systemd/netif/leases", re.compile(r"[0-9]{1,10}\Z"), _read_assignments),
    _Place("NetworkManager", "/run/NetworkManager/devices", re.compile(r"[0-9]{1,10}\Z"), _read_assignments),
    _Place("NetworkManager", "/var/lib/NetworkManager", re.compile(r"internal-.*\.lease\Z"), _read_assignments),
    _Place("NetworkManager", "/var/lib/NetworkManager", re.compile(r"dhclient-.*\.lease\Z"), _read_dhclient),
    _Place("wicked", "/var/lib/wicked", re.compile(r"lease-.*-dhcp-ipv4\.xml\Z"), _read_wicked),
    _Place("wicked", "/run/wicked", re.compile(r"lease-.*-dhcp-ipv4\.xml\Z"), _read_wicked),  # / is read-only
    _Place("dhcpcd", "/var/lib/dhcpcd", re.compile(r".*\.lease\Z"), _read_packet),
    _Place("dhcpcd", "/var/db/dhcpcd", re.compile(r".*\.lease\Z"), _read_packet),
)
