# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import datetime

import pytest
from _scheduled_events import checks
from _scheduled_events.checks import WrongValue, check, check_fields

KINDS = {
    "interval": checks.number(0.25, 5, "seconds"),
    "most": checks.whole(1, 20),
    "least": checks.whole(0),
    "dry_run": checks.FLAG,
    "name": checks.text("a name", longest=5, pattern="[a-z]+"),
    "token": checks.text("a token", secret=True, pattern="[!-~]*"),
    "policy": checks.choice("any", "never"),
    "names": checks.list_of(checks.choice("a", "b"), "names", least=1),
    "others": checks.list_of(checks.TEXT, "texts"),
    "hosts": checks.map_of(checks.text(), "hosts by name", keys=checks.text("a name", pattern="[a-z]+")),
    "at": checks.Kind(
        "a dictionary",
        lambda value, place: check_fields(value, {"wall": checks.number(0, 9)}, place=place, required=["wall"]),
    ),
    "place": checks.converted("a place", int),
    "url": checks.url(),
    "path": checks.PATH,
}

RIGHT = [
    ("interval", 1, 1.0),
    ("interval", 0.25, 0.25),
    ("most", 3.0, 3),
    ("least", 10**9, 10**9),
    ("dry_run", False, False),
    ("name", "abc", "abc"),
    ("policy", "never", "never"),
    ("names", ["a", "b", "a"], ("a", "b", "a")),
    ("hosts", {"vm": "web"}, {"vm": "web"}),
    ("at", {"wall": 9}, {"wall": 9.0}),
    ("place", "7", 7),
    ("url", "https://awx.example:8443/a?b=c", "https://awx.example:8443/a?b=c"),
    ("path", "/etc/x y", "/etc/x y"),
]

WRONG = [
    ("interval", 5.1, "interval: expected seconds from 0.25 to 5, not 5.1"),
    ("interval", True, "interval: expected seconds from 0.25 to 5, not true"),
    ("interval", "1", 'interval: expected seconds from 0.25 to 5, not "1"'),
    ("interval", float("nan"), 'interval: expected seconds from 0.25 to 5, not "nan"'),
    ("most", 0, "most: expected a whole number from 1 to 20, not 0"),
    ("most", 1.5, "most: expected a whole number from 1 to 20, not 1.5"),
    ("most", float("inf"), 'most: expected a whole number from 1 to 20, not "inf"'),
    ("least", -1, "least: expected a whole number, 0 or more, not -1"),
    ("dry_run", 0, "dry_run: expected true or false, not 0"),
    ("name", "abcdef", 'name: expected a name, not "abcdef"'),
    ("name", "a\n", r'name: expected a name, not "a "'),
    ("token", "a b", "token: expected a token, not this value, which may be secret"),
    ("policy", "anyone", 'policy: expected one of any, never, not "anyone"'),
    ("policy", "ANY", 'policy: expected one of any, never, not "ANY"'),
    ("policy", ["any"], 'policy: expected one of any, never, not ["any"]'),
    ("names", "a", 'names: expected a list of names (1 or more), not "a"'),
    ("names", [], "names: expected a list of names (1 or more), not []"),
    ("others", "a", 'others: expected a list of texts, not "a"'),
    ("names", ["a", "c"], 'names[1]: expected one of a, b, not "c"'),
    ("hosts", [], "hosts: expected a dictionary of hosts by name, not []"),
    ("hosts", {"vm": 1}, "hosts.vm: expected a text, not 1"),
    ("hosts", {"VM": "web"}, 'hosts: the key "VM": expected a name, not "VM"'),
    ("at", {}, "at.wall: it is missing; expected a number from 0 to 9"),
    ("at", {"wall": 1, "x": 2}, "at.x: unknown key; allowed are wall"),
    ("at", 5, "at: expected a dictionary, not 5"),
    ("place", {}, "place: expected a place, not {}"),
    ("url", "ftp://host/", 'url: expected https://HOST/PATH or http://HOST/PATH, not "ftp://host/"'),
    ("url", "https://user:password@host/", "url: expected https://HOST/PATH or http://HOST/PATH, not "),
    ("url", "https://host:99999/", "url: expected https://HOST/PATH or http://HOST/PATH, not "),
    ("path", "etc", 'path: expected an absolute path, not "etc"'),
]


@pytest.mark.parametrize(("key", "value", "read"), RIGHT, ids=[f"{key} {value}" for key, value, _read in RIGHT])
def test_a_right_value_is_read_as_it_is_used(key, value, read):
    checked = check_fields({key: value}, KINDS)
    assert (checked, type(checked[key])) == ({key: read}, type(read))


@pytest.mark.parametrize(("key", "value", "message"), WRONG, ids=[f"{key} {value}" for key, value, _message in WRONG])
def test_a_wrong_value_is_named_with_its_place_and_what_was_expected(key, value, message):
    with pytest.raises(WrongValue) as raised:
        check_fields({key: value}, KINDS)
    assert str(raised.value).startswith(message)
    assert str(raised.value).isprintable()


def test_a_key_without_a_value_counts_as_missing():
    assert check_fields({"interval": None}, KINDS) == {}
    with pytest.raises(WrongValue, match=r"^a\.interval: it is missing; expected seconds from 0\.25 to 5$"):
        check_fields({"interval": None}, KINDS, place="a", required=["interval"])


def test_another_key_is_a_mistake_unless_other_keys_are_left_out():
    with pytest.raises(WrongValue, match=r"^intervall: unknown key; allowed are interval, most"):
        check_fields({"intervall": 1}, KINDS)
    assert check_fields({"intervall": 1, "most": 2}, KINDS, others=True) == {"most": 2}


def test_what_is_not_an_object_is_shown():
    with pytest.raises(WrongValue, match=r'^expected a dictionary, not "text"$'):
        check_fields("text", KINDS)


def deep():
    value = []
    for _level in range(100000):
        value = [value]
    return value


OF_YAML = [datetime.date(2020, 7, 1), {1: "a"}, b"a"]


@pytest.mark.parametrize(
    "value", [deep(), 10**5000, "\x1b[31m\ud800", ["x" * 10**6], {"\n": 1}, *OF_YAML], ids=range(5 + len(OF_YAML))
)
def test_whatever_a_value_is_the_message_is_one_printable_line(value):
    with pytest.raises(WrongValue) as raised:
        check(value, checks.FLAG, "flag")
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "url",
    [
        "http://web",
        "HTTPS://me:s@%2F3@web:8443/a%40b?c#d",
        "http://me@[::1]:80/healthz",
        "http://10.0.0.7?live",
        "http://127.0.0.1:/healthz",
        "http://web/a@b:c?d@e#f@g",
    ],
)
def test_each_form_of_a_url_can_be_probed(url):
    assert checks.refusal_of_probed(url) == ""


ENCODED = ". Write special characters of a password, and an @ after the host, with %, as %40"


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("", ""),
        ("healthz", "healthz"),
        ("ftp://web", "ftp://web"),
        ("http:///healthz", "http:///healthz"),
        *((f"http://{user}@h/x", "http://…@h/x") for user in ("u:s3/cr3t", "u:s3#cr3t", "u s:cr3t", "u:s3\ncr3t")),
        # what looks like a port, a host or a path
        *((f"http://{user}@h/x", "http://…@h/x") for user in ("u:20/cr3t", "u:12#cr3t", "u:12?s3\ncr3t", "u:/cr3t")),
        ("https://u:s@3/cr3t@h/", "https://…@h/"),
        # no URL
        *((f"{before}u:cr3t@h/x", "…@h/x") for before in ("", "http:/", "https:", "http\n://")),
    ],
)
def test_what_cannot_be_probed_is_shown_without_its_password(url, seen):
    encoded = ENCODED if "@" in url else ""
    assert checks.refusal_of_probed(url) == f'"{seen}", expected http://HOST/PATH or https://HOST/PATH{encoded}'
