# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of the emulator's README, run as they stand there."""

import re

import pytest
from page_blocks import block
from pages import Reader


@pytest.fixture
def reader(tmp_path, installed_collection):
    new = Reader(tmp_path, installed_collection)
    yield new
    new.stop()


def test_the_commands_of_the_readme_show_a_redeploy(reader):
    console = block("roles/emulator/README.md", "$ cat fleet.json")
    (fleet,) = re.findall(r"^\$ cat fleet\.json\n(.*?)^\$", console, re.DOTALL | re.MULTILINE)
    (reader.home / "fleet.json").write_text(fleet)
    (reader.home / "roles" / "emulator").mkdir(parents=True)
    (reader.home / "roles" / "emulator" / "files").symlink_to(reader.home / "programs")
    shown = reader.paste("\n".join(line[2:] for line in console.splitlines() if line.startswith("$ ")))
    assert '"EventType":"Redeploy"' in shown
    assert '"Resources":["web1","web2"]' in shown
