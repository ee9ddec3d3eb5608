# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts a play has, and in which order it runs them. Private to the collection."""

from __future__ import annotations

import inspect
import typing as t
from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins import strategy as own_strategies
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import lookup_loader, strategy_loader
from ansible.utils.helpers import pct_to_int

BUILTIN = "ansible.builtin."
# Known by its file: the name of its module depends on how a play was the first to name the strategy.
FOLDER = Path(inspect.getfile(own_strategies)).parent.resolve()
FREE, PINNED = FOLDER / "free.py", FOLDER / "host_pinned.py"


def runs_each_host_alone(strategy: str) -> bool:
    """Whether a host never waits for the others: the strategies ``free`` and ``host_pinned``, and what is made of them.

    A strategy of a collection is known by its class, and not by its name.
    """
    return FREE in _files_of(strategy)


def pins_hosts(strategy: str) -> bool:
    """Whether a host keeps its fork until its play has ended, as with ``host_pinned``."""
    return PINNED in _files_of(strategy)


def _files_of(strategy: str) -> set[Path]:
    """The files of the classes that a strategy is made of."""
    name = strategy[len(BUILTIN) :] if strategy.startswith(BUILTIN) else strategy
    if name == "linear":
        return set()  # without loading anything
    found = strategy_loader.get(name, class_only=True)
    classes = [each for each in found.__mro__ if each.__module__ != "builtins"] if found else []
    return {Path(inspect.getfile(each)).resolve() for each in classes}


def batches(hosts: t.Sequence[str], serial: t.Sequence[int | str]) -> list[list[str]]:
    """The hosts of each batch of a play that does not change their order.

    :param serial: the keyword of the play. Its last size repeats; without a size, all hosts are one batch.
    """
    found: list[list[str]] = []
    left, sizes = list(hosts), list(serial) or [0]
    while left:
        size = pct_to_int(sizes[min(len(found), len(sizes) - 1)], len(hosts))
        found.append(left[:size] if size > 0 else left)
        left = left[len(found[-1]) :]
    return found


def left_out_by_limit(action: ActionBase, variables: t.Mapping[str, t.Any]) -> list[str]:
    """The hosts that the play of a task would also have without ``--limit``."""
    if not variables.get("ansible_limit"):
        return []
    lookup = lookup_loader.get("ansible.builtin.inventory_hostnames", loader=action._loader, templar=action._templar)
    named = lookup.run(action._task.get_play().hosts, variables)  # by the groups, which --limit does not change
    return [host for host in named if host not in variables["ansible_play_hosts_all"]]


def refuse_sharing(task: t.Any, role: str, *, run_once: bool = True) -> None:
    """Refuse keywords with which a role is not for each host by itself.

    :param run_once: whether this one, too.
    :raises AnsibleActionFail: one is set.
    """
    name = "delegate_to" if task.delegate_to else "run_once" if run_once and task.run_once else ""
    if name:
        raise AnsibleActionFail(
            f"{name} is set for the role {role}, which is for each host by itself: one result would count for several "
            "hosts. Remove the keyword from the role, its block, or apply"
        )


def refuse_late_hosts(*, strategy: str, serial: t.Sequence[int | str], hosts: int, forks: int) -> None:
    """Refuse a play that begins with some of its hosts only when others have ended.

    The first ones would wait until their events are over, and events of the others would start unprepared.

    :param serial: the keyword of the play.
    :param hosts: how many the play has.
    :raises AnsibleActionFail: it does.
    """
    batch = pct_to_int(serial[0], hosts) if serial else 0
    why = "so an event that names a later host starts before this host is prepared, and is not acknowledged"
    if 0 < batch < hosts:
        raise AnsibleActionFail(
            f"serial is {serial[0]}, and the play has {hosts} hosts: the first batch ends when its events are over, "
            f"{why}. Remove serial from the play of the role respond"
        )
    if forks < hosts and pins_hosts(strategy):
        raise AnsibleActionFail(
            f"The strategy is {strategy}, and the play has {hosts} hosts and {forks} forks: a host keeps its fork "
            f"until its events are over, {why}. Use the strategy ansible.builtin.free, or at least {hosts} forks"
        )


def warning_of_few_forks(events: t.Iterable[t.Mapping[str, t.Any]], *, hosts: int, forks: int) -> str:
    """What to warn of when a host prepares for events; empty if nothing.

    An event of several hosts is acknowledged only after each of them had a fork for its preparation.

    :param events: as the module ``scheduled_events_turn`` returns them.
    :param hosts: how many the play has.
    """
    named = max((len(event["resources"]) for event in events), default=0)
    if named < 2 or forks >= hosts:
        return ""
    return (
        f"An event names {named} VMs, and the play has {hosts} hosts and {forks} forks: the event is not acknowledged "
        "before each of its hosts had a fork to prepare. Use --forks "
        f"{hosts}, or --limit with the hosts of the event"
    )
