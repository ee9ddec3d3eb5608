# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault with every consumer; what is seen becomes docs/fault-matrix.md (page.py)."""

import json
import os
import pathlib

import page
import pytest
from consumers import CONSUMERS, Cell
from faults import FAULTS

SEEN = os.environ.get("FAULTS_SEEN", "")  # a directory for the outcomes
# What each consumer does about each class of faults. The last two are expected below if the fault is in an answer.
EXPECTED = {
    "refused": "fails waits fails waits fails waits waits",
    "not allowed": "fails waits fails waits fails waits waits",
    "wrong": "fails waits fails waits fails waits waits",
    "unavailable": "retries waits retries waits waits waits waits",
    "no answer": "retries waits retries waits waits waits waits",
    "POST refused": "same same fails waits waits same same",
    "POST unavailable": "same same retries waits waits same same",
    "harmless": "same same same same same same same same same",
    "unreachable": "fails waits fails waits fails waits waits waits waits",
    "nameless": "fails same fails waits fails waits same waits waits",  # an open connection needs no name
    "partition": "fails fails fails same fails waits same same same",
}
ACKNOWLEDGE = ("`approve`", "unit", "`respond`")
LATER = (429, 500, 503)
# `make test` runs these, too.
DIAGONAL = {
    ("`status` 404", "`info`"),
    ("black hole", "`info`"),
    ("`reset`", "`wait`"),
    ("`slow`", "`wait`"),
    ("POST: `status` 500", "`approve`"),
    ("address of the VM gone", "unit"),
    ("`closed` 403", "`respond`"),
    ("`empty`", "rolling"),
    ("connections are reset", "event source"),
    ("`redirect` 302", "webhook"),
    ("name server gone", "webhook"),
    ("`hang`", "AWX job"),
}


def expected_of_receiver(kind, status):
    if status in LATER or kind in ("hang", "reset"):
        return "waits"
    return "drops" if status == 400 else "holds" if status else "taken"


def expected(fault, consumer):
    names = EXPECTED[fault.of].split()
    if fault.http and fault.of != "harmless":
        # No answer is one of the API of a controller.
        names += [expected_of_receiver(fault.http["kind"], fault.http.get("status")), "waits"]
    return names[CONSUMERS.index(consumer)]


def cells():
    for fault in FAULTS:
        for consumer in CONSUMERS:
            marks = [pytest.mark.diagonal] if (fault.name, consumer.name) in DIAGONAL else []
            name = f"{fault.name} {consumer.run.__name__}".replace("`", "").replace(" ", "-")
            yield pytest.param(fault, consumer, marks=marks, id=name)


@pytest.mark.parametrize(("fault", "consumer"), list(cells()))
def test_cell(fault, consumer, network, collection, ansible, tmp_path, request):
    cell = Cell(fault, network, collection, ansible, tmp_path)
    try:
        outcome, message = consumer.run(cell)
        if consumer.name not in ACKNOWLEDGE:
            assert cell.emulator.posts() == []
    finally:
        cell.lift()
        cell.stop()
    for sign in ("Traceback", "MODULE FAILURE", "Segmentation fault"):
        assert sign not in cell.output, cell.output
    assert outcome == expected(fault, consumer), cell.output
    assert message or outcome != "fails"
    if SEEN:
        seen = {"fault": fault.name, "consumer": consumer.name, "outcome": outcome, "message": message}
        (pathlib.Path(SEEN) / f"{request.node.callspec.id}.json").write_text(json.dumps(seen))
    else:
        assert page.outcomes()[fault.name, consumer.name] == outcome


def test_each_cell_of_make_test_exists():
    assert len([each for each in cells() if each.marks]) == len(DIAGONAL) == 12
