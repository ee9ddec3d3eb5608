# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lanes of time as SVG: for the report, and for the picture in the README. Private to the collection."""

from __future__ import annotations

import html
import typing as t


class Axis(t.NamedTuple):
    """Where a time is on the picture.

    :param first: the time at ``left``; ``last``: the one at ``left`` plus ``width``.
    :param unit: of the places, such as ``%``.
    """

    first: float
    last: float
    left: float
    width: float
    unit: str = ""

    def place(self, time: float) -> float:
        """The number of units from the left."""
        return round(self.left + (time - self.first) * self.width / (self.last - self.first), 1)

    def at(self, time: float) -> str:
        """The place as an attribute has it."""
        return f"{self.place(time):g}{self.unit}"


def box(axis: Axis, begin: float, end: float, *, top: float, height: float, style: str, title: str = "") -> str:
    """A stretch of time."""
    left = axis.place(begin)
    width = round(axis.place(end) - left, 1)
    place = f'x="{left:g}{axis.unit}" y="{top:g}" width="{width:g}{axis.unit}" height="{height:g}"'
    if not title:
        return f'<rect {place} rx="4" class="{style}"/>'
    return f'<rect {place} rx="4" class="{style}"><title>{html.escape(title)}</title></rect>'


def mark(axis: Axis, time: float, *, top: float, bottom: float, style: str) -> str:
    """A moment, as a line across the lane."""
    return f'<line x1="{axis.at(time)}" y1="{top:g}" x2="{axis.at(time)}" y2="{bottom:g}" class="{style}"/>'


def words(at: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    """A text at a place."""
    kind = f' class="{style}"' if style else ""
    return f'<text x="{at:g}" y="{y:g}"{kind} text-anchor="{anchor}">{html.escape(text)}</text>'
