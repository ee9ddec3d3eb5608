# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program and the hooks of the polling unit as files on the control node, for ansible.builtin.copy."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from pathlib import Path

from ...module_utils._scheduled_events.files import write_atomically

PROGRAM = "scheduled_events_poller"
README = """\
The role poller of maintops.scheduled_events replaces these hooks. Your own hooks belong into the directories beside
this one, such as ../prepare.d.
"""


def program_files(role: Path, python: str) -> dict[str, bytes]:
    """The files of the program, by path.

    :param python: the interpreter on the host, which runs the commands.
    """
    files = {}
    library = role.parents[1] / "plugins" / "module_utils" / "_scheduled_events"
    for package in (role / "files" / PROGRAM, library):
        files.update({str(path.relative_to(package.parent)): path.read_bytes() for path in package.rglob("*.py")})
    for command in (role / "files").glob("scheduled-events*"):
        files[command.name] = f"#!{python}\n".encode() + command.read_bytes().partition(b"\n")[2]
    return files


def pack(files: dict[str, bytes]) -> bytes:
    """An archive; the same bytes for the same files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644 if name.endswith(".py") else 0o755
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def write_program(directory: Path, role: Path, python: str, version: str) -> tuple[str, Path]:
    """Write the archive; returns the name of the release and the path.

    :param directory: all hosts of the run share it.
    :param version: of the Python on the host, for which the release is compiled.
    """
    archive = pack(program_files(role, python))
    release = hashlib.sha256(archive + version.encode()).hexdigest()[:16]
    path = directory / f"scheduled-events-{release}.tar"
    if not path.exists():
        write_atomically(path, archive, mode=0o600)
    return release, path


def write_hooks(directory: Path, hooks: dict[str, dict[str, bytes]]) -> tuple[str, Path]:
    """Write the hooks into a new directory; returns the name of the set and the path.

    The name depends on the contents, which can be secret: so many rounds make a guess at them expensive.
    """
    digest = hashlib.sha256(repr(sorted((phase, sorted(found.items())) for phase, found in hooks.items())).encode())
    path = Path(tempfile.mkdtemp(dir=directory, prefix="scheduled-events-hooks-"))
    (path / "README").write_text(README)
    for phase, found in hooks.items():
        (path / f"{phase}.d").mkdir()
        for name, content in found.items():
            (path / f"{phase}.d" / name).write_bytes(content)
    return hashlib.pbkdf2_hmac("sha256", digest.digest(), b"hooks", 200_000, 8).hex(), path
