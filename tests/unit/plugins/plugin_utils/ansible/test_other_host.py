# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import signal
import time
import types

import pytest
from ansible import constants, template
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task

from plugins.plugin_utils._ansible import other_host
from plugins.plugin_utils._ansible.other_host import (
    HostVariables,
    OtherHost,
    OtherHostError,
    OtherHostUnreachable,
    bounded,
    failure_in,
)

pytestmark = pytest.mark.core


def test_no_fact_of_another_host_chooses_a_file_of_the_control_node(monkeypatch):
    found = {"inventory_hostname": "web2", "ansible_facts": {"rolling_maintenance_tasks": "/dev/zero"}}
    monkeypatch.setattr(other_host, "variables_of", lambda *_arguments: found)
    action = types.SimpleNamespace(_task=None)
    with pytest.raises(OtherHostError, match=r"^web2: web2 has returned the facts rolling_maintenance_tasks"):
        HostVariables(action, "web2", {"hostvars": {}})


def test_the_variables_of_another_host_keep_their_types_with_jinja2_native(monkeypatch):
    monkeypatch.setattr(constants, "DEFAULT_JINJA2_NATIVE", True, raising=False)  # an option before ansible-core 2.19
    trusted = getattr(template, "trust_as_template", str)
    found = {"vm_name": trusted("{{ given | default(none) }}"), "backends": trusted("{{ ['www'] }}")}
    monkeypatch.setattr(other_host, "variables_of", lambda *_arguments: found)
    loader = DataLoader()
    action = types.SimpleNamespace(_task=None, _loader=loader, _templar=template.Templar(loader=loader))
    variables = HostVariables(action, "web2", {"hostvars": {}})
    assert variables.of(found) == {"vm_name": None, "backends": ["www"]}


def test_an_omitted_variable_of_another_host_is_none_of_its_connection(monkeypatch):
    trusted = getattr(template, "trust_as_template", str)
    found = {"ansible_user": trusted("{{ login | default(omit) }}"), "ansible_port": trusted("{{ 2200 + 22 }}")}
    if trusted is str:  # before ansible-core 2.19
        found["omit"] = "__omit__"
    monkeypatch.setattr(other_host, "variables_of", lambda *_arguments: found)
    task = Task(block=Block(play=Play()))
    task.remote_user = "admin"
    action = types.SimpleNamespace(
        _task=task,
        _loader=DataLoader(),
        _templar=template.Templar(loader=DataLoader()),
        _play_context=PlayContext(),
    )
    context = OtherHost(action, "web2", {"hostvars": {}}, become=False)._play_context(task)
    assert (context.remote_user, int(context.port)) == ("admin", 2222)


def test_what_never_answers_is_given_up():
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"), bounded(0.05):
        time.sleep(3600)


def test_no_handler_on_the_way_keeps_it_from_being_given_up():
    def wait():
        try:
            time.sleep(3600)
        except Exception:
            time.sleep(3600)

    with pytest.raises(TimeoutError), bounded(0.05):
        wait()


@pytest.fixture
def no_alarm():
    """The alarm that ends a test which hangs is off meanwhile."""
    handler, (left, _interval) = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left)


@pytest.mark.usefixtures("no_alarm")
@pytest.mark.parametrize("error", [None, ValueError])
def test_what_answers_leaves_no_alarm_behind(error):
    before = signal.getsignal(signal.SIGALRM)
    try:
        with bounded(3600):
            if error:
                raise error
    except ValueError:
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.usefixtures("no_alarm")
def test_a_bound_within_another_one_neither_outlasts_nor_ends_it():
    def wait():
        with bounded(0.05):
            with bounded(0.04):
                pass
            with bounded(3600):
                time.sleep(7200)

    with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
        wait()
    with pytest.raises(TimeoutError, match=r"within 0\.05 s"), bounded(3600), bounded(0.05):
        time.sleep(7200)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"msg": "no such socket"}, "no such socket"),
        (
            {"msg": "non-zero return code", "stderr": "no such unit\n"},
            "non-zero return code (no such unit)",
        ),  # a command
        ({"msg": "MODULE FAILURE", "module_stderr": "ValueError: 7"}, "MODULE FAILURE (ValueError: 7)"),  # before 2.19
        (
            {"msg": "MODULE FAILURE", "module_stdout": "sudo: not found\r\n", "module_stderr": "Shared connection …\n"},
            "MODULE FAILURE (sudo: not found; Shared connection …)",
        ),  # over SSH
        ({"exception": types.SimpleNamespace(event=types.SimpleNamespace(msg="7"))}, "7"),  # since 2.19
        ({"exception": "Traceback …"}, "the module failed and gave no reason"),
    ],
)
def test_the_exception_that_ended_a_module_is_shown(result, shown):
    assert failure_in({"failed": True, **result}) == shown


class Answering(OtherHost):
    """A host whose modules return ``result``, or raise it. ``given``: their arguments."""

    def __init__(self, result, *, is_secret=False):
        self.name, self._result, self.given, self._is_secret = "web2", result, [], is_secret
        self._own = types.SimpleNamespace(_task=types.SimpleNamespace(timeout=0))
        self._action, self._task_vars = None, {"a": 1}

    def _connect(self):
        return types.SimpleNamespace(_execute_module=self._module)

    def _module(self, **given):
        self.given.append(given)
        if isinstance(self._result, Exception):
            raise self._result
        return self._result


def test_a_module_gets_its_arguments_and_the_variables_of_its_host():
    host = Answering({"changed": False})
    assert host.run("ns.name.ping", {"data": 1}, within=60) == {"changed": False}
    assert host.given == [
        {"module_name": "ns.name.ping", "module_args": {"data": 1}, "task_vars": {"a": 1}, "wrap_async": False}
    ]


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ({"unreachable": True, "msg": "no route"}, OtherHostUnreachable, "^web2 cannot be reached: no route$"),
        (AnsibleConnectionFailure("no route"), OtherHostUnreachable, "^web2 cannot be reached: no route$"),
        (TimeoutError("no answer within 60 s"), OtherHostUnreachable, "^web2 cannot be reached: no answer within"),
        ({"failed": True, "msg": "no Python"}, OtherHostError, "^web2: no Python$"),
        (AnsibleError("no become"), OtherHostError, "^web2: no become$"),
    ],
)
def test_a_host_that_is_not_reached_is_told_from_a_module_that_failed(result, error, message):
    with pytest.raises(OtherHostError, match=message) as caught:
        Answering(result).run("ns.name.ping", {}, within=60)
    assert caught.type is error


@pytest.mark.parametrize(
    ("is_secret", "shown"), [(False, r" \({\"token\": \"s3cret; killed\)"), (True, r" \(killed\)")]
)
def test_no_message_has_what_a_module_with_secrets_printed(is_secret, shown):
    cut = {"failed": True, "msg": "MODULE FAILURE", "module_stdout": '{"token": "s3cret', "module_stderr": "killed"}
    with pytest.raises(OtherHostError, match=f"^web2: MODULE FAILURE{shown}$"):
        Answering(cut, is_secret=is_secret).run("ns.name.token", {}, within=60)
