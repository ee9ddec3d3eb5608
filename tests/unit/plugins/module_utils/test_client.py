# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import json
import socket

import pytest
import requests
from _scheduled_events.client import (
    BadAnswer,
    ImdsClient,
    ImdsError,
    NoAnswer,
    NoDocumentYet,
    NotAllowed,
    Refused,
    Unavailable,
    Unreachable,
)
from _scheduled_events.exchange import Exchanger
from requests.adapters import HTTPAdapter

from .conftest import document_text, event

pytestmark = pytest.mark.edge

PATH = "/metadata/scheduledevents?api-version=2020-07-01"


@pytest.fixture
def client(service, clock):
    with_retry = ImdsClient(endpoint=service.endpoint, retry_for=70, request_timeout=5, clock=clock)
    yield with_retry
    with_retry.close()


def test_a_document_is_asked_for_with_the_header_and_the_version(service, client):
    service.answers(document_text(event()))
    assert client.fetch().events[0].event_id == "A1"
    [(method, path, headers, body)] = service.asked
    assert (method, path, headers["Metadata"], body) == ("GET", PATH, "true", "")
    assert "Content-Type" not in headers


def test_without_requests_no_client_is_made(monkeypatch):
    monkeypatch.setattr("_scheduled_events.client.REQUESTS_IMPORT_ERROR", "No module named 'requests'")
    with pytest.raises(ImdsError, match=r"the Python library requests is missing for .*python.*\. Install"):
        ImdsClient()
    assert ImdsClient(exchanger=Exchanger()).endpoint == "http://169.254.169.254"


@pytest.mark.parametrize("body", ["mySpotVM\n", "\ufeffmySpotVM"])
def test_the_name_of_the_vm_is_asked_for_as_text(service, client, body):
    service.answers(body)
    assert client.fetch_name() == "mySpotVM"
    [(method, path, headers, _body)] = service.asked
    assert (method, headers["Metadata"]) == ("GET", "true")
    assert path == "/metadata/instance/compute/name?api-version=2017-08-01&format=text"


def test_what_the_vm_is_is_asked_for_as_json(service, client):
    service.answers('{"name": "vm1", "vmScaleSetName": ""}')
    assert client.poll_compute(2.5) == {"name": "vm1", "vmScaleSetName": ""}
    [(method, path, headers, _body)] = service.asked
    assert (method, headers["Metadata"]) == ("GET", "true")
    assert path == "/metadata/instance/compute?api-version=2017-12-01"


@pytest.mark.parametrize("body", ["", "vm1", "[]", "<html></html>"])
def test_an_answer_that_does_not_say_what_the_vm_is_is_refused(service, client, body):
    service.answers(body)
    with pytest.raises(BadAnswer, match="not with a JSON object"):
        client.poll_compute(2.5)


def test_events_are_acknowledged_in_one_request_with_their_ids_verbatim(service, client):
    service.answers("")
    client.approve(["A1", "b2"])
    [(method, path, headers, body)] = service.asked
    assert (method, path, headers["Metadata"], headers["Content-Type"]) == ("POST", PATH, "true", "application/json")
    assert json.loads(body) == {"StartRequests": [{"EventId": "A1"}, {"EventId": "b2"}]}


def test_one_connection_serves_many_requests_until_the_client_is_closed(service, client):
    connections = []
    accept = service.server.get_request
    service.server.get_request = lambda: connections.append(1) or accept()
    service.answers(document_text())
    for _number in range(5):
        client.poll()
    assert (len(service.asked), len(connections)) == (5, 1)
    client.close()
    client.poll()
    assert (len(service.asked), len(connections)) == (6, 2)


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"])
def test_proxy_variables_are_ignored(service, client, monkeypatch, name):
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    service.answers(document_text())
    assert client.poll().events == ()


def test_a_redirect_is_refused_and_not_followed(service, client):
    service.answers((302, "", {"Location": service.endpoint + "/elsewhere"}))
    with pytest.raises(Refused) as caught:
        client.fetch()
    assert len(service.asked) == 1
    assert str(caught.value) == (
        f"GET {service.endpoint}{PATH} answered 302 Found: a redirect to {service.endpoint}/elsewhere, "
        "which the metadata service never sends and is not followed; check the endpoint and any proxy in front of it"
    )


@pytest.mark.parametrize(
    ("status", "body", "ending"),
    [
        (
            400,
            '{"error":"Bad request: . Required metadata header not specified"}',
            "400 Bad Request: Bad request: . Required metadata header not specified",
        ),
        (
            400,
            '{"error":"Bad request. api-version is invalid or was not specified.","newest-versions":["2019-08-01"]}',
            '400 Bad Request: api-version "2020-07-01" is not known to this host; it names as its newest 2019-08-01',
        ),
        (
            404,
            "",
            "404 Not Found: this host does not know the path, or not the api-version 2020-07-01: without a body",
        ),
        (405, "no", '405 Method Not Allowed: "no"'),
        (406, '{"error":{"code":1}}', '406 Not Acceptable: "{"error":{"code":1}}"'),
        (201, "{}", '201 Created: "{}", where the metadata service answers 200 OK'),
        (204, "", "204 No Content: without a body, where the metadata service answers 200 OK"),
    ],
)
def test_a_refusal_is_not_repeated_and_says_why(service, client, clock, status, body, ending):
    service.answers((status, body))
    with pytest.raises(Refused) as caught:
        client.fetch()
    assert str(caught.value) == f"GET {service.endpoint}{PATH} answered {ending}"
    assert (caught.value.status, len(service.asked), clock.pauses) == (status, 1, [])


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "does not let this user or program ask"),
        (421, "cannot identify the program that asks, such as one in a container"),
    ],
)
def test_where_the_service_is_closed_the_error_names_what_to_allow_and_nothing_is_asked_again(
    service, client, clock, monkeypatch, status, reason
):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    service.answers((status, ""))
    with pytest.raises(NotAllowed) as caught:
        client.fetch()
    assert str(caught.value).endswith(
        f": without a body. Most likely the Metadata Security Protocol of this VM {reason}. Allow the user root the "
        "paths /metadata/scheduledevents and /metadata/instance/compute/name in its InVMAccessControlProfile"
    )
    assert (caught.value.status, len(service.asked), clock.pauses) == (status, 1, [])


@pytest.mark.parametrize("failing", [(410, ""), (429, "Throttle Result: Too Many Requests"), (500, ""), (503, ""), ""])
def test_what_passes_is_asked_again(service, client, clock, failing):
    service.answers(failing, failing, document_text(event()))
    assert len(client.fetch().events) == 1
    assert (len(service.asked), clock.pauses) == (3, [0.5, 1.0])


def test_a_broken_connection_is_tried_again(service, client, clock):
    service.answers(None, document_text(event()))
    assert len(client.fetch().events) == 1
    assert clock.pauses == [0.5]


def test_a_body_that_breaks_off_is_not_an_answer(service, client):
    service.answers((200, '{"Events":[]}', {"Content-Length": "500", "Connection": "close"}))
    with pytest.raises(NoAnswer):
        client.poll()


def test_a_closed_connection_is_named_by_what_happened(service, client):
    service.answers(None)
    with pytest.raises(NoAnswer) as caught:
        client.poll()
    assert str(caught.value) == (
        f"GET {service.endpoint}/metadata/scheduledevents got no answer: Remote end closed connection without response"
    )


def test_a_long_error_of_the_service_is_cut(service, client):
    service.answers((400, json.dumps({"error": "x" * 50000})))
    with pytest.raises(Refused) as caught:
        client.poll()
    assert str(caught.value).endswith("x" * 199 + "…")
    assert len(str(caught.value)) < 400


def test_asking_again_ends_after_the_given_time(service, client, clock):
    service.answers((429, "Throttle Result: Too Many Requests"))
    with pytest.raises(Unavailable) as caught:
        client.fetch()
    assert sum(clock.pauses) == 70
    assert max(clock.pauses) == 5
    assert str(caught.value) == (
        f'GET {service.endpoint}{PATH} answered 429 Too Many Requests: "Throttle Result: Too Many Requests"'
    )


def test_an_empty_body_counts_as_no_document_yet_and_never_as_no_events(service, client):
    service.answers("  \n")
    with pytest.raises(NoDocumentYet) as caught:
        client.poll()
    assert str(caught.value) == f"GET {service.endpoint}{PATH} answered 200 OK with an empty body: no document yet"


@pytest.mark.parametrize("body", ["<html></html>", "{}", '{"Events":5}'])
def test_a_body_that_is_not_a_document_fails_at_once(service, client, clock, body):
    service.answers(body)
    with pytest.raises(BadAnswer) as caught:
        client.fetch()
    assert service.endpoint + PATH in str(caught.value)
    assert "check that the endpoint is the metadata service of this VM" in str(caught.value)
    assert clock.pauses == []


@pytest.mark.parametrize("body", ["<html></html>", "a\nb", "x" * 300])
def test_an_invalid_name_is_refused(service, client, body):
    service.answers(body)
    with pytest.raises(BadAnswer):
        client.fetch_name()


def test_a_host_that_does_not_answer_is_given_up_after_the_request_timeout(clock):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = ImdsClient(endpoint=endpoint, request_timeout=0.1, clock=clock)
        with pytest.raises(NoAnswer) as caught:
            client.poll()
        client.close()
    assert str(caught.value) == f"GET {endpoint}/metadata/scheduledevents got no answer: nothing within 0.1 seconds"


def test_a_closed_port_is_named_with_the_cause(clock):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        client = ImdsClient(endpoint=endpoint, retry_for=2, clock=clock)
        with pytest.raises(NoAnswer) as caught:
            client.fetch()
        client.close()
    assert str(caught.value).startswith(f"GET {endpoint}/metadata/scheduledevents got no answer: ")
    assert "Connection refused" in str(caught.value)
    assert sum(clock.pauses) == 2


def test_connecting_has_a_separate_limit(service, client, monkeypatch):
    asked = []
    original = HTTPAdapter.send

    def remember(self, *args, **kwargs):
        asked.append(kwargs["timeout"])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(HTTPAdapter, "send", remember)
    service.answers(document_text())
    ImdsClient(endpoint=service.endpoint).poll()
    client.poll(request_timeout=3)
    assert asked[0][0] == 5.0  # less than the rest
    assert all(0 < connect <= whole <= limit for (connect, whole), limit in zip(asked, (125, 3)))


class TestFirstContact:
    """A machine without the service: nothing listens, from the first attempt."""

    HINT = (
        ". Is this an Azure VM? The metadata service answers only inside one: "
        "run this on the VM itself, or set endpoint, of roles scheduled_events_endpoint, to where it is"
    )

    @pytest.fixture
    def closed(self):
        """An endpoint where connections are refused; ``listen`` opens it."""
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            yield holder

    @pytest.fixture
    def client(self, closed, clock):
        asking = ImdsClient(endpoint=f"http://127.0.0.1:{closed.getsockname()[1]}", request_timeout=5, clock=clock)
        yield asking
        asking.close()

    def test_a_refused_connection_is_given_up_after_some_seconds_with_a_question(self, client, clock):
        with pytest.raises(Unreachable) as caught:
            client.fetch()
        assert str(caught.value).endswith("Connection refused" + self.HINT)
        assert sum(clock.pauses) == 4

    def test_so_is_the_name(self, client, clock):
        with pytest.raises(Unreachable) as caught:
            client.fetch_name()
        assert str(caught.value).endswith(self.HINT)
        assert sum(clock.pauses) == 4

    def test_retry_for_can_be_shorter(self, closed, clock):
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        client = ImdsClient(endpoint=endpoint, retry_for=1, clock=clock)
        with pytest.raises(Unreachable):
            client.fetch()
        assert sum(clock.pauses) == 1

    def test_a_dropped_connection_is_given_up_at_once(self, client, clock, monkeypatch):
        def drop(*_args, **_options):
            clock.now += 5
            raise requests.exceptions.ConnectTimeout("dropped")

        monkeypatch.setattr(HTTPAdapter, "send", drop)
        with pytest.raises(Unreachable) as caught:
            client.fetch()
        assert str(caught.value).endswith("no connection within 5 seconds" + self.HINT)
        assert clock.pauses == []

    def test_no_route_is_given_up_after_some_seconds(self, client, clock, monkeypatch):
        def unreachable(*_args, **_options):
            raise OSError(113, "No route to host")

        monkeypatch.setattr(socket.socket, "connect", unreachable)
        with pytest.raises(Unreachable) as caught:
            client.fetch()
        assert str(caught.value).endswith("[Errno 113] No route to host" + self.HINT)
        assert sum(clock.pauses) == 4

    def test_after_a_first_contact_an_outage_is_tolerated_as_long_as_before(self, service, clock):
        client = ImdsClient(endpoint=service.endpoint, clock=clock)
        service.answers((429, ""))
        with pytest.raises(Unavailable):
            client.poll()
        service.stop()
        client.close()
        clock.pauses.clear()
        with pytest.raises(Unreachable) as caught:
            client.fetch()
        assert "Is this an Azure VM?" not in str(caught.value)
        assert sum(clock.pauses) == 70

    @pytest.mark.parametrize("first", [(410, ""), (429, ""), (500, ""), None, ""])
    def test_a_service_that_is_being_enabled_is_waited_for(self, service, clock, first):
        client = ImdsClient(endpoint=service.endpoint, clock=clock)
        service.answers(*[first] * 10, document_text())
        assert client.fetch().events == ()
        assert sum(clock.pauses) > 30

    def test_polling_does_not_ask_the_question(self, client):
        with pytest.raises(Unreachable) as caught:
            client.poll()
        assert str(caught.value).endswith("Connection refused")

    def test_nor_does_a_client_that_never_asks_again(self, client):
        once = ImdsClient(endpoint=client.endpoint, retry_for=0)
        with pytest.raises(Unreachable) as caught:
            once.fetch()
        assert str(caught.value).endswith("Connection refused")


def test_a_url_that_cannot_be_asked_is_refused():
    with pytest.raises((Refused, NoAnswer)) as caught:
        ImdsClient(endpoint="http://a..b", retry_for=0).fetch()
    assert "http://a..b/metadata/scheduledevents" in str(caught.value)


def refusal(*named):
    return 400, json.dumps({"error": "Bad request. api-version is invalid", "newest-versions": named})


def automatic(service, clock):
    return ImdsClient(endpoint=service.endpoint, api_version="auto", retry_for=70, clock=clock)


def asked_versions(service):
    return [path.rpartition("=")[2] for _method, path, *_more in service.asked]


@pytest.mark.parametrize(
    ("refusals", "versions"),
    [
        ([], ["2024-07-09"]),
        ([refusal("2031-01-01", "2019-08-01", "2019-04-01")], ["2024-07-09", "2019-08-01"]),
        ([refusal("2031-01-01")], ["2024-07-09", "2020-07-01"]),
        ([(404, ""), (404, "")], ["2024-07-09", "2020-07-01", "2019-08-01"]),
    ],
)
def test_auto_asks_for_the_newest_version_that_both_know_and_keeps_it(service, clock, refusals, versions):
    service.answers(*refusals, document_text(event()))
    asking = automatic(service, clock)
    assert len(asking.poll().events) == 1
    asking.poll()
    assert (asked_versions(service), asking.api_version) == ([*versions, versions[-1]], versions[-1])


@pytest.mark.parametrize("status", [410, 429, 500])
def test_auto_asks_again_for_the_same_version_while_the_service_is_not_available(service, clock, status):
    service.answers((status, ""), document_text())
    automatic(service, clock).fetch()
    assert asked_versions(service) == ["2024-07-09"] * 2


def test_auto_fails_once_each_version_is_refused_and_begins_again_with_the_newest(service, clock):
    service.answers((404, ""))
    asking = automatic(service, clock)
    with pytest.raises(Refused, match="not the api-version 2017-03-01"):
        asking.poll()
    assert (len(service.asked), asking.api_version) == (8, "2024-07-09")


def test_auto_acknowledges_with_a_version_that_the_host_knows(service, clock):
    service.answers(refusal("2020-07-01"), "")
    automatic(service, clock).approve(["A1"])
    assert [(method, path[-10:]) for method, path, *_more in service.asked] == [
        ("POST", "2024-07-09"),
        ("POST", "2020-07-01"),
    ]


def test_auto_takes_an_acknowledgement_that_is_not_found_for_that_of_an_event_that_is_over(service, clock):
    service.answers(document_text(event()), (404, ""), document_text())
    asking = automatic(service, clock)
    asking.poll()
    with pytest.raises(Refused, match="404"):
        asking.approve(["A1"])
    assert (len(service.asked), asking.api_version) == (2, "2024-07-09")


def test_auto_reads_names_as_the_version_spells_them(service, clock):
    service.answers(refusal("2017-03-01"), document_text(event(Resources=["_vm1"])))
    [read] = automatic(service, clock).poll().events
    assert read.affects("vm1")
