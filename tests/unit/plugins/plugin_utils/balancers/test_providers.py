# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a task reaches the balancers of its host, the record on the host, and its pools."""

import math
import types

import pytest
from ansible.errors import AnsibleActionFail, AnsibleError

from plugins.plugin_utils._ansible import run
from plugins.plugin_utils._ansible.other_host import OtherHostError
from plugins.plugin_utils._balancers import providers
from plugins.plugin_utils._balancers.providers import RecordFailed

# The role has its default for each host, and the inventory what one balancer needs.
VARIABLES = {"hostvars": {"lb1": {}, "lb2": {"load_balancer_haproxy_socket": "/own.sock"}}}
OPTIONS = {"balancers": ["lb1", "lb2"], "socket": "/run/haproxy.sock", "become": True}
POOLS = {
    "state": "drained",
    "provider": "azure_load_balancer",
    "pools": ["/pool"],
    "network_interfaces": [],
    "addresses": [],
    "finish_within": -1,
    "operation_timeout": 900,
}


class Balancer:
    """A balancer that remembers what it was asked; ``closed``: whether its connection is."""

    def __init__(self, _action, name, _variables, *, become):
        self.name, self.become, self.closed, self.asked = name, become, False, []
        self.variables = {"load_balancer_haproxy_socket": "/default.sock"}

    def run(self, module, arguments, *, within):
        self.asked.append((module, arguments, within))
        return {"servers": []}

    def close(self):
        self.closed = True


@pytest.fixture
def balancers(monkeypatch):
    """The balancers to which there was a connection, by name."""
    connected, now = {}, 1000.0

    def connect(action, name, variables, *, become):
        assert name not in connected, "one connection is enough"
        connected[name] = Balancer(action, name, variables, become=become)
        return connected[name]

    monkeypatch.setattr(providers, "OtherHost", connect)
    monkeypatch.setattr(providers, "time", types.SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(providers, "Balancers", lambda _names, **how: types.SimpleNamespace(ask=how["ask"]))
    return connected


def action(check_mode=False, **arguments):
    return types.SimpleNamespace(_task=types.SimpleNamespace(args=arguments, check_mode=check_mode))


def ask(options, *questions):
    with providers.balancers_of(action(), VARIABLES, {**OPTIONS, **options}) as found:
        for name, more in questions:
            found.ask(name, "haproxy_servers", more)


def test_each_balancer_is_asked_over_one_connection_at_its_own_socket(balancers):
    ask({}, ("lb1", {"state": "drain"}), ("lb2", {}), ("lb1", {}))
    module = "maintops.scheduled_events.haproxy_servers"
    assert [each[:2] for each in balancers["lb1"].asked] == [
        (module, {"state": "drain", "socket": "/run/haproxy.sock"}),
        (module, {"socket": "/run/haproxy.sock"}),
    ]
    assert [each[:2] for each in balancers["lb2"].asked] == [(module, {"socket": "/own.sock"})]
    assert balancers["lb1"].become


def test_every_connection_is_closed_also_after_an_error(balancers, monkeypatch):
    def fail(*_arguments, **_more):
        raise OtherHostError("no route")

    monkeypatch.setattr(Balancer, "run", fail)
    with pytest.raises(OtherHostError):
        ask({}, ("lb1", {}))
    assert balancers["lb1"].closed


def test_no_balancer_is_asked_any_more_when_the_run_has_ended(balancers, monkeypatch):
    def end(*_arguments, **_more):
        monkeypatch.setattr(run, "main_process_has_ended", lambda: True)
        raise OtherHostError("Another program put it back while it was taken out")

    monkeypatch.setattr(Balancer, "run", end)
    with providers.balancers_of(action(), VARIABLES, OPTIONS) as found:
        with pytest.raises(OtherHostError):
            found.ask("lb1", "haproxy_servers", {"state": "drained"})
        with pytest.raises(AnsibleError, match="has ended"):
            found.ask("lb2", "haproxy_servers", {"state": "drained"})
    assert list(balancers) == ["lb1"]


@pytest.mark.parametrize(
    ("finish_within", "more", "within"),
    [
        (-1, {}, 120.0),
        (-1, {"timeout": 300}, 420.0),
        (50, {"timeout": 300}, 50.0),
        (500, {"timeout": 300}, 420.0),
        (2, {"timeout": 300}, 5.0),
        (0, {"timeout": 300}, 5.0),
    ],
)
def test_a_balancer_has_time_for_its_answer_but_no_longer_than_the_drain(balancers, finish_within, more, within):
    ask({"state": "drained", "finish_within": finish_within}, ("lb1", more))
    assert balancers["lb1"].asked[0][2] == within


def test_the_end_of_the_drain_does_not_limit_a_return(balancers):
    ask({"state": "active", "finish_within": 0}, ("lb1", {"timeout": 300}))
    assert balancers["lb1"].asked[0][2] == 420.0


def test_a_host_without_balancers_is_refused():
    with pytest.raises(AnsibleActionFail, match="balancers is empty"):
        ask({"balancers": []})


@pytest.fixture
def on_host(monkeypatch):
    """What the module on the host is given, and what it answers."""
    host = types.SimpleNamespace(given=[], answer={"changed": True})

    def run_for(_action, name, options, _variables):
        host.given.append((name, options))
        return host.answer

    monkeypatch.setattr(providers, "run_for", run_for)
    return host


@pytest.mark.parametrize("own", [{}, {"directory": "/state"}])
def test_the_record_is_in_the_directory_of_the_task(on_host, own):
    assert providers.record_on_host(action(state="drained", **own), {})({"state": "held"}) == {"changed": True}
    assert on_host.given == [("load_balancer", {"provider": "record", "state": "held", **own})]


@pytest.mark.parametrize("problem", ["failed", "unreachable"])
def test_a_record_that_the_host_did_not_write_ends_the_task_with_its_answer(on_host, problem):
    on_host.answer = {problem: True, "msg": "no space left"}
    with pytest.raises(RecordFailed) as failed:
        providers.record_on_host(action(), {})({"state": "held"})
    assert failed.value.args[0] == on_host.answer


def test_a_task_whose_run_has_ended_does_not_release_the_host_from_the_next_run(on_host, monkeypatch):
    record = providers.record_on_host(action(), {})
    record({"state": "held"})
    monkeypatch.setattr(run, "main_process_has_ended", lambda: True)
    with pytest.raises(AnsibleError, match="has ended"):
        record({"state": "returning"})
    assert len(on_host.given) == 1


@pytest.mark.parametrize(("given", "server"), [(None, "web1"), ("blue", "blue")])
def test_a_server_is_called_as_its_host_unless_it_has_another_name(monkeypatch, given, server):
    monkeypatch.setattr(providers, "Membership", lambda options, *_rest, simulate: (options["server"], simulate))
    made = providers.behind_haproxy(action(check_mode=True), {"inventory_hostname": "web1"}, {"server": given}, None)
    assert made == (server, True)


@pytest.mark.parametrize(
    ("state", "finish_within", "seconds"),
    [("drained", -1, math.inf), ("drained", 60, 60), ("drained", 0, 0), ("active", 0, math.inf)],
)
def test_the_time_that_is_left_is_that_of_the_drain_and_a_return_has_no_limit(
    monkeypatch, state, finish_within, seconds
):
    monkeypatch.setattr(providers.time, "monotonic", lambda: 100.0)
    left = providers.time_left({"state": state, "finish_within": finish_within})
    monkeypatch.setattr(providers.time, "monotonic", lambda: 110.0)
    assert left() == seconds - 10


def test_a_host_brings_its_pools_with_those_of_its_batch(monkeypatch):
    made = []

    def resources(_arm, **how):
        made.append(how)
        return types.SimpleNamespace(look=None)

    monkeypatch.setattr(providers, "resources_of_run", resources)
    monkeypatch.setattr(providers, "Pooled", lambda options, *_rest, simulate: (options["pools"], simulate))
    variables = {"inventory_hostname": "web1", "ansible_play_batch": ["web1", "web2"]}
    assert providers.in_pools(action(), variables, {**POOLS, "state": "drained"}, None) == (["/pool"], False)
    assert made == [{"hosts": 2, "timeout": 900}]


def test_all_processes_of_a_run_find_the_orders_for_azure_in_one_directory_of_the_run(monkeypatch):
    monkeypatch.setattr(providers.constants, "DEFAULT_LOCAL_TMP", "/of-this-run")
    monkeypatch.setattr(providers, "Orders", lambda directory, target, **how: (str(directory), target, how))
    monkeypatch.setattr(providers, "Resources", lambda _arm, orders, timeout: (orders("/pool"), timeout))
    made = providers.resources_of_run(types.SimpleNamespace(left="left"), hosts=3, timeout=60.0)
    assert made == (("/of-this-run/scheduled-events-arm", "/pool", {"hosts": 3, "left": "left"}), 60.0)


def test_a_host_without_pools_is_refused():
    with pytest.raises(AnsibleActionFail, match="pools is empty"):
        providers.in_pools(action(), {}, {**POOLS, "pools": []}, None)


@pytest.mark.parametrize(("left", "given"), [(math.inf, -1.0), (7.5, 7.5), (-3.0, 0.0)])
def test_a_second_call_gets_the_time_that_remains(left, given):
    assert providers.seconds_of(lambda: left) == given
