# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mutated documents through all that reads them. `make fuzz` sends more of them, and others each time."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import pytest

FUZZ = pathlib.Path(__file__).parents[2] / "fuzz"
sys.path.insert(0, str(FUZZ))
import fuzz  # noqa: E402 - found only through the path set above

# Each tier has those of the tier before it, and more; `make soak` also runs `make fuzz`, with a million new ones.
DOCUMENTS = {"quick": 1_000, "test": 5_000, "soak": 20_000}[os.environ.get("TIER", "test")]
SEED = os.environ.get("SEED", "1")
NO_LIMIT = 3600.0  # seconds; only so that a hang is named


@pytest.mark.timeout(NO_LIMIT)
def test_no_document_raises_anything_but_the_errors_of_the_library():
    command = [sys.executable, str(FUZZ / "fuzz.py"), "--seed", SEED, "--documents", str(DOCUMENTS), "--jobs", "1"]
    run = subprocess.run(
        [*command, f"--seconds={NO_LIMIT}"], capture_output=True, text=True, timeout=NO_LIMIT, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    reached = json.loads(run.stdout.splitlines()[-1])
    assert reached["documents"] == DOCUMENTS
    # That they get far enough: not all are refused, and what is read has consequences.
    for count in ("events", "hooks", "approvals", "restarts"):
        assert reached[count] >= DOCUMENTS // 50, f"only {reached[count]} {count}"
    assert reached["refused"] <= DOCUMENTS // 2


@pytest.fixture
def live():
    """Live a life of the seed 5; what was wrong."""

    def live(number):
        wrong = fuzz.Wrong()
        fuzz.live(5, number, NO_LIMIT, wrong)
        return wrong

    return live


def test_a_seed_gives_the_same_documents_again():
    first, again, other = ([*fuzz.Life(seed, 0).documents()] for seed in (5, 5, 6))
    assert first == again != other


def test_a_foreign_exception_is_reported_with_the_command_that_repeats_it(live, monkeypatch):
    def parse(_body, *, api_version):
        raise KeyError(api_version)

    monkeypatch.setattr(fuzz, "parse", parse)
    ((kind, text),) = live(3).first.items()
    assert kind.startswith("KeyError at test_fuzz.py:")
    assert text.startswith("document 0 of make fuzz SEED=5 LIFE=3\n")


def test_a_text_that_cannot_be_shown_is_reported(live, monkeypatch):
    """Whatever the document is."""
    monkeypatch.setattr(fuzz, "parse", lambda *_body, **_version: None)
    forged = fuzz.terms.Report("", fuzz.terms.ReportKind.ENDED, "prepare", "failed", "a\nb")
    monkeypatch.setattr(fuzz.engine, "step", lambda state, *_rest: (state, [forged]))
    assert list(live(3).times) == ["a report"]


def test_a_slow_document_is_reported(monkeypatch):
    ticks = itertools.count(step=3.0)
    monkeypatch.setattr(fuzz.time, "process_time", lambda: next(ticks))
    wrong = fuzz.Wrong()
    fuzz.live(5, 3, 2.0, wrong)
    assert list(wrong.times) == ["it took "]
