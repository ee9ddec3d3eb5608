# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Galaxy does with the tarball when it is published, with the checks of Automation Hub."""

import json
import os
import re
import subprocess
import sys

import pytest

# `make lint` runs ansible-lint on these files, with more rules and without the importer's limit of 180 seconds, which
# a busy machine exceeds. Before a release, `make soak` runs that of the importer too.
LINTS = os.environ.get("TIER") == "soak"
AUTOMATION_HUB = {
    "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true",
    "GALAXY_IMPORTER_REQUIRE_V1_OR_GREATER": "true",
    "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": str(LINTS).lower(),
}


@pytest.fixture(scope="module")
def imported(tarball, tmp_path_factory):
    """The exit status, the lines of the output, and the result, of which Galaxy makes its pages."""
    directory = tmp_path_factory.mktemp("importer")
    done = subprocess.run(
        [sys.executable, "-m", "galaxy_importer.main", tarball],
        cwd=directory,
        env={**os.environ, **AUTOMATION_HUB},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    result = directory / "importer_result.json"
    return done.returncode, done.stdout.splitlines(), json.loads(result.read_text()) if result.exists() else {}


def test_the_importer_has_nothing_to_say_against_the_tarball(imported):
    status, lines, _result = imported
    assert ("...ansible-lint run complete" in lines) == LINTS
    assert [line for line in lines if line.startswith(("WARNING", "ERROR", "CRITICAL"))] == []
    assert (status, lines[-1]) == (0, "Importer processing completed successfully")


def test_the_readmes_are_the_pages_on_galaxy_and_no_link_or_picture_there_is_relative(imported, unpacked):
    _status, _lines, result = imported
    pages = result["docs_blob"]
    assert pages["documentation_files"] == []
    roles = [item for item in pages["contents"] if item["content_type"] == "role"]
    texts = [pages["collection_readme"]["html"], *(role["readme_html"] for role in roles)]
    assert [link for text in texts for link in re.findall('(?:href|src)="([^"#:]*)"', text)] == []
    assert {role["content_name"] for role in roles if role["readme_html"]} == {
        path.name for path in unpacked.glob("roles/*")
    }


def test_each_module_plugin_and_event_source_has_its_documentation_on_galaxy(imported, unpacked):
    _status, _lines, result = imported
    documented = {
        item["content_name"] for item in result["docs_blob"]["contents"] if (item["doc_strings"] or {}).get("doc")
    }
    files = [
        *unpacked.glob("plugins/modules/*.py"),
        *unpacked.glob("plugins/filter/*.py"),
        *unpacked.glob("plugins/lookup/*.py"),
        *unpacked.glob("extensions/eda/plugins/event_source/*.py"),
    ]
    assert documented == {path.stem for path in files}
