# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role removes from a host, and what it never removes: the raised flag of a load balancer.

The tasks that remove hooks and state run on directories of the test. The whole role runs on hosts with systemd, see
extensions/molecule/poller.
"""

import grp
import json
import os
import pathlib
import pwd
import re
import shutil

import pytest
import yaml

from playbooks import LOCAL

FILES = ("etc/hooks/prepare.d/10-drain", "lib/state.json", "history/history.jsonl", "controller/event")
HOSTS = {
    # host: whether it is drained, and whether the state is kept
    "drained": {"flag": True, "keep": False},
    "serving": {"flag": False, "keep": False},
    "kept": {"flag": True, "keep": True},
    "with a file of the owner": {"flag": False, "keep": False, "own": ["etc/token"]},
}
UNINSTALL = {
    "hosts": "all",
    "gather_facts": False,
    "strategy": "free",
    "tasks": [
        {
            "ansible.builtin.include_role": {
                "name": "maintops.scheduled_events.poller",
                "tasks_from": "uninstall_state.yml",
            }
        }
    ],
}


@pytest.fixture(scope="module")
def remaining(ansible, tmp_path_factory):
    """The files that remain on each host."""
    directory = tmp_path_factory.mktemp("uninstall")
    for name, host in HOSTS.items():
        for path in (*FILES, *(["etc/drained"] if host["flag"] else []), *host.get("own", [])):
            (directory / name / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / name / path).touch()
    hosts = {name: dict(LOCAL, poller_keep_state=host["keep"]) for name, host in HOSTS.items()}
    run = ansible.run_playbook(
        [UNINSTALL],
        inventory={"all": {"hosts": hosts}},
        extra_vars={
            "__poller_config_dir": f"{directory}/{{{{ inventory_hostname }}}}/etc",
            "__poller_state_dir": f"{directory}/{{{{ inventory_hostname }}}}/lib",
            "__poller_history_dir": f"{directory}/{{{{ inventory_hostname }}}}/history",
            "__poller_runtime_dir": f"{directory}/{{{{ inventory_hostname }}}}/run",
            "__poller_controller_memory": f"{directory}/{{{{ inventory_hostname }}}}/controller",
        },
    )
    assert run.rc == 0, run.output
    return {
        name: sorted(str(path.relative_to(directory / name)) for path in (directory / name).rglob("*"))
        for name in HOSTS
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_is_kept_belongs_to_root_also_where_it_is_a_link(ansible, tmp_path):
    (tmp_path / "etc" / "hooks").mkdir(parents=True)
    (tmp_path / "history").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "lib").symlink_to("data")
    for path in ("etc/hooks", "history", "data"):
        shutil.chown(tmp_path / path, group="daemon")
    places = {"config_dir": "etc", "state_dir": "lib", "history_dir": "history", "runtime_dir": "run"}
    run = ansible.run_playbook(
        [UNINSTALL],
        inventory={"all": {"hosts": {"web1": {**LOCAL, "poller_keep_state": True}}}},
        extra_vars={f"__poller_{name}": str(tmp_path / place) for name, place in places.items()},
    )
    assert run.rc == 0, run.output
    groups = {path: (tmp_path / path).group() for path in ("etc/hooks", "history", "data")}
    assert groups == {"etc/hooks": "root", "history": "root", "data": "daemon"}, "what a link leads to is the owner's"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(
    "owner", ["root", "daemon", "nobody"], ids=["kept by an uninstallation", "of another machine", "of another group"]
)
def test_an_installation_gives_a_history_that_was_kept_to_the_user_and_its_group(ansible, tmp_path, owner):
    history = tmp_path / "history"
    history.mkdir(mode=0o777)
    (history / "history.jsonl").touch()
    for path in (history, history / "history.jsonl"):
        shutil.chown(path, owner)
    find = tmp_path / "find"
    script = f"stat --format='%U %A' {history} >{tmp_path}/meanwhile\nPATH={os.environ['PATH']} find \"$@\"\n"
    find.write_text(f"#!/bin/sh\n{script}")
    find.chmod(0o755)
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    run = run_history_tasks(ansible, history, group, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert run.rc == 0, run.output
    assert {(path.owner(), path.group()) for path in (history, history / "history.jsonl")} == {("nobody", group)}
    # No other user can put a link to a file of root there, between a look at it and its chown.
    assert (tmp_path / "meanwhile").read_text() == "root drwx------\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("first", [1, 2])
def test_a_change_of_the_group_of_a_history_that_was_interrupted_goes_on(
    ansible, installed_collection, tmp_path, first
):
    history = tmp_path / "history"
    history.mkdir(mode=0o2750)
    (history / "history.jsonl").touch()
    for path in (history, history / "history.jsonl"):
        shutil.chown(path, "nobody", "daemon")
    history.chmod(0o2750)
    tasks = yaml.safe_load((installed_collection / "roles/poller/tasks/history.yml").read_text())
    tasks[1]["block"] = tasks[1]["block"][:first]
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    interrupted = {"__poller_history_dir": str(history), "__poller_user": "nobody", "__poller_history_group": group}
    interrupted["__poller_only_look"] = False
    play = {"hosts": "all", "gather_facts": False, "tasks": tasks[:2]}
    run = ansible.run_playbook([play], inventory={"all": {"hosts": {"web1": LOCAL}}}, extra_vars=interrupted)
    assert run.rc == 0, run.output
    run = run_history_tasks(ansible, history, group)
    assert run.rc == 0, run.output
    assert {(path.owner(), path.group()) for path in (history, history / "history.jsonl")} == {("nobody", group)}
    assert not any(task.result.get("changed") for task in run_history_tasks(ansible, history, group).tasks)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_link_in_a_history_to_a_file_of_root_gives_that_file_to_no_other_user(ansible, tmp_path):
    history = tmp_path / "history"
    history.mkdir()
    for name, link in (("hard", os.link), ("symbolic", os.symlink)):
        (tmp_path / name).touch()
        link(tmp_path / name, history / name)
    run = run_history_tasks(ansible, history, "daemon")
    assert run.rc == 0, run.output
    assert [(tmp_path / path).owner() for path in ("history", "hard", "symbolic")] == ["nobody", "root", "root"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_group_that_the_host_lacks_takes_no_history_from_the_unit(ansible, tmp_path):
    history = tmp_path / "history"
    history.mkdir(mode=0o750)
    shutil.chown(history, "nobody")
    run = run_history_tasks(ansible, history, "no-such-group")
    assert (run.rc, history.owner(), history.stat().st_mode & 0o777) == (2, "nobody", 0o750), run.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_plan_goes_on_where_a_history_was_kept_and_the_group_was_removed(ansible, tmp_path):
    history = tmp_path / "history"
    history.mkdir(mode=0o700)
    run = run_history_tasks(ansible, history, "no-such-group", only_look=True, keywords={"check_mode": True})
    assert (run.rc, history.owner(), history.stat().st_mode & 0o777) == (0, "root", 0o700), run.output


def run_history_tasks(ansible, history, group, *, only_look=False, keywords=None, **how):
    role = {"name": "maintops.scheduled_events.poller", "tasks_from": "history.yml"}
    return ansible.run_playbook(
        [
            {
                "hosts": "all",
                "gather_facts": False,
                "tasks": [{"ansible.builtin.include_role": role}],
                **(keywords or {}),
            }
        ],
        inventory={"all": {"hosts": {"web1": LOCAL}}},
        extra_vars={
            "__poller_history_dir": str(history),
            "__poller_user": "nobody",
            "__poller_only_look": only_look,
            "poller_history_group": group,
        },
        **how,
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_an_installation_gives_the_directory_of_the_metrics_to_the_user_and_none_above_it(ansible, tmp_path):
    metrics = tmp_path / "other" / "metrics"
    (tmp_path / "runuser").symlink_to(shutil.which("true"))  # the user cannot reach a directory of pytest
    role = {"name": "maintops.scheduled_events.poller", "tasks_from": "metrics.yml"}
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": role}]}],
        inventory={"all": {"hosts": {"web1": LOCAL}}},
        extra_vars={
            "poller_metrics_directory": str(metrics),
            "__poller_user": "daemon",
            "__poller_environment": {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        },
    )
    owners = {path.name: path.owner() for path in (metrics.parent, metrics) if path.exists()}
    assert (run.rc, owners) == (0, {"other": "root", "metrics": "daemon"}), run.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start programs as another user")
@pytest.mark.parametrize(("status", "rc"), [(4, 2), (1, 0)], ids=["closed to this user", "another failure"])
def test_a_service_that_is_closed_to_the_user_fails_the_installation_also_where_the_path_has_no_sbin(
    ansible, tmp_path, status, rc
):
    command = tmp_path / "scheduled-events"
    command.write_text(f"#!/bin/sh\necho closed >&2\nexit {status}\n")
    command.chmod(0o755)
    role = {"name": "maintops.scheduled_events.poller", "tasks_from": "access.yml"}
    path = ":".join(place for place in os.environ["PATH"].split(":") if "sbin" not in place)
    run = ansible.run_playbook(
        [
            {
                "hosts": "all",
                "gather_facts": False,
                "tasks": [{"ansible.builtin.include_role": role}],
                "environment": {"PATH": path},
            }
        ],
        inventory={"all": {"hosts": {"web1": LOCAL}}},
        extra_vars={"__poller_command": str(command), "__poller_user": "root"},
    )
    assert run.rc == rc, run.output


# The state of the unit, the directory in the options, and whether the directory in the configuration keeps its metrics.
METRICS = {
    "no metrics": ("present", None, False),
    "another directory": ("present", "other", False),
    "the same directory": ("present", "metrics", True),
    "no unit": ("absent", "metrics", False),
}
MADE_BY_THE_ROLE = {  # the directory in the options, and whether the one in the configuration stays
    "made": ("other", False),
    "made-same": ("made-same/metrics", True),
    "made-slash": ("made-slash//metrics/", True),
    "made-link": ("made-link/link", True),
}


def test_metrics_go_with_their_unit_or_their_option_and_nothing_else_does(ansible, installed_collection, tmp_path):
    hosts, kept = {}, {}
    for number, (state, option, keeps) in enumerate(METRICS.values()):
        directory = tmp_path / f"web{number}"
        (directory / "metrics").mkdir(parents=True)
        for name in ("scheduled_events.prom", ".scheduled_events.prom.half", "node.prom"):
            (directory / "metrics" / name).touch()
        (directory / "poller.json").write_text(json.dumps({"metrics_directory": str(directory / "metrics")}))
        hosts[directory.name] = {
            **LOCAL,
            "poller_state": state,
            "poller_metrics_directory": option and str(directory / option),
        }
        kept[directory.name] = [] if not keeps else [".scheduled_events.prom.half", "scheduled_events.prom"]
    for name, (option, _stays) in MADE_BY_THE_ROLE.items():
        (tmp_path / name / "metrics").mkdir(parents=True)
        (tmp_path / name / "metrics" / "scheduled_events.prom").touch()
        (tmp_path / name / "link").symlink_to("metrics")
        (tmp_path / name / "poller.json").write_text(json.dumps({"metrics_directory": f"{tmp_path}/{name}/metrics"}))
        hosts[name] = {**LOCAL, "poller_state": "present", "poller_metrics_directory": f"{tmp_path}/{option}"}
        (tmp_path / "other").mkdir(exist_ok=True)
        hosts[name]["__poller_user"] = (tmp_path / name).owner()
    tasks = installed_collection / "roles" / "poller" / "tasks"
    # Also if an interrupted play has restarted the unit, so that this play finds no change of it.
    configure = yaml.safe_load((tasks / "configure.yml").read_text())
    [task] = [each for each in configure if each.get("ansible.builtin.include_tasks") == "uninstall_metrics.yml"]
    run = ansible.run_playbook(
        [
            {
                "hosts": "all",
                "gather_facts": False,
                "tasks": [{**task, "ansible.builtin.include_tasks": str(tasks / "uninstall_metrics.yml")}],
            }
        ],
        inventory={"all": {"hosts": hosts}},
        extra_vars={
            "__poller_config": f"{tmp_path}/{{{{ inventory_hostname }}}}/poller.json",
            "__poller_config_stat": {"stat": {"exists": True}},
        },
    )
    left = {name: sorted(path.name for path in (tmp_path / name / "metrics").iterdir()) for name in kept}
    assert left == {name: sorted([*names, "node.prom"]) for name, names in kept.items()}, run.output
    stays = {name: (tmp_path / name / "metrics").exists() for name in MADE_BY_THE_ROLE}
    assert stays == {name: stays for name, (_option, stays) in MADE_BY_THE_ROLE.items()}, run.output


def test_an_uninstallation_keeps_the_raised_flag_of_a_drained_host_and_nothing_else(remaining):
    assert remaining["drained"] == ["etc", "etc/drained"]


def test_an_uninstallation_keeps_a_file_that_the_role_did_not_make(remaining):
    assert remaining["with a file of the owner"] == ["etc", "etc/token"]


def test_an_uninstallation_leaves_nothing_on_a_host_that_is_not_drained(remaining):
    assert remaining["serving"] == []


def test_an_uninstallation_that_keeps_the_state_removes_none_of_it(remaining):
    assert set(remaining["kept"]) > {*FILES, "etc/drained"}


# A unit exists if its file does, as for systemd after its reload.
SYSTEMCTL = """#!/bin/sh
echo "$*" >> {directory}/bin/calls
[ -e "{directory}/units/$2" ] && state=loaded || state=not-found
grep -q "^stop $2" "{directory}/bin/calls" && active=inactive || active=active
case $1 in
    show) printf 'LoadState=%s\\nActiveState=%s\\n' "$state" "$active" ;;
    is-enabled) echo enabled; [ $state = loaded ] ;;
    status) echo its hooks run ;;
    list-unit-files) exit 1 ;;
esac
"""
WEBHOOKS = ("etc/webhooks.json", "etc/webhooks-applied", "lib/messages", "units/scheduled-events-webhooks.path")


@pytest.fixture
def interrupted(ansible, installed_collection, tmp_path):
    """Run tasks of the role in this directory, with a stand-in for systemctl; what that was asked to stop and start."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").write_text(SYSTEMCTL.format(directory=tmp_path))
    (tmp_path / "bin" / "systemctl").chmod(0o755)

    def run(name, *files, first=None, rc=0, command=tmp_path / "no-program", waits=False):
        for path in files:
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).touch()
        role = installed_collection / "roles" / "poller"
        steps = yaml.safe_load((role / "tasks" / f"{name}.yml").read_text())[:first]
        for step in steps:
            if "ansible.builtin.include_tasks" in step:
                step["ansible.builtin.include_tasks"] = str(role / "tasks" / step["ansible.builtin.include_tasks"])
        variables = {
            "poller_keep_state": False,
            "poller_hook_timeout": 0,
            "__poller_only_look": not waits,
            "__poller_command": str(command),
            "__poller_unit_dir": str(tmp_path / "units"),
            "__poller_webhooks_config": str(tmp_path / "etc" / "webhooks.json"),
            "__poller_webhooks_applied": str(tmp_path / "etc" / "webhooks-applied"),
            "__poller_webhooks_paths": [
                "{{ __poller_webhooks_config }}",
                "{{ __poller_webhooks_applied }}",
                str(tmp_path / "lib"),
            ],
        }
        known = yaml.safe_load((role / "vars" / "main.yml").read_text())
        ended = ansible.run_playbook(
            [{"hosts": "all", "gather_facts": False, "vars": known, "tasks": steps}],
            inventory={"all": {"hosts": {"web1": LOCAL}}},
            extra_vars=variables,
            env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        )
        assert ended.rc == rc, ended.output
        calls = tmp_path / "bin" / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [call for call in lines if call.startswith(("stop", "start"))]

    return run


def test_an_uninstallation_that_was_interrupted_among_the_units_goes_on(interrupted):
    units = ("units/scheduled-events-poller.service",)  # the last one
    assert interrupted("uninstall", *units, first=5) == ["stop scheduled-events-poller.service"]


def test_a_unit_that_an_event_reached_before_it_was_stopped_is_started_again(interrupted, tmp_path):
    units = ("scheduled-events-hooks.path", "scheduled-events-poller.service")
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\n! grep -q "^stop {units[1]}" {tmp_path}/bin/calls || echo E1\n')
    command.chmod(0o755)
    # Its hooks may take longer than the play waits for them.
    calls = interrupted("uninstall", *(f"units/{unit}" for unit in units), first=5, rc=2, command=command, waits=True)
    assert calls == [*(f"stop {unit}" for unit in reversed(units)), *(f"start {unit}" for unit in units)]


# What the command of the unit does, or None without it; whether the state is kept; and what the role refuses with.
COMMANDS = {
    "prepared": ("echo E1; echo E2", False, "This VM is prepared for E1, E2, and would stay so"),
    "prepared, kept": ("echo E1", True, ""),
    "not prepared": ("exit 0", False, ""),
    "a state that cannot be read": ("echo it is cut >&2; exit 1", False, "it is cut"),
    "a command that was killed": ("kill -9 $$", False, "ended with -9"),
    "a command that does not know it": ("echo its usage >&2; exit 2", False, "its usage"),
    "a missing interpreter": ("#!/no/python", False, "ended with 2"),
    "no program": (None, False, ""),
}


def test_a_prepared_vm_keeps_its_polling_unit_until_it_has_recovered(ansible, installed_collection, tmp_path):
    role = installed_collection / "roles" / "poller" / "tasks"
    task = yaml.safe_load((role / "uninstall.yml").read_text())[1]
    tasks = [{**task, "ansible.builtin.include_tasks": str(role / task["ansible.builtin.include_tasks"])}]
    hosts, wanted = {}, {}
    for number, (script, keep, refused) in enumerate(COMMANDS.values()):
        command, host = tmp_path / f"command{number}", f"web{number}"
        if script is not None:
            own = script if script.startswith("#!") else f'#!/bin/sh\n[ "$*" = prepared ] || exit 9\n{script}'
            command.write_text(f"{own}\n")
            command.chmod(0o755)
        hosts[host] = {**LOCAL, "__poller_command": str(command), "poller_keep_state": keep, "__poller_state_dir": "/x"}
        hosts[host]["__poller_services_found"] = []
        wanted.update({host: refused} if refused else {})
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "tasks": tasks}], inventory={"all": {"hosts": hosts}}
    )
    failed = {each.host: each for each in run.tasks if each.failed}
    assert failed.keys() == wanted.keys(), run.output
    assert all(refused in json.dumps(failed[host].result) for host, refused in wanted.items()), run.output


@pytest.mark.parametrize("left", [WEBHOOKS, ("etc/webhooks.json",), ("units/scheduled-events-webhooks.service",), ()])
def test_webhooks_whose_installation_or_removal_was_interrupted_are_removed(interrupted, tmp_path, left):
    units = [path.partition("/")[2] for path in left if path.startswith("units/")]
    (tmp_path / "etc").mkdir()
    others = ("etc/other.json", "webhooks.json", "units/webhooks-applied", "etc/scheduled-events-webhooks.path")
    assert interrupted("uninstall_webhooks", *others, *left) == [f"stop {unit}" for unit in units]
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "bin"]
    assert sorted(files) == sorted(tmp_path / path for path in others)


OF_THE_ROLE = ("lib/program-0123456789abcdef", "lib/program-0123456789abcdef.new", "hooks/managed-0123456789abcdef")
OF_OTHERS = ("lib/program-exporter", "lib/program-0123456789abcdef-mine", "hooks/managed-backup", "lib/managed")
IN_USE = ("lib/program-aaaaaaaaaaaaaaaa", "hooks/managed-bbbbbbbbbbbbbbbb")


@pytest.mark.parametrize("removed", [False, True], ids=["installation", "removal"])
def test_only_releases_and_sets_of_hooks_are_removed_as_former_ones(ansible, installed_collection, tmp_path, removed):
    for path in (*OF_THE_ROLE, *OF_OTHERS, *IN_USE):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "file").touch()
    for link, path in zip(("lib/program", "hooks/managed"), IN_USE, strict=True):
        (tmp_path / link).symlink_to(tmp_path / path)
    role = installed_collection / "roles" / "poller"
    steps = yaml.safe_load((role / "tasks" / ("uninstall.yml" if removed else "former.yml")).read_text())
    names = ("Find the releases", "Ensure units, program and configuration are absent")
    known = {
        **yaml.safe_load((role / "vars" / "main.yml").read_text()),
        **{"__poller_link": str(tmp_path / "lib" / "program"), "__poller_hooks": str(tmp_path / "hooks")},
        **{"__poller_plan": {"release": "a" * 16, "hook_set": "b" * 16}, "poller_keep_state": True},
        **{
            f"__poller_{name}": str(tmp_path / "none")
            for name in ("command", "config", "controller", "applied", "fact")
        },
        "__poller_unit_dir": str(tmp_path / "units"),
        "__poller_only_look": False,
    }
    tasks = [step for step in steps if not removed or step["name"] in names]
    if removed:
        loop = tasks[1]["loop"]
        tasks[1]["loop"] = loop.replace("['/run/scheduled-events-drill']", "[]")
        assert tasks[1]["loop"] != loop
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "systemctl").symlink_to(shutil.which("true"))
    run = ansible.run_playbook(
        [{"hosts": "all", "gather_facts": False, "vars": known, "tasks": tasks}],
        inventory={"all": {"hosts": {"web1": LOCAL}}},
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    assert run.rc == 0, run.output
    left = {path for path in (*OF_THE_ROLE, *OF_OTHERS, *IN_USE) if (tmp_path / path / "file").exists()}
    # A removal takes the sets of hooks with their directory, if the state is not kept.
    assert left == {*OF_OTHERS, *((OF_THE_ROLE[2], IN_USE[1]) if removed else IN_USE)}


UNIT = "scheduled-events-poller.service"


@pytest.fixture
def applies(ansible, installed_collection, tmp_path):
    """Return a function that runs tasks of the role on files of the test, and returns the restarts and reloads.

    A step is a tasks file of the role, or a task.
    """
    for path in ("bin/systemctl", "link", "poller.json", f"units/{UNIT}", "units/b.path"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(SYSTEMCTL.format(directory=tmp_path))
    (tmp_path / "bin" / "systemctl").chmod(0o755)
    role = installed_collection / "roles" / "poller"
    known = {
        **yaml.safe_load((role / "vars" / "main.yml").read_text()),
        **{"__poller_link": str(tmp_path / "link"), "__poller_config": str(tmp_path / "poller.json")},
        **{"__poller_unit_dir": str(tmp_path / "units"), "__poller_units": [UNIT, "b.path"]},
        **{"__poller_applied": str(tmp_path / "applied"), "__poller_services": ["b.path"]},
        **{"__poller_user": pwd.getpwuid(os.getuid()).pw_name, "poller_history_group": ""},
        **{"__poller_history_dir": str(tmp_path / "history"), "poller_metrics_directory": str(tmp_path / "metrics")},
        **{"__poller_only_look": False, "__poller_before_configuration": False},
    }

    def run(*steps):
        files = {name: yaml.safe_load((role / "tasks" / name).read_text()) for name in steps if isinstance(name, str)}
        tasks = [task for step in steps for task in (files[step] if isinstance(step, str) else [step])]
        ended = ansible.run_playbook(
            [{"hosts": "all", "gather_facts": False, "vars": known, "tasks": tasks}],
            inventory={"all": {"hosts": {"web1": LOCAL}}},
            env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
        )
        assert ended.rc == 0, ended.output
        calls = (tmp_path / "bin" / "calls").read_text().splitlines()
        return [call for call in calls if call.startswith(("restart", "reload"))]

    return run


def test_a_change_is_applied_once_also_after_the_clock_was_set_back(applies, tmp_path):
    earlier = {"ansible.builtin.file": {"state": "touch", "mode": "0755", "modification_time": "200001010000.00"}}

    def change(path):
        return {"ansible.builtin.file": {**earlier["ansible.builtin.file"], "path": str(tmp_path / path)}}

    (tmp_path / "applied").touch(mode=0o666)
    (tmp_path / "applied").chmod(0o666)
    twice = ["apply.yml"] * 2
    before = os.umask(0)
    done = applies(*twice, change(f"units/{UNIT}"), *twice, change("poller.json"), *twice)
    os.umask(before)
    # Whatever the umask of the connection is: who can write to it decides which changes are applied.
    assert (tmp_path / "applied").stat().st_mode & 0o777 == 0o644
    assert done == ["restart b.path", "restart b.path", f"reload {UNIT}"]


@pytest.mark.parametrize("directory", ["metrics", "history"])
def test_the_poller_is_restarted_once_for_a_directory_that_was_removed_also_by_the_next_run(
    applies, tmp_path, directory
):
    """It cannot write to one that was made after its start."""
    made = ["metrics.yml", "history.yml"]
    remove = {"ansible.builtin.file": {"state": "absent", "path": str(tmp_path / directory)}}
    whole = [*made, "apply.yml", "apply.yml"]
    assert applies(*whole, *whole) == ["restart b.path"]
    assert applies(remove, *made, *whole) == ["restart b.path"] * 2


def test_no_path_of_the_role_holds_the_flag_of_the_role_load_balancer(installed_collection):
    role = installed_collection / "roles" / "poller"
    text = "".join(path.read_text() for path in [*role.glob("tasks/uninstall*.yml"), *role.glob("vars/*.yml")])
    paths = {pathlib.PurePath(path) for path in re.findall(r"(?<![\w./}])/(?:[\w.-]+/)*[\w@.-]+", text)}
    assert pathlib.PurePath("/var/lib/scheduled-events") in paths
    flag = pathlib.PurePath("/var/lib/maintops/drained")
    assert paths.isdisjoint({flag, *flag.parents})
