# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Release a version: set it, write the changelog from its fragments, remove them, commit, tag, and build the tarball.

The commit is made in a work tree for it alone, which is shown. With --confirm the branch, the tag and the tarball
follow. Nothing is pushed.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Each file that states the version, and its line that does.
STATED_IN = {
    "galaxy.yml": "version: {}",
    "roles/poller/files/scheduled_events_poller/__init__.py": '__version__ = "{}"',
}
VERSION = r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
# The tools are those beside this Python, and none of their output is in colour or in another language.
PATH = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
ENVIRONMENT = {**os.environ, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "PATH": PATH}


class Refused(Exception):
    """The release cannot be made. The message says what to do."""


def run(directory: pathlib.Path, *command: str) -> str:
    """Run a program in a directory; what it wrote."""
    done = subprocess.run(command, cwd=directory, env=ENVIRONMENT, capture_output=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise Refused(f"{' '.join(command)} ended with status {done.returncode}:\n{output}")
    return done.stdout.decode().strip()


def number(version: str) -> tuple:
    return tuple(int(part) for part in version.split("."))


def check(root: pathlib.Path, version: str) -> None:
    """Refuse a version that cannot be released from the checkout as it is."""
    if not re.fullmatch(VERSION, version):
        raise Refused(f'The version is "{version}"; expected three numbers, such as 1.2.3. Give another VERSION.')
    changelog = yaml.safe_load((root / "changelogs" / "changelog.yaml").read_text())
    latest = max(changelog["releases"], key=number, default="0.0.0")
    if number(version) <= number(latest):
        raise Refused(f"Version {version} is not higher than {latest}, the latest release. Give a higher VERSION.")
    if run(root, "git", "rev-parse", "--abbrev-ref", "HEAD") == "HEAD":
        raise Refused("The checkout is not on a branch, so no branch would have the release. Check out a branch.")
    if run(root, "git", "tag", "--list", version):
        raise Refused(f"The tag {version} exists. Give a higher VERSION, or delete the tag if it was never pushed.")
    changed = run(root, "git", "status", "--porcelain")
    if changed:
        raise Refused(f"The checkout has changes that are not committed. Commit or remove them:\n{changed}")
    if not list((root / "changelogs" / "fragments").glob("*.y*ml")):
        raise Refused("changelogs/fragments has no fragment, so users see no change. Add a fragment for each change.")


def make(checkout: pathlib.Path, version: str) -> pathlib.Path:
    """Make the commit of the release in a clean checkout: its tarball."""
    for name, line in STATED_IN.items():
        path = checkout / name
        pattern = "^" + re.escape(line).replace(re.escape("{}"), VERSION) + "$"
        text, count = re.subn(pattern, line.format(version), path.read_text(), flags=re.MULTILINE)
        if count != 1:
            raise Refused(f"{name} has {count} lines like {line.format('1.2.3')}; expected one. Fix the file.")
        path.write_text(text)
    run(checkout, "antsibull-changelog", "lint")
    run(checkout, "antsibull-changelog", "release", "--reload-plugins")
    run(checkout, "git", "add", "--all")
    # Without the hooks of pre-commit, whose programs are in the checkout of the owner.
    run(checkout, "git", "commit", "--quiet", "--no-verify", "--message", f"Release {version}")
    run(checkout, sys.executable, str(ROOT / "scripts" / "build_collection.py"), str(checkout.parent), str(checkout))
    (tarball,) = checkout.parent.glob("*.tar.gz")
    return tarball


def notes(checkout: pathlib.Path, version: str) -> str:
    """Return the section of CHANGELOG.md about the version."""
    anchor = '<a id="v{}"></a>'.format(version.replace(".", "-"))
    text = (checkout / "CHANGELOG.md").read_text().partition(anchor)[2]
    return re.split(r'^<a id="v[0-9-]+"></a>$', text, maxsplit=1, flags=re.MULTILINE)[0].strip()


def release(root: pathlib.Path, version: str, confirmed: bool) -> None:
    check(root, version)
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        # antsibull-changelog copies a collection that lies elsewhere, with all that is in it.
        checkout = pathlib.Path(scratch) / "ansible_collections" / "maintops" / "scheduled_events"
        run(root, "git", "worktree", "add", "--quiet", "--detach", str(checkout))
        try:
            tarball = make(checkout, version)
            print(notes(checkout, version))
            print(run(checkout, "git", "show", "--stat", "--format=%n%h %s", "HEAD"))
            print(f"tarball: {tarball.name}, {tarball.stat().st_size} bytes")
            commit = run(checkout, "git", "rev-parse", "HEAD")
        finally:
            run(root, "git", "worktree", "remove", "--force", str(checkout))
        if not confirmed:
            print(f"\nThis was a dry run. To release it: make release VERSION={version} CONFIRM=yes")
            return
        try:
            run(root, "git", "merge", "--quiet", "--ff-only", commit)
        except Refused as refusal:
            raise Refused(f"The checkout has changed during the release. Run it again.\n{refusal}") from refusal
        run(root, "git", "tag", "--annotate", "--message", f"Release {version}", version, commit)
        (root / tarball.name).write_bytes(tarball.read_bytes())
        print(f"\nReleased {version}. To publish it: git push --atomic origin HEAD {version}")


def main(arguments: list[str] | None = None, root: pathlib.Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    prepared = yaml.safe_load((root / "galaxy.yml").read_text())["version"]
    parser.add_argument("--version", default=prepared, help="the version (default: that of galaxy.yml)")
    parser.add_argument("--confirm", action="store_true", help="make the release instead of only showing it")
    options = parser.parse_args(arguments)
    try:
        release(root, options.version, options.confirm)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
