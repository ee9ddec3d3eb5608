# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role poller: what is converted, and what is refused in which words, by its specification or by the
program."""

import json
import pathlib
import re
import subprocess

import pytest
import yaml
from _scheduled_events.checks import WrongValue
from _scheduled_events.rules import Rule
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from scheduled_events_poller.command import commands
from scheduled_events_poller.notify import delivery_status
from scheduled_events_poller.unit import config

from plugins.plugin_utils._poller import options as role_options

ROLE = pathlib.Path(__file__).parents[5] / "roles" / "poller"
SPECS = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
DRAIN = {"name": "10-drain", "phase": "prepare", "content": "#!/bin/sh\nexit 0\n"}
OF_ALL_ROLES = ("endpoint", "api_version", "vm_name")
SECRET = "s3cr3t"


def check_settings(settings):
    """As the program does it that the role runs."""
    try:
        commands.check_settings(json.loads(json.dumps(settings)))
    except WrongValue as error:
        return str(error)
    return ""


def check(hooks=(), sources=None, controller=None, webhooks=(), python="/usr/bin/python3", **options):
    def read_source(name):
        if name not in (sources or {}):
            raise FileNotFoundError
        return sources[name]

    given = {"hooks": hooks, "controller": controller, "webhooks": webhooks}
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    values = {
        f"{'scheduled_events' if name in OF_ALL_ROLES else 'poller'}_{name}": value
        for name, value in {**given, **options}.items()
    }
    return role_options.plan(SPECS, values, python=python, read_source=read_source, check_settings=check_settings)


def content_of(hook, sources=None):
    (hooks,) = check([hook], sources).hooks.values()
    (content,) = hooks.values()
    return content


def test_the_configuration_names_the_hooks_of_each_phase():
    hooks = [
        {**DRAIN, "name": name, "phase": phase} for name, phase in [("b", "prepare"), ("a", "prepare"), ("c", "failed")]
    ]
    assert check(hooks).config["hooks"] == {"prepare": ["b", "a"], "failed": ["c"]}


def test_networks_of_a_survey_are_separated_by_commas():
    given = {"endpoint": "auto", "endpoint_networks": "10.0.0.0/8, 127.0.0.1"}
    networks = config.parse(check(**given).config).endpoint_networks
    assert networks == ("10.0.0.0/8", "127.0.0.1/32")


def test_every_option_of_the_configuration_is_one_of_the_role():
    assert set(check().config) == set(config.Settings._fields)


def test_the_defaults_of_the_role_are_those_of_the_unit():
    assert config.parse(check().config) == config.Settings()


def test_texts_as_surveys_send_them_are_converted():
    rules = [{"action": "approve", "event_types": "Freeze, Reboot", "max_duration": "8", "min_duration": 0}]
    converted = check(interval="2", hook_timeout=" 60 ", margin="0.5", dry_run="Yes", rules=rules).config
    assert (converted["interval"], converted["hook_timeout"], converted["margin"]) == (2.0, 60.0, 0.5)
    assert converted["dry_run"] is True
    rule = Rule("approve", event_types=("Freeze", "Reboot"), max_duration=8, min_duration=0)
    assert config.parse(converted).rules == (rule,)


@pytest.mark.parametrize(("value", "meant"), [(0, False), (1, True), ("false", False), ("on", True), (False, False)])
def test_a_flag_is_what_ansible_takes_it_for(value, meant):
    assert check(dry_run=value).config["dry_run"] is meant


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_name_and_directory_are_none(empty):
    converted = check(vm_name=empty, metrics_directory=empty).config
    assert (converted["vm_name"], converted["metrics_directory"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "soon"}, "poller_interval"),
        ({"interval": "0.1"}, "poller_interval: expected seconds from 0.25 to 5, not 0.1"),
        ({"margin": "nan"}, 'poller_margin: expected seconds from 0 to 86400, not "nan"'),
        ({"hook_timeout": "inf"}, 'poller_hook_timeout: expected seconds from 1 to 604800, not "inf"'),
        ({"dry_run": "maybe"}, "poller_dry_run"),
        ({"dry_run": 2}, "poller_dry_run"),
        ({"rules": '[{"action": "hold"}]'}, "poller_rules"),
        ({"rules": [{"action": "hold", "max_duration": "x"}]}, "max_duration"),
        ({"rules": [{"action": "hold", "event_types": ["Rebot"]}]}, "poller_rules[0].event_types"),
        ({"rules": ["hold"]}, "poller_rules"),
        ({"rules": [{"action": "hold", "event_types": None}]}, "poller_rules[0].event_types"),
        (
            {"rules": [{"action": "hold", "windows": [{"timezone": "Mars/Olympus"}]}]},
            "poller_rules[0].windows[0].timezone",
        ),
        ({"rules": [{"action": "hold", "windows": [{"from": 1320}]}]}, "poller_rules[0].windows[0].from"),
        ({"rules": [{"action": "prepare", "lead_time": ""}]}, "poller_rules[0].lead_time: expected seconds above 0"),
        ({"rules": [{"action": "hold", "windows": [{"from": ""}]}]}, "poller_rules[0].windows[0].from: expected"),
        (
            {"rules": [{"action": "hold", "windows": [{"timezone": ""}]}]},
            "poller_rules[0].windows[0].timezone: expected",
        ),
        ({"endpoint": "ftp://x"}, "scheduled_events_endpoint: "),
        ({"endpoint_networks": "10.0.0.0/8, azure"}, "poller_endpoint_networks[1]: expected an IPv4 network"),
        ({"metrics_directory": "relative"}, "poller_metrics_directory: expected an absolute path"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options, message):
    with pytest.raises(role_options.WrongValue, match=re.escape(message)):
        check(**options)


def test_a_command_is_quoted_for_the_shell():
    words = ["/bin/echo", "$HOME `id`", "it's", 15, ""]
    content = content_of({"name": "a", "phase": "prepare", "command": words})
    assert content == b"#!/bin/sh\nexec /bin/echo '$HOME `id`' 'it'\"'\"'s' 15 ''\n"


@pytest.mark.parametrize("program", [b"\x7fELF\xff\0\r\n", b"#!/usr/local/sbin/drain-web --all\n"])
def test_a_source_is_taken_as_it_is(program):
    assert content_of({"name": "a", "phase": "prepare", "src": "drain"}, {"drain": program}) == program


def test_keys_that_are_empty_are_as_good_as_absent():
    assert content_of({**DRAIN, "src": None, "command": []}) == DRAIN["content"].encode()


def test_a_name_may_be_a_number():
    assert check([{**DRAIN, "name": 10}]).config["hooks"]["prepare"] == ["10"]


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ("[]", "poller_hooks"),
        ({}, "poller_hooks"),
        (["10-drain"], "poller_hooks"),
        ([{**DRAIN, "phase": "prepair"}], "value of phase must be one of: prepare, started, recover, advised, failed"),
        ([{"name": "a", "content": "#!x"}], "missing required arguments: phase found in poller_hooks"),
        ([{**DRAIN, "mode": "0755"}], "poller_hooks.mode. Supported parameters include: command, content, name"),
        ([{**DRAIN, "name": "10 drain"}], "poller_hooks.prepare[0]: expected a name of letters"),
        ([{**DRAIN, "name": "10-drain\n"}], "poller_hooks.prepare[0]: expected a name of letters"),
        ([{**DRAIN, "name": "../x"}], "poller_hooks.prepare[0]: expected a name of letters"),
        ([{**DRAIN, "name": ".x"}], "poller_hooks.prepare[0]: expected a name of letters"),
        ([{**DRAIN, "name": "x" * 300}], "poller_hooks.prepare[0]: expected a name of letters"),
        (
            [{**DRAIN, "content": None}],
            "(10-drain of prepare) has no program, expected exactly one of content, src, command",
        ),
        ([{**DRAIN, "src": "x"}], "(10-drain of prepare) has content and src, expected exactly one"),
        (
            [{**DRAIN, "content": "exit 0"}],
            "content is not a program, expected it to begin with a line such as #!/bin/sh",
        ),
        ([{**DRAIN, "content": ["#!/bin/sh"]}], "content is not a program"),
        ([{"name": "a", "phase": "failed", "src": "text"}], "src is not a program, expected it to begin with a line"),
        ([{"name": "a", "phase": "failed", "src": "marked"}], "src is not a program, expected it to begin with a line"),
        ([{**DRAIN, "content": "#!/bin/sh\r\nexit 0\r\n"}], "its lines end as on Windows"),
        ([{**DRAIN, "content": "#!/bin/sh touch /run/drained\n"}], "content is one line, expected commands after"),
        ([{**DRAIN, "content": "#!/bin/sh \ud800"}], "content cannot be written as UTF-8"),
        ([{"name": "a", "phase": "failed", "src": "gone"}], 'src "gone" cannot be read, or is empty, expected a file'),
        ([{"name": "a", "phase": "failed", "src": "empty"}], 'src "empty" cannot be read, or is empty'),
        (
            [{"name": "a", "phase": "failed", "command": "rm -f x"}],
            "poller_hooks[0] (a of failed): command is not a list",
        ),
        ([{"name": "a", "phase": "failed", "command": ["a", True]}], "command[1] is not a text"),
        ([{"name": "a", "phase": "failed", "command": ["a", ["b"]]}], "command[1] is not a text"),
        ([{"name": "a", "phase": "failed", "command": ["a", "\0"]}], "command[1] is not a text without NUL"),
        ([{"name": "a", "phase": "failed", "command": [""]}], "command[0] is empty"),
        ([DRAIN, {**DRAIN, "phase": "failed"}, DRAIN], "poller_hooks.prepare: expected each name once"),
    ],
)
def test_a_wrong_hook_is_refused_by_its_place(hooks, message):
    with pytest.raises(role_options.WrongValue, match=re.escape(message)):
        check(hooks, {"empty": b"", "text": b"exit 0\n", "marked": b"\xef\xbb\xbf#!/bin/sh\n"})


@pytest.mark.parametrize(
    "hook",
    [
        {"name": "a", "phase": "prepare", "content": f"exit {SECRET}"},
        {"name": "a", "phase": "prepair", "content": f"#!/bin/sh {SECRET}"},
        {"name": "a", "phase": "prepare", "command": f"true {SECRET}"},
        {"name": "a", "phase": "prepare", "command": ["true", [SECRET]]},
        {"name": "a", "phase": "prepare", "content": f"#!/bin/sh\r\n{SECRET}"},
    ],
)
def test_no_message_has_the_content_of_a_hook(hook):
    with pytest.raises(role_options.WrongValue) as caught:
        check([hook])
    assert SECRET not in str(caught.value)


CONTROLLER = {"url": "https://awx.example.com/", "job_template": "respond++Ops", "token": SECRET}


def test_a_controller_brings_its_hook_and_settings_that_the_configuration_does_not_have():
    checked = check([DRAIN], controller={**CONTROLLER, "interval": "5", "cancel_on_cancelled": "yes", "ca_file": None})
    assert checked.config["hooks"]["prepare"] == ["10-drain", "00-awx-job-template"]
    content = checked.hooks["prepare"]["00-awx-job-template"].decode()
    program = "/usr/local/lib/scheduled-events/scheduled-events-controller"
    assert content == f"#!/bin/sh\nexec /usr/bin/python3 -I {program}\n"
    settings = {**CONTROLLER, "interval": 5.0, "cancel_on_cancelled": True, "grace": 0.0}
    assert settings.items() <= checked.controller.items()
    assert None not in checked.controller.values()
    assert SECRET not in str([checked.config, checked.hooks])


def test_without_a_controller_there_are_no_controller_settings():
    assert check([DRAIN]).controller == {}


def test_a_hook_may_run_before_that_of_a_controller_by_its_name():
    checked = check([{**DRAIN, "name": "00-a"}], controller=CONTROLLER)
    assert checked.config["hooks"]["prepare"] == ["00-a", "00-awx-job-template"]


def test_a_hook_with_the_name_of_that_of_a_controller_is_refused():
    message = '^poller_hooks: "00-awx-job-template" of prepare is the hook of poller_controller: rename yours$'
    with pytest.raises(role_options.WrongValue, match=message):
        check([{**DRAIN, "name": "00-awx-job-template"}], controller=CONTROLLER)


def test_a_takeover_comes_with_the_settings_of_the_controller_and_of_the_unit():
    checked = check(controller=CONTROLLER, acknowledge="controller", controller_grace="120")
    assert checked.controller["grace"] == checked.config["controller_grace"] == 120.0


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        ("https://awx", "poller_controller"),
        ({**CONTROLLER, "url": "awx.example.com"}, "poller_controller.url: expected https://HOST"),
        ({**CONTROLLER, "url": f"https://a:{SECRET}@awx"}, "poller_controller.url: expected a URL without user and"),
        (
            {**CONTROLLER, "job_template": ""},
            "poller_controller.job_template: it is missing; expected an id, a name",
        ),
        ({**CONTROLLER, "token": ""}, "poller_controller: expected exactly one of token and token_file"),
        ({**CONTROLLER, "token_file": "/x"}, "poller_controller: expected exactly one of token and token_file"),
        ({**CONTROLLER, "token": f"{SECRET}\n"}, "poller_controller.token: expected a token of ASCII letters"),
        ({**CONTROLLER, "token": [SECRET]}, "poller_controller.token: expected a token of ASCII letters"),
        ({**CONTROLLER, "host_pattern": "{vm}"}, "poller_controller.host_pattern: expected a text with some of {name}"),
        ({**CONTROLLER, "host_pattern": "all"}, "poller_controller.host_pattern: expected a text with some of {name}"),
        (
            {**CONTROLLER, "host_names": {"vm1": "all"}},
            "poller_controller.host_names.vm1: expected the name of one host",
        ),
        (
            {**CONTROLLER, "host_names": {"vm1": "a:b"}},
            "poller_controller.host_names.vm1: expected the name of one host",
        ),
        ({**CONTROLLER, "extra_vars": {"scheduled_event": 1}}, "poller_controller.extra_vars: expected a dictionary"),
        ({**CONTROLLER, "interval": "90"}, "poller_controller.interval: expected seconds from 1 to 60"),
        ({**CONTROLLER, "passwd": SECRET}, "poller_controller.passwd. Supported parameters include"),
    ],
)
def test_wrong_settings_of_a_controller_are_refused_without_its_token(controller, message):
    with pytest.raises(role_options.WrongValue) as caught:
        check([DRAIN], controller=controller)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_takeover_needs_a_controller_of_the_role():
    with pytest.raises(role_options.WrongValue, match="poller_controller_grace: expected 0 without poller_controller"):
        check(acknowledge="controller", controller_grace=60)
    with pytest.raises(role_options.WrongValue, match="poller_acknowledge: expected another value than controller"):
        check(acknowledge="controller")


# The interpreter


@pytest.mark.parametrize("python", ["python3", "/opt/my python/python3", "/opt/100%/python3", "/opt/python\n", ""])
def test_an_interpreter_that_no_unit_or_first_line_can_name_is_refused(python):
    with pytest.raises(role_options.WrongValue, match="poller_python: expected an absolute path of letters"):
        check([DRAIN], python=python)


@pytest.mark.parametrize("place", ["python@3.11/bin", "python:3,11", "~build", "venv=3"])
def test_an_interpreter_may_be_in_any_place_that_a_unit_and_a_shell_take_as_it_is(place, tmp_path):
    python = tmp_path / place / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/echo")
    content = check(webhooks=[WEBHOOK], python=str(python)).hooks["prepare"]["0-webhooks"].decode()
    command = next(line for line in content.splitlines() if str(python) in line)
    answer = subprocess.run(["sh", "-c", command.rstrip(" |")], stdout=subprocess.PIPE, check=False)
    assert answer.stdout.startswith(b"-I"), content


# Webhooks

WEBHOOK = {"name": "ops", "url": "https://example.org/" + SECRET}


def test_webhooks_bring_a_hook_to_each_phase_that_they_name():
    webhooks = [{**WEBHOOK, "phases": ["failed"]}, {**WEBHOOK, "name": "b", "phases": "failed,recover"}]
    checked = check([DRAIN], webhooks=webhooks)
    assert {phase: sorted(hooks) for phase, hooks in checked.hooks.items()} == {
        "prepare": ["10-drain"],
        "recover": ["0-webhooks"],
        "failed": ["0-webhooks"],
    }
    assert [webhook["phases"] for webhook in checked.webhooks] == [["failed"], ["failed", "recover"]]


def test_no_event_is_held_because_the_hook_of_the_webhooks_is_missing():
    assert check([DRAIN], webhooks=[WEBHOOK]).config["hooks"]["prepare"] == ["10-drain"]


def test_the_hook_of_the_webhooks_holds_no_secret_and_ends_with_77_whatever_happens(tmp_path):
    content = check(webhooks=[WEBHOOK], python="/no/such-python").hooks["prepare"]["0-webhooks"]
    assert SECRET not in content.decode()
    hook = tmp_path / "hook"
    hook.write_bytes(content.replace(b" /run/scheduled-events-webhooks/", f" {tmp_path}/".encode()))
    ended = subprocess.run(["sh", str(hook)], stdout=subprocess.PIPE, check=False)
    said = "webhooks: the messages cannot be kept and are lost: exit status 127"
    assert (ended.returncode, ended.stdout.decode()) == (77, said + "\n")
    assert delivery_status.read(str(tmp_path))["lost"] == said


def test_a_hook_with_the_name_of_that_of_the_webhooks_is_refused():
    with pytest.raises(
        role_options.WrongValue,
        match=r'^poller_hooks: "0-webhooks" of prepare is the hook of poller_webhooks: rename yours$',
    ):
        check([{**DRAIN, "name": "0-webhooks"}], webhooks=[WEBHOOK])


def test_numbers_of_a_webhook_may_be_texts():
    (webhook,) = check(webhooks=[{**WEBHOOK, "request_timeout": "5", "max_messages": "10"}]).webhooks
    assert (webhook["request_timeout"], webhook["max_messages"]) == (5.0, 10)


def test_what_the_role_writes_is_what_the_delivery_reads():
    from scheduled_events_poller.notify import settings as notify_settings

    checked = check(webhooks=[{**WEBHOOK, "headers": {"A": "b"}, "template": {"a": "${text}"}}]).webhooks
    (receiver,) = notify_settings.parse_receivers(json.loads(json.dumps(checked)), place="webhooks.json")
    assert {**receiver._asdict(), "phases": list(receiver.phases)}.items() >= checked[0].items()


@pytest.mark.parametrize(
    ("webhooks", "message"),
    [
        ("[]", "poller_webhooks"),
        ([{**WEBHOOK, "secret": ["x"]}], "poller_webhooks[0].secret: expected printable ASCII on one line"),
        ([{**WEBHOOK, "headers": SECRET}], "poller_webhooks[0].headers: expected a dictionary of texts"),
        (
            [{**WEBHOOK, "request_timeout": "900"}],
            "poller_webhooks[0].request_timeout: expected seconds from 1 to 120, not 900.0",
        ),
    ],
)
def test_a_wrong_webhook_is_refused_by_its_place_without_its_secret(webhooks, message):
    with pytest.raises(role_options.WrongValue, match=re.escape(message)) as error:
        check(webhooks=webhooks)
    assert SECRET not in str(error.value)


def test_every_key_of_a_webhook_is_one_of_the_role():
    from scheduled_events_poller.notify import settings as notify_settings

    options = SPECS["poller_webhooks"]["options"]
    assert set(options) == set(notify_settings.Receiver._fields)


def test_no_secret_has_choices_or_a_type_since_role_validation_shows_what_it_cannot_convert():
    webhook = SPECS["poller_webhooks"]["options"]
    secrets = [SPECS["poller_controller"]["options"]["token"]]
    secrets += [webhook[key] for key in ("url", "headers", "secret", "routing_key", "proxy")]
    assert {tuple(option) for option in secrets} == {("description", "type")}
    assert {option["type"] for option in secrets} == {"raw"}


class Encrypted:
    """A value with the tag !vault, as a template returns it before ansible-core 2.19."""

    __ENCRYPTED__ = True

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def test_what_is_encrypted_in_place_passes_role_validation_and_is_written_as_a_text():
    webhook = {"name": "ops", "url": Encrypted("https://ops"), "headers": {"X-Key": Encrypted(SECRET)}}
    [found] = check(webhooks=[webhook]).webhooks
    assert (found["url"], found["headers"]) == ("https://ops", {"X-Key": SECRET})
    assert ArgumentSpecValidator(SPECS).validate({"poller_webhooks": [webhook]}).error_messages == []


def test_the_role_offers_each_format_of_webhooks():
    from scheduled_events_poller.notify import formats as webhook_formats

    options = SPECS["poller_webhooks"]["options"]
    assert options["format"]["choices"] == list(webhook_formats.FORMATS)
