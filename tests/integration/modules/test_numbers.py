# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every number of every module is finite, and within its bounds."""

import itertools
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
# Besides nan, each option gets the next one of these.
OTHERS = ["inf", "-inf", "1e400", "9" * 5000, "-2e9"]
ONE_OF = {"scheduled_event_approve_arm": {"resource_id": "x"}}  # of several options
SAMPLES = {"str": "x", "list": ["x"], "dict": {}, "bool": True, "path": "/x", "int": 1, "float": 1, "raw": "x"}


def documentation(path):
    found = re.search(r'^DOCUMENTATION = r?"""(.*?)^"""', path.read_text(), re.MULTILINE | re.DOTALL)
    return yaml.safe_load(found[1])


def options_of(document):
    """The options of a module, with those of its fragments."""
    options = dict(document.get("options", {}))
    for fragment in document.get("extends_documentation_fragment", []):
        _namespace, _collection, name, *attribute = fragment.split(".")
        text = (ROOT / "plugins" / "doc_fragments" / f"{name}.py").read_text()
        constant = attribute[0].upper() if attribute else "DOCUMENTATION"
        found = re.search(rf'^ +{constant} = r?"""(.*?)^ *"""', text, re.MULTILINE | re.DOTALL)
        options = {**yaml.safe_load(found[1]).get("options", {}), **options}
    return options


def is_number(option):
    return {option.get("type"), option.get("elements")} & {"int", "float"}


def samples(options):
    """A value for each option that needs one."""
    return {
        name: option["choices"][0] if "choices" in option else SAMPLES[option.get("type", "str")]
        for name, option in options.items()
        if option.get("required")
    }


def wrong_calls():
    """Label → module, arguments and the option in which one number is wrong."""
    others = itertools.cycle(OTHERS)
    for path in sorted((ROOT / "plugins" / "modules").glob("*.py")):
        options = options_of(documentation(path))
        required = {**samples(options), **ONE_OF.get(path.stem, {})}
        for name, option in options.items():
            nested = {f"{name}.{each}": (each, more) for each, more in option.get("suboptions", {}).items()}
            numbers = {place: each for place, (each, more) in nested.items() if is_number(more)}
            if is_number(option):
                numbers[name] = ""
            for place, inner in numbers.items():
                for value in ("nan", next(others)):
                    given = {**samples(option["suboptions"]), inner: value} if inner else value
                    arguments = {**required, name: [given] if option.get("type") == "list" else given}
                    yield f"{path.stem} {place} {value[:9]}", (path.stem, arguments, inner or name)


CALLS = dict(wrong_calls())


@pytest.fixture(scope="module")
def results(ansible):
    calls = [(module, arguments) for module, arguments, _option in CALLS.values()]
    return dict(zip(CALLS, ansible.run_modules(calls, check_mode=True), strict=True))


def test_a_number_that_is_not_finite_or_out_of_bounds_is_refused_by_name(results):
    wrong = {}
    for label, result in results.items():
        option = CALLS[label][2]
        # A drill of a host that is refused does not fail: other hosts of its batch are drilled.
        message = str(result.result.get("problems") or result.result.get("msg", ""))
        is_refused = result.failed or result.result.get("outcome") == "refused"
        named = f"{option} is " in message and "expected a number" in message
        by_ansible = re.search(rf"'{option}'.*unable to convert to (int|float)", message, re.DOTALL)
        if not is_refused or not (named or by_ansible):
            wrong[label] = message[:200]
    assert "\n".join(f"{label}: {message}" for label, message in wrong.items()) == ""


def test_modules_with_numbers_are_tested():
    assert len({module for module, _arguments, _option in CALLS.values()}) > 8
