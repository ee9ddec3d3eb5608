# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The receivers of webhooks: what is refused in which words, and that no message holds a secret."""

import json
import re

import pytest
from _scheduled_events.checks import WrongValue
from _scheduled_events.hidden import hide
from _scheduled_events.runs import PHASES
from scheduled_events_poller.notify import settings as notify_settings
from scheduled_events_poller.notify.formats import FORMATS
from scheduled_events_poller.notify.request import Requests

SECRET = "S3cretValue"
OPS = {"name": "ops", "url": "https://example.org/" + SECRET}


def parse(*receivers):
    return notify_settings.parse_receivers(list(receivers), place="poller_webhooks")


def test_a_name_and_a_url_are_enough():
    (receiver,) = parse(OPS)
    assert (receiver.phases, receiver.format, receiver.request_timeout) == (
        PHASES,
        "json",
        10.0,
    )


def test_pagerduty_needs_no_url():
    (receiver,) = parse({"name": "pager", "format": "pagerduty", "routing_key": SECRET})
    assert receiver.url == "https://events.pagerduty.com/v2/enqueue"


def test_keys_that_are_null_have_their_defaults():
    assert parse({**OPS, "secret": None, "headers": None, "template": None, "request_timeout": None}) == parse(OPS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": None}, "poller_webhooks[0].name: it is missing; expected at most 50 lower-case letters"),
        ({"name": "Ops/x"}, 'poller_webhooks[0].name: expected at most 50 lower-case letters, digits, "_" and "-"'),
        ({"url": None}, "poller_webhooks[0].url: it is missing; expected https://HOST/PATH or http://HOST/PATH"),
        ({"url": "ftp://x/" + SECRET}, "[0].url: expected https://HOST/PATH or http://HOST/PATH without a user"),
        ({"url": "https://user:" + SECRET + "@x/"}, "[0].url: expected https://HOST/PATH"),
        ({"url": "https://x:99999/" + SECRET}, "[0].url: expected https://HOST/PATH"),
        ({"url": "https://x/a\r\nHost: " + SECRET}, "[0].url: expected https://HOST/PATH"),
        (
            {"phases": ["prepair"]},
            f'[0].phases[0]: expected one of {", ".join(PHASES)}, not "prepair"',
        ),
        ({"phases": []}, "[0].phases: expected a list of phases (1 or more), not []"),
        ({"format": "xml"}, f'[0].format: expected one of {", ".join(FORMATS)}, not "xml"'),
        ({"format": ["json"]}, "[0].format: expected one of"),
        ({"format": "pagerduty"}, "[0]: expected routing_key with the format pagerduty, and only there"),
        ({"routing_key": SECRET}, "[0]: expected routing_key with the format pagerduty, and only there"),
        ({"headers": SECRET}, "[0].headers: expected a dictionary of texts, not this value, which may be secret"),
        ({"headers": {"A b": SECRET}}, '[0].headers: the key "A b": expected the name of a header'),
        ({"headers": {"X-A": SECRET + "\nX"}}, "[0].headers.X-A: expected printable ASCII on one line"),
        (
            {"headers": {"host": "x"}},
            '[0].headers: the key "host": expected the name of a header that the polling unit does not',
        ),
        (
            {"headers": {"X-Scheduled-Events-Id": "x"}},
            'the key "X-Scheduled-Events-Id": expected the name of a header that the polling unit does not',
        ),
        ({"secret": ""}, "[0].secret: expected printable ASCII on one line, without blanks around it, not this"),
        ({"secret": [SECRET]}, "[0].secret: expected printable ASCII on one line, without blanks around it, not this"),
        ({"ca_file": "ca.pem"}, '[0].ca_file: expected an absolute path, not "ca.pem"'),
        (
            {"proxy": "socks5://" + SECRET},
            "[0].proxy: expected http://HOST:PORT, with a user and a password in Latin-1 at most, not this value",
        ),
        ({"proxy": 5}, "[0].proxy: expected http://HOST:PORT"),
        ({"proxy": f"http://user:{SECRET}/@proxy.example.org:3128"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"proxy": f"http://user:{SECRET}@proxy.example.org:99999"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"proxy": f"http://user:{SECRET}@"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"proxy": f"http://user:{SECRET}@[::1"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"proxy": f"http://user:{SECRET}@proxy%"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"proxy": f"http://user:{SECRET}%E2%82%AC@proxy"}, "[0].proxy: expected http://HOST:PORT, with"),
        ({"template": SECRET + "{"}, "[0].template: expected a dictionary, which is the body, not this value"),
        ({"request_timeout": 0}, "[0].request_timeout: expected seconds from 1 to 120, not 0"),
        ({"request_timeout": float("nan")}, "[0].request_timeout: expected seconds from 1 to 120, not "),
        ({"max_messages": 1.5}, "[0].max_messages: expected a whole number from 1 to 10000, not 1.5"),
        ({"template": "text"}, "[0].template: expected a dictionary, which is the body"),
        ({"template": {"a": ["${evnt}"]}}, "[0].template: ${evnt} is not a field, expected id, time, phase"),
        ({"template": {"a": SECRET + "$"}}, "[0].template: a text has a lone $, expected ${FIELD}, or $$ for a $"),
        ({"template": {"a": "a$" + SECRET}}, "[0].template: a text has a lone $, expected ${FIELD}, or $$ for a $"),
        ({"template": {"a": "b"}, "format": "slack"}, "[0]: template replaces the body, expected the format json"),
        ({"urls": "x"}, "poller_webhooks[0].urls: unknown key; allowed are name, url, phases"),
    ],
)
def test_a_mistake_is_named_without_its_secret(changes, expected):
    with pytest.raises(WrongValue, match=re.escape(expected)) as error:
        parse({**OPS, **changes})
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("host", ["proxy.example.org:3128", "192.0.2.1", "[2001:db8::1]:3128", "a_b-c"])
def test_a_proxy_can_have_a_user_and_any_kind_of_host(host):
    (receiver,) = parse({**OPS, "proxy": f"http://user:p%40ss%C3%A4@{host}"})
    assert receiver.proxy == f"http://user:p%40ss%C3%A4@{host}"
    Requests([], reads=False, longest_pause=1.0, proxy=receiver.proxy)  # which takes it


def test_two_receivers_have_two_names():
    with pytest.raises(WrongValue, match='the name "ops" is in the list already'):
        parse(OPS, OPS)


@pytest.mark.parametrize("value", ["[]", {}, None, [OPS] * 21])
def test_a_value_that_is_not_a_short_list_is_refused(value):
    with pytest.raises(WrongValue, match="poller_webhooks: expected a list of at most 20 dictionaries"):
        notify_settings.parse_receivers(value, place="poller_webhooks")


def test_a_file_that_is_not_json_is_not_quoted(tmp_path):
    path = tmp_path / "webhooks.json"
    path.write_text(SECRET)
    path.chmod(0o600)
    with pytest.raises(WrongValue) as error:
        notify_settings.load_receivers(str(path))
    assert SECRET not in str(error.value)


def test_a_file_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "webhooks.json"
    path.write_text("[]")
    path.chmod(0o644)
    with pytest.raises(WrongValue, match="expected a file that only root can read"):
        notify_settings.load_receivers(str(path))


def test_without_a_file_there_is_no_receiver(tmp_path):
    assert notify_settings.load_receivers(str(tmp_path / "webhooks.json")) == ()


def test_whatever_may_be_secret_is_redacted():
    (receiver,) = parse(
        {
            "name": "ops",
            "url": "https://hooks.example.org/services/T0000000/B1111111/xyzxyzxyz?sig=abc%2Babcabc",
            "headers": {"Authorization": "Bearer tokentoken"},
            "secret": "hmachmac",
            "proxy": "http://user:proxypass%40word@proxy.example.org:3128",
        }
    )
    secrets = [
        "T0000000",
        "B1111111",
        "xyzxyzxyz",
        "abc%2Babcabc",
        "tokentoken",
        "hmachmac",
        "proxypass",
        "dXNlcjpwcm94",
    ]
    secrets += ["proxypass%40word", "proxypass@word", "dXNlcjpwcm94eXBhc3NAd29yZA=="]
    text = f"{json.dumps(receiver._asdict(), default=str)} /services/T0000000/B1111111 {secrets}"
    redacted = hide(text, receiver.secrets())
    assert [secret for secret in secrets if secret in redacted] == []
    assert hide("[Errno 111] Connection refused", receiver.secrets()) == "[Errno 111] Connection refused"
