# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pathlib
import sys

# The plugins import relatively, so they are found as a package of the checkout.
sys.path.insert(0, str(pathlib.Path(__file__).parents[4]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "support"))

import pytest
from ansible.plugins.loader import init_plugin_loader


@pytest.fixture(scope="session")
def collections(tmp_path_factory):
    """A directory in which Ansible looks for collections. It finds its own plugins only once it has one."""
    path = tmp_path_factory.mktemp("collections")
    (path / "ansible_collections").mkdir()
    init_plugin_loader([str(path)])
    return path
