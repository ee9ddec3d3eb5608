# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/measured.py: what a command and all that it starts use."""

import json
import pathlib
import signal
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).parents[3] / "scripts"
SCRIPT = str(SCRIPTS / "measured.py")
LOOKING_OFTEN = f"""
import sys
sys.path.insert(0, {str(SCRIPTS)!r})
import measured
measured.EVERY = 0.1
measured.main()
"""
WORK = "import time\nwhile time.process_time() < 0.3: pass\n"
DAEMON = (
    f"import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        exec({WORK!r})\n    os._exit(0)\n"
)
LIMIT = 60  # seconds; only so that a hang is named


@pytest.fixture
def measure(tmp_path):
    """Run a Python program; the exit status, and the result."""

    def measure(program):
        result = tmp_path / "result.json"
        command = [sys.executable, "-c", LOOKING_OFTEN, str(result), sys.executable, "-c", program]
        return subprocess.run(command, timeout=LIMIT, check=False).returncode, json.loads(result.read_text())

    return measure


def test_the_exit_status_is_that_of_the_command(measure):
    status, result = measure("raise SystemExit(3)")
    assert (status, result["status"]) == (3, 3)


def test_the_end_by_a_signal_is_the_status_of_a_shell(measure):
    status, result = measure("import os; os.kill(os.getpid(), 9)")
    assert (status, result["status"]) == (128 + signal.SIGKILL, -signal.SIGKILL)


def test_a_process_that_left_its_parent_counts(measure):
    """As those of test hosts do: the first child has ended long before."""
    _status, result = measure(f"{DAEMON}import time; time.sleep(1)")
    assert result["cpu"] >= 0.3


def test_a_process_that_still_runs_counts(measure):
    program = f"import subprocess, sys\n{WORK}subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1)'])"
    _status, result = measure(program)
    assert result["cpu"] >= 0.3


def test_the_memory_of_all_processes_is_added(measure):
    hold = "import time; held = bytearray(40_000_000); time.sleep(1)"
    start = f"subprocess.Popen([sys.executable, '-c', {hold!r}])"
    _status, result = measure(f"import subprocess, sys\nfor each in [{start}, {start}]: each.wait()")
    assert result["memory"] >= 80_000_000


def test_a_signal_that_ends_it_reaches_the_command(tmp_path):
    program = "import signal, time; signal.signal(15, lambda *_: exit(7)); print('ready', flush=True); time.sleep(60)"
    command = [sys.executable, SCRIPT, str(tmp_path / "result.json"), sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.terminate()
        process.terminate()  # the command has perhaps ended already
        assert process.wait(LIMIT) == 7
