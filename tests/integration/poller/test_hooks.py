# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The directories of hooks on a host: how the role changes them, and what it leaves alone.

The tasks for hooks run on a directory of the test. The whole role runs on hosts with systemd, see
extensions/molecule/poller.
"""

import os
import shutil
import sys

import pytest

from playbooks import LOCAL

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to whom hooks belong")

ROLE = "maintops.scheduled_events.poller"
FIRST = [
    {"name": "10-drain", "phase": "prepare", "content": "#!/bin/sh\nfirst s3cr3t\n"},
    {"name": "90-return", "phase": "recover", "command": ["true"]},
]
SECOND = [{**FIRST[0], "content": "#!/bin/sh\nsecond\n"}, {**FIRST[1], "name": "91-return"}]
PHASES = ["advised.d", "failed.d", "prepare.d", "recover.d", "started.d"]
PLAY = [
    {
        "hosts": "all",
        "gather_facts": False,
        "tasks": [{"include_role": {"name": ROLE, "tasks_from": file}} for file in ("check", "hooks", "former")],
    }
]
# systemctl says whether a hook runs.
SYSTEMCTL = '#!/bin/sh\n[ ! -e "$(dirname "$0")/a-hook-runs" ] || echo scheduled-events-hook@x.service\n'


class Host:
    """A directory of hooks, and what the role does with it."""

    def __init__(self, ansible, directory):
        self._ansible = ansible
        self.bin, self.hooks = directory / "bin", directory / "etc" / "hooks"
        for place in (self.bin, self.hooks.parent):
            place.mkdir()
        (self.bin / "systemctl").write_text(SYSTEMCTL)
        (self.bin / "systemctl").chmod(0o755)
        self.release = self.hooks.parent / "scheduled-events-current"
        self.release.mkdir()
        (self.hooks.parent / "scheduled-events").symlink_to(self.release)

    def apply(self, hooks, *options, rc=0, meanwhile=None):
        tasks = [*PLAY[0]["tasks"]]
        if meanwhile:
            tasks.insert(2, {"command": meanwhile})
        run = self._ansible.run_playbook(
            [{**PLAY[0], "tasks": tasks, "environment": {"PATH": f"{self.bin}:{os.environ['PATH']}"}}],
            inventory={"all": {"hosts": {"vm1": LOCAL}}},
            extra_vars={
                "poller_hooks": hooks,
                "poller_python": sys.executable,
                "__poller_hidden": "/nothing/",
                "__poller_hooks": str(self.hooks),
                "__poller_link": str(self.hooks.parent / "scheduled-events"),
                "__poller_release": str(self.release),
                "__poller_user": "root",
                "__poller_only_look": "--check" in options,
            },
            options=options,
        )
        assert run.rc == rc, run.output
        return run

    def in_use(self):
        """The files of the set in use."""
        root = self.hooks / "managed"
        found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
        assert found.pop("README")
        return found

    def everything(self):
        return {
            str(path.relative_to(self.hooks)): (path.lstat().st_ino, path.lstat().st_mode, path.lstat().st_mtime_ns)
            for path in self.hooks.rglob("*")
        }


@pytest.fixture
def host(ansible, tmp_path):
    return Host(ansible, tmp_path)


@pytest.fixture(scope="module")
def first(ansible, tmp_path_factory):
    """A host with the first hooks."""
    host = Host(ansible, tmp_path_factory.mktemp("first"))
    host.apply(FIRST)
    return host


@pytest.fixture
def installed(host, first):
    shutil.copytree(first.hooks, host.hooks, symlinks=True)
    return host


def contents(hooks):
    return {f"{hook['phase']}.d/{hook['name']}": hook.get("content", "#!/bin/sh\nexec true\n") for hook in hooks}


def test_hooks_are_installed_once_for_root_alone_to_read_and_a_check_before_changes_nothing(host):
    old = os.umask(0o077)
    try:
        assert "changed=0" not in host.apply(FIRST, "--check", "--diff").output
        assert not host.hooks.exists()
        shown = host.apply(FIRST, "--diff").output
    finally:
        os.umask(old)
    assert "s3cr3t" not in shown
    assert host.in_use() == contents(FIRST)
    assert (host.hooks.stat().st_mode & 0o7777, host.hooks.joinpath("managed").stat().st_mode & 0o7777) == (
        0o750,
        0o755,
    )
    modes = {path.name: path.stat().st_mode & 0o7777 for path in (host.hooks / "managed").resolve().rglob("*")}
    assert modes == {"README": 0o750, "10-drain": 0o750, "90-return": 0o750, "prepare.d": 0o755, "recover.d": 0o755}
    assert sorted(path.name for path in host.hooks.glob("*.d")) == PHASES

    before = host.everything()
    assert "changed=0" in host.apply(FIRST).output
    assert host.everything() == before


def test_hooks_that_another_run_of_the_role_puts_in_use_meanwhile_stay_and_the_play_fails(installed):
    used = (installed.hooks / "managed").resolve()
    run = installed.apply(SECOND, rc=2, meanwhile=f"ln -sfn {used.name} {installed.hooks}/managed")
    assert f"In use on this VM are scheduled-events-current, {used.name}, expected" in " ".join(run.output.split())
    assert installed.in_use() == contents(FIRST)


def test_changed_hooks_come_in_a_new_set_and_those_of_the_owner_stay_untouched(installed):
    host = installed
    by_hand = host.hooks / "prepare.d" / "50-by-hand"
    by_hand.write_text("#!/bin/sh\nby hand\n")
    by_hand.chmod(0o700)
    untouched, old = by_hand.stat(), (host.hooks / "managed").resolve()
    before = {path: path.read_text() for path in old.rglob("*") if path.is_file()}
    (host.bin / "a-hook-runs").write_text("")

    # A play that was interrupted while it copied leaves the new set unfinished and unused.
    name = host.apply(SECOND, "--check", "--diff").one(task="Ensure these hooks are in use")["diff"]["after"]["src"]
    (host.hooks / name / "prepare.d").mkdir(parents=True)
    assert host.in_use() == contents(FIRST)
    host.apply(SECOND)
    assert (host.hooks / "managed").resolve().name == name
    assert host.in_use() == contents(SECOND)
    assert by_hand.stat() == untouched
    assert {path: path.read_text() for path in old.rglob("*") if path.is_file()} == before

    (host.bin / "a-hook-runs").unlink()
    host.apply(SECOND)
    assert [path.name for path in host.hooks.glob("managed-*")] == [name]
    assert host.in_use() == contents(SECOND)


def test_what_was_damaged_is_repaired(installed):
    managed = (installed.hooks / "managed").resolve()
    (managed / "prepare.d/10-drain").unlink()
    (managed / "recover.d/90-return").write_text("#!/bin/sh\nedited\n")
    (managed / "recover.d/90-return").chmod(0o777)
    (installed.hooks / "managed").unlink()
    installed.apply(FIRST)
    assert installed.in_use() == contents(FIRST)
    assert (managed / "recover.d/90-return").stat().st_mode & 0o7777 == 0o750
