#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_health_probe
short_description: "Internal: make a host fail the health probe of its load balancer, and drain it"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - V(drained) checks that the health endpoint of the service answers 200, creates a flag file, and checks that the
    endpoint answers O(drained_status) then. It waits until the balancer has noticed, and until the existing connections
    have ended. On a Windows host, it does not wait for connections.
  - If the flag file already exists, for another holder, from an earlier run, or from an operator, the first check is
    left out. In this case every answer but 200 is accepted, since the service may be down.
  - V(active) removes the flag file, waits until the health endpoint answers 200, and until all O(balancers) send
    traffic to the host. Without O(balancers) it waits for the time in which a balancer notices, and one O(interval)
    more. It never waits for clients.
  - The state before the change, and the holders for whom the host is drained, are recorded with
    M(maintops.scheduled_events.load_balancer_record).
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module.
options:
  state:
    description: V(drained) takes the host out of service. V(active) puts it back.
    type: str
    choices: [drained, active]
    required: true
  holder:
    required: true
  flag:
    description:
      - Flag file on the host. While the file exists, the health endpoint must fail the probe. The file is empty, and
        readable by all users. On a Windows host, the default is C(C:\Program Files\maintops\drained).
      - With the default, the module also creates C(/etc/scheduled-events/drained), the default of release 0.1.0, if the
        health endpoint does not honour the new one. It removes both.
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
  drain_timeout:
    description: Seconds to wait until the connections have ended, from the moment when the balancer has noticed.
    type: float
    default: 300
  on_timeout:
    description:
      - What to do when connections remain after O(drain_timeout), or when O(finish_within) is too short. With V(fail)
        the module fails and names the connections. With V(continue) the module names the connections and succeeds. The
        host gets no new connections in either case.
      - With V(continue) the flag file is also created if the health endpoint does not answer 200 before, and an answer
        other than O(drained_status) is only named, unless it is 200.
    type: str
    choices: [fail, continue]
    default: fail
  return_timeout:
    description:
      - Seconds to wait until the health endpoint answers 200, and then again until O(balancers) send traffic to the
        host.
    type: float
    default: 120
  balancers:
    description:
      - Inventory names of the HAProxy balancers that probe the host. O(state=active) runs
        M(maintops.scheduled_events.haproxy_servers_info) on each, and waits until they send traffic to the host. A
        server that HAProxy was ordered to give no traffic is not waited for.
    type: list
    elements: str
    default: []
  server:
    description: Name of the host in C(haproxy.cfg). The default is its name in the inventory.
    type: str
  backends:
    description: Only these backends of O(balancers). Empty means every backend that the host is in.
    type: list
    elements: str
    default: []
  socket:
    description:
      - Runtime socket of HAProxy on O(balancers), an absolute path or C(HOST:PORT). It needs no C(level admin).
      - If a balancer has the variable C(load_balancer_haproxy_socket), its value is used for that balancer.
    type: str
    default: /run/haproxy/admin.sock
  become:
    description:
      - Whether to become root on O(balancers).
      - If a balancer has the variable C(ansible_become), its value is used for that balancer.
    type: bool
    default: true
  directory:
    type: path
requirements:
  - python >= 3.6 (on the balancers)
  - ss from iproute2 (on the host)
extends_documentation_fragment:
  - maintops.scheduled_events._balancing
  - maintops.scheduled_events._imds.attributes
  - maintops.scheduled_events._imds.files
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Take the host out
  maintops.scheduled_events.load_balancer_health_probe:
    state: drained
    holder: operator
    url: http://127.0.0.1:8080/healthz
    ports: [8080]

- name: Put it back
  maintops.scheduled_events.load_balancer_health_probe:
    state: active
    holder: operator
    url: http://127.0.0.1:8080/healthz
"""

RETURN = r"""
msg:
  description: Message about the result; empty if there is none.
  returned: always
  type: str
  sample: stays drained for respond
resume:
  description: Value of O(resume) for the next run; empty if the module need not run again.
  returned: success
  type: dict
  sample: {}
connected_peers:
  description: The peers whose connections have not ended.
  returned: O(state=drained)
  type: list
  elements: str
  sample: ['10.0.0.7:51234']
"""

import typing as t
import urllib.error

from ansible.module_utils.urls import open_url
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.health_probe import (
    OPTIONS,
    Host,
    ProbeAnswer,
    ProbeError,
    ProbeSettings,
    bring,
    check_settings,
    notice_time,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.record import Record, RecordError
from ansible_collections.maintops.scheduled_events.plugins.module_utils._options import CheckedModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.files import Folder

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
        raise ProbeError("ss, which lists connections, is not installed. Install iproute2")
    ports = " or ".join(f"sport = :{port}" for port in module.params["ports"])
    states = ["state", "established", "state", "syn-recv", "state", "close-wait"]
    _rc, lines, _errors = module.run_command(
        [ss, "--no-header", "--numeric", "--tcp", *states, f"( {ports} )"], check_rc=True
    )
    return [line.split()[-1] for line in lines.splitlines() if line.strip()]


def work(module: CheckedModule) -> t.Dict[str, t.Any]:
    params = module.params
    check_settings(params)
    record = Record(Folder(params["directory"]), simulate=module.check_mode)
    notice = notice_time(params["interval"], params["count"])
    host = Host(
        ProbeSettings(
            params["flag"], params["url"], notice, params["interval"], params["ports"], params["drained_status"]
        ),
        record,
        probe=lambda: probe(params["url"]),
        peers=lambda: list_peers(module),
        simulate=module.check_mode,
    )
    return bring(module, host)


def main() -> None:
    module = CheckedModule(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        result = work(module)
    except (ProbeError, RecordError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or module.params['flag']}: {error.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
