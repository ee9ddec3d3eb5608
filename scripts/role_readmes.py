# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the variables of each role into its README, from its argument specs; with --check, fail if one is not true.

A README holds them between the lines <!-- variables --> and <!-- /variables -->. Those in front.yml stand apart.
"""

import pathlib
import re
import sys
from typing import Any

import yaml

ROLES = pathlib.Path(__file__).resolve().parent.parent / "roles"
FRONT: dict[str, list[str]] = yaml.safe_load(pathlib.Path(__file__).with_name("front.yml").read_text())
BEGIN, END = "<!-- variables -->", "<!-- /variables -->"
MARKUP = re.compile(r"\b[A-Z]\(([^()]*)\)")  # Ansible's V(x), O(x), M(x), C(x) …


def text(value: str | list[str]) -> str:
    """A description as one paragraph of Markdown."""
    joined = value if isinstance(value, str) else " ".join(value)
    return MARKUP.sub(lambda match: "`" + match.group(1).partition("#")[0] + "`", joined).replace("|", "\\|").strip()


def default_of(option: dict[str, Any]) -> str:
    if option.get("required"):
        return "required"
    return f"`{yaml.safe_dump(option.get('default'), default_flow_style=True).removesuffix(chr(10) + '...' + chr(10))}`"


def rows(options: dict[str, Any], prefix: str = "") -> list[str]:
    """A row for each variable, and for each key of those that are dictionaries or lists of them."""
    found = []
    for name, option in options.items():
        kind = option.get("type", "str") + (f" of {option['elements']}" if "elements" in option else "")
        choices = f" One of {', '.join(f'`{choice}`' for choice in option['choices'])}." if "choices" in option else ""
        default = default_of(option).replace("\n", " ").replace(" `", "`")
        found.append(f"| `{prefix}{name}` | {kind} | {default} | {text(option['description'])}{choices} |")
        found += rows(option.get("options", {}), prefix=f"{prefix}{name}.")
    return found


def table(options: dict[str, Any]) -> list[str]:
    return ["| variable | type | default | meaning |", "|---|---|---|---|", *rows(options)]


def variables(role: pathlib.Path) -> str:
    """The variables of a role: those that nearly all users need, the others, and those of each other entry point."""
    entry_points = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    options = entry_points.pop("main")["options"]
    front = {name: options.pop(name) for name in FRONT.get(role.name, ())}
    lines = [*table(front), "", "### More variables", "", *table(options)] if front else table(options)
    for name, entry_point in entry_points.items():
        if entry_point.get("options"):
            lines += ["", f"### With `tasks_from: {name}`", "", *table(entry_point["options"])]
    return "\n".join([BEGIN, *lines, END])


def order_complaint(role: pathlib.Path) -> str:
    """What is wrong with the order of the argument specs; empty if nothing is."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    front = FRONT.get(role.name, [])
    if list(specs["main"]["options"])[: len(front)] == front:
        return ""
    return f"{role.name}: the argument specs do not begin with the variables of scripts/front.yml. Use their order"


def main() -> int:
    check = "--check" in sys.argv
    complaints = []
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        readme = role / "README.md"
        if not readme.exists() or BEGIN not in readme.read_text():
            complaints.append(f"{role.name}: expected a README.md with a line {BEGIN} and a line {END}")
            continue
        if order_complaint(role):
            complaints.append(order_complaint(role))
            continue
        before = readme.read_text()
        head, _begin, rest = before.partition(BEGIN)
        after = head + variables(role) + rest.partition(END)[2]
        if after != before and check:
            complaints.append(
                f"{role.name}: README.md differs from the argument specs. Run python scripts/role_readmes.py"
            )
        elif after != before:
            readme.write_text(after)
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
