# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # Options of every module that talks to the metadata service
    DOCUMENTATION = r"""
options:
  endpoint:
    description:
      - Base URL of the metadata service, without a path, or V(auto).
      - Requests are sent directly. Proxy variables are ignored, and redirects are not followed.
      - V(auto) is for VMs outside a virtual network (classic, cloud service), where the service has another address.
        The module asks V(http://169.254.169.254) first. If this address does not return a document, the module asks the
        addresses in DHCP option 245 of the leases of systemd-networkd, NetworkManager and dhclient. It starts with the
        newest lease, and uses the ports 80 and 8080.
      - The search takes 10 seconds at most. If it fails, the message lists each place that was searched, and what was
        found there. Each module run searches again, which costs one additional request if V(http://169.254.169.254)
        answers.
    type: str
    default: http://169.254.169.254
  endpoint_networks:
    description:
      - Networks that may contain the service, for O(endpoint=auto). An address of a DHCP lease outside these networks
        is never asked. The error message shows such an address.
      - The default is Azure's wire server and the link-local addresses.
    type: list
    elements: str
    default:
      - 168.63.129.16/32
      - 169.254.0.0/16
  api_version:
    description:
      - Version of the Scheduled Events API, from V(2017-03-01) to the newest version that the Azure host knows.
      - Events have fewer fields in older versions.
      - V(auto) asks for the newest version that both this collection and the Azure host know. Such a version can be a
        preview with further event types. The first request of a run is repeated with an older version if the host
        refuses the version. Any other failure leads to no other version.
    type: str
    default: '2020-07-01'
  vm_name:
    description:
      - Name of this VM in Azure, as events name it. It may differ from the host name, which is never compared.
      - Without this option, the module asks the service. If the service returns another name than this option, the
        module uses this option and shows a warning.
    type: str
  request_timeout:
    description:
      - Seconds for one answer, from the start of the connection to the last byte. More than 0. The first request of a
        VM enables the service, which can take two minutes.
      - Connecting fails after 5 seconds at the latest.
    type: float
    default: 125
  retry_for:
    description:
      - Seconds for which the module repeats a request that got no answer, status 410, 429 or 5xx, or an empty body. It
        does not repeat other requests. More than 0.
      - If no connection could be established (refused, no route), the module fails within 10 seconds, since the host is
        most likely not an Azure VM.
    type: float
    default: 70
  drill_directory:
    description:
      - Directory in which a drill (P(maintops.scheduled_events.drill#role)) announces its event. The module adds this
        event to those of the service. Another directory than the default is for tests. It has no effect for a Windows
        host.
    type: path
    default: /run/scheduled-events-drill
requirements:
  - requests >= 2.20 (on the host)
notes:
  - Run the module on the VM itself. The service answers only there.
  - An answer that is longer than 1 MiB, or compressed, is an error.
  - The first request enables Scheduled Events for the VM. After that, events appear within five minutes. Azure disables
    Scheduled Events again after a day without a request.
"""

    # Options that select events
    FILTERS = r"""
options:
  event_id:
    description:
      - Select only events with one of these ids.
      - All filters ignore case. An empty list does not filter. An empty text in place of an id is refused.
      - A value that no event can have causes a warning. Examples are an id that is neither a GUID nor that of
        a drill, and a type, status or source that Azure is not known to use.
    type: list
    elements: str
    aliases: [event_ids]
  event_types:
    description:
      - Select only events of these types, for example V(Freeze) or V(Reboot).
        The return values of M(maintops.scheduled_events.scheduled_events_info) list the types.
    type: list
    elements: str
  event_statuses:
    description:
      - Select only events in these states, V(Scheduled), V(Started) or V(Advisory).
    type: list
    elements: str
  event_sources:
    description:
      - Select only events from these sources, V(Platform) or V(User). Before O(api_version=2019-08-01) events have no
        source.
    type: list
    elements: str
  scope:
    description:
      - V(this_vm) selects events that name this VM, even if they name other VMs as well.
      - V(all) selects every event that this VM can see, including events that name only other VMs.
    type: str
    choices: [this_vm, all]
    default: this_vm
"""

    ATTRIBUTES = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    description:
      - Will return details on what has changed (or possibly needs changing in C(check_mode)), when in diff mode.
  idempotent:
    description:
      - When run twice in a row outside check mode, with the same arguments, the second invocation indicates no change.
      - This assumes that the system controlled by the module has not changed in a relevant way.
"""

    # A module that changes nothing
    READS = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - The module only reads.
  diff_mode:
    support: N/A
    details:
      - The module only reads.
  idempotent:
    support: full
"""

    # A module of the action group
    GROUP = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/maintops.scheduled_events.imds) in C(module_defaults) to set defaults for this module.
    support: full
    membership:
      - maintops.scheduled_events.imds
"""

    # A module that runs on the host or, for a Windows host, on the control node
    ANYWHERE = r"""
options: {}
requirements:
  - python >= 3.6 (on the host)
  - ansible.windows (collection on the control node, only for Windows hosts, which need neither Python nor requests)
notes:
  - On a Windows host (C(winrm), C(psrp), or C(ssh) with PowerShell), the host sends each request with
    C(ansible.windows.win_uri), without a proxy, and does not follow redirects. The control node evaluates the answers
    with the same code as on other hosts. Options, results and messages are the same, except for the text of Windows
    itself after "got no answer".
  - On a Windows host, O(endpoint=auto) does not work. Each request starts PowerShell on the host. O(request_timeout) is
    rounded to whole seconds and also limits the connection, which has no shorter limit. The control node checks the
    size of an answer. The control node stops waiting two minutes after O(request_timeout) if the host does not answer.
  - The support for Windows was tested with a replacement for C(win_uri) that has its documented options and results,
    over a connection that is marked as a Windows connection. It was not tested on Windows.
attributes:
  action:
    description: Has a part that runs on the control node.
    support: full
  async:
    description: Supports being run with C(async).
    support: partial
    details:
      - C(async) does not work for Windows hosts.
  platform:
    description: Operating systems of the hosts on which the module can run.
    support: full
    platforms: posix, windows
"""

    # A module that keeps files on the host; for a Windows host, it runs on the control node
    FILES = r"""
options: {}
requirements:
  - python >= 3.6 (on the host, except for Windows hosts)
  - ansible.windows (collection on the control node, only for Windows hosts)
notes:
  - On a Windows host, the default directory is C(C:\Program Files\maintops), where only administrators can write. The
    files are kept together in one file there, which the control node reads and writes with C(ansible.windows.win_stat),
    C(win_find), C(slurp), C(win_copy), C(win_command) and C(win_file). Connect as an administrator, without C(become).
  - For a Windows host, the module runs on the control node. This was tested with replacements for the modules of
    C(ansible.windows), not on Windows.
  - Control nodes that manage the same Windows host need clocks that agree, since Windows hosts have no lock that lasts
    from task to task.
attributes:
  async:
    description: Supports being run with C(async).
    support: none
  platform:
    description: Operating systems of the hosts on which the module can run.
    support: full
    platforms: posix, windows
"""
