# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, and write down what it and all that it started used: scripts/measured.py RESULT COMMAND [ARGUMENT ...]

RESULT is a JSON file: seconds, cpu (user and system, in seconds), memory (bytes of the largest process) and the exit
status. Processes that leave their parents, such as those of test hosts, count too: they become children of this one.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

SET_CHILD_SUBREAPER = 36  # of prctl
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def main():
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    process = subprocess.Popen(sys.argv[2:])

    def pass_on(number, _frame):
        # Not with send_signal, which would take the status of a process that has just ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    status, until = None, 0.0
    while status is None or time.monotonic() < until:  # a second for what ends together with it
        try:
            pid, ended = os.waitpid(-1, 0 if status is None else os.WNOHANG)
        except ChildProcessError:
            break
        if pid == process.pid:
            for number in SIGNALS:  # the command has ended: Python's own end would be that of a signal
                signal.signal(number, signal.SIG_IGN)
            process.returncode = status = os.waitstatus_to_exitcode(ended)
            until = time.monotonic() + 1
        elif pid == 0:
            time.sleep(0.05)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    result = {"seconds": time.monotonic() - began, "cpu": cpu, "memory": memory, "status": status}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result))
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
