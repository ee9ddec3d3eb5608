# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The receivers of webhooks: what is refused in which words, and that no message holds a secret."""

import json
import re

import pytest
from _scheduled_events.runs import PHASES
from scheduled_events_poller.webhooks import config as webhook_config
from scheduled_events_poller.webhooks.config import WebhookError
from scheduled_events_poller.webhooks.formats import FORMATS

SECRET = "S3cretValue"
OPS = {"name": "ops", "url": "https://example.org/" + SECRET}


def parse(*receivers):
    return webhook_config.parse(list(receivers), place="poller_webhooks")


def test_a_name_and_a_url_are_enough():
    (receiver,) = parse(OPS)
    assert (receiver.phases, receiver.format, receiver.timeout) == (
        PHASES,
        "json",
        10.0,
    )


def test_pagerduty_needs_no_url():
    (receiver,) = parse({"name": "pager", "format": "pagerduty", "routing_key": SECRET})
    assert receiver.url == "https://events.pagerduty.com/v2/enqueue"


def test_keys_that_are_null_have_their_defaults():
    assert parse({**OPS, "secret": None, "headers": None, "template": None, "timeout": None}) == parse(OPS)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": None}, "poller_webhooks[0] has no name: add it"),
        ({"name": "Ops/x"}, 'poller_webhooks[0]: name is "Ops/x", expected at most 50 lower-case letters'),
        ({"url": None}, "poller_webhooks[0] (ops) has no url: add it"),
        ({"url": "ftp://x/" + SECRET}, "(ops): url is not usable (it is not shown, as it may be secret), expected"),
        ({"url": "https://user:" + SECRET + "@x/"}, "(ops): url is not usable"),
        ({"url": "https://x:99999/" + SECRET}, "(ops): url is not usable"),
        ({"url": "https://x/a\r\nHost: " + SECRET}, "(ops): url is not usable"),
        ({"phases": ["prepair"]}, '(ops): phases is ["prepair"], expected a list of some of prepare, started'),
        ({"phases": []}, "(ops): phases is [], expected"),
        ({"format": "xml"}, f'(ops): format is "xml", expected one of {", ".join(FORMATS)}: correct it'),
        ({"format": "pagerduty"}, "(ops): expected routing_key with the format pagerduty, and only there"),
        ({"routing_key": SECRET}, "(ops): expected routing_key with the format pagerduty, and only there"),
        ({"headers": SECRET}, "(ops): headers is a text, expected a dictionary"),
        ({"headers": {"A b": SECRET}}, "(ops): headers: a name is not one of a header"),
        ({"headers": {"X-A": SECRET + "\nX"}}, "(ops): headers: the value of X-A is not usable (it is not shown)"),
        ({"headers": {"host": "x"}}, "(ops): headers: host is set by the polling unit itself"),
        ({"headers": {"X-Scheduled-Events-Id": "x"}}, "X-Scheduled-Events-Id is set by the polling unit itself"),
        ({"secret": [SECRET]}, "(ops): secret is not usable (it is not shown)"),
        ({"ca_file": "ca.pem"}, '(ops): ca_file is "ca.pem", expected the absolute path'),
        ({"proxy": "socks5://" + SECRET}, "(ops): proxy is not usable (it is not shown), expected http://HOST:PORT"),
        ({"timeout": 0}, "(ops): timeout is 0, expected seconds from 1 to 120"),
        ({"timeout": float("nan")}, "(ops): timeout is NaN, expected"),
        ({"max_messages": 1.5}, "(ops): max_messages is 1.5, expected a whole number from 1 to 10000"),
        ({"max_bytes": 10}, "(ops): max_bytes is 10, expected a whole number of bytes from 262144"),
        ({"template": "text"}, "(ops): template is a text, expected a dictionary"),
        ({"template": {"a": ["${evnt}"]}}, "(ops): template: ${evnt} is not a field, expected id, time, phase"),
        ({"template": {"a": "5 $ each"}}, "(ops): template: '5 $ each' has a lone $, expected ${FIELD}, or $$"),
        ({"template": {"a": "b"}, "format": "slack"}, "(ops): template replaces the body, expected the format json"),
        ({"urls": "x"}, 'poller_webhooks[0]: "urls" is not a key, expected name, url, phases'),
    ],
)
def test_a_mistake_is_named_without_its_secret(changes, expected):
    with pytest.raises(WebhookError, match=re.escape(expected)) as error:
        parse({**OPS, **changes})
    assert SECRET not in str(error.value)


def test_two_receivers_have_two_names():
    with pytest.raises(WebhookError, match='the name "ops" is in the list already'):
        parse(OPS, OPS)


@pytest.mark.parametrize(("value", "what"), [("[]", "a text"), ({}, "a dictionary"), (None, "empty")])
def test_a_value_that_is_not_a_list_is_refused(value, what):
    with pytest.raises(WebhookError, match=f"poller_webhooks is {what}, expected a list"):
        webhook_config.parse(value, place="poller_webhooks")


def test_a_file_that_is_not_json_is_not_quoted(tmp_path):
    path = tmp_path / "webhooks.json"
    path.write_text(SECRET)
    with pytest.raises(WebhookError) as error:
        webhook_config.load(str(path))
    assert SECRET not in str(error.value)


def test_without_a_file_there_is_no_receiver(tmp_path):
    assert webhook_config.load(str(tmp_path / "webhooks.json")) == ()


def test_whatever_may_be_secret_is_redacted():
    (receiver,) = parse(
        {
            "name": "ops",
            "url": "https://hooks.example.org/services/T0000000/B1111111/xyzxyzxyz?sig=abcabcabc",
            "headers": {"Authorization": "Bearer tokentoken"},
            "secret": "hmachmac",
            "proxy": "http://user:proxypassword@proxy.example.org:3128",
        }
    )
    secrets = ["T0000000", "B1111111", "xyzxyzxyz", "abcabcabc", "tokentoken", "hmachmac", "proxypassword"]
    redacted = receiver.redact(f"{json.dumps(receiver._asdict(), default=str)} /services/T0000000/B1111111 {secrets}")
    assert [secret for secret in secrets if secret in redacted] == []
    assert receiver.redact("[Errno 111] Connection refused") == "[Errno 111] Connection refused"
