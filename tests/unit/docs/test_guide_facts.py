# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts in the pages, compared with the code that they describe."""

import re

import pytest
import yaml
from code_blocks import ROOT, pages
from scheduled_events_emulator.events import DEFAULT_NOTICE, DEFAULT_STARTED_FOR
from scheduled_events_emulator.scenarios import _SCENARIOS, NAMES

HOW = "docs/how-azure-does-it.md"
START = "docs/start-in-five-minutes.md"
WINDOWS = "docs/windows-vms.md"
MINUTES = {"five": 5, "ten": 10, "15": 15}


def rows(page, columns):
    """The rows of all tables of a page that have so many columns, without code marks."""
    lines = [line.strip().strip("|").split(" | ") for line in pages()[page].splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line] for line in lines if len(line) == columns]


def test_the_usual_notice_of_each_type_is_that_of_the_emulator():
    seconds = {"5 to 15 minutes": 300, "30 seconds": 30, "10 minutes": 600, "15 minutes": 900}
    shown = {row[0]: row[3].partition(",")[0] for row in rows(HOW, 4) if row[0] in DEFAULT_NOTICE}
    assert {event_type: seconds[text] for event_type, text in shown.items()} == DEFAULT_NOTICE


def test_the_timelines_are_those_of_the_emulator():
    shown = [row for row in rows(HOW, 4) if row[0] in NAMES]
    assert len(shown) > 5
    for name, event_type, scheduled, started in shown:
        event = _SCENARIOS[name][0]
        notice = 0 if event.get("direct_started") else event["notice"]
        facts = (event["type"], notice / 60, event["started_for"] / 60)
        assert (event_type, float(scheduled), float(started)) == facts, name


def test_the_start_page_names_the_notice_and_the_length_of_the_emulator():
    text = " ".join(pages()[START].split())
    (notice,) = re.findall(r"a Redeploy that starts in (\w+) minutes", text)
    (length,) = re.findall(r"in the emulator (\w+) minutes by default", text)
    assert (MINUTES[notice] * 60, MINUTES[length] * 60) == (DEFAULT_NOTICE["Redeploy"], DEFAULT_STARTED_FOR)


def test_the_windows_page_names_the_leases_of_a_run():
    text = " ".join(pages()[WINDOWS].split())
    ((phase, otherwise),) = re.findall(r"\((\w+) minutes by default\).*?, and (\w+) minutes otherwise", text)
    specs = yaml.safe_load((ROOT / "roles/respond/meta/argument_specs.yml").read_text())["argument_specs"]["main"]
    assert MINUTES[phase] * 60 == specs["options"]["respond_phase_timeout"]["default"]
    action = (ROOT / "plugins/action/scheduled_events_turn.py").read_text()
    assert f"short_lease={MINUTES[otherwise] * 60:.1f}" in action


@pytest.mark.parametrize(
    ("place", "pattern"),
    [
        ("module", "plugins/modules/*.py"),
        ("filter", "plugins/filter/*.py"),
        ("role", "roles/*"),
        ("playbook", "playbooks/*.yml"),
    ],
)
def test_the_readme_lists_everything_that_the_collection_contains(place, pattern):
    contents = pages()["README.md"].partition("## Contents")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", contents))
    assert {path.stem for path in ROOT.glob(pattern)} - listed == set(), place


@pytest.mark.parametrize("page", pages())
def test_no_markup_of_the_sources_is_left_in_a_page(page):
    text = re.sub(r"```.*?^ *```|``.*?``", "", pages()[page], flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\\`|:(?:ref|ansplugin|ansopt):", text) == []
