# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Sphinx builds the documentation site; `make docs` brings the pages."""

import os
import pathlib
import re
import sys
from typing import Any

from docutils import nodes
from pygments.lexers.special import TextLexer

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from internal_modules import set_apart

project = "maintops.scheduled_events"
author = "The maintops.scheduled_events authors"
copyright = f"2026 {author}"  # noqa: A001 - Sphinx reads this name
html_title = "Azure Scheduled Events"

extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinx_design"]
myst_heading_anchors = 3  # those that GitHub gives
default_role = "any"
nitpicky = True
antsibull_ext_color_scheme = "none"  # site.css has the colors, for a light and a dark page
pygments_style = "ansible"
highlight_language = "yaml+jinja"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}

REPOSITORY = "https://github.com/maintops/scheduled_events/blob/main"
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest/"
PAGES = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
PLUGIN = re.compile(r"ansible_collections\.(?!maintops\.)(\w+)\.(\w+)\.(\w+?_[a-z]+)(?:__.*)?")


def find_elsewhere(_app: Any, _env: Any, node: Any, content: nodes.Node) -> nodes.reference | None:
    """What the documentation of Ansible has, without asking the network for it as intersphinx does."""
    label = node["reftarget"]
    plugin = PLUGIN.fullmatch(label)
    page = "collections/{}/{}/{}.html".format(*plugin.groups()) if plugin else PAGES.get(label)
    return nodes.reference("", "", content, refuri=ANSIBLE + page, internal=False) if page else None


def lead_out(path: re.Match[str]) -> str:
    """A link of a page in docs to what is not beside it: to the page of the module or role, or to the repository."""
    module = re.fullmatch(r"\.\./plugins/modules/(\w+)\.py", path[1])
    role = re.fullmatch(r"\.\./roles/(\w+)/README\.md", path[1])
    if module:
        return f"]({module[1]}_module.rst)"
    if role:
        return f"]({role[1]}_role.rst)"
    return f"]({REPOSITORY}/{os.path.normpath('docs/' + path[1])})"


def headed(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n"


def adjust(app: Any, page: str, source: list[str]) -> None:
    """Fit the pages to this site: names of antsibull-docs are short, and the theme lists the sections of a page."""
    if app.env.doc2path(page).suffix == ".md":
        source[0] = re.sub(r"\]\((\.\./[^)]+|monitoring/[^)]+)\)", lead_out, source[0])
        return
    role = re.fullmatch(r"(\w+)_role", page)
    instead = (
        f"How it works, with examples: `README of the role <{REPOSITORY}/roles/{role[1]}/README.md>`__.\n"
        if role
        else ""
    )
    text = re.sub(r"^\.\. contents::.*\n(?: +:.*\n)*", instead, source[0], flags=re.MULTILINE)
    text = re.sub(r"^maintops\.scheduled_events\.(\w+ (?:module|filter|role) -- )", r"\1", text, flags=re.MULTILINE)
    if page == "reference":
        text = re.sub(
            r"^Maintops\.Scheduled_Events\n=+\n", headed("Modules, filters and roles"), text, flags=re.MULTILINE
        )
        text = set_apart(text)
        text = re.sub(r"^Changelog\n-+\n.*?(?=^\.\. _)", "", text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"^    (\w+)_(module|filter|role)$", r"    \1 (\2) <\1_\2>", text, flags=re.MULTILINE)
    elif page == "changelog":
        text = re.sub(r"^(=+\n).*(\n=+\n)", r"\1Changelog\2", text, count=1, flags=re.MULTILINE)
    source[0] = text


def setup(app: Any) -> None:
    app.add_lexer("cron", TextLexer)
    app.connect("source-read", adjust)
    app.connect("missing-reference", find_elsewhere)
