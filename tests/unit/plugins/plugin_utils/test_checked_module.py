# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A module ends with its result, or with a message that says what to do."""

import types

import pytest

from plugins.module_utils._checked_module import CheckedModule


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
