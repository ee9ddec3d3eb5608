# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.client import ImdsClient, NoAnswer, NotAllowed, Refused, Unavailable, Unreachable
from _scheduled_events.document import Filter, parse
from _scheduled_events.waiting import Wait, WaitTimeout

from .conftest import document_text, event

THERE, GONE = document_text(event(), DocumentIncarnation=2), document_text(DocumentIncarnation=3)
OUTAGE = [(410, ""), (429, "Throttle Result: Too Many Requests"), (500, ""), "", "<html>", '{"Events":7}']


@pytest.fixture
def waiting(service, clock):
    asking = ImdsClient(endpoint=service.endpoint, clock=clock)

    def run(**options):
        options = dict({"present": False, "timeout": 60, "clock": clock}, **options)
        return Wait(asking, lambda _seconds: Filter(vm_name="vm1"), **options).run()

    yield run
    asking.close()


def test_absent_returns_once_the_event_has_left_the_document(service, waiting, clock):
    service.answers(THERE, THERE, GONE)
    waited = waiting()
    assert (waited.events, waited.document.incarnation, waited.elapsed) == ((), 3, 2.0)
    assert clock.pauses == [1.0, 1.0]


def test_present_returns_the_event_once_it_is_in_the_document(service, waiting):
    service.answers(GONE, THERE)
    assert [each.event_id for each in waiting(present=True).events] == ["A1"]


def test_an_event_of_another_vm_is_not_waited_for(service, waiting, clock):
    service.answers(document_text(event(Resources=["vm10"])))
    waiting()
    assert clock.pauses == []


def test_failing_polls_are_never_taken_for_no_events(service, waiting):
    service.answers(THERE, *OUTAGE, THERE, GONE)
    assert waiting(timeout=100).document.incarnation == 3
    assert len(service.asked) == 9


def test_an_outage_at_the_start_is_tolerated(service, waiting):
    service.answers(*OUTAGE, GONE)
    assert waiting().document.incarnation == 3


def test_polls_are_spread_while_they_fail_and_return_to_the_given_pace(service, waiting, clock):
    service.answers((429, ""), (429, ""), (429, ""), (429, ""), THERE, GONE)
    waiting()
    assert clock.pauses == [2.0, 4.0, 5.0, 5.0, 1.0]


def test_a_refusal_of_the_first_request_fails_at_once(service, waiting, clock):
    service.answers((400, '{"error":"api-version is invalid"}'))
    with pytest.raises(Refused):
        waiting()
    assert clock.pauses == []


def test_a_service_that_is_closed_from_the_first_request_on_fails_at_once(service, waiting, clock):
    service.answers((403, ""))
    with pytest.raises(NotAllowed):
        waiting()
    assert clock.pauses == []


@pytest.mark.parametrize("status", [404, 403, 421])
def test_a_refusal_later_is_an_outage(service, waiting, status):
    service.answers(THERE, (status, ""), GONE)
    assert waiting().document.incarnation == 3


def test_a_state_must_hold_for_the_given_time(service, waiting, clock):
    service.answers(GONE)
    waiting(stable_for=10)
    assert sum(clock.pauses) == 10


def test_an_event_that_follows_closely_starts_the_time_again(service, waiting, clock):
    service.answers(GONE, GONE, GONE, THERE, THERE, GONE)
    waiting(stable_for=4)
    assert sum(clock.pauses) == 5 + 4


def test_a_failing_poll_neither_ends_the_time_nor_completes_it(service, waiting, clock):
    service.answers(GONE, GONE, (500, ""), (500, ""), GONE)
    waiting(stable_for=5)
    assert clock.pauses == [1.0, 1.0, 2.0, 4.0]


def test_a_timeout_names_the_events_in_the_way(service, waiting):
    service.answers(document_text(event(Resources=["vm1", "vm2"]), event(EventId="Z9", Resources=["vm3"])))
    with pytest.raises(WaitTimeout) as caught:
        waiting(timeout=3)
    assert str(caught.value) == (
        "Timeout after 3 seconds: still there: Reboot A1 (Scheduled, NotBefore 2016-09-19T18:29:47Z) of vm1, vm2"
    )
    assert [each.event_id for each in caught.value.last.events] == ["A1"]


def test_a_timeout_of_present_names_the_existing_events(service, waiting):
    service.answers(document_text(event(EventId="Z9", Resources=["vm3"], EventStatus="Started", NotBefore="")))
    with pytest.raises(WaitTimeout) as caught:
        waiting(present=True, timeout=3)
    assert str(caught.value) == (
        "Timeout after 3 seconds: no such event; the document 1 holds Reboot Z9 (Started) of vm3"
    )


def test_a_timeout_in_an_outage_shows_the_last_failure(service, waiting):
    service.answers(THERE, (500, ""))
    with pytest.raises(WaitTimeout) as caught:
        waiting(timeout=3)
    assert "still there: Reboot A1" in str(caught.value)
    assert str(caught.value).endswith("answered 500 Internal Server Error: without a body")


def test_a_timeout_without_any_document_says_so(service, waiting):
    service.answers("")
    with pytest.raises(WaitTimeout) as caught:
        waiting(timeout=3)
    assert str(caught.value).startswith(
        "Timeout after 3 seconds: no document could be read; the last request failed: GET "
    )
    assert caught.value.last is None


class AskedInVain:
    """A service that answers 500, and whose last answer does not come within the rest of the wait."""

    def __init__(self, clock):
        self._clock = clock

    def poll(self, request_timeout):
        if request_timeout >= 5:
            self._clock.sleep(1)
            raise Unavailable("GET / answered 500")
        self._clock.sleep(request_timeout)
        raise NoAnswer(f"GET / got no answer: nothing within {request_timeout:g} seconds")

    def is_missing(self, _error):
        return False


def test_a_timeout_shows_what_the_service_answered_and_not_that_the_rest_of_the_wait_was_too_short(clock):
    with pytest.raises(WaitTimeout) as caught:
        Wait(AskedInVain(clock), None, present=False, timeout=10, request_timeout=5, clock=clock).run()
    assert str(caught.value).endswith("the last request failed: GET / answered 500")


def test_a_timeout_while_the_state_does_not_hold_for_long_enough_says_for_how_long_it_did(service, waiting):
    service.answers(THERE, THERE, GONE)
    with pytest.raises(WaitTimeout) as caught:
        waiting(timeout=6, stable_for=5)
    assert str(caught.value) == "Timeout after 6 seconds: the events asked for are absent for 4 of 5 seconds only"


class Scripted:
    """A client that moves the clock: ``answers`` gives seconds, and a document or an error, in their order."""

    def __init__(self, clock, *answers, reached=True):
        self.clock, self.answers, self.reached = clock, list(answers), reached
        self.limits = []

    def poll(self, request_timeout):
        return self._answer("document", request_timeout)

    def poll_name(self, request_timeout):
        return self._answer("name", request_timeout)

    def is_missing(self, error):
        return isinstance(error, Unreachable) and not self.reached

    def wanted(self, seconds):
        return Filter(vm_name=self.poll_name(seconds))

    def _answer(self, what, seconds):
        self.limits.append((what, seconds))
        taken, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if taken >= seconds:
            taken, answer = seconds, NoAnswer(f"GET {what} got no answer: nothing within {seconds:g} seconds")
        self.clock.now += taken
        if isinstance(answer, Exception):
            raise answer
        return answer

    def wait(self, **options):
        options = dict({"present": False, "clock": self.clock}, **options)
        return Wait(self, self.wanted, **options).run()


NOTHING = parse(document_text(), api_version="2020-07-01")
THERE_NAMED = parse(THERE, api_version="2020-07-01")


def test_no_request_waits_far_beyond_the_timeout(clock):
    client = Scripted(clock, (1000, None))
    with pytest.raises(WaitTimeout):
        client.wait(timeout=130, request_timeout=125)
    assert client.limits == [("document", 125), ("document", 3.0)]


def test_only_the_answers_up_to_the_first_document_may_take_two_minutes(clock):
    client = Scripted(clock, (100, THERE_NAMED), (1, "vm1"), (1000, None))
    with pytest.raises(WaitTimeout):
        client.wait(timeout=150, request_timeout=125)
    assert client.limits[:3] == [("document", 125), ("name", 50), ("document", 30)]


def test_a_name_that_does_not_come_keeps_the_timeout_and_is_named(clock):
    client = Scripted(clock, (1, NOTHING), (1000, None))
    with pytest.raises(WaitTimeout) as caught:
        client.wait(timeout=10, request_timeout=125)
    assert client.limits == [("document", 10), ("name", 9)]
    assert caught.value.elapsed == 10
    assert str(caught.value) == (
        "Timeout after 10 seconds: the name of this VM could not be read; "
        "the last request failed: GET name got no answer: nothing within 9 seconds"
    )


def test_a_name_after_a_document_at_the_last_moment_gets_hardly_any_time(clock):
    client = Scripted(clock, (9.999, NOTHING), (1000, None))
    with pytest.raises(WaitTimeout):
        client.wait(timeout=10)
    assert client.limits == [("document", 10), ("name", 0.1)]


class TestRetryFor:
    """``retry_for`` limits how long polls may fail in a row."""

    OUTAGE = Unavailable("GET / answered 500")

    def test_polls_that_fail_for_longer_end_the_wait_with_the_last_failure(self, clock):
        client = Scripted(clock, (0, THERE_NAMED), (0, "vm1"), (0, self.OUTAGE))
        with pytest.raises(WaitTimeout) as caught:
            client.wait(timeout=900, retry_for=30)
        assert caught.value.elapsed == 31  # the first poll that failed came after one second
        assert str(caught.value).startswith("Polls failed for 30 seconds, the limit that retry_for sets: still there: ")
        assert str(caught.value).endswith("; the last request failed: GET / answered 500")
        assert [each.event_id for each in caught.value.last.events] == ["A1"]

    def test_the_time_counts_from_the_start_of_the_first_poll_that_failed(self, clock):
        client = Scripted(clock, (20, self.OUTAGE))
        with pytest.raises(WaitTimeout) as caught:
            client.wait(timeout=900, retry_for=30)
        assert caught.value.elapsed == 42  # 20 of the first poll, a pause of 2, 20 of the second

    def test_each_successful_poll_starts_the_time_again(self, clock):
        outage = [(12, self.OUTAGE)] * 2
        there = [(0, THERE_NAMED), (0, "vm1")]
        client = Scripted(clock, *outage, *there, *outage, *there, *outage, (0, NOTHING), (0, "vm1"))
        assert client.wait(timeout=900, retry_for=30).events == ()

    def test_the_timeout_of_the_wait_comes_first_where_it_is_shorter(self, clock):
        client = Scripted(clock, (0, self.OUTAGE))
        with pytest.raises(WaitTimeout, match=r"^Timeout after 10 seconds: "):
            client.wait(timeout=10, retry_for=30)

    def test_without_it_an_outage_is_tolerated_to_the_timeout(self, clock):
        client = Scripted(clock, (0, self.OUTAGE))
        with pytest.raises(WaitTimeout, match=r"^Timeout after 900 seconds: "):
            client.wait(timeout=900)

    def test_it_shortens_the_search_for_a_service_that_never_answered(self, clock):
        client = Scripted(clock, (0, TestFirstContact.REFUSED), reached=False)
        with pytest.raises(Unreachable):
            client.wait(timeout=900, retry_for=2)
        assert sum(clock.pauses) == 2


class TestFirstContact:
    """A machine without the service: nothing listens, from the first attempt."""

    REFUSED = Unreachable("GET http://127.0.0.1:1 got no answer: [Errno 111] Connection refused")
    DROPPED = Unreachable("GET http://127.0.0.1:1 got no answer: no connection within 5 seconds")

    @pytest.mark.parametrize("timeout", [2, 900])
    def test_a_refused_connection_is_given_up_after_some_seconds_with_a_question(self, clock, timeout):
        client = Scripted(clock, (0, self.REFUSED), reached=False)
        with pytest.raises(Unreachable) as caught:
            client.wait(timeout=timeout)
        assert str(caught.value).startswith(f"{self.REFUSED}. Is this an Azure VM? ")
        assert sum(clock.pauses) == min(timeout, 4)

    def test_a_dropped_connection_is_given_up_at_once(self, clock):
        client = Scripted(clock, (5, self.DROPPED), reached=False)
        with pytest.raises(Unreachable):
            client.wait(timeout=900)
        assert clock.pauses == []

    def test_after_a_first_contact_an_outage_is_tolerated_to_the_timeout(self, clock):
        client = Scripted(clock, (0, self.REFUSED))
        with pytest.raises(WaitTimeout):
            client.wait(timeout=900)
        assert sum(clock.pauses) == 900
