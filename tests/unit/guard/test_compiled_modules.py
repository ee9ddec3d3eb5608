# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compiled code that is kept is that of the same source, and nothing depends on a place to keep it."""

import os
import subprocess
import sys
import zipimport

import compiled_modules
import pytest

pytestmark = pytest.mark.skipif(not hasattr(zipimport, "_compile_source"), reason="Python 3.8 is the first with it")


@pytest.fixture
def sources():
    """The sources that were compiled."""
    return []


@pytest.fixture
def value(sources, monkeypatch, tmp_path):
    """Return a function that runs a source, and returns what it sets VALUE to."""
    monkeypatch.setattr(compiled_modules, "PLACE", str(tmp_path))

    def compile_source(pathname, source):
        sources.append(source)
        return compile(source, pathname, "exec")

    compiled = compiled_modules.kept(compile_source)

    def run(source):
        found = {}
        exec(compiled("a.zip/a.py", source), found)  # noqa: S102
        return found["VALUE"]

    return run


def test_a_source_is_compiled_once(value, sources):
    assert [value(b"VALUE = 1"), value(b"VALUE = 2"), value(b"VALUE = 1")] == [1, 2, 1]
    assert sources == [b"VALUE = 1", b"VALUE = 2"]


def test_what_is_broken_is_compiled_again(value, tmp_path):
    value(b"VALUE = 1")
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert value(b"VALUE = 1") == 1


def test_without_a_place_each_source_is_compiled(value, sources, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled_modules, "PLACE", str(tmp_path / "missing"))
    assert [value(b"VALUE = 1"), value(b"VALUE = 1")] == [1, 1]
    assert len(sources) == 2


@pytest.mark.parametrize(("tier", "keeps"), [("test", "kept"), ("soak", "_compile_source")])
def test_soak_and_benchmarks_compile_as_the_python_of_a_user_does(tier, keeps):
    program = "import zipimport; print(zipimport._compile_source.__qualname__.split('.')[0])"
    env = {**os.environ, "TIER": tier, "PYTHONPATH": os.path.dirname(compiled_modules.__file__)}
    shown = subprocess.check_output([sys.executable, "-c", program], env=env)
    assert shown.decode().strip() == keeps
