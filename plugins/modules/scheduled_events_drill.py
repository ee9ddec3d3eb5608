#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: scheduled_events_drill
short_description: "Internal: drill the response of a host to a Scheduled Event"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The role P(maintops.scheduled_events.drill#role) uses this module, and describes the options. Use the role.
  - The module runs on the control node. While it watches a host, it runs itself there again and again, with
    O(step=host). The event of the drill is in a file there, which counts for a minute at a time. So nothing has to be
    restored, even if the drill is interrupted.
options:
  step:
    description:
      - V(drill) drills the host, or shows in check mode what a drill would run. V(verdict) puts the results of all
        hosts of the play together. V(host) is for the module itself.
    type: str
    choices: [drill, verdict, host]
    required: true
  watch:
    description: Whether to announce nothing, and to wait for the next event of Azure with this type.
    type: bool
    default: false
  event_type:
    description: Type of the event, but no hint.
    type: str
    default: Reboot
  notice:
    description: Seconds from the announcement to NotBefore.
    type: float
  started_for:
    description: Seconds for which the event has the status Started.
    type: float
    default: 15
  state_directory:
    description: Directory of the history of the roles on the host.
    type: path
    default: /var/lib/maintops
  places:
    description:
      - Other directories on the host than the default ones, for tests. The keys are C(configuration), C(runtime),
        C(history) and C(drill).
    type: dict
    default: {}
  request:
    description: What the control node asks of the host, with O(step=host).
    type: dict
  probe_urls:
    description: URLs of the service that are requested during the drill.
    type: list
    elements: str
    default: []
  probe_rate:
    description: Requests per second.
    type: float
    default: 10
  probe_timeout:
    description: Seconds after which a request is lost.
    type: float
    default: 10
  probe_validate_certs:
    description: Whether to verify the certificates of the URLs.
    type: bool
    default: true
  slow_after:
    description: Seconds after which an answer is slow.
    type: float
    default: 1
  steady:
    description: Seconds for which the service must be healthy before the event.
    type: float
    default: 5
  stop_after:
    description: Seconds for which a URL may fail without a break.
    type: float
    default: 5
  limits:
    description: Limits of the figures. A drill with a figure beyond its limit fails.
    type: dict
    default: {}
    suboptions:
      hear:
        description: Seconds until the host sees the event.
        type: float
      prepare:
        description: Seconds of the preparation.
        type: float
      acknowledge:
        description: Seconds from the preparation to the acknowledgement.
        type: float
      margin:
        description: Least seconds between the end of the preparation and NotBefore.
        type: float
      back:
        description: Seconds from the end of the event until the host has returned.
        type: float
      lost:
        description: Lost requests.
        type: float
      slow:
        description: Slow requests.
        type: float
      redirected:
        description: Redirected requests. If no redirection is allowed, a redirected request is lost.
        type: float
attributes:
  check_mode:
    support: partial
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
    details:
      - In check mode, V(changed) is V(false), and the return values show what a drill would run.
  idempotent:
    support: none
    description: The module changes nothing if it is run a second time with the same options.
    details:
      - Each run is another drill.
seealso:
  - module: maintops.scheduled_events.scheduled_events_report
"""

EXAMPLES = r"""
- name: Show what a drill runs
  maintops.scheduled_events.scheduled_events_drill:
    step: drill
  check_mode: true

- name: Drill the host
  maintops.scheduled_events.scheduled_events_drill:
    step: drill
    probe_urls: [https://www.example.com/]
  register: drill_result
"""

RETURN = r"""
outcome:
  description:
    - V(passed), V(failed), or V(aborted) if an event of Azure or a lost control node ended the drill. V(refused) and
      V(skipped) mean that there was no drill, V(unavailable) that the host may be out of service, so there was none,
      V(previewed) that check mode only showed it.
  returned: O(step=drill)
  type: str
  sample: passed
passed:
  description: Whether the drill passed, with O(step=verdict) whether all drills passed.
  returned: O(step=drill) and O(step=verdict)
  type: bool
  sample: true
msg:
  description: The verdicts of the hosts that did not pass, with O(step=verdict).
  returned: O(step=verdict)
  type: str
  sample: >-
    web1: failed: the preparation failed: leave: exit status 7 (hear 0.2, prepare 0.4, back 0.3, lost 0, slow 0,
    redirected 0; requests 167)
problems:
  description: Why the drill did not pass.
  returned: O(step=drill)
  type: list
  elements: str
  sample: []
verdict:
  description: The outcome, the problems and the figures in one line.
  returned: O(step=drill)
  type: str
  sample: >-
    passed (hear 0.8, prepare 12.4, acknowledge 0.1, margin 887.2, back 3.1, lost 0, slow 2, redirected 0; requests 410)
figures:
  description: Values of the keys of O(limits). A value is null if it was not measured.
  returned: O(step=drill)
  type: dict
  sample: {hear: 0.8, prepare: 12.4, acknowledge: 0.1, margin: 887.2, back: 3.1, lost: 0, slow: 2, redirected: 0}
requests:
  description: Number of requests to the service.
  returned: O(step=drill)
  type: int
  sample: 410
event_type:
  description: Type of the event.
  returned: O(step=drill)
  type: str
  sample: Reboot
preview:
  description: What the drill runs on the host, its hooks by phase, and the decision of its rules.
  returned: O(step=drill), unless the drill was refused, skipped, or unavailable
  type: dict
  sample: {vm_name: web1, action: prepare, hooks: {prepare: [drain], recover: [return]}}
hosts:
  description: The results of the hosts.
  returned: O(step=verdict)
  type: dict
  sample: {web1: {outcome: passed, problems: []}}
answer:
  description: What the host answers to O(request).
  returned: O(step=host)
  type: raw
facts:
  description: Facts of the histories of the host.
  returned: O(step=host)
  type: list
  elements: dict
time:
  description: Time on the clock of the host, in seconds since the epoch.
  returned: O(step=host)
  type: float
"""

from ..module_utils._checked_module import CheckedModule
from ..module_utils._drill import OPTIONS, CannotDrill, DrilledHost, serve


def main() -> None:
    module = CheckedModule(OPTIONS)
    if not module.params["request"]:
        module.fail_json(
            msg="request is missing, expected what the action plugin asks. Call the module by its full name"
        )
    host = DrilledHost(module.params["state_directory"], module.params["places"])
    module.finish(lambda: dict(serve(host, module.params["request"]), changed=False), CannotDrill)


if __name__ == "__main__":
    main()
