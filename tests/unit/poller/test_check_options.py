# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of the role's options before it changes anything: what is converted, and what is refused in which words."""

import base64
import json
import pathlib
import re
import subprocess

import pytest
from scheduled_events_poller.unit import config

from plugins.module_utils._poller import options as check_options

FILES = pathlib.Path(__file__).parents[3] / "roles" / "poller" / "files"
OPTIONS = {
    "endpoint": "http://127.0.0.1:8080",
    "endpoint_networks": ["168.63.129.16/32"],
    "api_version": "2020-07-01",
    "vm_name": "",
    "interval": 1.0,
    "rules": [],
    "hook_timeout": 600.0,
    "margin": 10.0,
    "on_failure": "hold",
    "acknowledge": "alone",
    "controller_grace": 0.0,
    "dry_run": False,
    "metrics_directory": "",
}
DRAIN = {"name": "10-drain", "phase": "prepare", "content": "#!/bin/sh\nexit 0\n"}
SECRET = "s3cr3t"


def check(hooks=(), sources=None, controller=None, webhooks=(), python="/usr/bin/python3", **options):
    given = {
        "hooks": list(hooks),
        "sources": sources or {},
        "controller": controller or {},
        "webhooks": webhooks if isinstance(webhooks, str) else list(webhooks),
        "python": python,
        "options": {**OPTIONS, **options},
    }
    return check_options.check(given)


def content_of(hook, sources=None):
    (hooks,) = check([hook], sources)["hooks"].values()
    (content,) = hooks.values()
    return base64.b64decode(content)


def test_the_configuration_names_the_hooks_of_each_phase():
    hooks = [
        {**DRAIN, "name": name, "phase": phase} for name, phase in [("b", "prepare"), ("a", "prepare"), ("c", "failed")]
    ]
    others = {phase: [] for phase in ("started", "recover", "advised")}
    assert check(hooks)["config"]["hooks"] == {"prepare": ["a", "b"], **others, "failed": ["c"]}


def test_networks_of_a_survey_are_separated_by_commas():
    networks = check(endpoint="auto", endpoint_networks="10.0.0.0/8, 127.0.0.1")["config"]["endpoint_networks"]
    assert networks == ["10.0.0.0/8", "127.0.0.1"]


def test_every_option_of_the_configuration_is_one_of_the_role():
    yaml = pytest.importorskip("yaml")
    specs = yaml.safe_load((FILES.parent / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"][
        "options"
    ]
    assert {f"poller_{key}" for key in config.Settings._fields} <= set(specs)
    assert set(check()["config"]) == set(config.Settings._fields)


def test_numbers_and_flags_may_be_texts():
    kinds = {name: type(value) for name, value in config.Settings()._asdict().items()}
    assert {name for name, kind in kinds.items() if kind is float} == set(check_options.NUMBERS)
    assert {name for name, kind in kinds.items() if kind is bool} == set(check_options.FLAGS)


def test_texts_as_surveys_send_them_are_converted():
    rules = [{"action": "approve", "event_types": "Freeze, Reboot", "max_duration": "8", "min_duration": 0}]
    converted = check(interval="2", hook_timeout=" 60 ", margin="0.5", dry_run="Yes", rules=rules)["config"]
    assert (converted["interval"], converted["hook_timeout"], converted["margin"]) == (2.0, 60.0, 0.5)
    assert converted["dry_run"] is True
    assert converted["rules"] == [
        {"action": "approve", "event_types": ["Freeze", "Reboot"], "max_duration": 8, "min_duration": 0}
    ]


@pytest.mark.parametrize(("value", "meant"), [(0, False), (1, True), ("false", False), ("on", True), (False, False)])
def test_a_flag_is_what_ansible_takes_it_for(value, meant):
    assert check(dry_run=value)["config"]["dry_run"] is meant


def test_an_empty_name_and_directory_are_none():
    converted = check()["config"]
    assert (converted["vm_name"], converted["metrics_directory"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval": "soon"}, 'poller_interval: expected seconds from 0.25 to 5, not "soon"'),
        ({"margin": "nan"}, "poller_margin: expected seconds from 0 to 86400, not NaN"),
        ({"hook_timeout": "inf"}, "poller_hook_timeout: expected seconds from 1 to 604800, not Infinity"),
        ({"dry_run": "maybe"}, 'poller_dry_run: expected true or false, not "maybe"'),
        ({"dry_run": 2}, 'poller_dry_run: expected true or false, not "2"'),
        ({"rules": '[{"action": "hold"}]'}, "poller_rules: expected a list of rules"),
        ({"rules": [{"action": "hold", "max_duration": "x"}]}, "poller_rules[0].max_duration"),
        ({"rules": [{"action": "hold", "event_types": ["Rebot"]}]}, "poller_rules[0].event_types"),
        ({"rules": ["hold"]}, "poller_rules[0]"),
        ({"endpoint": "ftp://x"}, "poller_endpoint: "),
        ({"endpoint_networks": "10.0.0.0/8, azure"}, 'poller_endpoint_networks: endpoint_networks holds "azure"'),
        ({"metrics_directory": "relative"}, "poller_metrics_directory: expected the absolute path"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options, message):
    with pytest.raises(check_options.WrongOption, match=re.escape(message)):
        check(**options)


def test_a_command_is_quoted_for_the_shell():
    words = ["/bin/echo", "$HOME `id`", "it's", 15, ""]
    content = content_of({"name": "a", "phase": "prepare", "command": words})
    assert content == b"#!/bin/sh\nexec /bin/echo '$HOME `id`' 'it'\"'\"'s' 15 ''\n"


def test_a_source_is_taken_as_it_is():
    program = b"\x7fELF\xff\0\r\n"
    sources = {"drain": base64.b64encode(program).decode()}
    assert content_of({"name": "a", "phase": "prepare", "src": "drain"}, sources) == program


def test_keys_that_are_empty_are_as_good_as_absent():
    assert content_of({**DRAIN, "src": None, "command": []}) == DRAIN["content"].encode()


def test_a_name_may_be_a_number():
    assert check([{**DRAIN, "name": 10}])["config"]["hooks"]["prepare"] == ["10"]


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ("[]", "poller_hooks is a text, expected a list of dictionaries: give it to -e as JSON"),
        (None, "poller_hooks is empty, expected a list"),
        ({}, "poller_hooks is a dictionary, expected a list"),
        (["10-drain"], "poller_hooks[0] is a text, expected a dictionary"),
        (
            [{**DRAIN, "phase": "prepair"}],
            '(10-drain): phase is "prepair", expected one of prepare, started, recover, advised, failed',
        ),
        ([{**DRAIN, "phase": ["prepare"]}], '(10-drain): phase is ["prepare"], expected one of'),
        ([{"name": "a", "content": "#!x"}], "(a): phase is null, expected one of"),
        ([{**DRAIN, "mode": "0755"}], 'poller_hooks[0]: "mode" is not a key of a hook, expected name, phase, content'),
        ([{**DRAIN, "name": "10 drain"}], 'poller_hooks[0]: name is "10 drain", expected at most 200 letters'),
        ([{**DRAIN, "name": "10-drain\n"}], "poller_hooks[0]: name is"),
        ([{**DRAIN, "name": "../x"}], "poller_hooks[0]: name is"),
        ([{**DRAIN, "name": ".x"}], "poller_hooks[0]: name is"),
        ([{**DRAIN, "name": "x" * 300}], "poller_hooks[0]: name is"),
        ([{"phase": "prepare", "content": "#!x"}], "poller_hooks[0]: name is null"),
        (
            [{**DRAIN, "content": None}],
            "(10-drain of prepare) has no program, expected exactly one of content, src, command",
        ),
        ([{**DRAIN, "src": "x"}], "(10-drain of prepare) has content and src, expected exactly one"),
        ([{**DRAIN, "content": "exit 0"}], "content is not a script, expected a first line such as #!/bin/sh: add it"),
        ([{**DRAIN, "content": ["#!/bin/sh"]}], "content is not a script"),
        ([{**DRAIN, "content": "#!/bin/sh\r\nexit 0\r\n"}], "its lines end as on Windows"),
        ([{**DRAIN, "content": "#!/bin/sh \ud800"}], "content cannot be written as UTF-8"),
        ([{"name": "a", "phase": "failed", "src": "gone"}], 'src "gone" cannot be read, or is empty, expected a file'),
        ([{"name": "a", "phase": "failed", "src": 5}], "src 5 cannot be read"),
        ([{"name": "a", "phase": "failed", "command": "rm -f x"}], "command is a text, expected a list"),
        ([{"name": "a", "phase": "failed", "command": ["a", True]}], "command[1] is true or false, expected a text"),
        ([{"name": "a", "phase": "failed", "command": ["a", ["b"]]}], "command[1] is a list, expected a text"),
        ([{"name": "a", "phase": "failed", "command": ["a", "\0"]}], "command[1] has a NUL"),
        ([{"name": "a", "phase": "failed", "command": [""]}], "command[0] is empty"),
        ([DRAIN, {**DRAIN, "phase": "failed"}, DRAIN], 'poller_hooks[2]: "10-drain" of prepare is in the list already'),
    ],
)
def test_a_wrong_hook_is_refused_by_its_place(hooks, message):
    with pytest.raises(check_options.WrongOption, match=re.escape(message)):
        check_options.check(
            {"hooks": hooks, "sources": {"gone": ""}, "webhooks": [], "python": "python3", "options": OPTIONS}
        )


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
    with pytest.raises(check_options.WrongOption) as caught:
        check([hook])
    assert SECRET not in str(caught.value)


CONTROLLER = {"url": "https://awx.example.com/", "job_template": "respond++Ops", "token": SECRET}


def test_a_controller_brings_its_hook_and_settings_that_the_configuration_does_not_have():
    checked = check([DRAIN], controller={**CONTROLLER, "interval": "5", "cancel_on_cancelled": "yes", "ca_file": None})
    assert checked["config"]["hooks"]["prepare"] == ["00-awx-job-template", "10-drain"]
    content = base64.b64decode(checked["hooks"]["prepare"]["00-awx-job-template"]).decode()
    program = "/usr/local/lib/scheduled-events/scheduled-events-controller"
    assert content == f"#!/bin/sh\nexec /usr/bin/python3 -I {program}\n"
    settings = {**CONTROLLER, "interval": 5.0, "cancel_on_cancelled": True, "grace": 0.0}
    assert checked["controller"] == settings
    assert SECRET not in json.dumps([checked["config"], checked["hooks"]])


def test_without_a_controller_there_are_no_controller_settings():
    assert check([DRAIN])["controller"] == {}


def test_a_hook_may_run_before_that_of_a_controller_by_its_name():
    checked = check([{**DRAIN, "name": "00-a"}], controller=CONTROLLER)
    assert checked["config"]["hooks"]["prepare"] == ["00-a", "00-awx-job-template"]


def test_a_hook_with_the_name_of_that_of_a_controller_is_refused():
    message = '^poller_hooks: "00-awx-job-template" of prepare is the hook of poller_controller: rename yours$'
    with pytest.raises(check_options.WrongOption, match=message):
        check([{**DRAIN, "name": "00-awx-job-template"}], controller=CONTROLLER)


def test_a_takeover_comes_with_the_settings_of_the_controller_and_of_the_unit():
    checked = check(controller=CONTROLLER, acknowledge="controller", controller_grace="120")
    assert checked["controller"]["grace"] == checked["config"]["controller_grace"] == 120.0


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        ("https://awx", "poller_controller is a text, expected a dictionary"),
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
            {**CONTROLLER, "host_map": {"vm1": "all"}},
            "poller_controller.host_map.vm1: expected the name of one host",
        ),
        (
            {**CONTROLLER, "host_map": {"vm1": "a:b"}},
            "poller_controller.host_map.vm1: expected the name of one host",
        ),
        ({**CONTROLLER, "extra_vars": {"scheduled_event": 1}}, "poller_controller.extra_vars: expected a dictionary"),
        ({**CONTROLLER, "interval": "soon"}, "poller_controller.interval: expected seconds from 1 to 60"),
        ({**CONTROLLER, "grace": 5}, "poller_controller.grace: unknown key: set poller_controller_grace"),
        ({**CONTROLLER, "passwd": SECRET}, "poller_controller.passwd: unknown key"),
    ],
)
def test_wrong_settings_of_a_controller_are_refused_without_its_token(controller, message):
    with pytest.raises(check_options.WrongOption) as caught:
        check([DRAIN], controller=controller)
    assert str(caught.value).startswith(message)
    assert SECRET not in str(caught.value)


def test_a_takeover_needs_a_controller_of_the_role():
    with pytest.raises(
        check_options.WrongOption, match="poller_controller_grace: expected 0 without poller_controller"
    ):
        check(acknowledge="controller", controller_grace=60)


# Webhooks

WEBHOOK = {"name": "ops", "url": "https://example.org/" + SECRET}


def test_webhooks_bring_a_hook_to_each_phase_that_they_name():
    webhooks = [{**WEBHOOK, "phases": ["failed"]}, {**WEBHOOK, "name": "b", "phases": "failed, recover"}]
    checked = check([DRAIN], webhooks=webhooks)
    assert {phase: sorted(hooks) for phase, hooks in checked["hooks"].items()} == {
        "prepare": ["10-drain"],
        "recover": ["0-webhooks"],
        "failed": ["0-webhooks"],
    }
    assert [webhook["phases"] for webhook in checked["webhooks"]] == [["failed"], ["recover", "failed"]]


def test_no_event_is_held_because_the_hook_of_the_webhooks_is_missing():
    assert check([DRAIN], webhooks=[WEBHOOK])["config"]["hooks"]["prepare"] == ["10-drain"]


def test_the_hook_of_the_webhooks_holds_no_secret_and_ends_with_77_whatever_happens(tmp_path):
    content = base64.b64decode(check(webhooks=[WEBHOOK], python="/no/such python")["hooks"]["prepare"]["0-webhooks"])
    assert SECRET not in content.decode()
    hook = tmp_path / "hook"
    hook.write_bytes(content)
    ended = subprocess.run(["sh", str(hook)], stdout=subprocess.PIPE, check=False)
    assert ended.returncode == 77
    assert b"webhooks: the messages cannot be kept and are lost: exit status 127" in ended.stdout


def test_a_hook_with_the_name_of_that_of_the_webhooks_is_refused():
    with pytest.raises(check_options.WrongOption, match="0-webhooks of prepare has the name of the hook that"):
        check([{**DRAIN, "name": "0-webhooks"}], webhooks=[WEBHOOK])


def test_numbers_of_a_webhook_may_be_texts():
    (webhook,) = check(webhooks=[{**WEBHOOK, "timeout": "5", "max_messages": "10"}])["webhooks"]
    assert (webhook["timeout"], webhook["max_messages"]) == (5.0, 10)


def test_what_the_role_writes_is_what_the_delivery_reads():
    from scheduled_events_poller.notify import settings as notify_settings

    checked = check(webhooks=[{**WEBHOOK, "headers": {"A": "b"}, "template": {"a": "${text}"}}])["webhooks"]
    (receiver,) = notify_settings.parse_receivers(json.loads(json.dumps(checked)), place="webhooks.json")
    assert receiver._asdict() == {**checked[0], "phases": tuple(checked[0]["phases"])}


@pytest.mark.parametrize(
    ("webhooks", "message"),
    [
        ("[]", "poller_webhooks: expected a list of at most 20 dictionaries"),
        ([{**WEBHOOK, "secret": ["x"]}], "poller_webhooks[0].secret: expected printable ASCII on one line"),
        ([{**WEBHOOK, "timeout": "soon"}], 'poller_webhooks[0].timeout: expected seconds from 1 to 120, not "soon"'),
    ],
)
def test_a_wrong_webhook_is_refused_by_its_place_without_its_secret(webhooks, message):
    with pytest.raises(check_options.WrongOption, match=re.escape(message)) as error:
        check(webhooks=webhooks)
    assert SECRET not in str(error.value)


def test_every_key_of_a_webhook_is_one_of_the_role():
    yaml = pytest.importorskip("yaml")
    from scheduled_events_poller.notify import settings as notify_settings

    specs = yaml.safe_load((FILES.parent / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    options = specs["options"]["poller_webhooks"]["options"]
    assert set(options) == set(notify_settings.Receiver._fields)
    secret = {key for key, option in options.items() if option.get("no_log")}
    assert secret == {"url", "headers", "secret", "routing_key", "proxy"}
    defaults = notify_settings.Receiver("ops", "http://127.0.0.1/")
    assert {key: option["default"] for key, option in options.items() if "default" in option} == {
        key: getattr(defaults, key) for key in ("format", "timeout", "max_messages", "max_bytes")
    }


def test_the_role_offers_each_format_of_webhooks():
    yaml = pytest.importorskip("yaml")
    from scheduled_events_poller.notify import formats as webhook_formats

    specs = yaml.safe_load((FILES.parent / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]
    options = specs["options"]["poller_webhooks"]["options"]
    assert options["format"]["choices"] == list(webhook_formats.FORMATS)
