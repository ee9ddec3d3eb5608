# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How messages are delivered to a real receiver on loopback, with a clock of the test."""

import builtins
import errno
import json
import os

import pytest

pytest.importorskip("requests")

import receiver as receivers
from _scheduled_events.exchange import HttpRequest
from fake_clock import FakeClock
from raw_service import Drip, Endless, RawService
from receiver import ids
from scheduled_events_poller.notify import delivery as unit_of_delivery
from scheduled_events_poller.notify.delivery import Courier
from scheduled_events_poller.notify.messages import MessageSpool
from scheduled_events_poller.notify.request import Declined, Failed, NotNow, Rejected, Requests, spread
from scheduled_events_poller.notify.settings import Receiver

pytestmark = pytest.mark.edge

SECRETS = ["T0SECRETPATH", "tokentoken", "hmachmac"]


class Delivery:
    """A spool with messages for one receiver, and its courier."""

    def __init__(self, directory, url, count=3, **changes):
        self.clock = FakeClock()
        self.spool = MessageSpool(str(directory), clock=self.clock)
        self.receiver = Receiver(
            **{"name": "ops", "url": url, "headers": {"Authorization": "Bearer tokentoken"}, "secret": "hmachmac"},
            **changes,
        )
        for number in range(1, count + 1):
            self.put(number)
        self.restart()

    def put(self, number):
        made = receivers.message(number)
        self.spool.put(json.dumps(made).encode(), made["id"], "ops", max_messages=100)

    def restart(self):
        self.courier = Courier(self.receiver, self.spool, clock=self.clock, spread=lambda: 1.0)

    def step(self):
        """One step, and the seconds that the courier then waits."""
        return self.courier.step()

    def run(self, steps=50):
        """Step until nothing waits, and let the clock run as long as the courier wants; the pauses."""
        pauses = []
        while self.spool.entries() and steps:
            pause = self.step()
            if pause:
                pauses.append(pause)
            self.clock.now += pause
            steps -= 1
        return pauses


@pytest.fixture
def delivery(tmp_path, service):
    return Delivery(tmp_path, service.url)


def test_messages_arrive_in_order_once_each(delivery, service):
    assert delivery.run() == []
    assert service.ids() == ids(1, 2, 3)
    assert [body["event_type"] for body in service.bodies()] == ["Reboot"] * 3
    assert delivery.courier.step() > 0
    assert delivery.courier.trouble is None


def test_all_arrive_in_order_after_the_receiver_was_down(tmp_path, capsys):
    down = receivers.Receiver()
    down.stop()
    delivery = Delivery(tmp_path, down.url)
    pauses = [delivery.step()]
    for _attempt in range(11):
        delivery.clock.now += pauses[-1]
        pauses.append(delivery.step())
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert "refused" in delivery.courier.trouble.text
    assert delivery.courier.trouble.since == 1769860200.0
    up = receivers.Receiver(port=down.port)
    try:
        delivery.put(4)
        delivery.clock.now += pauses[-1]
        delivery.run()
        assert up.ids() == ids(1, 2, 3, 4)
    finally:
        up.stop()
    log = capsys.readouterr().err
    assert log.count("refused") == 1
    assert "webhook ops: works again, after 12 failed attempts" in log


def test_nothing_is_sent_before_a_pause_is_over(delivery, service):
    service.answers = [(503, {})]
    delivery.step()
    delivery.clock.now += 0.75
    assert delivery.step() == 0.25
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        ((429, {"Retry-After": "77"}), 77),
        ((503, {"Retry-After": "Sat, 31 Jan 2026 11:51:40 GMT"}), 100),
        ((429, {"Retry-After": "soon"}), 1),
        ((503, {"Retry-After": "999999"}), 3600),
        ((503, {"Retry-After": "9" * 400}), 3600),
        ((500, {}), 1),
        ((429, {"Retry-After": "0"}), 1),
        ((401, {}), 60),
        ((404, {}), 60),
        ((302, {"Location": "http://127.0.0.1/"}), 60),
    ],
)
def test_a_message_waits_as_long_as_the_answer_says(delivery, service, answer, pause):
    service.answers = [answer]
    assert delivery.run() == [pause]
    assert service.ids() == ids(1, 1, 2, 3)


def test_vms_that_fail_together_come_back_one_after_the_other(delivery, service):
    service.answers = [(503, {}), (429, {"Retry-After": "70"})]
    delivery.courier = Courier(delivery.receiver, delivery.spool, clock=delivery.clock, spread=lambda: 1.5)
    assert delivery.run() == [1.5, 105.0]
    stretched = [spread() for _vm in range(1000)]
    in_tenths = [sum(1.0 + tenth / 10 <= each < 1.1 + tenth / 10 for each in stretched) for tenth in range(10)]
    assert sum(in_tenths) == 1000
    assert max(in_tenths) < 200


@pytest.mark.parametrize(
    ("failure", "statuses"),
    [
        (None, [200, 201, 202, 204, 299]),
        (NotNow, [408, 423, 425, 429, 500, 501, 502, 503, 504, 599]),
        (Rejected, [400, 411, 413, 415, 422, 431]),
        (Declined, [300, 301, 302, 304, 307, 308, 401, 402, 403, 404, 405, 407, 409, 410, 451]),
    ],
)
def test_what_a_status_means(service, failure, statuses):
    requests = Requests([], reads=False, longest_pause=1.0)
    found = {}
    for status in statuses:
        service.answers = [(status, {})]
        try:
            requests.send(HttpRequest("POST", service.url, body=""), 5.0)
            found[status] = None
        except Failed as error:
            found[status] = type(error)
    assert found == dict.fromkeys(statuses, failure)


def test_a_redirect_is_not_followed(delivery, service):
    other = receivers.Receiver()
    service.answers = [(307, {"Location": other.url})]
    delivery.step()
    other.stop()
    assert other.requests == []
    # What to correct is added to each failure that stays.
    assert delivery.courier.trouble.text.endswith(", a redirect, which is not followed")


def test_a_wrong_configuration_loses_nothing(delivery, service):
    service.answers = [(403, {})] * 8
    pauses = [60, 120, 240, 480, 900, 900, 900, 900]
    assert delivery.run() == pauses
    assert service.ids() == ids(*[1] * 9, 2, 3)
    assert delivery.spool.losses() == {}


def test_a_message_that_is_refused_three_times_makes_room_for_the_next_and_is_counted(delivery, service, capsys):
    service.answers = [(400, {})] * 3
    delivery.run()
    assert service.ids() == ids(1, 1, 1, 2, 3)
    assert delivery.spool.losses()["ops"]["refused"] == 1
    assert "a message is dropped: prepare of C7061BAC" in capsys.readouterr().err


def test_a_message_that_cannot_be_read_makes_room_for_the_next_and_is_counted(delivery, service):
    first = delivery.spool.entries()[0]
    with open(f"{delivery.spool.directory}/{first.file}", "w") as file:
        file.write("{")
    delivery.run()
    assert service.ids() == ids(2, 3)
    assert delivery.spool.losses()["ops"]["unreadable"] == 1


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_message_that_the_machine_cannot_give_now_waits(delivery, service, monkeypatch, error):
    def fail(*_arguments, **_options):
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as lacking:
        lacking.setattr(builtins, "open", fail)
        with pytest.raises(OSError, match=os.strerror(error)):  # the thread of the receiver tries again
            delivery.step()
    delivery.run()
    assert (service.ids(), delivery.spool.losses()) == (ids(1, 2, 3), {})


def test_a_crash_between_delivery_and_removal_delivers_again_with_the_same_id(delivery, service, monkeypatch):
    class Crash(BaseException):
        pass

    def crash(_spool, _entry):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(MessageSpool, "remove", crash)
        with pytest.raises(Crash):
            delivery.step()
    delivery.restart()
    delivery.run()
    assert service.ids() == ids(1, 1, 2, 3)
    assert service.requests[0][2] == service.requests[1][2]


def test_a_receiver_that_accepts_with_an_endless_answer_has_accepted(delivery, service):
    service.raw = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"100000\r\n" + b"x" * 0x100000 + b"\r\n" * 2
    )
    delivery.run()
    assert service.ids() == ids(1, 2, 3)


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        ([Drip(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")], "within 0.5 seconds"),
        ([b"HTTP/1.1 200 OK\r\nA: ", Endless(b"b")], "it is not HTTP"),
        ([b"HTTP/1.1 200 OK\r\n", Endless(b"A: b\r\n")], "more than 100 headers"),
    ],
)
def test_an_answer_byte_by_byte_or_with_headers_without_end_is_given_up_and_the_message_waits(
    tmp_path, script, trouble
):
    hostile = RawService(script)
    try:
        delivery = Delivery(tmp_path, hostile.endpoint, count=1, request_timeout=0.5)
        assert delivery.step() > 0
        assert trouble in delivery.courier.trouble.text
        assert len(delivery.spool.entries()) == 1
    finally:
        hostile.stop()


def test_proxies_of_the_environment_are_ignored_and_that_of_the_option_is_asked(tmp_path, service, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    Delivery(tmp_path / "direct", service.url, count=1).run()
    assert [path for path, _headers, _body in service.requests] == ["/hook/T0SECRETPATH"]
    proxy = f"http://user:proxypassword@127.0.0.1:{service.port}"
    Delivery(tmp_path / "proxied", "http://receiver.example.org/hook", count=1, proxy=proxy).run()
    path, headers, _body = service.requests[-1]
    assert path == "http://receiver.example.org/hook"
    assert headers["Proxy-Authorization"].startswith("Basic ")


def test_the_answers_of_a_receiver_that_repeats_secrets_are_not_shown(delivery, service, capsys):
    for raw in (
        b"{path} is not HTTP",
        b"HTTP/1.1 500 {path} tokentoken hmachmac\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 30\r\nX: {path}\r\n\r\n{path}{path}",
        b"HTTP/1.1 302 {path}\r\nLocation: {path}\r\nContent-Length: 0\r\n\r\n",
        b"",
    ):
        service.raw = raw
        delivery.clock.now += 10000
        delivery.step()
        shown = delivery.courier.trouble.text
        assert shown
        assert [secret for secret in SECRETS if secret in shown] == []
    output = capsys.readouterr()
    assert [secret for secret in SECRETS if secret in output.err + output.out] == []


def test_the_body_of_an_answer_is_not_shown(delivery, service):
    service.raw = b"HTTP/1.1 404 Reason\r\nContent-Length: 8\r\n\r\ninternal"
    delivery.step()
    assert delivery.courier.trouble.text == "it answered 404 Not Found"


def test_a_defect_of_a_sender_is_not_quoted_and_stops_no_other_message(delivery, service, capsys):
    send = delivery.courier._send

    def broken(message):
        if message["id"] == ids(1)[0]:
            raise RuntimeError(SECRETS[0])
        return send(message)

    delivery.courier._send = broken
    delivery.run()
    assert service.ids() == ids(2, 3)
    assert SECRETS[0] not in capsys.readouterr().err


def test_a_certificate_is_verified_against_the_ca_file(tmp_path, certificate):
    service = receivers.Receiver(certificate=certificate + ".both")
    try:
        unknown = Delivery(tmp_path / "unknown", service.url, count=1)
        unknown.step()
        assert "certificate" in unknown.courier.trouble.text.lower()
        missing = Delivery(tmp_path / "missing", service.url, count=1, ca_file=str(tmp_path / "none.pem"))
        missing.step()
        assert missing.courier.trouble is not None
        assert service.requests == []
        Delivery(tmp_path / "known", service.url, ca_file=certificate).run()
        assert service.ids() == ids(1, 2, 3)
    finally:
        service.stop()


# What is counted, and what a disk does


def test_refusals_are_counted_for_each_message(delivery, service):
    service.answers = [(400, {})] * 2 + [(200, {})] + [(400, {})] * 2 + [(200, {})] * 2
    for _refusal in range(2):
        delivery.clock.now += delivery.step()
    # The message that was refused twice makes room, so the next refusal is the first one of another message.
    delivery.spool.remove(delivery.spool.entries()[0])
    delivery.run()
    assert delivery.spool.losses() == {}
    assert service.ids()[2:] == ids(2, 3, 3, 3)


def test_a_receiver_works_again_only_after_a_delivery(delivery, service, capsys):
    service.answers = [(400, {})] * 9
    delivery.run()
    assert delivery.step() > 0
    assert delivery.courier.trouble is None
    assert "works again" not in capsys.readouterr().err
    delivery.put(4)
    delivery.run()
    assert "works again, after " in capsys.readouterr().err


def test_a_full_disk_does_not_keep_a_refused_message_in_the_way(delivery, service, capsys, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    service.answers = [(400, {})] * 3
    with monkeypatch.context() as patch:
        patch.setattr("scheduled_events_poller.notify.messages.write_atomically", full)
        delivery.run()
    assert service.ids()[3:] == ids(2, 3)
    assert capsys.readouterr().err.count("a message is dropped") == 1


def test_a_message_whose_file_cannot_be_removed_is_delivered_once(delivery, service, capsys, monkeypatch):
    def read_only(_entry):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(delivery.spool, "remove", read_only)
    for _number in range(20):
        delivery.clock.now += delivery.step()
    assert service.ids() == ids(1, 2, 3)
    assert capsys.readouterr().err.count("cannot be removed: Read-only file system") == 3
    monkeypatch.undo()
    delivery.step()
    assert delivery.spool.is_empty()
    assert service.ids() == ids(1, 2, 3)


def test_all_messages_that_wait_are_found_with_one_look_at_the_spool(delivery, service, monkeypatch):
    looks, entries = [], delivery.spool.entries
    monkeypatch.setattr(delivery.spool, "entries", lambda: looks.append(1) or entries())
    for _message in range(3):
        delivery.step()
    assert service.ids() == ids(1, 2, 3)
    assert len(looks) == 1


def test_a_message_for_a_receiver_that_was_added_since_the_configuration_was_read_stays(tmp_path, monkeypatch):
    given = Delivery(tmp_path, "http://127.0.0.1:9/", count=0)

    def load(_path):
        given.put(1)  # by a hook that has read the new configuration
        return ()

    monkeypatch.setattr(unit_of_delivery, "load_receivers", load)
    assert unit_of_delivery.Delivery("config", str(tmp_path), str(tmp_path))._start("") == ""
    assert len(given.spool.entries()) == 1


def test_a_status_that_cannot_be_written_is_reported_once_a_minute_at_most(tmp_path, capsys):
    given = unit_of_delivery.Delivery("config", str(tmp_path), str(tmp_path / "missing"))
    for _look in range(3):
        given._show("")
    assert capsys.readouterr().err.count("the status of the webhooks cannot be written: No such file") == 1
