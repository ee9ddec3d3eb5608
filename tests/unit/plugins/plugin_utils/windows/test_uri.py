# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What win_uri returns, and what the library gets of it."""

import pytest

from plugins.module_utils._scheduled_events.client import BadAnswer, ImdsClient, NoAnswer, Refused, Unreachable
from plugins.module_utils._scheduled_events.exchange import BrokenOff, HttpRequest, Malformed, NotConnected
from plugins.plugin_utils._windows.uri import STATUSES, WinUri, WinUriError

URL = "http://127.0.0.1:1/metadata/scheduledevents"
BODY = '{"DocumentIncarnation":1,"Events":[]}'
OK = {"url": URL, "elapsed": 0.1, "status_code": 200, "status_description": "OK", "content": BODY, "content_length": 37}
SENT = "Unhandled exception occurred when sending web request. Exception: "


def exchange(result, *, body=None, seconds=30.0):
    """The answer, what win_uri was given, and whether there was a connection."""
    given = []

    def execute(arguments, _seconds):
        given.append(arguments)
        return result

    exchanger = WinUri(execute)
    query, headers = {"api-version": "2020-07-01", "format": "a&b"}, {"Metadata": "true"}
    answer = exchanger.exchange(HttpRequest("POST", URL, query, headers, body), seconds)
    return answer, given[0], exchanger.connected


def test_a_request_is_given_whole_and_without_a_proxy_or_redirects():
    answer, given, connected = exchange(OK, body='{"a": "ü"}', seconds=2.1)
    assert given == {
        "url": f"{URL}?api-version=2020-07-01&format=a%26b",
        "method": "POST",
        "headers": {"Metadata": "true"},
        "body": '{"a": "ü"}',
        "return_content": True,
        "status_code": STATUSES,
        "use_proxy": False,
        "follow_redirects": "none",
        "url_timeout": 3,
    }
    assert (answer.url, answer.status, answer.reason, answer.body) == (given["url"], 200, "OK", BODY.encode())
    assert connected


def test_less_than_a_second_is_not_the_0_that_win_uri_takes_for_ever():
    assert exchange(OK, seconds=0.1)[1]["url_timeout"] == 1


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ({"content_length": "37"}, BODY),  # the header in place of the property
        ({"content_length": -1, "transfer_encoding": "chunked"}, BODY),
        ({"content": "\ufeff" + BODY, "content_length": 40}, "\ufeff" + BODY),
        ({"content": "", "content_length": 0, "content_encoding": ""}, ""),
        ({"status_code": 500, "content_length": 12}, BODY),
        ({"status_code": 410, "content": None, "failed": True}, ""),
    ],
)
def test_an_answer_has_the_body_that_win_uri_read(more, body):
    answer = exchange({**OK, **more})[0]
    assert answer.body.decode() == body


def test_a_redirect_keeps_its_location():
    assert (
        exchange({**OK, "status_code": 302, "location": "http://elsewhere"})[0].headers["location"]
        == "http://elsewhere"
    )


@pytest.mark.parametrize(
    ("result", "kind", "message", "connected"),
    [
        ({"msg": SENT + "Unable to connect to the remote server"}, NotConnected, "Unable to connect to the", False),
        ({"msg": SENT + "No such host is known. (vm:80)"}, NotConnected, "No such host is known", False),
        ({"msg": SENT + "The operation has timed out", "status_code": None}, BrokenOff, "The operation has", True),
        ({"msg": SENT + "Zeit\u00fcberschreitung"}, BrokenOff, "Zeit", True),
        ({}, BrokenOff, "win_uri failed and gave no reason", True),
        ({**OK, "content": None, "failed": True, "msg": SENT + "closed"}, BrokenOff, "closed", True),
        ({**OK, "failed": True, "msg": "odd"}, BrokenOff, "odd", True),
        ({**OK, "content": BODY[:-1] + "\ufffd", "content_length": -1}, Malformed, "it is not text in UTF-8", True),
        ({**OK, "content": BODY[:-1]}, BrokenOff, "it broke off after 36 of 37 bytes", True),
        ({**OK, "content": "x" * (1024 * 1024 + 1), "content_length": -1}, Malformed, "longer than 1048576", True),
    ],
)
def test_an_incomplete_answer_fails_as_on_other_hosts(result, kind, message, connected):
    exchanger = WinUri(lambda _arguments, _seconds: {"url": URL, **result})
    with pytest.raises(kind, match=message):
        exchanger.exchange(HttpRequest("GET", URL), 1)
    assert exchanger.connected is connected


def test_a_result_without_the_url_is_not_a_failure_of_the_service():
    with pytest.raises(WinUriError, match="Unsupported parameters"):
        exchange({"failed": True, "msg": "Unsupported parameters for (win_uri) module: use_proxy"})


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"msg": SENT + "Unable to connect to the remote server"}, Unreachable),
        ({"msg": SENT + "The operation has timed out"}, NoAnswer),
        ({**OK, "status_code": 400}, Refused),
        ({**OK, "content": "<html>", "content_length": 6}, BadAnswer),
    ],
)
def test_the_client_takes_it_as_it_takes_its_own(result, error):
    client = ImdsClient(endpoint="http://127.0.0.1:1", exchanger=WinUri(lambda *_: {"url": URL, **result}))
    with pytest.raises(error):
        client.poll()


def test_the_client_reads_a_document_through_it():
    client = ImdsClient(endpoint="http://127.0.0.1:1", exchanger=WinUri(lambda *_: OK))
    assert client.poll().incarnation == 1
