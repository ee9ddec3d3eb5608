# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Queries of Resource Graph, with answers as its pages describe them; nothing here ran against Azure."""

import json

import pytest

from plugins.module_utils._scheduled_events.clock import Clock
from plugins.plugin_utils._azure.arm import Arm, ArmAnswer, ArmError, Token
from plugins.plugin_utils._azure.graph import EVENTS, rows_of


def asked(*answers):
    """The rows of a query, and the requests that were sent."""
    left, requests, pauses = iter(answers), [], []

    def send(_method, url, _headers, data):
        requests.append((url, json.loads(data)))
        answer = next(left)
        return answer if isinstance(answer, ArmAnswer) else ArmAnswer(200, 0, json.dumps(answer).encode())

    clock = Clock(lambda: 0, lambda: sum(pauses), pauses.append)
    arm = Arm("https://x", lambda _subscription: Token("a-token", 1e10), send, patience=600, clock=clock)
    return rows_of(arm, EVENTS, ["s1", "s2"]), requests


def test_all_pages_are_read_with_the_token_of_the_page_before():
    rows, requests = asked(
        {"totalRecords": 3, "data": [1, 2], "$skipToken": "next"}, {"totalRecords": 3, "data": [3], "$skipToken": None}
    )
    assert rows == [1, 2, 3]
    assert requests[0][0] == "https://x/providers/Microsoft.ResourceGraph/resources?api-version=2022-10-01"
    assert [body["subscriptions"] for _url, body in requests] == [["s1", "s2"]] * 2
    assert [body["options"].get("$skipToken") for _url, body in requests] == [None, "next"]


def test_a_query_that_is_asked_too_often_waits_as_long_as_azure_says():
    rows, requests = asked(ArmAnswer(429, 3.0, b""), {"totalRecords": 1, "data": [1]})
    assert (rows, len(requests)) == ([1], 2)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"totalRecords": 2, "data": [1], "resultTruncated": "true"}, "1 of 2 rows"),
        ({"totalRecords": 2, "data": [], "$skipToken": "again"}, "0 of 2 rows"),
        ({"totalRecords": 2, "data": [1, 2, 3], "$skipToken": "next"}, "3 of 2 rows"),
        ({"totalRecords": 9, "data": [1], "$skipToken": "again"}, "2 of 9 rows"),
        ({"totalRecords": 1, "data": {"rows": []}}, "without a list data"),
        ({"data": []}, "without a list data"),
        ([], "without a list data"),
    ],
)
def test_rows_that_are_missing_are_not_taken_for_none(answer, message):
    with pytest.raises(ArmError, match=message):
        asked(answer, answer, answer)
