# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each code block of the pages is checked, or has a reason here why it is not.

Playbooks and tasks: tests/integration/guides/test_playbooks.py. Rulebooks: tests/eda/test_schemas.py. The words of
commands: test_commands.py. Variables, JSON and Python: here. A block with anything else names a test here, or a reason.
"""

import json

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from code_blocks import ROOT, blocks, is_play, lines, words
from page_commands import CHECKS, options_of_roles, program

FIRST_STEPS = "tests/integration/guides/test_first_steps.py"
RULEBOOKS = "tests/eda/test_rulebooks.py"
INSTALL = "tests/controllers/test_controller_setup.py::test_a_second_run_changes_nothing"
ON_SOURCE = f"{RULEBOOKS}::test_an_event_of_two_vms_that_both_report_it_is_acknowledged_once"
ON_WEBHOOK = f"{RULEBOOKS}::test_an_event_that_two_polling_units_report_is_acknowledged_once"
LAUNCH = "tests/controllers/test_event_driven.py::test_an_event_that_two_endpoints_report_launches_one_job_on_its_hosts"
IMAGE = "tests/controllers/test_execution_environment.py"
COMMANDS = "tests/unit/poller/command/test_commands.py"

# Page and first line of a block: the test that runs it, or what it shows.
TESTED = {
    "docs/start-in-five-minutes.md: PATH=": f"{FIRST_STEPS}::test_the_guide_leads_to_an_acknowledged_event",
    "docs/start-in-five-minutes.md: mkdir ": f"{FIRST_STEPS}::test_the_guide_leads_to_an_acknowledged_event",
    "docs/start-in-five-minutes.md: scheduled-": f"{FIRST_STEPS}::test_the_guide_leads_to_an_acknowledged_event",
    "docs/behind-haproxy.md: sudo apt-get": (
        f"{FIRST_STEPS}::test_the_page_about_haproxy_drains_and_returns_a_web_server"
    ),
    "docs/5000-vms-on-awx.md: mkdir": (
        f"{FIRST_STEPS}::test_the_page_about_5000_vms_drains_the_vms_of_an_event_and_acknowledges_once"
    ),
    "docs/gate-a-rolling-patch.md: echo": (
        f"{FIRST_STEPS}::test_the_page_about_a_gate_skips_a_host_with_an_event_and_patches_it_later"
    ),
    "docs/from-awx-and-aap.md: cd execution-environment": (
        f"{IMAGE}::test_ansible_builder_makes_a_context_with_the_collections_to_install"
    ),
    "docs/from-awx-and-aap.md: ansible-galaxy ": INSTALL,
    "docs/jobs-of-a-controller.md: aap_organizations:": (
        "tests/controllers/test_guide.py::test_the_variables_of_infra_aap_configuration_say_the_same_as_the_role"
    ),
    "roles/controller_setup/README.md: ansible-galaxy ": INSTALL,
    "docs/from-event-driven-ansible.md: ansible-rulebook --rulebook maintops.scheduled_events.respond_on_s": ON_SOURCE,
    "docs/from-event-driven-ansible.md: ansible-rulebook --rulebook maintops.scheduled_events.respond_on_w": ON_WEBHOOK,
    "docs/from-event-driven-ansible.md: scheduled_events_endpoints": ON_SOURCE,
    "docs/from-event-driven-ansible.md: scheduled_events_token": ON_WEBHOOK,
    "docs/inventory-of-scale-sets.md: # shop.azure_rm.yml": (
        "tests/unit/plugins/filter/test_inventory_hosts.py::test_the_recipe_of_the_guide_names_hosts_as_events_do"
    ),
    "docs/from-event-driven-ansible.md: scheduled_events_job_template": LAUNCH,
    "docs/from-event-driven-ansible.md: export EDA_CONTROLLER_TOKEN": LAUNCH,
    "docs/polling-unit.md: # cat event.json": f"{COMMANDS}::test_hooks_test_runs_the_hooks_of_a_phase",
    "docs/from-awx-and-aap.md: # /usr/local/lib/": (
        "tests/unit/poller/notify/test_controller_hook.py::test_the_check_shows_whether_a_job_could_be_launched_and_launches_none"
    ),
    "docs/operate-the-polling-unit.md: $ scheduled-events status": (
        f"{COMMANDS}::test_status_shows_what_it_does_with_an_exit_code"
    ),
    "roles/emulator/README.md: $ cat fleet.json": (
        "tests/integration/guides/test_emulator_readme.py::test_the_commands_of_the_readme_show_a_redeploy"
    ),
}
NOT_TESTED = {
    "docs/test-your-own-tasks.md: cp -r ": (
        "copies; tests/integration/guides/test_tests_of_users.py copies the same from the checkout, and runs it"
    ),
    "docs/overview.md: ansible-playbook maintops.scheduled_events.install_poller": (
        "needs hosts with systemd: extensions/molecule/poller/converge.yml does the same"
    ),
    "README.md: git clone": "needs the repository; the tests install the collection from its tarball",
    "README.md: make demo": "make test would run itself",
    "docs/from-event-driven-ansible.md: sudo apt-get": "installs; noxfile.py installs the same for tests/eda",
    "docs/polling-unit.md: location = /health {": "configures a web server of the reader",
    "docs/windows-vms.md: windows_web:": (
        "needs a Windows host: tests/integration/windows/test_respond_stand_in.py sets the same for stand-ins"
    ),
    "docs/windows-behind-a-gateway.md: sudo apt-get": "installs, and asks the user for a password",
    "docs/start-in-five-minutes.md: sudo apt-get": "installs; the blocks after it run in the environment of the tests",
}


def described(block):
    """The entries of the tables for a block: the test, or the reason."""
    return [entry for table in (TESTED, NOT_TESTED) for start, entry in table.items() if block.name.startswith(start)]


OPTIONS = options_of_roles()
PREFIXES = tuple({name.partition("_")[0] + "_" for name in OPTIONS} - {"load_", "controller_", "scheduled_"})
PREFIXES += ("load_balancer_", "controller_setup_")


def is_inventory(data):
    return isinstance(data, dict) and all(isinstance(group, dict) and "hosts" in group for group in data.values())


def setters(data):
    """The parts of a block that set variables."""
    if is_inventory(data):
        return [group.get("vars", {}) for group in data.values()]
    if isinstance(data, dict):
        return [data]
    plays = list(filter(is_play, data))
    return [play.get("vars", {}) for play in plays] + [
        role for play in plays for role in play.get("roles", []) if isinstance(role, dict)
    ]


def variables_of(block):
    """What a block sets for the roles."""
    given = [(name, value) for part in setters(block.data) for name, value in part.items()]
    return {name: value for name, value in given if name.startswith(PREFIXES)}


def checks_itself(block):
    """Whether all that a block holds is checked, here or by the tests that the head of this file names."""
    if block.language == "yaml":
        return isinstance(block.data, list) or is_inventory(block.data) or set(block.data) <= set(OPTIONS)
    programs = {program(words(line)) for line in lines(block)} if block.language in ("sh", "console") else set()
    programs -= {"", "rm", "sleep"}
    return bool(programs) and programs <= set(CHECKS)


OTHER_THAN_DATA = blocks("yaml", "sh", "console", "nginx")
TO_DESCRIBE = [block for block in OTHER_THAN_DATA if not checks_itself(block)]
SETTING = [block for block in blocks("yaml") if variables_of(block)]


@pytest.mark.parametrize("block", TO_DESCRIBE, ids=lambda block: block.name)
def test_a_block_names_the_test_that_runs_it_or_has_a_reason(block):
    (entry,) = described(block)
    path, _colons, name = entry.partition("::")
    assert not name or f"def {name}(" in (ROOT / path).read_text()


def test_every_entry_of_the_tables_is_about_a_block():
    starts = [*TESTED, *NOT_TESTED]
    assert [start for start in starts if not any(block.name.startswith(start) for block in OTHER_THAN_DATA)] == []


def test_a_block_is_in_a_language_that_is_checked():
    known = ("yaml", "json", "python", "sh", "console", "nginx", "text")
    assert len(blocks(*known)) == len(blocks(None))


@pytest.mark.parametrize("block", SETTING, ids=lambda block: block.name)
def test_the_variables_of_a_block_are_options_of_a_role_with_values_that_it_takes(block):
    given = variables_of(block)
    assert set(given) <= set(OPTIONS)
    kinds = {name: OPTIONS[name].get("type", "str") for name in given}
    fixed = {name: value for name, value in given.items() if kinds[name] == "str" or "{{" not in str(value)[:3]}
    validated = ArgumentSpecValidator({name: OPTIONS[name] for name in fixed}).validate(fixed)
    assert validated.error_messages == []


@pytest.mark.parametrize("block", blocks("json"), ids=lambda block: block.name)
def test_a_json_block_is_json(block):
    assert json.loads(block.text)


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.name)
def test_a_python_block_compiles(block):
    assert compile(block.text, block.page, "exec")
