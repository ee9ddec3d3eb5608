# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each code block of the pages is run by a test or validated, or says on its page why it is not.

Commands, programs, plays and tasks: a test takes the text of the block with ``page_blocks.block``, and runs it. A mark
before the block, ``<!-- not run: … -->``, gives the reason for the others. Variables, JSON, cron lines and units are
validated here, and rulebooks in tests/eda/test_schemas.py. Text is output or a picture, and holds no commands.
"""

import ast
import re

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from code_blocks import data, is_play, is_rulebook, words
from page_blocks import ROOT, block, blocks
from page_commands import CHECKS, options_of_roles, program

MOST_MARKS = 10
LANGUAGES = ("sh", "console", "nginx", "python", "yaml", "cron", "text")
# Variables of something else than a role: page and first line, and the test that reads them.
RULEBOOKS = "tests/eda/test_rulebooks.py"
READ_BY = {
    "docs/from-event-driven-ansible.md: scheduled_events_endpoints": RULEBOOKS,
    "docs/from-event-driven-ansible.md: scheduled_events_token": RULEBOOKS,
    "docs/from-event-driven-ansible.md: scheduled_events_job_template": "tests/controllers/test_event_driven.py",
    "docs/from-outside.md: drools_db_file_path": "tests/controllers/test_from_outside.py",
    "docs/inventory-of-scale-sets.md: # shop.azure_rm.yml": "tests/unit/plugins/filter/test_inventory_hosts.py",
}
COMMANDS = {*CHECKS, "apt-get", "az", "cp", "git", "kubectl", "mkdir", "molecule", "pip", "pytest", "rm", "sudo"}


def calls_of_block():
    """The arguments of each call of ``block`` in the tests: what these take from the pages."""
    for place in ("tests", "extensions"):
        for path in sorted((ROOT / place).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "page_blocks" in text:
                for node in ast.walk(ast.parse(text)):
                    named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "block"
                    if named and isinstance(node.args[0], ast.Constant):
                        yield [ast.literal_eval(argument) for argument in node.args]


TAKEN = {(call[0], block(*call)) for call in calls_of_block()}


def is_run(each):
    """Whether a block is one that a reader runs."""
    if each.language == "yaml":
        return isinstance(data(each), list) and not all(map(is_rulebook, data(each)))
    return each.language in ("sh", "console", "nginx", "python")


TO_RUN = [each for each in blocks(None) if is_run(each)]


OPTIONS = options_of_roles()
PREFIXES = tuple({name.partition("_")[0] + "_" for name in OPTIONS} - {"load_", "controller_", "scheduled_"})
PREFIXES += ("load_balancer_", "controller_setup_")


def is_inventory(held):
    return isinstance(held, dict) and all(isinstance(group, dict) and "hosts" in group for group in held.values())


def setters(held):
    """The parts of a block that set variables."""
    if is_inventory(held):
        return [group.get("vars", {}) for group in held.values()]
    if isinstance(held, dict):
        return [held]
    plays = list(filter(is_play, held))
    return [play.get("vars", {}) for play in plays] + [
        role for play in plays for role in play.get("roles", []) if isinstance(role, dict)
    ]


def variables_of(each):
    """What a block sets for the roles."""
    given = [(name, value) for part in setters(data(each)) for name, value in part.items()]
    return {name: value for name, value in given if name.startswith(PREFIXES)}


SETTING = [each for each in blocks("yaml") if variables_of(each)]
OTHER_VARIABLES = [
    each
    for each in blocks("yaml")
    if isinstance(data(each), dict) and not is_inventory(data(each)) and not set(data(each)) <= set(OPTIONS)
]


@pytest.mark.parametrize("each", TO_RUN, ids=lambda each: each.name)
def test_a_test_runs_the_block_or_the_page_says_why_not(each):
    assert ((each.page, each.text) in TAKEN) != bool(each.reason)


def test_few_blocks_are_not_run():
    marked = [each for each in blocks(None) if each.reason]
    assert len(marked) <= MOST_MARKS
    assert [each.name for each in marked if not is_run(each)] == []
    assert len(TO_RUN) > 50


def test_a_block_is_in_a_language_that_is_checked():
    assert [each.name for each in blocks(None) if each.language not in LANGUAGES] == []


@pytest.mark.parametrize("each", blocks("text"), ids=lambda each: each.name)
def test_a_text_holds_no_commands(each):
    assert [line for line in each.text.splitlines() if line.startswith(("$ ", "# ")) or is_command(line)] == []


def is_command(line):
    first, _space, rest = line.partition(" ")
    return bool(re.match(r"[*\d]+ [*\d]+ [*\d]", line)) or (first in COMMANDS and not rest.startswith(" "))


@pytest.mark.parametrize("line", ["# ls", "ansible-playbook a.yml", "pip install a", "* * * * * a"])
def test_a_command_in_a_text_is_found(line):
    assert line.startswith("# ") or is_command(line)


@pytest.mark.parametrize("each", OTHER_VARIABLES, ids=lambda each: each.name)
def test_variables_that_are_no_options_of_a_role_are_read_by_a_test(each):
    (path,) = [path for start, path in READ_BY.items() if each.name.startswith(start)]
    assert re.search(r"|".join(data(each)), (ROOT / path).read_text())


@pytest.mark.parametrize("each", blocks("cron"), ids=lambda each: each.name)
def test_a_line_for_cron_runs_a_playbook_without_an_overlap(each):
    (line,) = each.text.splitlines()
    assert line.startswith("* * * * * ")
    found = words(line.replace("$HOME", "").partition(" >")[0])[5:]
    assert {"flock", "--nonblock"} <= set(found)
    (start,) = [number for number, word in enumerate(found) if program([word]) == "ansible-playbook"]
    CHECKS["ansible-playbook"](found[start + 1 :])


@pytest.mark.parametrize("each", SETTING, ids=lambda each: each.name)
def test_the_variables_of_a_block_are_options_of_a_role_with_values_that_it_takes(each):
    given = variables_of(each)
    assert set(given) <= set(OPTIONS)
    kinds = {name: OPTIONS[name].get("type", "str") for name in given}
    fixed = {name: value for name, value in given.items() if kinds[name] == "str" or "{{" not in str(value)[:3]}
    validated = ArgumentSpecValidator({name: OPTIONS[name] for name in fixed}).validate(fixed)
    assert validated.error_messages == []
