# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of the polling unit share: a metadata service, the unit as a process, and a root side."""

import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))

from controller_standin import Controller
from controller_vm import Vm
from polling_unit import Imds, Unit
from receiver import Receiver
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


@pytest.fixture
def vm(make_vm):
    return make_vm()


@pytest.fixture
def service():
    """A receiver of webhooks."""
    made = Receiver()
    yield made
    made.stop()


@pytest.fixture
def certificate(tmp_path):
    """One for 127.0.0.1 that signed itself. Beside it are ``.both`` and ``.expired``, with their key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl, which makes the certificate, is not installed")
    path = str(tmp_path / "certificate")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path + ".key", "-out", path]
    subprocess.check_call(command, stderr=subprocess.DEVNULL)
    with open(path) as certificate_file, open(path + ".key") as key, open(path + ".both", "w") as both:
        both.write(certificate_file.read() + key.read())
    command = ["openssl", "x509", "-in", path, "-signkey", path + ".key", "-days", "-1"]
    with open(path + ".expired", "w") as expired, open(path + ".key") as key:
        expired.write(subprocess.check_output(command, stderr=subprocess.DEVNULL).decode() + key.read())
    return path
