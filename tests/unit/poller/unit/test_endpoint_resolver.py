# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which service the unit asks. Where one is searched, the default address is one on loopback."""

import contextlib
import functools
import json

import pytest
from _scheduled_events import discovery
from _scheduled_events.client import ImdsError, Unreachable
from _scheduled_events.clock import Clock
from _scheduled_events.discovery import FoundEndpoint, Searched
from fake_clock import FakeClock
from polling_unit import Imds, until
from scheduled_events_poller.command import cli, commands
from scheduled_events_poller.spool import Directories
from scheduled_events_poller.unit import endpoint_resolver, poller
from scheduled_events_poller.unit.config import Settings
from scheduled_events_poller.unit.endpoint_resolver import SEARCH_AGAIN_AFTER, EndpointResolver
from scheduled_events_poller.unit.service import NAME_GAP, Service, Source

AUTO = Settings(endpoint="auto", vm_name="vm1")


class Search:
    """Gives what the test says, one after the other, and counts."""

    def __init__(self, *results):
        self.results, self.count = list(results), 0

    def __call__(self):
        self.count += 1
        result = self.results.pop(0) if len(self.results) > 1 else self.results[0]
        if isinstance(result, Exception):
            raise result
        return result


@pytest.fixture
def clock():
    return FakeClock(0.0)


@pytest.fixture
def other():
    service = Imds()
    yield service
    service.stop()


@pytest.fixture
def near(monkeypatch):
    """Make every search ask an address on loopback first."""

    def use(url):
        nearer = functools.partial(discovery.find, default=url)
        monkeypatch.setattr(endpoint_resolver.discovery, "find", nearer)

    return use


def test_an_endpoint_that_the_owner_names_is_never_searched(clock):
    search = Search(Unreachable("x"))
    known = EndpointResolver(Settings(endpoint="http://127.0.0.1:9"), search, clock=clock)
    clock.now = SEARCH_AGAIN_AFTER * 2
    known.failed()
    assert (known.endpoint(), known.known(), search.count) == (
        "http://127.0.0.1:9",
        FoundEndpoint("http://127.0.0.1:9", "given"),
        0,
    )


def test_what_was_found_is_remembered_while_it_answers(clock, imds):
    search = Search(FoundEndpoint(imds.url, "default address"))
    service = Service(Source(AUTO, EndpointResolver(AUTO, search, clock=clock), "/none"), clock)
    for _poll in range(4):
        service.poll()
        clock.now += SEARCH_AGAIN_AFTER - 1
    assert search.count == 1


def test_it_is_searched_again_only_after_a_long_silence_and_then_asked_where_it_is_now(clock, imds, other):
    search = Search(FoundEndpoint(imds.url, "default address"), FoundEndpoint(other.url, "lease"))
    service = Service(Source(AUTO, EndpointResolver(AUTO, search, clock=clock), "/none"), clock)
    service.poll()
    imds.status = 503
    clock.now += SEARCH_AGAIN_AFTER - 1
    with pytest.raises(ImdsError):
        service.poll()
    assert search.count == 1
    clock.now += 1
    with pytest.raises(ImdsError):
        service.poll()
    assert other.polls == 0
    service.poll()
    assert (search.count, other.polls) == (2, 1)


def test_what_never_gave_a_document_is_searched_again_at_once(clock, imds, other):
    imds.status = 503
    search = Search(FoundEndpoint(imds.url, "lease"), FoundEndpoint(other.url, "default address"))
    service = Service(Source(AUTO, EndpointResolver(AUTO, search, clock=clock), "/none"), clock)
    with pytest.raises(ImdsError):
        service.poll()
    service.poll()
    assert (search.count, other.polls) == (2, 1)


def test_a_search_without_a_result_is_a_failed_poll_and_the_next_poll_searches_again(clock, imds):
    search = Search(Unreachable("nowhere"), FoundEndpoint(imds.url, "default address"))
    service = Service(Source(AUTO, EndpointResolver(AUTO, search, clock=clock), "/none"), clock)
    with pytest.raises(Unreachable):
        service.poll()
    assert service.poll().vm_name == "vm1"


def test_all_threads_use_what_one_of_them_found(clock, imds):
    search = Search(FoundEndpoint(imds.url, "default address"))
    known = EndpointResolver(AUTO, search, clock=clock)
    for _thread in range(3):
        Service(Source(AUTO, known, "/none"), clock).poll()
    assert search.count == 1


def test_a_name_that_the_service_does_not_confirm_is_asked_for_again_a_minute_later(clock, imds):
    found = FoundEndpoint(imds.url, "given")
    settings = Settings(endpoint=imds.url, vm_name="vm2")
    service = Service(Source(settings, EndpointResolver(AUTO, Search(found), clock=clock), "/none"), clock)
    imds.name_status = 429
    assert [service.poll().misnamed for _poll in range(3)] == ["", "", ""]
    imds.name_status = 200
    clock.now += NAME_GAP
    assert ['gives this VM, which is "vm1"' in service.poll().misnamed for _poll in range(3)] == [True] * 3
    assert imds.names_asked == 2


def test_a_poll_that_searches_is_not_taken_for_one_that_hangs():
    assert EndpointResolver(AUTO, Search()).longest_search == 20.0
    assert EndpointResolver(Settings(), Search()).longest_search == 0.0


@pytest.fixture
def running(tmp_path):
    """A poller in this process; ``status`` gives what it shows after another iteration of its loop."""
    directories = Directories(str(tmp_path / "hooks"), str(tmp_path / "run"), str(tmp_path / "root"))
    (tmp_path / "root").mkdir()
    made = poller.Poller(lambda: AUTO, poller.Places(str(tmp_path / "state.json"), directories))

    def status():
        made._display.hurry()
        made._iterate()
        return json.loads((tmp_path / "run" / "status.json").read_text())

    made.status = status
    with contextlib.ExitStack() as stack:
        made._open(stack)
        yield made


def test_a_service_that_has_to_be_enabled_is_found_when_its_first_answer_comes(running, near, monkeypatch):
    class Enabling(Imds):
        """Keeps every request until it is released."""

        hang_next = property(lambda self: not self.release.is_set(), lambda _self, _value: None)

    enabling = Enabling()
    monkeypatch.setattr(discovery, "PROBE_TIMEOUT", 0.2)
    near(enabling.url)
    # The search, the poll that fails after it, and the one with patience.
    until(lambda: running.status()["failed_polls"] and enabling.polls >= 3, "requests that nothing answers")
    assert running.status()["last_successful_poll"] is None
    enabling.release.set()
    until(lambda: running.status()["last_successful_poll"], "a document")
    assert running.status()["endpoint"] == enabling.url
    enabling.stop()


def test_the_status_shows_what_was_found_and_how(tmp_path, running, imds, near, capfdbinary):
    near(imds.url)
    running._show()
    before = json.loads((tmp_path / "run" / "status.json").read_text())
    until(lambda: running.status()["last_successful_poll"], "a document")
    after = running.status()
    assert (before["endpoint"], before["endpoint_source"]) == ("auto", None)
    assert (after["endpoint"], after["endpoint_source"]) == (imds.url, "default address")
    assert cli.main([f"--runtime-directory={tmp_path / 'run'}", "status"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines()[1] == f"  asks {imds.url} (default address)"


def test_a_command_searches_too(tmp_path, imds, near, capfdbinary):
    near(imds.url)
    (tmp_path / "poller.json").write_text('{"endpoint": "auto"}')
    assert cli.main([f"--config={tmp_path / 'poller.json'}", f"--runtime-directory={tmp_path}", "list"]) == 0
    assert capfdbinary.readouterr().out == b"no events of vm1 (incarnation 0)\n"


def test_the_command_leases_shows_what_leases_hold(monkeypatch, capfdbinary):
    monkeypatch.setattr(commands, "search_leases", lambda: Searched({}, ["/var/lib/dhcp (dhclient): nothing"]))
    assert cli.main(["leases"]) == 0
    assert capfdbinary.readouterr().out == b"/var/lib/dhcp (dhclient): nothing\n"


def test_an_endpoint_that_another_thread_forgets_meanwhile_is_used_once(clock):
    known = EndpointResolver(AUTO, Search(FoundEndpoint("http://127.0.0.1:9", "x")), clock=clock)

    def forget():
        known._found = None
        return 0.0

    known._clock = Clock(monotonic=forget)
    assert known.endpoint() == "http://127.0.0.1:9"
