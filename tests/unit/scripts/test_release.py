# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/release.py in a small collection with its own repository."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tarfile

import pytest
import yaml
from loading import loaded

ROOT = pathlib.Path(__file__).parents[3]
PROGRAM = "roles/poller/files/scheduled_events_poller/__init__.py"
FILES = {
    "galaxy.yml": "namespace: maintops\nname: scheduled_events\nversion: 1.0.0\nreadme: README.md\nauthors: [We]\n",
    "README.md": "# A collection\n",
    ".gitignore": "/.nox/\n/*.tar.gz\n",
    PROGRAM: '__version__ = "1.0.0"\n',
    "changelogs/changelog.yaml": "ancestor: null\nreleases:\n  0.9.0:\n    release_date: '2026-01-01'\n",
    "changelogs/fragments/.gitkeep": "",
    "changelogs/fragments/one.yml": "bugfixes:\n  - poller - no longer sleeps.\n",
}
# Writes the changelog as the real tool does, which takes ten seconds of CPU to list the plugins of a collection.
CHANGELOG_TOOL = """#!/bin/sh
[ "$1" = release ] || exit 0
printf '<a id="v1-0-0"></a>\\n## v1.0.0\\n\\n- poller - no longer sleeps.\\n' > CHANGELOG.md
rm changelogs/fragments/*.yml
"""


def load():
    return loaded(ROOT / "scripts" / "release.py")


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def commit(root):
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Change something")


def write(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def collection(tmp_path, monkeypatch):
    """A collection with one fragment, and a socket that a tool left in .nox, which antsibull-changelog cannot copy."""
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    root = tmp_path / "c"
    for name, text in FILES.items():
        write(root, name, text)
    shutil.copy(ROOT / "changelogs" / "config.yaml", root / "changelogs")
    (root / ".nox").mkdir()
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind("c/.nox/socket")
    git(root, "init", "--quiet")
    git(root, "config", "user.name", "We")
    git(root, "config", "user.email", "we@example.com")
    commit(root)
    return root


@pytest.fixture
def changelog_stand_in(tmp_path):
    """Return a function that gives a loaded scripts/release.py the stand-in of antsibull-changelog."""
    write(tmp_path, "tools/antsibull-changelog", CHANGELOG_TOOL)
    (tmp_path / "tools" / "antsibull-changelog").chmod(0o700)

    def use(module):
        module.ENVIRONMENT["PATH"] = os.pathsep.join([str(tmp_path / "tools"), module.ENVIRONMENT["PATH"]])
        return module

    return use


def state(root):
    return git(root, "rev-parse", "HEAD"), git(root, "tag"), git(root, "status", "--porcelain", "--ignored")


def test_without_confirmation_the_release_is_shown_and_nothing_changes(collection, capsys, changelog_stand_in):
    before = state(collection)

    assert changelog_stand_in(load()).main([], root=collection) == 0

    shown = capsys.readouterr().out
    assert "no longer sleeps" in shown
    assert "changelogs/fragments/one.yml" in shown
    assert "make release VERSION=1.0.0 CONFIRM=yes" in shown
    assert state(collection) == before


def test_a_confirmed_release_is_committed_tagged_and_built_with_the_time_of_its_commit(collection):
    write(collection, ".git/hooks/pre-commit", "#!/bin/sh\nexec .nox/lint/bin/missing-in-another-work-tree\n")
    (collection / ".git/hooks/pre-commit").chmod(0o755)
    assert load().main(["--version", "1.2.0", "--confirm"], root=collection) == 0

    assert git(collection, "log", "--format=%s|%an", "-1") == "Release 1.2.0|We"
    assert git(collection, "rev-parse", "1.2.0^{commit}") == git(collection, "rev-parse", "HEAD")
    assert git(collection, "status", "--porcelain") == ""
    assert yaml.safe_load((collection / "galaxy.yml").read_text())["version"] == "1.2.0"
    assert (collection / PROGRAM).read_text() == '__version__ = "1.2.0"\n'
    releases = yaml.safe_load((collection / "changelogs" / "changelog.yaml").read_text())["releases"]
    assert releases["1.2.0"]["changes"] == {"bugfixes": ["poller - no longer sleeps."]}
    assert "no longer sleeps" in (collection / "CHANGELOG.md").read_text()
    assert [path.name for path in (collection / "changelogs" / "fragments").iterdir()] == [".gitkeep"]
    with tarfile.open(collection / "maintops-scheduled_events-1.2.0.tar.gz") as tarball:
        manifest = json.load(tarball.extractfile("MANIFEST.json"))
        times = {entry.mtime for entry in tarball.getmembers()}
    assert manifest["collection_info"]["version"] == "1.2.0"
    assert times == {int(git(collection, "log", "-1", "--format=%ct", "1.2.0"))}


def refused(collection, capsys, *arguments):
    """What is written to standard error by a release that changes nothing."""
    before = state(collection)
    assert load().main([*arguments, "--confirm"], root=collection) == 1
    assert state(collection) == before
    return capsys.readouterr().err


@pytest.mark.parametrize("version", ["0.9.0", "0.8.9", "0.0.10"])
def test_a_version_that_is_not_higher_than_the_latest_release_is_refused(collection, capsys, version):
    assert f"Version {version} is not higher than 0.9.0" in refused(collection, capsys, "--version", version)


@pytest.mark.parametrize("version", ["v1.0", "01.0.0"])
def test_a_version_that_is_not_three_numbers_is_refused(collection, capsys, version):
    assert f'The version is "{version}"; expected three numbers' in refused(collection, capsys, "--version", version)


def test_a_version_with_a_tag_is_refused(collection, capsys):
    git(collection, "tag", "1.0.0")

    assert "The tag 1.0.0 exists" in refused(collection, capsys)


def test_a_checkout_that_is_not_on_a_branch_is_refused(collection, capsys):
    git(collection, "checkout", "--quiet", "--detach")

    assert "is not on a branch" in refused(collection, capsys)


@pytest.mark.parametrize("name", ["README.md", "untracked"])
def test_a_checkout_with_changes_is_refused(collection, capsys, name):
    write(collection, name, "changed\n")

    assert name in refused(collection, capsys)


def test_a_release_without_a_fragment_is_refused(collection, capsys):
    (collection / "changelogs" / "fragments" / "one.yml").unlink()
    commit(collection)

    assert "changelogs/fragments has no fragment" in refused(collection, capsys)


def test_a_wrong_fragment_is_refused_and_named(collection, capsys):
    write(collection, "changelogs/fragments/wrong.yml", "bugfix:\n  - poller - is fixed.\n")
    commit(collection)

    assert "wrong.yml" in refused(collection, capsys)


def test_a_file_that_does_not_state_the_version_is_refused_and_named(collection, capsys):
    write(collection, PROGRAM, "__version__ = None\n")
    commit(collection)

    assert f"{PROGRAM} has 0 lines" in refused(collection, capsys)


def test_a_commit_during_the_release_leaves_no_tag_behind_and_the_next_try_succeeds(
    collection, capsys, changelog_stand_in
):
    module = changelog_stand_in(load())
    make = module.make

    def make_while_another_commits(*arguments):
        tarball = make(*arguments)
        write(collection, "README.md", "# A better collection\n")
        commit(collection)
        return tarball

    module.make = make_while_another_commits
    assert module.main(["--confirm"], root=collection) == 1
    assert "The checkout has changed during the release. Run it again." in capsys.readouterr().err
    assert git(collection, "tag") == ""
    assert changelog_stand_in(load()).main(["--confirm"], root=collection) == 0
    assert git(collection, "tag") == "1.0.0"


def test_a_tag_is_not_published_where_its_commit_is_refused(collection, capsys, changelog_stand_in, tmp_path):
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    git(collection, "remote", "add", "origin", str(tmp_path / "remote"))
    git(collection, "push", "--quiet", "origin", "HEAD")
    write(collection, "README.md", "# Of another maintainer\n")
    commit(collection)
    git(collection, "push", "--quiet", "origin", "HEAD")
    git(collection, "reset", "--quiet", "--hard", "HEAD^")
    assert changelog_stand_in(load()).main(["--confirm"], root=collection) == 0
    push = capsys.readouterr().out.rpartition("To publish it: ")[2].split()
    assert subprocess.run(push, cwd=collection, check=False, capture_output=True).returncode != 0
    assert git(tmp_path / "remote", "tag") == ""
