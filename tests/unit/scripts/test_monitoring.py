# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Grafana dashboard and the alert rules ask for metrics, labels and values that the polling unit exports."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from _scheduled_events.document import parse
from _scheduled_events.runs import OUTCOMES, PHASES
from scheduled_events_poller.unit.metrics import Metrics

ROOT = pathlib.Path(__file__).parents[3]
DASHBOARD = json.loads((ROOT / "docs/monitoring/grafana-dashboard.json").read_text())
RULES = yaml.safe_load((ROOT / "docs/monitoring/prometheus-alerts.yml").read_text())
GUIDE = (ROOT / "docs/operate-the-polling-unit.md").read_text(encoding="utf-8")
SAMPLE = re.compile(r"(scheduled_events_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'([a-z]+)\s*(?:=~|!=|=)\s*"([^"]*)"')
OF_PROMETHEUS = {"instance", "job"}


def exported():
    """By name of each metric that a unit exports, the values of each label."""
    metrics = Metrics()
    events = [
        {"EventId": f"A-{kind}-{status}", "EventType": kind, "EventStatus": status, "Resources": ["web1"]}
        for kind in ("Freeze", "Reboot", "Redeploy", "Preempt", "Terminate")
        for status in ("Scheduled", "Started")
    ]
    text = json.dumps({"DocumentIncarnation": 1, "Events": events})
    metrics.poll_succeeded(parse(text, api_version="2020-07-01"), vm_name="web1", now=1.0)
    metrics.acknowledged(1.0)
    metrics.set("waits_until_timestamp_seconds", 1.0)
    metrics.set("status", 1)
    metrics.impact("Freeze", "paused", 7.3)
    for phase in PHASES:
        for outcome in OUTCOMES:
            metrics.hooks_ended(phase, outcome, now=0)
        metrics.hooks_took(phase, 1.0)
    found = {}
    for line in metrics.render().splitlines():
        if not line.startswith("#"):
            name, labels = SAMPLE.match(line).groups()
            known = found.setdefault(name, {})
            for label, value in LABEL.findall(labels or ""):
                known.setdefault(label, set()).add(value)
    return found


EXPORTED = exported()
EXPRESSIONS = [
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]),
    *(variable["definition"] for variable in DASHBOARD["templating"]["list"] if "definition" in variable),
    *(rule["expr"] for group in RULES["groups"] for rule in group["rules"]),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_the_unit_exports(expression):
    samples = SAMPLE.findall(expression)
    assert samples
    for name, labels in samples:
        assert name in EXPORTED
        for label, value in LABEL.findall(labels):
            assert label in OF_PROMETHEUS or value in EXPORTED[name][label]
        for label in re.findall(r"\bby \(([^)]*)\)", expression):
            assert set(label.split(", ")) <= OF_PROMETHEUS | set(EXPORTED[name])


def test_the_guide_lists_each_exported_metric():
    families = {re.sub(r"_(sum|count)$", "", name) for name in EXPORTED}
    assert set(re.findall(r"^\| `(scheduled_events_[a-z_]+)` ", GUIDE, re.MULTILINE)) == families


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
def test_the_alerts_fire_when_they_should():
    command = ["promtool", "test", "rules", str(ROOT / "tests/monitoring/alerts-test.yml")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_dashboard_counts_a_vm_that_has_read_nothing_as_the_alerts_do():
    """The series of the last poll does not exist before the first one."""
    [counting] = [each for each in EXPRESSIONS if each.startswith("count((time()")]
    [never_read] = [rule for group in RULES["groups"] for rule in group["rules"] if rule["alert"].endswith("NeverRead")]
    chosen = counting.replace(', instance=~"$instance"', "")
    assert f"or ({' '.join(never_read['expr'].split())})" in chosen
