# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host, as the turns of a play write it. Private to the collection: it may change in any release."""

from typing import Any, Dict, List

from ._scheduled_events.clock import CLOCK
from ._scheduled_events.files import Folder
from ._scheduled_events.history import RESPOND, ROLLING_MAINTENANCE, as_json
from ._scheduled_events.history_file import append_where_possible
from ._scheduled_events.transitions import Step, Writer, facts_of
from ._turn_request import TurnRequest


class TurnHistory:
    """The facts of one turn."""

    def __init__(self, folder: Folder, request: TurnRequest, *, within_maintenance: bool) -> None:
        self._folder = folder
        self._writer = Writer(
            ROLLING_MAINTENANCE if within_maintenance else RESPOND,
            f"the play on {request.owner.get('node') or 'the control node'}",
            boot_id=folder.moment(CLOCK).boot_id,
            run=request.run,
        )
        self._facts: List[Dict[str, Any]] = []

    def added_to(self, shown: Dict[str, Any], step: Step) -> Dict[str, Any]:
        """Write the facts of a step whose state has been saved, and add them to what the control node reads.

        What cannot be written fails nothing.
        """
        facts = facts_of(step, self._writer)
        self._facts.extend(map(as_json, facts))
        problem = append_where_possible(self._folder, facts, now=step.now.wall)
        return dict(shown, problems=[*shown["problems"], *filter(None, [problem])], facts=self._facts)
