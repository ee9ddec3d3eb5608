# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a command, and write down the CPU seconds and the peak memory of all processes that it started.

    python scripts/measured.py RESULT COMMAND [ARGUMENT ...]

RESULT is a JSON file: seconds and cpu (user and system) in seconds, memory in bytes, and the exit status. Processes
that leave their parents, such as those of test hosts, count too: this process becomes their parent, and not init.
Memory is what the processes do not share with files, looked at every five seconds.
"""

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
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
EVERY = 5  # seconds


def descendants():
    """Return the fields of /proc/PID/stat, from the state on, of each process below this one."""
    fields = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
        except (OSError, UnicodeDecodeError):  # it has ended
            continue
    family = {os.getpid()}
    size = 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, each in fields.items() if int(each[1]) in family}
    return {pid: fields[pid] for pid in family - {os.getpid()}}


def memory_of(pid):
    """Return the bytes of a process that are not those of a file; 0 after its end."""
    try:
        _size, resident, shared = pathlib.Path(f"/proc/{pid}/statm").read_text().split()[:3]
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * PAGE


def cpu():
    """Return the CPU seconds of every process that has ended, and of those that still run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(int(each) for stat in descendants().values() for each in stat[11:15])  # its own, and its children's
    return ended.ru_utime + ended.ru_stime + ticks / TICKS


def run(command):
    """Run the command, and return what it used."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    began = time.monotonic()
    process = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Not with send_signal, which would take the status of a process that has just ended.
        signal.signal(number, lambda received, _frame: os.kill(process.pid, received))
    peak, due, status = 0, 0, None
    while status is None:
        if time.monotonic() >= due:
            peak = max(peak, sum(map(memory_of, descendants())))
            due = time.monotonic() + EVERY
        pid, ended = os.waitpid(-1, os.WNOHANG)
        if pid == process.pid:
            status = process.returncode = os.waitstatus_to_exitcode(ended)
        elif pid == 0:
            time.sleep(0.2)
    return {"seconds": time.monotonic() - began, "cpu": cpu(), "memory": peak, "status": status}


def main():
    result = run(sys.argv[2:])
    pathlib.Path(sys.argv[1]).write_text(json.dumps(result))
    sys.exit(result["status"] if result["status"] >= 0 else 128 - result["status"])


if __name__ == "__main__":
    main()
