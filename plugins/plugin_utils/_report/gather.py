# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts of a play registered, as facts. Private to the collection."""

from __future__ import annotations

import contextlib
import json
import typing as t
from pathlib import Path

import yaml
from ansible.errors import AnsibleError

from ...module_utils._scheduled_events.history import Fact, parse_all
from ...module_utils._scheduled_events.text import counted, shown
from .._ansible.other_host import failure_in

ROOT = Path(__file__).resolve().parents[3]
LONGEST_NAME, LONGEST_REASON = 256, 400  # characters of the name of a host, and of a reason
MOST_REASONS = 10  # of a host
NOT_READ = (
    "its history was not read: {} is not a result of scheduled_events_history_info. The host failed or cannot be "
    "reached, or no task registers this variable"
)


def histories_of(
    hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], variable: str
) -> tuple[dict[str, list[Fact]], dict[str, list[str]]]:
    """The facts of each host, and by host why facts are missing.

    :param variable: with the result of scheduled_events_history_info.
    """
    histories: dict[str, list[Fact]] = {}
    unread: dict[str, list[str]] = {}
    for name in hosts:
        host = shown(name, LONGEST_NAME)
        read = hostvars[name].get(variable)
        if not isinstance(read, t.Mapping) or not isinstance(read.get("facts"), list):
            failure = NOT_READ.format(variable)
            if isinstance(read, t.Mapping) and "facts" not in read:
                failure = failure_in(read)
            unread[host] = [shown(failure, LONGEST_REASON)]
            continue
        histories[host], reasons = _facts_of(read)
        unread[host] = [shown(reason, LONGEST_REASON) for reason in reasons]
    return histories, {host: reasons for host, reasons in unread.items() if reasons}


def vm_names_of(
    hosts: t.Sequence[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], histories: t.Mapping[str, list[Fact]]
) -> dict[str, str]:
    """By host, the name of its VM in Azure: as the inventory or the history says, or else that of the host."""
    of_facts = {host: fact.vm_name for host, facts in histories.items() for fact in facts if fact.vm_name}
    given = variable_of(hosts, hostvars, "scheduled_events_vm_name")
    shown_hosts = [shown(name, LONGEST_NAME) for name in hosts]
    return {host: str(given.get(host) or of_facts.get(host, host)) for host in shown_hosts}


def variable_of(
    hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], variable: str
) -> dict[str, t.Any]:
    """By host, the value of a variable, where it can be read."""
    values = {}
    for name in hosts:
        # A template, or a variable of another meaning, can need what is unknown.
        with contextlib.suppress(AnsibleError):
            values[shown(name, LONGEST_NAME)] = hostvars[name].get(variable)
    return values


def _facts_of(read: t.Mapping[str, t.Any]) -> tuple[list[Fact], list[str]]:
    """The facts that a host returned, and why others are missing. The host can return anything."""
    facts, wrong = parse_all(read["facts"])
    problems = read.get("problems")
    reasons = [str(problem) for problem in problems[:MOST_REASONS]] if isinstance(problems, list) else []
    if wrong:
        reasons.append(f"{counted(len(wrong), 'fact')} left out. The first: {wrong[0]}")
    return facts, reasons


def collection_version() -> str:
    """The version of this collection, also of a checkout."""
    try:
        return str(json.loads((ROOT / "MANIFEST.json").read_text())["collection_info"]["version"])
    except FileNotFoundError:
        return str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"])
