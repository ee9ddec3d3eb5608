# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of commands, by program: the playbooks, options and units that a command names must exist."""

import functools
import re

import pytest
import yaml
from page_blocks import ROOT
from scheduled_events_emulator import cli as emulator_cli
from scheduled_events_poller.command import cli as poller_cli

COLLECTION = "maintops.scheduled_events."
# Words that a reader replaces with a value.
PLACEHOLDERS = {"PHASE": "prepare", "ID": "C7061BAC", "NAME": "spot_eviction"}


@functools.cache
def options_of_roles():
    """The options of all roles by name, with the common variables that they default to."""
    specs = [yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))]
    options = {name: option for spec in specs for name, option in spec["argument_specs"]["main"]["options"].items()}
    defaults = {name: re.findall(r"\bscheduled_events_\w+", str(options[name].get("default"))) for name in options}
    return {**{common: options[name] for name, found in defaults.items() for common in found}, **options}


@functools.cache
def variables_of_playbooks():
    texts = [path.read_text() for path in ROOT.glob("playbooks/*.yml")]
    return {name for text in texts for name in re.findall(r"{{ (\w+_(?:hosts|types)|report_\w+) ", text)}


def check_parser(parser, arguments):
    given = [PLACEHOLDERS.get(word, word) for word in arguments if word != "&"]
    if len(given) == 1:  # a mention
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([*given, "--help"])
        assert ended.value.code == 0, given
    elif "VERB" not in given:
        parser.parse_args(given)


def check_emulator(arguments):
    check_parser(emulator_cli._parser(), arguments)


def check_unit_command(arguments):
    check_parser(poller_cli._parser(), arguments)


def check_playbook(arguments):
    named = [word for word in arguments if word.startswith(COLLECTION)]
    assert all((ROOT / "playbooks" / f"{word[len(COLLECTION) :]}.yml").exists() for word in named), named
    for index, word in enumerate(arguments):
        if word in ("-e", "--extra-vars"):
            check_extra_vars([arguments[index + 1]])
    names_hosts = [word for word in arguments if word in ("-l", "--limit") or "_hosts=" in word]
    assert names_hosts or f"{COLLECTION}controller_setup" in named or not named, "it does not name its hosts"


def check_rulebook(arguments):
    name = arguments[arguments.index("--rulebook") + 1]
    assert (ROOT / "extensions" / "eda" / "rulebooks" / f"{name[len(COLLECTION) :]}.yml").exists(), name


def check_plugin(arguments):
    for word in arguments:
        if word.startswith(COLLECTION):
            name = word[len(COLLECTION) :]
            assert list(ROOT.glob(f"plugins/*/{name}.py")) or (ROOT / "roles" / name).is_dir(), word


def check_make(arguments):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert arguments[0] in targets, arguments[0]


def check_unit(arguments):
    units = {path.name[: -len(".j2")] for path in ROOT.glob("roles/*/templates/*.j2")}
    own = [re.sub("@.*", "@", word) for word in arguments if word.startswith("scheduled-events")]
    assert all(word in units or f"{word}.service" in units for word in own), own


def check_extra_vars(arguments):
    names = {word.partition("=")[0] for word in arguments if "=" in word} - {"name"}
    unknown = names - options_of_roles().keys() - variables_of_playbooks()
    assert not unknown, unknown


def check_install(arguments):
    assert arguments[:2] == ["collection", "install"]


def check_controller_hook(arguments):
    assert arguments == ["--check"]


CHECKS = {
    "-e": check_extra_vars,
    "--extra-vars": check_extra_vars,
    "ansible": check_plugin,
    "ansible-doc": check_plugin,
    "ansible-galaxy": check_install,
    "ansible-playbook": check_playbook,
    "ansible-rulebook": check_rulebook,
    "journalctl": check_unit,
    "make": check_make,
    "scheduled-events": check_unit_command,
    "scheduled-events-controller": check_controller_hook,
    "scheduled-events-emulator": check_emulator,
    "systemctl": check_unit,
}


def program(command):
    return command[0].rpartition("/")[2] if command else ""
