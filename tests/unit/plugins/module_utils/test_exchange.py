# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.exchange import BrokenOff, HttpRequest, announced_length, retry_after
from _scheduled_events.transport import Transport

NOW = 1474309709.0  # Mon, 19 Sep 2016 18:28:29 GMT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        (" 120 ", 120.0),
        ("Mon, 19 Sep 2016 18:29:47 GMT", 78.0),
        ("Mon, 19 Sep 2016 18:00:00 GMT", 0.0),
        (None, 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("1.5", 0.0),
        ("\u0665", 0.0),
        ("9999999999", 9999999999.0),
        ("9" * 5000, float("inf")),
    ],
)
def test_retry_after_is_a_number_of_seconds_or_a_date_and_nothing_else(header, seconds):
    assert retry_after(header, now=NOW) == seconds


# A newer requests writes some of these URLs in another way before it takes a connection.
@pytest.mark.parametrize("user", ["", "user:p%2Fss@", "user:p%2fss@", "user:p^ss@", "us@er:ss@"])
def test_a_request_that_a_proxy_has_received_and_not_answered_may_have_been_carried_out(service, user):
    service.answers(None)
    transport = Transport(proxy=service.endpoint.replace("http://", f"http://{user}"))
    with pytest.raises(BrokenOff):
        transport.exchange(HttpRequest("POST", "http://receiver.example.org/", {}, {}, "{}"), 60.0)
    assert transport.connected
    transport.close()


@pytest.mark.parametrize(
    ("header", "length"),
    [("0", 0), ("5", 5), ("005", 5), (None, None), ("", None), ("-1", None), ("\u00b2", None), ("9" * 5000, None)],
)
def test_an_announced_length_is_a_number_and_nothing_else(header, length):
    assert announced_length(header) == length
