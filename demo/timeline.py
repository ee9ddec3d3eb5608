# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw what happens from the announcement of an event to the return of its VMs, from a run: timeline.py FILE.svg

The emulator, with a clock that stands still unless this script moves it, announces a Redeploy of two VMs. The playbook
`respond` handles it. The script decides how many emulated minutes each step takes, and nothing else: which step follows
which is what happened. The picture holds the run's events as JSON, so it can be drawn again without a run.
"""

import html
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run  # found only through the path set above

FLEET = {"web1": "127.0.31.1", "web2": "127.0.31.2"}
LIMIT = 600.0  # seconds for the whole run; only so that one that hangs ends
MINUTE = 60
DRAINS = {"web1": 2, "web2": 2}  # minutes, one after the other
RETURNS = {"web1": 2, "web2": 2}
UNTIL_STARTED, STARTED_FOR = 2, 4  # minutes
SERVE = ["--port", "0", "--control", "127.0.0.1:0", "--manual-clock", "--rate-limit", "0"]
SERVE += ["--cotenant-delay", str(UNTIL_STARTED * MINUTE), "--exit-after", str(LIMIT + 60)]
TASKS = """
- name: Show that this phase has begun
  ansible.builtin.file: {{path: "{{{{ vm_directory }}}}/{phase}-begun", state: touch, mode: "0644"}}
- name: Work until the picture goes on
  ansible.builtin.wait_for: {{path: "{{{{ vm_directory }}}}/{phase}-may-end", timeout: {limit:.0f}}}
- name: Show that this phase has ended
  ansible.builtin.file: {{path: "{{{{ vm_directory }}}}/{phase}-ended", state: touch, mode: "0644"}}
"""

Event = dict[str, Any]  # minute, what, and where it is a VM's, vm


def record() -> list[Event]:
    """What happens in a run, in order."""
    with tempfile.TemporaryDirectory() as name, run.emulator(pathlib.Path(name), FLEET, SERVE) as url:
        directory = pathlib.Path(name)
        endpoints = {vm["name"]: vm["endpoint"] for vm in run.look(url, "state")["vms"]}
        for phase in ("prepare", "recover"):
            (directory / f"{phase}.yml").write_text(TASKS.format(phase=phase, limit=LIMIT))
        inventory = run.write_inventory(directory, endpoints, tasks=directory)
        run.control(url, "scenario", "platform_redeploy", *FLEET, "--started-for", str(STARTED_FOR * MINUTE))
        with run.playbook(directory, inventory) as process:
            return Recorder(directory, url, process).record()


class Recorder:
    """Moves the clock of a run from step to step, and notes what happened when."""

    def __init__(self, directory: pathlib.Path, url: str, process: "subprocess.Popen[bytes]") -> None:
        self._directory, self._url, self._process = directory, url, process
        self._give_up_at = time.monotonic() + LIMIT
        self._events: list[Event] = []

    def record(self) -> list[Event]:
        (scheduled,) = self._log("scheduled")
        self._note("announced", at=scheduled["at"])
        self._phase("prepare", DRAINS)
        self._until(lambda: self._log("approved"), "the acknowledgement")
        self._note_from_log("approved", "acknowledged")
        self._advance(UNTIL_STARTED)
        self._note_from_log("started", "started")
        self._advance(STARTED_FOR)
        self._note_from_log("removed", "over")
        self._phase("recover", RETURNS)
        self._until(lambda: self._process.poll() is not None, "the end of the playbook", running=False)
        if self._process.returncode != 0:
            sys.exit(f"The playbook ended with {self._process.returncode}:\n{self._playbook_log()}")
        self._note("NotBefore", at=scheduled["not_before"])
        began = run.moment(scheduled["at"])
        return [{"minute": (event.pop("at") - began).total_seconds() / MINUTE, **event} for event in self._events]

    def _phase(self, phase: str, minutes: dict[str, int]) -> None:
        """Let all VMs begin a phase, then end it one after the other."""
        for vm in minutes:
            self._until(self._trace(vm, f"{phase}-begun").exists, f"{phase} of {vm}")
            self._note(f"{phase} begun", vm=vm)
        for vm, duration in minutes.items():
            self._advance(duration)
            self._trace(vm, f"{phase}-may-end").touch()
            self._until(self._trace(vm, f"{phase}-ended").exists, f"the end of {phase} of {vm}")
            self._note(f"{phase} ended", vm=vm)

    def _trace(self, vm: str, name: str) -> pathlib.Path:
        return self._directory / vm / name

    def _note(self, what: str, *, at: str = "", **vm: str) -> None:
        moment = run.moment(at or run.look(self._url, "state")["now"])
        self._events.append({"at": moment, **vm, "what": what})

    def _note_from_log(self, kind: str, what: str) -> None:
        for entry in self._log(kind):
            self._note(what, at=entry["at"])

    def _advance(self, minutes: int) -> None:
        run.control(self._url, "advance", str(minutes * MINUTE))

    def _log(self, *kinds: str) -> list[dict[str, Any]]:
        return [entry for entry in run.look(self._url, "log")["log"] if entry["kind"] in kinds]

    def _until(self, condition: Callable[[], Any], what: str, *, running: bool = True) -> None:
        while not condition():
            if time.monotonic() > self._give_up_at or (running and self._process.poll() is not None):
                sys.exit(f"The run ended or hung before {what}:\n{self._playbook_log()}")
            time.sleep(0.1)

    def _playbook_log(self) -> str:
        return run.log_of(self._directory).read_text()


# The picture

WIDTH, HEIGHT = 960, 312
LEFT, RIGHT, MINUTES = 86, 20, 18  # the pixels beside the axis, and the minutes on it, from one before the announcement
TOP, LANE, BAR = 106, 58, 34
AXIS = TOP + 3 * LANE
NOT_BEFORE = "NotBefore: without an acknowledgement it starts here"
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #1f2933 }
.title { font-size: 16px; font-weight: 600 }
.small, .axis { font-size: 12px; fill: #52606d }
.lane { font-weight: 600 }
.card { fill: #ffffff; stroke: #cbd2d9 }
.service { fill: #b7e4c7 } .busy { fill: #ffe08a } .ready { fill: #cfe2ff } .away { fill: #f5b7b1 }
.scheduled { fill: #dfe7f5 } .started { fill: #f5b7b1 }
.rule { stroke: #52606d } .guide { stroke: #9aa5b1; stroke-dasharray: 3 4 }
.not-before { stroke: #9b2c2c; stroke-dasharray: 6 4 }
"""


def place(minute: float) -> float:
    """Where a minute is on the axis, which begins at -1."""
    return round(LEFT + (minute + 1) * (WIDTH - LEFT - RIGHT) / MINUTES, 1)


def words(at: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{at:g}" y="{y:g}"{kind} text-anchor="{anchor}">{html.escape(text)}</text>'


def stretch(lane: int, begin: float, end: float, style: str, label: str, centre: float | None = None) -> list[str]:
    top = TOP + lane * LANE
    left, width = place(begin), round(place(end) - place(begin), 1)
    middle = left + width / 2 if centre is None else place(centre)
    shape = f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{BAR:g}" rx="4" class="{style}"/>'
    return [shape, words(middle, top + BAR / 2 + 4.5, label, anchor="middle")]


def line(minute: float, style: str, top: float, bottom: float = AXIS) -> str:
    return f'<line x1="{place(minute):g}" y1="{top:g}" x2="{place(minute):g}" y2="{bottom:g}" class="{style}"/>'


def draw(timeline: list[Event]) -> str:
    """The picture of a recorded run."""
    at = {(event.get("vm"), event["what"]): event["minute"] for event in timeline}
    announced, acknowledged, started, over, not_before = (
        at[None, what] for what in ("announced", "acknowledged", "started", "over", "NotBefore")
    )
    last = MINUTES - 1
    parts = [*heading(timeline), *marks(announced, acknowledged, started, over)]
    parts += [words(14, TOP + 22, "Azure", "lane"), *stretch(0, announced, started, "scheduled", "Scheduled")]
    parts += stretch(0, started, over, "started", "Started")
    for lane, vm in enumerate(FLEET, 1):
        drained, back = at[vm, "prepare ended"], at[vm, "recover ended"]
        parts.append(words(14, TOP + lane * LANE + 22, vm, "lane"))
        parts += stretch(lane, -1, at[vm, "prepare begun"], "service", "serves")
        parts += stretch(lane, at[vm, "prepare begun"], drained, "busy", "prepares")
        parts += stretch(lane, drained, started, "ready", "prepared")
        parts += stretch(lane, started, at[vm, "recover begun"], "away", "moves to new hardware")
        parts += stretch(lane, at[vm, "recover begun"], back, "busy", "recovers")
        parts += stretch(lane, back, last, "service", "serves", centre=(not_before + last) / 2)
    parts += [line(not_before, "not-before", TOP - 26), *axis(at)]
    label = words(place(not_before) + 4, TOP - 34, NOT_BEFORE, anchor="end")
    return "\n".join([*parts, label, "</svg>"]) + "\n"


def heading(timeline: list[Event]) -> list[str]:
    events = "\n".join(json.dumps(event) for event in timeline)
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img" aria-labelledby="title desc">',
        # REUSE-IgnoreStart
        "<!-- Copyright (c) 2026 The maintops.scheduled_events authors -->",
        "<!-- SPDX-License-Identifier: GPL-3.0-or-later -->",
        # REUSE-IgnoreEnd
        "<!-- Written by demo/timeline.py from a run; do not edit. -->",
        '<title id="title">A Redeploy of two VMs, from the announcement to the return</title>',
        '<desc id="desc">Azure announces a Redeploy of web1 and web2, 15 minutes ahead. Both prepare. When both are'
        " prepared, the event is acknowledged once. Azure starts it, and when it is over, both recover and serve"
        " again, before the announced time has come.</desc>",
        f"<metadata>\n{html.escape(events, quote=False)}\n</metadata>",
        f"<style>{STYLE}</style>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" class="card"/>',
        words(14, 28, "A Redeploy of two VMs, from the announcement to the return", "title"),
        words(
            14,
            48,
            "Recorded from a run of the playbook respond against the emulator; minutes of emulated time",
            "small",
        ),
    ]


def marks(announced: float, acknowledged: float, started: float, over: float) -> list[str]:
    """What Azure and the play do to the event, above the lanes."""
    y = TOP - 14
    return [
        *(line(minute, "guide", TOP - 8) for minute in (announced, acknowledged, started, over)),
        words(place(announced) + 4, y, "announced", anchor="end"),
        words(place(acknowledged) + 4, y, "acknowledged, once", anchor="end"),
        words(place(started), y, "starts"),
        words(place(over), y, "over", anchor="middle"),
    ]


def axis(at: dict[tuple[str | None, str], float]) -> list[str]:
    y = AXIS - 8
    found = [f'<line x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}" class="rule"/>']
    for minute in sorted(set(at.values())):
        found += [
            line(minute, "rule", y, y + 6),
            words(place(minute), y + 21, f"{minute:g}", "axis", "middle"),
        ]
    return [*found, words(14, y + 21, "minutes", "axis")]


def recorded(picture: str) -> list[Event]:
    """The events that a picture was drawn from."""
    metadata = picture.partition("<metadata>")[2].partition("</metadata>")[0]
    return [json.loads(each) for each in html.unescape(metadata).strip().splitlines()]


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(draw(record()))
