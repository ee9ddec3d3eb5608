# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of this collection and their code blocks, on every Python and without YAML."""

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/*.md", "roles/*/README.md")
FENCED = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n\n?)?"
    r"(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A code block.

    :param page: its path below the root.
    :param reason: why no test runs it, or ``None``.
    """

    page: str
    language: str
    text: str
    reason: str

    @property
    def name(self):
        """What names it in a test: its page and its first line."""
        return "{}: {}".format(self.page, self.text.partition("\n")[0])


def pages():
    """The text of each page, by its path."""
    paths = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def blocks(*languages):
    """The code blocks in these languages, or all of them: ``blocks(None)``."""
    return [
        Block(
            page,
            match.group("language"),
            re.sub("^" + match.group("indent"), "", match.group("text"), flags=re.MULTILINE),
            match.group("reason"),
        )
        for page, text in pages().items()
        for match in FENCED.finditer(text)
        if match.group("language") in languages or languages == (None,)
    ]


def block(page, start, *parts):
    """The only code block of a page that begins with ``start`` and contains ``parts``, as it stands there.

    The test that takes a block runs it: tests/unit/docs/test_code_blocks.py finds the blocks that no test takes.
    """
    texts = [each.text for each in blocks(None) if each.page == page and each.text.startswith(start)]
    found = [text for text in texts if all(part in text for part in parts)]
    assert len(found) == 1, f"{len(found)} blocks of {page} begin with {start!r} and contain {parts}"
    return found[0]
