# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load probe of a drill, against a service of this test."""

import collections
import importlib.util
import socketserver
import threading
import time

import pytest
from web_servers import Handler, WebServer

from plugins.plugin_utils._drill import load
from plugins.plugin_utils._drill.load import Load, Options

GIVE_UP = 300.0  # seconds; only so that a hang is named


class Service:
    """Answers as the path says; ``connections`` are those of its clients, each with the number of its requests."""

    def __init__(self):
        self.connections, self.paths = collections.Counter(), set()
        self.down, self.stopped = False, threading.Event()
        service = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                service.connections[self.client_address] += 1
                service.paths.add(self.path)
                kind = self.path.strip("/")
                if service.down or kind == "reset":
                    self.close_connection = True
                    return
                self.send_response({"503": 503, "redirect": 302}.get(kind, 200))
                self.send_header("Location", "/503")
                size = load.MOST_BYTES + 1 if kind in ("large", "drip") else 2
                self.send_header("Content-Length", str(size + (kind == "cut")))
                self.end_headers()
                while kind == "drip" and not service.stopped.wait(0.01):
                    self.wfile.write(b"x")
                self.wfile.write(b"x" * size)
                self.close_connection = kind == "cut"

        class Server(WebServer):
            request_queue_size = 64

            def handle_error(self, *_arguments):
                pass

        self.server = Server(Answer)
        self.url = f"{self.server.url}/"

    def stop(self):
        self.stopped.set()
        self.server.stop()


@pytest.fixture
def service():
    made = Service()
    yield made
    made.stop()


def until(condition):
    give_up_at = time.monotonic() + GIVE_UP
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def counted(urls, least=20, **options):
    made = Load(Options(urls, 400.0, **options))
    made.start()
    until(lambda: made.counts().requests >= least)
    return made.stop()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", None),
        ("redirect", "302"),
        ("503", "503"),
        ("reset", "ConnectionError"),
        ("cut", "ChunkedEncodingError"),
        ("large", f"more than {load.MOST_BYTES} bytes"),
    ],
)
def test_an_answer_counts_as_lost_unless_it_is_whole_and_below_300(service, path, reason):
    counts = counted([service.url + path], least=4)
    if reason is None:
        assert (counts.lost, counts.first_failures) == (0, ())
    else:
        assert counts.lost == counts.requests
        assert {failure.reason for failure in counts.first_failures} == {reason}
        assert {failure.url for failure in counts.first_failures} == {service.url + path}


def test_half_of_the_workers_keep_their_connections(service):
    counted([service.url], least=60, workers=4)
    assert len([requests for requests in service.connections.values() if requests > 1]) == 2


def test_an_answer_that_takes_too_long_is_lost_and_one_that_takes_long_is_slow(service):
    assert counted([service.url], slow_after=0.0).slow > 0
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler, bind_and_activate=True) as silent:
        url = f"http://127.0.0.1:{silent.server_address[1]}/"
        counts = counted([url], least=2, timeout=0.05, workers=2)
    assert {failure.reason for failure in counts.first_failures} == {"timeout"}


def test_an_answer_that_comes_byte_by_byte_is_lost_once_its_time_is_over(service):
    made = Load(Options([service.url + "drip"], 400.0, timeout=0.1, workers=2))
    made.start()
    until(lambda: made.failing()[0] == service.url + "drip")
    counts = made.stop()
    assert counts.lost == counts.requests > 0
    assert {failure.reason for failure in counts.first_failures} == {"timeout"}
    service.stopped.set()
    for thread in made._threads:
        thread.join(GIVE_UP)
    assert made.counts() == counts  # each is counted once


def test_a_url_that_fails_is_named_until_it_answers_again(service):
    made = Load(Options([service.url], 400.0))
    made.start()
    assert made.failing() == ("", 0.0)
    service.down = True
    until(lambda: made.failing()[0] == service.url)
    service.down = False
    until(lambda: made.failing() == ("", 0.0))
    counts = made.stop()
    assert 0 < counts.lost < counts.requests


def test_one_of_several_urls_that_fails_is_named_while_the_others_answer(service):
    made = Load(Options([service.url, service.url + "503"], 400.0))
    made.start()
    until(lambda: made.failing()[0] == service.url + "503")
    made.stop()


def test_each_of_many_urls_is_asked(service):
    urls = [f"{service.url}{number}" for number in range(40)]
    made = Load(Options(urls, 400.0))
    made.start()
    made.settle()
    assert made.stop().lost == 0
    assert set(urls) <= {service.url + path[1:] for path in service.paths}


def test_a_service_is_settled_once_what_was_under_way_is_answered_or_lost(service):
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler, bind_and_activate=True) as silent:
        hangs = f"http://127.0.0.1:{silent.server_address[1]}/"
        made = Load(Options([service.url, hangs], 400.0, timeout=1.0))
        made.start()
        until(lambda: made.counts().requests >= 1)
        made.settle()
        counts = made.stop()
    assert (hangs, "timeout") in {(failure.url, failure.reason) for failure in counts.first_failures}


def test_no_proxy_is_used(service, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert counted([service.url]).lost == 0


def test_a_redirection_that_is_allowed_is_an_answer_and_is_counted_and_an_error_is_still_lost(service):
    counts = counted([service.url + "redirect"], redirects=True)
    assert (counts.lost, counts.first_failures, counts.redirected) == (0, (), counts.requests)
    counts = counted([service.url + "503"], least=4, redirects=True)
    assert (counts.lost, counts.redirected) == (counts.requests, 0)


def test_the_load_probe_needs_no_other_file_of_the_collection():
    spec = importlib.util.spec_from_file_location("load_probe", load.__file__)  # as the lab of Molecule copies it
    probe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(probe)
    assert probe.Load(probe.Options(["http://127.0.0.1/"], 1.0)).counts().requests == 0


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://www.example.com:8443/x?y=1", "https://www.example.com:8443/x?y=1"),
        ("https://user:p@ss@www.example.com/", "https://***@www.example.com/"),
        ("https://token@[::1]:8080/x", "https://***@[::1]:8080/x"),
        ("https://user:secret@[::1/", "https://***@[::1/"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert load.without_password(url) == shown


def test_a_failure_names_its_url_without_the_password(service):
    url = service.url.replace("http://", "http://user:secret@") + "503"
    made = Load(Options([url], 400.0))
    made.start()
    until(lambda: made.failing()[0])
    shown = service.url.replace("http://", "http://***@") + "503"
    assert (made.failing()[0], {failure.url for failure in made.stop().first_failures}) == (shown, {shown})
