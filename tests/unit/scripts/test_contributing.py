# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CONTRIBUTING.md, README.md and the workflows name exists: targets of make, files, tests, and scenarios."""

import importlib
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[3]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PAGES = ["CONTRIBUTING.md", "README.md", ".github/PULL_REQUEST_TEMPLATE.md", ".pre-commit-config.yaml"]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
SPANS = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", CONTRIBUTING, flags=re.MULTILINE | re.DOTALL))


def targets_in(commands):
    """The targets that commands name: make a b C=d # comment."""
    for command in commands:
        words = re.match(r"(?:\$ )?(?:sudo (?:-\S+ )*)?make((?: [^\s#&|]+)*)", re.sub('="[^"]*"', "=", command.strip()))
        if words:
            yield from (word for word in words.group(1).split() if "=" not in word)


def commands_of(page):
    """The lines of code blocks, and the code within lines."""
    text = (ROOT / page).read_text()
    if page.endswith(".yaml"):
        return re.findall(r"(?:entry: |`)(make [^`\n]+)", text)
    return [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.split("\n")
    ] + (re.findall(r"`([^`\n]+)`", text))


def jobs():
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            yield pytest.param(job, id=f"{path.stem}/{name}")


@pytest.mark.parametrize("page", PAGES)
def test_each_target_of_make_that_a_page_names_exists(page):
    named = set(targets_in(commands_of(page)))

    assert named, f"expected {page} to name targets of make"
    assert named - TARGETS == set()


@pytest.mark.parametrize("job", list(jobs()))
def test_a_job_calls_only_targets_of_make_that_exist(job):
    axes = job.get("strategy", {}).get("matrix", {})
    runs = [step["run"] for step in job.get("steps", []) if "run" in step]
    for axis, values in axes.items():
        runs = [run.replace("${{ matrix.AXIS }}".replace("AXIS", axis), value) for run in runs for value in values]

    assert set(targets_in(line for run in runs for line in run.splitlines())) - TARGETS == set()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_only_read_and_pins_each_action_to_a_commit(path):
    text = path.read_text()
    actions = re.findall(r"uses: ([^.].*)$", text, re.MULTILINE)  # not the workflows of the repository itself

    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert [each for each in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[0-9]+(\.[0-9]+)+", each)] == []


def stages_in(workflow):
    """The stages that the jobs of a workflow name."""
    for job in yaml.safe_load((ROOT / ".github" / "workflows" / workflow).read_text())["jobs"].values():
        axes = job.get("strategy", {}).get("matrix", {})
        for named in re.findall(r'STAGES="([^"]*)"', " ".join(step.get("run", "") for step in job["steps"])):
            texts = [named]
            for axis, values in axes.items():
                texts = [
                    text.replace("${{ matrix.AXIS }}".replace("AXIS", axis), value)
                    for text in texts
                    for value in values
                ]
            yield from (stage for text in texts for stage in text.split())


@pytest.mark.parametrize(
    ("workflow", "tier", "elsewhere"),
    [
        ("ci.yml", "TEST", {"molecule", "docs"}),  # workflows of their own
        ("soak.yml", "SOAK", {"library-3.6", "library_oldest-3.6", "edge"}),  # no image has 3.6; edge is a part
    ],
)
def test_the_jobs_of_a_workflow_run_the_stages_of_a_tier(workflow, tier, elsewhere, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    assert set(stages_in(workflow)) == set(getattr(importlib.import_module("stages"), tier)) - elsewhere


def test_galaxy_gets_a_release_last_since_nothing_after_it_could_be_repeated():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert "make publish" in workflow["jobs"]["publish"]["steps"][-1]["run"]


def test_the_workflow_molecule_runs_each_scenario():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "molecule.yml").read_text())
    scenarios = sorted(path.parent.name for path in (ROOT / "extensions" / "molecule").glob("*/molecule.yml"))

    assert sorted(workflow["jobs"]["scenario"]["strategy"]["matrix"]["scenario"]) == scenarios


def test_each_path_that_contributing_names_exists():
    paths = [span.split("::")[0] for span in SPANS if re.fullmatch(r"[\w./-]+/[\w./-]*", span) and "NAME" not in span]
    made = (".venv", ".nox/")

    assert len(paths) > 30
    assert [path for path in paths if not path.startswith(made) and not (ROOT / path).exists()] == []


def test_each_test_that_contributing_names_exists():
    names = {span for span in SPANS if re.fullmatch(r"test_\w+", span) and not span.endswith("_")}
    tests = "\n".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != pathlib.Path(__file__)
    )

    assert len(names) > 2
    assert sorted(name for name in names if f"def {name}(" not in tests) == []
