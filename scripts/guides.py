# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write docs/*.md, the guides as Galaxy shows them, from docs/docsite/rst; with --check, fail if one differs.

Galaxy shows relative links as broken links. So all links in the Markdown files are absolute.
"""

import pathlib
import re
import sys
import textwrap
from collections.abc import Callable
from typing import NamedTuple

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.directives.admonitions import BaseAdmonition
from docutils.utils import SystemMessage

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = "docs/docsite/rst/guide_*.rst"
REPOSITORY = "https://github.com/maintops/scheduled_events"
RAW = "https://raw.githubusercontent.com/maintops/scheduled_events/main"
COLLECTION = "maintops.scheduled_events."
LABELS = f"ansible_collections.{COLLECTION}docsite."
WIDTH = 120
KEPT = "\0"  # in place of a space at which no line ends
HEAD = """<!--
Copyright (c) 2026 The maintops.scheduled_events authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later

Written by scripts/guides.py from {source}: change that file, and run the script.
-->

"""
ROLES = ("ansplugin", "ansopt", "ansretval", "ansval", "ansenvvar", "anscollection", "ref")
LANGUAGES = {"yaml+jinja": "yaml", "shell": "sh", "bash": "sh"}
TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^<>]+)>", re.DOTALL)


class Target(NamedTuple):
    """The target of a label."""

    guide: str
    title: str
    anchor: str


class Marked(nodes.inline):
    """The text of a role of Sphinx or antsibull."""


def mark(name: str, _raw: str, text: str, lineno: int, _inliner: object, *_rest: object) -> tuple[list[Marked], list]:
    node = Marked(text, text, role=name)
    node.line = lineno
    return [node], []


class CodeBlock(Directive):
    """The directive code-block of Sphinx."""

    has_content = True
    required_arguments = 1
    option_spec = {"emphasize-lines": directives.unchanged, "caption": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        return [nodes.literal_block(text, text, language=self.arguments[0].lower())]


class SeeAlso(BaseAdmonition):
    """The directive seealso of Sphinx."""

    node_class = nodes.admonition

    def run(self) -> list[nodes.Node]:
        self.arguments = ["See also"]
        return list(super().run())


def document_name(source: pathlib.Path) -> str:
    """guide_polling_unit.rst is docs/polling-unit.md."""
    return source.stem.replace("guide_", "", 1).replace("_", "-") + ".md"


def slug(title: str, taken: set[str]) -> str:
    """The anchor that GitHub gives to a title."""
    plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    anchor, number = plain, 0
    while anchor in taken:
        number += 1
        anchor = f"{plain}-{number}"
    taken.add(anchor)
    return anchor


def read(source: pathlib.Path) -> nodes.document:
    settings = {"halt_level": 2, "report_level": 5, "input_encoding": "utf-8", "doctitle_xform": False}
    return publish_doctree(source.read_text(), source_path=str(source), settings_overrides=settings)


def targets(name: str, document: nodes.document) -> dict[str, Target]:
    """The labels of a guide."""
    found, taken = {}, set[str]()
    for node in document.findall(nodes.section):
        title = node.next_node(nodes.title).astext()
        anchor = "#" + slug(title, taken)
        target = Target(name, title, "" if node.parent is document else anchor)
        found.update({label: target for label in node["names"] if label.startswith(LABELS)})
    return found


class Writer:
    """Writes a document as Markdown."""

    def __init__(self, labels: dict[str, Target]) -> None:
        self._labels = labels

    def write(self, document: nodes.document) -> str:
        return "\n\n".join(self._blocks(document)).replace(KEPT, " ") + "\n"

    def _blocks(self, parent: nodes.Element, level: int = 0) -> list[str]:
        return list(filter(None, (self._block(node, level) for node in parent.children)))

    def _block(self, node: nodes.Node, level: int) -> str:
        if isinstance(node, nodes.section):
            return "\n\n".join(self._blocks(node, level + 1))
        if isinstance(node, nodes.title):
            return f"{'#' * level} {self._inline(node)}"
        if isinstance(node, nodes.Admonition):
            return self._admonition(node)
        method: Callable[[nodes.Node], str] | None = getattr(self, f"_block_{type(node).__name__}", None)
        if method is None:
            raise ValueError(f"line {line_of(node)}: expected what scripts/guides.py can write, not {node.tagname}")
        return method(node)

    def _block_paragraph(self, node: nodes.Element) -> str:
        return wrap(self._inline(node))

    def _block_literal_block(self, node: nodes.Element) -> str:
        language = node.get("language", "text")
        return f"```{LANGUAGES.get(language, language)}\n{node.astext()}\n```"

    def _block_bullet_list(self, node: nodes.Element) -> str:
        return self._list(node, lambda _number: "- ")

    def _block_enumerated_list(self, node: nodes.Element) -> str:
        return self._list(node, lambda number: f"{number}. ")

    def _list(self, node: nodes.Element, bullet: Callable[[int], str]) -> str:
        items = [self._blocks(item) for item in node.children]
        loose = any(len(blocks) > 1 for blocks in items)
        texts = []
        for number, blocks in enumerate(items, start=1):
            text = textwrap.indent("\n\n".join(blocks), " " * len(bullet(number)))
            texts.append(bullet(number) + text.lstrip())
        return ("\n\n" if loose else "\n").join(texts)

    def _block_definition_list(self, node: nodes.Element) -> str:
        items = []
        for item in node.children:
            term, definition = item.children
            items.append(f"- **{self._inline(term)}**: " + "\n\n  ".join(self._blocks(definition)))
        return "\n".join(items)

    def _block_block_quote(self, node: nodes.Element) -> str:
        return textwrap.indent("\n\n".join(self._blocks(node)), "> ", lambda _line: True)

    def _admonition(self, node: nodes.Element) -> str:
        title = node.next_node(nodes.title)
        body = nodes.block_quote("", *[child.deepcopy() for child in node.children if child is not title])
        name = title.astext() if title else node.tagname.capitalize()
        return f"> **{name}**\n>\n" + self._block_block_quote(body)

    def _block_image(self, node: nodes.Element) -> str:
        return f"![{node.get('alt', '')}]({RAW}/docs/{node['uri'].lstrip('/')})"

    def _block_figure(self, node: nodes.Element) -> str:
        return "\n\n".join(self._blocks(node))

    def _block_caption(self, node: nodes.Element) -> str:
        return wrap(self._inline(node))

    def _block_table(self, node: nodes.Element) -> str:
        rows = [[self._cell(entry) for entry in row.children] for row in node.findall(nodes.row)]
        rows.insert(1, ["---"] * len(rows[0]))
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)

    def _cell(self, entry: nodes.Element) -> str:
        return "<br>".join(
            self._inline(part).replace("|", "\\|").replace("\n", " ") for part in entry.findall(nodes.paragraph)
        )

    def _block_comment(self, _node: nodes.Element) -> str:
        return ""

    _block_target = _block_comment

    def _inline(self, parent: nodes.Element) -> str:
        return "".join(self._phrase(node) for node in parent.children)

    def _phrase(self, node: nodes.Node) -> str:
        if isinstance(node, nodes.Text):
            return escape(node.astext())
        if isinstance(node, nodes.literal):
            return code(node.astext())
        if isinstance(node, nodes.strong):
            return f"**{self._inline(node)}**"
        if isinstance(node, nodes.emphasis):
            return f"*{self._inline(node)}*"
        if isinstance(node, nodes.reference):
            return link(self._inline(node), node["refuri"])
        if isinstance(node, Marked):
            return self._marked(node)
        if isinstance(node, nodes.target):
            return ""
        raise ValueError(f"line {line_of(node)}: expected what scripts/guides.py can write, not {node.tagname}")

    def _marked(self, node: Marked) -> str:
        text = " ".join(node.astext().split())
        titled = TITLED.fullmatch(text)
        title, target = titled.group("title", "target") if titled else ("", text)
        if node["role"] == "ref":
            return self._reference(node, title, target)
        if node["role"] != "ansplugin":
            return code(re.sub(r"^[\w.]+#\w+:(?:\w+:)?", "", target))
        name, _mark, kind = target.partition("#")
        address = source_of(name, kind)
        shown = escape(title) or code(name)
        return link(shown, address) if address else shown

    def _reference(self, node: Marked, title: str, label: str) -> str:
        if label in self._labels:
            found = self._labels[label]
            return link(escape(title or found.title), f"{REPOSITORY}/blob/main/docs/{found.guide}{found.anchor}")
        if label.startswith(LABELS) or not title:
            raise ValueError(f"line {line_of(node)}: expected a label of a guide, or a text with it, not {label}")
        return escape(title)


def line_of(node: nodes.Node) -> int:
    while node.line is None and node.parent is not None:
        node = node.parent
    return node.line or 0


def source_of(name: str, kind: str) -> str:
    """Return the address of the documentation of a plugin or role of this collection; empty for others."""
    if not name.startswith(COLLECTION):
        return ""
    short = name.removeprefix(COLLECTION)
    path = (
        f"roles/{short}/README.md"
        if kind == "role"
        else f"plugins/{'modules' if kind == 'module' else kind}/{short}.py"
    )
    return f"{REPOSITORY}/blob/main/{path}"


def escape(text: str) -> str:
    """Text that Markdown takes as it is."""
    text = re.sub(r"([\\`*\[\]])", r"\\\1", text).replace("<", "&lt;")
    return re.sub(r"\b_|_\b|(?<!\w)_(?!\w)", r"\\_", text)


def code(text: str) -> str:
    mark = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{mark}{space}{text}{space}{mark}".replace(" ", KEPT)


def link(shown: str, address: str) -> str:
    return f"[{shown}]({address})".replace(" ", KEPT)


def wrap(text: str) -> str:
    """The text in lines, of which none begins as a list or a title does."""
    lines: list[str] = []
    for line in textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False):
        begins_like_a_list = re.match(r"(?:[-+*#>]+|\d+[.)])(?:\s+|$)", line) if lines else None
        if begins_like_a_list:
            lines[-1] += f" {begins_like_a_list.group().strip()}"
        lines.append(line[begins_like_a_list.end() :] if begins_like_a_list else line)
    return "\n".join(filter(None, lines))


def guides() -> dict[str, str]:
    """The Markdown of each guide, by the name of its file."""
    directives.register_directive("code-block", CodeBlock)
    directives.register_directive("seealso", SeeAlso)
    for role in ROLES:
        roles.register_local_role(role, mark)
    documents = {source: read(source) for source in sorted(ROOT.glob(SOURCES))}
    labels: dict[str, Target] = {}
    for source, document in documents.items():
        labels.update(targets(document_name(source), document))
    texts = {}
    for source, document in documents.items():
        try:
            text = Writer(labels).write(document)
        except ValueError as error:
            raise ValueError(f"{source.relative_to(ROOT)}, {error}") from error
        texts[document_name(source)] = HEAD.format(source=source.relative_to(ROOT)) + text
    return texts


def differing(written: dict[str, str]) -> list[pathlib.Path]:
    """Markdown that does not say what its source says, and Markdown without a source."""
    paths = [ROOT / "docs" / name for name in written]
    different = [path for path in paths if not path.exists() or path.read_text() != written[path.name]]
    others = set((ROOT / "docs").glob("*.md")) - set(paths)
    return different + sorted(path for path in others if "Written by scripts/guides.py" in path.read_text())


def main() -> int:
    try:
        written = guides()
    except (SystemMessage, ValueError) as error:
        print(error)
        return 1
    different = differing(written)
    if "--check" in sys.argv:
        for path in different:
            print(f"docs/{path.name}: differs from its source in docs/docsite/rst. Run python scripts/guides.py")
        return 1 if different else 0
    for path in different:
        if path.name in written:
            path.write_text(written[path.name])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
