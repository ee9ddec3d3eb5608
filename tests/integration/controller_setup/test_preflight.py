# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role controller_setup refuses before it changes anything, with a lookup in place of the controller."""

from stand_ins import stand_in

LOOKUP = """
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

DOCUMENTATION = "name: controller_api"

class LookupModule(LookupBase):
    def run(self, terms, variables=None, query_params=None, **kwargs):
        if "organizations" not in variables:
            raise AnsibleError("Connection refused.")
        return [{"name": name} for name in variables["organizations"] if name == query_params.get("name")]
"""
PREFLIGHT = {
    "ansible.builtin.include_role": {
        "name": "maintops.scheduled_events.controller_setup",
        "tasks_from": "preflight",
    }
}
EXISTING = {"controller_setup_existing": ["organization", "project"]}
HOSTS = {
    "unreachable": {},
    "missing": {"organizations": ["Default"], **EXISTING},
    "missing_but_absent": {"organizations": [], **EXISTING, "controller_setup_state": "absent"},
    "created": {"organizations": [], "controller_setup_existing": ["project"]},
    "found": {"organizations": ["Scheduled Events"], **EXISTING},
    "sourceless": {"organizations": ["Scheduled Events"]},
}


def test_the_preflight_names_what_is_missing(ansible, tmp_path):
    hosts = {name: {"ansible_connection": "local", **variables} for name, variables in HOSTS.items()}
    play = {"hosts": "all", "gather_facts": False, "tasks": [PREFLIGHT]}
    run = ansible.run_playbook(
        [{**play, "vars": {"controller_setup_collection": "stand_in.awx"}}],
        inventory={"all": {"hosts": hosts}},
        env=stand_in(tmp_path, "stand_in.awx", {"lookup/controller_api": LOOKUP}),
    )
    failed = {each.host: each["msg"] for each in run.all() if each.failed and each.action.endswith(("fail", "assert"))}
    assert failed.keys() == {"unreachable", "missing", "sourceless"}, run.output
    assert "Connection refused. Install the collection in the execution environment" in failed["unreachable"]
    assert failed["missing"] == (
        "controller_setup_organization is Scheduled Events, and CONTROLLER_OAUTH_TOKEN shows no organization of this "
        "name. Correct controller_setup_organization, give the user of the token access to it, or remove organization "
        "from controller_setup_existing to let the role create it."
    )
    assert failed["sourceless"].startswith("The project has no source. Set controller_setup_project_url")
