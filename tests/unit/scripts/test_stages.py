# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/stages.py with a stand-in of nox, whose sessions do what their names say."""

import importlib.util
import pathlib
import re
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "stages.py"
NOX = """#!/bin/sh
# nox --non-interactive --session NAME
cd "{directory}"
echo "$3" >> begun
case $3 in
    meets_*)
        : > "$3"
        while [ ! -e meets_a ] || [ ! -e meets_b ] || [ ! -e meets_c ]; do sleep 0.05; done ;;
    tier) echo "$TIER" > tier; ;;
    fails) echo "something broke"; exit 3 ;;
    lacks) printf '\033[33mnox > Session lacks skipped: Python interpreter 3.5 not found.\033[0m\n' ;;
    lacks_one)
        echo "nox > Session edge-3.7 was successful in 2 seconds."
        echo "nox > Session edge-3.14 skipped: Python interpreter 3.14 not found." ;;
    plays) cat playbook.txt; exit 2 ;;
    installs) echo 'nox > Command install failed with exit code 1:'; cat traceback.txt; exit 1 ;;
    tests) cp result.xml reports/tests.xml ;;
esac
"""
CASES = (
    "<testcase/>" * 4
    + "<testcase><failure/></testcase><testcase><error/></testcase>"
    + "<testcase><skipped/></testcase>" * 3
)
RESULT = f"<testsuites><testsuite>{CASES}</testsuite></testsuites>"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run stages; the exit status, the output, and the stages in the order in which they began."""
    monkeypatch.syspath_prepend(SCRIPT.parent)  # for scripts/report.py
    monkeypatch.setenv("TIER", "")
    spec = importlib.util.spec_from_file_location("stages", SCRIPT)
    stages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stages)
    nox = tmp_path / "nox"
    nox.write_text(NOX.format(directory=tmp_path))
    nox.chmod(0o700)
    (tmp_path / "result.xml").write_text(RESULT)
    monkeypatch.setattr(stages, "NOX", nox)
    monkeypatch.setattr(stages, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(stages, "REPORTS", tmp_path / "reports")
    for name, path in (("REPORTS", "reports"), ("PAGE", "report/report.md"), ("PASSED", "report/passed.json")):
        monkeypatch.setattr(stages.report, name, tmp_path / path)

    def call(*names):
        monkeypatch.setattr(sys, "argv", ["stages.py", *names])
        with pytest.raises(SystemExit) as ended:
            stages.main()
        return ended.value.code, capsys.readouterr().out, (tmp_path / "begun").read_text().split()

    call.stages = stages
    return call


def test_all_stages_run_although_one_fails_and_its_output_and_the_command_that_repeats_it_are_shown(run):
    code, output, begun = run("fails", "well", "too")
    assert (code, sorted(begun)) == (1, ["fails", "too", "well"])
    assert "something broke" in output
    assert "fails failed; repeat it with: .venv/bin/nox --session fails" in output
    assert "2 of 3 stages passed" in output


FATAL = """\033[31mfatal: [localhost]: FAILED! =>\033[0m
    cmd:
    - program
    msg: non-zero return code
    stderr: |-
        debian11: a hook began twice
        debian12: a hook began twice
    stdout: ''
PLAY RECAP
"""


def test_what_failed_is_shown_again_at_the_end(run, tmp_path):
    (tmp_path / "playbook.txt").write_text(FATAL)
    _code, output, _begun = run("plays", "well")
    end = output.partition("1 of 2 stages passed")[2]
    reason = FATAL.replace("\033[31m", "").replace("\033[0m", "").replace("    cmd:\n    - program\n", "")
    assert f"--- plays:\n{reason.partition('    stdout')[0]}Report: " in end


def test_a_program_of_python_or_ansible_that_failed_is_shown_again_at_the_end(run, tmp_path):
    said = ["[ERROR]: Failed to find 'galaxy.yml'", "subprocess.CalledProcessError: Command 'ansible-galaxy' failed"]
    (tmp_path / "traceback.txt").write_text("\n  raise CalledProcessError\n".join(said))
    _code, output, _begun = run("installs")
    end = output.partition("0 of 1 stages passed")[2]
    assert "\n".join(["--- installs:", "nox > Command install failed with exit code 1:", *said, "Report: "]) in end


def test_three_stages_run_at_a_time(run):
    code, output, _begun = run("meets_a", "meets_b", "meets_c")  # none ends before all have begun
    assert (code, "3 of 3 stages passed" in output) == (0, True)


def test_the_remaining_stages_are_shown(run):
    _code, output, _begun = run("well")
    assert re.search(r"well: passed in \d+:\d\d \(CPU \d+:\d\d, memory \d+ MiB\)", output)
    assert "left: nothing" in output


def test_the_last_line_sums_the_tests_up(run):
    _code, output, _begun = run("tests")
    assert output.splitlines()[-1] == "4 passed, 2 failed, 3 skipped"


def test_the_report_shows_the_stages(run, tmp_path):
    _code, output, _begun = run("well", "fails")
    page = tmp_path / "report" / "report.md"
    assert f"Report: {page}" in output
    assert "| well | passed |" in page.read_text()
    assert "| fails | **failed** |" in page.read_text()


def test_a_stage_that_nox_skips_has_not_passed(run, tmp_path):
    code, output, _begun = run("well", "lacks")
    assert (code, "1 of 2 stages passed" in output) == (0, True)
    assert "lacks: skipped (Python interpreter 3.5 not found) in " in output
    assert "lacks" not in (tmp_path / "report" / "report.md").read_text()


def test_a_stage_of_several_sessions_has_passed_if_nox_skips_some(run, tmp_path):
    _code, output, _begun = run("lacks_one")
    assert "1 of 1 stages passed" in output
    assert "| lacks_one | passed |" in (tmp_path / "report" / "report.md").read_text()


def test_no_session_moves_tmpdir_below_the_checkout():
    """Nox's `create_tmp` does, and sockets in the directories of tests then fail in a checkout with a long path."""
    assert "session.create_tmp()" not in (SCRIPT.parents[1] / "noxfile.py").read_text()


@pytest.mark.parametrize(("options", "tier"), [([], "test"), (["--soak"], "soak")])
def test_the_stages_know_their_tier(run, tmp_path, options, tier):
    run(*options, "tier")
    assert (tmp_path / "tier").read_text() == f"{tier}\n"


def test_a_whole_run_of_soak_writes_the_table_of_results(run, monkeypatch, tmp_path):
    monkeypatch.setattr(run.stages, "SOAK", ["tests", "library-3.5"])
    monkeypatch.setattr(run.stages.pythons, "VERSIONS", ["3.5"])
    page = tmp_path / "overview.md"
    page.write_text("Before.\n<!-- matrix -->\nof the run before\n<!-- /matrix -->\nAfter.\n")
    monkeypatch.setattr(run.stages.report, "OVERVIEW", page)
    _code, output, begun = run("--soak")
    assert begun == ["tests"]
    assert f"Results of the stages: {page}" in output
    assert page.read_text().startswith("Before.\n<!-- matrix -->\nResults of `make soak`")
    assert page.read_text().endswith(
        "| `tests` | passed | 4 |\n| `library-3.5` | not run |  |\n<!-- /matrix -->\nAfter.\n"
    )


def test_a_page_without_a_place_for_the_results_is_refused(run, monkeypatch, tmp_path):
    (tmp_path / "overview.md").write_text("Nothing.\n")
    monkeypatch.setattr(run.stages.report, "OVERVIEW", tmp_path / "overview.md")
    with pytest.raises(SystemExit, match="<!-- matrix -->"):
        run.stages.report.write_overview([])
