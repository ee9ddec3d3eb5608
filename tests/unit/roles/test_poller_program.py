# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role poller checks before it changes anything, with ansible-core on this host."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import jinja2
import pytest
import yaml
from scheduled_events_poller.unit.config import Settings

ROOT = pathlib.Path(__file__).parents[3]
SECRET = "s3cr3t"
DRAIN = {"name": "10-drain", "phase": "prepare", "content": f"#!/bin/sh\nexit 0 # {SECRET}\n"}
BY_HAND = {"name": "50-by-hand", "phase": "prepare", "command": ["true"]}
WEBHOOK = {"name": "ops", "url": f"https://example.org/{SECRET}", "secret": SECRET}
ROLE = "maintops.scheduled_events.poller"
# What is hidden, but not this Python: its checkout can be in a home.
PLACES = (sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix)
BESIDE_THIS_PYTHON = f"(?!{'|'.join(map(re.escape, PLACES))})"
HOME = f"{BESIDE_THIS_PYTHON}/home/"
HIDDEN = BESIDE_THIS_PYTHON + yaml.safe_load((ROOT / "roles/poller/vars/main.yml").read_text())["__poller_hidden"]
# What is tried: the variables that differ, whether with the validation that Ansible does, and what is refused.
CASES = {
    "a value": ({"poller_interval": "9"}, "check", "poller_interval: expected seconds from 0.25 to 5, not 9.0"),
    "a slip in a name": (
        {"poller_webhook": [WEBHOOK]},
        "check",
        "poller_webhook has no effect, expected poller_webhooks.",
    ),
    "headers": (
        {"poller_webhooks": [{**WEBHOOK, "headers": f"A: {SECRET}"}]},
        "check",
        "poller_webhooks[0].headers",
    ),
    "an unknown key": ({"poller_webhooks": [{**WEBHOOK, "token": SECRET}]}, "main", "Validation of arguments failed"),
    "a file in the way": (
        {"poller_hooks": [DRAIN, BY_HAND]},
        "check",
        "50-by-hand exists, and this role did not put it",
    ),
    "a fact that reads a file of the control node": (
        {"ansible_facts": {"poller_hooks": [{"name": "10-loot", "phase": "prepare", "src": "/etc/hostname"}]}},
        "check",
        "localhost has returned the facts poller_hooks, which are variables of this collection",
    ),
    "only webhooks": ({"poller_hooks": [], "poller_webhooks": [WEBHOOK]}, "check", "and 10-drain would be removed"),
    "no Python": (
        {"poller_python": "/usr/bin/pyhton3"},
        "check",
        "/usr/bin/pyhton3 does not run as Python on this host, expected the path of Python 3.6 or newer. Set poller",
    ),
    "another program": ({"poller_python": "/bin/echo"}, "check", "/bin/echo does not run as Python on this host"),
    "a hidden Python": (
        {"poller_python": "{{ home }}/python", "__poller_hidden": "{{ home }}/"},
        "check",
        "which the sandbox of the polling unit hides. Set poller_python",
    ),
    "metrics in a hidden directory itself": (
        {"poller_metrics_directory": "/home", "__poller_hidden": HOME},
        "check",
        "poller_metrics_directory /home: the sandbox of the polling unit hides it",
    ),
    "hidden metrics": (
        {"poller_metrics_directory": "/home/metrics", "__poller_hidden": HOME},
        "check",
        "poller_metrics_directory /home/metrics: the sandbox of the polling unit hides it",
    ),
    "a hidden ca": (
        {"poller_webhooks": [{**WEBHOOK, "ca_file": "/home/ca.pem"}], "__poller_hidden": HOME},
        "check",
        "ca_file of poller_webhooks: the sandbox of their delivery hides /home/ca.pem",
    ),
    "a missing src": (
        {"poller_hooks": [{"name": "10-drain", "phase": "prepare", "src": "missing"}]},
        "check",
        'src "missing" cannot be read, or is empty, expected a file on the control node',
    ),
    # With what the role itself names as hidden.
    **{
        f"hidden metrics under another name, {path}": (
            {"poller_metrics_directory": path, "__poller_hidden": HIDDEN},
            "check",
            f"poller_metrics_directory {path}: the sandbox of the polling unit hides it",
        )
        for path in ("//tmp/metrics", "/var/lib/../../tmp/metrics")
    },
}
ACCEPTED = {
    "all": {
        "poller_webhooks": [WEBHOOK],
        "poller_interval": "2",
        "scheduled_events_endpoint": "http://127.0.0.1:9",
    },
    "removal": {"poller_hooks": [], "poller_remove_prepare_hooks": "yes"},
}


def attempt(case, variables, file="check"):
    """Tasks that record why the role refuses the variables, or what it is going to install."""
    outcomes = {"rescue": "ansible_failed_result.msg", "block": "__poller_plan"}
    record = {
        part: {
            "set_fact": {"found": f"{{{{ found | combine({{case: {outcome}}}) }}}}"},
            "vars": {"case": case},
            "no_log": True,
        }
        for part, outcome in outcomes.items()
    }
    visible = {"__poller_hidden": "/nothing/"}  # this checkout can be in a home
    role = {"include_role": {"name": ROLE, "tasks_from": file}, "vars": {**visible, **variables}}
    return {"block": [role, record["block"]], "rescue": [record["rescue"]]}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with what the role reads. One above it has the name of a package, as that of a checkout can have."""
    place = tmp_path_factory.mktemp("program") / "_scheduled_events"
    for name in ("galaxy.yml", "meta", "plugins", "roles/poller"):
        target = place / "ansible_collections" / "maintops" / "scheduled_events" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, target)
    return place


@pytest.fixture(scope="module")
def run(place):
    """Try all of it; returns the output, and what was found, by name: why it is refused, or what will be installed."""
    hooks = place / "hooks"
    for path in ("managed-1/prepare.d/10-drain", "managed-1/prepare.d/0-webhooks", "prepare.d/50-by-hand"):
        (hooks / path).parent.mkdir(parents=True, exist_ok=True)
        (hooks / path).write_text("#!/bin/sh\n")
    (hooks / "managed").symlink_to("managed-1")
    (place / "home").mkdir()
    (place / "home" / "python").symlink_to(sys.executable)
    tasks = [{"set_fact": {"found": {}}}]
    tasks += [attempt(name, variables, file) for name, (variables, file, _message) in CASES.items()]
    tasks += [attempt(name, variables) for name, variables in ACCEPTED.items()]
    written = {"content": "{{ found | to_json }}", "dest": f"{place}/found.json", "mode": "0600"}
    tasks += [{"copy": written, "no_log": True}]
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (place / "play.yml").write_text(json.dumps([play]))
    inventory = {
        "ansible_python_interpreter": sys.executable,
        "poller_python": sys.executable,
        "poller_hooks": [DRAIN],
        "home": str(place / "home"),
    }
    (place / "inventory.json").write_text(json.dumps({"all": {"hosts": {"localhost": inventory}}}))
    collection = place / "ansible_collections"
    before = sorted(collection.rglob("*"))
    done = subprocess.run(
        [
            *(
                pathlib.Path(sys.executable).with_name("ansible-playbook"),
                "-i",
                place / "inventory.json",
                "-vvv",
                "--diff",
            ),
            *("-e", f"__poller_hooks={hooks}", place / "play.yml"),
        ],
        env={
            **os.environ,
            "ANSIBLE_LOCAL_TEMP": str(place / "local"),
            "ANSIBLE_COLLECTIONS_PATH": str(place),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=place,  # away from an ansible.cfg
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(collection.rglob("*")) == before  # a collection may be installed read-only
    return done.stdout, json.loads((place / "found.json").read_text())


def look(python):
    """What the role reads from an interpreter."""
    tasks = yaml.safe_load((ROOT / "roles/poller/tasks/python.yml").read_text(encoding="utf-8"))
    (code,) = (task["vars"]["__poller_look_code"] for task in tasks if "vars" in task)
    return json.loads(subprocess.check_output([str(python), "-I", "-c", code]))


OWN = next(filter(os.path.exists, ("/usr/libexec/platform-python", "/usr/bin/python3", sys.executable)))


def test_the_python_of_the_distribution_has_the_name_that_outlasts_its_upgrade():
    # Ansible discovers such as /usr/bin/python3.11, which the next release of the distribution does not have.
    found = [look(python)["lasting"] for python in (os.path.realpath(OWN), sys.executable)]
    assert found == [OWN, sys.executable]


@pytest.mark.parametrize(
    ("manager", "minor", "package"),
    [
        ("dnf", 9, "python39-requests"),
        ("dnf", 11, "python3.11-requests"),
        ("zypper", 11, "python311-requests"),
    ],
)
def test_the_package_of_requests_has_the_name_that_the_distribution_gives_it(manager, minor, package):
    known = yaml.safe_load((ROOT / "roles/poller/vars/main.yml").read_text())["__poller_requests_packages"]
    name = jinja2.Template(known[manager]).render(__poller_python_facts={"minor": minor})
    assert name.format(3, minor) == package


@pytest.mark.parametrize("sees", [True, False])
def test_a_virtual_environment_takes_the_distributions_package_where_it_sees_it(tmp_path, sees):
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.symlink_to(OWN)
    home = os.path.dirname(os.path.realpath(OWN))
    (tmp_path / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = {str(sees).lower()}\n")
    found = look(python)
    assert found["is_the_distributions"] == (sees and look(OWN)["is_the_distributions"])
    assert found["lasting"] == str(python)


@pytest.mark.parametrize("name", CASES)
def test_what_cannot_be_installed_is_refused_with_a_message(run, name):
    assert CASES[name][2] in run[1][name]


def test_no_secret_is_in_the_output(run):
    assert "poller_webhooks.token" in run[0]
    assert SECRET not in run[0]


def test_the_settings_are_typed_and_whole(run):
    config = run[1]["all"]["config"]
    assert (config["interval"], config["dry_run"], config["hooks"]) == (2.0, False, {"prepare": ["10-drain"]})
    assert set(config) == set(Settings._fields)
    assert config["endpoint"] == "http://127.0.0.1:9"
    assert run[1]["all"]["webhooks"][0]["request_timeout"] == 10.0
    assert "prepare.d/0-webhooks" in run[1]["all"]["hooks"]


def test_the_prepare_hooks_are_removed_on_request(run):
    assert run[1]["removal"]["hooks"] == []
