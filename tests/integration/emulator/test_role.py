# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role emulator removes from a host. The whole role runs on hosts with systemd, see extensions/molecule."""

import pytest
import yaml

from playbooks import LOCAL


@pytest.mark.parametrize("directory", ["/opt", "/scheduled-events-emulator", "/opt/scheduled-events-emulator/"])
def test_a_directory_that_may_be_that_of_others_is_refused_before_anything_is_removed(ansible, directory):
    role = {"name": "maintops.scheduled_events.emulator", "tasks_from": "preflight.yml"}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}],
        inventory={"all": {"hosts": {"vm1": LOCAL}}},
        extra_vars={"emulator_state": "absent", "emulator_install_directory": directory},
    )
    assert f"The directory is {directory}, expected a path with scheduled-events-emulator in its last" in run.output
    assert "since uninstalling removes the whole directory" in run.output


def test_an_uninstallation_removes_the_files_and_directories_of_the_emulator(ansible, installed_collection, tmp_path):
    tasks = yaml.safe_load((installed_collection / "roles/emulator/tasks/uninstall.yml").read_text())
    [remove] = [task for task in tasks if "ansible.builtin.file" in task]
    own = ("unit_path", "command", "config_dir")
    for name in ("install", *own, "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    places = {f"__emulator_{name}": str(tmp_path / name) for name in own}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": [remove]}],
        inventory={"all": {"hosts": {"vm1": LOCAL}}},
        extra_vars={**places, "emulator_install_directory": str(tmp_path / "install")},
    )
    assert run.rc == 0, run.output
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
