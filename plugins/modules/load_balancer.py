#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer
short_description: "Internal: take a host out of its load balancers, and put it back"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module, and describes the providers.
  - The state before a change, and the holders for whom the host is drained, are recorded in C(load-balancer.json) on
    the host, which only root can read. With this record, a host that an operator had taken out stays out, the next run
    finishes an interrupted run, and a host that is drained for two reasons is put back only when both have ended.
options:
  provider:
    description:
      - V(health_probe) runs on the host. V(drained) checks that the health endpoint answers 200, creates a flag file,
        and checks that the endpoint answers O(drained_status) then. It waits until the balancer has noticed, and until
        the existing connections have ended. On a Windows host, it does not wait for connections. If the flag file
        already exists, the first check is left out, and every answer but 200 is accepted, since the service may be
        down. V(active) removes the flag file, waits until the health endpoint answers 200, and until all O(balancers)
        send traffic to the host. Without O(balancers) it waits for the time in which a balancer notices, and one
        O(interval) more.
      - V(haproxy) runs M(maintops.scheduled_events.haproxy_servers) on each of O(balancers). The runtime sockets must
        have C(level admin).
      - V(azure_load_balancer) sets the admin state of the host in each pool to V(Down), and back to the admin state
        that it had before. Azure honours the admin state only in rules with a health probe, so a pool with another
        rule is refused.
      - V(azure_application_gateway) removes the host from each pool, and restores the membership that it had before.
      - The two providers of Azure wait until Azure has carried out the change, and then for O(drain_time). Changes of
        several hosts of a batch to the same resource are made in one write. The hosts of a run share the resources that
        were read.
      - V(record) only maintains the record, for tasks that change a balancer themselves.
    type: str
    choices: [record, health_probe, haproxy, azure_load_balancer, azure_application_gateway]
    required: true
  state:
    description:
      - V(drained) takes the host out. V(active) restores the state that the module found before.
      - The other states are those of O(provider=record). V(held) records O(holder) and O(found). Use it before anything
        is changed. The module waits while another holder puts the host back. If this takes longer than its O(lease) or
        O(wait), O(holder) takes the place of the other holder, and puts the host back in the end.
      - V(returning) removes O(holder), unless it is the last holder. See RV(todo).
      - V(interrupted) means that the host could not be put back. Other holders do not wait any longer, and the next run
        with V(returning) finishes the return.
      - V(released) removes the last holder. Use it when the host is in service again. Nothing is removed if a holder
        has come since V(returning).
    type: str
    choices: [drained, active, held, returning, interrupted, released]
    required: true
  holder:
    description:
      - Name of the program or person that needs the host drained. V(active) removes this holder, and puts the host back
        when no other holder remains.
    type: str
    default: operator
  directory:
    description: Directory on the host for C(load-balancer.json). It must survive a reboot, and is created if missing.
    type: path
    default: /var/lib/maintops
  found:
    description:
      - The state of the host before it is taken out, for O(state=held). The content is free.
      - Only the first value is recorded, since later the state is a result of the caller's own changes.
    type: dict
    default: {}
  wait:
    description:
      - Maximum number of seconds to wait while another holder puts the host back, for O(state=held).
    type: float
    default: 60
  lease:
    description: Seconds for which other holders wait until the host is back, for O(state=returning).
    type: float
    default: 300
  settings:
    description:
      - Variables of the role that decide where the host is taken out, and their values, for O(provider=record). They
        are recorded with the first O(state=held). While there is a record, other values are refused, since they would
        put back another place. Empty means that nothing is compared.
    type: dict
    default: {}
  was_drained:
    description:
      - Whether the caller has taken the host out for O(holder), for O(state=returning) and O(state=active). Then the
        module fails if the record does not exist. With O(provider=health_probe) it fails only if O(flag) exists.
    type: bool
    default: false
  drain_timeout:
    description:
      - Seconds to wait until the connections have ended, on all balancers together, from the moment when no balancer
        sends new ones. If O(drain_time) is longer, the connections count as not ended.
    type: float
    default: 300
  finish_within:
    description:
      - Seconds in which the whole drain must end. This includes the change, the time in which the balancers notice it,
        and the time for connections. A negative number means no such limit.
    type: float
    default: -1
  on_timeout:
    description:
      - What to do when connections remain after O(drain_timeout), or when O(finish_within) is too short. With V(fail)
        the module fails and names the connections. With V(continue) the module names the connections and succeeds. The
        host gets no new connections in either case.
      - With V(continue) the flag file of O(provider=health_probe) is also created if the health endpoint does not
        answer 200 before, and an answer other than O(drained_status) is only named, unless it is 200.
    type: str
    choices: [fail, continue]
    default: fail
  return_timeout:
    description:
      - Seconds to wait until the host is up, on all balancers together. O(provider=health_probe) waits this long for
        the health endpoint, and then again for O(balancers).
    type: float
    default: 120
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
  flag:
    description:
      - Flag file on the host. While the file exists, the health endpoint must fail the probe. The file is empty, and
        readable by all users. On a Windows host, the default is C(C:\Program Files\maintops\drained).
    type: path
    default: /var/lib/maintops/drained
  url:
    description:
      - URL of the health endpoint, as seen from the host itself. The endpoint must answer 200 when the host may get
        traffic.
    type: str
    default: http://127.0.0.1/healthz
  drained_status:
    description: HTTP status that the health endpoint answers while the flag file exists.
    type: int
    default: 503
  interval:
    description: Seconds between two probes of the balancer.
    type: float
    default: 5
  count:
    description: Number of equal probe results after which the balancer changes the state of the host.
    type: int
    default: 2
  ports:
    description: TCP ports on which the service listens on the host. Connections to these ports must end.
    type: list
    elements: int
    default: [80, 443]
  server:
    description: Name of the host in C(haproxy.cfg). The default is its name in the inventory.
    type: str
  backends:
    description:
      - Only these backends. Empty means every backend that the host is in. Each must have the host on at least one
        balancer.
    type: list
    elements: str
    default: []
  pools:
    description: Ids of the backend pools of Azure. The host must be a member of each.
    type: list
    elements: str
    default: []
  network_interfaces:
    description: Ids of the network interfaces of the host. They identify the host in pools of network interfaces.
    type: list
    elements: str
    default: []
  addresses:
    description: Private IP addresses of the host. They identify the host in pools of IP addresses.
    type: list
    elements: str
    default: []
  drain_time:
    description:
      - Seconds that connections get to end after Azure has taken the host out. The module cannot count the connections
        from outside the host. It waits O(drain_timeout) at most.
      - Without this option, it is the drain period of the pool (60 if it has none), or the longest drain timeout of the
        backend settings that are used with the pool (30 if connection draining is not enabled).
    type: float
requirements:
  - ss from iproute2 (on the host, with O(provider=health_probe))
extends_documentation_fragment:
  - maintops.scheduled_events._azure
  - maintops.scheduled_events._haproxy.balancers
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: maintops.scheduled_events.haproxy_servers
  - module: maintops.scheduled_events.load_balancer_info
"""

EXAMPLES = r"""
- name: Take the host out
  maintops.scheduled_events.load_balancer:
    provider: health_probe
    state: drained
    url: http://127.0.0.1:8080/healthz
    ports: [8080]

- name: Put it back
  maintops.scheduled_events.load_balancer:
    provider: health_probe
    state: active
    url: http://127.0.0.1:8080/healthz

- name: Record the weight before the host is taken out
  maintops.scheduled_events.load_balancer:
    provider: record
    state: held
    found:
      weight: "{{ weight }}"
"""

RETURN = r"""
msg:
  description: Message about the result; empty if there is none.
  returned: always
  type: str
  sample: stays drained for respond
simulated:
  description: Whether the task ran in check mode, so that nothing was changed.
  returned: always
  type: bool
  sample: false
resume:
  description: Value of O(resume) for the next run; empty if the module need not run again.
  returned: O(state=drained) and O(state=active)
  type: dict
  sample: {}
holders:
  description: Holders for whom the host is drained now.
  returned: O(provider=record)
  type: list
  elements: str
  sample: [respond]
found:
  description: The recorded O(found).
  returned: O(provider=record)
  type: dict
  sample: {flag: false}
first:
  description: Whether there was no record before.
  returned: O(state=held)
  type: bool
  sample: true
todo:
  description:
    - V(put back) if the caller must put the host back, V(leave out) if the host is drained for other holders as well,
      V(nothing to do) if the host is not drained for O(holder).
  returned: O(state=returning) and O(state=interrupted)
  type: str
  sample: put back
"""

import typing as t
import urllib.error

from ansible.module_utils.urls import open_url

from ..module_utils._checked_module import CheckedModule
from ..module_utils._load_balancer.call import ON_HOST, OPTIONS, carry_out
from ..module_utils._load_balancer.health_probe import ProbeAnswer
from ..module_utils._load_balancer.record import DrainError
from ..module_utils._scheduled_events.files import Folder

PROBE_TIMEOUT = 5  # seconds


def probe(url: str) -> ProbeAnswer:
    try:
        with open_url(url, use_proxy=False, follow_redirects="none", timeout=PROBE_TIMEOUT) as response:
            return ProbeAnswer(response.getcode())
    except urllib.error.HTTPError as error:
        error.close()
        return ProbeAnswer(error.code)
    except Exception as error:  # open_url raises many kinds, each of which means that there is no answer
        return ProbeAnswer(0, str(error))


def list_peers(module: CheckedModule) -> t.List[str]:
    ss = module.get_bin_path("ss", required=False)
    if ss is None:
        raise DrainError("ss, which lists connections, is not installed. Install iproute2")
    ports = " or ".join(f"sport = :{port}" for port in module.params["ports"])
    states = ["state", "established", "state", "syn-recv", "state", "close-wait"]
    _rc, lines, _errors = module.run_command(
        [ss, "--no-header", "--numeric", "--tcp", *states, f"( {ports} )"], check_rc=True
    )
    return [line.split()[-1] for line in lines.splitlines() if line.strip()]


def main() -> None:
    module = CheckedModule(OPTIONS)
    params = module.params
    if params["provider"] not in ON_HOST:
        module.fail_json(
            msg=f"provider is {params['provider']}, which only works through the action plugin of the module"
        )
    how = {"simulate": module.check_mode, "probe": probe, "peers": lambda: list_peers(module)}
    module.finish(lambda: carry_out(params, Folder(params["directory"]), **how), DrainError)


if __name__ == "__main__":
    main()
