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
      - It is asked directly, whatever proxy variables say, and no redirect is followed.
      - V(auto) is for VMs outside a virtual network (classic, cloud service), where the service has another address. It
        asks V(http://169.254.169.254) first. If there is no document, it asks the addresses in DHCP option 245 of the
        leases of dhclient, systemd-networkd, NetworkManager, wicked and dhcpcd, the newest lease first, on the ports 80
        and 8080. Leases that have expired do not count.
      - V(auto) takes 10 seconds at most, and fails with what it looked at and what it found there. Each module run
        searches again. A run where V(http://169.254.169.254) answers costs one request more.
      - The leases of NetworkManager's dhclient and of dhcpcd can be read by root alone.
    type: str
    default: http://169.254.169.254
  endpoint_networks:
    description:
      - Networks in which an address of a DHCP lease must lie to be asked with O(endpoint=auto). Any other address is
        shown in the error, and is never asked.
      - The default is Azure's wire server and the link-local addresses.
    version_added: 1.0.0
    type: list
    elements: str
    default:
      - 168.63.129.16/32
      - 169.254.0.0/16
  api_version:
    description:
      - Version of Scheduled Events to ask for, from V(2017-03-01) to the one that the host knows as its newest.
      - Older versions tell less about an event.
    type: str
    default: '2020-07-01'
  vm_name:
    description:
      - Name of this VM in Azure, as events name it. It need not be the host name, which is never compared.
      - Without it the service is asked. A name other than the one that the service gives is used, with a warning.
    type: str
  request_timeout:
    description:
      - Seconds for one answer, from connecting to its last byte. The first request of a VM enables the service, which
        can take two minutes.
      - Connecting fails after 5 seconds at the latest.
    type: float
    default: 125
  retry_for:
    description:
      - Seconds for which a request that got no answer, status 410, 429 or 5xx, or an empty body is repeated.
      - Nothing else is repeated.
      - If there never was a connection (refused, no route), the module gives up within 10 seconds, since the host is
        most likely not an Azure VM.
    type: float
    default: 70
requirements:
  - requests (Python library, on the host that runs the module)
notes:
  - An answer is at most 1 MiB long, and not compressed. Anything else is an error.
  - Run it on the VM itself. The service answers only there.
  - The first request enables Scheduled Events for the VM, after which events appear within five minutes. Azure
    disables it again after a day without any request.
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

    # A module that runs on the host or, for a Windows host, on the controller
    ANYWHERE = r"""
options: {}
requirements:
  - ansible.windows (collection, on the controller), for Windows hosts only; they need neither Python nor requests
notes:
  - On a Windows host (C(winrm), C(psrp), or C(ssh) with PowerShell) the host sends each request with
    C(ansible.windows.win_uri), without a proxy and without following a redirect. The controller reads the answers, with
    the same code as on other hosts. Options, results and messages are the same, but for the words of Windows itself in
    "got no answer".
  - There, O(endpoint=auto) does not work. Each request starts PowerShell on the host. O(request_timeout) is in whole
    seconds, and connecting has no shorter limit of its own. The size of an answer is checked on the controller. If the
    host says nothing for two minutes beyond O(request_timeout), the controller gives up.
  - For Windows this was tested with a stand-in of C(win_uri) that has its documented options and results, behind a
    connection that claims to be one to Windows. It was not run on Windows.
attributes:
  action:
    description: Has a part that runs on the controller.
    support: full
  async:
    description: Supports being run with C(async).
    support: partial
    details:
      - Not for Windows hosts.
  platform:
    description: The operating systems of hosts that it can be run on.
    support: full
    platforms: posix, windows
"""

    # A module that runs on the host alone
    POSIX = r"""
options: {}
attributes:
  platform:
    description: The operating systems of hosts that it can be run on. On a Windows host it fails and says so.
    support: full
    platforms: posix
"""
