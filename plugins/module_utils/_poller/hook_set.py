# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Replace all hooks of the role poller in one step.

DIRECTORY/hooks is a link to a set, a directory DIRECTORY/hooks-TOKEN with prepare.d and the others. A new set is built
beside the one in use, with what the owner of the host put there, and is in use once the link leads to it. So a hook
that runs keeps its files, and whatever interrupts us leaves either all of the old hooks or all of the new ones. The
names of sets are random: a digest would let everybody guess at contents.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import shutil
import stat
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .._scheduled_events.files import plain
from .._scheduled_events.runs import PHASES

WEBHOOK_HOOK = "0-webhooks"  # which only reports
MANIFEST = "managed-hooks.json"  # in a set: which hooks are the role's; release 0.1.0 has it beside the directory
LINK, NEW_LINK = "hooks", ".hooks.new"
AT_FDCWD, RENAME_EXCHANGE = -100, 2

Contents = Dict[str, bytes]  # by path below the set


class CannotReplace(Exception):
    """Why the hooks stay as they are; the message says what to do."""


class HookSet(NamedTuple):
    """The hooks in use. ``managed``: the paths of the role's. ``previous``: the name of the set before this one."""

    path: str
    managed: Tuple[str, ...]
    previous: str


def by_path(contents: Dict[str, Dict[str, str]]) -> Contents:
    """The hooks that the role wants, by path; given by phase and name with their contents in base64."""
    return {
        f"{phase}.d/{name}": base64.b64decode(content)
        for phase in PHASES
        for name, content in contents.get(phase, {}).items()
    }


def current_set(directory: str) -> Optional[HookSet]:
    """The set in use, or the one that an interrupted change was about to put into use."""
    for name in (LINK, NEW_LINK):
        path = os.path.join(directory, name)
        if os.path.isdir(path) and (name == LINK or os.path.islink(path)):
            real = os.path.realpath(path)
            raw = _read_json(os.path.join(real, MANIFEST))
            if isinstance(raw, dict):
                return HookSet(real, tuple(raw.get("hooks", ())), str(raw.get("previous", "")))
            raw = _read_json(os.path.join(directory, MANIFEST))
            return HookSet(real, tuple(raw) if isinstance(raw, list) else (), "")
    return None


def _read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def differences(directory: str, current: Optional[HookSet], wanted: Contents) -> List[str]:
    """Return the changes of a new set, a line each.

    :raises CannotReplace: a file of the owner has the name of a hook, and another content.
    """
    link = os.path.join(directory, LINK)
    if current is None:
        return [f"added {path}" for path in sorted(wanted)] + [f"made {link}"]
    lines = []
    for path, content in sorted(wanted.items()):
        full = os.path.join(current.path, path)
        if path not in current.managed and os.path.lexists(full) and _content(full) != content:
            raise CannotReplace(
                f"{os.path.join(link, path)} exists, and this role did not put it there: "
                f"expected no other file with the name of a hook in poller_hooks; rename or remove one of them"
            )
        if not os.path.lexists(full):
            lines.append(f"added {path}")
        elif not _is_private(full) or _content(full) != content:
            lines.append(f"changed {path}")
    lines += [f"removed {path}" for path in current.managed if path not in wanted]
    if not os.path.islink(link) or current.path not in all_sets(directory):
        lines.append(f"made {link}")
    elif not lines and set(current.managed) != set(wanted):
        lines.append(f"adopted {', '.join(sorted(set(wanted) - set(current.managed)))}")
    directories = ["", *(f"{phase}.d" for phase in PHASES)]
    return lines + [f"repaired {link}/{name}" for name in directories if not _is_plain_directory(current.path, name)]


def _content(path: str) -> Optional[bytes]:
    try:
        with plain(path, other_names=True) as (file, _status):
            return file.read()
    except OSError:
        return None


def _is_private(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_IMODE(status.st_mode) == 0o750 and (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())


def _is_plain_directory(*path: str) -> bool:
    with contextlib.suppress(OSError):
        status = os.lstat(os.path.join(*path))
        owner = (status.st_uid, status.st_gid)
        return status.st_mode == stat.S_IFDIR | 0o755 and owner == (os.geteuid(), os.getegid())
    return False


def all_sets(directory: str) -> List[str]:
    """The directories of all sets."""
    return sorted(
        os.path.realpath(entry.path)
        for entry in os.scandir(directory)
        if entry.name.startswith(LINK + "-") and entry.is_dir(follow_symlinks=False)
    )


def replace(directory: str, current: Optional[HookSet], wanted: Contents) -> None:
    """Build a new set and put it into use."""
    token = os.urandom(6).hex()
    previous = "" if current is None else os.path.basename(current.path)
    link = os.path.join(directory, LINK)
    was_a_directory = os.path.isdir(link) and not os.path.islink(link)
    if was_a_directory:
        previous = f"{LINK}-{os.urandom(6).hex()}"
    name = f"{LINK}-{token}"
    building = os.path.join(directory, "." + name)
    build(building, current, wanted, previous)
    os.rename(building, os.path.join(directory, name))
    new_link = os.path.join(directory, NEW_LINK)
    os.symlink(name, new_link)
    _sync(directory)
    if not was_a_directory:
        os.replace(new_link, link)
    elif exchange(new_link, link):
        os.rename(new_link, os.path.join(directory, previous))
    else:
        # For a moment there are no hooks. Nothing is acknowledged by that, as the configuration names those it needs.
        os.rename(link, os.path.join(directory, previous))
        os.rename(new_link, link)
    _sync(directory)


def build(path: str, current: Optional[HookSet], wanted: Contents, previous: str) -> None:
    """Make a set: the wanted hooks, and what is in the current set that is not the role's."""
    _make_directory(path)
    for phase in PHASES:
        _make_directory(os.path.join(path, f"{phase}.d"))
    for hook, content in wanted.items():
        _write(os.path.join(path, hook), content, 0o750)
    if current is not None:
        for relative in _of_the_owner(current):
            if relative not in wanted:
                _copy(os.path.join(current.path, relative), os.path.join(path, relative))
    manifest = {"hooks": sorted(wanted), "previous": previous}
    _write(os.path.join(path, MANIFEST), json.dumps(manifest).encode(), 0o644)
    for phase in PHASES:
        _sync(os.path.join(path, f"{phase}.d"))
    _sync(path)


def _make_directory(path: str) -> None:
    os.mkdir(path)
    os.chown(path, os.geteuid(), os.getegid())
    os.chmod(path, 0o755)  # noqa: S103 - everybody finds the hooks, and only root reads them


def _write(path: str, content: bytes, mode: int) -> None:
    # No other user can read it at any moment: contents may be secret.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchown(descriptor, os.geteuid(), os.getegid())
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def _of_the_owner(current: HookSet) -> Iterator[str]:
    """The paths below a set of what the role did not put there."""
    directories = {f"{phase}.d" for phase in PHASES}
    for name in sorted(os.listdir(current.path)):
        if name in directories and os.path.isdir(os.path.join(current.path, name)):
            paths = (f"{name}/{child}" for child in sorted(os.listdir(os.path.join(current.path, name))))
            yield from (path for path in paths if path not in current.managed)
        elif name != MANIFEST:
            yield name


def _copy(source: str, target: str) -> None:
    """Copy with owner, mode, times and extended attributes; links stay links."""
    status = os.lstat(source)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(status.st_mode):
        _write(target, _content(source) or b"", 0o600)
    elif stat.S_ISDIR(status.st_mode):
        os.mkdir(target, 0o700)
        for name in sorted(os.listdir(source)):
            _copy(os.path.join(source, name), os.path.join(target, name))
    else:
        raise CannotReplace(f"{source} is not a file, a link or a directory: remove it")
    os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    shutil.copystat(source, target, follow_symlinks=False)  # after the owner, whose change takes bits away
    if not stat.S_ISLNK(status.st_mode):
        _sync(target)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(one: str, other: str) -> bool:
    """Exchange two names in one step; whether the system can."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    if renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), other)


def finish_interrupted(directory: str) -> None:
    """Bring what an interrupted run left behind to its end."""
    link, new_link = os.path.join(directory, LINK), os.path.join(directory, NEW_LINK)
    if os.path.islink(new_link):
        if os.path.lexists(link):
            os.unlink(new_link)
        else:
            os.rename(new_link, link)
    elif os.path.isdir(new_link):  # the directory of release 0.1.0, after the exchange
        current = current_set(directory)
        name = (current.previous if current else "") or f"{LINK}-{os.urandom(6).hex()}"
        os.rename(new_link, os.path.join(directory, name))
    for entry in list(os.scandir(directory)):
        if entry.name.startswith(f".{LINK}-"):
            shutil.rmtree(entry.path)


def surplus(directory: str, hooks_run: Callable[[], bool]) -> List[str]:
    """The sets before the previous one, and none while a hook runs, which may be a hook of any of them."""
    current = current_set(directory)
    if current is None:
        return []
    keep = (current.path, os.path.join(os.path.realpath(directory), current.previous))
    paths = [path for path in all_sets(directory) if path not in keep]
    return paths if paths and not hooks_run() else []


def hooks_run(run_command: Callable[..., Tuple[int, str, str]]) -> bool:
    """Whether a hook runs; also if systemd does not say."""
    command = ["systemctl", "list-units", "--no-legend", "--plain", "scheduled-events-hook@*"]
    try:
        code, output, _error = run_command(command, handle_exceptions=False)
    except OSError:
        return True
    return code != 0 or bool(output.strip())


def check_prepare_hooks(current: Optional[HookSet], wanted: Contents) -> None:
    """Refuse to remove all prepare hooks, as a play does that lacks the variables of the owner.

    :raises CannotReplace: there are some, and none is wanted.
    """
    there = sorted(path for path in current.managed if _prepares(path)) if current else []
    if there and not any(_prepares(path) for path in wanted):
        raise CannotReplace(
            f"poller_hooks has no prepare hook, and {', '.join(os.path.basename(path) for path in there)} would be "
            "removed: expected the variables with which the hooks were installed. Run the play that installed them, "
            "or set poller_remove_prepare_hooks: true if this VM must no longer prepare for events"
        )


def _prepares(path: str) -> bool:
    return os.path.dirname(path) == "prepare.d" and os.path.basename(path) != WEBHOOK_HOOK


def put_in_place(
    directory: str,
    wanted: Contents,
    *,
    hooks_run: Callable[[], bool],
    check: bool,
    remove_prepare_hooks: bool = False,
) -> List[str]:
    """Replace the hooks if they are not as wanted; returns what was not, a line each.

    :param hooks_run: whether a hook of any set runs.
    :param remove_prepare_hooks: whether all prepare hooks may be removed.
    :raises CannotReplace: nothing was changed.
    """
    if check and not os.path.isdir(directory):
        return differences(directory, None, wanted)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if check else fcntl.LOCK_EX)  # one play at a time
        if not check:
            finish_interrupted(directory)
        current = current_set(directory)
        if not remove_prepare_hooks:
            check_prepare_hooks(current, wanted)
        lines = differences(directory, current, wanted)
        if check:
            return lines
        if lines:
            replace(directory, current, wanted)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, MANIFEST))  # of release 0.1.0, once the new set has its own
        for path in surplus(directory, hooks_run):
            shutil.rmtree(path)
            lines.append(f"removed {path}")
        return lines
    finally:
        os.close(descriptor)
