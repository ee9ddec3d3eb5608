# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ansible-rulebook reads of each rulebook, in files, examples and the pages."""

import pathlib
import runpy

import pytest
import yaml
from ansible_rulebook.rules_parser import parse_rule_sets
from ansible_rulebook.validators import Validate
from code_blocks import is_rulebook, of_kind

ROOT = pathlib.Path(__file__).parents[2]
EDA = ROOT / "extensions" / "eda"
NAME = "maintops.scheduled_events.scheduled_events"
SOURCE = runpy.run_path(str(EDA / "plugins" / "event_source" / "scheduled_events.py"))

OWN = [path.read_text() for path in sorted((EDA / "rulebooks").glob("*.yml"))]
RULEBOOKS = {block.name: block.text for block in of_kind(is_rulebook)}
RULEBOOKS["of the source's documentation"] = SOURCE["EXAMPLES"]
RULEBOOKS.update({yaml.safe_load(text)[0]["name"]: text for text in OWN})


@pytest.mark.parametrize("text", RULEBOOKS.values(), ids=RULEBOOKS)
def test_a_rulebook_is_one_for_ansible_rulebook(text):
    rulebook = yaml.safe_load(text)
    Validate.rulebook(rulebook)
    [ruleset] = parse_rule_sets(rulebook)
    given = [each[NAME] for each in rulebook[0]["sources"] if NAME in each]
    assert all(set(arguments) <= set(SOURCE["SourceSettings"]._fields) for arguments in given)
    if given or text in OWN:
        assert all(rule.throttle is not None or rule.name == "It is time to sweep" for rule in ruleset.rules)
