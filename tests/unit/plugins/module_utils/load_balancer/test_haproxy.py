# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest

from plugins.module_utils._load_balancer.haproxy import Member, found_in, read_servers
from plugins.module_utils._load_balancer.runtime_socket import HAProxyError, RuntimeSocket

from .conftest import STAT, STATE, FakeHAProxy

NAMES = ["www/web1", "www/web2", "api/web1"]
DRAIN_BOTH = ["set server www/web1 state drain", "set server api/web1 state drain"]
MAINT_BOTH = ["set server www/web1 state maint", "set server api/web1 state maint"]
READY_BOTH = ["set server www/web1 state ready", "set server api/web1 state ready"]


@pytest.fixture
def haproxy():
    return FakeHAProxy(NAMES)


@pytest.fixture
def member(haproxy, serve, clock):
    """Return a function that makes a member, web1 unless it is given another name."""
    runtime_socket = RuntimeSocket(serve(haproxy), clock=clock)

    def make(name="web1", backends=(), **how):
        return Member(runtime_socket, name, backends, clock=clock, **how)

    return make


def names(servers):
    return [server.full_name for server in servers]


# --- what HAProxy says ---


def test_servers_are_read_with_what_was_ordered_for_them(haproxy, member):
    haproxy.servers["api/web1"].update(admin=0x01, status="MAINT", scur=3, qcur=2)
    www, api = member().look()
    assert (www.full_name, www.found, www.gets_no_new_sessions) == ("www/web1", "ready", False)
    assert (api.full_name, api.found, api.gets_no_new_sessions) == ("api/web1", "MAINT", True)
    assert (api.sessions, api.check) == (5, "L7OK 200, OK")


def test_a_server_is_shown_with_its_traffic_and_its_last_check(haproxy, member):
    haproxy.servers["api/web1"].update(admin=0x01, status="MAINT", scur=3, qcur=2)
    assert member(backends=["api"]).look()[0].shown == {
        "backend": "api",
        "server": "web1",
        "status": "MAINT",
        "sessions": 5,
        "gets_no_new_sessions": True,
        "check": "L7OK 200, OK",
    }


def test_a_server_without_checks_is_shown_without_one(haproxy, member):
    haproxy.servers["www/web1"]["check"] = ","
    assert member(backends=["www"]).look()[0].shown["check"] == ""


def test_what_is_restored_of_a_host_is_known_by_its_backends(haproxy, member):
    haproxy.servers["api/web1"].update(admin=0x01, status="MAINT")
    assert found_in(member().look()) == {"www": "ready", "api": "MAINT"}


@pytest.mark.parametrize(
    ("admin", "status", "found"),
    [
        (0x00, "UP", "ready"),
        (0x00, "DOWN", "ready"),
        (0x04, "UP", "ready"),  # "disabled" in haproxy.cfg, and enabled since
        (0x05, "MAINT", "MAINT"),
        (0x08, "DRAIN", "DRAIN"),
        (0x02, "MAINT (via www/web2)", "MAINT (via www/web2)"),
        (0x20, "MAINT (resolution)", "MAINT (resolution)"),
        (0x09, "MAINT", "MAINT"),
    ],
)
def test_what_is_found_is_the_order_of_an_operator(haproxy, member, admin, status, found):
    haproxy.servers["www/web1"].update(admin=admin, status=status)
    assert member(backends=["www"]).look()[0].found == found


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("show stat", b"<html>\n\n"),
        ("show stat", b"\n"),
        ("show stat", b"# pxname,svname,status\nwww,web1,UP\n\n"),
        ("show stat", (STAT + "\nwww,web1,0\n\n").encode()),
        *[
            ("show stat", (STAT + f"\nwww,web1,0,0,{sessions},0,UP,1,L7OK,,\n\n").encode())
            for sessions in ("²", "", "nan", "9" * 5000)
        ],
        ("show servers state", b"\n"),
        ("show servers state", b"1\n# be_id be_name\n2 www\n\n"),
        ("show servers state", ("1\n" + STATE + "\n2 www 1 web1 10.0.0.1 2 admin 1 1\n\n").encode()),
        ("show servers state", ("1\n" + STATE + "\n2 www 1\n\n").encode()),
        ("show servers state", ("2\n" + STATE + "\n2 www 1 web1 10.0.0.1 2 0 1 1\n\n").encode()),
    ],
)
def test_an_answer_of_another_kind_is_refused_and_shown(haproxy, member, command, answer):
    haproxy.faults[command] = answer
    with pytest.raises(HAProxyError, match=f'The answer to "{command}" on .* could not be read: it begins with'):
        member().look()


def test_a_server_that_disappears_between_two_answers_is_left_out(haproxy, serve):
    haproxy.faults["show servers state"] = ("1\n" + STATE + "\n2 www 1 web2 10.0.0.1 2 0 1 1\n\n").encode()
    assert names(read_servers(RuntimeSocket(serve(haproxy)))) == ["www/web2"]


def test_servers_of_many_backends_are_found_by_name_and_limited_by_backend(member):
    assert names(member().look()) == ["www/web1", "api/web1"]
    assert names(member(backends=["api"]).look()) == ["api/web1"]
    assert member("web9").look() == []


# --- out ---


def test_an_idle_host_is_drained_and_taken_out_without_a_pause(haproxy, member, clock):
    outcome = member().take_out(timeout=300)
    assert haproxy.orders() == DRAIN_BOTH + MAINT_BOTH
    assert not outcome.left
    assert outcome.sent == ["www/web1: drain", "api/web1: drain", "www/web1: maint", "api/web1: maint"]
    assert clock.now == 1000


def test_taking_out_a_host_that_is_out_sends_nothing(haproxy, member):
    member().take_out(timeout=300)
    haproxy.asked.clear()
    assert member().take_out(timeout=300).sent == []
    assert haproxy.orders() == []


def test_sessions_and_queues_of_every_backend_are_waited_for(haproxy, member, clock):
    haproxy.servers["www/web1"]["scur"] = 2
    haproxy.servers["api/web1"]["qcur"] = 1
    clock.at = [
        (1010, lambda: haproxy.servers["www/web1"].update(scur=0)),
        (1020, lambda: haproxy.servers["api/web1"].update(qcur=0)),
    ]
    assert not member().take_out(timeout=300).left
    assert clock.now == 1020
    assert haproxy.orders() == DRAIN_BOTH + MAINT_BOTH


def test_remaining_sessions_are_reported_and_the_server_stays_in_drain(haproxy, member, clock):
    haproxy.servers["api/web1"]["scur"] = 2
    outcome = member().take_out(timeout=30)
    assert names(outcome.left) == ["api/web1"]
    assert haproxy.orders() == DRAIN_BOTH
    assert clock.now == 1030


def test_force_takes_out_a_server_with_sessions_after_the_timeout(haproxy, member):
    haproxy.servers["api/web1"]["scur"] = 2
    outcome = member().take_out(timeout=30, force=True)
    assert names(outcome.left) == ["api/web1"]
    assert haproxy.orders() == DRAIN_BOTH + MAINT_BOTH


def test_a_session_that_came_to_a_draining_server_is_waited_for_once_it_is_out(haproxy, member, clock):
    def stick(command, original=haproxy.answer):
        if command == MAINT_BOTH[0]:
            haproxy.servers["www/web1"]["scur"] = 1
        return original(command)

    haproxy.answer = stick
    clock.at = [(1007, lambda: haproxy.servers["www/web1"].update(scur=0))]
    assert not member().take_out(timeout=300).left
    assert clock.now == 1007


def test_what_an_operator_keeps_in_maint_is_never_put_into_drain(haproxy, member):
    haproxy.servers["www/web1"].update(admin=0x01, status="MAINT")  # "state drain" would lift it
    member().take_out(timeout=300)
    assert haproxy.orders() == [DRAIN_BOTH[1], MAINT_BOTH[1]]


def test_a_server_in_maintenance_through_another_server_gets_its_own_order(haproxy, member):
    haproxy.servers["www/web1"].update(admin=0x02, status="MAINT (via api/web1)")
    member(backends=["www"]).take_out(timeout=300)
    assert haproxy.orders() == [MAINT_BOTH[0]]


def test_a_server_that_is_down_is_taken_out_as_well(haproxy, member):
    haproxy.servers["www/web1"].update(status="DOWN")
    member(backends=["www"]).take_out(timeout=300)
    assert haproxy.orders() == [DRAIN_BOTH[0], MAINT_BOTH[0]]


def test_a_haproxy_that_restarts_is_waited_for_and_drained_again(haproxy, member, clock):
    haproxy.servers["www/web1"]["scur"] = 1

    def go_away():
        haproxy.faults = {"show": b""}

    def come_back():
        haproxy.faults, haproxy.pid = {}, 18
        haproxy.servers["www/web1"].update(scur=0, admin=0, status="UP")
        haproxy.servers["api/web1"].update(admin=0, status="UP")

    clock.at = [(1010, go_away), (1040, come_back)]
    assert not member().take_out(timeout=300).left
    assert haproxy.orders() == DRAIN_BOTH + DRAIN_BOTH + MAINT_BOTH


def test_a_haproxy_that_stays_away_is_given_up_at_the_timeout(haproxy, member, clock):
    haproxy.servers["www/web1"]["scur"] = 1
    clock.at = [(1010, lambda: haproxy.faults.update({"show": b""}))]
    with pytest.raises(HAProxyError, match="was cut off"):
        member().take_out(timeout=63)
    assert clock.now == 1063  # where an attempt ends just then


def test_a_haproxy_that_is_away_at_the_start_is_given_up_at_once(haproxy, member, clock):
    haproxy.faults["show"] = b""
    with pytest.raises(HAProxyError, match="was cut off"):
        member().take_out(timeout=300)
    assert clock.now == 1005
    assert haproxy.orders() == []


def test_a_user_who_puts_a_server_back_is_not_overruled(haproxy, member, clock):
    haproxy.servers["api/web1"]["scur"] = 1
    clock.at = [(1010, lambda: haproxy.servers["www/web1"].update(admin=0, status="UP"))]
    with pytest.raises(HAProxyError, match="Another program put www/web1 back while it was taken out"):
        member().take_out(timeout=300)
    assert haproxy.orders() == DRAIN_BOTH


def test_a_user_who_keeps_a_server_in_drain_is_named_at_the_timeout(haproxy, member):
    original = haproxy.answer
    haproxy.answer = lambda command: original(command.replace("state maint", "state drain"))
    with pytest.raises(HAProxyError, match="Another program put www/web1, api/web1 back"):
        member().take_out(timeout=10)


def test_a_server_that_is_removed_during_the_drain_is_named(haproxy, member, clock):
    haproxy.servers["www/web1"]["scur"] = 1
    clock.at = [(1010, lambda: haproxy.servers.pop("www/web1"))]
    with pytest.raises(HAProxyError, match="www/web1 was removed from HAProxy, or added to it, while"):
        member().take_out(timeout=300)


def test_a_server_that_is_added_during_the_drain_is_named_and_left_alone(haproxy, member, clock):
    haproxy.servers["www/web1"]["scur"] = 1
    new = dict(haproxy.servers["www/web1"])
    clock.at = [(1010, lambda: haproxy.servers.update({"new/web1": new}))]
    with pytest.raises(HAProxyError, match="new/web1 was removed from HAProxy, or added to it, while"):
        member().take_out(timeout=300)
    assert not [order for order in haproxy.orders() if "new/web1" in order]


def test_a_name_that_haproxy_does_not_know_is_refused(member):
    with pytest.raises(HAProxyError, match=r"No server is called web9 in any backend .* in haproxy\.cfg"):
        member("web9").take_out(timeout=300)
    with pytest.raises(HAProxyError, match="No server is called web1 in the backends apo"):
        member(backends=["apo"]).take_out(timeout=300)


def test_a_backend_that_lacks_the_server_is_refused_before_another_one_gets_an_order(haproxy, member):
    with pytest.raises(HAProxyError, match=r"No server is called web1 in the backends apo \(asked"):
        member(backends=["www", "apo"]).take_out(timeout=300)
    with pytest.raises(HAProxyError, match=r"No server is called web1 in the backends apo \(asked"):
        member(backends=["www", "apo"]).put_back({}, timeout=300)
    assert haproxy.orders() == []


def test_a_socket_without_level_admin_changes_nothing(haproxy, member):
    haproxy.level = "operator"
    with pytest.raises(HAProxyError, match="level admin"):
        member().take_out(timeout=300)
    assert {each["admin"] for each in haproxy.servers.values()} == {0}


def test_check_mode_names_the_orders_and_sends_none(haproxy, member):
    outcome = member(simulate=True).take_out(timeout=300)
    assert outcome.sent == ["www/web1: drain", "api/web1: drain", "www/web1: maint", "api/web1: maint"]
    assert haproxy.orders() == []
    member().take_out(timeout=300)
    haproxy.asked.clear()
    assert member(simulate=True).put_back({}, timeout=300).sent == ["www/web1: ready", "api/web1: ready"]
    assert haproxy.orders() == []


# --- back ---


@pytest.fixture
def out(haproxy, member):
    member().take_out(timeout=300)
    haproxy.asked.clear()
    return haproxy


@pytest.mark.parametrize("found", [{}, {"www": "ready", "api": "ready"}])
def test_what_was_ready_is_put_back(out, member, found):
    assert not member().put_back(found, timeout=300).left
    assert out.orders() == READY_BOTH


def test_what_an_operator_kept_out_stays_as_it_was(out, member):
    assert not member().put_back({"www": "MAINT", "api": "DRAIN"}, timeout=300).left
    assert out.orders() == [DRAIN_BOTH[1]]
    assert out.servers["www/web1"]["status"] == "MAINT"


def test_a_server_in_a_backend_that_the_host_did_not_leave_stays_as_it_is(out, member):
    assert not member().put_back({"www": "ready"}, timeout=300).left
    assert out.orders() == [READY_BOTH[0]]
    assert out.servers["api/web1"]["status"] == "MAINT"


def test_putting_back_a_host_that_is_back_sends_nothing(haproxy, member):
    haproxy.servers["api/web1"].update(admin=0x08, status="DRAIN")
    assert member().put_back({"www": "ready", "api": "DRAIN"}, timeout=300).sent == []
    assert haproxy.orders() == []


def test_an_operator_who_enables_what_was_kept_out_is_not_overruled(haproxy, member):
    assert not member().put_back({"www": "MAINT", "api": "MAINT"}, timeout=300).left
    assert haproxy.orders() == []


def test_a_server_is_back_when_it_is_up(out, member, clock):
    out.status_when_ready = "DOWN"
    clock.at = [(1030, lambda: [each.update(status="UP") for each in out.servers.values()])]
    assert not member().put_back({}, timeout=300).left
    assert clock.now == 1030


def test_a_server_is_not_back_before_a_health_check_has_confirmed_it(out, member, clock):
    out.status_when_ready = "UP 1/2"
    clock.at = [(1030, lambda: [each.update(status="UP") for each in out.servers.values()])]
    assert not member().put_back({}, timeout=300).left
    assert clock.now == 1030


def test_a_haproxy_that_restarts_while_a_host_returns_is_waited_for(out, member, clock):
    out.status_when_ready = "DOWN"

    def come_back():
        out.faults = {}
        for each in out.servers.values():
            each.update(status="UP", admin=0)

    clock.at = [(1010, lambda: out.faults.update({"show": b""})), (1040, come_back)]
    assert not member().put_back({}, timeout=300).left


def test_servers_that_do_not_come_up_are_reported_with_their_check(out, member):
    out.status_when_ready = "DOWN"
    outcome = member().put_back({"www": "ready", "api": "MAINT"}, timeout=10)
    assert [(server.full_name, server.check) for server in outcome.left] == [("www/web1", "L7OK 200, OK")]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"status": "no check"}, "ready"),
        ({"status": "DRAIN", "weight": 0}, "ready"),
        ({"status": "DRAIN", "admin": 0x10}, "ready"),
        ({"status": "MAINT (resolution)", "admin": 0x20}, "MAINT (resolution)"),
        ({"status": "MAINT (via api/web1)", "admin": 0x02}, "MAINT (via api/web1)"),
    ],
)
def test_a_server_that_gets_nothing_for_another_reason_counts_as_back(haproxy, member, fields, found):
    haproxy.servers["www/web1"].update(fields)
    assert not member(backends=["www"]).put_back({"www": found}, timeout=0).left


def test_the_found_of_another_reason_does_not_excuse_the_order_of_an_operator(haproxy, member):
    haproxy.servers["www/web1"].update(status="MAINT", admin=0x01)
    haproxy.faults["set"] = b"\n"  # accepted, without effect
    assert names(member(backends=["www"]).put_back({"www": "MAINT (resolution)"}, timeout=0).left) == ["www/web1"]


def test_a_server_that_was_out_for_another_reason_is_not_back_while_it_is_down(haproxy, member):
    haproxy.servers["www/web1"].update(status="DOWN")
    assert names(member(backends=["www"]).put_back({"www": "MAINT (resolution)"}, timeout=0).left) == ["www/web1"]


@pytest.mark.usefixtures("out")
@pytest.mark.parametrize(("found", "sent"), [("maint", []), ("drain", ["api/web1: drain"])])
def test_a_state_that_was_found_counts_in_any_case(member, found, sent):
    assert member().put_back({"api": found}, timeout=0).sent == sent


@pytest.mark.usefixtures("out")
@pytest.mark.parametrize("found", [None, 5, ["ready"]])
def test_a_state_that_is_not_a_text_is_refused(member, found):
    with pytest.raises(HAProxyError, match="for api, expected a text such as ready or MAINT"):
        member().put_back({"www": "ready", "api": found}, timeout=0)


def test_the_status_of_the_last_check_is_read_while_the_next_one_runs(out, member):
    out.status_when_ready = "DOWN"
    for each in out.servers.values():
        each["check"] = '* L7STS,"HTTP status check returned code <503>"'
    outcome = member().put_back({"www": "ready", "api": "MAINT"}, timeout=10)
    check = "L7STS HTTP status check returned code <503>"
    assert [(server.full_name, server.check) for server in outcome.left] == [("www/web1", check)]


# --- whether it gets traffic ---


def test_a_server_is_waited_for_until_it_gets_traffic_and_nothing_is_ordered(haproxy, member, clock):
    haproxy.servers["api/web1"].update(status="DOWN 1/2")
    clock.at = [(1009, lambda: haproxy.servers["api/web1"].update(status="UP 1/3"))]
    outcome = member().wait_until_served(timeout=60)
    assert (outcome.left, clock.now, haproxy.orders()) == ([], 1009, [])


@pytest.mark.parametrize("status", ["DOWN", "DOWN (agent)", "NOLB", "MAINT (resolution)"])
def test_a_server_that_gets_no_traffic_is_left_after_the_time(haproxy, member, clock, status):
    haproxy.servers["www/web1"].update(status=status, admin=0x20 if "resolution" in status else 0)
    assert names(member().wait_until_served(timeout=30).left) == ["www/web1"]
    assert clock.now == 1030


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "MAINT", "admin": 0x01},
        {"status": "MAINT (via www/web2)", "admin": 0x02},
        {"status": "DRAIN", "admin": 0x08},
        {"status": "DOWN", "admin": 0x08},
        {"status": "DRAIN", "weight": 0},
        {"status": "no check"},
    ],
)
def test_a_server_is_not_waited_for_if_it_is_kept_out_by_order_or_not_checked(haproxy, member, clock, fields):
    haproxy.servers["www/web1"].update(fields)
    assert not member().wait_until_served(timeout=30).left
    assert clock.now == 1000


def test_a_restart_of_haproxy_does_not_end_the_wait(haproxy, member, clock):
    haproxy.faults["show stat"] = b""
    clock.at = [(1020, haproxy.faults.clear)]
    assert not member().wait_until_served(timeout=60).left


def test_a_haproxy_that_stays_away_ends_the_wait_at_its_timeout(haproxy, member, clock):
    haproxy.faults["show stat"] = b""
    with pytest.raises(HAProxyError, match="show stat"):
        member().wait_until_served(timeout=60)
    assert 1060 <= clock.now < 1070
