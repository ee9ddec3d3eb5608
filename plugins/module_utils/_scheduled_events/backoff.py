# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pause before something that failed is tried again."""

MOST_DOUBLINGS = 32  # more than any limit needs; a number of failures can be anything


def pause_after(failures: int, *, first: float, longest: float) -> float:
    """Seconds until the next attempt: twice as long with each failure, up to the longest.

    :param failures: in a row, before the one that this pause follows.
    """
    return min(first * 2.0 ** min(failures, MOST_DOUBLINGS), longest)
