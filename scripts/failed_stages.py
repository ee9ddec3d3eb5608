# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show which stages failed in a report of nox (`nox --report FILE`), and the command that repeats them."""

import json
import pathlib
import sys


def main() -> None:
    report = pathlib.Path(sys.argv[1])
    if not report.exists():
        return  # nox itself did not come to an end, and has said why
    sessions = json.loads(report.read_text())["sessions"]
    failed = [(session["signatures"] or [session["name"]])[0] for session in sessions if session["result_code"] <= 0]
    if failed:
        print("Failed:", ", ".join(failed))
        print("Repeat with: .venv/bin/nox --session", *failed)


if __name__ == "__main__":
    main()
