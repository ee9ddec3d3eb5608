# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a run of the demo, from the histories that the playbook left on its hosts.

On real hosts, the playbook `maintops.scheduled_events.report` writes it. In the demo, emulated time is faster than real
time, so this puts the times of the facts on the emulated clock first.
"""

import pathlib
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from plugins.module_utils._scheduled_events import history_file
from plugins.module_utils._scheduled_events.history import Fact
from plugins.plugin_utils._report.gather import collection_version
from plugins.plugin_utils._report.page import page
from plugins.plugin_utils._report.story import tell


def write_report(path: pathlib.Path, histories: dict[str, str], clock: tuple[float, float], speed: float) -> str:
    """Write the page; gives its verdict.

    :param histories: by host, the directory of its history.
    :param clock: a moment in real time and in emulated time, in seconds since the epoch.
    """

    def emulated(fact: Fact) -> Fact:
        real, shown = clock
        return fact._replace(time=shown + (fact.time - real) * speed)

    read: dict[str, Any] = {host: history_file.read(place, now=time.time()) for host, place in histories.items()}
    facts = {host: [emulated(fact) for fact in found.facts] for host, found in read.items()}
    story = tell(facts, {host: found.problems for host, found in read.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    made = clock[1] + (time.time() - clock[0]) * speed
    path.write_text(page(story, made=made, version=collection_version()), encoding="utf-8")
    return story.verdict
