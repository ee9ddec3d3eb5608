# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the tarball of the collection, the same bytes from the same files: build_collection.py DIRECTORY [CHECKOUT]

`ansible-galaxy`, which is needed on PATH, writes the times of the build and of the checkout, and keeps the order in
which the file system lists files. Here, all times become that of the last commit (or SOURCE_DATE_EPOCH), and the files
are sorted. It also fails if a file disappears while it reads the checkout, so it gets a copy of the files that git
does not ignore. Without git, it reads the checkout.
"""

import contextlib
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WITHOUT_GIT = 315532800  # 1980, the first year that all archivers know


def git(checkout: pathlib.Path, *args: str) -> str:
    """What git shows about the checkout; empty without git, or outside a repository."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with contextlib.suppress(FileNotFoundError):
        return os.fsdecode(subprocess.run(["git", *args], cwd=checkout, check=False, **quiet).stdout)
    return ""


def time_of_source(checkout: pathlib.Path) -> int:
    """Return the date of the files in the tarball."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git(checkout, "log", "-1", "--format=%ct") or WITHOUT_GIT)


def copy_sources(checkout: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    """Copy what git tracks, or would, and return the copy; without git, return the checkout."""
    listed = git(checkout, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (checkout / name).is_file():  # not deleted, and not a repository of its own
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / name, target / name, follow_symlinks=False)
    return target if listed else checkout


def repack(tarball: pathlib.Path, timestamp: int) -> bytes:
    """The same collection with its files sorted, of one time."""
    with tarfile.open(tarball) as source:
        entries = {entry.name: entry for entry in source.getmembers()}
        contents = {name: source.extractfile(entry).read() for name, entry in entries.items() if entry.isreg()}
    files = json.loads(contents["FILES.json"])
    files["files"].sort(key=lambda file: file["name"])
    contents["FILES.json"] = json.dumps(files, indent=1).encode()  # as ansible-galaxy writes it
    manifest = json.loads(contents["MANIFEST.json"])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(contents["FILES.json"]).hexdigest()
    contents["MANIFEST.json"] = json.dumps(manifest, indent=1).encode()

    result = io.BytesIO()
    first = ["MANIFEST.json", "FILES.json"]
    compressed = gzip.GzipFile(filename="", mode="wb", fileobj=result, mtime=timestamp)
    with compressed, tarfile.open(fileobj=compressed, mode="w") as target:
        for name in first + sorted(set(entries) - set(first)):
            entry, content = entries[name], contents.get(name, b"")
            entry.mtime, entry.size = timestamp, len(content)
            entry.pax_headers = {}  # a time finer than a second
            target.addfile(entry, io.BytesIO(content))
    return result.getvalue()


def build(directory: pathlib.Path, checkout: pathlib.Path = ROOT) -> pathlib.Path:
    """Write the tarball of a checkout into a directory, and return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        sources = copy_sources(checkout, pathlib.Path(scratch) / "sources")
        command = ["ansible-galaxy", "collection", "build", "--output-path", scratch]
        subprocess.run(command, cwd=sources, check=True, stdout=subprocess.DEVNULL)
        [built] = pathlib.Path(scratch).glob("*.tar.gz")
        (directory / built.name).write_bytes(repack(built, time_of_source(checkout)))
        return directory / built.name


if __name__ == "__main__":
    path = build(*map(pathlib.Path, sys.argv[1:]))
    print(f"{path}\nsha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
