# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A child of a zygote is what its client would have been: see support/zygote.py."""

import json
import os
import select
import signal
import subprocess
import sys
import zipfile

import pytest
from zygotes import SEPARATELY

PROGRAM = """
import atexit, json, os, sys
atexit.register(lambda: os.write(1, b"the end"))
print(json.dumps([sys.argv, os.environ["OWN"], os.getcwd(), os.umask(0), sys.path[0], sys.stdin.read(), __name__]))
sys.exit(7)
"""

# As the start of a module: it says what it got, and whether that was imported by this process.
MODULE = """
import os, sys
sys.path.insert(0, {payload!r})
from ansible.module_utils.below import thing
print(thing.VALUE, thing.IMPORTED_BY == os.getpid())
"""
PACKAGE = "from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"
THING = "import os\nfrom ansible.module_utils.below.other import VALUE\nIMPORTED_BY = os.getpid()\n"


@pytest.fixture
def run(zygotes, tmp_path):
    """Run the interpreter of modules; the ended process."""

    def run(*arguments, given="", **environment):
        return subprocess.run(
            [zygotes.interpreter, *arguments],
            check=False,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "OWN": "Größe", **environment},
            input=given,
            text=True,
            timeout=60,
            umask=0o27,
        )

    return run


def test_a_script_gets_what_its_client_was_given_and_gives_its_exit_code(run, tmp_path):
    (tmp_path / "script.py").write_text(PROGRAM)
    ended = run("./script.py", "one two", given="three")
    assert (ended.returncode, ended.stderr) == (7, "")
    seen, end = ended.stdout.splitlines()
    place = str(tmp_path)
    assert json.loads(seen) == [["./script.py", "one two"], "Größe", place, 0o27, place, "three", "__main__"]
    assert end == "the end"


def test_a_program_on_standard_input_that_fails_shows_its_traceback(run):
    ended = run(given="import no_such_module")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback")
    assert "No module named 'no_such_module'" in ended.stderr


def test_a_signal_ends_client_and_child_alike(run):
    assert run(given="import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == -signal.SIGKILL


def test_what_python_reads_at_its_start_is_left_to_a_new_interpreter(run, tmp_path):
    (tmp_path / "only_here.py").write_text("print('imported')")
    assert run(given="import only_here", PYTHONPATH=str(tmp_path), PYTHONSAFEPATH="1").stdout == "imported\n"
    assert run("-c", "import sys; print(sys.executable)").stdout.strip() == sys.executable


def test_a_child_ends_with_its_client(zygotes):
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    client = subprocess.Popen([zygotes.interpreter], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client.stdin.write(program.encode())
    client.stdin.close()
    child = os.pidfd_open(int(client.stdout.readline()))
    client.kill()
    client.wait()
    assert select.select([child], [], [], 60)[0]
    os.close(child)
    client.stdout.close()


@pytest.mark.skipif(SEPARATELY, reason="TIER=soak shares nothing")
def test_module_utils_are_imported_once_for_payloads_with_the_same_files_and_no_others(run, tmp_path):
    def module(number, value):
        payload = tmp_path / f"{number}.zip"
        with zipfile.ZipFile(payload, "w") as archive:
            archive.writestr("ansible/__init__.py", PACKAGE)
            archive.writestr("ansible/module_utils/__init__.py", PACKAGE)
            archive.writestr("ansible/module_utils/below/__init__.py", "")
            archive.writestr("ansible/module_utils/below/thing.py", THING)
            archive.writestr("ansible/module_utils/below/other.py", f"VALUE = {value!r}\n")
        ended = run(given=MODULE.format(payload=str(payload)))
        payload.unlink()
        return ended.stdout + ended.stderr

    assert module(1, "first") == "first True\n"
    assert module(2, "first") == "first False\n"
    assert module(3, "other") == "other True\n"
    assert module(4, "first") == "first False\n"
