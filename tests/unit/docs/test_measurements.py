# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page and the picture of the measurements show the results that the picture holds."""

import pathlib
import xml.etree.ElementTree

import pytest
from loading import loaded

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def figures():
    """The script that writes both."""
    return loaded(ROOT / "scripts" / "figures.py")


def test_the_page_and_the_picture_are_written_from_the_results_that_the_picture_holds(figures):
    page, picture = figures.PAGE.read_text(), figures.PICTURE.read_text()
    results = figures.recorded(picture)
    assert figures.draw(results) == picture
    assert figures.page_with(page, results) == page
    assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg")


def test_each_client_and_each_side_was_measured_more_than_once(figures):
    results = figures.recorded(figures.PICTURE.read_text())
    clients, respond = figures.beside_of(results)["clients"], figures.respond_of(results)
    assert set(clients) == set(figures.side_by_side.CLIENTS)
    assert set(respond) == set(figures.HOSTS)
    values = [values for each in clients.values() for values in each.values()]
    values += [values for sides in respond.values() for side in sides.values() for values in side.values()]
    assert min(len(each) for each in values) > 1
