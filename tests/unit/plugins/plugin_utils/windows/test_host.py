# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules of ansible.windows are asked, and what becomes of their results."""

import re

import pytest
from ansible.errors import AnsibleConnectionFailure

from plugins.plugin_utils._ansible.other_host import HostLost
from plugins.plugin_utils._windows import modules
from plugins.plugin_utils._windows.host import RemoteFiles
from plugins.plugin_utils._windows.modules import _WindowsFlag, run_here

DIRECTORY = "C:\\state"


class Host:
    """Answers each command of ansible.windows with ``result``."""

    check_mode = False

    def __init__(self, **result):
        self.result, self.asked = result, []

    def run(self, command, options):
        self.asked.append((command, options))
        return self.result


def test_a_file_is_removed_by_its_path():
    host = Host(changed=True)
    RemoteFiles(host, DIRECTORY).remove("a.json")
    assert host.asked == [("ansible.windows.win_file", {"path": f"{DIRECTORY}\\a.json", "state": "absent"})]


@pytest.mark.parametrize("call", ["is_there", "digests", "make"])
def test_what_a_host_cannot_do_with_the_directory_is_an_error_that_names_it(call):
    with pytest.raises(OSError, match=r"^C:\\state cannot be .*: Access is denied\. Connect as an administrator"):
        getattr(RemoteFiles(Host(failed=True, msg="Access is denied"), DIRECTORY), call)()


def test_the_files_of_the_directory_are_known_by_their_digests():
    host = Host(files=[{"filename": "a.json", "checksum": "0a"}, {"filename": "b.json", "checksum": "0b"}])
    assert RemoteFiles(host, DIRECTORY).digests() == {"a.json": "0a", "b.json": "0b"}
    assert host.asked[0][1] == {"paths": [DIRECTORY], "checksum_algorithm": "sha256"}


def test_a_missing_file_is_not_taken_for_one_that_cannot_be_read():
    with pytest.raises(FileNotFoundError):
        RemoteFiles(Host(failed=True, msg="the file was not found"), DIRECTORY).read("a.json")
    with pytest.raises(OSError, match=r"a\.json cannot be read: in use") as caught:
        RemoteFiles(Host(failed=True, msg="in use"), DIRECTORY).read("a.json")
    assert not isinstance(caught.value, FileNotFoundError)


def test_a_name_that_is_taken_is_no_error_of_a_rename():
    assert RemoteFiles(Host(rc=0), DIRECTORY).rename("new", "old")
    assert not RemoteFiles(Host(rc=1), DIRECTORY).rename("new", "old")


@pytest.mark.parametrize(
    ("call", "command", "options"),
    [
        ("is_up", "win_stat", {"get_checksum": False}),
        ("lower", "win_file", {"state": "absent"}),
    ],
)
def test_the_flag_is_a_file_of_the_host(call, command, options):
    host = Host(stat={"exists": True})
    getattr(_WindowsFlag(host, "C:\\drained"), call)()
    assert host.asked == [(f"ansible.windows.{command}", {"path": "C:\\drained", **options})]


def test_a_flag_that_cannot_be_looked_at_is_neither_up_nor_down():
    with pytest.raises(OSError, match="drained: Access is denied"):
        _WindowsFlag(Host(failed=True, msg="Access is denied"), "C:\\drained").is_up()


OPTIONS = {"provider": "record", "state": "held"}


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (HostLost("the host did not answer"), AnsibleConnectionFailure("the host did not answer")),
        (HostLost("lost", AnsibleConnectionFailure("no route")), AnsibleConnectionFailure("no route")),
    ],
)
def test_a_host_that_is_lost_is_unreachable_for_ansible(monkeypatch, error, raised):
    def lose(_host, _module):
        raise error

    monkeypatch.setitem(modules.MODULES, "load_balancer", (modules.MODULES["load_balancer"][0], lose))
    with pytest.raises(type(raised), match=str(raised)):
        run_here(Host(), "load_balancer", OPTIONS)


@pytest.mark.parametrize("warnings", [[], ["the clock was set"]])
def test_the_warnings_of_a_module_are_part_of_its_result(monkeypatch, warnings):
    def warn(_host, module):
        for each in warnings:
            module.warn(each)
        return {"changed": False}

    monkeypatch.setitem(modules.MODULES, "load_balancer", (modules.MODULES["load_balancer"][0], warn))
    found = run_here(Host(), "load_balancer", OPTIONS)
    assert found == {"changed": False, **({"warnings": warnings} if warnings else {})}


@pytest.mark.parametrize("number", [10**400, 10**5000, "9" * 400, float("inf")], ids=["400", "5000", "text", "inf"])
def test_a_number_of_any_length_is_refused_as_on_other_hosts(number):
    result = run_here(Host(), "maintenance_gate", {"step": "survey", "timeout": number})
    assert result["failed"]
    assert re.fullmatch(r"timeout is .{1,60}, expected a number from 0 to 1e\+08", result["msg"])
