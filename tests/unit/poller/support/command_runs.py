# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the command `scheduled-events`, each in a fork of one process that has imported it.

To start Python and import requests takes ten times the CPU time of a command. The process is this file as a program:
it reads a line of JSON for each run, and writes the exit status.
"""

import json
import os
import runpy
import subprocess
import sys
import tempfile


class Runs:
    """Starts the process at the first run; it ends with the process of the tests."""

    def __init__(self, command):
        self._command = command
        self._process = None

    def run(self, arguments):
        """Run the command; its exit status, standard output and standard error."""
        if self._process is None:
            program = [sys.executable, os.path.abspath(__file__), self._command]
            self._process = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True
            )
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            files = {"output": output.name, "errors": errors.name}
            request = dict(files, arguments=arguments, environment=dict(os.environ), directory=os.getcwd())
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return status, output.read(), errors.read()


def play(command, request):
    """Be the command, as a new process would be."""
    for descriptor, path in ((0, os.devnull), (1, request["output"]), (2, request["errors"])):
        os.dup2(os.open(path, os.O_RDWR), descriptor)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = [command, *request["arguments"]]
    runpy.run_path(command, run_name="__main__")


def main():
    command = sys.argv[1]
    runpy.run_path(command, run_name="imported")
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            play(command, json.loads(line))
            sys.exit("the command did not end with sys.exit")
        _child, status = os.waitpid(child, 0)
        print(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), flush=True)


if __name__ == "__main__":
    main()
