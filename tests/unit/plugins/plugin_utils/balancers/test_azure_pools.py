# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that leave their pools, against a stand-in of Azure Resource Manager; nothing here ran against Azure."""

import concurrent.futures
import copy
import functools
import math
import threading
import time
import types

import pytest
from arm_stand_in import BALANCER, COMPUTE, GATEWAY, GATEWAY_POOL, NETWORK, POOL, TOKEN, ArmStandIn, Refused, send

from plugins.module_utils._load_balancer.call import OPTIONS
from plugins.module_utils._load_balancer.record import DrainError, Record, take_note
from plugins.module_utils._scheduled_events import clock as clocks
from plugins.module_utils._scheduled_events.files import Folder
from plugins.plugin_utils._azure import orders as orders_of_a_run
from plugins.plugin_utils._azure.arm import Arm, ArmError, Token
from plugins.plugin_utils._azure.orders import Orders
from plugins.plugin_utils._azure.pools import Me
from plugins.plugin_utils._azure.resources import ApplicationGateway, LoadBalancer, Resources
from plugins.plugin_utils._balancers.azure import Pooled, survey

NIC = f"{NETWORK}/networkInterfaces/web1-nic"
INSTANCE = f"{COMPUTE}/virtualMachineScaleSets/pool/virtualMachines/13"
ME = Me([NIC], ["10.0.0.4"])
DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}
OTHER_POOL = POOL.replace("/www", "/api")


class Clock:
    """Time of the test. Threads sleep at the same time, not one after the other.

    :ivar tick: seconds that pass with each look at it.
    """

    def __init__(self):
        self.now, self.tick = 1000.0, 0.0

    def __call__(self):
        self.now += self.tick
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0, "time.sleep refuses less"
        awake = self.now + seconds
        time.sleep(0.001)
        self.now = max(self.now, awake)

    def together(self, threads):
        """Return a function that sleeps once all threads sleep, so that the clock does not run ahead of slow ones."""
        awake = []

        def advance():
            self.now = max(awake)
            awake.clear()

        barrier = threading.Barrier(threads, action=advance)

        def sleep(seconds):
            awake.append(self.now + seconds)
            barrier.wait(timeout=60)

        return sleep


def nic_member(interface, **more):
    return {"networkInterfaceIPConfiguration": {"id": f"{interface}/ipConfigurations/main"}, **more}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def arm():
    return ArmStandIn()


def transport_to(arm, clock, seconds=math.inf):
    own, finish_at = clocks.Clock(clock, clock, clock.sleep), clock.now + seconds

    def send_in_time(*request):
        if finish_at <= clock.now:
            raise TimeoutError("no time is left to send it")
        return send(arm, *request)

    return Arm(
        "https://x",
        lambda _subscription: Token(TOKEN, 1e10),
        send_in_time,
        patience=600,
        left=lambda: finish_at - clock.now,
        clock=own,
    )


@pytest.fixture
def host(arm, clock, tmp_path, monkeypatch):
    """Return a function that makes a host, with its record in a separate directory."""

    def make(
        name="web1",
        *,
        before_note=lambda: None,
        product=LoadBalancer,
        me=ME,
        pools=(POOL,),
        hosts=1,
        quiet=0.0,
        sleep=clock.sleep,
        run="run",
        **settings,
    ):
        own_clock = clocks.Clock(clock, clock, sleep, lambda: "boot")
        record = Record(Folder(str(tmp_path / name)), simulate=settings.get("simulate", False), clock=own_clock)

        def run_record(options):
            before_note()
            return take_note(record, {**DEFAULTS, **options})

        transport = transport_to(arm, clock, settings.get("finish_within", math.inf))

        # A host that waits for the orders of the others waits for threads, which need no time of the clock.
        monkeypatch.setattr(orders_of_a_run, "QUIET", quiet)
        pause = clock.sleep if quiet < math.inf else lambda _seconds: time.sleep(0.001)

        def orders(target):
            own = clocks.Clock(clock, clock, pause)
            return Orders(tmp_path / run, target, hosts=hosts, left=transport.left, clock=own)

        resources = Resources(transport, orders, timeout=600)
        simulate = settings.pop("simulate", False)
        options = {**DEFAULTS, "holder": "respond", "operation_timeout": 600.0, "pools": pools, **settings}
        options.update(network_interfaces=me.interfaces, addresses=me.addresses)

        def call(resume):
            own = {**options, "resume": resume}
            return Pooled(own, run_record, name, product(resources.look), resources, simulate=simulate, clock=own_clock)

        return types.SimpleNamespace(
            drain=lambda resume: call(resume).drain(), restore=lambda resume: call(resume).restore(), record=record
        )

    return make


MEMBERS = {
    "an address": {"ipAddress": "10.0.0.4"},
    "an interface of a VM": nic_member(NIC.replace("resourceGroups", "resourcegroups")),
    "an instance of a scale set": nic_member(f"{INSTANCE}/networkInterfaces/nic"),
}


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("before", ["None", "Up", "Down"])
def test_a_host_is_out_with_the_admin_state_down_and_returns_to_the_state_that_was_found(arm, host, kind, before):
    others = {"b": {"ipAddress": "10.0.0.44"}, "c": nic_member(f"{NIC}2")}
    arm.add_balancer({"a": {**MEMBERS[kind], "adminState": before}, **others})
    web1 = host(me=Me([NIC, f"{INSTANCE}/networkInterfaces/nic"], ["10.0.0.4"]))
    assert web1.drain({})["changed"]
    assert arm.states() == {"a": "Down", "b": "None", "c": "None"}
    web1.restore({})
    assert arm.states() == {"a": before, "b": "None", "c": "None"}
    assert not web1.record.read().holders


def test_an_order_of_an_operator_that_comes_after_the_look_of_another_host_stays(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}}, drainPeriodInSeconds=1)
    web1 = host()
    web1.drain({})
    web1.restore({})
    pool_of(arm)[1]["properties"]["adminState"] = "Down"
    clock.now += 5
    web2 = host("web2", me=Me([], ["10.0.0.5"]))
    web2.drain({})
    assert web2.restore({})["msg"] == "stays out of lb/www, as it was before"
    assert arm.states() == {"a": "None", "b": "Down"}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (409, "ScopeLocked"),
        (409, "AnotherOperationInProgress"),
        (412, "PreconditionFailed"),
        (429, "RetryableError"),
        (429, "TooManyRequests"),
    ],
)
def test_a_host_that_azure_does_not_let_out_is_not_put_back_after_an_operator_did_it_by_hand(
    arm, host, clock, status, code
):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})

    def refuse(method, *_):
        if method == "PUT":
            raise Refused(status, code, "Not now.")

    arm.answers.append(refuse)
    web1 = host()
    with pytest.raises(DrainError, match="Not now"):
        web1.drain({})
    arm.answers.remove(refuse)
    pool_of(arm)[0]["properties"]["adminState"] = "Down"
    clock.now += 60
    web1.restore({})
    assert arm.states() == {"a": "Down"}


@pytest.mark.parametrize("status", [0, 503, 200])
def test_a_drain_that_azure_may_have_carried_out_is_followed_by_a_return(arm, host, clock, monkeypatch, status):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})

    def break_off(stand_in, method, *request, send=send):
        sent = send(stand_in, method, *request)
        if method != "PUT":
            return sent
        arm._updating[POOL.lower()] = 10**9
        if status == 0:
            raise TimeoutError
        return sent._replace(status=status, body=b"<html>")

    web1 = host()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "send", break_off)
        with pytest.raises(DrainError):
            web1.drain({})
    arm._updating.clear()
    clock.now += 60
    web1.restore({})
    assert arm.states() == {"a": "None"}


def test_a_return_that_finds_the_host_in_its_pool_says_that_a_drain_without_an_answer_may_come_later(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})

    def break_off(method, *_):
        if method == "PUT":
            clock.now += 25
            raise TimeoutError("no answer within 25 s")

    arm.answers.append(break_off)
    with pytest.raises(DrainError):
        host(finish_within=30.0).drain({})
    arm.answers.remove(break_off)
    clock.now += 60
    assert host().restore({})["msg"].startswith("was in lb/www already. If its drain got no answer from Azure,")


def to_the_end(call):
    """Call it until nothing is left to do."""
    resume = call({})["resume"]
    while resume:
        resume = call(resume)["resume"]


@pytest.fixture
def two(arm, host):
    """Two hosts of a batch, each with several calls."""
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}}, drainPeriodInSeconds=1)
    settings = {"hosts": 2, "wait_at_most": 10.0, "was_drained": True}
    return host(**settings), host("web2", me=Me([], ["10.0.0.5"]), **settings)


def test_a_host_that_is_out_by_the_write_of_another_host_returns_also_if_its_own_was_refused(arm, two, clock):
    writes = []

    def refuse(method, *_):
        if writes:
            raise Refused(429, "TooManyRequests", "Please try again after '1800' seconds")
        if method == "PUT":
            writes.append(method)

    arm.answers.append(refuse)
    stages = [each.drain({})["resume"] for each in two]
    for each, stage in zip(two, stages):
        with pytest.raises(DrainError):
            each.drain(stage)
    arm.answers.remove(refuse)
    assert arm.states() == {"a": "Down", "b": "Down"}
    clock.now += 4000
    for each in two:
        to_the_end(each.restore)
    assert arm.states() == {"a": "None", "b": "None"}


@pytest.mark.parametrize("stays", [True, False])
def test_a_return_that_another_host_carries_out_late_does_not_undo_the_drain_of_another_holder(
    arm, host, two, clock, stays
):
    web1, web2 = two
    for each in two:
        to_the_end(each.drain)
    stages = [each.restore({})["resume"] for each in two]
    clock.now += 4000  # the others do not wait any longer
    other = host(holder="operator", run="of_another_run")
    other.drain({})
    if not stays:
        other.restore({})
    msg = web1.restore(stages[0])["msg"]
    web2.restore(stages[1])
    if stays:
        assert (arm.states(), msg) == ({"a": "Down", "b": "None"}, "stays drained for operator")
        other.restore({})
    assert arm.states() == {"a": "None", "b": "None"}
    other.drain({})
    to_the_end(web2.drain)
    assert arm.states()["a"] == "Down", "an order of the first run is left"


def come_late(arm, other):
    """Have another holder come during the next write, after which Azure refuses each write."""
    writes = []

    def answer(method, *_):
        if method == "PUT":
            writes.append(method)
            if len(writes) > 1:
                raise Refused(403, "AuthorizationFailed", "may not")
            other.record.interrupt("respond")
            other.record.hold("operator", {})

    arm.answers.append(answer)


def test_a_second_drain_that_fails_is_an_error_that_says_what_the_host_gets_and_for_whom_to_drain_it(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, drainPeriodInSeconds=1)
    web1, other = host(), host(holder="operator", run="of_another_run")
    web1.drain({})
    come_late(arm, other)
    with pytest.raises(DrainError, match="It may get traffic, but it stays drained for operator") as failure:
        web1.restore({})
    assert "may not" in str(failure.value)
    arm.answers.clear()
    assert web1.record.read().holders == ["operator"]
    clock.now += 60
    other.restore({})
    assert arm.states() == {"a": "None"}


def test_no_other_host_carries_out_what_a_late_return_ordered_that_cannot_drain_the_host_again(arm, host, two, clock):
    for each in two:
        to_the_end(each.drain)
    [stage1, stage2] = [each.restore({})["resume"] for each in two]
    clock.now += 4000  # the others do not wait any longer
    other = host(holder="operator", run="of_another_run")
    other.drain({})

    def refuse(*_):
        raise Refused(403, "AuthorizationFailed", "may not")

    arm.answers.append(refuse)
    with pytest.raises(DrainError, match="stays drained for operator"):
        two[0].restore(stage1)
    arm.answers.remove(refuse)
    two[1].restore(stage2)
    assert arm.states() == {"a": "Down", "b": "None"}
    other.restore({})
    assert arm.states() == {"a": "None", "b": "None"}


def test_a_second_drain_that_fails_for_a_holder_that_has_gone_again_is_the_error_alone(arm, host, monkeypatch):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, drainPeriodInSeconds=1)
    web1, other = host(), host(holder="operator", run="of_another_run")
    web1.drain({})
    come_late(arm, other)

    def leave(_drain):
        other.record.release("operator", seconds=0)
        other.record.forget("operator")

    monkeypatch.setattr(Pooled, "withdraw", leave)  # between the answer of the record and the second drain
    with pytest.raises(DrainError, match="may not") as failure:
        web1.restore({})
    assert "It may get traffic" not in str(failure.value)
    assert (web1.record.read().holders, arm.states()) == ([], {"a": "None"})


def test_a_state_in_which_another_client_has_put_the_host_back_stays(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host()
    web1.drain({})
    pool_of(arm)[0]["properties"]["adminState"] = "Up"
    clock.now += 60
    web1.restore({})
    assert arm.states() == {"a": "Up"}


def test_everything_else_in_the_pool_is_written_as_it_was_read(arm, host):
    arm.add_balancer({"a": nic_member(NIC, ipAddress="10.0.0.4")}, syncMode="Automatic", tunnelInterfaces=[{"port": 1}])
    before = dict(arm.resources[POOL.lower()], etag=None)
    web1 = host()
    web1.drain({})
    web1.restore({})
    after = dict(arm.resources[POOL.lower()], etag=None)
    after["properties"]["loadBalancerBackendAddresses"][0]["properties"].pop("adminState")
    assert after == before


def test_several_pools_are_left_before_connections_are_waited_for(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, drainPeriodInSeconds=90)
    arm.add_balancer({"x": {"ipAddress": "10.0.0.4"}}, pool=OTHER_POOL, drainPeriodInSeconds=120)
    began = clock.now
    host(pools=[POOL, OTHER_POOL]).drain({})
    assert (arm.states(), arm.states(OTHER_POOL)) == ({"a": "Down"}, {"x": "Down"})
    assert 120 <= clock.now - began < 150


def test_a_drain_again_writes_nothing_and_keeps_what_was_found(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4", "adminState": "Up"}})
    host().drain({})
    assert not host().drain({})["changed"]
    assert arm.count("PUT") == 1
    host().restore({})
    assert arm.states() == {"a": "Up"}


def test_a_host_returns_to_a_pool_whose_id_is_spelled_differently_now(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    host().drain({})
    host(pools=[POOL.replace("resourceGroups", "resourcegroups")]).restore({})
    assert arm.states() == {"a": "None"}


def test_a_second_drain_with_an_id_that_is_spelled_differently_does_not_note_what_the_first_one_did(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    host().drain({})
    spelled = host(pools=[POOL.replace("resourceGroups", "resourcegroups")])
    spelled.drain({})
    spelled.restore({})
    assert arm.states() == {"a": "None"}


def test_a_pool_that_is_not_listed_any_more_when_the_host_returns_is_named(arm, host):
    for pool in (POOL, OTHER_POOL):
        arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, pool=pool)
    host(pools=[POOL, OTHER_POOL]).drain({})
    msg = host(pools=[OTHER_POOL]).restore({})["msg"]
    assert msg == "not put back in lb/www, which load_balancer_azure_pools does not list any more"


def pool_of(arm, pool=POOL):
    return arm.resources[pool.lower()]["properties"]["loadBalancerBackendAddresses"]


def test_a_host_that_was_removed_from_its_pool_meanwhile_is_not_said_to_be_back(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}})
    web1 = host()
    web1.drain({})
    [removed] = [each for each in pool_of(arm) if each["name"] == "a"]
    pool_of(arm).remove(removed)
    clock.now += 600  # of its maintenance
    with pytest.raises(DrainError, match=r"^web1 cannot return to lb/www, which does not have it any more\. Add it"):
        web1.restore({})
    assert web1.record.read().holders == ["respond"]
    again = copy.deepcopy({**removed, "name": "added again"})
    pool_of(arm).append(again)
    clock.now += 600
    with pytest.raises(DrainError, match=r"lb/www, which has it as another member that is Down\. Set its admin"):
        web1.restore({})
    assert web1.record.read().holders == ["respond"]
    again["properties"]["adminState"] = "None"
    clock.now += 600
    assert web1.restore({})["msg"] == ""


def test_a_host_whose_pool_of_a_gateway_was_removed_meanwhile_is_not_said_to_be_back(arm, host, clock):
    arm.add_gateway(["10.0.0.4"])
    web1 = host(product=ApplicationGateway, pools=[GATEWAY_POOL])
    web1.drain({})
    arm.resources[GATEWAY.lower()]["properties"]["backendAddressPools"].clear()
    clock.now += 600
    with pytest.raises(DrainError, match="web1 cannot return to gw/web, which does not have it any more"):
        web1.restore({})
    assert web1.record.read().holders == ["respond"]


def test_a_rule_without_a_probe_is_refused_because_it_ignores_the_admin_state(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, probe=False)
    with pytest.raises(DrainError, match=r"the rules http of .* have no health probe"):
        host().drain({})
    assert arm.count("PUT") == 0


@pytest.mark.parametrize(("product", "pool"), [(LoadBalancer, POOL), (ApplicationGateway, GATEWAY_POOL)])
def test_a_host_that_is_in_no_pool_is_refused_and_not_noted(arm, host, product, pool):
    arm.add_balancer({"b": {"ipAddress": "10.0.0.5"}})
    arm.add_gateway(["10.0.0.5"])
    web1 = host(product=product, pools=[pool])
    with pytest.raises(DrainError, match=r"web1 is not a member of .*: correct load_balancer_azure_pools"):
        web1.drain({})
    assert not web1.record.read().holders


def test_an_id_that_is_not_a_pool_is_refused(host):
    with pytest.raises(ArmError, match=r"'www' is not the id of a backend pool, expected /subscriptions/"):
        host(pools=["www"]).drain({})


@pytest.mark.parametrize(
    ("status", "code"),
    [(409, "AnotherOperationInProgress"), (412, "PreconditionFailed"), (429, "RetryableError"), (503, "x")],
)
def test_a_write_that_met_another_one_is_read_again_and_written_again(arm, host, status, code):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    left = iter(range(2))

    def meet(method, _path, _body):
        if method == "PUT" and next(left, None) is not None:
            raise Refused(status, code, "")

    arm.answers.append(meet)
    host().drain({})
    assert arm.states() == {"a": "Down"}
    assert arm.count("PUT") == 3


def test_a_write_that_met_another_one_is_repeated_when_azure_asks_for_it_and_says_once_what_to_do(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    times = []

    def refuse(method, *_):
        if method == "PUT":
            times.append(clock.now)
            raise Refused(429, "RetryableError", "Please try again after '120' seconds.")

    arm.answers.append(refuse)
    with pytest.raises(DrainError, match=r"Please try again after '120' seconds\. Wait until the change has ended"):
        host().drain({})
    assert times == [1000, 1120, 1240, 1360, 1480]


def test_the_change_of_another_client_between_read_and_write_is_kept(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}})
    others = iter([1])

    def write_before(method, path, _body):
        if method == "PUT" and next(others, None):
            own = arm.resources[path.lower()]
            own["etag"] = 'W/"other"'
            own["properties"]["loadBalancerBackendAddresses"][1]["properties"]["adminState"] = "Up"

    arm.answers.append(write_before)
    host().drain({})
    assert arm.states() == {"a": "Down", "b": "Up"}


def test_a_resource_without_an_etag_is_not_written_since_that_could_undo_the_change_of_another_client(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm.resources[POOL.lower()].pop("etag")
    web1 = host()
    with pytest.raises(DrainError, match="/www was read without the etag that a change needs"):
        web1.drain({})
    assert (arm.count("PUT"), web1.record.read().holders) == (0, [])


def test_a_change_that_azure_could_not_provision_is_a_failure(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})

    def fail(method, _path, body):
        if method == "PUT":
            body["properties"]["provisioningState"] = "Failed"

    arm.answers.append(fail)
    with pytest.raises(DrainError, match=r"its provisioning state is Failed. Check the activity log"):
        host().drain({})


@pytest.mark.parametrize("broken", ["GET", "PUT"])
@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_connection_that_breaks_during_a_change_fails_no_drain(arm, host, broken, is_carried_out):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    left = iter([1])

    def break_once(method, path, body):
        if method == broken and (broken == "PUT" or arm.count("PUT")) and next(left, None):
            if broken == "PUT" and is_carried_out:
                arm._put(path, body)
            raise ConnectionResetError("Connection reset by peer")

    arm.answers.append(break_once)
    assert host().drain({})["changed"]
    assert arm.states() == {"a": "Down"}


def test_a_write_that_the_service_lost_is_sent_again_also_if_an_earlier_change_had_failed(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm.resources[POOL.lower()]["properties"]["provisioningState"] = "Failed"
    left = iter([1])

    def lose_once(method, _path, body):
        if method == "PUT" and next(left, None):
            raise Refused(503, "ServiceUnavailable", "")
        if method == "PUT":
            body["properties"]["provisioningState"] = "Succeeded"

    arm.answers.append(lose_once)
    host().drain({})
    assert arm.states() == {"a": "Down"}


def test_the_role_waits_for_the_change_of_another_client_and_names_a_resource_that_stays_busy(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm._updating[POOL.lower()] = 10**9
    began = clock.now
    with pytest.raises(DrainError, match="was not changed within 600 s: its provisioning state is Updating"):
        host().drain({})
    assert 595 <= clock.now - began <= 600
    assert arm.count("PUT") == 0


def test_connections_that_got_less_time_than_azure_gives_are_a_failure_unless_it_is_to_continue(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, drainPeriodInSeconds=500)
    result = host().drain({})
    assert result["failed"]
    assert "of 500 s to end" in result["msg"]
    result = host(on_timeout="continue", drain_timeout=0.0).drain({})
    assert not result.get("failed")
    assert "its connections had 0 s of 500 s to end. load_balancer_drain_timeout is " in result["msg"]


def test_a_host_that_a_user_put_back_during_the_drain_is_named(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host(wait_at_most=40.0)
    resume = web1.drain(web1.drain({})["resume"])["resume"]
    arm.resources[POOL.lower()]["properties"]["loadBalancerBackendAddresses"][0]["properties"]["adminState"] = "None"
    with pytest.raises(DrainError, match="Another program put it back into lb/www"):
        web1.drain(resume)


def test_a_member_that_another_program_added_during_the_drain_is_named(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host(wait_at_most=40.0)
    resume = web1.drain(web1.drain({})["resume"])["resume"]
    members = arm.resources[POOL.lower()]["properties"]["loadBalancerBackendAddresses"]
    members.append({"name": "b", "properties": nic_member(NIC)})
    with pytest.raises(DrainError, match="Another program put it back into lb/www"):
        web1.drain(resume)


def test_in_check_mode_nothing_is_written_and_the_plan_is_shown(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host(simulate=True)
    assert web1.drain({}) == {"changed": True, "msg": "would take it out of lb/www", "resume": {}}
    assert arm.count("PUT") == 0
    assert not web1.record.read().holders
    host().drain({})
    assert host(holder="other", simulate=True).drain({})["msg"] == ""


def test_the_second_holder_brings_the_host_back(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    respond, maintenance = host(), host(holder="rolling_maintenance")
    respond.drain({})
    maintenance.drain({})
    respond.restore({})
    assert arm.states() == {"a": "Down"}
    maintenance.restore({})
    assert arm.states() == {"a": "None"}


def test_a_return_that_azure_refuses_holds_no_other_holder_up_and_is_finished_by_the_next_run(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host()
    web1.drain({})

    def refuse(method, _path, _body):
        if method == "PUT":
            raise Refused(403, "AuthorizationFailed", "no right to write")

    arm.answers.append(refuse)
    with pytest.raises(DrainError, match="no right to write"):
        web1.restore({})
    assert (web1.record.read().holders, web1.record.returning()) == (["respond"], None)
    arm.answers.remove(refuse)
    web1.restore({})
    assert arm.states() == {"a": "None"}
    assert not web1.record.read().holders


@pytest.mark.parametrize("wait_at_most", [0.0, 10.0])
def test_a_pool_that_is_gone_keeps_the_host_out_of_no_other_pool_and_is_a_problem(arm, host, clock, wait_at_most):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm.add_balancer({"x": {"ipAddress": "10.0.0.4"}}, pool=OTHER_POOL)
    web1 = host(pools=[OTHER_POOL, POOL], wait_at_most=wait_at_most)
    to_the_end(web1.drain)
    kept = arm.resources.pop(OTHER_POOL.lower())
    clock.now += 600
    with pytest.raises(DrainError, match=f"^GET {OTHER_POOL} was answered 404"):
        to_the_end(web1.restore)
    assert arm.states() == {"a": "None"}
    assert web1.record.read().holders == ["respond"]
    arm.resources[OTHER_POOL.lower()] = kept
    to_the_end(web1.restore)
    assert arm.states(OTHER_POOL) == {"x": "None"}
    assert not web1.record.read().holders


def test_a_return_with_a_pool_that_is_gone_says_that_another_holder_came_whose_host_may_get_traffic(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm.add_balancer({"x": {"ipAddress": "10.0.0.4"}}, pool=OTHER_POOL)
    web1 = host(pools=[OTHER_POOL, POOL])
    web1.drain({})
    del arm.resources[OTHER_POOL.lower()]
    clock.now += 600

    def come(method, *_):
        if method == "PUT":
            take_note(web1.record, {**DEFAULTS, "state": "held", "holder": "patch", "found": {}, "wait": 0})

    arm.answers.append(come)
    with pytest.raises(DrainError, match="It may get traffic, but it stays drained for patch"):
        web1.restore({})
    assert web1.record.read().holders == ["patch"]


def test_a_resumed_return_that_cannot_read_its_pool_holds_no_other_holder_up(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    web1 = host(wait_at_most=10.0)
    to_the_end(web1.drain)
    resume = web1.restore({})["resume"]
    clock.now += 61

    def refuse(*_):
        raise Refused(403, "AuthorizationFailed", "no right to read")

    arm.answers.append(refuse)
    with pytest.raises((DrainError, ArmError), match="no right to read"):
        web1.restore(resume)
    assert (web1.record.read().holders, web1.record.returning()) == (["respond"], None)


@pytest.mark.parametrize("place", ["flag", "lb1/www", "found"])
def test_what_another_provider_noted_of_the_host_is_named_and_left_to_it(arm, host, place):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    maintenance = host(holder="rolling_maintenance")
    take_note(maintenance.record, {**DEFAULTS, "state": "held", "holder": "respond", "found": {place: "ready"}})
    maintenance.drain({})
    assert arm.states() == {"a": "Down"}
    host().restore({})
    msg = maintenance.restore({})["msg"]
    assert msg == f"not put back in {place}, which load_balancer_azure_pools does not list any more"
    assert arm.states() == {"a": "None"}


def test_in_check_mode_a_return_writes_nothing_and_names_the_pools(arm, host):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    host().drain({})
    written = arm.count("PUT")
    planned = host(simulate=True).restore({})
    assert planned == {"changed": True, "msg": "would put it back into lb/www", "resume": {}}
    assert arm.count("PUT") == written


# Application Gateway


def test_addresses_of_a_host_leave_the_gateway_and_return_to_it(arm, host, clock):
    arm.add_gateway(["10.0.0.4", "10.0.0.5"], draining=45)
    web1 = host(product=ApplicationGateway, pools=[GATEWAY_POOL])
    began = clock.now
    web1.drain({})
    assert arm.addresses() == ["10.0.0.5"]
    assert 45 <= clock.now - began < 75
    web1.drain({})
    assert arm.count("PUT", GATEWAY) == 1
    web1.restore({})
    assert sorted(arm.addresses()) == ["10.0.0.4", "10.0.0.5"]


def test_pools_of_one_gateway_whose_ids_are_spelled_differently_are_all_left(arm, host):
    arm.add_gateway(["10.0.0.4", "10.0.0.5"])
    gateway = arm.resources[GATEWAY.lower()]["properties"]
    [first] = gateway["backendAddressPools"]
    second = {**copy.deepcopy(first), "id": f"{GATEWAY}/backendAddressPools/api", "name": "api"}
    gateway["backendAddressPools"].append(second)
    spelled = second["id"].replace("/gw/", "/GW/")
    web1 = host(product=ApplicationGateway, pools=[GATEWAY_POOL, spelled], drain_time=0.0)
    web1.drain({})
    pools = arm.resources[GATEWAY.lower()]["properties"]["backendAddressPools"]
    left = [[each["ipAddress"] for each in pool["properties"]["backendAddresses"]] for pool in pools]
    assert left == [["10.0.0.5"], ["10.0.0.5"]]
    web1.restore({})
    assert sorted(arm.addresses()) == ["10.0.0.4", "10.0.0.5"]


def test_a_drain_finds_its_members_when_another_holder_has_put_the_host_back_meanwhile(arm, host):
    arm.add_gateway(["10.0.0.4", "10.0.0.5"])
    operator = host(product=ApplicationGateway, pools=[GATEWAY_POOL], holder="operator")

    def return_meanwhile():
        if operator.record.read().holders == ["operator"]:
            operator.restore({})

    respond = host(product=ApplicationGateway, pools=[GATEWAY_POOL], holder="respond", before_note=return_meanwhile)
    operator.drain({})
    assert respond.drain({})["changed"]
    assert arm.addresses() == ["10.0.0.5"]
    respond.restore({})
    assert sorted(arm.addresses()) == ["10.0.0.4", "10.0.0.5"]


def test_what_another_program_put_back_while_the_holder_was_noted_is_found_as_it_is_then(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4", "adminState": "Down"}})
    member = arm.resources[POOL.lower()]["properties"]["loadBalancerBackendAddresses"][0]["properties"]

    def put_back():
        clock.now += 0.5
        member["adminState"] = "None"

    host(before_note=put_back).drain({})
    host().restore({})
    assert arm.states() == {"a": "None"}


@pytest.mark.parametrize("target", [NIC, INSTANCE])
def test_interfaces_of_vms_and_instances_leave_the_gateway_and_return_to_it(arm, host, target):
    arm.add_gateway()
    references = [{"id": GATEWAY_POOL}, {"id": f"{GATEWAY_POOL}-other"}]
    own = {"name": "main", "properties": {"applicationGatewayBackendAddressPools": references}}
    if target == NIC:
        arm.put(NIC, properties={"ipConfigurations": [own]})
        me = Me([NIC], [])
    else:
        interfaces = [{"name": "nic", "properties": {"ipConfigurations": [own]}}]
        arm.put(INSTANCE, properties={"networkProfileConfiguration": {"networkInterfaceConfigurations": interfaces}})
        me = Me([f"{INSTANCE}/networkInterfaces/nic"], [])

    def pools_of():
        return [
            each["id"]
            for configuration in arm._all_configurations()
            for each in configuration["properties"]["applicationGatewayBackendAddressPools"]
        ]

    web1 = host(product=ApplicationGateway, pools=[GATEWAY_POOL], me=me, drain_time=0.0)
    web1.drain({})
    assert pools_of() == [f"{GATEWAY_POOL}-other"]
    assert arm.count("PUT", GATEWAY) == 0
    web1.restore({})
    assert sorted(pools_of()) == [GATEWAY_POOL, f"{GATEWAY_POOL}-other"]


# A host that writes its record itself


def rewrite(directory, was, becomes):
    """Change the record as root on the host can."""
    changed = [path for path in directory.iterdir() if path.is_file() and was in path.read_text()]
    for path in changed:
        path.write_text(path.read_text().replace(was, becomes))
    assert changed


@pytest.mark.parametrize("again", ["restore", "drain"])
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (f"{POOL} {POOL} a", f"{POOL} {POOL} b"),
        (f"{POOL} {POOL} a", f"{OTHER_POOL} {POOL} a"),
        (f"{POOL} {POOL} a", f".evil.example/x/y {POOL} a"),
        (': "None"', ': "Evil"'),
        (': "None"', ': ["Down"]'),
    ],
    ids=["another member", "another pool", "another server", "no state of Azure", "no text"],
)
def test_the_record_of_a_host_changes_no_other_member_of_a_pool(arm, host, tmp_path, again, was, becomes):
    for pool in (POOL, OTHER_POOL):
        arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}}, pool=pool)
    host().drain({})
    rewrite(tmp_path / "web1", was, becomes)
    before = len(arm.calls)
    with pytest.raises(DrainError, match=r"^The record of web1 names [ab] in .*, which is not what this host was"):
        getattr(host(), again)({})
    assert {method for method, _path in arm.calls[before:]} <= {"GET"}
    assert not [path for _method, path in arm.calls if "evil" in path]
    assert (arm.states(), arm.states(OTHER_POOL)) == ({"a": "Down", "b": "None"}, {"a": "None", "b": "None"})


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("10.0.0.4", "10.6.6.6"),
        ('{"ipAddress": "10.0.0.4"}', '{"ipAddress": "10.6.6.6"}'),
        ('"ipAddress": "10.0.0.4"', '"ipAddress": "10.0.0.4", "fqdn": "evil.example"'),
        (f"{GATEWAY} {GATEWAY_POOL} 10.0.0.4", f"{NIC}2 {GATEWAY_POOL} {NIC}2/ipConfigurations/main"),
        ('{"ipAddress": "10.0.0.4"}', "true"),
        ('{"ipAddress": "10.0.0.4"}', "{}"),
        ('{"ipAddress": "10.0.0.4"}', '{"evil": "10.0.0.4"}'),
        ('{"ipAddress": "10.0.0.4"}', '{"ipAddress": "10.0.0.4", "evil": ""}'),
    ],
    ids=[
        *("another address", "another value", "a name besides", "the interface of another VM"),
        *("no entry", "an empty entry", "another key", "a key besides"),
    ],
)
def test_the_record_of_a_host_brings_no_other_member_into_a_gateway(arm, host, tmp_path, was, becomes):
    arm.add_gateway(["10.0.0.4", "10.0.0.5"])
    web1 = host(product=ApplicationGateway, pools=[GATEWAY_POOL])
    web1.drain({})
    rewrite(tmp_path / "web1", was, becomes)
    with pytest.raises(DrainError, match=r"^The record of web1 names .*, which is not what this host was there\."):
        web1.restore({})
    assert arm.addresses() == ["10.0.0.5"]


# Many hosts


@pytest.mark.parametrize(("tick", "most_reads"), [(0.0, 105), (1e-4, 300)])  # all hosts begin at once, or one by one
def test_200_hosts_of_one_pool_in_batches_of_10_take_one_write_each_way_per_batch_and_throttling_loses_none(
    arm, host, clock, tick, most_reads
):
    """The number of calls is what the guide says of it."""
    names = [f"web{number}" for number in range(200)]
    arm.add_balancer({name: {"ipAddress": f"10.0.{index}.4"} for index, name in enumerate(names)})
    arm.throttle_every(7)
    clock.tick = tick
    answered = []
    handle = arm.handle
    arm.handle = lambda *request: answered.append(handle(*request)) or answered[-1]
    own = {"hosts": 10, "quiet": math.inf, "sleep": clock.together(10), "drain_timeout": 1e9}
    make = {name: host(name, me=Me([], [f"10.0.{index}.4"]), **own) for index, name in enumerate(names)}
    with concurrent.futures.ThreadPoolExecutor(10) as batch:
        for start in range(0, 200, 10):
            hosts = names[start : start + 10]
            results = list(batch.map(lambda name: make[name].drain({}), hosts))
            assert all(result["changed"] and not result.get("failed") for result in results)
            assert [name for name, state in arm.states().items() if state == "Down"] == hosts
            list(batch.map(lambda name: make[name].restore({}), hosts))
    assert set(arm.states().values()) == {"None"}
    accepted = [call[0] for call, (status, _body) in zip(arm.calls, answered) if status != 429]
    assert accepted.count("PUT") == 40
    assert 105 <= accepted.count("GET") <= most_reads


# Which hosts are out


@pytest.fixture
def look(arm, clock, tmp_path):
    """Return a function that looks for hosts, each with its pools and what it is there."""

    def run(product, hosts):
        transport = transport_to(arm, clock)

        def orders(target):
            return Orders(tmp_path / "run", target, hosts=1, clock=clocks.Clock(clock, clock, clock.sleep))

        return survey(product(functools.cache(Resources(transport, orders, timeout=0).look)), hosts)

    return run


def in_pools(address, *pools):
    return pools, Me([], [address] if address else [])


def test_hosts_that_are_down_in_a_pool_or_in_none_are_out_and_each_resource_is_read_once(arm, look):
    members = {f"in {number}": {"ipAddress": f"10.0.1.{number}"} for number in range(50)}
    members.update({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5", "adminState": "Down"}})
    arm.add_balancer(members)
    arm.put(OTHER_POOL, properties={"loadBalancerBackendAddresses": []})
    hosts = {
        "down": in_pools("10.0.0.5", POOL),
        "in none": in_pools("10.0.0.6", POOL),
        "in one of two": in_pools("10.0.0.4", POOL, OTHER_POOL),
        **{f"in {number}": in_pools(f"10.0.1.{number}", POOL) for number in range(50)},
    }
    assert look(LoadBalancer, hosts) == (["down", "in none", "in one of two"], [])
    assert sorted(path for _method, path in arm.calls) == sorted([POOL, OTHER_POOL, BALANCER])
    look(LoadBalancer, hosts)  # by another process of the same run
    assert len(arm.calls) == 3


def test_hosts_that_are_removed_from_the_gateway_are_out(arm, look):
    arm.add_gateway(["10.0.0.4"])
    hosts = {"web1": in_pools("10.0.0.4", GATEWAY_POOL), "web2": in_pools("10.0.0.5", GATEWAY_POOL)}
    assert look(ApplicationGateway, hosts) == (["web2"], [])
    assert arm.calls == [("GET", GATEWAY)]


@pytest.mark.parametrize(("product", "pool"), [(LoadBalancer, POOL), (ApplicationGateway, GATEWAY_POOL)])
def test_two_hosts_that_are_the_same_member_of_a_pool_are_refused(arm, look, product, pool):
    arm.add_balancer({"10.0.0.4": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}})
    arm.add_gateway(["10.0.0.4", "10.0.0.5"])
    hosts = {"web1": in_pools("10.0.0.4", pool, pool), "web2": in_pools("10.0.0.5", pool)}
    assert look(product, hosts) == ([], [])
    hosts["web3"] = in_pools("10.0.0.4", pool.replace("resourceGroups", "resourcegroups"))
    message = r"^web1 and web3 are both the server 10\.0\.0\.4 on .*, expected .* Correct load_balancer_azure_network"
    with pytest.raises(DrainError, match=message):
        look(product, hosts)


def test_a_host_without_pools_or_identity_is_unknown_and_not_in(arm, look):
    arm.add_balancer({"a": {"networkInterfaceIPConfiguration": {"id": "x"}}})
    assert look(LoadBalancer, {"web1": in_pools("10.0.0.4"), "web2": in_pools("", POOL)}) == ([], ["web1", "web2"])
    assert arm.calls == []


@pytest.mark.parametrize(
    ("product", "pool", "probe", "message"),
    [
        (LoadBalancer, POOL, False, "the rules http of .* have no health probe"),
        (LoadBalancer, OTHER_POOL, True, "was not found"),
        (ApplicationGateway, f"{GATEWAY_POOL}2", True, "does not exist"),
        (ApplicationGateway, POOL, True, "is not the id of a backend pool"),
    ],
)
def test_a_pool_that_does_not_say_who_is_out_is_an_error(arm, look, product, pool, probe, message):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, probe=probe)
    arm.add_gateway(["10.0.0.4"])
    with pytest.raises((ArmError, DrainError), match=message):
        look(product, {"web1": in_pools("10.0.0.4", pool)})


@pytest.fixture
def slow_arm(arm):
    """Azure, which takes minutes for a change."""
    arm.updating_for = 80
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    return arm


@pytest.mark.usefixtures("slow_arm")
def test_connections_get_their_time_when_azure_has_carried_out_a_change_that_took_minutes(host, clock):
    result = host(drain_timeout=60.0, drain_time=45.0).drain({})
    assert (result["msg"], result.get("failed", False)) == ("", False)
    assert clock.now >= 1400 + 45


@pytest.mark.usefixtures("slow_arm")
@pytest.mark.parametrize(
    ("seconds", "problem"),
    [(60.0, "within 60 s: .* has ended, and run this task again$"), (0.0, "no time is left to send it")],
)
def test_a_change_that_takes_longer_than_the_time_there_is_fails_the_drain(host, clock, seconds, problem):
    with pytest.raises((DrainError, ArmError), match=problem):
        host(finish_within=seconds).drain({})
    assert clock.now <= 1000 + seconds + 5


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize(("status", "pause"), [(503, ""), (429, "Please try again after '20' seconds.")])
def test_a_drain_that_azure_refuses_for_the_moment_ends_with_the_time_there_is(arm, host, clock, method, status, pause):
    def answer(asked, _path, _body):
        if asked == method:
            raise Refused(status, "Busy", pause)

    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    arm.answers.append(answer)
    with pytest.raises((DrainError, ArmError), match="Busy"):
        host(finish_within=60.0).drain({})
    assert clock.now <= 1060


def test_the_time_of_connections_ends_with_the_time_there_is(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    result = host(finish_within=50.0, drain_time=300.0).drain({})
    assert result["failed"]
    assert "s of 300 s to end. NotBefore or load_balancer_deadline left no more" in result["msg"]
    assert clock.now <= 1055


def test_a_continued_drain_ends_with_the_time_that_is_left_by_then(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}}, drainPeriodInSeconds=300)
    resume = host(wait_at_most=40.0).drain(host(wait_at_most=40.0).drain({})["resume"])["resume"]
    began = clock.now
    assert host(wait_at_most=40.0, finish_within=10.0).drain(resume)["failed"]
    assert clock.now - began == pytest.approx(10.0 - Pooled.LAST_LOOK)


@pytest.mark.parametrize(("step", "rests"), [(-5000.0, 45.0), (5000.0, 0.0)])
def test_a_clock_that_is_set_neither_prolongs_the_time_of_connections_nor_fails(arm, host, clock, step, rests):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}})
    continued = host(wait_at_most=1.0, drain_time=45.0)
    resume = continued.drain(continued.drain({})["resume"])["resume"]
    clock.now += step
    began = clock.now
    assert not host(drain_time=45.0).drain(resume).get("failed")
    assert clock.now == began + rests


def test_a_host_with_more_time_carries_out_the_orders_when_one_with_less_has_given_up(slow_arm, host):
    slow_arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}})
    urgent = host(hosts=2, quiet=0.5, finish_within=30.0, wait_at_most=1000.0)
    patient = host("web2", me=Me([], ["10.0.0.5"]), hosts=2, quiet=0.5, wait_at_most=1000.0)
    orders = [each.drain({})["resume"] for each in (urgent, patient)]
    with pytest.raises(DrainError, match="was not changed within 30 s"):
        urgent.drain(orders[0])
    assert not patient.drain(orders[1]).get("failed")
    assert slow_arm.states()["b"] == "Down"


def test_a_return_that_is_continued_finds_what_another_host_has_carried_out_for_it(arm, host, clock):
    arm.add_balancer({"a": {"ipAddress": "10.0.0.4"}, "b": {"ipAddress": "10.0.0.5"}})
    how = {"hosts": 2, "quiet": 0.5, "wait_at_most": 1000.0}
    hosts = [host(**how), host("web2", me=Me([], ["10.0.0.5"]), **how)]
    for each, stage in [(each, each.drain({})["resume"]) for each in hosts]:
        each.drain(stage)
    first, second = (each.restore({})["resume"] for each in hosts)
    hosts[0].restore(first)
    assert arm.states() == {"a": "None", "b": "None"}
    began = clock.now
    assert hosts[1].restore(second)["resume"] == {}
    assert clock.now == began
