# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import base64
import json
import typing as t

from ansible.errors import AnsibleFilterError
from ansible_collections.maintops.scheduled_events.plugins.plugin_utils._gate import (
    Seen,
    Settings,
    budget_of,
    decide,
    pause,
)

DOCUMENTATION = r"""
name: maintenance_gate
short_description: Decide whether a batch of a rolling maintenance may begin
version_added: 0.1.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The rule of the role P(maintops.scheduled_events.rolling_maintenance#role). It takes what the role has found out
    about the hosts and answers whether the batch may begin, and otherwise what it waits for.
positional: _input
options:
  _input:
    description:
      - What was found of each C(host). C(found) is the result of M(ansible.builtin.find), C(slurped) of
        M(ansible.builtin.slurp), C(read) of M(maintops.scheduled_events.scheduled_events_info).
    type: list
    elements: dict
    required: true
  play_hosts:
    description: All hosts of the play.
    type: list
    elements: str
    required: true
  fleet:
    description: The hosts that share the budget.
    type: list
    elements: str
    required: true
  batch:
    description: The hosts of the batch.
    type: list
    elements: str
    required: true
  marks:
    description: The hosts of the batch, each with the result of the task that marked it as under maintenance.
    type: dict
    required: true
  out:
    description: Hosts that a balancer says are out.
    type: list
    elements: str
    default: []
  max_unavailable:
    description: Number or percentage.
    type: str
    required: true
  on_event:
    description: V(wait), V(skip), V(respond) or V(fail).
    type: str
    required: true
  settle:
    description: Seconds that the gate stays shut after an event has left.
    type: float
    required: true
  resume_within:
    description: Seconds for which a host that is done is not done again.
    type: float
    required: true
  memory:
    description: The RV(_value.memory) of the decision before.
    type: dict
    default: {}
  arrived:
    description: When the batch came to the gate, in seconds since the epoch.
    type: float
    required: true
  now:
    description: The time, in seconds since the epoch.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    gate: >-
      {{ survey | maintops.scheduled_events.maintenance_gate(
           play_hosts=ansible_play_hosts_all, fleet=groups['web'], batch=ansible_play_batch, marks=marks,
           max_unavailable='25%', on_event='wait', settle=60, resume_within=86400, arrived=arrived,
           now=now().timestamp()) }}
"""

RETURN = r"""
_value:
  description:
    - Whether the gate is C(open) for the C(batch), which lacks the hosts that are C(done) or C(skipped), what it
      C(waits_for), the C(reasons) why hosts are unavailable, the hosts of the batch with an event of their C(own), the
      number of the C(round), the C(memory) for the next decision, and the seconds to C(pause) until then.
  type: dict
"""


def maintenance_gate(
    survey: t.Sequence[t.Mapping[str, t.Any]],
    *,
    play_hosts: t.Sequence[str],
    fleet: t.Sequence[str],
    batch: t.Sequence[str],
    marks: t.Mapping[str, t.Mapping[str, t.Any]],
    max_unavailable: t.Any,
    on_event: str,
    settle: float,
    resume_within: float,
    arrived: float,
    now: float,
    out: t.Sequence[str] = (),
    memory: t.Mapping[str, t.Any] | None = None,
) -> dict[str, t.Any]:
    try:
        budget = budget_of(max_unavailable, len(fleet))
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error
    settings = Settings(play_hosts, fleet, batch, budget, on_event, settle, resume_within)
    decision = decide([_seen(host, marks, out) for host in survey], settings, memory=memory or {}, now=now)
    only_settling = decision.settle_left > 0 and len(decision.waits_for) == 1
    seconds = pause(now - arrived, settle_left=decision.settle_left, only_settling=only_settling)
    return {**decision._asdict(), "budget": budget, "pause": seconds}


def _seen(result: t.Mapping[str, t.Any], marks: t.Mapping[str, t.Any], out: t.Sequence[str]) -> Seen:
    host, files, answer = result["host"], result["found"].get("files"), result["read"]
    mark = marks.get(host, {})  # only the hosts of the batch are marked
    names = [file["path"].rpartition("/")[2] for file in files or []]
    content = result["slurped"].get("content")
    return Seen(
        host=host,
        reached=files is not None and not answer.get("unreachable", False),
        unmarked=mark.get("msg", "no answer") if mark.get("failed") or mark.get("unreachable") else "",
        drained=host in out or any(name != "maintenance.json" for name in names),
        document=answer if "vm_name" in answer and "events" in answer else None,
        problem=answer.get("msg", "no answer"),
        finished=json.loads(base64.b64decode(content)) if content else None,
    )


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"maintenance_gate": maintenance_gate}
