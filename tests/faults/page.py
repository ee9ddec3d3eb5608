# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write docs/fault-matrix.md from the outcomes of a run of all cells: python tests/faults/page.py DIRECTORY"""

import importlib
import json
import pathlib
import re
import sys
from typing import Any

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "fault-matrix.md"
BEGIN, END = "<!-- begin of the generated tables -->\n", "<!-- end of the generated tables -->\n"
LONGEST = 180  # characters of a message
SHORTER = (
    (r"http://[\w.]+:[0-9]+/metadata/scheduledevents\?api-version=[0-9-]+", "…"),
    (r"http://[\w.]+:[0-9]+", "http://…"),
    (r"Most likely the Metadata Security Protocol .*", "Most likely the Metadata Security Protocol of this VM …"),
    (r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", "…"),
    (r"(\.[0-9]) ?[0-9]+ s\b", r"\1 s"),
    (r"\s+", " "),
    (r"\|", r"\\|"),
)


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]) + "\n"


def shown(message: str) -> str:
    for pattern, shorter in SHORTER:
        message = re.sub(pattern, shorter, message)
    message = message if len(message) <= LONGEST else message[:LONGEST].rpartition(" ")[0] + " …"
    return f"`` {message} ``" if "`" in message else f"`{message}`" if message else ""


def outcomes() -> dict[tuple[str, str], str]:
    """The outcome of each fault and consumer, by their names, as the page has it."""
    lines = PAGE.read_text().partition(BEGIN)[2].strip().partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    heads, _rule, *rest = rows
    return {(row[0], head): cell for row in rest for head, cell in zip(heads[1:], row[1:], strict=True)}


def write(seen: dict[tuple[str, str], dict[str, Any]], faults: list[str], consumers: list[str]) -> None:
    """Replace the tables of the page. Every cell must have been seen."""
    missing = [
        f"{fault} with {consumer}" for fault in faults for consumer in consumers if (fault, consumer) not in seen
    ]
    if missing:
        sys.exit(f"{len(missing)} cells were not seen, such as {missing[0]}: run all of them with `make faults`")
    cells = [[fault, *(seen[fault, consumer]["outcome"] for consumer in consumers)] for fault in faults]
    told = [
        [fault, shown(seen[fault, consumers[0]]["message"]), shown(seen[fault, "webhook"]["message"])]
        for fault in faults
        if any(seen[fault, name]["message"] for name in (consumers[0], "webhook"))
    ]
    tables = table(["fault", *consumers], cells) + "\nMessages where a consumer fails or waits:\n\n"
    tables += table(["fault", consumers[0], "webhook, in the journal"], told)
    text = PAGE.read_text()
    PAGE.write_text(text.partition(BEGIN)[0] + BEGIN + "\n" + tables + "\n" + END + text.partition(END)[2])


if __name__ == "__main__":
    importlib.import_module("conftest")  # so that the next are found
    from consumers import CONSUMERS
    from faults import FAULTS

    results = [json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")]
    write(
        {(each["fault"], each["consumer"]): each for each in results},
        [fault.name for fault in FAULTS],
        [consumer.name for consumer in CONSUMERS],
    )
