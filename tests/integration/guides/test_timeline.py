# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture in the README and the guides shows what happens in a run."""

import pathlib
import sys
import xml.etree.ElementTree

import pytest
from loading import loaded
from zygotes import ZYGOTES

ROOT = pathlib.Path(__file__).parents[3]
PICTURE = (ROOT / "docs" / "images" / "timeline.svg").read_text()


@pytest.fixture(scope="module")
def timeline():
    """The script that draws the picture."""
    return loaded(ROOT / "demo" / "timeline.py")


def test_the_picture_is_drawn_from_the_events_that_it_holds(timeline):
    assert timeline.draw(timeline.recorded(PICTURE)) == PICTURE
    assert xml.etree.ElementTree.fromstring(PICTURE).tag.endswith("svg")


@pytest.mark.usefixtures("installed_collection", "zygotes")
def test_the_picture_shows_the_events_of_a_run_in_their_order(timeline, monkeypatch):
    monkeypatch.setenv("ANSIBLE_CONFIG", str(ZYGOTES.home / "ansible.cfg"))
    monkeypatch.setenv("ANSIBLE_PIPELINING", "true")  # a module starts in half the time
    monkeypatch.setattr(sys, "executable", ZYGOTES.interpreter)  # that of the modules

    def steps(events):
        return [(event.get("vm"), event["what"]) for event in events]

    assert steps(timeline.recorded(PICTURE)) == steps(timeline.record())
