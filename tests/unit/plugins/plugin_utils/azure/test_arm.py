# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to a stand-in of Azure Resource Manager; nothing here ran against Azure."""

import functools
import json
import math
import socket

import pytest
from ansible.errors import AnsibleError
from arm_stand_in import POOL, SUBSCRIPTION, TOKEN, ArmStandIn, Refused, send
from fake_clock import FakeClock
from web_servers import Handler, WebServer

from plugins.plugin_utils._ansible import run
from plugins.plugin_utils._azure import arm as arm_module
from plugins.plugin_utils._azure.arm import CLOUDS, Arm, ArmAnswer, ArmError, Token


@pytest.fixture
def clock():
    return FakeClock(0.0, epoch=0.0)


@pytest.fixture
def stand_in():
    stand_in = ArmStandIn()
    stand_in.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    return stand_in


@pytest.fixture
def arm(stand_in, clock):
    return Arm(
        CLOUDS["AzureCloud"],
        lambda _subscription: Token(TOKEN, 1e10),
        functools.partial(send, stand_in),
        patience=600,
        clock=clock,
    )


def refuse_times(stand_in, number, *refusal):
    left = iter(range(number))

    def answer(*_):
        if next(left, None) is not None:
            raise Refused(*refusal)

    stand_in.answers.append(answer)


def answering(status, body):
    """A way to Azure that gives one answer to everything."""
    return Arm(
        CLOUDS["AzureCloud"],
        lambda _subscription: Token(TOKEN, 1e10),
        lambda *_request: ArmAnswer(status, 0, body),
        patience=0,
    )


def test_azure_is_asked_no_longer_when_the_run_has_ended(monkeypatch):
    def token(_subscription):  # takes minutes, at worst
        monkeypatch.setattr(run, "main_process_has_ended", lambda: True)
        return Token("token", math.inf)

    arm = Arm(CLOUDS["AzureCloud"], token, lambda *request: pytest.fail(f"sent {request}"), patience=0.0)
    with pytest.raises(AnsibleError, match="has ended"):
        arm.write("PUT", POOL, "2024-05-01", {})


def test_status_code_and_message_are_those_of_the_answer():
    error = {"code": "AuthorizationFailed", "message": "no", "details": [{"code": "More", "message": "x"}]}
    with pytest.raises(ArmError) as caught:
        answering(403, json.dumps({"error": error}).encode()).read(POOL, "2024-05-01")
    found = caught.value
    assert (found.status, found.code, found.message) == (403, "AuthorizationFailed", "no More: x")
    assert str(found).startswith(f"GET {POOL} was answered 403: AuthorizationFailed no More: x. Give the identity")


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html>", ": <html>"),
        (b"[" * 100000, r": \["),
        (b'{"error": {"code": "Bad", "details": 5}}', ": Bad. Run it again when Azure works again$"),
    ],
    ids=["html", "deep", "details"],
)
def test_an_error_of_another_form_keeps_its_status_and_shows_its_beginning(body, shown):
    with pytest.raises(ArmError, match=f"was answered 502{shown}") as caught:
        answering(502, body).write("POST", POOL, "2024-05-01", None)
    assert caught.value.fleeting


def test_an_answer_that_is_not_json_is_an_error():
    with pytest.raises(ArmError, match=r"was answered 200, and with '<html>', expected JSON"):
        answering(200, b"<html>").read(POOL, "2024-05-01")


@pytest.mark.parametrize("body", [b"", b"null", b"{}", b"[]", b'[["a", 1]]', b'{"properties": null}'])
def test_an_answer_that_is_not_a_resource_is_an_error_and_no_empty_one(body):
    with pytest.raises(ArmError, match="was answered without the properties of a resource"):
        answering(200, body).read(POOL, "2024-05-01")


@pytest.mark.parametrize("status", [103, 302])  # 103: an interim one of a proxy, after which the answer comes
def test_an_answer_without_the_result_is_an_error(status):
    with pytest.raises(ArmError, match=f"was answered {status}"):
        answering(status, b"").write("POST", POOL, "2024-05-01", None)


def test_an_answer_for_several_parts_some_of_which_failed_is_an_error():
    error = {"code": "207", "message": "partly", "details": [{"target": "A", "code": "Conflict", "message": "started"}]}
    with pytest.raises(ArmError, match="was answered 207: 207 partly Conflict: started"):
        answering(207, json.dumps({"error": error}).encode()).write("POST", POOL, "2024-05-01", None)


@pytest.mark.parametrize("url", [".evil.example/a/b", "@evil.example/a/b", ":8443/a/b"])
def test_no_request_goes_to_another_server_with_the_token(arm, url):
    arm._send = lambda *request: pytest.fail(f"sent {request}")
    with pytest.raises(ArmError, match="expected a path"):
        arm.read(url, "2024-05-01")


def test_each_request_has_the_token_the_body_and_the_version_of_the_api(arm, stand_in):
    sent = []
    arm._send = lambda *request: sent.append(request) or send(stand_in, *request)
    arm.write("PUT", POOL, "2024-05-01", {"properties": {}})
    [(method, url, headers, data)] = sent
    assert (method, url) == ("PUT", f"https://management.azure.com{POOL}?api-version=2024-05-01")
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert json.loads(data) == {"properties": {}}


def test_a_resource_group_may_have_letters_beyond_those_of_english(arm):
    sent = []
    arm._send = lambda *request: sent.append(request[1]) or ArmAnswer(200, 0.0, b'{"properties": {}}')
    arm.read("/subscriptions/S/resourceGroups/größe(1)/providers/Microsoft.Network/loadBalancers/lb", "2024-05-01")
    [url] = sent
    assert "/resourceGroups/gr%C3%B6%C3%9Fe(1)/providers/" in url


def test_a_token_is_asked_for_with_the_subscription_and_kept_until_shortly_before_its_end(stand_in, clock):
    asked = []

    def token(subscription):
        asked.append((clock.now, subscription))
        return Token(TOKEN, clock.now + 600)

    arm = Arm("https://x", token, functools.partial(send, stand_in), patience=0, clock=clock)
    for _number in range(4):
        arm.read(POOL, "2024-05-01")
        clock.now += 200
    assert asked == [(0, SUBSCRIPTION.split("/")[2]), (600, SUBSCRIPTION.split("/")[2])]


class Redirecting(Handler):
    """Sends everything to another server, and keeps what it got."""

    def do_GET(self):
        self.server.got.append((self.path, self.headers.get("Authorization")))
        self.reply(307, headers={"Location": f"{self.server.elsewhere}/stolen"})


@pytest.fixture
def servers():
    """Two servers on loopback, each of which redirects to the other."""
    made = [WebServer(Redirecting) for _number in range(2)]
    for server, other in zip(made, reversed(made)):
        server.got, server.elsewhere = [], other.url
    yield made
    for server in made:
        server.stop()


def test_the_token_never_goes_where_a_redirect_leads_and_no_netrc_replaces_it(servers, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    first, second = servers
    answer = arm_module.send("GET", f"{second.elsewhere}/x", {"Authorization": f"Bearer {TOKEN}"}, None, timeout=10)
    assert answer.status == 307
    assert (first.got, second.got) == ([("/x", f"Bearer {TOKEN}")], [])


class BreakingOff(Handler):
    """Announces one byte more than it sends."""

    def do_GET(self):
        self.reply(200, b'{"properties": {}}', {"Content-Length": "19", "Connection": "close"})


def test_an_answer_that_breaks_off_counts_as_none():
    server = WebServer(BreakingOff)
    try:
        with pytest.raises(OSError, match="18 of 19 bytes"):
            arm_module.send("GET", f"{server.url}/x", {}, None, timeout=10)
    finally:
        server.stop()


def test_a_server_that_cannot_be_reached_gives_no_answer_and_shows_no_token(arm):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        arm._host = f"http://127.0.0.1:{holder.getsockname()[1]}"
        arm._send = functools.partial(arm_module.send, timeout=5)
        with pytest.raises(ArmError, match=f"^GET {POOL}: http://127.0.0.1:[0-9]+ gave no answer: .*refused") as caught:
            arm.read(POOL, "2024-05-01")
    assert caught.value.status == 0
    assert TOKEN not in str(caught.value)


def test_each_cloud_has_its_own_address():
    assert CLOUDS == {
        "AzureCloud": "https://management.azure.com",
        "AzureUSGovernment": "https://management.usgovcloudapi.net",
        "AzureChinaCloud": "https://management.chinacloudapi.cn",
    }


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("exceeded the backend storage limit. Please try again after '6' seconds.", 6),
        ("Please try again after '0' seconds.", 5),
    ],
)
def test_the_pause_that_azure_asks_for_is_kept(arm, stand_in, clock, message, seconds):
    refuse_times(stand_in, 1, 429, "SubscriptionRequestsThrottled", message)
    assert arm.read(POOL, "2024-05-01")["name"] == "www"
    assert clock.pauses == [seconds]


def test_without_a_pause_in_the_answer_the_pauses_grow(arm, stand_in, clock):
    refuse_times(stand_in, 5, 429, "TooManyRequests", "Too many requests.")
    arm.read(POOL, "2024-05-01")
    assert clock.pauses == [5, 10, 20, 40, 60]


def test_a_throttled_write_is_sent_again(arm, stand_in):
    refuse_times(stand_in, 2, 429, "TooManyRequests", "Please try again after '2' seconds.")
    arm.write("PUT", POOL, "2024-05-01", arm.read(POOL, "2024-05-01"))
    assert stand_in.count("PUT") == 1


def test_a_pause_longer_than_the_patience_fails_at_once(arm, stand_in, clock):
    refuse_times(stand_in, 1, 429, "TooManyRequests", "Please try again after '660' seconds.")
    with pytest.raises(ArmError, match="answered 429: TooManyRequests"):
        arm.read(POOL, "2024-05-01")
    assert clock.pauses == []


def test_a_read_is_repeated_when_the_service_fails_for_a_moment_and_a_write_is_not(arm, stand_in):
    refuse_times(stand_in, 2, 503, "ServiceUnavailable", "")
    arm.read(POOL, "2024-05-01")
    stand_in.answers.clear()
    refuse_times(stand_in, 1, 503, "ServiceUnavailable", "")
    with pytest.raises(ArmError) as caught:
        arm.write("PUT", POOL, "2024-05-01", {})
    assert caught.value.fleeting
    assert stand_in.count("PUT") == 1


def break_times(stand_in, number, of="GET"):
    left = iter(range(number))

    def answer(method, *_):
        if method == of and next(left, None) is not None:
            raise ConnectionResetError("Connection reset by peer")

    stand_in.answers.append(answer)


def test_a_read_is_repeated_for_a_minute_when_a_connection_breaks_and_a_write_is_not(arm, stand_in, clock):
    break_times(stand_in, 2)
    assert arm.read(POOL, "2024-05-01")["name"] == "www"
    break_times(stand_in, 9)
    with pytest.raises(ArmError, match="gave no answer: Connection reset by peer"):
        arm.read(POOL, "2024-05-01")
    assert clock.now <= 15 + 60
    break_times(stand_in, 1, of="PUT")
    with pytest.raises(ArmError, match="gave no answer"):
        arm.write("PUT", POOL, "2024-05-01", {})
    assert stand_in.count("PUT") == 1


def test_a_429_because_of_another_operation_is_a_conflict(arm, stand_in):
    refuse_times(stand_in, 1, 429, "RetryableError", "A retryable error occurred.")
    with pytest.raises(ArmError) as caught:
        arm.write("PUT", POOL, "2024-05-01", {})
    assert caught.value.conflict


def test_a_resource_that_does_not_exist_is_named(arm):
    with pytest.raises(ArmError, match=r"GET .*/nowhere was answered 404: ResourceNotFound .*Correct the id"):
        arm.read(f"{SUBSCRIPTION}/nowhere", "2024-05-01")


ESCAPED = "".join(f"\\u{ord(character):04x}" for character in TOKEN)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("quoted", [TOKEN, TOKEN[:18], ESCAPED])
@pytest.mark.parametrize("form", ["you sent Authorization: Bearer %s", '{"error": {"message": "Bearer %s"}, "cut"'])
def test_an_answer_that_quotes_the_request_does_not_show_the_token(status, quoted, form):
    with pytest.raises(ArmError, match=r"Bearer …") as caught:
        answering(status, (form % quoted).encode()).read(POOL, "2024-05-01")
    assert not any(part in str(caught.value) for part in (TOKEN[:8], ESCAPED[:48]))


@pytest.mark.parametrize("place", ["code", "message"])
@pytest.mark.parametrize("quoted", [TOKEN, TOKEN[:18], ESCAPED])
def test_an_error_that_quotes_the_request_shows_neither_the_token_nor_what_a_terminal_obeys(place, quoted):
    body = json.dumps({"error": {place: "Bearer QUOTED \x1b[31m\r\nok"}}).replace("QUOTED", quoted)
    with pytest.raises(ArmError, match=r"was answered 400: Bearer … \ufffd\[31m ok") as caught:
        answering(400, body.encode()).read(POOL, "2024-05-01")
    assert getattr(caught.value, place) == "Bearer … \ufffd[31m ok"


def test_a_problem_of_the_connection_that_quotes_the_request_does_not_show_the_token(arm):
    def send(*_request):
        raise OSError(f"Invalid header value b'Bearer {TOKEN}'")

    arm._send = send
    with pytest.raises(ArmError, match=r"gave no answer: Invalid header value b'Bearer …'"):
        arm.read(POOL, "2024-05-01")


def test_a_token_that_azure_does_not_take_any_more_is_replaced_once(stand_in):
    tokens = iter([Token("revoked", 1e10), Token(TOKEN, 1e10)])
    arm = Arm("https://x", lambda _subscription: next(tokens), functools.partial(send, stand_in), patience=600)
    assert arm.read(POOL, "2024-05-01")["name"] == "www"


def test_a_pause_that_is_longer_than_the_timeout_is_named():
    arm = answering(429, b"")
    arm._send = lambda *_request: ArmAnswer(429, 1800.0, b"")
    with pytest.raises(ArmError, match=r"429\. Azure asks for 1800 s without requests\. Run it again after that time"):
        arm.read(POOL, "2024-05-01")


def test_a_refusal_without_a_pause_names_none():
    with pytest.raises(ArmError, match=r" was answered 429\. Run it again later$"):
        answering(429, b"").read(POOL, "2024-05-01")


@pytest.mark.parametrize(
    ("status", "code", "what_to_do"),
    [
        (307, "", "Remove the cause, and run it again"),
        (400, "InvalidRequest", "Remove the cause, and run it again"),
        (403, "RequestDisallowedByPolicy", "Remove the cause, and run it again"),
        (409, "ScopeLocked", "Remove the cause, and run it again"),
        (409, "Conflict", "Run it again later"),
        (412, "PreconditionFailed", "Run it again later"),
    ],
)
def test_every_refusal_says_what_to_do(status, code, what_to_do):
    with pytest.raises(ArmError, match=rf" was answered {status}(: {code})?\. {what_to_do}$"):
        answering(status, json.dumps({"error": {"code": code}}).encode()).write("PUT", POOL, "2024-05-01", {})


@pytest.mark.parametrize("code", ["AnotherOperationInProgress", "RetryableError"])
def test_a_read_that_azure_refuses_for_the_moment_is_repeated(arm, stand_in, code):
    refuse_times(stand_in, 2, 429, code, "busy")
    assert arm.read(POOL, "2024-05-01")["name"] == "www"
