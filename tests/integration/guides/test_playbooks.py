# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every playbook and list of tasks in the pages is one for Ansible, with the collection as installed."""

import yaml
from code_blocks import blocks, is_play, is_rulebook
from windows import windows


def test_ansible_takes_every_playbook_and_every_list_of_tasks(ansible, tmp_path):
    playbooks = []
    for number, block in enumerate(blocks("yaml")):
        if isinstance(block.data, list) and not any(map(is_rulebook, block.data)):
            plays = all(map(is_play, block.data))
            text = block.text if plays else yaml.safe_dump([{"hosts": "all", "tasks": block.data}])
            playbooks.append(tmp_path / f"{number}-{block.page.replace('/', '-')}.yml")
            playbooks[-1].write_text(text)
    assert len(playbooks) > 20
    together = [{"import_playbook": str(path)} for path in playbooks]
    run = ansible.run_playbook(together, options=("--syntax-check",), env=windows(tmp_path / "log"))
    assert run.rc == 0, run.output
