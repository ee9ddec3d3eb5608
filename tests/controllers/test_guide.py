# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines to paste of the guide about AWX, and the variables in examples/, against the role that they describe."""

import pathlib
import re

import pytest
import yaml

COLLECTION = pathlib.Path(__file__).parents[2]
ROLE = COLLECTION / "roles" / "controller_setup"


class Loader(yaml.SafeLoader):
    """Reads !unsafe as plain text."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def load(path):
    return yaml.load(path.read_text(), Loader)  # noqa: S506 - a safe loader with one more tag


@pytest.fixture(scope="module")
def blocks():
    page = COLLECTION / "docs" / "from-awx-and-aap.md"
    texts = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    return [yaml.load(text, Loader) for text in texts]  # noqa: S506


def test_the_variables_of_the_guide_are_those_of_the_role(blocks):
    options = load(ROLE / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    given = [
        name for block in blocks if isinstance(block, dict) for name in block if name.startswith("controller_setup")
    ]
    assert len(given) > 10
    assert set(given) <= set(options)


def test_the_variables_of_infra_aap_configuration_say_the_same_as_the_role():
    names = load(ROLE / "vars" / "main.yml")
    infra = load(COLLECTION / "examples" / "controller-objects.yml")
    [role] = [
        task for task in load(ROLE / "tasks" / "templates.yml") if task["name"] == "Ensure the job templates exist"
    ]
    [respond, install] = infra["controller_templates"]
    always = {name: value for name, value in role["args"].items() if isinstance(value, bool | int)}
    assert {name: respond[name] for name in always if name != "survey_enabled"} == {
        name: value for name, value in always.items() if name != "survey_enabled"
    }
    for_respond = ("allow_simultaneous", "ask_labels_on_launch", "ask_variables_on_launch")
    assert [respond[name] for name in for_respond] == [True] * 3
    assert all("'respond'" in role["args"][name] for name in for_respond)
    assert respond["name"] == names["__controller_setup_names"]["respond"]
    assert install["extra_vars"]["poller_controller"].keys() == (
        names["__controller_setup_poller_variables"]["poller_controller"].keys()
    )
    [kind] = infra["controller_credential_types"]
    assert {key: kind[key] for key in ("inputs", "injectors")} == names["__controller_setup_hook_credential_type"]
