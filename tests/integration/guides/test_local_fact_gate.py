# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate by the local fact, as the README of the role shows it."""

import json
import os
import shutil
import time

import yaml
from page_blocks import block

[PLAY] = yaml.safe_load(block("roles/poller/README.md", "- hosts: web\n  pre_tasks:"))
[GATE] = PLAY["pre_tasks"]
KNOWN = {"vm_name": "web1", "maintenance_pending": False, "events": []}


def status(path, known, *, age=0):
    path.write_text(json.dumps(known, indent=1))
    os.utime(path, (time.time() - age,) * 2)


CASES = {
    "no maintenance": (lambda path: status(path, KNOWN), True),
    "maintenance": (lambda path: status(path, {**KNOWN, "maintenance_pending": True}), False),
    "an old status": (lambda path: status(path, KNOWN, age=3600), False),
    "no status": (lambda _path: None, False),
    "a status that is not JSON": (lambda path: path.write_text("{\n} x\n}\n"), False),
    "no unit": (lambda path: path.with_name("scheduled_events.fact").unlink(), False),
}


def test_only_a_fresh_status_without_maintenance_passes_the_gate(ansible, installed_collection, tmp_path):
    tasks, expected = [], []
    for index, (name, (make, passes)) in enumerate(CASES.items()):
        facts = tmp_path / str(index)
        facts.mkdir()
        shutil.copy(installed_collection / "roles/poller/files/scheduled_events.fact", facts / "real")
        fact = facts / "scheduled_events.fact"
        fact.write_text(f"#!/bin/sh\nexec sh {facts}/real {facts}/status.json\n")
        fact.chmod(0o755)
        make(facts / "status.json")
        gather = {"gather_subset": ["!all", "!min", "local"], "fact_path": str(facts)}
        tasks += [{"ansible.builtin.setup": gather}, {**GATE, "name": name, "ignore_errors": True}]
        expected.append((name, "ok" if passes else "ignored"))
    run = ansible.run_playbook([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    gates = run.all(action="ansible.builtin.assert")
    assert [(gate.task, gate.status) for gate in gates] == expected, run.output
    assert [gate.result["evaluated_to"] for gate in gates if gate.failed] == [False] * (len(gates) - 1), run.output
