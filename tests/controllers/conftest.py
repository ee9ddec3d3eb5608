# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of controllers stand on: one AWX for all of them, and what the integration tests have.

AWX_URL and AWX_TOKEN name any AWX (AWX_PROJECTS, if it runs here, its directory of projects). Without them AWX_START
names a script that starts and stops one for these tests: ``$AWX_START start ROOT PORT``, ``$AWX_START stop ROOT``; its
login is admin/password. Without either, the tests that need an AWX are skipped.
"""

import importlib.util
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
_PATH = HERE.parent / "integration" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("integration_conftest", _PATH)
_INTEGRATION = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_INTEGRATION)  # guards against a real metadata service too

ansible = _INTEGRATION.ansible
closed_port = _INTEGRATION.closed_port
emulate = _INTEGRATION.emulate
fleet = _INTEGRATION.fleet
installed_collection = _INTEGRATION.installed_collection
web_host = _INTEGRATION.web_host
zygotes = _INTEGRATION.zygotes

sys.path.insert(0, str(HERE / "support"))
from awx import Awx, StartedAwx  # noqa: E402 - found only through the path set above, as are the next
from relay import Relay  # noqa: E402
from runner import Runner  # noqa: E402


@pytest.fixture(scope="session")
def awx():
    """The AWX of all tests, as its administrator: see support/awx.py."""
    if os.environ.get("AWX_URL"):
        yield Awx(os.environ["AWX_URL"], os.environ["AWX_TOKEN"], projects=os.environ.get("AWX_PROJECTS"))
    elif os.environ.get("AWX_START"):
        with StartedAwx(os.environ["AWX_START"]) as started:
            yield started
    else:
        pytest.skip("no AWX: set AWX_URL and AWX_TOKEN, or AWX_START (see tests/controllers/conftest.py)")


@pytest.fixture
def awx_relay(awx):
    """The AWX behind a relay with a separate URL. The relay can be stopped and started: see support/relay.py."""
    relay = Relay(awx.url)
    yield relay
    relay.stop()


@pytest.fixture(scope="module")
def runner(tmp_path_factory, zygotes):  # noqa: ARG001
    """Runs playbooks of the collection as a controller does: see support/runner.py."""
    return Runner(tmp_path_factory.mktemp("runner"))
