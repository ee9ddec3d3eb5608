# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documents as no service should send them: the recorded ones, changed in their structure, their text and their bytes.

Everything depends on the ``random.Random`` that is given, so a seed gives the same bytes again.
"""

import json
import pathlib
import re

RECORDED = sorted((pathlib.Path(__file__).parents[1] / "payloads").glob("*.json"))
LONGEST = 1024 * 1024  # bytes: what the client reads of an answer

VERSIONS = ("2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")
FIELDS = (
    "EventId",
    "EventStatus",
    "EventType",
    "ResourceType",
    "Resources",
    "NotBefore",
    "Description",
    "EventSource",
    "DurationInSeconds",
)
# Of each kind in docs/contract.md, section 10, and such as change their length or their letters between cases.
NAMES = (
    "vm1",
    "vm10",
    "mySpotVM",
    "myspotvm",
    "_name",
    "issue_0",
    "aks-pool-vmss_13",
    "flex_a1b2c3d4",
    "Role_IN_0",
    "VM1",
    "\u0130stanbul",
    "stra\u00dfe",
    "\u212avm",
    "",
    "_",
    "v" * 300,
)
DATES = (
    "Mon, 19 Sep 2016 18:29:47 GMT",
    "Fri, 19 Sep 2016 18:29:47 GMT",
    "Wed, 24 Jan 2018 21:20:44 EST",
    "Mon, 01 Jan 0001 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 -2359",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Mon, 19 Sep 16 18:29:47 GMT",
    "Mon, 19 Sep 2016 18:29:47 +9999",
    "Mon, 19 Sep 2016 18:29:47 -0000",
    "Mon, 32 Sep 2016 25:61:61 GMT",
    "Mon, 19 Sep 99999999999999999999 18:29:47 GMT",
    "19 Sep 2016 18:29:60",
    "2016-09-19T18:29:47Z",
    "2016-09-19T18:29:47.1234567Z",
    "2016-09-19 18:29:47",
    "2016-09-19T18:29:47+05:30",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "0000-00-00T00:00:00Z",
    "2016-02-30T24:00:00Z",
    "2016-09-19T18:29:47+99:99",
    "\u0662\u0660\u0661\u0666-\u0660\u0669-\u0661\u0669T\u0661\u0668:\u0662\u0669:\u0664\u0667Z",
    "18:29:47",
    ":" * 50,
    "soon",
)
TEXTS = (
    "",
    " ",
    "\ud800",
    "\udcff\udcfe",
    "a\ud83d",
    "\U0001f600",
    "\0",
    "a\0b",
    "\n# HELP x\nx 1\n",
    "\r\n<0>forged",
    "\x1b[31mred\x1b[0m",
    "\x7f\x85\u2028\u2029\u202e",
    '"}\\"',
    "$(reboot)",
    "%n%s%p",
    "../../../etc/passwd",
    "-rf",
    "e\u0301" * 40,
    "x" * 5000,
    "y" * 70000,
)
NUMBERS = (
    "0",
    "-0",
    "-1",
    "1.5",
    "9.0",
    "1e308",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
    "2147483648",
    "9223372036854775808",
    "1" * 400,
    "-" + "9" * 4299,
    "7" * 5001,
    "1e5000",
)
WORDS = ("null", "true", "false", "[]", "{}", "[[]]", "[null]", '{"a":{"b":[1,"c",null]}}', '{"":""}')
DEPTHS = (2, 10, 100, 490, 900, 987, 1000, 3000, 9500, 10000)
BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf\xef\xbb\xbf")
JUNK = (
    b"\xff",
    b"\x80",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\0",
    b"\\u",
    b'"',
    b"{",
    b"]",
)

_TOKEN = re.compile(r'"<token (\d+)>"')


def recorded():
    """Every recorded document as JSON text."""
    return [path.read_text(encoding="utf-8-sig") for path in RECORDED]


class Writer:
    """Writes one document. ``token`` lets a value stand for any text, such as a number that no Python value gives."""

    def __init__(self, rng):
        self._rng = rng
        self._tokens = []

    def token(self, text):
        """A value to put into the document, in whose place ``text`` is written."""
        self._tokens.append(text)
        return f"<token {len(self._tokens) - 1}>"

    def odd(self):
        """A value of any type."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.35:
            return rng.choice(TEXTS)
        if kind < 0.6:
            return self.token(rng.choice(NUMBERS))
        if kind < 0.8:
            return self.token(rng.choice(WORDS))
        if kind < 0.9:
            return rng.choice(DATES)
        if kind < 0.97:
            return [rng.choice(NAMES) for _name in range(rng.randrange(4))]
        return self.token(self.deep())

    def deep(self):
        """The text of a deeply nested value."""
        rng = self._rng
        levels = rng.choice(DEPTHS)
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")))
        return opening * levels + rng.choice(NUMBERS) + closing * levels

    def write(self, value):
        """The bytes of the document, and some of its objects with a key twice."""
        rng = self._rng
        text = json.dumps(value, ensure_ascii=rng.random() < 0.9, separators=(",", ":"))
        text = _TOKEN.sub(lambda match: self._tokens[int(match.group(1))], text)
        while rng.random() < 0.08:
            parts = text.split('{"')
            place = rng.randrange(len(parts))
            again = f'{{"{rng.choice((*FIELDS, "Events", "DocumentIncarnation"))}":{self._plain_odd()},"'
            text = '{"'.join(parts[: place + 1]) + (again + '{"'.join(parts[place + 1 :]) if parts[place + 1 :] else "")
        return text.encode("utf-8", rng.choice(("surrogatepass", "replace")))

    def _plain_odd(self):
        rng = self._rng
        return rng.choice(WORDS + NUMBERS) if rng.random() < 0.5 else json.dumps(rng.choice(TEXTS + DATES))


def mutate(rng, document, writer):
    """Change the structure of a decoded document in place, in one respect."""
    events = document.get("Events")
    chance = rng.random()
    if chance < 0.06 or not isinstance(events, list) or not events:
        document[rng.choice(("DocumentIncarnation", "Events", "Error", ""))] = writer.odd()
        return
    place = rng.randrange(len(events))
    event = events[place]
    if chance < 0.1:
        events[place] = writer.odd()
    elif chance < 0.16 and isinstance(event, dict):
        events.insert(rng.randrange(len(events) + 1), {**event, rng.choice(FIELDS): writer.odd()})  # the same id twice
    elif isinstance(event, dict):
        _mutate_event(rng, event, writer)


def _mutate_event(rng, event, writer):
    chance = rng.random()
    if chance < 0.1:
        event.pop(rng.choice(FIELDS), None)
    elif chance < 0.25:
        event[rng.choice(("Extra", "eventid", "", "\ud800", "a\nb"))] = writer.odd()
    elif chance < 0.4:
        event["NotBefore"] = rng.choice(DATES)
    elif chance < 0.5:
        event["Resources"] = [*_names(event), *(rng.choice(NAMES) for _name in range(rng.randrange(5))), writer.odd()]
    elif chance < 0.503:
        event["Resources"] = [
            *_names(event),
            *(f"set_{number}" for number in range(rng.choice((200, 200, 2000, 20000, 80000)))),
        ]
    elif chance < 0.6:
        event["EventId"] = rng.choice((*TEXTS, "A" * 64, "0", "ABC-1", "abc-1"))
    elif chance < 0.65:
        event[rng.choice(("EventType", "EventStatus", "EventSource"))] = rng.choice(
            ("fREEZE", "STARTED", "user", "New")
        )
    else:
        event[rng.choice(FIELDS)] = writer.odd()


def _names(event):
    names = event.get("Resources")
    return names if isinstance(names, list) else []


def damage(rng, body):
    """Change some of the bytes."""
    chance = rng.random()
    if chance < 0.3:
        return body[: rng.randrange(len(body) + 1)]
    if chance < 0.4:
        return rng.choice(BOMS) + body
    if chance < 0.45:
        return body + body
    if chance < 0.5:
        return rng.choice((b"", b" ", b"null", b"[]", b"<html></html>", b"\0" * 10, rng.randbytes(50)))
    for _time in range(rng.randrange(1, 4)):
        place = rng.randrange(len(body) + 1)
        kept = body[place + rng.randrange(3) :]
        body = body[:place] + (rng.choice(JUNK) if rng.random() < 0.5 else rng.randbytes(1)) + kept
    return body
