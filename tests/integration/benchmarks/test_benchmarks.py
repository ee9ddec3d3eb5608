# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each benchmark, as small as it can be: what it measures here means nothing."""

import json
import pathlib
import subprocess
import sys

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[3] / "benchmarks"
SHORT = {
    "emulator_load": "--vms 20 --seconds 1 --rounds 1",
    "event_filter": "--vms 20 --events 5",
    "flood": "--units 20",
    "gate": "--hosts 5 --forks 5",
}
LONG = {
    "modules": "--rounds 1 --wait 2",
    "poller": "--polls 200 --events 4",
    "respond_scale": "--hosts 1",
    "rulebook": "--vms 20 --events 5",
    "side_by_side": "--runs 1 --events 1",
}
CASES = [*SHORT.items(), *(pytest.param(*case, marks=pytest.mark.long) for case in LONG.items())]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_benchmark_comes_to_its_end_and_writes_its_result_as_json(name, options):
    command = [sys.executable, BENCHMARKS / f"{name}.py", *options.split()]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    assert lines, done.stdout + done.stderr
    assert json.loads(lines[-1])


def test_no_benchmark_is_left_out():
    assert {path.stem for path in BENCHMARKS.glob("*.py")} == {*SHORT, *LONG}
