# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What HAProxy says of its servers ten times a second: sample.py RESULT SECONDS, until SIGTERM or the time is up."""

import csv
import json
import pathlib
import signal
import socket
import sys
import time

SOCKET = "/run/haproxy/admin.sock"


def not_up():
    """The servers of each backend that get no new requests."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        connection.sendall(b"show stat\n")
        with connection.makefile() as stream:
            rows = list(csv.DictReader(stream.read().lstrip("# ").splitlines()))
    backends = {}
    for row in rows:
        if row["svname"] not in ("FRONTEND", "BACKEND") and not row["status"].startswith("UP"):
            backends.setdefault(row["pxname"], []).append(row["svname"])
    return backends


def main():
    result, seconds = sys.argv[1:]
    ends_at = time.monotonic() + float(seconds)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    samples, worst = 0, []
    while not stop and time.monotonic() < ends_at:
        began = time.monotonic()
        worst = max([worst, *not_up().values()], key=len)
        samples += 1
        time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))
    pathlib.Path(result).write_text(json.dumps({"samples": samples, "most_out": len(worst), "worst": worst}))


main()
