# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs that AWX or Automation Platform has cut into slices. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail


def refuse_slices(variables: t.Mapping[str, t.Any]) -> None:
    """Refuse to run as one of several slices of a job.

    AWX runs the slices as a workflow that has the name of the template, and says nothing else about them.

    :raises AnsibleActionFail: this is a slice.
    """
    template, workflow = variables.get("awx_job_template_name"), variables.get("awx_workflow_job_name")
    if variables.get("awx_workflow_job_id") is None or template is None or workflow != template:
        return
    raise AnsibleActionFail(
        f"Job {variables.get('awx_job_id')} is a slice of {template}, and sees only some of the hosts. An event that "
        "names hosts of several slices could not be acknowledged, and each slice would maintain hosts as if it were "
        "alone. Set Job Slicing of the template to 1. If this job is not a slice, give the workflow another name than "
        "its template"
    )
