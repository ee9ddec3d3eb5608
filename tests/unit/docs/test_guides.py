# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Markdown of the guides, as scripts/guides.py writes it from reStructuredText."""

import importlib.util

import pytest
import yaml
from code_blocks import ROOT

LABEL = "ansible_collections.maintops.scheduled_events.docsite.guide"
DOCS = "https://github.com/maintops/scheduled_events/blob/main"
HEAD = f".. _{LABEL}_a:\n\nTitle\n=====\n\n"


class Guides:
    """A tree of guides, and the script."""

    def __init__(self, directory, monkeypatch, capsys):
        spec = importlib.util.spec_from_file_location("guides", ROOT / "scripts" / "guides.py")
        self._module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self._module)
        monkeypatch.setattr(self._module, "ROOT", directory)
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self.docs = directory / "docs"
        (self.docs / "docsite" / "rst").mkdir(parents=True)

    def add(self, name, text):
        (self.docs / "docsite" / "rst" / f"guide_{name}.rst").write_text(text)

    def run(self, *options):
        """The exit status and the output."""
        self._monkeypatch.setattr("sys.argv", ["guides.py", *options])
        return self._module.main(), self._capsys.readouterr().out

    def body(self, name):
        return (self.docs / f"{name}.md").read_text().partition("-->\n\n")[2]


@pytest.fixture
def guides(tmp_path, monkeypatch, capsys):
    return Guides(tmp_path, monkeypatch, capsys)


CASES = {
    "a paragraph in lines of at most 120": ("word " * 30, f"{'word ' * 24}".strip() + "\n" + ("word " * 6).strip()),
    "code in one line": ("word " * 23 + "``a b c``", ("word " * 23).strip() + "\n`a b c`"),
    "code with a backtick": ("``a`b``", "`` a`b ``"),
    "characters of Markdown": ("a*b <c> [d] _e f_g", "a\\*b &lt;c> \\[d\\] \\_e f_g"),
    "no line that begins a list": ("word " * 23 + "then - more", ("word " * 23) + "then -\nmore"),
    "strong and emphasis": ("**a** *b*", "**a** *b*"),
    "a list": ("- a\n- b\n\n  - c", "- a\n\n- b\n\n  - c"),
    "a numbered list": ("#. a\n#. b", "1. a\n2. b"),
    "code": (".. code-block:: yaml+jinja\n\n   a: '{{ b }}'", "```yaml\na: '{{ b }}'\n```"),
    "a note": (".. note::\n\n   Text.", "> **Note**\n>\n> Text."),
    "see also": (".. seealso::\n\n   Text.", "> **See also**\n>\n> Text."),
    "a table": (
        ".. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - ``c|d``\n     - e\n\n       f",
        "| a | b |\n| --- | --- |\n| `c\\|d` | e<br>f |",
    ),
    "an image": (
        ".. image:: /images/a.svg\n   :alt: What it shows",
        "![What it shows](https://raw.githubusercontent.com/maintops/scheduled_events/main/docs/images/a.svg)",
    ),
    "a link": ("`a <https://example.com>`__", "[a](https://example.com)"),
    "a role": (
        ":ansplugin:`the role <maintops.scheduled_events.poller#role>`",
        f"[the role]({DOCS}/roles/poller/README.md)",
    ),
    "a module": (
        ":ansplugin:`maintops.scheduled_events.scheduled_events_info#module`",
        f"[`maintops.scheduled_events.scheduled_events_info`]({DOCS}/plugins/modules/scheduled_events_info.py)",
    ),
    "a plugin of others": (":ansplugin:`ansible.builtin.copy#module`", "`ansible.builtin.copy`"),
    "an option": (
        ":ansopt:`maintops.scheduled_events.poller#role:main:poller_acknowledge=never`",
        "`poller_acknowledge=never`",
    ),
    "another guide": (f":ref:`there <{LABEL}_b>`", f"[there]({DOCS}/docs/b.md)"),
    "a section": (f":ref:`{LABEL}_b.more`", f"[More of it]({DOCS}/docs/b.md#more-of-it)"),
    "a label of others": (":ref:`there <ansible_collections.a.b.c_module>`", "there"),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_markup_becomes_markdown(guides, source, expected):
    guides.add("a", f"{HEAD}{source}\n")
    guides.add(
        "b", f".. _{LABEL}_b:\n\nOther\n=====\n\n.. _{LABEL}_b.more:\n\nMore of ``it``\n--------------\n\nText\n"
    )
    assert guides.run() == (0, "")
    assert guides.body("a") == f"# Title\n\n{expected}\n"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            f":ref:`there <{LABEL}_nowhere>`",
            f"line 6: expected a label of a guide, or a text with it, not {LABEL}_nowhere",
        ),
        (".. topic:: Title\n\n   Text.", "line 6: expected what scripts/guides.py can write, not topic"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_place(guides, source, complaint):
    guides.add("a", f"{HEAD}{source}\n")
    assert guides.run() == (1, f"docs/docsite/rst/guide_a.rst, {complaint}\n")


def test_a_mistake_in_a_source_is_refused_with_its_place(guides):
    guides.add("a", f"{HEAD}``never closed\n")
    status, output = guides.run()
    assert status == 1
    assert "guide_a.rst:6" in output


def test_check_finds_what_differs_and_what_lost_its_source(guides):
    guides.add("a", f"{HEAD}Text\n")
    guides.add("b", f"{HEAD}Text\n")
    assert guides.run("--check")[0] == 1
    assert guides.run() == (0, "")
    assert guides.run("--check") == (0, "")
    (guides.docs / "a.md").write_text("changed")
    (guides.docs / "docsite" / "rst" / "guide_b.rst").unlink()
    remedy = "differs from its source in docs/docsite/rst. Run python scripts/guides.py"
    assert guides.run("--check") == (1, f"docs/a.md: {remedy}\ndocs/b.md: {remedy}\n")
    assert guides.run() == (0, "")
    assert sorted(path.name for path in guides.docs.glob("*.md")) == ["a.md"]


def test_the_site_lists_every_guide_once():
    sections = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text())["sections"]
    listed = [guide for section in sections for guide in section["toctree"]]
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "docs" / "docsite" / "rst").glob("*.rst"))
