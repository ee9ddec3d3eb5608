#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: azure_instance_protection
short_description: Protect an instance of a scale set from scale-in
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Sets or removes the protection of an instance from scale-in. Without this protection, autoscale can delete an
    instance during its maintenance.
  - The module waits until Azure has carried out the change. It does not change the protection from scale set actions.
  - The protection stays until it is removed. Restore the previous protection with RV(before), also when a task fails.
extends_documentation_fragment:
  - maintops.scheduled_events._azure
  - maintops.scheduled_events._imds.attributes
options:
  resource_id:
    description:
      - Id of the instance, with its number or its name in the scale set. The inventory plugin
        P(azure.azcollection.azure_rm#inventory) provides this id as C(id).
    type: str
    required: true
  from_scale_in:
    description: Whether the instance is protected from scale-in.
    type: bool
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: azure.azcollection.azure_rm_accesstoken_info
"""

EXAMPLES = r"""
- name: Patch an instance while it is protected from scale-in
  block:
    - name: Protect the instance
      maintops.scheduled_events.azure_instance_protection:
        resource_id: "{{ id }}"
        from_scale_in: true
      register: protection

    - name: Patch the instance
      ansible.builtin.include_tasks: patch.yml
  always:
    - name: Restore the previous protection
      maintops.scheduled_events.azure_instance_protection:
        resource_id: "{{ id }}"
        from_scale_in: "{{ protection.before }}"
      when: protection.before is defined
"""

RETURN = r"""
before:
  description:
    - Whether the instance was protected from scale-in before.
    - It is also returned if the module fails after it has sent the change, since Azure may carry it out later.
  returned: success, and failure after the change was sent
  type: bool
  sample: false
resource_id:
  description: Id of the instance.
  returned: success
  type: str
  sample: /subscriptions/…/providers/Microsoft.Compute/virtualMachineScaleSets/pool/virtualMachines/13
"""
