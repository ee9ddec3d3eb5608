# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions that the collection states in several places agree with the changelog."""

import ast
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
PREPARED = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
RELEASES = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text())["releases"]
VERSION_ADDED = re.compile(r"^ *version_added: (.*)$", re.MULTILINE)


def plugins():
    """The kind, the name and the version of each plugin with documentation."""
    for kind in ("modules", "filter"):
        for path in sorted((ROOT / "plugins" / kind).glob("[a-z]*.py")):
            yield kind, path.stem, documentation(path)["version_added"]
    for path in sorted((ROOT / "roles").glob("*/meta/argument_specs.yml")):
        yield "role", path.parents[1].name, yaml.safe_load(path.read_text())["argument_specs"]["main"]["version_added"]


def documentation(path):
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "DOCUMENTATION":
            return yaml.safe_load(node.value.value)
    raise AssertionError(f"{path}: expected a variable DOCUMENTATION")


def released_in(kind, name):
    """The release that the changelog has the plugin new in; the prepared one where no release has it."""
    for version, release in RELEASES.items():
        new = [*release.get("modules", [])] if kind == "modules" else []
        new += release.get("plugins", {}).get(kind, []) + release.get("objects", {}).get(kind, [])
        if name in [entry["name"] for entry in new]:
            return version
    return PREPARED


@pytest.mark.parametrize(("kind", "name", "version_added"), list(plugins()))
def test_a_plugin_is_documented_as_added_in_the_release_that_has_it_first(kind, name, version_added):
    assert version_added == released_in(kind, name)


def test_every_version_added_is_a_release_or_the_prepared_one():
    documented = [*ROOT.glob("plugins/**/*.py"), *ROOT.glob("extensions/eda/plugins/**/*.py")]
    documented += ROOT.glob("roles/*/meta/argument_specs.yml")
    unknown = {
        str(path.relative_to(ROOT)): version
        for path in documented
        for version in VERSION_ADDED.findall(path.read_text())
        if version not in {*RELEASES, PREPARED}
    }

    assert unknown == {}


def test_the_polling_unit_shows_the_version_of_the_collection():
    program = (ROOT / "roles" / "poller" / "files" / "scheduled_events_poller" / "__init__.py").read_text()

    assert f'__version__ = "{PREPARED}"' in program
