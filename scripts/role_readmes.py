# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the variables of each role into its README, from its argument specs; with --check, fail if one is not true.

A README holds them between the lines <!-- variables to NAME --> and <!-- /variables -->. Those up to NAME are the ones
that nearly all users need, and stand apart. Without them the line is <!-- variables -->.
"""

import pathlib
import re
import sys
from typing import Any

import yaml

ROLES = pathlib.Path(__file__).resolve().parent.parent / "roles"
BLOCK = re.compile(r"(<!-- variables(?: to (\w+))? -->\n).*?(?=<!-- /variables -->)", re.DOTALL)
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


def variables(role: pathlib.Path, last_of_front: str | None) -> str:
    """The variables of a role: those that nearly all users need, the others, and those of each other entry point."""
    entry_points = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    options = entry_points.pop("main")["options"]
    lines = []
    if last_of_front:
        names = list(options)
        front = {name: options.pop(name) for name in names[: names.index(last_of_front) + 1]}
        lines = [*table(front), "", "### More variables", ""]
    lines += table(options)
    for name, entry_point in entry_points.items():
        if entry_point.get("options"):
            lines += ["", f"### With `tasks_from: {name}`", "", *table(entry_point["options"])]
    return "".join(f"{line}\n" for line in lines)


def main() -> int:
    complaints = []
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        before = (role / "README.md").read_text()
        after, count = BLOCK.subn(lambda match, role=role: match[1] + variables(role, match[2]), before)
        if not count:
            complaints.append(f"{role.name}: expected lines <!-- variables --> and <!-- /variables --> in README.md")
        elif after != before and "--check" in sys.argv:
            complaints.append(f"{role.name}: README.md differs from argument_specs.yml. Run scripts/role_readmes.py")
        else:
            (role / "README.md").write_text(after)
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
