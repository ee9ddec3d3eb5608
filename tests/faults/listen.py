# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the event source at a path with arguments in JSON; write a line for each event that it sends."""

import asyncio
import importlib.util
import json
import sys


class Queue:
    async def put(self, event):
        print(json.dumps(event), flush=True)


spec = importlib.util.spec_from_file_location("event_source", sys.argv[1])
source = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)
asyncio.run(source.main(Queue(), json.loads(sys.argv[2])))
