# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the command `scheduled-events`, each in a fork of one process that has imported it.

To start Python and import requests takes ten times the CPU time of a command. The process is this file as a program:
it reads a line of JSON for each request, and writes a line with a number.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

GUARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "guard")
RUNNING = 1000  # in place of an exit status


class Runs:
    """Starts the process at the first run; it ends with the process of the tests."""

    def __init__(self, command):
        self._command = command
        self._process = None

    def run(self, arguments):
        """Run the command; its exit status, standard output and standard error."""
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            status = self.ended(self._start(arguments, output.name, errors.name, {}), 0)
            return status, output.read(), errors.read()

    def start(self, arguments, log, **environment):
        """Start the command, which appends what it shows to a file; it is a ``Started``."""
        return Started(self, self._start(arguments, log, log, environment))

    def ended(self, pid, options):
        """The exit status of a run, or RUNNING; with the options of waitpid."""
        return self._ask({"pid": pid, "options": options})

    def _start(self, arguments, output, errors, environment):
        what = {"arguments": arguments, "environment": dict(os.environ, **environment), "directory": os.getcwd()}
        return self._ask(dict(what, output=output, errors=errors))

    def _ask(self, request):
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), self._command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                universal_newlines=True,
                env=dict(os.environ, PYTHONPATH=GUARD),
            )
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


class Started:
    """A run that goes on, with the methods of subprocess.Popen."""

    def __init__(self, runs, pid):
        self.pid, self.returncode = pid, None
        self._runs = runs

    def poll(self):
        if self.returncode is None:
            status = self._runs.ended(self.pid, os.WNOHANG)
            self.returncode = None if status == RUNNING else status
        return self.returncode

    def wait(self, timeout):
        give_up_at = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > give_up_at:
                raise subprocess.TimeoutExpired("scheduled-events", timeout)
            time.sleep(0.01)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def play(command, request):
    """Be the command, as a new process would be."""
    for descriptor, path in ((0, os.devnull), (1, request["output"]), (2, request["errors"])):
        opened = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [command, *request["arguments"]]
    runpy.run_path(command, run_name="__main__")


def end(command, request):
    """Be the command, and end as Python does, but keep the memory: the system frees it faster."""
    status = 1
    try:
        play(command, request)
        sys.stderr.write("the command did not end with sys.exit\n")
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            status = ending.code or 0
        else:
            sys.stderr.write(f"{ending.code}\n")
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


def end_of(pid, options):
    """Return the exit status of a child as subprocess has it, or RUNNING."""
    ended, status = os.waitpid(pid, options)
    if not ended:
        return RUNNING
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def main():
    command = sys.argv[1]
    runpy.run_path(command, run_name="imported")
    gc.collect()
    if hasattr(gc, "freeze"):  # from Python 3.7 on
        gc.freeze()  # so that children share this memory
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            answer = end_of(request["pid"], request["options"])
        else:
            answer = os.fork()
            if answer == 0:
                end(command, request)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
