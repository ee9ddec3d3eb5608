# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command of webhooks, which its hook and its unit run; imports no more than the hook has to wait for.

scheduled-events-webhooks COMMAND [CONFIG STATE RUNTIME]
spool: leave the event on standard input for the receivers.
deliver: send them what waits.
"""

import time
from typing import Callable, Dict, List, Union

from ..spool import MAX_REQUEST


def main(arguments: List[str]) -> Union[int, str]:
    """Carry out the command; returns an exit status, or how it is used."""
    if len(arguments) in (1, 4) and arguments[0] in _COMMANDS:
        return _COMMANDS[arguments[0]](*arguments[1:])
    return __doc__


def _spool(*places: str) -> int:
    import os
    import sys

    from . import hook

    environment = {
        name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in os.environb.items()
    }
    text = sys.stdin.buffer.read(MAX_REQUEST).decode("utf-8", "replace")
    return hook.main(environment, text, **dict(zip(("config", "state", "runtime"), places)))


def _deliver(*places: str) -> int:
    from . import service

    try:
        return service.Service(*places).run()
    except Exception:
        time.sleep(5.0)  # systemd starts this again at once, for as long as a message is left
        raise


_COMMANDS: Dict[str, Callable[..., int]] = {"spool": _spool, "deliver": _deliver}
