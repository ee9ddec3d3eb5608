# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault with every consumer; what is seen becomes docs/fault-matrix.md (scripts/fault_matrix.py)."""

import json
import os
import pathlib

import pytest
from consumers import CONSUMERS, Cell
from faults import FAULTS

SEEN = os.environ.get("FAULTS_SEEN", "")  # a directory for the outcomes


@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda consumer: consumer.run.__name__)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace("`", "").replace(" ", "-"))
def test_cell(fault, consumer, network, collection, ansible, tmp_path, request):
    cell = Cell(fault, network, collection, ansible, tmp_path)
    try:
        outcome, message = consumer.run(cell)
    finally:
        cell.lift()
        cell.stop()
    for sign in ("Traceback", "MODULE FAILURE", "Segmentation fault"):
        assert sign not in cell.output, cell.output
    assert outcome != "fails" or message
    if SEEN:
        seen = {"fault": fault.name, "consumer": consumer.name, "outcome": outcome, "message": message}
        (pathlib.Path(SEEN) / f"{request.node.name.replace('/', ' ')}.json").write_text(json.dumps(seen))
