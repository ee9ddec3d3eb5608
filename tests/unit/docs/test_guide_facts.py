# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the guides state about the code is what the code does."""

import ast
import contextlib
import json
import math
import pathlib
import re
import urllib.parse

import pytest
import yaml
from _scheduled_events import policies, rules, terms
from _scheduled_events.document import LEAST_NOTICE, parse
from page_blocks import blocks, pages
from scheduled_events_emulator import scenarios
from scheduled_events_emulator.events import DEFAULT_STARTED_FOR, TYPES
from scheduled_events_poller.command import cli
from scheduled_events_poller.command.commands import sample_event

DEFAULT_NOTICE = {name: notice for name, (_since, notice) in TYPES.items() if notice}
ROOT = pathlib.Path(__file__).parents[3]


def rows(guide, first):
    """The rows of the tables of a guide whose first title is ``first``, as lists of texts without marks."""
    found, within = [], False
    for line in (ROOT / "docs" / guide).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if not cells:
            within = False
        elif cells[0].strip() == first:
            within = True
        elif within and not cells[0].startswith("---"):
            found.append(cells)
    return found


@pytest.mark.parametrize("row", rows("how-azure-does-it.md", "scenario"), ids=lambda row: row[0])
def test_a_timeline_of_the_guide_is_that_of_the_emulator(row):
    name, event_type, scheduled, started = row
    fields, _cut, _serial = scenarios._SCENARIOS[name]
    assert (fields["type"], fields["notice"], fields["started_for"]) == (
        event_type,
        float(scheduled) * 60,
        float(started) * 60,
    )


def texts_of(path):
    """The texts in a file: of Python, each as the interpreter joins it, with \\0 for what is put in."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [" ".join(source.split())]
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.sub(r"\{\w+\}", "\0", node.value))
    return found


@pytest.fixture(scope="module")
def messages():
    """All texts of what ships, a line each."""
    places = ("plugins", "roles", "extensions/eda")
    paths = [path for place in places for kind in ("*.py", "*.yml") for path in (ROOT / place).rglob(kind)]
    return "\n".join(text for path in paths for text in texts_of(path))


# Ansible's own words for a library that cannot be imported.
OF_ANSIBLE = {"Failed to import the required Python library"}
MESSAGES = {
    message
    for row in rows("troubleshooting.md", "message")
    for message in re.findall(r"`([^`]+)`", f"`{row[0]}`")
    if message.strip(" ,") and message not in ("", ", or ") and message not in OF_ANSIBLE
}


@pytest.mark.parametrize("message", sorted(MESSAGES))
def test_a_message_of_the_guide_is_one_of_the_code(message, messages):
    parts = [re.escape(part.strip()) for part in message.split("…")]
    assert re.search(r"[^\n]{0,40}".join(filter(None, parts)), messages), f"no text in the code is like: {message}"


def test_many_messages_are_looked_for():
    assert len(MESSAGES) > 30


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("roles/*/README.md"))]
COMMAND = re.compile(r"(?:`|^ *(?:[#$] )?)scheduled-events ([^`'\n#)]+)", re.MULTILINE)
COMMANDS = sorted({command.strip() for page in PAGES for command in COMMAND.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_pages_is_one_of_the_unit(command):
    with contextlib.suppress(SystemExit) if command == "--version" else contextlib.nullcontext():
        cli._parser().parse_args(command.replace("PHASE", "prepare").split())


VARIABLE = re.compile(
    r"(?:`|^ *(?:- )?)((?:poller|respond|rolling_maintenance|load_balancer|emulator|controller_setup)_[a-z_]+)\b",
    re.MULTILINE,
)
VARIABLES = sorted({name for page in PAGES for name in VARIABLE.findall(page.read_text(encoding="utf-8"))})


def test_the_variables_of_the_pages_are_those_of_the_roles():
    places = ("roles/*/*/*.yml", "playbooks/*.yml", "plugins/**/*.py", "roles/poller/files/*/*/status.py")
    known = "\n".join(path.read_text(encoding="utf-8") for place in places for path in ROOT.glob(place))
    assert len(VARIABLES) > 50
    assert [name for name in VARIABLES if not re.search(rf"\b{name}\b", known)] == []


# `name` seconds (900); `name` 2 (10 by default); `name` is 90 by default
DEFAULT = re.compile(r"`([a-z]+_[a-z_]+)`[\w ]*? (?:\((\d+)(?: by default)?\)|is (\d+) by default)")


def test_a_default_in_a_sentence_is_that_of_the_argument_specs():
    options = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            options.update(entry.get("options", {}))
    stated = [found for page in PAGES for found in DEFAULT.findall(" ".join(page.read_text(encoding="utf-8").split()))]
    assert len(stated) > 3
    assert [found for found in stated if float(found[1] or found[2]) != options[found[0]].get("default")] == []


def test_the_playbooks_modules_and_roles_of_the_pages_exist():
    text = "\n".join(path.read_text(encoding="utf-8") for path in PAGES)
    names = set(re.findall(r"\bmaintops\.scheduled_events\.([a-z_]+)\b", text)) - {"imds"}  # a group of modules
    places = ("playbooks/{}.yml", "roles/{}/tasks/main.yml", "plugins/*/{}.py")
    places += ("extensions/eda/plugins/*/{}.py", "extensions/eda/rulebooks/{}.yml")
    assert [name for name in sorted(names) if not any(list(ROOT.glob(place.format(name))) for place in places)] == []


def test_the_rules_of_the_pages_are_rules_of_the_unit():
    blocks = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/rules.md").read_text(encoding="utf-8"), re.S | re.M)
    settings = [value for value in map(yaml.safe_load, blocks) if isinstance(value, dict) and "poller_rules" in value]
    assert [len(rules.parse_rules(value["poller_rules"])) for value in settings] == [3]


START, WINDOWS = "docs/start-in-five-minutes.md", "docs/windows-vms.md"
MINUTES = {"five": 5, "ten": 10, "15": 15}


def test_the_usual_notice_of_each_type_is_that_of_the_emulator():
    seconds = {"5 to 15 minutes": 300, "30 seconds": 30, "10 minutes": 600, "15 minutes": 900}
    shown = {row[0]: row[3].partition(",")[0] for row in rows("how-azure-does-it.md", "type")}
    assert {event_type: seconds[text] for event_type, text in shown.items()} == DEFAULT_NOTICE
    assert LEAST_NOTICE == DEFAULT_NOTICE  # what a drill gives, and what a forecast counts with


def test_the_start_page_names_the_notice_and_the_length_of_the_emulator():
    text = " ".join(pages()[START].split())
    (notice,) = re.findall(r"a Redeploy that starts in (\w+) minutes", text)
    (length,) = re.findall(r"in the emulator (\w+) minutes by default", text)
    assert (MINUTES[notice] * 60, MINUTES[length] * 60) == (DEFAULT_NOTICE["Redeploy"], DEFAULT_STARTED_FOR)


def test_the_windows_page_names_the_leases_of_a_run():
    text = " ".join(pages()[WINDOWS].split())
    ((phase, otherwise),) = re.findall(r"\((\w+) minutes by default\).*?, and (\w+) minutes otherwise", text)
    specs = yaml.safe_load((ROOT / "roles/respond/meta/argument_specs.yml").read_text())["argument_specs"]["main"]
    assert MINUTES[phase] * 60 == specs["options"]["respond_phase_timeout"]["default"]
    action = (ROOT / "plugins/action/scheduled_events_turn.py").read_text()
    assert f"short_lease={MINUTES[otherwise] * 60:.1f}" in action


@pytest.mark.parametrize(
    ("place", "pattern"),
    [
        ("filter", "plugins/filter/*.py"),
        ("role", "roles/*"),
        ("playbook", "playbooks/*.yml"),
    ],
)
def test_the_overview_lists_everything_that_the_collection_contains(place, pattern):
    contents = pages()["docs/overview.md"].partition("## Contents")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", contents))
    assert {path.stem for path in ROOT.glob(pattern)} - listed == set(), place


@pytest.mark.parametrize("page", pages())
def test_no_markup_of_the_sources_is_left_in_a_page(page):
    text = re.sub(r"```.*?^ *```|``.*?``", "", pages()[page], flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"\\`|:(?:ref|ansplugin|ansopt):", text) == []


def yaml_of(page, word):
    """The YAML block of a page that contains a word."""
    (text,) = [text for text in re.findall(r"^```yaml\n(.*?)^```", pages()[page], re.S | re.M) if word in text]
    return yaml.safe_load(text)


def test_the_durations_of_a_large_fleet_follow_from_the_formula():
    units = {"days": 24 * 60, "hours": 60}
    shown = rows("5000-vms-on-awx.md", "hosts")
    assert len(shown) == 3
    for hosts, batch, minutes, duration in shown:
        number, unit = duration.split()
        result = float(hosts.partition(" ")[0].rstrip(",").replace(",", "")) / float(batch) * float(minutes)
        assert round(result / units[unit]) == int(number), hosts


def test_the_times_of_the_gateway_add_up_and_are_those_of_the_playbook():
    *parts, whole = [int(row[0]) for row in rows("windows-behind-a-gateway.md", "seconds")]
    assert sum(parts) == whole
    given = yaml_of("docs/windows-behind-a-gateway.md", "load_balancer_provider")[0]["vars"]
    noticed = given["load_balancer_probe_interval"] * given["load_balancer_probe_count"] + 1
    connections = yaml_of("docs/windows-behind-a-gateway.md", "win_wait_for")[0]["ansible.windows.win_wait_for"]
    assert {noticed, connections["timeout"]} <= set(parts)


def test_the_rules_of_spot_workers_prepare_for_an_eviction_alone():
    (role,) = yaml_of("docs/spot-workers.md", "poller_rules")[0]["roles"]
    given = rules.parse_rules(role["poller_rules"])
    events = {kind: {"EventId": "A", "EventType": kind, "EventStatus": "Scheduled"} for kind in DEFAULT_NOTICE}
    parsed = {
        kind: parse(json.dumps({"DocumentIncarnation": 1, "Events": [event]}), api_version="2020-07-01").events[0]
        for kind, event in events.items()
    }
    actions = {kind: rules.decide(event, given) for kind, event in parsed.items()}
    assert actions.pop("Preempt") == "prepare"
    assert set(actions.values()) == {"ignore"}


def test_the_webhook_of_event_driven_ansible_is_sent_when_an_event_is_announced():
    given = yaml_of("docs/from-event-driven-ansible.md", "poller_acknowledge")
    config = terms.Config(
        "vm1",
        frozenset(["prepare"]),
        rules=rules.parse_rules(given.get("poller_rules", [])),
        acknowledge=given["poller_acknowledge"],
    )
    events = [sample_event("vm1", name, not_before=2e9) for name in DEFAULT_NOTICE]
    assert {policies.lead_time(event, config) for event in events} == {math.inf}


@pytest.mark.parametrize("guide", ["behind-haproxy.md", "windows-behind-a-gateway.md"])
def test_the_play_of_a_guide_drains_no_pool_for_a_short_pause(guide):
    [variables] = [
        yaml.safe_load(block.text)[0]["vars"]
        for block in blocks("yaml")
        if block.page == f"docs/{guide}" and "strategy: ansible.builtin.free" in block.text
    ]
    chosen = rules.parse_rules(variables["respond_rules"])
    pause = {"EventId": "A1", "EventType": "Freeze", "EventStatus": "Scheduled", "Resources": ["web1", "web2"]}
    pauses = [{**pause, "DurationInSeconds": seconds} for seconds in (-1, 5, 8, 9)]
    document = parse(json.dumps({"DocumentIncarnation": 1, "Events": pauses}), api_version="2020-07-01")
    decisions = [rules.decide(event, chosen) for event in document.events]
    assert decisions == [rules.PREPARE, rules.IGNORE, rules.IGNORE, rules.PREPARE]


PROBED = [block for block in blocks("yaml") if "load_balancer_ports" in block.text and "health_probe" in block.text]


@pytest.mark.parametrize("block", PROBED, ids=lambda block: block.name)
def test_an_example_probes_the_service_at_a_port_that_the_service_has(block):
    url = re.search("load_balancer_probe_url: (.*)", block.text)[1]
    ports = re.search("load_balancer_ports: (.*)", block.text)[1]
    assert (urllib.parse.urlsplit(url).port or 80) in yaml.safe_load(ports)
