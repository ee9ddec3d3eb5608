# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The definition of the execution environment, read by ansible-builder."""

import pathlib
import shutil
import subprocess
import sys

import pytest
import yaml

BUILDER = str(pathlib.Path(sys.executable).with_name("ansible-builder"))
LIMIT = 300.0  # seconds; only so that a hang is named


def build(*arguments, cwd=None):
    ended = subprocess.run([BUILDER, *arguments], check=False, capture_output=True, text=True, cwd=cwd, timeout=LIMIT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def context(installed_collection, tmp_path_factory):
    """The build context that ansible-builder makes of the definition."""
    directory = tmp_path_factory.mktemp("ee")
    build(
        *("create", "--context", str(directory), "--output-filename", "Containerfile"),
        cwd=installed_collection / "execution-environment",
    )
    return directory


def test_ansible_builder_makes_a_context_with_the_collections_to_install(context):
    names = {path.name: path for path in context.rglob("*")}
    collections = yaml.safe_load(names["requirements.yml"].read_text())["collections"]
    assert [each["name"] for each in collections] == ["maintops.scheduled_events", "awx.awx", "azure.azcollection"]
    assert "sshpass [platform:rpm]" in names["bindep.txt"].read_text()
    assert "ansible-core>=2.16" in names["Containerfile"].read_text()


def test_ansible_builder_finds_what_the_collection_needs(installed_collection, tmp_path):
    here = tmp_path / "ansible_collections" / "maintops" / "scheduled_events"
    shutil.copytree(installed_collection / "meta", here / "meta")
    shutil.copy2(installed_collection / "MANIFEST.json", here)
    found = yaml.safe_load(build("introspect", str(tmp_path)))
    wanted = {"python": "requests>=2.20 ", "system": "openssh-clients [platform:rpm] "}
    assert {kind: [each for each in found[kind] if each.startswith(start)] for kind, start in wanted.items()} == {
        kind: [f"{start} # from collection maintops.scheduled_events"] for kind, start in wanted.items()
    }
