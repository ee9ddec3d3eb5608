# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command of the units that run as root; imports no more than a hook has to wait for.

scheduled-events-hooks [--hooks-directory=…] [--runtime-directory=…] [--hooks-runtime-directory=…] COMMAND
dispatch: take the requests of the poller, and start a unit for each.
run ID: run the hooks of an accepted request.
ended ID: leave a result for a run whose process could not.
"""

import os
from typing import List, Union

from _scheduled_events.runs import parse_run_id

from ..spool import Directories

NOT_STORED = 74  # EX_IOERR; the unit does not start such a run again, whose hooks may have ended


def main(arguments: List[str]) -> Union[int, str]:
    """Carry out the command; returns an exit status, or what is wrong."""
    directories = Directories()
    while arguments and arguments[0].startswith("--"):
        option, _is, value = arguments.pop(0)[2:].partition("=")
        name = option[: -len("-directory")].replace("-", "_")
        if name not in directories._fields:
            return __doc__
        directories = directories._replace(**{name: value})
    if arguments == ["dispatch"]:
        return _dispatch(directories)
    if len(arguments) == 2 and arguments[0] in ("run", "ended"):
        return _run(directories, *arguments)
    return __doc__


def _dispatch(directories: Directories) -> Union[int, str]:
    from . import dispatcher

    try:
        dispatcher.Dispatcher(directories, dispatcher.start_units).serve()
    except OSError as error:  # systemd starts this again, and the requests are left
        return f"requests wait: {error}"
    return 0


def _run(directories: Directories, command: str, request_id: str) -> Union[int, str]:
    from . import jobs, runner

    if parse_run_id(request_id) is None:
        jobs.say(f"{request_id!r} is not an id of a run")
        return 2
    try:
        if command == "run":
            return runner.run(request_id, directories)
        return runner.ended(request_id, directories, os.environ)
    except OSError as error:  # such as a /run that cannot be written
        jobs.say(f"{request_id}: its result cannot be stored: {error}. Without one, the poller takes it for a timeout")
        return NOT_STORED
