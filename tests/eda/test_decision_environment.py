# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import subprocess

from .conftest import COLLECTION


def test_ansible_builder_accepts_the_definition_and_installs_what_the_source_needs(tmp_path):
    definition = COLLECTION / "extensions" / "eda" / "decision-environment.yml"
    command = ["ansible-builder", "create", "--file", str(definition), "--context", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    requirements = (tmp_path / "_build" / "requirements.txt").read_text().split()
    assert {"aiohttp>=3.9,<4", "ansible-rulebook>=1.3", "requests>=2.20"} <= set(requirements)
    assert "java-17-openjdk-headless" in (tmp_path / "_build" / "bindep.txt").read_text()
    assert "maintops.scheduled_events" in (tmp_path / "_build" / "requirements.yml").read_text()
