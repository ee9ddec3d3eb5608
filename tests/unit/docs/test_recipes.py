# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a recipe of CONTRIBUTING.md adds is in every place that the recipe names."""

import pathlib
import re

import pytest
from _scheduled_events.document import TYPES
from _scheduled_events.runs import PHASES

ROOT = pathlib.Path(__file__).parents[3]
EMULATOR = "roles/emulator/files/scheduled_events_emulator"
PLACES_OF_TYPES = [
    f"{EMULATOR}/events.py",
    "docs/contract.md",  # docs/contract.md, section 3
    "docs/how-azure-does-it.md",
    "plugins/modules/scheduled_events_info.py",
]


def text_of(place):
    return (ROOT / place).read_text(encoding="utf-8")


@pytest.mark.parametrize("place", PLACES_OF_TYPES)
def test_each_event_type_is_in_every_place_of_the_recipe(place):
    text = text_of(place)
    assert [event_type for event_type in TYPES if not re.search(rf"\b{event_type}\b", text)] == []


def test_each_phase_of_hooks_has_a_row_in_the_table():
    rows = re.findall(r"^\| `(\w+)`", text_of("docs/hooks.md"), re.MULTILINE)
    assert [phase for phase in PHASES if phase not in rows] == []


def test_each_fault_of_the_emulator_is_documented_and_tested():
    (kinds,) = re.findall(r"^KINDS = \((.*)\)$", text_of(f"{EMULATOR}/faults.py"), re.MULTILINE)
    found = re.findall(r'"(\w+)"', kinds)
    assert "hang" in found
    readme, tests = text_of("roles/emulator/README.md"), text_of("tests/unit/emulator/test_faults.py")
    assert [kind for kind in found if f"`{kind}`" not in readme or f'kind="{kind}"' not in tests] == []
