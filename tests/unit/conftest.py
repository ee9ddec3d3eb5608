# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every unit test gets: the code on sys.path, and no way to a real metadata service."""

import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(ROOT)  # for what imports relatively: the package plugins
for _place in ("tests/guard", "tests/support", "plugins/module_utils", "roles/poller/files", "roles/emulator/files"):
    sys.path.insert(0, os.path.join(ROOT, _place))

import metadata_guard  # noqa: E402 - found only through the path set above

# How many examples a property gets in `make quick`, `make test` and `make soak`; TIER names the tier. `make test` has
# the same ones each time, since a failure that comes and goes cannot be examined. The others have them at random.
EXAMPLES = {"quick": 10, "test": 100, "soak": 10000}
try:
    from hypothesis import settings
except ImportError:  # on old Pythons, and on those of VMs: the properties are tested once, by the unit session
    pass
else:
    for _tier, _examples in EXAMPLES.items():
        settings.register_profile(
            _tier, max_examples=_examples, deadline=None, derandomize=os.environ.get("TIER") == "test"
        )
    settings.load_profile(os.environ.get("TIER", "test"))


@pytest.fixture
def refused_contacts():
    """The refusals so far, as a list of messages; a test that provokes one on purpose empties it."""
    return []


@pytest.fixture(autouse=True)
def _no_real_metadata_service(monkeypatch, refused_contacts):
    """Fail a test that tries to contact a real metadata service, even where the code swallows the exception."""
    metadata_guard.install(refused_contacts.append, patch=monkeypatch.setattr)
    yield
    if refused_contacts:
        pytest.fail("\n".join(refused_contacts))
