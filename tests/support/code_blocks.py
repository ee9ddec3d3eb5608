# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the code blocks of the pages."""

import re
import shlex

import yaml
from page_blocks import FENCED, blocks, pages

INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
HEREDOC = re.compile(r"^([^\n]*<<'?(\w+)'?[^\n]*)\n.*?^\2$", re.DOTALL | re.MULTILINE)


class Loader(yaml.SafeLoader):
    """Reads !unsafe as plain text."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def data(block):
    """What a YAML block holds."""
    return yaml.load(block.text, Loader)  # noqa: S506 - a safe loader with one more tag


def is_play(item):
    return isinstance(item, dict) and ("import_playbook" in item or ("hosts" in item and "rules" not in item))


def is_rulebook(item):
    return isinstance(item, dict) and "rules" in item


def of_kind(is_kind):
    """The YAML blocks that are lists of one kind."""
    found = [(block, data(block)) for block in blocks("yaml")]
    return [block for block, held in found if isinstance(held, list) and all(map(is_kind, held))]


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
