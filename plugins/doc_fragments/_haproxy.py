# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Options of every module that runs on a balancer with HAProxy
    DOCUMENTATION = r"""
options:
  backends:
    description: Only these backends. Empty means every backend.
    type: list
    elements: str
    default: []
  socket:
    description: Runtime socket of HAProxy, an absolute path or C(HOST:PORT).
    type: path
    default: /run/haproxy/admin.sock
requirements:
  - python >= 3.6 (on the balancer)
"""

    # Options of every module that runs on the control node and asks all balancers
    BALANCERS = r"""
options:
  balancers:
    description: Inventory names of the HAProxy balancers.
    type: list
    elements: str
    default: []
  socket:
    description:
      - Runtime socket of HAProxy, an absolute path or C(HOST:PORT).
      - If a balancer has the variable C(load_balancer_haproxy_socket), its value is used for that balancer.
    type: str
    default: /run/haproxy/admin.sock
  become:
    description:
      - Whether to become root on the balancers.
      - If a balancer has the variable C(ansible_become), its value is used for that balancer.
    type: bool
    default: true
requirements:
  - python >= 3.10 (on the control node)
  - python >= 3.6 (on the balancers)
notes:
  - The module runs on the control node. The connection to a balancer uses the variables of that balancer, so these may
    contain templates for addresses, ports, users and keys.
  - The task fails if a balancer cannot be reached, and its message names the balancer. The host of the play does not
    count as unreachable then.
attributes:
  action:
    support: full
    description: The task runs on the control node.
  platform:
    support: full
    description: Operating systems of the hosts that the module can run for. Its balancers must not be Windows hosts.
    platforms: posix, windows
"""
