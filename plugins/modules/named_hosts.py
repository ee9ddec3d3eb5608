#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: named_hosts
short_description: "Internal: verify that the user has named the hosts of a playbook"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - The playbooks of this collection act on the hosts that C(--limit) or a variable such as C(respond_hosts) names.
    Without either, they run on the control node alone, and this module fails.
  - The module does nothing in other playbooks.
options: {}
requirements:
  - python >= 3.10 (on the control node)
extends_documentation_fragment:
  - maintops.scheduled_events._imds.attributes
attributes:
  action:
    description: The module runs only on the control node.
    support: full
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details:
      - The module changes nothing.
  idempotent:
    support: full
    details:
      - The module changes nothing.
"""

EXAMPLES = r"""
- name: Verify that hosts are named
  maintops.scheduled_events.named_hosts:
"""

RETURN = r""" # """
