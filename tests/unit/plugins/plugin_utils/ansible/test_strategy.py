# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import sys
import types

import pytest
from ansible.errors import AnsibleActionFail
from ansible.executor.playbook_executor import PlaybookExecutor
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import strategy_loader

from plugins.plugin_utils._ansible.strategy import (
    batches,
    left_out_by_limit,
    pins_hosts,
    refuse_late_hosts,
    refuse_sharing,
    runs_each_host_alone,
    warning_of_few_forks,
)

pytestmark = pytest.mark.core

STRATEGY = """
DOCUMENTATION = "name: {}"
from ansible.plugins.strategy.{} import StrategyModule as Kin

class StrategyModule(Kin):
    pass
"""
OWN = {
    "freedom.ops.ordered": "linear",
    "freedom.ops.free": "linear",
    "freedom.ops.unpinned": "linear",
    "freedom.ops.quick": "free",
    "freedom.ops.sticky": "host_pinned",
}


@pytest.fixture(scope="module", autouse=True)
def _collection(collections):
    """A collection with strategies whose names say nothing about what they do."""
    folder = collections / "ansible_collections/freedom/ops/plugins/strategy"
    folder.mkdir(parents=True)
    for name, kin in OWN.items():
        (folder / f"{name.rpartition('.')[2]}.py").write_text(STRATEGY.format(name, kin))


@pytest.mark.parametrize(
    ("strategy", "alone", "pinned"),
    [
        ("free", True, False),
        ("ansible.builtin.free", True, False),
        ("ansible.legacy.free", True, False),
        ("host_pinned", True, True),
        ("ansible.builtin.host_pinned", True, True),
        ("ansible.legacy.host_pinned", True, True),
        ("linear", False, False),
        ("ansible.builtin.linear", False, False),
        ("debug", False, False),
        ("freedom.ops.ordered", False, False),
        ("freedom.ops.free", False, False),
        ("freedom.ops.unpinned", False, False),
        ("freedom.ops.quick", True, False),
        ("freedom.ops.sticky", True, True),
        ("freedom.ops.missing", False, False),
    ],
)
def test_a_strategy_is_known_by_its_exact_name_or_by_the_class_that_it_is_made_of(strategy, alone, pinned):
    assert (runs_each_host_alone(strategy), pins_hosts(strategy)) == (alone, pinned)


@pytest.mark.parametrize("prefix", ["", "ansible.builtin.", "ansible.legacy."])
def test_a_strategy_is_known_by_whatever_name_the_play_has_loaded_it(prefix, monkeypatch):
    monkeypatch.setattr(strategy_loader, "_module_cache", {})  # as at the start of Ansible, which caches by file
    for name in [name for name in sys.modules if name.endswith((".strategy.free", ".strategy.host_pinned"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("free", "host_pinned"):
        assert strategy_loader.get(prefix + name, class_only=True)
    assert runs_each_host_alone(f"{prefix}free")
    assert runs_each_host_alone(f"{prefix}host_pinned")
    assert not pins_hosts(f"{prefix}free")
    assert pins_hosts(f"{prefix}host_pinned")


@pytest.mark.parametrize("serial", [[], [0], [-1], [3], ["100%"], [5, 1]])
def test_a_play_that_runs_its_hosts_in_one_batch_is_accepted(serial):
    refuse_late_hosts(strategy="linear", serial=serial, hosts=3, forks=1)


@pytest.mark.parametrize(
    ("serial", "sizes"),
    [([], [8]), ([0], [8]), ([-1], [8]), ([3], [3, 3, 2]), (["25%"], [2, 2, 2, 2]), (["1", "1%", 4], [1, 1, 4, 2])],
)
def test_the_batches_are_those_of_ansible(serial, sizes):
    hosts = [f"web{number}" for number in range(8)]
    found = batches(hosts, serial)
    assert [len(batch) for batch in found] == sizes
    inventory = types.SimpleNamespace(get_hosts=lambda *_args, **_options: list(hosts))
    play = types.SimpleNamespace(hosts="all", order=None, serial=serial)
    assert found == PlaybookExecutor._get_serialized_batches(types.SimpleNamespace(_inventory=inventory), play)


@pytest.mark.parametrize("serial", [[1], ["50%"], [2, 3], ["1"]])
def test_a_play_in_batches_is_refused_with_the_way_out(serial):
    with pytest.raises(AnsibleActionFail, match=rf"^serial is {serial[0]}, and the play has 3 hosts.*Remove serial"):
        refuse_late_hosts(strategy="free", serial=serial, hosts=3, forks=50)


@pytest.mark.parametrize("strategy", ["host_pinned", "freedom.ops.sticky"])
def test_a_strategy_that_pins_hosts_is_refused_with_fewer_forks_than_hosts(strategy):
    refuse_late_hosts(strategy=strategy, serial=[], hosts=6, forks=6)
    with pytest.raises(AnsibleActionFail, match=r"6 hosts and 5 forks.*ansible\.builtin\.free, or at least 6 forks"):
        refuse_late_hosts(strategy=strategy, serial=[], hosts=6, forks=5)


@pytest.mark.parametrize("strategy", ["free", "linear"])
def test_a_strategy_whose_hosts_share_forks_is_accepted_with_few(strategy):
    refuse_late_hosts(strategy=strategy, serial=[], hosts=6, forks=1)


def test_an_event_of_several_hosts_warns_if_the_play_has_fewer_forks_than_hosts():
    events = [{"resources": ["vm1"]}, {"resources": ["vm1", "vm2", "vm3"]}]
    text = warning_of_few_forks(events, hosts=40, forks=5)
    assert text.startswith("An event names 3 VMs, and the play has 40 hosts and 5 forks: ")
    assert text.endswith("Use --forks 40, or --limit with the hosts of the event")


@pytest.mark.parametrize(("resources", "forks"), [([], 5), (["vm1"], 5), (["vm1", "vm2"], 40), (["vm1", "vm2"], 50)])
def test_an_event_of_one_host_and_a_play_with_enough_forks_do_not_warn(resources, forks):
    assert warning_of_few_forks([{"resources": resources}], hosts=40, forks=forks) == ""
    assert warning_of_few_forks([], hosts=40, forks=forks) == ""


@pytest.mark.parametrize(
    ("keywords", "refused"), [({"delegate_to": "lb1"}, "delegate_to"), ({"run_once": True}, "run_once")]
)
def test_a_keyword_with_which_a_result_counts_for_several_hosts_is_refused(keywords, refused):
    task = types.SimpleNamespace(**{"delegate_to": None, "run_once": False, **keywords})
    with pytest.raises(AnsibleActionFail, match=f"{refused} is set for the role respond"):
        refuse_sharing(task, "respond")


def test_run_once_is_accepted_where_each_host_can_be_the_only_one():
    refuse_sharing(types.SimpleNamespace(delegate_to=None, run_once=True), "load_balancer", run_once=False)


@pytest.mark.parametrize(
    ("pattern", "limit", "left_out"),
    [
        (["web"], None, []),
        (["web"], "web1", ["web2", "web3"]),
        (["web:!web3"], "web1", ["web2"]),
        (["web1", "db*"], "web1", ["db1"]),
        (["web1"], "web1", []),
        (["all"], "web1", ["web2", "web3", "db1"]),
    ],
)
def test_hosts_that_the_limit_leaves_out_are_those_of_the_pattern_of_the_play(pattern, limit, left_out):
    play = types.SimpleNamespace(hosts=pattern)
    task = types.SimpleNamespace(get_play=lambda: play)
    action = types.SimpleNamespace(_task=task, _loader=DataLoader(), _templar=None)
    web, db = ["web1", "web2", "web3"], ["db1"]
    variables = {"groups": {"all": [*web, *db], "web": web, "db": db}, "ansible_play_hosts_all": ["web1"]}
    if limit:
        variables["ansible_limit"] = limit
    assert left_out_by_limit(action, variables) == left_out
