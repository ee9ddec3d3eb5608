# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role removes from a host, and what it never removes: the raised flag of a load balancer.

The tasks that remove hooks and state run on directories of the test. The whole role runs on hosts with systemd, see
extensions/molecule/poller.
"""

import pathlib
import re

import pytest

from playbooks import LOCAL

FILES = ("etc/hooks/prepare.d/10-drain", "etc/hooks.d", "lib/state.json", "history/history.jsonl")
HOSTS = {
    # host: whether it is drained, and whether the state is kept
    "drained": {"flag": True, "keep": False},
    "serving": {"flag": False, "keep": False},
    "kept": {"flag": True, "keep": True},
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
        for path in (*FILES, *(["etc/drained"] if host["flag"] else [])):
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
        },
    )
    assert run.rc == 0, run.output
    return {
        name: sorted(str(path.relative_to(directory / name)) for path in (directory / name).rglob("*"))
        for name in HOSTS
    }


def test_an_uninstallation_keeps_the_raised_flag_of_a_drained_host_and_nothing_else(remaining):
    assert remaining["drained"] == ["etc", "etc/drained"]


def test_an_uninstallation_leaves_nothing_on_a_host_that_is_not_drained(remaining):
    assert remaining["serving"] == []


def test_an_uninstallation_that_keeps_the_state_removes_none_of_it(remaining):
    assert set(remaining["kept"]) > {*FILES, "etc/drained"}


def test_no_path_of_the_role_holds_the_flag_of_the_role_load_balancer(installed_collection):
    role = installed_collection / "roles" / "poller"
    text = "".join(path.read_text() for path in [*role.glob("tasks/uninstall*.yml"), *role.glob("vars/*.yml")])
    paths = {pathlib.PurePath(path) for path in re.findall(r"(?<![\w./}])/(?:[\w.-]+/)*[\w@.-]+", text)}
    assert pathlib.PurePath("/var/lib/scheduled-events") in paths
    flag = pathlib.PurePath("/var/lib/maintops/drained")
    assert paths.isdisjoint({flag, *flag.parents})
