# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the polling unit share: a metadata service, the unit as a process, and a root side."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))

from controller_standin import Controller
from controller_vm import Vm
from polling_unit import Imds, Unit
from root_side import RootSide


@pytest.fixture
def imds():
    service_of_test = Imds()
    yield service_of_test
    service_of_test.stop()


@pytest.fixture
def unit(tmp_path, imds):
    made = Unit(tmp_path, imds.url)
    yield made
    made.stop()


@pytest.fixture
def root_side(tmp_path):
    return RootSide(str(tmp_path))


@pytest.fixture
def controller():
    made = Controller()
    yield made
    made.stop()


@pytest.fixture
def make_vm(tmp_path, controller):
    def make(**settings):
        options = dict({"url": controller.url}, **settings)
        return Vm(str(tmp_path / f"vm{len(os.listdir(str(tmp_path)))}"), **options)

    return make
