# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The list of modules that antsibull-docs writes, with internal modules apart."""

import re

INTERNAL = " -- Internal: "
NOTE = "These modules are internal. They belong to a role, and may change with it in any release:"


def set_apart(text: str) -> str:
    """The page with the internal modules after the others, in the list and in the navigation."""
    lines = re.findall(r"^\* :ansplugin:`\w+ module .*\n", text, flags=re.MULTILINE)
    internal = [line for line in lines if INTERNAL in line]
    others = [line for line in lines if line not in internal]
    names = re.findall(r"^    \w+_module\n", text, flags=re.MULTILINE)
    last = {re.search(r"`(\w+) module", line)[1] for line in internal}  # type: ignore[index]
    pages = sorted(names, key=lambda name: name.strip().removesuffix("_module") in last)
    shown = [line.partition(INTERNAL) for line in internal]
    apart = "".join(f"{link} -- {text[:1].upper()}{text[1:]}" for link, _kind, text in shown)
    text = text.replace("".join(lines), f"{''.join(others)}\n{NOTE}\n\n{apart}")
    return text.replace("".join(names), "".join(pages))
