# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file: what it means, and which mistakes are refused in which words."""

import json
import re

import pytest
from _scheduled_events.checks import WrongValue
from _scheduled_events.rules import Rule
from scheduled_events_poller.unit import config


def test_an_empty_configuration_has_the_defaults():
    assert config.parse({}) == config.Settings()
    assert config.parse(dict.fromkeys(config.Settings._fields)) == config.Settings()


def test_every_key_is_read():
    given = {
        "endpoint": "http://127.0.0.1:8080/",
        "endpoint_networks": ["10.0.0.1"],
        "api_version": "2019-01-01",
        "vm_name": "web_0",
        "interval": 2,
        "rules": [{"action": "ignore"}],
        "hooks": {"prepare": ["20-hand-over", "10-drain"], "started": [], "recover": ["90-return"]},
        "hook_timeout": 60,
        "margin": 0,
        "on_failure": "approve",
        "acknowledge": "leader",
        "dry_run": True,
        "metrics_directory": "/var/lib/metrics",
    }
    assert config.parse(given) == config.Settings(
        endpoint="http://127.0.0.1:8080",
        endpoint_networks=("10.0.0.1/32",),
        api_version="2019-01-01",
        vm_name="web_0",
        interval=2.0,
        rules=(Rule(action="ignore"),),
        hooks={"prepare": ("10-drain", "20-hand-over"), "recover": ("90-return",)},
        hook_timeout=60.0,
        margin=0.0,
        on_failure="approve",
        acknowledge="leader",
        dry_run=True,
        metrics_directory="/var/lib/metrics",
    )


NESTED = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "expected a dictionary, not []"),
        ({"intervall": 1}, "intervall: unknown key; allowed are endpoint, endpoint_networks, api_version, vm_name"),
        ({"\ud800": 1}, "\ufffd: unknown key"),
        ({"endpoint": "ftp://x"}, 'endpoint: expected http://HOST or http://HOST:PORT, or auto, not "ftp://x"'),
        ({"endpoint": "Auto"}, "expected http://HOST or http://HOST:PORT, or auto"),
        ({"endpoint": 1}, "endpoint: expected http://HOST or http://HOST:PORT, or auto, not 1"),
        ({"endpoint_networks": "10.0.0.0/8"}, "endpoint_networks: expected a list of IPv4 networks, not "),
        (
            {"endpoint_networks": [10]},
            "endpoint_networks[0]: expected an IPv4 network, such as 168.63.129.16/32, not 10",
        ),
        (
            {"endpoint_networks": ["x"]},
            'endpoint_networks[0]: expected an IPv4 network, such as 168.63.129.16/32, not "x"',
        ),
        ({"endpoint": "http://\ud800"}, "endpoint: expected http://HOST or http://HOST:PORT, or auto, not"),
        ({"api_version": "latest"}, 'api_version: expected a date, such as 2020-07-01, or auto, not "latest"'),
        ({"vm_name": ""}, "vm_name: expected the name of a VM in Azure"),
        ({"vm_name": "web\0"}, "vm_name: expected the name of a VM in Azure"),
        ({"vm_name": "['web_0']"}, "vm_name: expected the name of a VM in Azure"),  # Ansible writes a list as text
        ({"vm_name": "web\udcff"}, "vm_name: expected the name of a VM in Azure"),
        ({"interval": 0}, "interval: expected seconds from 0.25 to 5, not 0"),
        ({"interval": True}, "interval: expected seconds from 0.25 to 5, not true"),
        ({"interval": float("nan")}, 'interval: expected seconds from 0.25 to 5, not "nan"'),
        ({"interval": 10**4000}, 'interval: expected seconds from 0.25 to 5, not "(cut: longer'),
        ({"hook_timeout": "600"}, 'hook_timeout: expected seconds from 1 to 604800, not "600"'),
        ({"hook_timeout": float("inf")}, 'hook_timeout: expected seconds from 1 to 604800, not "inf"'),
        ({"margin": -1}, "margin: expected seconds from 0 to 86400, not -1"),
        ({"margin": NESTED}, 'margin: expected seconds from 0 to 86400, not "(cut: nested'),
        ({"on_failure": "ignore"}, 'on_failure: expected one of hold, approve, not "ignore"'),
        ({"acknowledge": ["any"]}, 'acknowledge: expected one of alone, leader, any, never, controller, not ["any"]'),
        ({"dry_run": "no"}, 'dry_run: expected true or false, not "no"'),
        ({"metrics_directory": "x"}, "metrics_directory: expected an absolute path"),
        ({"metrics_directory": "/x\nUser=root"}, "metrics_directory: expected an absolute path"),
        (
            {"rules": [{"action": "reboot"}]},
            "rules[0].action: expected one of prepare",
        ),
        ({"rules": [{"action": "hold", "type": 1}]}, "rules[0].type: unknown key; allowed are event_types"),
        ({"rules": NESTED}, "rules"),
        ({"hooks": ["10-drain"]}, 'hooks: expected a dictionary, not ["10-drain"]'),
        (
            {"hooks": {"prepair": []}},
            "hooks.prepair: unknown key; allowed are prepare, started, recover, advised, failed",
        ),
        ({"hooks": {"prepare": "10-drain"}}, 'hooks.prepare: expected a list of names, not "10-drain"'),
        ({"hooks": {"prepare": [10]}}, "hooks.prepare[0]: expected a name of letters"),
        ({"hooks": {"prepare": ["../x"]}}, 'hooks.prepare[0]: expected a name of letters, digits, ".", "_" and "-"'),
        ({"hooks": {"prepare": [".hidden"]}}, "hooks.prepare[0]: expected a name of letters"),
        ({"hooks": {"prepare": ["10-drain\n"]}}, "hooks.prepare[0]: expected a name of letters"),
        (
            {"controller_grace": 60},
            "controller_grace: expected 0 unless acknowledge is controller, not 60: set acknowledge",
        ),
        (
            {"acknowledge": "controller", "controller_grace": 10, "margin": 10},
            "controller_grace: expected more seconds than margin, 10, not 10",
        ),
        ({"hooks": {"failed": ["a", "a"]}}, 'hooks.failed: expected each name once, not "a" twice'),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_what_is_allowed(given, message):
    with pytest.raises(WrongValue, match=re.escape(message)):
        config.parse(given)


def test_phases_without_a_hook_are_as_good_as_absent():
    assert config.parse({"hooks": {"prepare": [], "failed": []}}).hooks == {}
    assert config.parse({"hooks": None}).hooks == {}


def test_a_message_quotes_only_the_beginning_of_a_long_value():
    with pytest.raises(WrongValue) as caught:
        config.parse({"acknowledge": "x" * 100000})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b'{"margin": NaN}',
        b'{"margin": 1e999}',
        b'{"margin": -Infinity}',
        b'{"margin": 1' + b"0" * 5000 + b"}",
        b'{"vm_name": "\\u0000"}',
        b'{"vm_name": "\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"rules": [{"\\ud800": 1}]}',
        b'{"rules": [{"action": "\\ud800"}]}',
        b"[" * 100000,
        b'{"rules": ' + b"[" * 950 + b"]" * 950 + b"}",
        b'{"hooks": ' + b"[" * 950 + b"]" * 950 + b"}",
        b'{"margin": ' + b'{"a":' * 950 + b"1" + b"}" * 950 + b"}",
    ],
    ids=lambda content: repr(content)[:40],
)
def test_a_file_that_cannot_be_used_gives_an_error_that_names_it_and_can_be_printed(tmp_path, content):
    path = tmp_path / "poller.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WrongValue, match=re.escape(str(path))) as caught:
        config.load(str(path))
    str(caught.value).encode("utf-8")


def test_a_file_that_cannot_be_opened_is_not_reported_as_bad_json(tmp_path):
    with pytest.raises(WrongValue) as caught:
        config.load(str(tmp_path))
    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_file_is_loaded(tmp_path):
    path = tmp_path / "poller.json"
    path.write_text(json.dumps({"margin": 5}))
    assert config.load(str(path)).margin == 5
