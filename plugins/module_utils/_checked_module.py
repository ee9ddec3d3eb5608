# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The numbers, lists and directories among the options of every module and action plugin. Private to the collection.

Ansible takes ``nan``, ``inf`` and 5,000 digits for numbers. A wait for them would never end. Of "web1, web2" it makes a
list whose second text begins with a blank, and of an empty text a list with an empty text.
"""

import ntpath
import posixpath
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple, Type

from ansible.module_utils.basic import AnsibleModule

from ._scheduled_events.files import explained
from ._scheduled_events.text import shown

MOST = 100000000.0  # seconds: 3 years
# Option, or the end of a role's variable → the least and the greatest value, where these are not 0 and MOST.
ABOVE_0 = (1e-9, MOST)
BOUNDS: Dict[str, Tuple[float, float]] = {
    **dict.fromkeys(("request_timeout", "retry_for", "sleep"), ABOVE_0),
    **dict.fromkeys(("wait_timeout", "reconnect_timeout", "phase_timeout", "reboot_timeout"), ABOVE_0),
    **dict.fromkeys(("days", "interval", "count", "probe_rate", "probe_timeout", "slow_after"), ABOVE_0),
    "finish_within": (-MOST, MOST),  # below 0: no limit
    "ports": (1, 65535),
    "drained_status": (100, 599),
}


def wrong_option(spec: Mapping[str, Mapping[str, Any]], values: Mapping[str, Any], within: str = "") -> str:
    """Say what is wrong with the first number that is not finite or out of bounds, or with another value.

    :param spec: an argument specification.
    :param values: by option, before or after their conversion.
    :returns: a message that names the option; empty if all are right.
    """
    for name, option in spec.items():
        value, wrong = values.get(name), ""
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict) and option.get("options"):
                wrong = wrong_option(option["options"], each, f"{within}{name}.")
                if wrong:
                    return wrong
            elif {option.get("type"), option.get("elements")} & {"float", "int"}:
                bounds = next((found for end, found in BOUNDS.items() if name.endswith(end)), (0.0, MOST))
                wrong = _wrong_number(each, *bounds)
            elif name.endswith("directory") and isinstance(each, str) and not is_absolute(each):
                wrong = "an absolute path"
            elif name == "event_id" and isinstance(each, str) and not each.strip():
                # As a filter, every wait for absence would end at once; without it, all events count.
                return "event_id contains an empty text: expected the id of an event in each place"
            if wrong:
                return f"{within}{name} is {shown(_text(each), 60)}, expected {wrong}"
    return ""


def tidy(texts: Iterable[Any]) -> List[str]:
    """The texts without blanks around them, and without empty ones."""
    return [text for text in (str(each).strip() for each in texts if each) if text]


def tidy_lists(spec: Mapping[str, Mapping[str, Any]], values: Dict[str, Any]) -> None:
    """Make the lists of texts among values tidy, where they are."""
    for name, option in spec.items():
        value = values.get(name)
        if isinstance(value, list) and option.get("elements") == "str":
            values[name] = tidy(value)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                tidy_lists(option.get("options") or {}, each)


def is_absolute(path: str) -> bool:
    """Whether a path begins at the root, on a host with Linux or with Windows."""
    return posixpath.isabs(path) or ntpath.isabs(path)


def _text(value: Any) -> str:
    try:
        return f"{value:g}" if isinstance(value, float) else str(value)
    except ValueError:  # thousands of digits
        return "a number of thousands of digits"


def _wrong_number(value: Any, least: float, most: float) -> str:
    """What was expected; empty if the value is right, or if it is not a number, which Ansible itself says."""
    try:
        if value is None or least <= float(value) <= most:
            return ""
    except OverflowError:
        pass
    except (TypeError, ValueError):
        return ""
    return f"a number above 0, at most {most:g}" if 0 < least < 1 else f"a number from {least:g} to {most:g}"


class CheckedModule(AnsibleModule):
    """A module with a check mode, whose options are in their bounds."""

    def __init__(self, argument_spec: Dict[str, Any]) -> None:
        try:
            super().__init__(argument_spec=argument_spec, supports_check_mode=True)
        except (OverflowError, ValueError):  # ansible-core cannot convert the number, or cannot log it
            wrong = wrong_option(argument_spec, self.params)
            if not wrong:
                raise
            self.params: Dict[str, Any] = {}  # which the result repeats
            self.fail_json(msg=wrong)
        wrong = wrong_option(argument_spec, self.params)
        if wrong:
            self.fail_json(msg=wrong)
        tidy_lists(argument_spec, self.params)

    def finish(self, work: Callable[[], Dict[str, Any]], expected: Type[Exception]) -> None:
        """End with what the work returns, or with the message of an error that says what to do."""
        try:
            result = work()
        except expected as error:
            self.fail_json(msg=str(error))
        except OSError as error:
            self.fail_json(msg=explained(error))
        self.exit_json(**result)
