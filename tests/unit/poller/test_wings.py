# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The borders between the packages of the polling unit, in the source and in processes that run."""

import ast
import os
import subprocess
import sys

import pytest
import scheduled_events_poller
from hook_units import HookUnits
from polling_unit import COMMAND, until

PACKAGE = os.path.dirname(scheduled_events_poller.__file__)
WINGS = ("unit", "root", "notify", "command")

# What a package may import of another one, besides the modules at the top, which import none of them. Between unit and
# root is the border of privileges.
DOORS = {
    "": set(),
    "unit": set(),
    "root": set(),
    "notify": set(),
    "command": {
        "unit.config",
        "unit.control",
        "unit.effects",
        "unit.instance",
        "unit.poller",
        "unit.status",
        "unit.endpoint_resolver",
        "unit.display",
        "root.runner",
        "notify.delivery_status",
        "notify.settings",
    },
}


def modules():
    """Each module of the package: its wing, empty at the top, and its source."""
    for directory, _directories, names in os.walk(PACKAGE):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    yield os.path.relpath(directory, PACKAGE).replace(".", ""), file.read()


def imported(wing, source):
    """The modules of other wings that a module imports, also in a function; those at the top are left out."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("scheduled_events_poller")}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module.startswith("scheduled_events_poller"):
            found.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.level == (2 if wing else 1):
            base = node.module or ""
            names = [f"{base}.{alias.name}".strip(".") for alias in node.names]
            found |= {base} if "." in base else {name for name in names if name.split(".")[0] in WINGS}
        elif isinstance(node, ast.Name) and node.id in ("__import__", "importlib"):
            found.add(node.id)
    return found


@pytest.mark.parametrize(
    ("wing", "source", "found"),
    [
        ("unit", "from ..root.dispatcher import Dispatcher", {"root.dispatcher"}),
        ("unit", "from ..root import dispatcher, jobs", {"root.dispatcher", "root.jobs"}),
        ("unit", "from .. import root, spool", {"root"}),
        ("unit", "def f():\n    from ..root import runner as r", {"root.runner"}),
        ("unit", "if TYPE_CHECKING:\n    from ..notify.messages import MessageSpool", {"notify.messages"}),
        ("unit", "import scheduled_events_poller.root.jobs", {"scheduled_events_poller.root.jobs"}),
        ("unit", "from scheduled_events_poller.root import jobs", {"scheduled_events_poller.root"}),
        ("unit", "importlib.import_module(name)", {"importlib"}),
        ("", "from .notify import job", {"notify.job"}),
        ("", "from . import spool, notify", {"notify"}),
        (
            "unit",
            "from . import hooks\nfrom .config import load\nfrom ..spool import Job\nfrom .. import systemd",
            set(),
        ),
    ],
)
def test_an_import_across_a_border_is_found(wing, source, found):
    assert imported(wing, source) == found


def test_no_package_imports_more_of_another_one_than_its_doors():
    found = {wing: set() for wing in DOORS}
    for wing, source in modules():
        found[wing] |= imported(wing, source)
    assert found == DOORS


# Runs a command in this process, and prints at the end what it has imported of the unit, and its other requirements.
LIST_MODULES = """
import atexit, runpy, sys
wanted = lambda name: name.startswith("scheduled_events_poller.") or name == "requests"
atexit.register(lambda: print("imported:", *filter(wanted, sorted(sys.modules))))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def wings_of(output):
    """The wings and modules that a command has listed at its end."""
    (line,) = [line.split() for line in output.splitlines() if line.startswith("imported: ")]
    names = [name[len("scheduled_events_poller.") :] if "." in name else name for name in line[1:]]
    return {name.split(".")[0] for name in names if name not in ("spool", "systemd")}, names


def listed(*arguments):
    done = subprocess.run(
        [sys.executable, "-IS", "-c", LIST_MODULES, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return wings_of(done.stdout.decode())


def test_a_unit_without_webhooks_and_controller_imports_nothing_of_them_nor_of_root(unit, imds):
    unit.arguments[1:1] = ["-c", LIST_MODULES]
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, "true")
    unit.start(separately=True)
    imds.announce()
    unit.await_acknowledgement()
    imds.events = []
    until(lambda: ": over\n" in unit.log(), "the end")
    unit.process.terminate()
    assert unit.process.wait() == 0
    wings, names = wings_of(unit.log())
    assert wings == {"command", "unit", "requests"}
    assert "unit.poller" in names


@pytest.mark.parametrize("command", ["dispatch", "run", "ended"])
def test_the_root_side_imports_only_its_own_package(root_side, tmp_path, monkeypatch, command):
    monkeypatch.setenv("PATH", HookUnits(root_side.command, tmp_path).path)
    root_side.add_hook()
    if command == "dispatch":
        root_side.leave()
        run = []
    else:
        root_side.accept()
        run = [root_side.run_id]
    _python, _options, *program = root_side.command
    wings, names = listed(*program, command, *run)
    assert wings == {"root"}
    assert ("root.dispatcher" if command == "dispatch" else "root.runner") in names


@pytest.mark.parametrize(("directory", "more"), [("missing", set()), ("webhooks", {"notify"})])
def test_the_status_imports_webhooks_where_they_are_installed(tmp_path, directory, more):
    (tmp_path / "webhooks").mkdir()
    places = [f"--runtime-directory={tmp_path}", f"--webhooks-runtime-directory={tmp_path / directory}"]
    wings, _names = listed(COMMAND, *places, "status")
    assert wings - {"requests"} == {"command", "unit", "root"} | more  # which looks at the hooks
