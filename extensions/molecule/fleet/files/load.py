# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load probe of drills as a program: load.py RESULT RATE SECONDS URL...

It writes its counts to a file after this time, or at SIGTERM.
"""

import json
import pathlib
import signal
import sys
import threading

from load_probe import Load, Options


def main() -> None:
    result, rate, seconds, *urls = sys.argv[1:]
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    load = Load(Options(urls, float(rate), timeout=60.0))
    load.start()
    ended.wait(float(seconds))
    pathlib.Path(result).write_text(json.dumps(load.stop()._asdict()))


if __name__ == "__main__":
    main()
