#!/usr/bin/python
# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: load_balancer_record
short_description: "Internal: record for whom a host is drained, and its state before that"
version_added: 1.0.0
author: The maintops.scheduled_events authors (@maintops)
description:
  - Maintains the file C(load-balancer.json) on the host. Only root can read the file.
  - With this record, a host that an operator had taken out stays out, the next run finishes an interrupted run, and a
    host that is drained for two reasons is put back only when both reasons have ended.
  - The role P(maintops.scheduled_events.load_balancer#role) uses this module. A provider calls the module before it
    takes a host out, and before and after it puts a host back.
options:
  state:
    description:
      - V(held) records O(holder) and O(found). Use it before anything is changed. The module waits while another holder
        puts the host back. If this takes longer than its O(lease) or O(wait), O(holder) takes the place of the other
        holder, and puts the host back in the end.
      - V(returning) removes O(holder), unless it is the last holder. See RV(todo).
      - V(interrupted) means that the host could not be put back. Other holders do not wait any longer, and the next run
        with V(returning) finishes the return.
      - V(released) removes the last holder. Use it when the host is in service again. Nothing is removed if a holder
        has come since V(returning).
    type: str
    choices: [held, returning, interrupted, released]
    required: true
  holder:
    description: Name of the program or person that needs the host drained.
    type: str
    required: true
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
  directory:
    description: Directory on the host for the file. It must survive a reboot, and is created if missing.
    type: path
    default: /var/lib/maintops
extends_documentation_fragment:
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
- name: Record the weight before the host is taken out
  maintops.scheduled_events.load_balancer_record:
    state: held
    holder: operator
    found:
      weight: "{{ weight }}"

- name: Read whether to put the host back
  maintops.scheduled_events.load_balancer_record:
    state: returning
    holder: operator
  register: record

- name: Put the host back
  ansible.builtin.include_tasks: put-back.yml
  when: record.todo == 'put back'
  vars:
    weight: '{{ record.found.weight }}'

- name: Record that the host is back
  maintops.scheduled_events.load_balancer_record:
    state: released
    holder: operator
  when: record.todo == 'put back'
"""

RETURN = r"""
holders:
  description: Holders for whom the host is drained now.
  returned: success
  type: list
  elements: str
  sample: [respond]
found:
  description: The recorded O(found).
  returned: success
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
msg:
  description: Why the host stays out; empty if it does not stay out.
  returned: success
  type: str
  sample: stays drained for respond
"""

from ansible_collections.maintops.scheduled_events.plugins.module_utils._load_balancer.record import (
    OPTIONS,
    Record,
    RecordError,
    take_note,
)
from ansible_collections.maintops.scheduled_events.plugins.module_utils._options import CheckedModule
from ansible_collections.maintops.scheduled_events.plugins.module_utils._scheduled_events.files import Folder


def main() -> None:
    module = CheckedModule(argument_spec=OPTIONS, supports_check_mode=True)
    try:
        record = Record(Folder(module.params["directory"]), simulate=module.check_mode)
        result = take_note(record, module.params)
    except RecordError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"{error.filename or module.params['directory']}: {error.strerror}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
