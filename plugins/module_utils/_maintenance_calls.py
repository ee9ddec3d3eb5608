# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the module of a rolling maintenance does, on any host. Private to the collection."""

from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ._load_balancer.record import FILE as LOAD_BALANCER_FILE
from ._load_balancer.record import Record, RecordError
from ._maintenance import ASKING, HELD, Host, MaintenanceError
from ._module import ImdsModule
from ._scheduled_events.checks import WrongValue
from ._scheduled_events.client import ImdsError
from ._scheduled_events.clock import CLOCK, Moment
from ._scheduled_events.files import STALE, Changed, Folder, explained, read_status
from ._scheduled_events.history import ROLLING_MAINTENANCE, Fact, as_json
from ._scheduled_events.history_file import append_where_possible

# On the control node: before the gate, at the gate, and what it decided. The others are for a host.
CHECK, WAIT, DECISION = "check", "wait", "decision"
SURVEY, WITHDRAW, HOLD, NOTE, DONE, FAILED = "survey", "withdraw", "hold", "note", "done", "failed"
STATUS_FILE = "/run/scheduled-events/status.json"  # of the polling unit

OPTIONS: Dict[str, Dict[str, Any]] = {
    "step": {
        "type": "str",
        "choices": [CHECK, WAIT, DECISION, SURVEY, WITHDRAW, HOLD, NOTE, DONE, FAILED],
        "required": True,
    },
    "fleet": {"type": "list", "elements": "str", "default": []},
    "max_unavailable": {"type": "str", "default": "1"},
    "on_event": {"type": "str", "choices": ["wait", "skip", "respond", "fail"], "default": "wait"},
    "timeout": {"type": "float", "default": 3600},
    "settle": {"type": "float", "default": 60},
    "name": {"type": "str"},
    "resume_within": {"type": "float", "default": 86400},
    "maintenance_windows": {"type": "list", "elements": "dict", "default": []},
    "hosts_without_traffic": {"type": "list", "elements": "str"},
    "checked_hosts": {"type": "list", "elements": "str", "default": []},
    "allow_skip_tags": {"type": "bool", "default": False},
    "directory": {"type": "path", "default": "/var/lib/maintops"},
    "flag": {"type": "path", "default": "/var/lib/maintops/drained"},
    "lease": {"type": "float", "default": 1800},
    "phase": {"type": "str", "choices": ["drain", "tasks", "reboot", "health", "return"]},
    "reason": {"type": "str", "default": ""},
    "owner": {"type": "str"},
    "by": {"type": "dict", "default": {}},
    "ended_owners": {"type": "list", "elements": "str", "default": []},
    "checked": {"type": "bool", "default": False},
    "round": {"type": "dict", "default": {}},
    "history": {"type": "dict", "default": {}},
}


def take_step(
    module: Any, folder: Folder, *, flag_is_up: Callable[[], bool], read: Callable[[], Dict[str, Any]]
) -> Dict[str, Any]:
    """Do what the module does, with its parameters.

    :param read: reads the events, and the id of this boot.
    :raises MaintenanceError: the host cannot be marked, or is marked for another run.
    """
    if module.params["step"] == SURVEY:
        return survey(module, Host(folder), flag_is_up=flag_is_up, read=read)
    return mark(module, Host(folder))


def survey(
    module: Any, host: Host, *, flag_is_up: Callable[[], bool], read: Callable[[], Dict[str, Any]]
) -> Dict[str, Any]:
    """Mark the host if an owner is given, then look at all that the gate wants to know."""
    folder, claimed = host.folder, _claim(module, host)  # before the look at the events
    waiting, is_prepared = _said_by_the_unit() if folder.is_here else ([], False)
    found = {
        "changed": claimed["marked"],
        "drained": folder.has(LOAD_BALANCER_FILE) or flag_is_up() or is_prepared,
        **_returning(folder),
        "records": host.records(),
        "waiting": waiting,
    }
    return dict(found, **claimed, **read())


def _said_by_the_unit() -> Tuple[List[str], bool]:
    """What the polling unit says: for which events it waits, so that it keeps the host in service, if its status is a
    present one; and whether the host has to recover, also if the unit has stopped since.
    """
    try:
        known = read_status(STATUS_FILE)
        waiting = [str(each["event_id"]) for each in known["events"] if each["waits_until"] and not each["hooks"]]
        return waiting if abs(CLOCK.wall() - known["time"]) <= STALE else [], bool(known["unrecovered"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return [], False


def _returning(folder: Folder) -> Dict[str, Any]:
    """Who puts the host back into its load balancer now, and for how many seconds that counts at most; or why that
    cannot be read, and then the host counts as drained.
    """
    try:
        return {"returning": Record(folder).returning(), "drained_because": ""}
    except Changed:
        raise
    except RecordError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{folder.path_of(LOAD_BALANCER_FILE)} cannot be read: {explained(error)}"
    return {"returning": None, "drained": True, "drained_because": problem}


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


def read_events(make: Callable[[Callable[[str], None]], ImdsModule]) -> Dict[str, Any]:
    """The events that the host sees, or why they cannot be read; and what the control node is to warn of.

    :param make: gives a module run to what takes its warnings: Ansible shows none of a module that a fork runs.
    """
    remarks: List[str] = []
    try:
        run = make(remarks.append)
        document = run.client.fetch()
        events, drill = run.describe(document.events), bool(document.drill)
        return {"events": events, "drill": drill, "vm_name": run.vm_name(), "problem": "", "remarks": remarks}
    except (ImdsError, WrongValue) as error:
        return {"events": None, "drill": False, "vm_name": None, "problem": str(error), "remarks": remarks}


def mark(module: Any, host: Host) -> Dict[str, Any]:
    """Mark the host, or end its mark; for the rest see :func:`take_step`."""
    options = module.params
    if not options["owner"]:
        module.fail_json(msg="owner is empty, expected the name that the action plugin gives it")
    if module.check_mode:
        return {"changed": True}
    changed = True
    if options["step"] == HOLD:
        _hold(module, host)
    elif options["step"] == DONE:
        _done(module, host)
    else:
        changed = host.drop(options["owner"])
    history = options["history"]
    if not history:
        return {"changed": changed}
    try:
        facts = _facts(history["facts"], host.now(), maintenance=history["maintenance"], run=history["run"])
    except (KeyError, ValueError, TypeError):
        raise MaintenanceError(f"history is {history}, expected facts, maintenance and run. Leave it out") from None
    problem = append_where_possible(host.folder, facts, now=host.now().wall)
    if problem:
        module.warn(problem)
    return {"changed": changed, "facts": [as_json(fact) for fact in facts]}


def _facts(noted: Sequence[Mapping[str, Any]], now: Moment, *, maintenance: str, run: str) -> List[Fact]:
    """What the control node noted: each with ``kind``, ``ago`` in seconds, and what is known of the rest."""
    return [
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


def _hold(module: Any, host: Host) -> None:
    options = module.params
    other = host.take(options["owner"], by=options["by"], stage=HELD, lease=options["lease"])
    if other is not None:
        raise MaintenanceError(
            f"{other.owner or 'Another run'} has marked this host as under maintenance. Wait until that run has ended, "
            "and run this one again"
        )


def _done(module: Any, host: Host) -> None:
    of = module.params["round"]
    try:
        name, round_id, hosts, since_begin = of["name"], of["id"], of["hosts"], float(of["since_begin"])
    except (KeyError, ValueError, TypeError):
        raise MaintenanceError(f"round is {of}, expected name, id, hosts and since_begin. Leave it out") from None
    # In this order: a mark that outlasts the record of its end would hold up the other hosts. The write of the record
    # makes the removal durable, too. Without a record, the host is maintained again.
    host.drop(module.params["owner"], ended=True)
    host.done(name, round_id=round_id, hosts=hosts, since_begin=since_begin)
