# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What docs/engine.md and CONTRIBUTING.md name of the polling unit is in its program."""

import pathlib
import re

import pytest
from scheduled_events_poller import spool

from plugins.plugin_utils._poller import options as role_options

ROOT = pathlib.Path(__file__).parents[3]
PACKAGE = ROOT / "roles" / "poller" / "files" / "scheduled_events_poller"
SECTION = "## The packages of the polling unit\n"


@pytest.fixture(scope="module")
def section():
    return (ROOT / "docs" / "engine.md").read_text(encoding="utf-8").partition(SECTION)[2]


def test_each_module_in_the_picture_of_the_polling_unit_exists(section):
    names = re.findall(r"[\w/]+\.py\b", section)
    assert len(names) > 15
    assert [name for name in names if not list(PACKAGE.rglob(name))] == []


def test_the_picture_shows_each_package_and_what_is_at_the_top(section):
    shown = set(re.findall(r"^   (\w+)/  ", section, re.MULTILINE))
    assert shown == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    (top,) = re.findall(r"^   (\w+\.py, \w+\.py)  ", section, re.MULTILINE)
    assert set(top.split(", ")) == {path.name for path in PACKAGE.glob("[!_]*.py")}


def test_the_places_and_the_hooks_in_the_picture_are_those_of_the_program(section):
    places = spool.Directories()
    assert set(re.findall(r"/run/[\w/-]+", section)) == {
        places.requests,
        places.results,
        spool.WEBHOOKS_RUNTIME_DIRECTORY,
    }
    hooks = [role_options.WEBHOOK_HOOK, role_options.CONTROLLER_HOOK]
    assert re.findall(r"─► ([\w-]+): notify/\w+_hook\.py", section) == hooks


def test_each_module_in_the_reading_order_exists():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (step,) = re.findall(
        r"^5\. `roles/poller/files/scheduled_events_poller`:(.*?)^6\. ", text, re.MULTILINE | re.DOTALL
    )
    names = re.findall(r"`([\w/]+\.py)`", step)
    assert len(names) == 4
    assert [name for name in names if not list(PACKAGE.rglob(name))] == []
