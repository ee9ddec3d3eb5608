# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import contextlib

import pytest

from plugins.module_utils._load_balancer.call import OPTIONS
from plugins.module_utils._load_balancer.record import DrainError, Record, take_note
from plugins.module_utils._scheduled_events.clock import Clock
from plugins.module_utils._scheduled_events.files import Folder
from plugins.plugin_utils._ansible.other_host import OtherHostError
from plugins.plugin_utils._balancers.membership import (
    CHANGE,
    INFO,
    Balancers,
    Membership,
    Place,
    refuse_same_servers,
)

DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}
SETTINGS = {**DEFAULTS, "server": "web1", "holder": "respond", "drain_timeout": 300, "return_timeout": 120}

RESUME = {"backends": {"lb1": []}, "is_noticed": True, "until": 1300.0, "seconds": 300.0}
KNOWN_TO_THE_MODULES = {"server", "backends", "state", "timeout", "force", "found"}


class Dead(OtherHostError):
    pass


class Fleet:
    """Balancers that answer as the modules INFO and CHANGE do, and a record. ``calls`` holds what was asked."""

    def __init__(self, directory):
        self.now = 1000.0
        self.clock = Clock(lambda: self.now, lambda: self.now, self._sleep, lambda: "boot")
        self._record = Record(Folder(str(directory)), clock=self.clock)
        self.servers = {"lb1": {"www": "ready"}, "lb2": {"www": "ready"}}
        self.sessions = {}  # balancer → number
        self.out = set()  # the balancers on which the host was taken out
        self.down = set()
        self.check = "L7STS 503"
        self.dead = set()
        self.calls = []
        self.waits = []

    def ask(self, balancer, module, options):
        assert options.keys() <= KNOWN_TO_THE_MODULES
        state = {INFO: "read", CHANGE: options.get("state")}[module]
        timeout = options.get("timeout")
        waits = module == INFO and timeout is not None
        self.calls.append((balancer, state, None if waits else timeout, options.get("force", False)))
        self.waits += [(balancer, timeout)] if waits else []
        if balancer in self.dead:
            raise Dead(f"{balancer} cannot be reached")
        if module == CHANGE:  # which refuses a backend that it does not have
            assert {*options["backends"]} <= {*self.servers[balancer]}
        left = []
        self.out = {"drained": self.out | {balancer}, "active": self.out - {balancer}}.get(state, self.out)
        if state == "drained" and self.sessions.get(balancer):
            self.now += options["timeout"]
            left = [{"backend": "www", "server": "web1", "sessions": self.sessions[balancer]}]
        if balancer in self.down and (state == "active" or waits):
            self.now += timeout or 0
            left = [{"backend": "www", "server": "web1", "status": "DOWN", "check": self.check}]
        servers = [
            {
                "backend": backend,
                "server": "web1",
                "status": "UP",
                "gets_no_new_sessions": found != "ready" or balancer in self.out,
            }
            for backend, found in self.servers[balancer].items()
            if not options.get("backends") or backend in options["backends"]
        ]
        sent = [f"{each['backend']}/web1: {state}" for each in servers] if state != "read" else []
        found = {each["backend"]: self.servers[balancer][each["backend"]] for each in servers}
        if state == "read":
            return {"changed": False, "servers": servers, "found": found, "down": left}
        return {"changed": bool(sent), "servers": servers, "found": found, "sent": sent, "unfinished": left}

    def record(self, options):
        self.calls.append(("web1", options["state"]))
        return take_note(self._record, {**DEFAULTS, **options})

    @property
    def holders(self):
        return self._record.read().holders

    @property
    def found(self):
        return self._record.read().found

    def sleep(self, seconds):
        self.now += seconds

    def _sleep(self, seconds):  # tests replace the other one
        self.sleep(seconds)

    def states(self, state):
        return [call[0] for call in self.calls if call[1] == state]


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


class Host:
    """A host for which each call is one run of the module."""

    def __init__(self, fleet, names, settings):
        self._fleet, self._names = fleet, names
        self._simulate = settings.pop("simulate", False)
        self._options = {**SETTINGS, **settings}

    def _member(self, resume):
        balancers = Balancers(self._names, ask=self._fleet.ask, clock=self._fleet.clock)
        options = {**self._options, "resume": resume}
        return Membership(options, self._fleet.record, balancers, simulate=self._simulate, clock=self._fleet.clock)

    def drain(self, resume):
        return self._member(resume).drain()

    def restore(self):
        return self._member({}).restore()


@pytest.fixture
def membership(fleet):
    return lambda *names, **settings: Host(fleet, names or ("lb1", "lb2"), settings)


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (Place(["lb2", "lb1"], "app", []), True),
        (Place(["lb1"], "app", ["api", "www"]), True),
        (Place(["lb1"], "app", ["api"]), False),
        (Place(["lb2"], "app", ["www"]), False),
        (Place(["lb1"], "app2", ["www"]), False),
    ],
)
def test_two_hosts_that_are_the_same_server_are_refused(other, refused):
    places = {"web1": [Place(["lb1"], "app", ["www"])], "web2": [other]}
    message = "^web1 and web2 are both the server app on lb1, expected .* Correct the_variable of one of them$"
    with pytest.raises(DrainError, match=message) if refused else contextlib.nullcontext():
        refuse_same_servers(places, "the_variable")


def test_one_balancer_is_read_noted_and_drained_once(fleet, membership):
    assert membership("lb1").drain({}) == {"changed": True, "msg": "", "resume": {}}
    assert [call[:2] for call in fleet.calls] == [("lb1", "read"), ("web1", "held"), ("lb1", "drained")]


def test_all_balancers_get_the_order_before_the_first_wait(fleet, membership):
    fleet.sessions = {"lb1": 1, "lb2": 1}
    membership().drain({})
    drained = [call for call in fleet.calls if call[1] == "drained"]
    assert [call[::2] for call in drained] == [("lb2", 0), ("lb1", 300), ("lb2", 0)]


def test_what_was_found_is_noted_before_anything_is_changed(fleet, membership):
    fleet.servers["lb2"]["api"] = "MAINT"
    membership().drain({})
    assert fleet.found == {"lb1/www": "ready", "lb2/www": "ready", "lb2/api": "MAINT"}
    assert fleet.calls.index(("web1", "held")) < fleet.calls.index(("lb2", "drained", 0, False))


def test_what_another_holder_was_just_putting_back_is_not_taken_for_the_order_of_an_operator(fleet, membership):
    fleet.servers["lb1"]["www"] = "MAINT"
    record = fleet.record

    def returns_meanwhile(options):
        fleet.servers["lb1"]["www"] = "ready"
        return record(options)

    fleet.record = returns_meanwhile
    membership().drain({})
    assert fleet.found == {"lb1/www": "ready", "lb2/www": "ready"}


def test_a_host_that_is_out_for_another_holder_is_read_and_noted_once(fleet, membership):
    membership("lb1", holder="first").drain({})
    fleet.servers["lb1"]["www"] = "drain"
    fleet.calls.clear()
    membership("lb1", holder="second").drain({})
    assert [call[:2] for call in fleet.calls] == [("lb1", "read"), ("web1", "held"), ("lb1", "drained")]


def test_what_a_balancer_that_was_added_later_says_is_noted_for_the_return(fleet, membership):
    membership("lb1", holder="first").drain({})
    fleet.servers["lb1"]["www"] = fleet.servers["lb2"]["www"] = "drain"
    membership("lb1", "lb2", holder="second").drain({})
    assert fleet.found == {"lb1/www": "ready", "lb2/www": "drain"}


def test_a_dead_balancer_is_named_before_anything_is_changed(fleet, membership):
    fleet.dead = {"lb1"}
    with pytest.raises(DrainError, match=r"^lb1 cannot be reached$"):
        membership().drain({})
    assert fleet.holders == []
    assert fleet.states("drained") == []


@pytest.mark.parametrize(("dies_at", "asked"), [(4, 5), (6, 6), (7, 7)])
def test_a_balancer_that_dies_during_a_drain_is_named_before_the_next_step(fleet, membership, dies_at, asked):
    ask, calls = fleet.ask, []

    def dying(balancer, module, options):
        calls.append(balancer)
        fleet.dead = {"lb1"} if len(calls) >= dies_at else set()
        return ask(balancer, module, options)

    fleet.ask, fleet.sessions = dying, {"lb1": 1}
    with pytest.raises(DrainError, match=r"^lb1 cannot be reached$"):
        membership(drain_timeout=10, on_timeout="continue").drain({})
    # Two looks, the order for the second one, the wait for both, a look at the first one, and its end in any case.
    assert calls == ["lb1", "lb2", "lb2", "lb1", "lb2", "lb1", "lb1"][:asked]


def test_balancers_that_lack_the_host_are_named_before_anything_is_changed(fleet, membership):
    fleet.servers["lb2"] = {}
    with pytest.raises(DrainError, match="No server is called web1 on lb2, in any backend"):
        membership().drain({})
    assert fleet.holders == []


def test_a_backend_must_exist_on_one_balancer(fleet, membership):
    fleet.servers["lb2"]["api"] = "ready"
    membership(backends=["www", "api"]).drain({})
    with pytest.raises(DrainError, match="No server is called web1 in apo on any of lb1, lb2"):
        membership(backends=["www", "apo"]).drain({})


def test_a_balancer_that_sends_sessions_again_while_another_one_is_waited_for_is_named(fleet, membership):
    fleet.sessions = {"lb2": 1}
    ask = fleet.ask

    def lose_its_state(balancer, module, options):
        answer = ask(balancer, module, options)
        fleet.out -= {"lb1"} if (balancer, module) == ("lb2", CHANGE) else set()
        return answer

    fleet.ask = lose_its_state
    with pytest.raises(DrainError, match=r"^lb1 www/web1 gets new sessions again"):
        membership(on_timeout="continue").drain({})


def test_sessions_that_last_are_named_on_all_balancers(fleet, membership):
    fleet.sessions = {"lb1": 2, "lb2": 3}
    result = membership().drain({})
    assert result["failed"]
    assert result["msg"] == (
        "it gets no new connections, but after 300 s it still has sessions: 2 on lb1 www/web1, 3 on lb2 www/web1"
    )
    assert fleet.now == 1300  # the time is for all of them together


def test_sessions_that_last_may_be_left_where_the_host_is_taken_out_nevertheless(fleet, membership):
    fleet.sessions = {"lb2": 3}
    result = membership(on_timeout="continue").drain({})
    assert "failed" not in result
    assert "3 on lb2 www/web1" in result["msg"]
    assert fleet.calls[-1] == ("lb2", "drained", 0, True)


def test_a_wait_ends_with_its_stretch_and_is_taken_up_again(fleet, membership):
    fleet.sessions = {"lb1": 1}
    first = membership("lb1", wait_at_most=15).drain({})
    assert (first["resume"], fleet.now) == (RESUME, 1015)
    fleet.now = 1290
    fleet.calls.clear()
    last = membership("lb1", wait_at_most=15).drain(first["resume"])
    assert (last["failed"], fleet.now) == (True, 1300)
    assert [call[:2] for call in fleet.calls] == [("lb1", "drained")]


def test_a_balancer_that_joins_during_the_wait_gets_no_order(fleet, membership):
    fleet.sessions = {"lb1": 1}
    first = membership("lb1", wait_at_most=15).drain({})
    fleet.sessions = {}
    last = membership("lb1", "lb2", wait_at_most=15).drain(first["resume"])
    assert (last.get("failed", False), fleet.out) == (False, {"lb1"})


def test_a_host_that_an_operator_put_back_is_drained_again_and_counts_as_changed(fleet, membership):
    membership().drain({})
    fleet.out.clear()
    assert membership().drain({})["changed"]
    assert fleet.out == {"lb1", "lb2"}


def test_a_clock_that_was_set_back_does_not_prolong_the_drain(fleet, membership):
    fleet.sessions = {"lb1": 1}
    fleet.now = -1e6
    membership("lb1").drain(RESUME)
    assert fleet.now == -1e6 + 300


def test_a_host_is_put_back_everywhere_before_any_balancer_is_waited_for(fleet, membership):
    membership().drain({})
    fleet.calls.clear()
    assert membership().restore() == {"changed": True, "msg": "", "resume": {}}
    assert [call[:3] for call in fleet.calls if call[1] == "active"] == [
        ("lb2", "active", 0),
        ("lb1", "active", 120),
        ("lb2", "active", 120),
    ]
    assert fleet.holders == []


@pytest.mark.parametrize("state", ["MAINT", "DRAIN"])
def test_a_server_that_an_operator_had_taken_out_stays_out_and_is_named(fleet, membership, state):
    fleet.servers["lb2"]["www"] = state
    membership().drain({})
    assert membership().restore()["msg"] == "lb2/www stays out, as it was before"


def test_a_balancer_that_is_not_listed_any_more_when_the_host_returns_is_named(fleet, membership):
    membership().drain({})
    msg = membership("lb2").restore()["msg"]
    assert msg == "not put back in lb1/www, which load_balancer_haproxy_hosts does not list any more"
    assert fleet.out == {"lb1"}


def test_a_return_restores_each_backend_that_was_left_also_one_that_is_not_listed_any_more(fleet, membership):
    fleet.servers["lb1"]["api"] = "ready"
    membership("lb1", backends=["www", "api"]).drain({})
    ask, asked = fleet.ask, []
    fleet.ask = lambda *more: asked.append((more[-1]["backends"], sorted(more[-1]["found"]))) or ask(*more)
    membership("lb1", backends=["www"]).restore()
    assert set(map(str, asked)) == {str(([], ["api", "www"]))}


def test_a_balancer_that_the_host_did_not_leave_gets_no_order_when_it_returns(fleet, membership):
    membership("lb1").drain({})
    assert membership("lb1", "lb2").restore()["msg"] == ""
    assert set(fleet.states("active")) == {"lb1"}


def test_a_balancer_whose_name_has_a_slash_gets_the_orders_of_its_own(fleet, membership):
    ready = {"www": "ready"}
    fleet.servers = {"site": ready, "site/lb1": {**ready, "api": "MAINT"}, "rack/lb1": ready}
    membership(*fleet.servers).drain({})
    assert membership(*fleet.servers, simulate=True).restore()["msg"] == "would put it back on site, site/lb1, rack/lb1"
    ask, found = fleet.ask, {}
    fleet.ask = lambda name, *more: found.update({name: more[-1]["found"]}) or ask(name, *more)
    assert membership(*fleet.servers).restore()["msg"] == "site/lb1/api stays out, as it was before"
    assert fleet.out == set()
    assert found == fleet.servers


def test_a_server_that_another_program_put_back_is_not_said_to_stay_out(fleet, membership):
    fleet.servers["lb2"]["www"] = "MAINT"
    membership().drain({})
    fleet.servers["lb2"]["www"] = "ready"
    assert membership().restore()["msg"] == ""


def test_check_mode_does_not_promise_to_put_back_what_stays_out(fleet, membership):
    fleet.servers = {name: {"www": "MAINT"} for name in ("lb1", "lb2")}
    membership().drain({})
    expected = "lb1/www, lb2/www stays out, as it was before"
    assert membership(simulate=True).restore()["msg"] == membership().restore()["msg"] == expected


def test_a_host_that_another_holder_alone_keeps_out_is_said_to_stay_out(fleet, membership):
    membership(holder="rolling_maintenance").drain({})
    assert membership().restore()["msg"] == "stays drained for rolling_maintenance"
    assert fleet.holders == ["rolling_maintenance"]


def test_a_host_stays_out_for_another_holder(fleet, membership):
    membership(holder="rolling_maintenance").drain({})
    membership().drain({})
    assert membership().restore()["msg"] == "stays drained for rolling_maintenance"
    assert fleet.states("active") == []


def test_a_host_that_was_not_drained_is_not_put_back(fleet, membership):
    assert membership().restore() == {"changed": False, "msg": "", "resume": {}}
    assert fleet.states("active") == []


def test_a_host_that_this_run_has_drained_and_whose_record_is_lost_is_not_said_to_be_back(fleet, membership, tmp_path):
    membership().drain({})
    (tmp_path / "load-balancer.json").unlink()
    with pytest.raises(DrainError, match="is gone"):
        membership(was_drained=True).restore()
    assert fleet.out == {"lb1", "lb2"}


@pytest.mark.parametrize("now", [{"server": "web9"}, {"provider": "health_probe"}])
def test_another_server_or_provider_than_the_drained_one_is_not_put_back(fleet, membership, now):
    membership(provider="haproxy").drain({})
    with pytest.raises(DrainError, match=r"(provider=haproxy|server=web1), but .* is (health_probe|web9) now"):
        membership(**{"provider": "haproxy", **now}).restore()
    assert fleet.states("active") == []
    assert membership(provider="haproxy").restore()["msg"] == ""


def test_a_dead_balancer_does_not_keep_the_host_out_of_the_others(fleet, membership):
    membership().drain({})
    fleet.calls.clear()
    fleet.dead = {"lb1"}
    with pytest.raises(DrainError, match=r"^lb1 cannot be reached$"):
        membership().restore()
    assert fleet.states("active") == ["lb2", "lb1", "lb2"]
    assert fleet.holders == ["respond"]  # so that the next run finishes it


def test_servers_that_do_not_come_up_are_named_with_their_balancer_and_check(fleet, membership):
    membership().drain({})
    fleet.down = {"lb2"}
    with pytest.raises(DrainError, match=r"^lb2 www/web1 is DOWN 120 s after it was put back; .* gave L7STS 503"):
        membership().restore()
    assert fleet.holders == ["respond"]


def test_a_server_that_does_not_come_up_and_was_not_checked_is_named_so(fleet, membership):
    membership().drain({})
    fleet.down, fleet.check = {"lb2"}, ""
    with pytest.raises(DrainError, match="its last health check gave nothing"):
        membership().restore()


def test_a_balancer_is_asked_once_after_another_one_has_taken_all_the_time_of_a_return(fleet, membership):
    membership().drain({})
    fleet.down = {"lb1"}
    fleet.calls.clear()
    with pytest.raises(DrainError, match="lb1 www/web1 is DOWN"):
        membership().restore()
    active = [call[:3] for call in fleet.calls if call[1] == "active"]
    assert active == [("lb2", "active", 0), ("lb1", "active", 120.0), ("lb2", "active", 0.0)]


def test_check_mode_names_what_would_change(fleet, membership):
    result = membership(simulate=True).drain({})
    assert result["msg"] == "would take out lb1 www/web1, which is UP; lb2 www/web1, which is UP"
    membership().drain({})
    fleet.calls.clear()
    assert membership(simulate=True).restore()["msg"] == "would put it back on lb1, lb2"
    assert [call[:3] for call in fleet.calls if call[1] == "active"] == [("lb1", "active", 0), ("lb2", "active", 0)]
    assert fleet.holders == ["respond"]


def test_servers_that_some_balancer_gives_no_traffic_are_read(fleet):
    def traffic():
        return Balancers(["lb1", "lb2"], ask=fleet.ask).traffic()

    assert traffic() == {"web1": {"www": True}}
    fleet.servers["lb1"]["canary"] = "MAINT"
    assert traffic() == {"web1": {"www": True, "canary": False}}
    fleet.servers["lb2"]["www"] = "DRAIN"
    assert traffic() == {"web1": {"www": False, "canary": False}}
    fleet.servers["lb2"] = {}
    assert traffic() == {"web1": {"www": True, "canary": False}}
    fleet.dead = {"lb1"}
    with pytest.raises(DrainError, match="lb1 cannot be reached"):
        traffic()


def wait_until_out(fleet):
    Balancers(["lb1", "lb2"], ask=fleet.ask, clock=fleet.clock).wait_until_out("web1", [], timeout=60)


def test_a_server_that_fails_its_check_is_waited_for_until_no_balancer_sends_it_new_sessions(fleet):
    sleep = fleet.sleep

    def fail_the_check(seconds):
        sleep(seconds)
        fleet.servers["lb1" if fleet.now < 1010 else "lb2"]["www"] = "DOWN"

    fleet.sleep = fail_the_check
    wait_until_out(fleet)
    assert fleet.now == 1010


def test_a_server_whose_balancer_does_not_notice_that_it_is_out_is_named(fleet):
    fleet.servers["lb1"]["www"] = "DOWN"
    with pytest.raises(DrainError, match=r"^lb2 www/web1 is UP 60 s after its balancers had the time to notice "):
        wait_until_out(fleet)
    assert fleet.now == 1060


def test_a_balancer_that_cannot_say_whether_a_host_is_out_is_not_waited_for(fleet):
    fleet.dead = {"lb1"}
    with pytest.raises(DrainError, match=r"^lb1 cannot be reached$"):
        wait_until_out(fleet)
    fleet.dead, fleet.servers["lb2"] = set(), {}
    with pytest.raises(DrainError, match="No server is called web1 on lb2, in any backend"):
        wait_until_out(fleet)
    assert fleet.now == 1000


def wait_until_served(fleet, **more):
    balancers = Balancers(["lb1", "lb2"], ask=fleet.ask, clock=fleet.clock)
    return balancers.wait_until_served("web1", more.get("backends", []), timeout=60)


def test_a_host_that_all_balancers_send_traffic_is_back_at_once(fleet):
    assert wait_until_served(fleet) == ""
    assert fleet.states("read") == ["lb1", "lb2"]
    assert fleet.now == 1000


def test_a_balancer_that_does_not_send_traffic_is_named_with_its_check(fleet):
    fleet.down = {"lb2"}
    with pytest.raises(DrainError, match=r"^lb2 www/web1 is DOWN 60 s after it was put back; .* gave L7STS 503"):
        wait_until_served(fleet)
    assert fleet.now == 1060


def test_a_server_that_is_kept_out_by_order_is_not_waited_for_and_named(fleet):
    fleet.servers["lb2"]["api"] = "MAINT"
    assert wait_until_served(fleet) == "lb2 api/web1 (UP) stays out, as it was ordered there"
    assert wait_until_served(fleet, backends=["www"]) == ""


def test_a_balancer_that_cannot_be_reached_for_a_moment_is_asked_again(fleet):
    fleet.dead = {"lb1"}
    sleep = fleet.sleep

    def come_back(seconds):
        sleep(seconds)
        if fleet.now >= 1030:
            fleet.dead = set()

    fleet.sleep = come_back
    assert wait_until_served(fleet) == ""
    assert fleet.now == 1030
    assert fleet.states("read").count("lb2") == 1


def test_balancers_share_the_time_that_there_is_and_none_gets_less_than_nothing(fleet):
    fleet.down = {"lb1", "lb2"}
    with pytest.raises(DrainError, match=r"^lb1 www/web1 is DOWN 60 s .*; lb2 www/web1 is DOWN 60 s "):
        wait_until_served(fleet)
    assert fleet.waits == [("lb1", 60.0), ("lb2", 0.0)]
    ask, fleet.waits, fleet.down = fleet.ask, [], set()

    def ask_slowly(*arguments):
        fleet.now += 100.0
        return ask(*arguments)

    fleet.ask = ask_slowly
    assert wait_until_served(fleet) == ""
    assert fleet.waits == [("lb1", 60.0), ("lb2", 0.0)]


def test_a_dead_balancer_is_named_when_the_time_is_over(fleet):
    fleet.dead = {"lb1"}
    with pytest.raises(DrainError, match=r"^lb1 cannot be reached$"):
        wait_until_served(fleet)
    assert fleet.now == 1060


def test_balancers_that_lack_the_host_are_named_when_it_returns(fleet):
    fleet.servers["lb2"] = {}
    with pytest.raises(DrainError, match="No server is called web1 on lb2, in any backend"):
        wait_until_served(fleet)


def test_a_return_that_another_holder_has_taken_over_is_no_failure(fleet, membership):
    membership().drain({})
    fleet.down = {"lb2"}
    ask = fleet.ask

    def come(balancer, module, options):
        if options.get("timeout") == 120:
            fleet.now += 500  # the lease is over
            membership(holder="rolling_maintenance").drain({})
        return ask(balancer, module, options)

    fleet.ask = come
    assert membership().restore()["msg"] == "stays drained for rolling_maintenance"
    assert fleet.holders == ["rolling_maintenance"]


def test_what_another_holder_left_while_this_one_waited_for_it_is_read_again(fleet, membership):
    """It was drained at the first look, and its state of then is not what an operator had ordered."""
    membership().drain({})
    fleet.servers["lb1"]["www"] = "MAINT"
    fleet.record({"state": "returning", "holder": "respond", "lease": 100})

    def end(seconds):
        fleet.now += seconds
        if fleet.now >= 1020 and fleet.holders == ["respond"]:
            fleet.servers["lb1"]["www"] = "ready"
            fleet.record({"state": "released", "holder": "respond"})

    fleet.sleep = end
    membership(holder="rolling_maintenance").drain({})
    assert fleet.found == {"lb1/www": "ready", "lb2/www": "ready"}


def test_sessions_get_their_time_from_the_moment_when_no_balancer_sends_new_ones(fleet, membership):
    fleet.sessions = {"lb1": 1, "lb2": 1}
    ask = fleet.ask
    fleet.ask = lambda *call: setattr(fleet, "now", fleet.now + 20) or ask(*call)  # a slow network
    result = membership().drain({})
    assert "after 300 s" in result["msg"]
    assert fleet.now >= 1360


@pytest.mark.parametrize(("seconds", "ends_at"), [(105, 1100), (25, 1020), (5, 1000), (0, 1000)])
def test_the_whole_drain_ends_with_the_time_there_is(fleet, membership, seconds, ends_at):
    fleet.sessions = {"lb1": 1, "lb2": 1}
    result = membership(finish_within=seconds).drain({})
    assert (result["failed"], fleet.now) == (True, ends_at)
    assert f"after {ends_at - 1000} s it still has sessions" in result["msg"]


def test_a_drain_that_is_continued_ends_with_the_time_there_is_then(fleet, membership):
    fleet.sessions = {"lb1": 1}
    first = membership("lb1", wait_at_most=15, finish_within=105).drain({})
    fleet.now = 1090  # the fork was free again late
    last = membership("lb1", wait_at_most=15, finish_within=15).drain(first["resume"])
    assert (last["failed"], fleet.now) == (True, 1100)


@pytest.mark.parametrize("work", ["drain", "restore"])
def test_a_plan_names_a_balancer_that_dies_after_the_look(fleet, membership, monkeypatch, work):
    if work == "restore":
        membership().drain({})
    ask = fleet.ask

    def die_before_the_plan(balancer, module, options):
        fleet.dead = {"lb2"} if module == CHANGE else set()
        return ask(balancer, module, options)

    monkeypatch.setattr(fleet, "ask", die_before_the_plan)
    host = membership(simulate=True)
    with pytest.raises(DrainError, match="lb2 cannot be reached"):
        host.drain({}) if work == "drain" else host.restore()
