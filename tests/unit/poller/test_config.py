# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration file: what it means, and which mistakes are refused in which words."""

import json
import re

import pytest
from _scheduled_events.rules import Rule
from scheduled_events_poller import config


def test_an_empty_configuration_has_the_defaults():
    assert config.parse({}) == config.Settings()
    assert config.parse(dict.fromkeys(config.Settings._fields)) == config.Settings()


def test_every_key_is_read():
    given = {
        "endpoint": "http://127.0.0.1:8080/",
        "api_version": "2019-01-01",
        "vm_name": "web_0",
        "interval": 2,
        "rules": [{"action": "ignore"}],
        "hook_timeout": 60,
        "margin": 0,
        "on_failure": "approve",
        "approve": "leader",
        "dry_run": True,
        "metrics_directory": "/var/lib/metrics",
    }
    assert config.parse(given) == config.Settings(
        endpoint="http://127.0.0.1:8080",
        api_version="2019-01-01",
        vm_name="web_0",
        interval=2.0,
        rules=(Rule(action="ignore"),),
        hook_timeout=60.0,
        margin=0.0,
        on_failure="approve",
        approve="leader",
        dry_run=True,
        metrics_directory="/var/lib/metrics",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "an object was expected, not []"),
        ({"intervall": 1}, "intervall: unknown key; allowed are endpoint, api_version, vm_name, interval, rules"),
        ({"endpoint": "ftp://x"}, 'endpoint: endpoint "ftp://x" is not the URL'),
        ({"endpoint": 1}, "endpoint: a text was expected, not 1"),
        ({"api_version": "latest"}, 'api_version: api_version "latest" is not a version'),
        ({"vm_name": ""}, "vm_name: the name of a VM in Azure"),
        ({"interval": 0}, "interval: seconds from 0.25 to 5 were expected, not 0"),
        ({"interval": True}, "interval: seconds from 0.25 to 5 were expected, not true"),
        ({"hook_timeout": "600"}, 'hook_timeout: seconds from 1 to 604800 were expected, not "600"'),
        ({"margin": -1}, "margin: seconds from 0 to 86400 were expected, not -1"),
        ({"on_failure": "ignore"}, 'on_failure: "ignore" is not allowed; allowed are hold, approve'),
        ({"approve": "all"}, 'approve: "all" is not allowed; allowed are alone, leader, any, never'),
        ({"dry_run": "no"}, 'dry_run: true or false was expected, not "no"'),
        ({"metrics_directory": "x"}, "metrics_directory: the absolute path of a directory"),
        ({"rules": [{"action": "reboot"}]}, 'rules[0].action: "reboot" is no action; allowed are prepare, approve'),
        ({"rules": [{"action": "hold", "type": 1}]}, "rules[0].type: unknown key; allowed are event_types"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_what_is_allowed(given, message):
    with pytest.raises(config.ConfigError, match=re.escape(message)):
        config.parse(given)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "poller.json"
    for content in (None, "{", "\xff"):
        if content is not None:
            path.write_text(content, encoding="latin-1")
        with pytest.raises(config.ConfigError, match=re.escape(str(path))):
            config.load(str(path))


def test_a_file_is_loaded(tmp_path):
    path = tmp_path / "poller.json"
    path.write_text(json.dumps({"margin": 5}))
    assert config.load(str(path)).margin == 5
