# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, and write down what it and all that it started used: scripts/measured.py RESULT COMMAND [ARGUMENT ...]

RESULT is a JSON file: seconds, cpu (user and system, in seconds), memory (bytes of the largest process) and the exit
status. Processes that leave their parents, such as those of test hosts, count too: they become children of this one.
"""

import ctypes
import json
import os
import pathlib
import resource
import signal
import sys
import time

SET_CHILD_SUBREAPER = 36  # of prctl
PASSED_ON = {signal.SIGTERM, signal.SIGINT}
WAITED_FOR = {*PASSED_ON, signal.SIGCHLD}


def main():
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    # Blocked to the end: a signal waits until this process takes it, and never ends it.
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    default = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores these
    command = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, setsigmask=(), setsigdef=default)
    status, until = None, 0.0
    while status is None or time.monotonic() < until:
        came = signal.sigtimedwait(WAITED_FOR, 0.1)
        if came and came.si_signo in PASSED_ON:
            if status is None:  # after that, the number can be that of another process
                os.kill(command, came.si_signo)
            continue
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            while pid:
                if pid == command:
                    status = os.waitstatus_to_exitcode(ended)
                    until = time.monotonic() + 1  # a second for what ends together with it
                pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    result = {"seconds": time.monotonic() - began, "cpu": cpu, "memory": memory, "status": status}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result))
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
