# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The site and the report in a real browser, wide and narrow. `make docs` builds the site. No network is asked."""

import pathlib
import shutil
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright

ROOT = pathlib.Path(__file__).parents[2]
SITE = ROOT / ".nox" / "site" / "html"
PAGES = {
    "the start page of the site": SITE / "index.html",
    "a page with tables and code": SITE / "hooks.html",
    "a page with the widest table": SITE / "fault-matrix.html",
    "the report": ROOT / "tests" / "unit" / "plugins" / "plugin_utils" / "report" / "report.html",
}
WIDTHS = (400, 1280)  # pixels
BROWSERS = ("google-chrome", "chromium")
LINKS = "Array.from(document.links, each => each.href)"
BROKEN_IMAGES = "Array.from(document.images).filter(each => !each.naturalWidth).map(each => each.src)"
# Each text that is seen and ends to the right of its box or of the page, unless something around it scrolls.
TOO_WIDE = """() => {
    const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode, range = document.createRange();
        range.selectNodeContents(text);
        const box = text.parentElement.closest("svg") || text.parentElement;
        const seen = box.checkVisibility({checkVisibilityCSS: true, checkOpacity: true});
        let around = text.parentElement, scrolls = false;
        for (; around; around = around.parentElement)
            scrolls ||= ["auto", "scroll"].includes(getComputedStyle(around).overflowX) || around.offsetWidth == 1;
        const inline = box.tagName != "svg" && getComputedStyle(box).display.startsWith("inline");
        const limit = inline ? innerWidth : Math.min(innerWidth, box.getBoundingClientRect().right);
        const right = Math.max(...Array.from(range.getClientRects(), each => each.right));
        if (text.data.trim() && seen && !scrolls && right > limit + 1)
            found.push(`${text.data.trim().slice(0, 60)}: ${Math.round(right)} > ${Math.round(limit)}`);
    }
    if (document.documentElement.scrollWidth > innerWidth)
        found.push(`the page is ${document.documentElement.scrollWidth} wide`);
    return found;
}"""


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, f"none of {', '.join(BROWSERS)} is installed"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])  # the tests of CI run as root
        yield started
        started.close()


@pytest.fixture(params=WIDTHS)
def show(browser, request):
    """Open a file; the page, and what went wrong."""
    context = browser.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    context.set_default_timeout(300_000)  # milliseconds
    page, problems = context.new_page(), []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda failed: problems.append(f"{failed.url}: {failed.failure}"))

    def opened(path):
        page.goto(path.as_uri(), wait_until="load")
        return page, problems

    yield opened
    context.close()


def leads_nowhere(link):
    """Whether a link to a file names one that does not exist, or a place that is not in it."""
    parts = urlsplit(link)
    path = pathlib.Path(unquote(parts.path))
    if parts.scheme != "file" or path.suffix != ".html":
        return parts.scheme == "file" and not path.exists()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return not path.exists() or (parts.fragment and f'id="{parts.fragment}"' not in text)


def problems_of(page):
    """What is wrong with what a page shows."""
    return page.evaluate(BROKEN_IMAGES) + page.evaluate(TOO_WIDE) + list(filter(leads_nowhere, page.evaluate(LINKS)))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_its_text_stays_in_its_boxes(show, name):
    page, problems = show(PAGES[name])
    assert problems_of(page) == []
    assert problems == []


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>nowhere()</script>", "nowhere is not defined"),
        ("<img src='nowhere.png'>", "ERR_FILE_NOT_FOUND"),
        ("<p>{}</p>".format("long" * 999), "longlong"),
        ("<div style='width: 50px'>{}</div>".format("long" * 9), "longlong"),
        ("<svg width='50'><text x='40' y='20'>too long</text></svg>", "too long"),
        ("<a href='nowhere.html'>there</a>", "nowhere.html"),
        ("<a href='#nowhere'>there</a>", "#nowhere"),
        ('<p>A short text</p><a href="#here" id="here">here</a>', ""),
    ],
)
def test_a_problem_is_found(show, tmp_path, body, problem):
    (tmp_path / "page.html").write_text(f"<!DOCTYPE html><title>A page</title><body>{body}")
    page, problems = show(tmp_path / "page.html")
    found = problems_of(page) + problems
    assert problem in str(found)
    assert bool(problem) == bool(found)
