# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The links of the pages. Galaxy shows README and roles, where no relative link leads anywhere, and no other page.

Nothing is asked of the network: of links to others only the form is checked.
"""

import os
import re
from urllib.parse import urlsplit

import pytest
from page_blocks import FENCED, ROOT, pages

RAW = "https://raw.githubusercontent.com/maintops/scheduled_events"
TARGET = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"|<(https?:[^>\s]+)>")
# A file of the repository in the text of a page, and the title of a part of it: `README.md`, "Releases" and "Licence".
FILE = re.compile(r"`((?:[a-z_.-]+/)*[A-Za-z_.-]+/?)`(?:, ((?:(?: and )?\"[^\"]+\")+))?")
# Pages of GitHub, of a clone and of the site. Their links are relative: the site leads them to its own pages.
OTHERS = ("*.md", ".github/**/*.md", "docs/**/*.md", "extensions/molecule/*.md", "tests/support/*/*.md")


def targets(text):
    return ["".join(found) for found in TARGET.findall(FENCED.sub("", text))]


def repository():
    (url,) = re.findall(r"^repository: (\S+)$", (ROOT / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    return url


def anchors(text):
    """The anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def problem_in_repository(target):
    path, _hash, anchor = target.partition("#")
    if not (ROOT / path).exists():
        return "names a file that does not exist"
    if anchor and anchor not in anchors((ROOT / path).read_text(encoding="utf-8")):
        return "names an anchor that does not exist"
    return None


def problem_of(target):
    """What is wrong with a link, or None."""
    parts = urlsplit(target)
    if not parts.scheme:
        return "is relative"
    for place in (f"{repository()}/blob/main/", f"{repository()}/tree/main/", f"{RAW}/main/"):
        if target.startswith(place):
            return problem_in_repository(target[len(place) :])
    if parts.scheme != "https" or not re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc):
        return "is not https://HOST/PATH"
    return None


@pytest.mark.parametrize("page", [page for page in pages() if not page.startswith("docs/")])
def test_every_link_of_a_page_on_galaxy_is_absolute_and_leads_somewhere(page):
    found = {target: problem_of(target) for target in targets(pages()[page])}
    assert {target: problem for target, problem in found.items() if problem} == {}


def test_the_links_are_found():
    assert sum(len(targets(text)) for text in pages().values()) > 50


def links_of_others():
    """Pairs of a page and the target of a link, relative to the root if it has no scheme."""
    paths = {path for pattern in OTHERS for path in ROOT.glob(pattern)}
    for path in sorted(paths - {ROOT / "README.md", ROOT / "CHANGELOG.md"}):
        for target in targets(path.read_text(encoding="utf-8")):
            absolute = path.name + target if target.startswith("#") else target
            place = path.parent.relative_to(ROOT)
            yield str(path), target if urlsplit(target).scheme else os.path.normpath(place / absolute)


def test_every_link_of_the_other_pages_leads_somewhere():
    found = list(links_of_others())
    assert len(found) > 10
    check = {True: problem_of, False: problem_in_repository}
    problems = [(page, target, check[bool(urlsplit(target).scheme)](target)) for page, target in found]
    assert [link for link in problems if link[2]] == []


def others():
    """The text of each page that is not for Galaxy alone, by its path."""
    paths = sorted({path for pattern in (*OTHERS, "roles/*/README.md") for path in ROOT.glob(pattern)})
    return {str(path.relative_to(ROOT)): FENCED.sub("", path.read_text(encoding="utf-8")) for path in paths}


def missing_files(page, text):
    """What a page names and the repository, or the directory of the page, does not have: files, and titles in them."""
    tops = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    for name, titles in FILE.findall(text):
        places = [place / name for place in (ROOT, (ROOT / page).parent)]
        found = next((place for place in places if place.exists()), None)
        if not found and "/" in name and name.partition("/")[0] in tops and "NAME" not in name:
            yield name
        for title in re.findall(r'"([^"]+)"', titles) if found and name.endswith(".md") else ():
            if not re.search(rf"^#+ {re.escape(title)}$|\*\*{re.escape(title)}\*\*", found.read_text(), re.MULTILINE):
                yield f"{name}: {title}"


@pytest.mark.parametrize("page", others())
def test_the_files_and_titles_that_a_page_names_exist(page):
    assert list(missing_files(page, others()[page])) == []


def test_a_file_and_a_title_that_do_not_exist_are_found():
    text = '`README.md`, "Releases" and "Nothing"; `tests/nothing.py`; `docs/images/`; `images`; `meta/nothing.yml`'
    assert list(missing_files("docs/a.md", text)) == ["README.md: Nothing", "tests/nothing.py", "meta/nothing.yml"]


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("docs/engine.md", "is relative"),
        ("#install", "is relative"),
        ("http://semver.org/", "is not https://HOST/PATH"),
        ("https:///semver.org", "is not https://HOST/PATH"),
        ("{repository}/blob/main/docs/nowhere.md", "names a file that does not exist"),
        ("{repository}/blob/main/docs/overview.md#nowhere", "names an anchor that does not exist"),
        ("{repository}/blob/main/docs/overview.md#guarantees", None),
        ("https://semver.org/", None),
    ],
)
def test_a_link_that_leads_nowhere_is_found(target, problem):
    assert problem_of(target.format(repository=repository())) == problem
