# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arguments of an action plugin. Private to the collection."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ...module_utils._options import wrong_option


def arguments_of(action: ActionBase, spec: dict[str, dict[str, t.Any]], **rules: t.Any) -> dict[str, t.Any]:
    """The checked arguments of the task.

    :param rules: such as ``required_if``; see ``validate_argument_spec`` of ansible-core.

    :raises AnsibleActionFail: one of them is wrong.
    """
    try:
        _validation, arguments = action.validate_argument_spec(argument_spec=spec, **rules)
    except OverflowError:  # ansible-core cannot convert a number
        arguments = action._task.args
    wrong = wrong_option(spec, arguments)
    if wrong:
        raise AnsibleActionFail(wrong)
    return t.cast("dict[str, t.Any]", arguments)
