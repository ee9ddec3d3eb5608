# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What HAProxy says of its servers ten times a second: sample.py RESULT SECONDS, until SIGTERM or the time is up.

The result has the most servers that were out at once, and each change of a server with its time and last health check.
"""

import csv
import json
import pathlib
import signal
import socket
import sys
import time

SOCKET = "/run/haproxy/admin.sock"


def read_servers():
    """The rows of the servers."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        connection.sendall(b"show stat\n")
        with connection.makefile() as stream:
            rows = list(csv.DictReader(stream.read().lstrip("# ").splitlines()))
    return [row for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")]


def not_up(rows):
    """The servers of each backend that get no new requests."""
    backends = {}
    for row in rows:
        if not row["status"].startswith("UP"):
            backends.setdefault(row["pxname"], []).append(row["svname"])
    return backends


def described(row):
    """The status and the last health check. An asterisk marks a check that runs now."""
    check = row["check_status"].replace("* ", "")
    return f"{row['status']}, check {check or 'none'} {row['last_chk']}, {row['scur']} sessions"


def main():
    result, seconds = sys.argv[1:]
    ends_at = time.monotonic() + float(seconds)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    samples, worst, before, changes = 0, [], {}, []
    while not stop and time.monotonic() < ends_at:
        began = time.monotonic()
        rows = read_servers()
        worst = max([worst, *not_up(rows).values()], key=len)
        for row in rows:
            name, essence = f"{row['pxname']}/{row['svname']}", (row["status"], row["check_status"].replace("* ", ""))
            if before.get(name) != essence:
                before[name] = essence
                changes.append([time.time(), f"{name} {described(row)}"])
        samples += 1
        time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
    found = {"samples": samples, "most_out": len(worst), "worst": worst, "changes": changes}
    pathlib.Path(result).write_text(json.dumps(found))


main()
