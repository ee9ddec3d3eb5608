# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a receiver is sent. The bodies that are expected are the files in webhooks/."""

import base64
import hashlib
import hmac
import json
import pathlib
import re

import pytest
from _scheduled_events.runs import PHASES
from page_blocks import block
from receiver import message
from scheduled_events_poller.notify.formats import FORMATS
from scheduled_events_poller.notify.formats import build as build_request
from scheduled_events_poller.notify.settings import Receiver

HERE = pathlib.Path(__file__).parent
NOW = 1769860200.9
HOSTILE = '"}], <!channel> & [x](http://127.0.0.1) ${secret} {{ x }} \u202e'


def build(phase="prepare", event=(), **changes):
    receiver = Receiver(**{"name": "ops", "url": "http://127.0.0.1/", **changes})
    return build_request(receiver, message(1, phase, **dict(event)), now=NOW)


@pytest.mark.parametrize("format_", FORMATS)
def test_the_bodies_of_a_format_are_those_of_its_file(format_):
    key = "R0UT1NG" if format_ == "pagerduty" else None
    bodies = {phase: json.loads(build(phase, format=format_, routing_key=key).body) for phase in PHASES}
    assert bodies == json.loads((HERE / "messages" / f"{format_}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("format_", FORMATS)
def test_no_text_of_an_event_changes_the_shape_of_a_body(format_):
    plain = json.loads(build("failed", format=format_).body)
    event = {"description": HOSTILE, "event_type": HOSTILE, "resources": [HOSTILE]}
    request = build("failed", event, format=format_)
    request.body.encode("ascii")
    assert shape(json.loads(request.body)) == shape(plain) or format_ in ("json", "eda")
    if format_ == "slack":
        assert "<" not in json.loads(request.body)["text"]
    if format_ == "teams":
        assert "](" not in request.body


def shape(value):
    if isinstance(value, dict):
        return {key: shape(child) for key, child in value.items() if key != "resources"}
    return [shape(child) for child in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("format_", FORMATS)
def test_an_event_of_which_little_is_known_can_be_sent(format_):
    known = message(1, "failed")
    known.update(vm_name="", failed_phase=None, failed_reason=None, event={"event_id": None})
    json.loads(build_request(Receiver("ops", "http://127.0.0.1/", format=format_), known, now=NOW).body)


def test_a_template_names_fields_and_keeps_their_types():
    template = {
        "alert": "${event_type} of $vm_name, costs $$5: ${resources}",
        "hosts": "${resources}",
        "nested": [{"text": "${text}", "number": "${duration_in_seconds}", "flag": True, "empty": "<${failed_phase}>"}],
    }
    assert json.loads(build(template=template).body) == {
        "alert": "Reboot of web1, costs $5: web1, web2",
        "hosts": ["web1", "web2"],
        "nested": [
            {
                "text": "web1: Reboot is announced, not before 2026-01-31T12:00:00Z; the VM prepares"
                " (C7061BAC-AFDC-4513-B24B-AA5F13A16123)",
                "number": 9,
                "flag": True,
                "empty": "<>",
            }
        ],
    }


def test_an_event_whose_not_before_cannot_be_read_does_not_begin_now():
    body = json.loads(build(event={"not_before": None}, format="slack").body)
    assert body["text"].startswith("web1: Reboot is announced, not before an unknown time; the VM prepares")


def test_a_text_of_an_event_is_never_a_template():
    assert json.loads(build(event={"description": HOSTILE}, template={"a": "${description}!"}).body) == {
        "a": HOSTILE + "!"
    }


def test_a_message_has_its_id_and_time_and_own_headers():
    headers = build(headers={"Authorization": "Bearer x", "User-Agent": "mine"}).headers
    assert headers == {
        "Content-Type": "application/json",
        "User-Agent": "mine",
        "Authorization": "Bearer x",
        "X-Scheduled-Events-Id": "00000000-0000-4000-8000-000000000001",
        "X-Scheduled-Events-Timestamp": "1769860200",
    }


def verifier():
    """The function in the guide."""
    namespace = {}
    exec(block("docs/webhooks.md", "import hashlib"), namespace)  # noqa: S102 - a part of this repository
    return namespace["is_genuine"]


def test_a_signature_is_verified_as_the_guide_shows():
    is_genuine = verifier()
    request = build(secret="s3cr3t")
    body = request.body.encode()
    assert is_genuine(request.headers, body, "s3cr3t", now=NOW + 60)
    assert not is_genuine(request.headers, body + b" ", "s3cr3t", now=NOW)
    assert not is_genuine(request.headers, body, "another", now=NOW)
    assert not is_genuine(request.headers, body, "s3cr3t", now=NOW + 3600)
    for forged in ({"X-Scheduled-Events-Timestamp": "1769860201"}, {"X-Scheduled-Events-Id": "another"}):
        assert not is_genuine({**request.headers, **forged}, body, "s3cr3t", now=NOW)
    assert not is_genuine(build().headers, body, "s3cr3t", now=NOW)


def test_an_event_stream_with_the_credential_of_the_guide_accepts_a_signed_message():
    """The algorithm is that of the documentation: the digest of the body as it came, encoded, after the prefix."""
    guide = (HERE.parents[3] / "docs" / "from-outside.md").read_text(encoding="utf-8")
    row = re.search(r"the algorithm `(\w+)`, the header `([\w-]+)`, the format (\w+), and the prefix `(\S+)`", guide)
    algorithm, header, encoding, prefix = row.groups()
    request = build(secret="s3cr3t", format="eda", event={"description": HOSTILE})
    digest = hmac.new(b"s3cr3t", request.body.encode(), algorithm).digest()
    encoded = {"hex": digest.hex(), "base64": base64.b64encode(digest).decode()}[encoding]
    assert request.headers[header] == prefix + encoded


def test_event_driven_ansible_finds_a_signature_of_the_body_alone():
    request = build(secret="s3cr3t", format="eda")
    digest = hmac.new(b"s3cr3t", request.body.encode(), hashlib.sha256).hexdigest()
    assert request.headers["X-Hub-Signature-256"] == f"sha256={digest}"
    assert "X-Hub-Signature-256" not in build(secret="s3cr3t").headers
