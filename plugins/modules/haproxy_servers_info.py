#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: haproxy_servers_info
short_description: Read the servers of one HAProxy
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Returns the servers of HAProxy, their sessions, and whether they get traffic.
  - Uses the runtime socket of HAProxy, for which C(level admin) is not required. The module runs on the balancer and
    requires only Python.
options:
  server:
    description: Name of a host in C(haproxy.cfg). Without this option, the servers of all hosts are returned.
    type: str
  timeout:
    description:
      - Seconds to wait until the servers of O(server) get traffic. The module does not wait for a server that HAProxy
        was ordered to give no traffic, or that has weight 0.
      - The module does not fail when this time has passed; see RV(down).
    type: float
    default: 0
extends_documentation_fragment:
  - maintops.scheduled_events._haproxy
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.reads
seealso:
  - module: maintops.scheduled_events.haproxy_servers
  - module: maintops.scheduled_events.load_balancer_info
"""

EXAMPLES = r"""
- name: Read the servers of a host on one balancer
  maintops.scheduled_events.haproxy_servers_info:
    server: "{{ inventory_hostname }}"
  delegate_to: lb1
  register: result

- name: Show the backends in which it gets no traffic
  ansible.builtin.debug:
    msg: "{{ result.servers | selectattr('gets_no_new_sessions') | map(attribute='backend') }}"

- name: Wait until it gets traffic again
  maintops.scheduled_events.haproxy_servers_info:
    server: "{{ inventory_hostname }}"
    timeout: 60
  delegate_to: lb1
  register: result
  failed_when: result.servers | length == 0 or result.servers | selectattr('gets_no_new_sessions') | length > 0
"""

RETURN = r"""
servers:
  description: The servers.
  returned: success
  type: list
  elements: dict
  contains:
    backend:
      description: Name of the backend.
      returned: success
      type: str
      sample: www
    server:
      description: Name of the server.
      returned: success
      type: str
      sample: web1
    status:
      description: Status, as HAProxy shows it.
      returned: success
      type: str
      sample: UP
    sessions:
      description: Number of current sessions, plus those in the queue of the server.
      returned: success
      type: int
      sample: 3
    gets_no_new_sessions:
      description: Whether the server gets no new sessions, for any reason.
      returned: success
      type: bool
      sample: false
    check:
      description: Result of the last health check; empty if there is none.
      returned: success
      type: str
      sample: L7OK
found:
  description:
    - State that is set for the server in each backend. V(ready), V(DRAIN), V(MAINT), or the state that HAProxy shows
      for a server that is out of service for another reason.
    - This is what the option O(maintops.scheduled_events.haproxy_servers#module:found) restores.
  returned: when O(server) is set
  type: dict
  sample: {www: ready, api: MAINT}
down:
  description:
    - Servers that get no traffic after O(timeout) because of their health checks, in the format of RV(servers).
  returned: when O(server) is set
  type: list
  elements: dict
  sample: []
"""

import typing as t

from ..module_utils._checked_module import CheckedModule
from ..module_utils._load_balancer.haproxy import COMMON_OPTIONS, Member, found_in, read_servers
from ..module_utils._load_balancer.runtime_socket import HAProxyError, RuntimeSocket

OPTIONS = {"server": {"type": "str"}, "timeout": {"type": "float", "default": 0}}


def work(params: t.Dict[str, t.Any]) -> t.Dict[str, t.Any]:
    socket = RuntimeSocket(params["socket"])
    if params["server"] is None:
        return {"servers": [server.shown for server in read_servers(socket, backends=params["backends"])]}
    outcome = Member(socket, params["server"], params["backends"]).wait_until_served(timeout=params["timeout"])
    return {
        "servers": [server.shown for server in outcome.servers],
        "found": found_in(outcome.servers),
        "down": [server.shown for server in outcome.left],
    }


def main() -> None:
    module = CheckedModule(dict(COMMON_OPTIONS, **OPTIONS))
    module.finish(lambda: dict(work(module.params), changed=False), HAProxyError)


if __name__ == "__main__":
    main()
