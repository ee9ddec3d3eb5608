# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The event source as ansible-rulebook runs it: by its path, in an event loop, with a queue of one place."""

import asyncio
import pathlib
import sys
import threading
import time

import pytest
from loading import loaded

ROOT = pathlib.Path(__file__).parents[3]
SOURCE = ROOT / "extensions" / "eda" / "plugins" / "event_source" / "scheduled_events.py"
LIMIT = 300.0  # seconds; only so that a hang is named

sys.path[:0] = [str(ROOT / "tests" / "fuzz"), str(ROOT / "tests" / "unit" / "plugins" / "module_utils")]

from ..emulator import conftest as of_the_emulator  # noqa: E402

emulate, served = of_the_emulator.emulate, of_the_emulator.served


@pytest.fixture(scope="session")
def source():
    """The file of the source as a module."""
    return loaded(SOURCE)


class Listening:
    """A rulebook that listens to the source. ``received``: the events that it took, as they came."""

    def __init__(self, main, args):
        self.received = []
        self._failure = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(main, args)), daemon=True)
        self._thread.start()
        assert self._ready.wait(LIMIT), "the source did not start"

    async def _run(self, main, args):
        self._loop = asyncio.get_running_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._main = asyncio.create_task(main(self, args))
        self._ready.set()
        try:
            await self._main
            self._failure = AssertionError("the source returned")
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self._failure = error
        self.left_over = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    async def put(self, event):
        await self._open.wait()
        self.received.append(event)

    def block(self):
        """Take no more events, as a rulebook whose actions run."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def go_on(self):
        self._loop.call_soon_threadsafe(self._open.set)

    def until(self, condition):
        """Wait for the condition, and fail with what the source failed with."""
        give_up_at = time.monotonic() + LIMIT
        while not condition():
            if self._failure:
                raise self._failure
            assert time.monotonic() < give_up_at, f"it did not come about; received: {self.received}"
            time.sleep(0.01)

    def take(self, count):
        """Wait for so many events; all of them so far."""
        self.until(lambda: len(self.received) >= count)
        return list(self.received)

    def changes(self):
        return [(event["change"], event["event_status"]) for event in self.received]

    def stop(self):
        """Cancel the source, as ansible-rulebook does at its end."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the source did not end when it was cancelled"


@pytest.fixture
def listen(source):
    """Return a function that starts the source with these arguments."""
    running = []

    def start(*endpoints, **args):
        running.append(Listening(source.main, {"endpoints": list(endpoints), "interval": 0.25, **args}))
        return running[-1]

    yield start
    for each in running:
        each.stop()
