# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of the emulator's README, run as they stand there."""

import re

import pytest
from pages import Reader, blocks


@pytest.fixture
def reader(tmp_path, installed_collection):
    new = Reader(tmp_path, installed_collection)
    yield new
    new.stop()


def test_the_commands_of_the_readme_show_a_redeploy(reader):
    (block,) = blocks("roles/emulator/README.md", "console")
    (fleet,) = re.findall(r"^\$ cat fleet\.json\n(.*?)^\$", block, re.DOTALL | re.MULTILINE)
    (reader.home / "fleet.json").write_text(fleet)
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    shown = reader.paste("\n".join(commands).replace("roles/emulator/files/", ""))
    assert '"EventType":"Redeploy"' in shown
    assert '"Resources":["web1","web2"]' in shown
