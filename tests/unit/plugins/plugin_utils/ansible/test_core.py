# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The private names of ansible-core, with the objects of the ansible-core that is installed."""

import ast
import pathlib
import subprocess
import sys
import types

import pytest
from ansible import template
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import connection_loader, shell_loader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from plugins.module_utils._scheduled_events.checks import WrongValue
from plugins.plugin_utils._ansible import core

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("collections")]

PLUGINS = pathlib.Path(__file__).parents[5] / "plugins"
# What ActionBase gives to action plugins.
OF_ACTIONS = {
    "_connection",
    "_execute_module",
    "_find_needle",
    "_loader",
    "_play_context",
    "_remove_tmp_path",
    "_shared_loader_obj",
    "_supports_async",
    "_supports_check_mode",
    "_task",
    "_templar",
}


@pytest.fixture
def manager(tmp_path):
    (tmp_path / "hosts").write_text("web1 place=one\nweb2 place=two\n")
    loader = DataLoader()
    return VariableManager(loader, InventoryManager(loader, [str(tmp_path / "hosts")]))


@pytest.fixture
def play(manager):
    tasks = [{"block": [{"ansible.builtin.debug": {}}, {"meta": "noop"}, {"include_tasks": "more.yml"}]}]
    handlers = [{"name": name, "ansible.builtin.debug": {}} for name in ("Restart", "Reload")]
    given = {"hosts": "all", "gather_facts": False, "vars": {"of_play": 1}, "tasks": tasks, "handlers": handlers}
    return Play.load(given, variable_manager=manager, loader=manager._loader)


@pytest.fixture
def tasks(play):
    return play.tasks[0].block


@pytest.fixture
def connection():
    return connection_loader.get("local", PlayContext(), "/dev/null")


def test_plays_and_tasks_have_identities(manager, play, tasks):
    assert core.play_id(tasks[0]) == core.play_id(tasks[1])
    other = Play.load({"hosts": "all", "tasks": [{"debug": {}}]}, variable_manager=manager, loader=manager._loader)
    assert core.play_id(other.tasks[0].block[0]) != core.play_id(tasks[0])
    assert len({core.task_id(task) for task in tasks}) == len(tasks)
    assert play.tasks


def test_a_copy_of_a_task_is_in_the_same_block(tasks):
    copy = core.copy_beside(tasks[0])
    assert copy is not tasks[0]
    assert copy._parent is tasks[0]._parent
    assert tasks[0] in copy._parent.block


def test_meta_and_inclusions_are_known_under_each_name(tasks):
    assert [core.runs_nothing(task) for task in tasks] == [False, True, False]
    assert [core.includes_tasks(task) for task in tasks] == [False, False, True]
    assert core.includes_tasks(types.SimpleNamespace(action="ansible.builtin.include_tasks"))
    for action, expected in (("include_role", True), ("ansible.builtin.include_role", True), ("import_role", False)):
        assert core.includes_role(types.SimpleNamespace(action=action)) is expected
    assert core.runs_nothing(types.SimpleNamespace(action="ansible.builtin.meta"))


def test_handlers_that_are_notified_are_flushed_again_and_no_more_often_than_there_are(manager, play, tasks):
    assert core.flushed(tasks[0], "web1", 0) == {"flushes": 0}
    play.handlers[0].block[1].notify_host(manager._inventory.get_host("web1"))
    assert [core.flushed(tasks[0], "web1", before) for before in (0, 1)] == [{"flushes": 1}, {"flushes": 2}]
    message = "handlers notify each other without an end: Reload is notified again. Remove a notify"
    assert core.flushed(tasks[0], "web1", 2) == {"failed": True, "msg": message, "flushes": 0}
    assert core.flushed(tasks[0], "web2", 2) == {"flushes": 0}


def test_what_a_template_omits_has_no_value(manager, play):
    variables = manager.get_vars(play=play, host=manager._inventory.get_host("web1"))
    trusted = getattr(template, "trust_as_template", str)
    raw = {"name": trusted("{{ nowhere | default(omit) }}"), "place": trusted("{{ place }}"), "none": None}
    templar = template.Templar(loader=manager._loader, variables=variables)
    assert core.rendered(templar.template, raw, variables.get("omit")) == {"place": "one", "none": None}


def test_a_connection_has_a_shell_and_its_temporary_directory(connection):
    assert core.name_of(connection) == "local"
    assert core.name_of(core.shell_of(connection)) == "sh"
    assert not core.is_windows(connection)
    core.shell_of(connection).tmpdir = "made"
    assert core.temporary_directory(connection) == "made"
    core.forget_temporary_directory(connection)
    assert core.temporary_directory(connection) is None


def test_the_process_that_starts_workers_loads_filters_and_tests_with_the_action():
    program = (
        "import sys; from ansible.plugins.loader import init_plugin_loader; init_plugin_loader(); "
        "import plugins.action.scheduled_events_turn; "
        "names = [name for name in sys.modules if 'core' in name.rpartition('.')[2]]; "  # with a number
        "print([kind for kind in ('filter', 'test') if any(f'ansible.plugins.{kind}.' in name for name in names)])"
    )
    command = [sys.executable, "-c", program]
    shown = subprocess.run(command, cwd=PLUGINS.parent, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "['filter', 'test']"


def test_powershell_is_windows():
    assert core.is_windows(types.SimpleNamespace(_shell=shell_loader.get("powershell")))


def test_another_host_has_its_own_variables_and_those_of_the_play(manager, tasks):
    hostvars = HostVars(manager._inventory, manager, manager._loader)
    found = core.variables_of("web2", hostvars, tasks[0])
    assert (found["place"], found["of_play"], found["inventory_hostname"]) == ("two", 1, "web2")
    assert core.variables_of("web3", hostvars, tasks[0]) is None


def accessed(tree):
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith("_")}


def defined(tree):
    """The names that the code gives to attributes, methods and functions itself."""
    names = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stored = (ast.Store, ast.Del)
    names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, stored)}
    return names | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, stored)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("self", "cls")
    }


def test_no_other_file_has_a_private_name_of_ansible_core():
    places = [*PLUGINS.glob("action/*.py"), *PLUGINS.glob("filter/*.py"), *PLUGINS.glob("plugin_utils/*/*.py")]
    trees = {place: ast.parse(place.read_text()) for place in places}
    ours = set().union(*(defined(tree) for tree in trees.values())) | {"_asdict", "_fields", "_replace", "_exit"}
    of_core = accessed(trees[PLUGINS / "plugin_utils" / "_ansible" / "core.py"]) - ours
    assert {"_uuid", "_parent", "_shell", "_load_name", "_variable_manager"} <= of_core
    others = {
        place.name: {name for name in accessed(tree) if not name.startswith("__")} - ours - OF_ACTIONS
        for place, tree in trees.items()
        if place.name != "core.py"
    }
    assert {name: found for name, found in others.items() if found} == {}


@pytest.mark.parametrize("name", ["report_html", "poller_hooks", "respond_prepare_tasks", "__load_balancer_resume"])
def test_a_fact_that_is_a_variable_of_this_collection_is_refused(name):
    with pytest.raises(AnsibleActionFail, match=f"^web1 has returned the facts {name}, which are"):
        core.refuse_variables_of_host({"inventory_hostname": "web1", "ansible_facts": {name: 1, "python": {}}})


@pytest.mark.parametrize(
    "facts", [None, {}, {"python": {}, "scheduled_events_vm_name": "vm1", "my_report_html": 1, "report_id": 7}]
)
def test_other_facts_are_none_of_its_variables(facts):
    core.refuse_variables_of_host({"inventory_hostname": "web1", "ansible_facts": facts, "report_html": "a"})


def test_texts_in_lists_have_no_blanks_around_them_as_a_survey_gives_them():
    texts = {"type": "list", "elements": "str"}
    spec = {
        "names": texts,
        "ports": {"type": "list", "elements": "int"},
        "rules": {"type": "list", "elements": "dict", "options": {"types": texts}},
        "audit": {"type": "dict", "options": {"subscriptions": texts}},
        "free": {"type": "dict"},
        "empty": texts,
        "absent": texts,
    }
    given = {
        "names": "web1, web2",
        "ports": "80, 443",
        "rules": [{"types": ["Reboot ", "Freeze"]}],
        "audit": {"subscriptions": "one, two,"},
        "free": {"names": [" a "]},
        "empty": "",
    }
    action = types.SimpleNamespace(
        _task=types.SimpleNamespace(args=given),
        _templar=types.SimpleNamespace(available_variables={}),
        validate_argument_spec=lambda argument_spec: (
            None,
            ArgumentSpecValidator(argument_spec).validate(given).validated_parameters,
        ),
    )
    assert core.arguments_of(action, spec) == {
        "names": ["web1", "web2"],
        "ports": [80, 443],
        "rules": [{"types": ["Reboot", "Freeze"]}],
        "audit": {"subscriptions": ["one", "two"]},
        "free": {"names": [" a "]},
        "empty": [],
        "absent": None,
    }


@pytest.mark.parametrize(
    "name", ["poller_scheduled_events_vm_names", "poller_scheduled_events_vm_name", "poller_vm_name"]
)
def test_a_variable_of_all_roles_that_is_named_as_one_of_the_role_is_a_slip(name):
    problem = core.misspelled({name: "web_0"}, ["poller_hooks", "scheduled_events_vm_name"], "poller")
    assert problem.startswith(f"{name} has no effect, expected scheduled_events_vm_name. ")


@pytest.mark.parametrize(("slip", "option"), [("ruels", "rules"), ("windwos", "windows"), ("hokos", "hooks")])
def test_an_option_with_swapped_letters_is_a_slip(slip, option):
    problem = core.misspelled({f"poller_{slip}": []}, [f"poller_{option}", "poller_hook_timeout"], "poller")
    assert problem.startswith(f"poller_{slip} has no effect, expected poller_{option}. ")


@pytest.mark.parametrize(("name", "is_slip"), [("poller_acknowledgement", True), ("poller_acknowledge_by_hand", False)])
def test_a_longer_form_of_the_name_of_an_option_is_a_slip(name, is_slip):
    assert bool(core.misspelled({name: "never"}, ["poller_acknowledge"], "poller")) is is_slip


@pytest.mark.parametrize("name", ["event_types", "windows", "max_duration"])
def test_a_rule_with_an_option_without_a_value_is_refused_before_it_counts_for_every_event(name):
    with pytest.raises(
        WrongValue, match=rf"^x\[1\].{name}: expected a value, not null: give one, or remove the option"
    ):
        core.refuse_empty_options([{"action": "ignore"}, {"action": "approve", name: None}], "x")
    core.refuse_empty_options([{"action": "approve", "event_types": ["Freeze"]}], "x")


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ({"action": "hold", "windows": [{"days": None, "from": "22:00"}]}, "windows[0].days"),
        ({"action": "hold", "windows": ['{"days": null, "from": "22:00"}']}, "windows[0].days"),
        ({"action": "hold", "event_types": [None]}, "event_types[0]"),
        ('{"action": "hold", "event_types": null}', "event_types"),
        (None, ""),
    ],
)
def test_an_empty_value_within_a_rule_is_refused_also_in_a_text(rule, place):
    with pytest.raises(WrongValue) as refused:
        core.refuse_empty_options([rule], "x")
    assert str(refused.value).startswith(f"{'.'.join(filter(None, ['x[0]', place]))}: expected a value, not null")
