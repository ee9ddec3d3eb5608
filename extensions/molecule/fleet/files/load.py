# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load on the balancers: load.py RESULT RATE SECONDS URL..., until SIGTERM or the time is up.

Half of the workers hold their connections open, the others open one for each request. Every tenth request takes half
a second. An answer other than 200, a reset, a connection refused and a minute without an answer are failures.
A slow answer is not a failure: a busy machine gives slow answers, too.
"""

import asyncio
import collections
import json
import pathlib
import signal
import sys
import time

import aiohttp

WORKERS = 32


class Count:
    def __init__(self):
        self.requests = 0
        self.failures = collections.Counter()
        self.first_failures = []

    def note(self, failure):
        self.requests += 1
        if failure:
            self.failures[failure] += 1
            if len(self.first_failures) < 20:
                self.first_failures.append([round(time.time(), 3), failure])


async def request(session, url):
    """Return the failure; None without one."""
    try:
        async with session.get(url) as response:
            await response.read()
            return None if response.status == 200 else str(response.status)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        return type(error).__name__


async def work(number, urls, interval, count, stop):
    keep = number % 2 == 0
    connector = aiohttp.TCPConnector(limit=1, force_close=not keep)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        count = 0
        due = time.monotonic() + interval * number / WORKERS
        while not stop.is_set():
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due = max(due + interval, time.monotonic())
            url = urls[(number // 2) % len(urls)] + ("/slow" if count % 10 == number % 10 else "/")
            count.note(await request(session, url))
            count += 1


async def main():
    result, rate, seconds, *urls = sys.argv[1:]
    count, stop = Count(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.call_later(float(seconds), stop.set)
    await asyncio.gather(*(work(n, urls, WORKERS / float(rate), count, stop) for n in range(WORKERS)))
    report = {"requests": count.requests, "failed": sum(count.failures.values()), "failures": count.failures}
    pathlib.Path(result).write_text(json.dumps({**report, "first_failures": count.first_failures}))


asyncio.run(main())
