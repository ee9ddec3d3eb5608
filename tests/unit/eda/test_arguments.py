# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of the source: what is refused, and that documentation, schema and code agree."""

import json

import jinja2.nativetypes
import pytest
import yaml

from .conftest import SOURCE

URLS = "expected a list of URLs, or of dictionaries of endpoint and vm_name (1 or more), not"
NO_URL = "endpoints[0].endpoint: expected http://HOST or http://HOST:PORT, not"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"endpoint": "http://127.0.0.1"},
            "endpoint: unknown key; allowed are endpoints, scope, limit_to_resources, host_names, interval, repeat, "
            "request_timeout, api_version, feedback",
        ),
        ({"endpoints": "http://127.0.0.1"}, f'endpoints: {URLS} "http://127.0.0.1"'),
        ({"endpoints": []}, f"endpoints: {URLS} []"),
        ({"endpoints": ["127.0.0.1"]}, f'{NO_URL} "127.0.0.1"'),
        ({"endpoints": ["http://127.0.0.1:0"]}, f'{NO_URL} "http://127.0.0.1:0"'),
        ({"endpoints": ["http://[::1"]}, f'{NO_URL} "http://[::1"'),
        ({"endpoints": ["http://h?a=1"]}, f'{NO_URL} "http://h?a=1"'),
        ({"endpoints": ["http://me:secret@h"]}, f'{NO_URL} "http://…@h"'),
        (
            {"endpoints": ["http://h", {"url": "http://a:b@h"}]},
            "endpoints[1].url: unknown key; allowed are endpoint, vm_name",
        ),
        (
            {"endpoints": [{"vm_name": "vm1"}]},
            "endpoints[0].endpoint: it is missing; expected http://HOST or http://HOST:PORT",
        ),
        (
            {"endpoints": [{"endpoint": "http://h", "vm_name": " "}]},
            'endpoints[0].vm_name: expected the name of the VM in Azure; leave it out to ask the service, not " "',
        ),
        ({"endpoints": ["http://h", "http://h/"]}, 'endpoints: expected each endpoint once, not "http://h" twice'),
        ({"scope": "mine"}, 'scope: expected one of this_vm, all, not "mine"'),
        ({"limit_to_resources": "perhaps"}, 'limit_to_resources: expected true or false, not "perhaps"'),
        (
            {"host_names": {"web_0": None}},
            'host_names {"web_0": null} cannot be used: '
            "expected a dictionary of names of VMs to names of the inventory",
        ),
        ({"interval": None}, "interval: it is missing; expected seconds from 0.25 to 5"),
        ({"interval": 0.2}, "interval: expected seconds from 0.25 to 5, not 0.2"),
        ({"interval": "often"}, 'interval: expected seconds from 0.25 to 5, not "often"'),
        ({"interval": True}, "interval: expected seconds from 0.25 to 5, not true"),
        ({"repeat": -1}, "repeat: expected seconds from 0 to 1e+09, not -1"),
        ({"repeat": "inf"}, 'repeat: expected seconds from 0 to 1e+09, not "inf"'),
        ({"request_timeout": 0}, "request_timeout: expected seconds from 0.001 to 3600, not 0"),
        ({"api_version": "latest"}, 'api_version: expected a date, such as 2020-07-01, not "latest"'),
    ],
)
def test_an_argument_that_cannot_be_used_is_refused_with_its_value(source, args, message):
    with pytest.raises(ValueError, match=r"expected|allowed") as refusal:
        source.read_settings(args)
    assert str(refusal.value) == message


def test_variables_of_a_rulebook_may_be_strings_and_dates(source):
    version = yaml.safe_load("2019-08-01")
    args = {"interval": "2", "repeat": "60", "limit_to_resources": "False", "api_version": version}
    settings = source.read_settings(args)
    assert (settings.interval, settings.repeat, settings.limit_to_resources, settings.api_version) == (
        2.0,
        60.0,
        False,
        "2019-08-01",
    )


def defaults_of(source):
    """The defaults, as a rulebook would give them."""
    settings = source.read_settings({})
    return {**settings._asdict(), "endpoints": [endpoint.url for endpoint in settings.endpoints]}


def test_documentation_and_schema_have_the_arguments_and_defaults_of_the_code(source):
    documented = yaml.safe_load(source.DOCUMENTATION)["options"]
    assert {name: option["default"] for name, option in documented.items()} == defaults_of(source)
    schema = json.loads((SOURCE.parent / "schemas" / "scheduled_events.json").read_text())
    assert {name: each["default"] for name, each in schema["properties"].items()} == defaults_of(source)
    assert schema["properties"]["scope"]["enum"] == documented["scope"]["choices"]


def test_a_rulebook_leaves_its_source_the_defaults_of_the_source(source):
    templar = jinja2.nativetypes.NativeEnvironment()
    passed = {}
    for path in (SOURCE.parents[2] / "rulebooks").glob("*.yml"):
        for given in yaml.safe_load(path.read_text())[0]["sources"]:
            texts = given.get("maintops.scheduled_events.scheduled_events", {})
            if texts:
                passed[path.name] = {name: templar.from_string(str(text)).render() for name, text in texts.items()}
    same = {name: defaults_of(source)[name] for name in ("endpoints", "scope", "host_names")}
    assert passed == dict.fromkeys(("launch_job_template.yml", "respond_on_source.yml"), same)


def test_the_example_uses_arguments_that_exist(source):
    [ruleset] = yaml.safe_load(source.EXAMPLES)
    [given] = ruleset["sources"]
    source.read_settings(given["maintops.scheduled_events.scheduled_events"])
