# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables and the picture of docs/measurements.md: scripts/figures.py [--measure RUNS [--operator FILE]] [OUTPUT …]

The picture holds the results as JSON, a line for each run of a benchmark. So both can be written again without a run,
which is what happens without arguments. OUTPUT is a file with the output of benchmarks/side_by_side.py or
benchmarks/respond_scale.py; `--measure` runs both so often. `make figures` does that.
"""

import argparse
import html
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "measurements.md", ROOT / "docs" / "images" / "measurements.svg"
sys.path.insert(0, str(ROOT / "benchmarks"))
import side_by_side  # noqa: E402 - found only through the path set above

HOSTS, EVENTS = (1, 4, 16), 4
SIDES = {"by_hand": "by hand", "free": "`respond`, free", "linear": "`respond`, linear"}
WIDTH, LEFT, BAR, ROW = 480, 150, 230, 22  # pixels; a bar begins at LEFT, and the longest one is BAR long
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 15px; fill: #1f2933 }
.title { font-weight: 600 }
.card { fill: #ffffff; stroke: #cbd2d9 }
.own { fill: #7fb0f5 } .other { fill: #cbd2d9 } .range { stroke: #1f2933; stroke-width: 1.5 }
"""


def measure(runs, operator):
    """The results of both benchmarks, once for each run."""
    results = []
    beside = ["side_by_side.py", "--runs", "1", "--events", str(EVENTS)]
    beside += ["--operator", operator] if operator else []
    scale = ["respond_scale.py", "--shapes", "one", "--hosts", *map(str, HOSTS)]
    for name, *options in [beside, scale] * runs:
        command = [sys.executable, str(ROOT / "benchmarks" / name), *options]
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
        print(output, flush=True)  # a missed target is shown there, and is a result as well
        results.append(result_of(output))
    return results


def result_of(output):
    """The result in the output of a benchmark, without digits that mean nothing."""
    lines = [line for line in output.splitlines() if line.startswith('{"')]
    if not lines:
        sys.exit("The benchmark wrote no line of JSON: it has not come to its end. Its error is shown above.")
    return json.loads(lines[-1], parse_float=lambda text: round(float(text), 3))


def recorded(picture):
    """The results that a picture holds."""
    metadata = picture.partition("<metadata>")[2].partition("</metadata>")[0]
    return [json.loads(line) for line in html.unescape(metadata).strip().splitlines()]


def beside_of(results):
    """The runs of side_by_side.py as one with several values."""
    found = [result for result in results if "clients" in result]
    clients = {}
    for result in found:
        for name, figures in result["clients"].items():
            for figure, values in figures.items():
                clients.setdefault(name, {}).setdefault(figure, []).extend(values)
    return {"machine": found[-1]["machine"], "clients": clients}


def respond_of(results):
    """Values by number of hosts, side, and figure."""
    found = {}
    for row in [row for result in results for row in result.get("rows", [])]:
        for side in SIDES:
            for figure in ("seconds", "cpu"):
                found.setdefault(row["hosts"], {}).setdefault(side, {}).setdefault(figure, []).append(row[side][figure])
    return found


def tables(results):
    """The generated part of the page."""
    beside, respond = beside_of(results), respond_of(results)
    rows = [["hosts", *(f"{title}, {unit}" for unit in ("s", "CPU s") for title in SIDES.values())]]
    for hosts, sides in respond.items():
        cells = [side_by_side.spread(sides[side][figure]) for figure in ("seconds", "cpu") for side in SIDES]
        rows.append([str(hosts), *cells])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    runs = [sum(key in result for result in results) for key in ("clients", "rows")]
    about = (
        f"Median (least to most) of {runs[0]} runs of the clients and {runs[1]} of `respond`. "
        f"The machine: {beside['machine']}."
    )
    second = [lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]
    return "\n".join([about, "", side_by_side.table(beside), "", *second, ""])


def page_with(page, results):
    """The page with these results."""
    return re.sub(
        r"(<!-- figures -->\n).*(<!-- /figures -->)",
        lambda found: f"{found[1]}\n{tables(results)}\n{found[2]}",
        page,
        flags=re.DOTALL,
    )


def words(at, y, text, style="", anchor="start"):
    return f'<text x="{at:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{html.escape(text)}</text>'


def panel(top, title, bars, length):
    """Lines of SVG for bars (label, whether ours, values), and where the next panel begins."""
    parts, y = [words(14, top + 20, title, "title")], top + 30
    longest = max(length(max(values)) for _label, _own, values in bars)
    for label, own, values in bars:
        low, middle, high = (
            length(value) / longest * BAR for value in (min(values), statistics.median(values), max(values))
        )
        parts += [
            words(LEFT - 8, y + 15, label, anchor="end"),
            f'<rect x="{LEFT}" y="{y}" width="{middle:.1f}" height="{ROW - 4}" class="{"own" if own else "other"}"/>',
            f'<line x1="{LEFT + low:.1f}" x2="{LEFT + high:.1f}" y1="{y + 9}" y2="{y + 9}" class="range"/>',
            words(LEFT + high + 6, y + 15, side_by_side.spread(values).partition(" ")[0]),
        ]
        y += ROW
    return parts, y + 14


def draw(results):
    """The picture."""
    clients, respond, parts, top = beside_of(results)["clients"], respond_of(results), [], 8
    panels = [
        (title, [(name, name == "unit", clients[name][figure]) for name in clients], length)
        for title, figure, length in (
            ("CPU of a poll, ms (logarithmic)", "cpu_ms", lambda value: math.log10(1 + 10 * value)),
            ("Memory, MiB", "memory_mib", float),
            ("Announcement to acknowledgement, s at most", "acknowledged_s", float),
        )
    ]
    bars = [
        (f"{hosts}, {title.rpartition(', ')[2]}", side != "by_hand", sides[side]["seconds"])
        for hosts, sides in respond.items()
        for side, title in SIDES.items()
    ]
    for each in [*panels, ("respond by hosts: start to acknowledgement, s", bars, float)]:
        lines, top = panel(top, *each)
        parts += lines
    metadata = html.escape("\n".join(json.dumps(result) for result in results), quote=False)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}"'
        ' role="img" aria-labelledby="title">',
        # REUSE-IgnoreStart
        "<!-- Copyright (c) 2026 The maintops.scheduled_events authors -->",
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->",
        # REUSE-IgnoreEnd
        "<!-- Written by scripts/figures.py from runs; do not edit. -->",
        '<title id="title">Cost and speed of the clients, and of respond beside a playbook by hand</title>',
        f"<metadata>\n{metadata}\n</metadata>",
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{top - 1}" rx="8" class="card"/>',
    ]
    return "\n".join([*head, *parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("outputs", nargs="*", type=pathlib.Path, metavar="OUTPUT")
    parser.add_argument("--measure", type=int, default=0, metavar="RUNS")
    parser.add_argument("--operator", help="seoperator2.py of scheduled-events-operator-2")
    chosen = parser.parse_args()
    results = [result_of(path.read_text()) for path in chosen.outputs] + measure(chosen.measure, chosen.operator)
    results = results or recorded(PICTURE.read_text())
    PICTURE.write_text(draw(results))
    PAGE.write_text(page_with(PAGE.read_text(), results))


if __name__ == "__main__":
    main()
