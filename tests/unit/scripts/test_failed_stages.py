# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said after a run of all stages that failed."""

import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "failed_stages.py"


def said(path, sessions=None):
    """What the script prints of a report with these sessions: name, signatures, code of the result."""
    if sessions is not None:
        names = ("name", "signatures", "result_code")
        path.write_text(json.dumps({"sessions": [dict(zip(names, session)) for session in sessions]}))
    return subprocess.check_output([sys.executable, str(SCRIPT), str(path)], text=True, timeout=60)


def test_the_command_repeats_the_stages_that_failed_or_were_aborted(tmp_path):
    sessions = [("lint", ["lint"], 0), ("library", ["library-3.6"], -1), ("unit", ["unit"], 1), ("galaxy", [], 0)]
    assert said(tmp_path / "report", sessions) == (
        "Failed: lint, library-3.6, galaxy\nRepeat with: .venv/bin/nox --session lint library-3.6 galaxy\n"
    )


def test_nothing_is_said_where_none_failed(tmp_path):
    assert said(tmp_path / "report", [("unit", ["unit"], 1), ("library", ["library-3.6"], 2)]) == ""


def test_nothing_is_said_without_a_report(tmp_path):
    assert said(tmp_path / "missing") == ""
