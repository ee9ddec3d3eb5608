# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which service the unit asks. Where one is searched, the default address is one on loopback."""

import contextlib
import functools
import json
import os

import pytest
from _scheduled_events import discovery
from _scheduled_events.client import ImdsError
from _scheduled_events.discovery import FoundEndpoint, NotFound
from _scheduled_events.leases import DhcpLease, Searched
from polling_unit import ROOT, Imds, until
from scheduled_events_poller.command import cli, commands
from scheduled_events_poller.spool import Directories
from scheduled_events_poller.unit import endpoint_resolver, poller
from scheduled_events_poller.unit.config import Settings
from scheduled_events_poller.unit.endpoint_resolver import SEARCH_AGAIN_AFTER, EndpointResolver
from scheduled_events_poller.unit.service import Service

AUTO = Settings(endpoint="auto", vm_name="vm1")
WIRE_SERVER = "168.63.129.16"
LEASE = DhcpLease(WIRE_SERVER, "/var/lib/dhcpcd/eth0.lease", "dhcpcd", 100.0, 5000.0)
NOTHING = Searched((), ())


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


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
    return Clock()


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
    search = Search(NotFound("x"))
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
    service = Service(AUTO, EndpointResolver(AUTO, search, clock=clock), drill="/none")
    for _poll in range(4):
        service.poll()
        clock.now += SEARCH_AGAIN_AFTER - 1
    assert search.count == 1


def test_it_is_searched_again_only_after_a_long_silence_and_then_asked_where_it_is_now(clock, imds, other):
    search = Search(FoundEndpoint(imds.url, "default address"), FoundEndpoint(other.url, "lease"))
    service = Service(AUTO, EndpointResolver(AUTO, search, clock=clock), drill="/none")
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
    service = Service(AUTO, EndpointResolver(AUTO, search, clock=clock), drill="/none")
    with pytest.raises(ImdsError):
        service.poll()
    service.poll()
    assert (search.count, other.polls) == (2, 1)


def test_a_search_without_a_result_is_a_failed_poll_and_the_next_poll_searches_again(clock, imds):
    search = Search(NotFound("nowhere"), FoundEndpoint(imds.url, "default address"))
    service = Service(AUTO, EndpointResolver(AUTO, search, clock=clock), drill="/none")
    with pytest.raises(NotFound):
        service.poll()
    assert service.poll().vm_name == "vm1"


def test_all_threads_use_what_one_of_them_found(clock, imds):
    search = Search(FoundEndpoint(imds.url, "default address"))
    known = EndpointResolver(AUTO, search, clock=clock)
    for _thread in range(3):
        Service(AUTO, known, drill="/none").poll()
    assert search.count == 1


def test_a_poll_that_searches_is_not_taken_for_one_that_hangs():
    assert EndpointResolver(AUTO, Search(NOTHING)).longest_search == 20.0
    assert EndpointResolver(Settings(), Search(NOTHING)).longest_search == 0.0


@pytest.fixture
def running(tmp_path):
    """A poller in this process; ``status`` gives what it shows after another iteration of its loop."""
    directories = Directories(str(tmp_path / "hooks"), str(tmp_path / "run"), str(tmp_path / "root"))
    (tmp_path / "root").mkdir()
    made = poller.Poller(lambda: AUTO, poller.Places(str(tmp_path / "state.json"), directories), spawn_hooks=True)

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


# What root reads for the unit


@pytest.mark.parametrize(("endpoint", "count"), [("auto", 2), ("http://169.254.169.254", 0)])
def test_root_reads_leases_at_start_and_reload_only_where_the_service_is_searched(endpoint, count):
    jinja2 = pytest.importorskip("jinja2")
    with open(os.path.join(ROOT, "roles/poller/templates/scheduled-events-poller.service.j2")) as file:
        template = jinja2.Environment(trim_blocks=True).from_string(file.read())
    unit = template.render(poller_endpoint=endpoint, __poller_python="/usr/bin/python3")
    command = "=-+/usr/bin/python3 -IS /usr/local/bin/scheduled-events leases --keep"
    as_root = [line for line in unit.splitlines() if "=-+" in line]
    assert as_root == ["ExecStartPre" + command, "ExecReload" + command][:count]
    assert unit.count("\nExecStart=/usr/bin/python3 -I /usr/local/bin/scheduled-events run\n") == 1


@pytest.fixture
def own_leases(monkeypatch):
    """Set what this user can read."""

    def use(searched):
        for module in (endpoint_resolver, commands):
            monkeypatch.setattr(module, "search", lambda **_now: searched)

    use(NOTHING)
    return use


def test_leases_that_only_root_can_read_are_those_that_root_left(tmp_path, own_leases):
    line = "/var/lib/dhcpcd/eth0.lease (dhcpcd): 168.63.129.16"
    own_leases(Searched((LEASE,), (line,), ("/var/lib/wicked",)))
    assert cli.main([f"--runtime-directory={tmp_path}", "leases", "--keep"]) == 0
    denied = "/var/lib/dhcpcd/eth0.lease (dhcpcd): cannot be read: Permission denied"
    own_leases(Searched((), (denied,)))
    assert endpoint_resolver.search_all(str(tmp_path), now=4999.0) == Searched(
        (LEASE,), (denied, line + ", as root saw it when the unit was started")
    )
    assert os.stat(str(tmp_path / "leases.json")).st_mode & 0o777 == 0o644


@pytest.mark.usefixtures("own_leases")
def test_a_lease_that_root_left_and_that_has_expired_since_does_not_count(tmp_path):
    endpoint_resolver.keep(Searched((LEASE,), ()), str(tmp_path))
    assert endpoint_resolver.search_all(str(tmp_path), now=5000.0).leases == ()


def test_the_newest_lease_comes_first_in_either_source(tmp_path, own_leases):
    endpoint_resolver.keep(Searched((LEASE,), ()), str(tmp_path))
    newer = DhcpLease("169.254.0.1", "/run/systemd/netif/leases/2", "systemd-networkd", 200.0, None)
    own_leases(Searched((newer,), ()))
    assert endpoint_resolver.search_all(str(tmp_path), now=200.0).leases == (newer, LEASE)


def test_leases_without_keep_are_only_shown(tmp_path, own_leases, capfdbinary):
    own_leases(Searched((), (), ("/var/lib/dhcp",)))
    assert cli.main([f"--runtime-directory={tmp_path}", "leases"]) == 0
    assert capfdbinary.readouterr().out == b"no such directory: /var/lib/dhcp\n"
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.usefixtures("own_leases")
@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"leases": 1, "lines": []}', '{"leases": [{}], "lines": []}', "[" * 5000,
        '{"leases": [{"address": "evil", "path": "p", "client": "c", "modified": 1, "expires": null}], "lines": []}',
        '{"leases": [{"address": "1.2.3.4", "path": 5, "client": "c", "modified": 1, "expires": null}], "lines": []}',
        '{"leases": [], "lines": [1]}',
    ],
)  # fmt: skip
def test_a_file_that_root_did_not_write_so_is_reported_and_not_used(tmp_path, content):
    (tmp_path / "leases.json").write_text(content)
    searched = endpoint_resolver.search_all(str(tmp_path), now=1.0)
    assert searched.leases == ()
    assert searched.lines[0].startswith(f"{tmp_path / 'leases.json'}: cannot be read: ")


@pytest.mark.usefixtures("own_leases")
def test_root_writes_through_no_link_that_the_unit_s_user_put_there(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "run").mkdir()
    os.symlink(str(victim), str(tmp_path / "run" / "leases.json"))
    endpoint_resolver.keep(Searched((LEASE,), ()), str(tmp_path / "run"))
    assert victim.read_text() == "untouched"
    assert endpoint_resolver.search_all(str(tmp_path / "run"), now=1.0).leases == (LEASE,)


def test_an_endpoint_that_another_thread_forgets_meanwhile_is_used_once(clock):
    known = EndpointResolver(AUTO, Search(FoundEndpoint("http://127.0.0.1:9", "x")), clock=clock)

    def forget():
        known._found = None
        return 0.0

    known._clock = forget
    assert known.endpoint() == "http://127.0.0.1:9"
