# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/report.py, and the CPU time that tests/conftest.py leaves for it."""

import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).parents[3]
CASE = '<testcase classname="tests.a" name="{name}">{inside}</testcase>'
CPU = '<properties><property name="cpu" value="{}"/><property name="cpu of fleet" value="1.50"/></properties>'


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Write the page about tests of the stage `unit`, given as name=inside; the page."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    report = importlib.import_module("report")
    for name in ("REPORTS", "ROOT"):
        monkeypatch.setattr(report, name, tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / ".nox" / "report.md")
    monkeypatch.setattr(report, "PASSED", tmp_path / ".nox" / "passed.json")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(".nox\n*.xml\n")
    stage = {"cpu": 90.4, "seconds": 60.0, "memory": 3 << 20, "status": 1}
    (tmp_path / "unit.json").write_text(json.dumps(stage))

    def page(**tests):
        cases = "".join(CASE.format(name=name, inside=inside) for name, inside in tests.items())
        (tmp_path / "unit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        return report.write().read_text()

    return page


def section(page, title):
    return re.search(f"^## {title}.*?(?=^## |\\Z)", page, re.DOTALL | re.MULTILINE).group()


def test_a_stage_is_shown_with_its_result_times_and_memory(page):
    assert "| unit | **failed** | 90 | 60 | 3 |" in section(page(), "Stages")


def test_the_slowest_test_comes_first_with_its_fixtures(page):
    shown = section(page(quick=CPU.format("0.10"), slow=CPU.format("2.00")), "The 50 tests")
    assert shown.index("tests.a::slow") < shown.index("tests.a::quick")
    assert "fleet 1.50" in shown


def test_a_skipped_test_is_shown_with_the_reason(page):
    assert "| no AWX \\| AAP here |" in section(page(a='<skipped message="no AWX | AAP&#10;here"/>'), "Skipped")


def test_a_test_that_passed_earlier_on_the_same_files_is_flaky(page):
    page(a="", b='<failure message="broken"/>')
    shown = page(a='<failure message="broken"/>', b='<error message="broken"/>')
    assert "tests.a::b" in section(shown, "Failed")
    assert "tests.a::a" in section(shown, "Flaky")
    assert "tests.a::b" not in section(shown, "Flaky")


def test_a_test_that_passed_on_other_files_is_not_flaky(page, tmp_path):
    page(a="")
    (tmp_path / "new.py").touch()
    assert "tests.a::a" not in section(page(a='<failure message="broken"/>'), "Flaky")


def test_the_cpu_time_of_a_test_and_its_fixture_is_in_the_junit_file(tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(
        "import subprocess, sys, time, pytest\n"
        "BUSY = 'import time\\nwhile time.process_time() < 0.3: pass'\n"
        "@pytest.fixture\ndef busy(): subprocess.run([sys.executable, '-c', BUSY])\n"
        "def test_one(busy): pass\n"
        "def test_two(): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", "test_it.py"]
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    one, two = ET.parse(tmp_path / "out.xml").getroot().iter("testcase")
    used = {each.get("name"): float(each.get("value")) for each in one.iter("property")}
    assert used["cpu"] >= used["cpu of busy"] >= 0.3
    assert [each.get("name") for each in two.iter("property")] == ["cpu"]
