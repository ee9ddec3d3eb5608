# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages of this collection, their code blocks, and what stands in these."""

import pathlib
import re
import shlex
from typing import NamedTuple

import yaml

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ("README.md", "docs/*.md", "roles/*/README.md")
FENCED = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
HEREDOC = re.compile(r"^([^\n]*<<'?(\w+)'?[^\n]*)\n.*?^\2$", re.DOTALL | re.MULTILINE)


class Loader(yaml.SafeLoader):
    """Reads !unsafe as plain text."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


class Block(NamedTuple):
    """A code block; ``page`` is its path below the root."""

    page: str
    language: str
    text: str

    @property
    def name(self):
        """What names it in a test: its page and its first line."""
        return "{}: {}".format(self.page, self.text.partition("\n")[0])

    @property
    def data(self):
        return yaml.load(self.text, Loader)  # noqa: S506 - a safe loader with one more tag


def pages():
    """The text of each page, by its path."""
    paths = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def blocks(*languages):
    """The code blocks in these languages, or all of them: ``blocks(None)``."""
    return [
        Block(page, match["language"], re.sub("^" + match["indent"], "", match["text"], flags=re.MULTILINE))
        for page, text in pages().items()
        for match in FENCED.finditer(text)
        if match["language"] in languages or languages == (None,)
    ]


def is_play(item):
    return isinstance(item, dict) and ("import_playbook" in item or ("hosts" in item and "rules" not in item))


def is_rulebook(item):
    return isinstance(item, dict) and "rules" in item


def of_kind(is_kind):
    """The YAML blocks that are lists of one kind."""
    found = [(block, block.data) for block in blocks("yaml")]
    return [block for block, data in found if isinstance(data, list) and all(map(is_kind, data))]


def commands():
    """Pairs of a page and the words of a command, from the blocks for a shell and from the text."""
    found = [(block.page, line) for block in blocks("sh", "console") for line in lines(block)]
    for page, text in pages().items():
        found += [(page, code) for code in INLINE.findall(FENCED.sub("", text)) if " " in code]
    return [(page, words(line)) for page, line in found]


def lines(block):
    """The commands of a block, without what they read or write."""
    text = HEREDOC.sub(r"\1", block.text).replace("\\\n", " ")
    if block.language == "console":
        text = "\n".join(line[2:] for line in text.splitlines() if line.startswith(("$ ", "# ")))
    return [command for line in text.splitlines() for command in re.split(r"\s(?:&&|\|)\s", line)]


def words(line):
    try:
        found = shlex.split(line, comments=True)
    except ValueError:  # a quotation mark in a text that is not a command
        return []
    while found and re.match(r"[A-Z_]+=|sudo$|export$|#", found[0]):
        del found[0]
    return found
