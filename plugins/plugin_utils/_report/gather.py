# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the hosts of a play registered, as facts. Private to the collection."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from ...module_utils._scheduled_events.history import Fact, FactError, parse

ROOT = Path(__file__).resolve().parents[3]


def histories_of(
    hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], variable: str
) -> tuple[dict[str, list[Fact]], dict[str, list[str]]]:
    """The facts of each host, and by host why facts are missing.

    :param variable: with the result of scheduled_events_history_info.
    """
    histories: dict[str, list[Fact]] = {}
    unread: dict[str, list[str]] = {}
    for host in hosts:
        read = hostvars[host].get(variable)
        if not isinstance(read, t.Mapping) or "facts" not in read:
            message = read.get("msg") if isinstance(read, t.Mapping) else None
            unread[host] = [str(message or "its history was not read, since the host failed or cannot be reached")]
            continue
        histories[host], unread[host] = [], [str(problem) for problem in read.get("problems", [])]
        for raw in read["facts"]:
            try:
                histories[host].append(parse(raw))
            except FactError as error:
                unread[host].append(f"a fact was left out: {error}")
    return histories, {host: reasons for host, reasons in unread.items() if reasons}


def collection_version() -> str:
    """The version of this collection, also of a checkout."""
    try:
        return str(json.loads((ROOT / "MANIFEST.json").read_text())["collection_info"]["version"])
    except FileNotFoundError:
        return str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"])
