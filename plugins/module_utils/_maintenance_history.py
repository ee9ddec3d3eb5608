# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host, as a rolling maintenance writes it.

Private to the collection: it may change in any release.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ._scheduled_events.clock import Moment
from ._scheduled_events.files import Folder
from ._scheduled_events.history import ROLLING_MAINTENANCE, Fact, as_json
from ._scheduled_events.history_file import History


class Written(NamedTuple):
    """The facts as the result of the run has them, and why the host does not have them; empty if it has."""

    facts: List[Dict[str, Any]]
    problem: str


def write(folder: Folder, noted: Sequence[Mapping[str, Any]], *, maintenance: str, run: str, now: Moment) -> Written:
    """Write what the control node noted. What cannot be written fails nothing.

    :param noted: each with ``kind``, ``ago`` in seconds, and what is known of ``phase``, ``outcome`` and ``reason``.
    """
    facts = [
        Fact(
            kind=str(each["kind"]),
            time=now.wall - float(each["ago"]),
            source=ROLLING_MAINTENANCE,
            boot_id=now.boot_id,
            run=run,
            maintenance=maintenance,
            phase=str(each.get("phase", "")),
            outcome=str(each.get("outcome", "")),
            reason=str(each.get("reason", "")),
        )
        for each in noted
    ]
    problem = ""
    # On a Windows host, each file takes several starts of PowerShell. There the result of the run has the facts.
    if facts and folder.is_here:
        try:
            folder.make()
            History(folder.path).append(facts, now=now.wall)
        except OSError as error:
            problem = f"the history in {folder.path} cannot be written: {error}"
    return Written([as_json(fact) for fact in facts], problem)
