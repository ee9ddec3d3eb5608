# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A first look at the role controller_setup in check mode, with a stand-in for a controller that has no object."""

import os

LOOKUP = """
from ansible.plugins.lookup import LookupBase


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **kwargs):
        return []
"""


def test_check_mode_of_a_new_controller_says_what_it_cannot_show(ansible, tmp_path):
    plugins = tmp_path / "ansible_collections" / "awx" / "awx" / "plugins" / "lookup"
    plugins.mkdir(parents=True)
    (plugins / "controller_api.py").write_text(LOOKUP)
    role = {"role": "maintops.scheduled_events.controller_setup", "controller_setup_project_path": "fleet"}
    paths = os.pathsep.join([str(tmp_path), os.environ["ANSIBLE_COLLECTIONS_PATH"]])
    play = {"hosts": "localhost", "gather_facts": False, "roles": [role]}
    run = ansible.run_playbook([play], check=True, env={"ANSIBLE_COLLECTIONS_PATH": paths})
    assert run.rc == 0, run.output
    assert "The controller has no organization Scheduled Events yet, so check mode ends here" in run.output
