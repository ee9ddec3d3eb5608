# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How Sphinx builds the documentation site; `make docs` brings the pages."""

import pathlib
import re
import sys
from typing import Any

import yaml
from docutils import nodes

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from internal_modules import set_apart

project = "maintops.scheduled_events"
author = "The maintops.scheduled_events authors"
copyright = f"2026 {author}"  # noqa: A001 - Sphinx reads this name
html_title = "Azure Scheduled Events"

extensions = ["sphinx_antsibull_ext", "sphinx_design"]
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


def guides() -> str:
    """The navigation of the guides, in the order of extra-docs.yml."""
    listing = pathlib.Path(__file__).parents[1] / "docsite" / "extra-docs.yml"
    sections = yaml.safe_load(listing.read_text())["sections"]
    return "\n".join(
        f".. toctree::\n   :caption: {section['title']}\n   :hidden:\n\n"
        + "".join(f"   docsite/{guide}\n" for guide in section["toctree"])
        for section in sections
    )


def headed(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n"


def adjust(_app: Any, page: str, source: list[str]) -> None:
    """Fit what antsibull-docs wrote to this site: the theme lists the sections of a page, names are short."""
    role = re.fullmatch(r"(\w+)_role", page)
    instead = (
        f"How it works, with examples: `README of the role <{REPOSITORY}/roles/{role[1]}/README.md>`__.\n"
        if role
        else ""
    )
    text = re.sub(r"^\.\. contents::.*\n(?: +:.*\n)*", instead, source[0], flags=re.MULTILINE)
    text = re.sub(r"^maintops\.scheduled_events\.(\w+ (?:module|filter|role) -- )", r"\1", text, flags=re.MULTILINE)
    if page == "index":
        text = text.replace(".. guides of extra-docs.yml\n", guides())
    elif page == "reference":
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
    app.connect("source-read", adjust)
    app.connect("missing-reference", find_elsewhere)
