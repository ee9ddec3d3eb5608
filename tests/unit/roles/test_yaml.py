# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The YAML of the roles and playbooks, as Ansible reads it."""

import pathlib

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
FILES = sorted(
    str(path.relative_to(ROOT))
    for place in ("roles", "playbooks", "extensions", "meta", "examples", "demo")
    for path in (ROOT / place).rglob("*.y*ml")
)


class Strict(yaml.SafeLoader):
    """Refuses a key that a mapping has twice, also when a merge (``<<``) brings one of the two, as Ansible warns of."""

    def construct_mapping(self, node, deep=False):
        self.flatten_mapping(node)
        keys = [self.construct_object(key, deep=deep) for key, _value in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate key {', '.join(twice)}", node.start_mark)
        return super().construct_mapping(node, deep=deep)


Strict.add_multi_constructor("!", lambda loader, _suffix, node: loader.construct_scalar(node))


def read(text):
    return list(yaml.load_all(text, Loader=Strict))


@pytest.mark.parametrize("path", FILES)
def test_no_mapping_has_a_key_twice(path):
    read((ROOT / path).read_text())


@pytest.mark.parametrize("text", ["a: 1\na: 2", "- &one {a: 1}\n- {<<: *one, a: 2}"])
def test_a_key_that_is_there_twice_is_found_also_in_a_merge(text):
    with pytest.raises(yaml.constructor.ConstructorError, match="duplicate key a"):
        read(text)
