# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module ends with its result, or with a message that says what to do."""

import types

import pytest
from ansible.module_utils.basic import AnsibleModule

from plugins.module_utils._checked_module import CheckedModule, tidy_lists


class Ended(Exception):
    pass


def ended_with(work):
    def end(**result):
        raise Ended(result)

    with pytest.raises(Ended) as ended:
        CheckedModule.finish(types.SimpleNamespace(fail_json=end, exit_json=end), work, KeyError)
    return ended.value.args[0]


def test_a_module_ends_with_the_result_of_its_work():
    assert ended_with(lambda: {"changed": True}) == {"changed": True}


@pytest.mark.parametrize(
    ("error", "msg"),
    [
        (KeyError("name"), "'name'"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device. Free the disk"),
    ],
)
def test_a_module_fails_with_the_message_of_an_expected_error(error, msg):
    def work():
        raise error

    assert ended_with(work) == {"msg": msg}


def test_another_error_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        CheckedModule.finish(types.SimpleNamespace(), lambda: 1 / 0, KeyError)


TEXTS = {"type": "list", "elements": "str"}
SPEC = {
    "backends": TEXTS,
    "event_id": TEXTS,
    "rules": {"type": "list", "elements": "dict", "options": {"event_types": TEXTS, "action": {"type": "str"}}},
    "directories": {"type": "list", "elements": "path"},
}


def test_lists_of_texts_have_no_blanks_and_no_empty_texts_wherever_they_are():
    values = {
        "backends": ["www", " api", ""],
        "rules": [{"event_types": ["Freeze", " Reboot "], "action": " hold"}, {"event_types": None}],
        "directories": [" /srv"],
    }
    tidy_lists(SPEC, values)
    assert values == {
        "backends": ["www", "api"],
        "rules": [{"event_types": ["Freeze", "Reboot"], "action": " hold"}, {"event_types": None}],
        "directories": [" /srv"],
    }


def made_with(monkeypatch, params):
    def take(module, **_options):
        module.params = params

    def fail(_module, msg):
        raise Ended(msg)

    monkeypatch.setattr(AnsibleModule, "__init__", take)
    monkeypatch.setattr(CheckedModule, "fail_json", fail)
    return CheckedModule(SPEC).params


def test_a_module_gets_its_lists_without_blanks(monkeypatch):
    params = made_with(monkeypatch, {"backends": ["www", " api"], "event_id": [" A", "B "]})
    assert params == {"backends": ["www", "api"], "event_id": ["A", "B"]}


@pytest.mark.parametrize("ids", [[""], ["A", " "]])
def test_an_empty_id_is_refused_and_not_left_out_since_all_events_would_count(monkeypatch, ids):
    with pytest.raises(Ended, match="event_id contains an empty text: expected the id of an event in each place"):
        made_with(monkeypatch, {"event_id": ids})
