# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands in the pages name programs, playbooks, options and units that this collection has."""

import functools
import re

import pytest
import yaml
from code_blocks import ROOT, blocks, commands, lines, words
from scheduled_events_emulator import cli as emulator_cli
from scheduled_events_poller import cli as poller_cli

COLLECTION = "maintops.scheduled_events."
# What a reader puts a value of their own for.
PLACEHOLDERS = {"PHASE": "prepare", "ID": "C7061BAC"}
# Programs of others.
OTHERS = [".", "ansible-builder", "apt-get", "cat", "cd", "curl", "echo", "mkdir", "pip", "python3", "rm"]


@functools.lru_cache(maxsize=None)
def options_of_roles():
    specs = [yaml.safe_load(path.read_text()) for path in ROOT.glob("roles/*/meta/argument_specs.yml")]
    return {name for spec in specs for name in spec["argument_specs"]["main"]["options"]}


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
    own = [word for word in arguments if word.startswith("scheduled-events")]
    assert all(word in units or f"{word}.service" in units for word in own), own


def check_extra_vars(arguments):
    names = {word.partition("=")[0] for word in arguments if "=" in word} - {"name"}
    assert names <= options_of_roles(), names - options_of_roles()


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
    return command[0].rpartition("/")[2]


def own_commands():
    """The commands that can be checked, each once."""
    found = {" ".join(command): (page, command) for page, command in commands() if command}
    return {name: command for name, (_page, command) in found.items() if program(command) in CHECKS}


def test_every_program_in_a_block_for_a_shell_is_known():
    used = {program(words(line)) for block in blocks("sh", "console") for line in lines(block) if words(line)}
    assert used - set(CHECKS) <= set(OTHERS)


@pytest.mark.parametrize("command", own_commands().values(), ids=own_commands())
def test_a_command_of_a_page_is_one_of_this_collection(command):
    CHECKS[program(command)](command[1:])


@pytest.mark.parametrize(
    "command",
    [
        ["scheduled-events", "aprove", "ID"],
        ["scheduled-events-emulator", "schedule", "Reboot", "web1", "--notce", "900"],
        ["ansible-playbook", "maintops.scheduled_events.nothing"],
        ["ansible-rulebook", "--rulebook", "maintops.scheduled_events.nothing"],
        ["ansible-doc", "maintops.scheduled_events.nothing"],
        ["ansible-playbook", "a.yml", "-e", "poller_nothing=1"],
        ["journalctl", "-u", "scheduled-events-nothing"],
        ["make", "nothing"],
    ],
    ids=" ".join,
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises((AssertionError, SystemExit)):
        CHECKS[program(command)](command[1:])
