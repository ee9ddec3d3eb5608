# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each file that runs on a VM compiles on this Python, and each module of its packages imports."""

import importlib
import os
import pkgutil
import warnings

import pytest

pytestmark = pytest.mark.edge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PLACES = ("plugins/module_utils", "plugins/modules", "roles/poller/files")
FILES = sorted(
    os.path.join(directory, name)
    for place in PLACES
    for directory, _directories, names in os.walk(os.path.join(ROOT, place))
    for name in names
    if name.endswith(".py")
)
PACKAGES = ["plugins.module_utils._load_balancer", "_scheduled_events", "scheduled_events_poller"]


def test_every_file_compiles_without_a_warning():
    assert len(FILES) > 50
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in FILES:
            with open(path, encoding="utf-8") as file:
                compile(file.read(), path, "exec")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_imports(package):
    root = importlib.import_module(package)
    found = [each.name for each in pkgutil.walk_packages(root.__path__, package + ".")]
    assert len(found) > 3
    for name in found:
        if not name.endswith("__main__"):
            importlib.import_module(name)
