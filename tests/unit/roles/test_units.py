# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rights that units and files have as the roles install them, and what a program of the collection listens to."""

import pathlib
import re
import shlex
import signal
import subprocess

import jinja2
import pytest
import yaml
from _scheduled_events.checks import PATH, WrongValue, check
from ansible.plugins.filter.core import comment
from scheduled_events_poller import spool

ROOT = pathlib.Path(__file__).parents[3]
POLLER = "poller/templates/scheduled-events-"
EMULATOR = "emulator/templates/scheduled-events-emulator.service.j2"
TEMPLATES = jinja2.Environment(trim_blocks=True)  # noqa: S701 - a unit is not HTML
TEMPLATES.filters["comment"] = comment
SANDBOX = {"NoNewPrivileges": ["yes"], "PrivateTmp": ["yes"], "ProtectSystem": ["strict"], "ProtectHome": ["yes"]}


def unit(template, **values):
    """The directives of a unit, each with its values."""
    source = (ROOT / "roles" / template).read_text(encoding="utf-8")
    text = TEMPLATES.from_string(source).render(values)
    found = {}
    for line in re.sub(r"\\\n", "", text).splitlines():
        name, is_directive, value = line.partition("=")
        if is_directive and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize(
    ("template", "rights"),
    [
        (
            f"{POLLER}poller.service.j2",
            {"User": ["scheduled-events"], "CapabilityBoundingSet": [""], "UMask": ["0077"], "MemoryMax": ["512M"]},
        ),
        (f"{POLLER}hooks.service.j2", {"PrivateNetwork": ["yes"]}),
        (
            f"{POLLER}webhooks.service.j2",
            {"CapabilityBoundingSet": [""], "IPAddressDeny": ["169.254.169.254"], "StateDirectoryMode": ["0700"]},
        ),
        (EMULATOR, {"User": ["emulator"]}),
    ],
)
def test_a_unit_has_its_sandbox_and_no_more_rights(template, rights):
    found = unit(template, __emulator_user="emulator", emulator_port="1024", emulator_control_port=1024)
    assert {name: found.get(name) for name in (*SANDBOX, *rights)} == {**SANDBOX, **rights}


@pytest.mark.parametrize("path", sorted((ROOT / "roles").glob("*/templates/*.service.j2")), ids=lambda path: path.stem)
def test_a_unit_starts_where_no_user_namespace_can_be_made(path):
    # user.max_user_namespaces=0, as guides for hardening want it
    assert not re.search("^PrivateUsers=", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_only_the_unit_of_a_hook_has_no_sandbox():
    found = unit(f"{POLLER}hook@.service.j2")
    assert [name for name in found if name in SANDBOX or name == "CapabilityBoundingSet"] == []
    assert found["User"] == ["root"]  # as without it, but systemd then sets HOME


@pytest.mark.parametrize("path", sorted((ROOT / "roles").glob("*/templates/*.j2")), ids=lambda path: path.stem)
def test_no_line_of_the_owner_that_says_who_manages_a_file_counts_as_one_of_the_unit(path):
    text = TEMPLATES.from_string(path.read_text(encoding="utf-8")).render(
        ansible_managed="By Ansible\n[x] = y", emulator_port=1024, emulator_control_port=1024
    )
    assert [line for line in text.splitlines() if "[x] = y" in line] in ([], ["# [x] = y"])


IGNORED = {"SIGCHLD", "SIGCONT", "SIGURG", "SIGWINCH"}  # by the kernel
STOPPING = {"SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU"}


@pytest.mark.parametrize("name", ["hooks", "hook@", "webhooks"])
def test_a_unit_that_cannot_be_started_is_started_again_every_second(name):
    found = unit(f"{POLLER}{name}.service.j2")
    again = ["Restart", "RestartSec", "StartLimitIntervalSec"]
    assert [found.get(each) for each in again] == [["on-failure"], ["1"], ["0"]]
    assert found.get("Type") != ["oneshot"]  # which systemd 239 does not load then


def test_hooks_do_not_run_again_after_a_run_that_a_signal_ended_or_that_could_not_store_its_result():
    prevented = set(unit(f"{POLLER}hook@.service.j2")["RestartPreventExitStatus"][0].split())
    ending = {each.name for each in signal.Signals if each < signal.SIGRTMIN} - IGNORED - STOPPING
    assert prevented == {"2", "74", *ending}  # 2: no id of a run; 74: no result


@pytest.mark.parametrize("name", ["hooks", "webhooks"])
def test_a_path_unit_watches_on_however_often_it_is_started(name):
    assert unit(f"{POLLER}{name}.path.j2")["StartLimitIntervalSec"] == ["0"]


def test_a_hook_whose_process_fails_before_its_program_does_not_end_systemd():
    found = unit(f"{POLLER}hook@.service.j2")
    # With Type=exec, systemd 247 as PID 1 aborts when it collects such a unit.
    assert (found["CollectMode"], found.get("Type")) == (["inactive-or-failed"], None)


def test_nothing_of_the_poller_is_run_as_root():
    found = unit(f"{POLLER}poller.service.j2", __poller_python="/usr/bin/python3")
    assert {name: values for name, values in found.items() if name.startswith("Exec")} == {
        "ExecStart": ["/usr/bin/python3 -I /usr/local/bin/scheduled-events run"],
        "ExecReload": ["/bin/kill -HUP $MAINPID"],
    }


def test_the_poller_has_the_path_of_requests_started_again():
    found = unit(f"{POLLER}poller.service.j2")
    assert (found["Wants"], found["Upholds"]) == (
        ["network-online.target scheduled-events-hooks.path"],
        ["scheduled-events-hooks.path"],
    )


@pytest.mark.parametrize("name", ["hooks", "poller", "webhooks"])
def test_a_unit_starts_where_tmp_is_full_or_read_only(name):
    found = unit(f"{POLLER}{name}.service.j2")
    # PrivateDevices= makes a directory in /tmp up to systemd 252, as PrivateTmp= does without these paths.
    assert (found["InaccessiblePaths"], found.get("PrivateDevices")) == (["-/tmp -/var/tmp"], None)


@pytest.mark.parametrize("ended", [False, True])
def test_after_a_run_with_a_result_its_unit_starts_no_program_that_could_take_too_long(tmp_path, ended):
    [command] = unit(f"{POLLER}hook@.service.j2", __poller_python="/bin/echo")["ExecStopPost"]
    assert f"{spool.Directories().jobs}/" in command
    if not ended:
        (tmp_path / "a.prepare.1").touch()
    command = command.replace(spool.Directories().jobs, str(tmp_path)).replace("%i", "a.prepare.1").replace("$$", "$")
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, check=True, text=True)
    assert done.stdout.split()[2:] == ([] if ended else ["ended", "a.prepare.1"])


@pytest.mark.parametrize(("name", "lines"), [("hooks", "200"), ("hook@", "1000")])
def test_what_a_request_starts_has_a_limit_of_lines_in_the_journal(name, lines):
    found = unit(f"{POLLER}{name}.service.j2")
    assert (found["LogRateLimitIntervalSec"], found["LogRateLimitBurst"]) == (["30"], [lines])


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("poller", spool.RUNTIME_DIRECTORY),
        ("hooks", spool.HOOKS_RUNTIME_DIRECTORY),
        ("hook@", spool.HOOKS_RUNTIME_DIRECTORY),
        ("webhooks", spool.WEBHOOKS_RUNTIME_DIRECTORY),
    ],
)
def test_a_program_has_its_files_where_its_unit_makes_their_directory(name, directory):
    assert [f"/run/{made}" for made in unit(f"{POLLER}{name}.service.j2")["RuntimeDirectory"]] == [directory]


def test_a_directory_of_the_inventory_is_one_path_in_the_unit():
    directory = '/a "b" %n \\c'
    (_history, shown) = unit(f"{POLLER}poller.service.j2", poller_metrics_directory=directory)["ReadWritePaths"]
    assert shown == '"-/a \\"b\\" %%n \\\\c"'
    with pytest.raises(WrongValue):
        check("/a\nUser=root", PATH, "metrics_directory")


def test_the_paths_of_the_emulator_are_one_word_each_in_its_unit():
    paths = {"emulator_python": "/a b/python%3", "emulator_install_directory": '/opt/a "b" $n \\c'}
    found = unit(EMULATOR, emulator_port=8169, emulator_control_port=8170, **paths)
    assert found["ExecStart"][0].startswith('"/a b/python%%3" -m scheduled_events_emulator serve ')
    assert found["Environment"] == ['"PYTHONPATH=/opt/a \\"b\\" $n \\\\c"']


@pytest.mark.parametrize("name", ["__poller_controller", "__poller_webhooks_config"])
def test_a_file_with_secrets_is_written_for_root_alone_and_its_task_shows_nothing(name):
    tasks = [
        task
        for path in (ROOT / "roles/poller/tasks").glob("*.yml")
        for task in yaml.safe_load(path.read_text(encoding="utf-8"))
        if task.get("ansible.builtin.copy", {}).get("dest") == f"{{{{ {name} }}}}"
    ]
    copied = [(task["ansible.builtin.copy"]["owner"], task["ansible.builtin.copy"]["mode"]) for task in tasks]
    assert (copied, [task["no_log"] for task in tasks]) == ([("root", "0600")], [True])


def test_no_program_of_a_vm_listens_to_a_network():
    places = [ROOT / "plugins" / "module_utils", ROOT / "plugins" / "modules", ROOT / "roles" / "poller" / "files"]
    listens = re.compile(r"\.listen\(|\.bind\(|http\.server|socketserver|start_server|create_server")
    found = {
        line.strip()
        for place in places
        for path in place.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if listens.search(line)
    }
    assert found == {"listener.bind(path)", 'sender.bind("")  # the kernel chooses a name, so that the unit can answer'}
