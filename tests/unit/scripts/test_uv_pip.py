# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/uv_pip.py: uv gets what the files and variables of pip say."""

import importlib
import pathlib
import subprocess

import pytest

SCRIPTS = pathlib.Path(__file__).parents[3] / "scripts"
LISTING = """\
:env:.cert='/certificates.pem'
:env:.default-timeout='180'
global.cert='/other.pem'
global.extra-index-url='\\nfile:///one/simple\\nfile:///two/simple'
install.find-links='/wheels /more'
"""


@pytest.fixture
def settings(monkeypatch):
    """Return a function that returns the settings for what ``pip config list`` shows."""
    monkeypatch.syspath_prepend(SCRIPTS)
    module = importlib.import_module("uv_pip")
    for name in ("SSL_CERT_FILE", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_INDEX_STRATEGY"):
        monkeypatch.delenv(name, raising=False)

    def settings(listing):
        done = subprocess.CompletedProcess([], 0, stdout=listing.encode())
        monkeypatch.setattr(module.subprocess, "run", lambda *_args, **_options: done)
        return module.settings()

    return settings


def test_the_settings_of_pip_become_variables_of_uv(settings):
    assert settings(LISTING) == {
        "SSL_CERT_FILE": "/certificates.pem",  # variables of pip count before its files
        "UV_EXTRA_INDEX_URL": "file:///one/simple file:///two/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_what_is_set_for_uv_stays(settings, monkeypatch):
    monkeypatch.setenv("UV_FIND_LINKS", "/mine")
    assert settings(LISTING)["UV_FIND_LINKS"] == "/mine"


def test_without_settings_uv_has_its_own_defaults(settings):
    assert settings("") == {"UV_INDEX_STRATEGY": "unsafe-best-match"}
