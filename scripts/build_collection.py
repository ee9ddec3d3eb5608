# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the tarball of the collection, with the same bytes from the same files: scripts/build_collection.py DIRECTORY

`ansible-galaxy`, which is needed on PATH, writes the times of the build and of the checkout, and keeps the order in
which the file system lists files. Here, all times become that of the last commit (or SOURCE_DATE_EPOCH), and the files
are sorted.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WITHOUT_GIT = 315532800  # 1980, the first year that all archivers know


def time_of_source(checkout: pathlib.Path) -> int:
    """Return the date of the files in the tarball."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    try:
        git = ["git", "log", "-1", "--format=%ct"]
        return int(subprocess.check_output(git, cwd=checkout, text=True, stderr=subprocess.DEVNULL))
    except (OSError, ValueError, subprocess.CalledProcessError):
        return WITHOUT_GIT


def build(checkout: pathlib.Path, directory: pathlib.Path) -> pathlib.Path:
    """The tarball that ansible-galaxy builds."""
    command = ["ansible-galaxy", "collection", "build", "--output-path", str(directory)]
    subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    [tarball] = directory.glob("*.tar.gz")
    return tarball


def as_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()  # as ansible-galaxy writes it


def repack(tarball: pathlib.Path, timestamp: int) -> bytes:
    """The same collection with its files sorted, of one time."""
    with tarfile.open(tarball) as source:
        entries = {entry.name: entry for entry in source.getmembers()}
        contents = {name: source.extractfile(entry).read() for name, entry in entries.items() if entry.isreg()}
    files = json.loads(contents["FILES.json"])
    files["files"].sort(key=lambda file: file["name"])
    contents["FILES.json"] = as_json(files)
    manifest = json.loads(contents["MANIFEST.json"])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(contents["FILES.json"]).hexdigest()
    contents["MANIFEST.json"] = as_json(manifest)

    result = io.BytesIO()
    first = ["MANIFEST.json", "FILES.json"]
    compressed = gzip.GzipFile(filename="", mode="wb", fileobj=result, mtime=timestamp)
    with compressed, tarfile.open(fileobj=compressed, mode="w") as target:
        for name in first + sorted(set(entries) - set(first)):
            content = contents.get(name, b"")
            entries[name].mtime = timestamp
            entries[name].pax_headers = {}  # a time finer than a second
            entries[name].size = len(content)
            target.addfile(entries[name], io.BytesIO(content))
    return result.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path, help="directory of the tarball")
    parser.add_argument("--checkout", type=pathlib.Path, default=ROOT, help="what is built (default: this one)")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tarball = build(options.checkout, pathlib.Path(scratch))
        content = repack(tarball, time_of_source(options.checkout))
    target = options.directory / tarball.name
    target.write_bytes(content)
    sys.stdout.write(f"{target}\nsha256 {hashlib.sha256(content).hexdigest()}\n")


if __name__ == "__main__":
    main()
