# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import types

import pytest
from ansible.errors import AnsibleActionFail

from plugins.plugin_utils._run.named_hosts import refuse_unnamed_hosts

TEMPLATES = {"{{ node }}": "127.0.0.1", "{{ fleet }}": "web"}
ACTION = types.SimpleNamespace(_templar=types.SimpleNamespace(template=lambda text: TEMPLATES.get(text, text)))
ON_CONTROL_NODE = {"__named_by": "respond_hosts", "ansible_play_hosts_all": ["127.0.0.1"]}


@pytest.mark.parametrize("more", [{}, {"respond_hosts": None}, {"respond_hosts": ""}])
def test_a_playbook_on_the_control_node_is_refused_with_the_variable_to_set(more):
    message = (
        "^No hosts are named, expected respond_hosts in --extra-vars or in the vars of import_playbook, or --limit. "
        "For all hosts of the inventory, set respond_hosts to all$"
    )
    with pytest.raises(AnsibleActionFail, match=message):
        refuse_unnamed_hosts(ACTION, {**ON_CONTROL_NODE, **more})


@pytest.mark.parametrize(
    "more",
    [
        {"ansible_limit": "127.0.0.1"},
        {"respond_hosts": "127.0.0.1"},
        {"respond_hosts": "{{ node }}"},
        {"respond_hosts": "{{ fleet }}", "ansible_play_hosts_all": ["web1", "web2"]},
        {"ansible_play_hosts_all": ["localhost"]},
        {"ansible_play_hosts_all": ["127.0.0.1", "web1"]},
    ],
)
def test_hosts_that_a_variable_or_a_limit_names_are_accepted(more):
    refuse_unnamed_hosts(ACTION, {**ON_CONTROL_NODE, **more})


def test_another_playbook_names_its_hosts_itself():
    refuse_unnamed_hosts(ACTION, {"ansible_play_hosts_all": ["127.0.0.1"]})
