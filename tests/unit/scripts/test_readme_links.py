# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links of the README, which is also read on Galaxy, where no relative link leads anywhere."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RAW = "https://raw.githubusercontent.com/maintops/scheduled_events"
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
TARGET = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"")


def targets(text):
    return ["".join(pair) for pair in TARGET.findall(FENCED.sub("", text))]


def repository():
    (url,) = re.findall(r"^repository: (\S+)$", (ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    return url


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def problem_of(target):
    """What is wrong with a link, or None."""
    if not target.startswith("https://"):
        return "is relative"
    for place in (f"{repository()}/blob/main/", f"{repository()}/tree/main/", f"{RAW}/main/"):
        if target.startswith(place):
            path, _hash, anchor = target[len(place) :].partition("#")
            if not (ROOT / path).exists():
                return "names a file that does not exist"
            if anchor and anchor not in anchors((ROOT / path).read_text(encoding="utf-8")):
                return "names an anchor that does not exist"
    return None


def test_every_link_of_the_readme_is_absolute_and_leads_somewhere():
    found = {target: problem_of(target) for target in targets(README)}
    assert len(found) > 10
    assert {target: problem for target, problem in found.items() if problem} == {}


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("docs/engine.md", "is relative"),
        ("#install", "is relative"),
        ("{repository}/blob/main/docs/nowhere.md", "names a file that does not exist"),
        ("{repository}/blob/main/README.md#nowhere", "names an anchor that does not exist"),
        ("{repository}/blob/main/README.md#what-always-holds", None),
        ("https://semver.org/", None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(target, problem):
    assert problem_of(target.format(repository=repository())) == problem
