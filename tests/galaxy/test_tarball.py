# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is in the tarball, and that it is the same wherever and whenever it is built."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted({page.name for page in ROOT.glob("*.md")} - {"CONTRIBUTING.md"})
SHIPPED = {
    "of ansible-galaxy": ["FILES.json", "MANIFEST.json"],
    "to read": ["COPYING", "LICENSES", "REUSE.toml", "docs", *PAGES],
    "to copy": ["examples"],
    "to run": ["execution-environment", "extensions", "meta", "playbooks", "plugins", "roles"],
    "for other programs": ["changelogs", "tests"],
}
SHIPPED_IN_PART = {  # beside pages
    "changelogs": ["changelog.yaml"],
    "docs": ["docsite", "monitoring"],
    "extensions": ["eda"],
    "tests": ["config.yml"],
}
LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


def files_of_git():
    """The files of the checkout that git tracks, or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=ROOT, text=True).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


@pytest.fixture
def clone(tmp_path):
    """Return a function that copies the checkout as another user would have it: ``clone(name, umask, time)``."""

    def copy(name, umask, time):
        before = os.umask(umask)
        try:
            for file in files_of_git():
                target = tmp_path / name / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, target, follow_symlinks=False)
                if os.access(ROOT / file, os.X_OK):
                    target.chmod(0o777 & ~umask)
                os.utime(target, (time, time), follow_symlinks=False)
        finally:
            os.umask(before)
        return tmp_path / name

    return copy


def test_two_clones_of_different_times_and_umasks_give_the_same_bytes(clone, build, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = build(clone("first", 0o022, 1600000000), tmp_path / "1")
    second = build(clone("second", 0o077, 1650000000), tmp_path / "2")
    assert first.read_bytes() == second.read_bytes()


def test_a_file_that_git_ignores_and_that_disappears_does_not_stop_the_build(clone, build, tmp_path):
    checkout = clone("checkout", 0o022, 1600000000)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    (checkout / "pytest-cache-files-abc").symlink_to("gone")  # as a stage of `make test` has just renamed it
    (checkout / "plugins" / "deleted").touch()
    subprocess.run(["git", "add", "plugins/deleted"], cwd=checkout, check=True)
    (checkout / "plugins" / "deleted").unlink()
    with tarfile.open(build(checkout, tmp_path)) as archive:
        assert "pytest-cache-files-abc" not in archive.getnames()


def test_the_order_of_the_file_system_does_not_matter_and_all_has_the_time_of_the_source(tarball):
    with tarfile.open(tarball) as archive:
        names = [entry.name for entry in archive.getmembers()]
        times = {entry.mtime for entry in archive.getmembers()}
    assert names == ["MANIFEST.json", "FILES.json", *sorted(names[2:])]
    assert len(times) == 1


def test_the_tarball_installs_and_what_was_installed_is_verified(tarball, tmp_path):
    galaxy = ["ansible-galaxy", "collection"]
    path = ["--collections-path", str(tmp_path)]
    subprocess.run([*galaxy, "install", "--offline", tarball, *path], check=True)
    verify = [*galaxy, "verify", "--offline", "maintops.scheduled_events", *path]
    subprocess.run(verify, check=True)
    tampered = tmp_path / "ansible_collections/maintops/scheduled_events/meta/runtime.yml"
    tampered.write_text(tampered.read_text() + "\n")
    assert subprocess.run(verify, check=False).returncode != 0


def test_nothing_else_ships_than_what_is_meant_to(unpacked):
    assert sorted(path.name for path in unpacked.iterdir()) == sorted(itertools.chain(*SHIPPED.values()))
    assert {
        name: sorted(path.name for path in (unpacked / name).iterdir() if path.suffix != ".md")
        for name in SHIPPED_IN_PART
    } == SHIPPED_IN_PART


def test_no_directory_is_empty_and_no_file_is_hidden_or_large(unpacked):
    empty = [path for path in unpacked.rglob("*") if path.is_dir() and not any(path.iterdir())]
    hidden = list(unpacked.rglob(".*"))
    large = [path for path in unpacked.rglob("*") if path.stat().st_size > 256 * 1024]
    assert (empty, hidden, large) == ([], [], [])


def test_each_file_of_the_tarball_has_its_licence(unpacked):
    done = subprocess.run(
        [sys.executable, "-m", "reuse", "--root", unpacked, "lint"], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_page_of_the_tarball_links_to_a_file_that_does_not_ship(unpacked):
    missing = []
    for page in unpacked.rglob("*.md"):
        for link in LINK.finditer(page.read_text()):
            target = link["target"].partition("#")[0]
            if target and "://" not in target and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(unpacked)}: {link['target']}")
    assert missing == []


def test_plugins_are_only_of_kinds_that_ansible_and_its_policy_for_collections_know(unpacked):
    kinds = {path.name for path in (unpacked / "plugins").iterdir()}
    assert kinds <= {"action", "doc_fragments", "filter", "lookup", "modules", "module_utils", "plugin_utils", "test"}
