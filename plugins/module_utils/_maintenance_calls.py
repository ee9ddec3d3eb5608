# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The calls of the modules of a rolling maintenance, on any host.

Private to the collection: it may change in any release.
"""

from typing import Any, Callable, Dict, Optional

from ._load_balancer.record import Record, RecordError
from ._maintenance import ASKING, HELD, Host, MaintenanceError
from ._maintenance_history import write
from ._module import ImdsModule
from ._scheduled_events.client import ImdsError
from ._scheduled_events.endpoint import SettingError
from ._scheduled_events.files import Folder

LOAD_BALANCER_FILE = "load-balancer.json"
SURVEY_OPTIONS: Dict[str, Dict[str, Any]] = {
    "directory": {"type": "path", "default": "/var/lib/maintops"},
    "flag": {"type": "path", "default": "/var/lib/maintops/drained"},
    "owner": {"type": "str"},
    "by": {"type": "dict", "default": {}},
    "lease": {"type": "float", "default": 180},
    "ended_owners": {"type": "list", "elements": "str", "default": []},
    "checked": {"type": "bool", "default": False},
}
MARK_OPTIONS: Dict[str, Dict[str, Any]] = {
    "state": {"type": "str", "choices": ["held", "noted", "done", "absent", "failed"], "required": True},
    "directory": {"type": "path", "default": "/var/lib/maintops"},
    "lease": {"type": "float", "default": 1800},
    "round": {"type": "dict", "default": {}},
    "owner": {"type": "str"},
    "by": {"type": "dict", "default": {}},
    "phase": {"type": "str", "choices": ["drain", "tasks", "reboot", "health", "return"]},
    "reason": {"type": "str", "default": ""},
    "history": {"type": "dict", "default": {}},
}


def survey(
    module: Any, host: Host, folder: Folder, *, flag_is_up: Callable[[], bool], read: Callable[[], Dict[str, Any]]
) -> Dict[str, Any]:
    """Mark the host if an owner is given, then look at all that the gate wants to know.

    :param read: reads the events.
    """
    claimed = _claim(module, host)  # before the look at the events
    found = {
        "changed": claimed["marked"],
        "drained": folder.has(LOAD_BALANCER_FILE) or flag_is_up(),
        "returning": _returning(folder),
        "records": host.records(),
    }
    return dict(found, **claimed, **read())


def _returning(folder: Folder) -> Optional[Dict[str, Any]]:
    """Who puts the host back into its load balancer now, and for how many seconds that counts at most."""
    try:
        return Record(folder).returning()
    except RecordError:
        return None  # the host counts as drained, and the next drain says what is wrong


def _claim(module: Any, host: Host) -> Dict[str, Any]:
    """Mark the host if an owner is given, and return the mark that it has."""
    options, dead = module.params, module.params["ended_owners"]
    marked = False
    try:
        if options["owner"] is None or module.check_mode:
            if options["checked"] and not module.check_mode:
                host.check(dead)
            mark = host.mark()
        else:
            other = host.take(
                options["owner"],
                by=options["by"],
                stage=ASKING,
                lease=options["lease"],
                dead=dead,
                checked=options["checked"],
            )
            marked = other is None
            mark = other or host.mark()
    except (MaintenanceError, OSError) as error:
        return {"marked": False, "unmarked_because": str(error), "mark": None, "unfinished": {}}
    return {
        "marked": marked,
        "unmarked_because": "",
        "mark": mark.describe() if mark and not marked else None,
        "unfinished": mark.unfinished if mark else {},
    }


def read_events(make: Callable[[], ImdsModule]) -> Dict[str, Any]:
    """The events that the host sees, or why they cannot be read."""
    try:
        run = make()
        document = run.client.fetch()
        events, drill = run.describe(document.events), bool(document.drill)
        return {"events": events, "drill": drill, "vm_name": run.vm_name(), "problem": ""}
    except (ImdsError, SettingError) as error:
        return unread(str(error))


def unread(problem: str) -> Dict[str, Any]:
    return {"events": None, "drill": False, "vm_name": None, "problem": problem}


def mark(module: Any, host: Host) -> Dict[str, Any]:
    """Do what the module does, with its parameters.

    :raises MaintenanceError: the host cannot be marked, or is marked for another run.
    """
    options = module.params
    if not options["owner"]:
        module.fail_json(msg="owner is empty, expected the name that the action plugin gives it")
    if module.check_mode:
        return {"changed": True}
    changed = _marked(module, host)
    history = options["history"]
    if not history:
        return {"changed": changed}
    try:
        facts, maintenance, run = history["facts"], history["maintenance"], history["run"]
        written = write(host.folder, facts, maintenance=maintenance, run=run, now=host.now())
    except (KeyError, ValueError, TypeError):
        raise MaintenanceError(f"history is {history}, expected facts, maintenance and run. Leave it out") from None
    if written.problem:
        module.warn(written.problem)
    return {"changed": changed, "facts": written.facts}


def _marked(module: Any, host: Host) -> bool:
    state = module.params["state"]
    if state == "held":
        return _hold(module, host)
    if state == "done":
        return _done(module, host)
    return host.drop(module.params["owner"])


def _hold(module: Any, host: Host) -> bool:
    options = module.params
    other = host.take(options["owner"], by=options["by"], stage=HELD, lease=options["lease"])
    if other is not None:
        raise MaintenanceError(
            f"{other.owner or 'Another run'} has marked this host as under maintenance. Wait until that run has ended, "
            "and run this one again"
        )
    return True


def _done(module: Any, host: Host) -> bool:
    of = module.params["round"]
    try:
        name, round_id, hosts, since_begin = of["name"], of["id"], of["hosts"], float(of["since_begin"])
    except (KeyError, ValueError, TypeError):
        raise MaintenanceError(f"round is {of}, expected name, id, hosts and since_begin. Leave it out") from None
    host.done(name, round_id=round_id, hosts=hosts, since_begin=since_begin)
    host.drop(module.params["owner"], ended=True)
    return True
