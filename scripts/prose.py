# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find words and phrases that this project does not use, and show what to write instead.

It reads all text files that git tracks, or the files given as arguments; in Python files no names and keys. A phrase is
found also when it is broken over two lines.
"""

import io
import pathlib
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
HABITS = [
    (r"(?<!:param )(tells?|telling|told)", "show, report, identify"),
    (r"anew", "again"),
    (r"mend(s|ed|ing)?", "fix"),
    (r"time-outs?", "timeout"),
    (r"(?<!there )(is|are|was|were) no (?!longer\b|more\b|less\b|later\b|\W)\w+", "is not a, has no"),
    (
        r"(that|which|what|who) (is|are|was|were) (there|gone|left(?! (empty|out|open|to)\b))",
        "exists, is absent, remains",
    ),
    (r"somebody|anybody|nobody|whoever", "the program or person: another run, a user"),
    (r"as (is|was|were) (asked|told|wished|wanted)", "subject and verb: the run refuses"),
    (r"what (is|was|were|has been|had been) \w+ (is|are|was|were|stays?|counts?)", "a noun: the recorded state is"),
    (r"has had enough|lies? dead|in vain", "what happens: ends, fails, without effect"),
    (
        r"of (its|their) own(?=[^\w\s]| (also|and|at|for|from|in|of|on|or|so|that|to|which|with)\b|$)",
        "its own X, a separate X",
    ),
    (r"if need be", "if required, if missing"),
    (r"takes? (it|them) away", "remove"),
    (r"(?<=[.:;] )(?-i:One) (that|which|whose|who)", "the noun: A file that"),
    (
        r"(?<=- name: )(See|Say|Tell|Learn|Have|Let|Look|Note|Forget|Sum|Think|Expect|Go) \w+",
        "Ensure, Verify, Check, Read",
    ),
]
PATTERNS = [(re.compile(rf"(?<![\w-])(?:{habit})(?![\w-])", re.I), instead) for habit, instead in HABITS]
# Licences, generated files, and the files that contain the habits as data.
SKIPPED = re.compile(
    r"LICENSES/|COPYING|CHANGELOG\.md|changelogs/changelog\.yaml|scripts/prose\.py|tests/unit/scripts/test_prose\.py"
)
SUFFIXES = {".cfg", ".fact", ".j2", ".md", ".py", ".rst", ".sh", ".toml", ".yaml", ".yml"}
BREAK = "\0"  # where two texts that follow each other do not belong together


def python_prose(source: str) -> str:
    """The strings and comments of a program, each character at its place; a break in place of each name and key."""
    lines = source.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (row, start), (last_row, end) = token.start, token.end
        key = token.type == tokenize.STRING and row == last_row and " " not in token.string
        if key or token.type == tokenize.NAME:
            line = lines[row - 1]
            lines[row - 1] = line[:start] + BREAK * (end - start) + line[end:]
    # A string that continues on the next line
    return re.sub(r"(?<= )[\"']\n\s*f?[\"']", lambda match: re.sub(r"\S", " ", match[0]), "".join(lines))


def other_prose(source: str) -> str:
    """The text of other files, without the signs of comments; a break at each blank line and heading."""
    text = re.sub(r"(?m)^( *)(#+|\.\.|//)(?= )", lambda match: match[1] + " " * len(match[2]), source)
    return re.sub(r"\n(?=\s*\n)", BREAK, text)


def find(path: str, source: str) -> Iterator[str]:
    """Yield the findings in a file, as lines for the user."""
    program = path.endswith(".py") or source.startswith("#!/usr/bin/python")
    prose = other_prose(python_prose(source) if program else source)
    # Each run of white space counts as one space, also a line break and the indentation that follows.
    collapsed = re.sub(r"\s+", " ", prose)
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(collapsed):
            offsets = [each.start() for each in re.finditer(r"\s+|\S", prose)]
            line = source.count("\n", 0, offsets[match.start()]) + 1
            yield f"{path}:{line}: found: {match[0]}; write instead: {instead}"


def main() -> int:
    found = []
    listing = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False).stdout
    for name in sys.argv[1:] or listing.splitlines():
        path = ROOT / name
        text = path.suffix in SUFFIXES or not path.suffix
        if SKIPPED.match(name) or not text or not path.is_file() or path.is_symlink():
            continue
        try:
            found += sorted(find(name, path.read_text(encoding="utf-8")), key=lambda line: int(line.split(":")[1]))
        except (SyntaxError, UnicodeDecodeError, tokenize.TokenError) as error:
            found.append(f"{name}: cannot be read: {error}. Fix the file")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
