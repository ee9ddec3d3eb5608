# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The call of the module that takes a turn, on any host. Private to the collection: it may change in any release."""

from typing import Any, Dict, Optional

from ._module import ImdsModule
from ._scheduled_events.checks import WrongValue
from ._scheduled_events.files import Folder
from ._scheduled_events.state import StateError
from ._turn import INTERVALS, Intervals, Turn
from ._turn_request import TurnRequest


def take_turn(run: ImdsModule, folder: Optional[Folder] = None, intervals: Intervals = INTERVALS) -> Dict[str, Any]:
    """Carry out the module; see :class:`Turn`."""
    if not run.params["control_node"]:
        raise WrongValue(
            "control_node is missing, expected the values of the action plugin of this module. Call the module by its "
            "full name"
        )
    control_node = dict(run.params["control_node"])
    vm_name = control_node.pop("vm_name", "") or run.vm_name()
    try:
        turn = Turn(
            run.client,
            vm_name,
            run.params,
            TurnRequest(**control_node),
            check_mode=run.module.check_mode,
            clock=run.clock,
            folder=folder,
            intervals=intervals,
        )
        return dict(turn.take(), changed=False)
    except (WrongValue, StateError, OSError) as error:
        raise WrongValue(str(error)) from error
