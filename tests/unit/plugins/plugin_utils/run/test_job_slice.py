# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from ansible.errors import AnsibleActionFail

from plugins.plugin_utils._run.job_slice import refuse_slices

pytestmark = pytest.mark.core

JOB = {"awx_job_id": 7, "awx_job_template_name": "Respond"}


@pytest.mark.parametrize(
    "variables",
    [{}, JOB, {**JOB, "awx_workflow_job_id": 6, "awx_workflow_job_name": "Every night"}, {"awx_workflow_job_id": 6}],
)
def test_a_job_and_a_job_of_a_workflow_may_run(variables):
    refuse_slices(variables)


def test_a_slice_is_refused_with_what_to_do():
    with pytest.raises(AnsibleActionFail, match=r"Job 7 is a slice of Respond.*Set Job Slicing of the template to 1\."):
        refuse_slices({**JOB, "awx_workflow_job_id": 6, "awx_workflow_job_name": "Respond"})
