# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Options of every module that drains a host on its load balancers
    DOCUMENTATION = r"""
options:
  holder:
    description:
      - Name of the program or person that needs the host drained. V(active) removes this holder, and puts the host back
        when no other holder remains.
    type: str
  finish_within:
    description:
      - Seconds in which the whole drain must end. This includes the change, the time in which the balancers notice it,
        and the time for connections. A negative number means no such limit.
    type: float
    default: -1
  wait_at_most:
    description:
      - Seconds after which the module returns although the drain has not ended and O(drain_timeout) has not passed, so
        that other hosts can use the fork. Run the module again with RV(resume). V(0) means no such limit.
    type: float
    default: 0
  resume:
    description: The RV(resume) of the previous run, which this run continues.
    type: dict
    default: {}
  directory:
    description: Directory on the host for C(load-balancer.json). It must survive a reboot, and is created if missing.
    default: /var/lib/maintops
seealso:
  - module: maintops.scheduled_events.load_balancer_record
"""
