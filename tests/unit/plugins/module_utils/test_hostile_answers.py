# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers that break the rules, from a raw socket: each gives a document or an error of the library, in time.

A slow host goes on for much longer than the request may take; so a client that waited for it would not report the
limit of the request, and would take the document that comes in the end.
"""

import concurrent.futures
import gzip
import os
import re
import subprocess
import sys
import zlib

import pytest
from _scheduled_events.client import BadAnswer, ImdsClient, ImdsError, NoAnswer, NoDocumentYet, Refused, Unavailable
from _scheduled_events.document import Document
from _scheduled_events.exchange import HttpRequest, NotConnected, NotTrusted
from _scheduled_events.transport import Transport
from raw_service import Drip, Endless, Hang, Hold, Mark, RawService, Request, Reset

pytestmark = pytest.mark.edge

SHORT = 0.5  # seconds for an answer that does not come
LONG = 60.0  # seconds for an answer that does, on a busy machine

DOCUMENT = b'{"DocumentIncarnation":1,"Events":[]}'
OTHER_DOCUMENT = b'{"DocumentIncarnation":666,"Events":[]}'
HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"
BOMB = gzip.compress(b" " * 50000000)


def head(*headers, status=b"200 OK"):
    return b"\r\n".join((b"HTTP/1.1 " + status, *headers)) + b"\r\n\r\n"


def whole(body=DOCUMENT, *headers, status=b"200 OK"):
    return head(b"Content-Length: %d" % len(body), *headers, status=status) + body


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = head(b"Transfer-Encoding: chunked")
OK = whole()
IN_TIME = "within 0.5 seconds"
TOO_LONG = "its body is longer than 1048576 bytes"
BROKE_OFF = "got no answer: it broke off"

# What the host does → (its script, the error, a part of the message)
SLOW = {
    "no answer": ([Hang()], NoAnswer, "nothing " + IN_TIME),
    "the status line byte by byte": ([Drip(OK)], NoAnswer, IN_TIME),
    "an endless status line byte by byte": ([Drip(b"HTTP/1.1 ", True)], NoAnswer, IN_TIME),
    "the headers byte by byte": ([b"HTTP/1.1 200 OK\r\n", Drip(OK[17:])], NoAnswer, IN_TIME),
    "endless headers byte by byte": ([b"HTTP/1.1 200 OK\r\n", Drip(b"A: b\r\n", True)], NoAnswer, IN_TIME),
    "the body byte by byte": ([OK[: -len(DOCUMENT)], Drip(DOCUMENT)], NoAnswer, IN_TIME),
    "a body until the end, byte by byte": ([head(), Drip(DOCUMENT)], NoAnswer, IN_TIME),
    "the size of a chunk byte by byte": ([CHUNKED, Drip(b"0" * 500 + b"1\r\n")], NoAnswer, IN_TIME),
    "the data of a chunk byte by byte": ([CHUNKED, Drip(chunk(DOCUMENT))], NoAnswer, IN_TIME),
    "the trailer byte by byte": ([CHUNKED, chunk(DOCUMENT), b"0\r\n", Drip(b"A: b\r\n", True)], NoAnswer, IN_TIME),
    "100 Continue for ever, byte by byte": ([Drip(head(status=b"100 Continue"), True)], NoAnswer, IN_TIME),
    "nothing after the headers": ([head(b"Content-Length: 37"), Hang()], NoAnswer, IN_TIME),
    "nothing after half of the body": ([OK[:-10], Hang()], NoAnswer, IN_TIME),
    "nothing after the last but one chunk": ([CHUNKED, chunk(DOCUMENT), Hang()], NoAnswer, IN_TIME),
}
# The status has to come in time, on a busy machine too, and the body does not.
SLOW_ERRORS = {
    "503 and no body": ([head(b"Content-Length: 9", status=b"503 X"), Hang()], Unavailable, "answered 503"),
    "429 with a body byte by byte": ([head(status=b"429 X"), Drip(b"x" * 2000)], Unavailable, "answered 429"),
    "400 with a body byte by byte": ([head(status=b"400 X"), Drip(b"x" * 2000)], Refused, "answered 400"),
}
HUGE = {
    "a body without an end": ([head(), Endless(b" ")], BadAnswer, TOO_LONG),
    "a body of 400 MB": ([head(b"Content-Length: 400000000"), Endless(b" ")], BadAnswer, TOO_LONG),
    "chunks without an end": ([CHUNKED, Endless(chunk(b" " * 1000))], BadAnswer, TOO_LONG),
    "chunks of one byte without an end": ([CHUNKED, Endless(chunk(b" "))], BadAnswer, "longer than 1310720 bytes"),
    "a chunk of 2 GB": ([CHUNKED, b"7fffffff\r\n", Endless(b" ")], BadAnswer, TOO_LONG),
    "a chunk with a size without an end": ([CHUNKED, Endless(b"0")], ImdsError, ""),
    "a trailer without an end": ([CHUNKED, chunk(DOCUMENT), b"0\r\n", Endless(b"A: b\r\n")], ImdsError, ""),
    "a status line without an end": ([Endless(b"HTTP/1.1 ")], BadAnswer, "it is not HTTP"),
    "a header without an end": ([b"HTTP/1.1 200 OK\r\nA: ", Endless(b"b")], BadAnswer, "it is not HTTP"),
    "headers without an end": ([b"HTTP/1.1 200 OK\r\n", Endless(b"A: b\r\n")], BadAnswer, ""),
    "100 Continue without an end": ([Endless(head(status=b"100 Continue"))], BadAnswer, "longer than 1310720 bytes"),
    "503 without an end": ([head(status=b"503 X"), Endless(b"x")], Unavailable, "answered 503 Service Unavailable"),
    "a redirect without an end": ([head(b"Location: /", status=b"302 X"), Endless(b"x")], Refused, "a redirect to /"),
    "an error of 900 kB": ([whole(b'{"error":"%s"}' % (b"x" * 900000), status=b"400 X")], Refused, "xxx"),
    "many empty objects": ([whole(b'{"Events":[' + b"{}," * 300000 + b"{}]}")], BadAnswer, "10000 objects and lists"),
    "deep lists": ([whole(b"[" * 1000000)], BadAnswer, "10000 objects and lists"),
    "a number of a million digits": ([whole(b'{"Events":%s}' % (b"1" * 1000000))], BadAnswer, "it has no array Events"),
}
COMPRESSED = {
    "a gzip bomb": ([whole(BOMB, b"Content-Encoding: gzip")], BadAnswer, "it is not JSON"),
    "a gzip bomb in chunks": (
        [head(b"Transfer-Encoding: chunked", b"Content-Encoding: gzip") + chunk(BOMB) + b"0\r\n\r\n"],
        BadAnswer,
        "it is not JSON",
    ),
    "a gzip bomb as a redirect": (
        [whole(BOMB, b"Content-Encoding: gzip", b"Location: /", status=b"302 Found")],
        Refused,
        "a redirect to /",
    ),
    "a gzip bomb as an error": ([whole(BOMB, b"Content-Encoding: gzip", status=b"500 X")], Unavailable, "500"),
    "deflate": ([whole(zlib.compress(DOCUMENT), b"Content-Encoding: deflate")], BadAnswer, "it is not JSON"),
    "gzip as a transfer coding": ([head(b"Transfer-Encoding: gzip, chunked") + chunk(BOMB)], BadAnswer, "not JSON"),
    "gzip that is not announced": ([whole(gzip.compress(DOCUMENT))], BadAnswer, "it is not JSON"),
}
CUT = {
    "closed at once": ([], NoAnswer, ""),
    "reset at once": ([Reset()], NoAnswer, "reset"),
    "half a status line": ([b"HTTP/1.1 2"], NoAnswer, BROKE_OFF),
    "a status line alone": ([b"HTTP/1.1 200 OK\r\n"], NoAnswer, BROKE_OFF),
    "half the headers": ([b"HTTP/1.1 200 OK\r\nContent-Le"], NoAnswer, BROKE_OFF),
    "no end of the headers": ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"], NoAnswer, BROKE_OFF),
    "half the body": ([OK[:-10]], NoAnswer, ""),
    "no body": ([head(b"Content-Length: 37")], NoAnswer, ""),
    "reset in the body": ([OK[:-10], Drip(b" "), Reset()], NoAnswer, "reset"),
    "half a chunk": ([CHUNKED, chunk(DOCUMENT)[:-10]], NoAnswer, ""),
    "half the size of a chunk": ([CHUNKED, chunk(DOCUMENT), b"1"], NoAnswer, ""),
    "no last chunk": ([CHUNKED, chunk(DOCUMENT)], NoAnswer, ""),
}
CONTRADICTORY = {
    "a length of 18 digits": ([head(b"Content-Length: " + b"9" * 18) + DOCUMENT], NoAnswer, "broke off"),
    "two lengths": ([head(b"Content-Length: 37", b"Content-Length: 36") + DOCUMENT], BadAnswer, ""),
    "two lengths in one header": ([head(b"Content-Length: 37, 36") + DOCUMENT], BadAnswer, ""),
    "chunks twice": (
        [head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + chunk(DOCUMENT)],
        ImdsError,
        "",
    ),
    "a length that is too small": ([head(b"Content-Length: 9") + DOCUMENT], BadAnswer, "it is not JSON"),
    "a chunk of a size that is none": ([CHUNKED, b"zz\r\n", DOCUMENT], ImdsError, ""),
    "a chunk of a size below zero": ([CHUNKED, b"-5\r\n", DOCUMENT], ImdsError, ""),
    "a contradiction in an error": ([head(b"Content-Length: \xb2", status=b"500 X")], Unavailable, "answered 500"),
}
GARBAGE = {
    "SSH": ([b"SSH-2.0-OpenSSH_9.2\r\n"], BadAnswer, "it is not HTTP: SSH-2.0-OpenSSH_9.2"),
    "TLS": ([b"\x15\x03\x01\x00\x02\x02\x46"], BadAnswer, "it is not HTTP"),
    "HTTP/0.9": ([DOCUMENT], BadAnswer, "it is not HTTP"),
    "NUL bytes": ([b"\0" * 1000], BadAnswer, "it is not HTTP"),
    "a document of NUL bytes": ([whole(b"\0" * 1000)], BadAnswer, "it is not JSON"),
    "a status that is not a number": ([b"HTTP/1.1 abc OK\r\n\r\n"], BadAnswer, "it is not HTTP"),
    "a status of five digits": ([b"HTTP/1.1 20000 OK\r\n\r\n"], BadAnswer, "it is not HTTP"),
    "a status below zero": ([b"HTTP/1.1 -200 OK\r\n\r\n"], BadAnswer, "it is not HTTP"),
    "an unknown version": ([b"HTTP/9.9 200 OK\r\n\r\n" + DOCUMENT], BadAnswer, "it is not HTTP: HTTP/9.9"),
    "an unknown status": ([whole(b"", status=b"799 \x1b[31mred")], Unavailable, "answered 799 �[31mred"),
    "a status of 65 kB": ([b"HTTP/1.1 200 " + b"x" * 70000 + b"\r\n\r\n"], BadAnswer, "it is not HTTP"),
    "a header of 70 kB": ([head(b"A: " + b"b" * 70000) + DOCUMENT], BadAnswer, "it is not HTTP"),
    "a body of escape sequences": ([whole(b"\x1b]0;x\x07" * 50)], BadAnswer, "it is not JSON"),
    "an error with escape sequences": ([whole(b'{"error":"\\u001b[2Jx"}', status=b"400 X")], Refused, "�[2Jx"),
    "versions with escape sequences": (
        [whole(b'{"newest-versions":["\\u001b[2J", 5, [], "2019-08-01"]}', status=b"400 X")],
        Refused,
        "it names as its newest �[2J, 2019-08-01",
    ),
    "versions nested deep": (
        [whole(b'{"newest-versions":' + b"[" * 800 + b"]" * 800 + b"}", status=b"400 X")],
        Refused,
        "is not known to this host",
    ),
    "a redirect with escape sequences": (
        [whole(b"", b"Location: http://x/\x1b[2J" + b"y" * 5000, status=b"302 Found")],
        Refused,
        "a redirect to http://x/�[2Jyyy",
    ),
    "a redirect to no address": ([whole(b"", b"Location: http://[::1", status=b"307 X")], Refused, "http://[::1"),
    "a redirect to nowhere": ([whole(b"", status=b"301 X")], Refused, "a redirect to nowhere"),
    "an invitation to change the protocol": ([head(b"Upgrade: h2c", status=b"101 Switching")], Refused, "101"),
    "a request to ask later": ([whole(b"", b"Retry-After: 9999", status=b"503 X")], Unavailable, "503"),
    "a document that is not UTF-8": ([whole(b'{"Events":"\xff"}')], BadAnswer, "it is not JSON"),
    "HTML": ([whole(HTML)], BadAnswer, "it is not JSON"),
    "an empty body": ([whole(b"")], NoDocumentYet, "with an empty body"),
}
FAULTS = {
    f"{kind}: {name}": fault
    for kind, faults in {
        "slow": SLOW,
        "slow error": SLOW_ERRORS,
        "huge": HUGE,
        "compressed": COMPRESSED,
        "cut": CUT,
        "contradictory": CONTRADICTORY,
        "garbage": GARBAGE,
    }.items()
    for name, fault in faults.items()
}
# Odd, and yet a document
HARMLESS = {
    "100 Continue": [head(status=b"100 Continue"), OK],
    "103 Early Hints, as a proxy sends": [head(b"Link: </x>", status=b"103 Early Hints"), OK],
    "the same length twice": [head(b"Content-Length: 37", b"Content-Length: 37") + DOCUMENT],
    "no length": [head() + DOCUMENT],
    "a length below zero": [head(b"Content-Length: -1") + DOCUMENT],
    "a length of \u00b2": [head(b"Content-Length: \xb2") + DOCUMENT],
    "an empty length": [head(b"Content-Length: ") + DOCUMENT],
    "a length and chunks": [
        head(b"Content-Length: 36", b"Transfer-Encoding: chunked") + chunk(DOCUMENT) + b"0\r\n\r\n"
    ],
    "an unknown coding": [whole(DOCUMENT, b"Content-Encoding: \x1b[31m")],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\n" + DOCUMENT],
    "no reason": [b"HTTP/1.1 200\r\nContent-Length: 37\r\n\r\n" + DOCUMENT],
    "lines that end with LF alone": [b"HTTP/1.1 200 OK\nContent-Length: 37\n\n" + DOCUMENT],
    "many chunks": [CHUNKED, b"".join(chunk(DOCUMENT[i : i + 1]) for i in range(len(DOCUMENT))) + b"0\r\n\r\n"],
    "a chunk with an extension": [CHUNKED, b"25;x=y\r\n" + DOCUMENT + b"\r\n0\r\nA: b\r\n\r\n"],
    "an identity coding": [whole(DOCUMENT, b"Content-Encoding: identity")],
    "ninety headers": [whole(DOCUMENT, *[b"A%d: b" % number for number in range(90)])],
    "a large header": [whole(DOCUMENT, b"A: " + b"b" * 60000)],
    "a header without a colon": [whole(DOCUMENT, b"nonsense")],
    "a header that is not ASCII": [whole(DOCUMENT, b"A: \xff\xfe\x00")],
    # To read the date, the cookies of Python 3.6 take minutes.
    "a cookie with a hostile date": [whole(DOCUMENT, b"Set-Cookie: a=b; Expires=1-c-1" + b" " * 60000 + b"!")],
    "a body of nearly 1 MiB": [whole(DOCUMENT + b" " * 1040000)],
    "the document after a pause": [OK[:20], Drip(b""), OK[20:]],
}


def patience(fault):
    return {"slow": SHORT, "slow error": 6.0}.get(fault.partition(":")[0], LONG)


@pytest.fixture
def serve():
    running = []

    def start(*scripts):
        running.append(RawService(*scripts))
        return running[-1]

    yield start
    for service in running:
        service.stop()


@pytest.fixture
def ask():
    """A function that makes a client of a service."""
    clients = []

    def make(service, seconds):
        clients.append(ImdsClient(endpoint=service.endpoint, request_timeout=seconds, retry_for=0))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def poll_alone(fault):
    service = RawService(FAULTS[fault][0])
    client = ImdsClient(endpoint=service.endpoint, request_timeout=patience(fault), retry_for=0)
    try:
        return client.poll()
    finally:
        client.close()
        service.stop()


@pytest.fixture(scope="module")
def slow_polls():
    """The polls of all slow hosts, which are waited for at the same time, and beside other tests."""
    slow = [fault for fault in FAULTS if fault.startswith("slow")]
    with concurrent.futures.ThreadPoolExecutor(len(slow)) as threads:
        yield {fault: threads.submit(poll_alone, fault) for fault in slow}


def verify(fault, poll):
    _script, kind, part = FAULTS[fault]
    with pytest.raises(kind) as caught:
        poll()
    message = str(caught.value)
    assert part in message
    assert message.startswith("GET http://127.0.0.1:")
    assert len(message) < 1000
    assert not re.search("[\x00-\x1f\x7f-\x9f]", message)


# With the fixture, so that the slow hosts are waited for meanwhile.
@pytest.mark.usefixtures("slow_polls")
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if not fault.startswith("slow")])
def test_a_hostile_answer_is_an_error_of_the_library(fault):
    verify(fault, lambda: poll_alone(fault))


def test_a_request_without_any_time_is_an_error_of_the_library(serve, ask):
    with pytest.raises(NoAnswer) as caught:
        ask(serve([OK]), 1e-9).poll()
    assert str(caught.value).endswith("got no answer: nothing within 1e-09 seconds")


@pytest.mark.parametrize("oddity", HARMLESS)
def test_an_odd_answer_that_is_clear_gives_its_document(serve, ask, oddity):
    assert ask(serve(HARMLESS[oddity]), LONG).poll() == Document(1, ())


def test_after_each_hostile_answer_the_same_client_reads_the_next_document(serve, ask):
    broken = [script for name, (script, _kind, _part) in FAULTS.items() if not name.startswith(("slow", "huge"))]
    client = ask(serve(*broken, [OK]), LONG)
    for _number in broken:
        with pytest.raises(ImdsError):
            client.poll()
    assert client.poll() == Document(1, ())


@pytest.mark.parametrize("body", [HTML, b"OK", b"x" * 500000, b"{}" * 40000])
def test_a_body_that_the_service_never_sends_is_not_an_acceptance(serve, ask, body):
    client = ask(serve([whole(body)]), LONG)
    with pytest.raises(BadAnswer) as caught:
        client.approve(["A1"])
    assert "answered 200 OK, but not as the metadata service does, with an empty body" in str(caught.value)
    assert caught.value.status == 200


@pytest.mark.parametrize(
    "script",
    [
        [whole(b"")],
        [whole(b"\r\n")],
        [whole(b"{}")],
        [head()],
        [CHUNKED + b"0\r\n\r\n"],
        [head(status=b"102 Processing"), whole(b"")],
    ],
)
def test_an_empty_body_or_json_is_an_acceptance(serve, ask, script):
    service = serve(script)
    ask(service, LONG).approve(["A1"])
    assert service.requests[0].endswith(b'{"StartRequests": [{"EventId": "A1"}]}')


@pytest.mark.parametrize("fault", ["slow: no answer", "contradictory: two lengths", *(f"cut: {name}" for name in CUT)])
def test_a_broken_answer_to_a_post_is_not_an_acceptance(serve, ask, fault):
    script, kind, _part = FAULTS[fault]
    with pytest.raises(kind):
        ask(serve(script), patience(fault)).approve(["A1"])


OPENED = b"HTTP/1.1 200 Connection established\r\n"


@pytest.mark.parametrize("script", [[Drip(OPENED + b"\r\n")], [OPENED, Drip(b"A: b\r\n", True)]])
def test_a_proxy_that_opens_its_way_byte_by_byte_is_given_up_at_the_deadline(serve, script):
    transport = Transport(proxy=serve(script).endpoint)
    try:
        with pytest.raises(NotConnected) as caught:
            transport.exchange(HttpRequest("GET", "https://receiver.invalid/"), SHORT)
    finally:
        transport.close()
    assert str(caught.value).endswith(IN_TIME)
    assert not transport.connected


class Hello:
    """What a client sends first."""

    def play(self, connection, _stop):
        connection.recv(65536)


def test_a_host_without_tls_has_no_certificate_although_the_url_has_that_word(serve):
    transport = Transport(proxy=serve([OPENED + b"\r\n", Hello(), OK]).endpoint)
    try:
        with pytest.raises(NotConnected) as caught:
            transport.exchange(HttpRequest("GET", "https://certificate.invalid/certificates"), LONG)
    finally:
        transport.close()
    assert "SSL" in str(caught.value)
    assert not isinstance(caught.value, NotTrusted)


@pytest.mark.parametrize("name", [b"vm\x1b[1", b"\xff", b"x" * 300, HTML, b"a\nb"])
def test_a_name_that_cannot_be_one_is_refused(serve, ask, name):
    with pytest.raises(BadAnswer) as caught:
        ask(serve([whole(name)]), LONG).poll_name()
    assert not re.search("[\x00-\x1f\x7f-\x9f]", str(caught.value))


def test_no_compression_is_asked_for(serve, ask):
    service = serve([OK])
    ask(service, LONG).poll()
    asked = service.requests[0].lower()
    assert asked.count(b"\r\naccept-encoding: identity\r\n") == 1
    assert asked.count(b"accept-encoding") == 1


def test_no_cookie_is_sent_back(serve, ask):
    service = serve([whole(DOCUMENT, b"Set-Cookie: a=b", b"Connection: close")])
    client = ask(service, LONG)
    client.poll()
    client.poll()
    assert len(service.requests) == 2
    assert b"cookie" not in service.requests[1].lower()


class TestKeptConnection:
    """What the host does with the connection between two requests."""

    def test_it_serves_the_next_request(self, serve, ask):
        service = serve([OK, Request(), OK])
        client = ask(service, LONG)
        assert client.poll() == client.poll()
        assert service.connections == 1

    def test_closed_after_the_answer_it_costs_no_poll(self, serve, ask):
        service = serve([OK], [OK])
        client = ask(service, LONG)
        assert client.poll() == client.poll()
        assert service.connections == 2

    @pytest.mark.parametrize("end", [[], [Reset()]])
    def test_closed_instead_of_the_second_answer_the_request_is_sent_again(self, serve, ask, end):
        service = serve([OK, Request(), *end], [OK])
        client = ask(service, LONG)
        assert client.poll() == client.poll()
        assert service.connections == 2

    @pytest.mark.parametrize("end", [[], [Reset()]])
    def test_closed_instead_of_an_answer_to_a_post_the_post_is_not_sent_again(self, serve, ask, end):
        service = serve([OK, Request(), *end], [whole(b"")])
        client = ask(service, LONG)
        client.poll()
        with pytest.raises(NoAnswer):  # it may have been carried out
            client.approve(["A1"])
        assert service.connections == 1

    def test_a_new_connection_that_is_closed_without_an_answer_is_not_tried_again(self, serve, ask):
        service = serve([], [OK])
        with pytest.raises(NoAnswer):
            ask(service, LONG).poll()
        assert service.connections == 1

    def test_closed_within_the_second_answer_the_request_is_not_sent_again(self, serve, ask):
        service = serve([OK, Request(), OK[:-5]], [OK])
        client = ask(service, LONG)
        client.poll()
        with pytest.raises(NoAnswer):
            client.poll()
        assert service.connections == 1

    def test_silent_at_the_second_request_it_is_given_up_in_time(self, serve, ask):
        service = serve([OK, Hang()], [OK])
        client = ask(service, LONG)
        client.poll()
        with pytest.raises(NoAnswer) as caught:
            client.poll(request_timeout=SHORT)
        assert IN_TIME in str(caught.value)
        assert service.connections == 1

    def test_what_comes_with_an_answer_is_not_the_answer_to_the_next_request(self, serve, ask):
        service = serve([OK + whole(OTHER_DOCUMENT), Request(), OK])
        client = ask(service, LONG)
        assert client.poll() == client.poll()

    def test_what_comes_after_an_answer_is_not_the_answer_to_the_next_request(self, serve, ask):
        followed = Mark()
        service = serve([OK, Hold(), whole(OTHER_DOCUMENT), followed, Hang()], [OK])
        client = ask(service, LONG)
        first = client.poll()
        service.go_on()
        assert followed.reached.wait(LONG)
        assert client.poll() == first

    def test_an_error_with_a_whole_body_keeps_it(self, serve, ask):
        service = serve([whole(b"Throttle", status=b"429 X"), Request(), OK])
        client = ask(service, LONG)
        with pytest.raises(Unavailable):
            client.poll()
        assert client.poll() == Document(1, ())
        assert service.connections == 1


CHILD = """
import os, sys, threading
sys.path[:0] = [{guard!r}, {library!r}]
import metadata_guard
metadata_guard.install(sys.exit)
from _scheduled_events.client import ImdsClient, ImdsError
def peak():
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])
def ask(endpoint):
    client = ImdsClient(endpoint=endpoint, request_timeout=60, retry_for=0)
    try:
        client.poll()
    except ImdsError:
        pass
    client.close()
good, hostile = sys.argv[1], sys.argv[2:]
ask(good)
before = peak()
ask(hostile[0])  # what is loaded for an error
descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
for endpoint in hostile:
    ask(endpoint)
print(peak() - before, len(os.listdir("/proc/self/fd")) - descriptors, threading.active_count() - threads)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak of memory from /proc")
def test_hostile_answers_take_32_mib_at_most_and_leave_no_descriptor_and_no_thread(serve):
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.join(here, "..", "..", "..", "..")
    script = CHILD.format(
        guard=os.path.join(root, "tests", "guard"), library=os.path.join(root, "plugins", "module_utils")
    )
    names = [b'"%04x"' % number for number in range(65536)]
    largest = [whole(b'{"Events":[{"EventId":"A","Resources":[' + b",".join(names * 2) + b"]}]}")]
    scripts = [largest] + [script for name, (script, _error, _message) in FAULTS.items() if not name.startswith("slow")]
    endpoints = [serve([OK]).endpoint] + [serve(script).endpoint for script in scripts]
    child = subprocess.run(
        [sys.executable, "-c", script, *endpoints],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=500,
        check=False,
    )
    assert child.stderr == b""
    kibibytes, descriptors, threads = (int(word) for word in child.stdout.split())
    assert kibibytes <= 32 * 1024
    assert (descriptors, threads) == (0, 0)


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.startswith("slow")])
def test_a_slow_answer_is_an_error_of_the_library(slow_polls, fault):
    verify(fault, slow_polls[fault].result)
