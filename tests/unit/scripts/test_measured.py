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

SCRIPT = str(pathlib.Path(__file__).parents[3] / "scripts" / "measured.py")
WORK = "import time\nwhile time.process_time() < 0.3: pass\n"
# The first child has ended long before, and the other works, as processes of test hosts do.
DAEMON = f"""
import os
end, held = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        exec({WORK!r})
    os._exit(0)
os.close(held)
os.read(end, 1)
"""
HOLD = "held = bytearray(40_000_000)"
LIMIT = 60  # seconds; only so that a hang is named


@pytest.fixture
def measure(tmp_path):
    """Run a Python program; the exit status, and the result."""

    def measure(program):
        result = tmp_path / "result.json"
        command = [sys.executable, SCRIPT, str(result), sys.executable, "-c", program]
        return subprocess.run(command, timeout=LIMIT, check=False).returncode, json.loads(result.read_text())

    return measure


def test_the_exit_status_is_that_of_the_command(measure):
    status, result = measure("raise SystemExit(3)")
    assert (status, result["status"]) == (3, 3)


def test_the_end_by_a_signal_is_the_status_of_a_shell(measure):
    status, result = measure("import os; os.kill(os.getpid(), 9)")
    assert (status, result["status"]) == (128 + signal.SIGKILL, -signal.SIGKILL)


def test_a_process_that_left_its_parent_counts(measure):
    _status, result = measure(DAEMON)
    assert result["cpu"] >= 0.3


def test_the_memory_is_that_of_the_largest_process(measure):
    _status, result = measure(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}])")
    assert 40_000_000 <= result["memory"] < 400_000_000


# As on a busy machine, where the command runs before its measurement goes on.
SLOW = f"""
import os, runpy, time
spawn = os.posix_spawnp
os.posix_spawnp = lambda *of, **named: (spawn(*of, **named), time.sleep(0.3))[0]
runpy.run_path({SCRIPT!r}, run_name="__main__")
"""


@pytest.mark.parametrize("script", [[SCRIPT], ["-c", SLOW]], ids=["fast", "slow"])
def test_a_signal_that_ends_it_reaches_the_command(tmp_path, script):
    # It ends at once: a second signal that reaches Python's clean-up would end it in another way.
    program = (
        "import os, signal, time; signal.signal(15, lambda *_: os._exit(7)); print('ready', flush=True); time.sleep(60)"
    )
    command = [sys.executable, *script, str(tmp_path / "result.json"), sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        while process.poll() is None:
            process.terminate()  # most of these come when the command has ended already
        assert process.wait(LIMIT) == 7
