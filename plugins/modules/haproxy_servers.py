#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: haproxy_servers
short_description: Drain and restore the servers of a host on one HAProxy
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Uses the runtime socket of HAProxy, which must have C(level admin). The module runs on the balancer and requires
    only Python.
  - V(drained) sets the servers to state C(drain), so that they get no new sessions, and waits until their sessions have
    ended. It then sets the servers to state C(maint), and checks that they stay in this state.
  - V(active) restores the states in O(found), and waits until the servers are up.
  - The module does not change weights.
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module for several balancers, and records
    RV(found) on the host.
options:
  state:
    description:
      - V(drained) takes the servers out of service.
      - V(active) puts the servers back into service.
    type: str
    choices: [drained, active]
    required: true
  server:
    description: Name of the host in C(haproxy.cfg).
    type: str
    required: true
  found:
    description:
      - The RV(found) from before the servers were drained, for O(state=active). In a backend that is not listed, the
        server stays as it is. If this is empty, the server gets traffic in all backends.
    type: dict
    default: {}
  timeout:
    description:
      - Seconds to wait until the sessions have ended, or until the servers are up.
      - The module does not fail when this time has passed; see RV(unfinished).
    type: float
    default: 300
  force:
    description: Whether to set state C(maint) after O(timeout) although sessions remain, for O(state=drained).
    type: bool
    default: false
extends_documentation_fragment:
  - maintops.scheduled_events._haproxy
  - maintops.scheduled_events._imds.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: maintops.scheduled_events.haproxy_servers_info
  - module: maintops.scheduled_events.load_balancer
"""

EXAMPLES = r"""
- name: Take a host out of HAProxy before its disk is replaced
  maintops.scheduled_events.haproxy_servers:
    server: "{{ inventory_hostname }}"
    state: drained
    timeout: 120
  delegate_to: lb1
  register: result
  failed_when: result.unfinished | length > 0
"""

RETURN = r"""
servers:
  description:
    - The servers, as last read, in the format of
      RV(maintops.scheduled_events.haproxy_servers_info#module:servers).
  returned: success
  type: list
  elements: dict
  sample: []
found:
  description:
    - State that was set for the server in each backend before this run. V(ready), V(DRAIN), V(MAINT), or the state that
      HAProxy shows for a server that is out of service for another reason.
  returned: success
  type: dict
  sample: {www: ready, api: MAINT}
sent:
  description: The state changes that were sent, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: ['www/web1: drain', 'www/web1: maint']
unfinished:
  description: Servers that still have sessions (O(state=drained)), or are not up (O(state=active)), after O(timeout).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from typing import Any, Dict

from ..module_utils._checked_module import CheckedModule
from ..module_utils._load_balancer.haproxy import COMMON_OPTIONS, Member, found_in
from ..module_utils._load_balancer.runtime_socket import HAProxyError, RuntimeSocket

OPTIONS = {
    "state": {"type": "str", "choices": ["drained", "active"], "required": True},
    "server": {"type": "str", "required": True},
    "found": {"type": "dict", "default": {}},
    "timeout": {"type": "float", "default": 300},
    "force": {"type": "bool", "default": False},
}


def work(module: CheckedModule) -> Dict[str, Any]:
    params = module.params
    member = Member(RuntimeSocket(params["socket"]), params["server"], params["backends"], simulate=module.check_mode)
    before = member.look()
    if params["state"] == "drained":
        outcome = member.take_out(timeout=params["timeout"], force=params["force"])
    else:
        outcome = member.put_back(params["found"], timeout=params["timeout"])
    return {
        "changed": bool(outcome.sent),
        "servers": [server.shown for server in outcome.servers],
        "found": found_in(before),
        "sent": outcome.sent,
        "unfinished": [server.shown for server in outcome.left],
    }


def main() -> None:
    module = CheckedModule(dict(COMMON_OPTIONS, **OPTIONS))
    module.finish(lambda: work(module), HAProxyError)


if __name__ == "__main__":
    main()
