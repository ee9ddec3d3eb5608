# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state directory of a Windows host, for code that runs on the control node. Private to the collection.

No module locks a file on Windows from one task to the next, and win_copy does not replace one as a whole. So all files
of the directory are kept together in one file, a generation, whose name is its number. A change is a new generation: it
is written under a separate name, and then renamed to the next number, which fails if that number is taken. So it
appears as a whole, only one of two writers wins, and no writer continues from an outdated generation.

Native modules (.ps1) with a named mutex and an atomic replace would start PowerShell once for a look, and not about
fifteen times. They are not used because no test can run them: PowerShell is not available to the tests, which stand in
for the modules of ansible.windows at the border of Ansible. The protocol in this file is tested with two writers, lost
connections and lost power. A mistake in a mutex or a replace would show only on the hosts of users.

A rename is not on the disk at once. While a run lives, it keeps on the control node what it wrote last, and writes it
again if the host lost it with its power.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import typing as t
import uuid
from pathlib import Path

from ...module_utils._scheduled_events.checks import decoded
from ...module_utils._scheduled_events.clock import CLOCK, Clock
from ...module_utils._scheduled_events.files import Changed, Folder, write_atomically

if t.TYPE_CHECKING:
    from .host import RemoteFiles

GENERATION = re.compile(r"state-(\d{9})\.json", re.IGNORECASE)
TEMPORARY = re.compile(r"new-[0-9a-f]{12}\.tmp", re.IGNORECASE)
KEPT = 2  # generations: the newest one, and the one before for people to look at
ATTEMPTS = 5  # to write or to read, while others do so at the same time, or a scanner holds a file
PAUSE = 1.0  # seconds between two of them


class Generation(t.NamedTuple):
    """All files at one time. ``identity``: of the directory, and so of the host."""

    number: int = 0
    identity: str = ""
    files: t.Mapping[str, str] = {}


class WindowsFolder(Folder):
    """A directory that is not on this machine.

    :param kept: the file of the control node for what this run wrote last.
    """

    is_here = False

    def __init__(
        self, path: str, files: RemoteFiles, *, kept: Path, sleep: t.Callable[[float], None] = lambda _seconds: None
    ) -> None:
        super().__init__(path)
        self._files = files
        self._kept = kept
        self._sleep = sleep
        self._newest: Generation | None = None
        self._changes: dict[str, str | None] | None = None
        self._seen: dict[str, str | None] = {}
        self._others: list[str] = []
        self._is_made = False

    # What Folder does

    def path_of(self, name: str) -> str:
        return f"{name} in {self.path}"

    def is_there(self) -> bool:
        return True  # it is made when there is something to write

    def make(self) -> None:
        """It is made when there is something to write."""

    def has(self, name: str) -> bool:
        return self._look(name) is not None

    def read(self, name: str, largest: int = -1) -> bytes:
        text = self._look(name)
        if text is None:
            raise FileNotFoundError(self.path_of(name))
        content = text.encode()
        return content if largest < 0 else content[:largest]

    def written_at(self, name: str) -> float:  # noqa: ARG002
        """Nothing knows; what is read here says it itself."""
        return 0.0

    def write(self, name: str, content: bytes, *, mode: int, durable: bool = False) -> None:  # noqa: ARG002
        """Write a file at the end of what is guarded. ``mode`` and ``durable`` have no meaning here."""
        self._change(name, content.decode())

    def remove(self, name: str) -> None:
        if self._look(name) is None:
            raise FileNotFoundError(self.path_of(name))
        self._change(name, None)

    @contextlib.contextmanager
    def guarded(self, patience: float | None = None, *, clock: Clock = CLOCK) -> t.Iterator[None]:  # noqa: ARG002
        """Write what is changed within at the end, all of it or nothing. Nothing is locked.

        :raises Changed: another writer changed a file that was read within.
        """
        self._changes, self._seen = {}, {}
        try:
            yield
            self._write_changes()
        finally:
            self._changes = None

    def write_changes(self) -> None:
        if self._changes is not None:
            self._write_changes()
        self._newest = None

    @property
    def identity(self) -> str:
        """The identity of this directory; empty if nothing was ever written."""
        return self._current().identity

    # Generations

    def _look(self, name: str) -> str | None:
        before = self._current().files.get(name)
        if self._changes is None:
            return before
        self._seen.setdefault(name, before)
        return self._changes.get(name, before)

    def _change(self, name: str, text: str | None) -> None:
        if self._changes is None:
            raise RuntimeError(f"{name} is changed outside of what is guarded")
        self._look(name)
        self._changes[name] = text

    def _current(self) -> Generation:
        if self._newest is None:
            self._newest = self._restored(self._kept.read_bytes() if self._kept.exists() else None)
        return self._newest

    def _write_changes(self) -> None:
        wanted, self._changes = self._changes or {}, {}
        changes = {name: text for name, text in wanted.items() if text != self._seen[name]}
        if changes:
            self._commit(changes)
        self._seen = {}

    def _commit(self, changes: t.Mapping[str, str | None]) -> None:
        first = self._current().number
        for attempt in range(ATTEMPTS):
            if attempt:
                self._sleep(PAUSE)
            before = self._current()
            if any(before.files.get(name) != text for name, text in self._seen.items()):
                break
            files = {name: text for name, text in {**before.files, **changes}.items() if text is not None}
            after = Generation(before.number + 1, before.identity or uuid.uuid4().hex, files)
            self._newest = None  # after an error from here on, the directory must be read again
            if self._publish(after):
                return
        if self._current().number == first:
            raise OSError(
                f"a file cannot be renamed in {self.path}. Connect as an administrator, or look which program keeps it "
                "open"
            )
        raise Changed(f"another run has changed the files in {self.path} at the same time. Run it again")

    def _publish(self, after: Generation) -> bool:
        """Write a generation; False if another writer was first."""
        content, name = encode(after), f"state-{after.number:09d}.json"
        if not self._is_made:
            self._files.make()
            self._is_made = True
        temporary = f"new-{os.urandom(6).hex()}.tmp"
        self._files.write(temporary, content)
        if not self._files.rename(temporary, name) and not self._is_ours(name, content, temporary):
            return False
        self._newest = after
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._kept, content, mode=0o600)
        self._tidy(after.number)
        return True

    def _is_ours(self, name: str, content: bytes, temporary: str) -> bool:
        """Whether a rename that seemed to fail was done, for example before the connection broke."""
        digests = self._files.digests()
        if digests.get(name) == _sha256(content):
            return True
        if temporary in digests:
            with contextlib.suppress(OSError):
                self._files.remove(temporary)
        return False

    def _tidy(self, newest: int) -> None:
        """Remove generations and temporary files that no longer count."""
        old = [name for name in self._others if _number(name) <= newest - KEPT]
        self._others = [name for name in self._others if name not in old] + [f"state-{newest:09d}.json"]
        with contextlib.suppress(OSError):  # the next run tries again
            for name in old:
                self._files.remove(name)

    def _restored(self, remembered: bytes | None) -> Generation:
        """The newest generation; that of this run, written again, if the host lost it.

        :raises OSError: it is not what was written, and this run does not know what was.
        """
        for _attempt in range(ATTEMPTS):
            self._is_made = self._files.is_there()
            digests = self._files.digests() if self._is_made else {}
            numbers = sorted(_number(name) for name in digests if GENERATION.fullmatch(name))
            newest = numbers[-1] if numbers else 0
            self._others = [name for name in digests if GENERATION.fullmatch(name) or TEMPORARY.fullmatch(name)]
            known = decode(remembered) if remembered else Generation()
            name = f"state-{newest:09d}.json"
            if remembered and newest == known.number and digests[name] == _sha256(remembered):
                return known
            if newest and newest >= known.number:  # of another run, also where the host lost that of this one
                try:
                    return decode(self._files.read(name))
                except FileNotFoundError:
                    continue  # others have written several since
                except ValueError as error:
                    if newest > known.number:
                        raise OSError(self._explain(name, numbers, error)) from None
                    known = known._replace(number=newest + 1)
            if newest == 0 and not remembered:
                return Generation()
            if self._publish(known):
                return known
        raise Changed(f"other runs keep changing the files in {self.path}. Run it again when they have ended")

    def _explain(self, name: str, numbers: t.Sequence[int], error: ValueError) -> str:
        before = f"; state-{numbers[-2]:09d}.json holds what was noted before" if len(numbers) > 1 else ""
        return (
            f"{self.path}\\{name} is broken ({error}), most likely since the VM lost its power{before}. It may have "
            "noted that the host was prepared or is owed a recovery, so nothing is done. Look at both, bring the host "
            f"in order, remove {name}, and run it again"
        )


def encode(generation: Generation) -> bytes:
    """A generation as a file that shows whether it is whole."""
    raw = {**generation._asdict(), "nonce": uuid.uuid4().hex}
    return json.dumps({**raw, "sha256": _digest_of(raw)}, indent=1, sort_keys=True).encode() + b"\n"


def decode(content: bytes) -> Generation:
    """Read what :func:`encode` made.

    :raises ValueError: it is not whole, or something else.
    """
    raw = decoded(content)
    if not isinstance(raw, dict) or raw.pop("sha256", None) != _digest_of(raw):
        raise ValueError("its digest is not that of its content")
    return Generation(raw["number"], raw["identity"], raw["files"])


def _digest_of(raw: t.Mapping[str, t.Any]) -> str:
    return _sha256(json.dumps(raw, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _number(name: str) -> int:
    found = GENERATION.fullmatch(name)
    return int(found[1]) if found else -1
