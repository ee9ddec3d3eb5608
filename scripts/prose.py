# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find words and phrases that this project does not use, and show what to write instead.

It reads all text files that git tracks, or the files given as arguments. In Python files it reads only strings and
comments. A phrase is found also when it is broken over two lines.
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
QUOTES = re.compile(r"^[A-Za-z]*(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$")
QUOTES_OF_FSTRINGS = {getattr(tokenize, name, -1) for name in ("FSTRING_START", "FSTRING_END")}  # since Python 3.12
TEXTS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1), *QUOTES_OF_FSTRINGS}
BREAK = "\0"  # where two texts that follow each other do not belong together


def python_prose(source: str) -> str:
    """The strings and comments of a program, each character at its place; a break in place of code."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    prose = list(re.sub(r"\S", BREAK, source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in TEXTS:
            continue
        start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
        text = source[start:end]
        if token.type == tokenize.COMMENT:
            text = " " + text[1:]
        elif token.type == tokenize.STRING:
            text = QUOTES.sub(lambda match: " " * len(match[0]), text)
            if " " not in text.strip():  # a key or another name
                text = re.sub(r"\S", BREAK, text)
        elif token.type in QUOTES_OF_FSTRINGS:
            text = " " * len(text)
        prose[start:end] = text
    return "".join(prose)


def other_prose(source: str) -> str:
    """The text of other files, without the signs of comments; a break at each blank line and heading."""
    text = re.sub(r"(?m)^( *)(#+|\.\.|//)(?= )", lambda match: match[1] + " " * len(match[2]), source)
    return re.sub(r"\n(?=\s*\n)", BREAK, text)


def find(path: str, source: str) -> Iterator[str]:
    """Yield the findings in a file, as lines for the user."""
    program = path.endswith(".py") or source.startswith("#!/usr/bin/python")
    prose = python_prose(source) if program else other_prose(source)
    # Each run of white space counts as one space, also a line break and the indentation that follows.
    collapsed = re.sub(r"\s+", " ", prose)
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(collapsed):
            offsets = [each.start() for each in re.finditer(r"\s+|\S", prose)]
            line = source.count("\n", 0, offsets[match.start()]) + 1
            yield f"{path}:{line}: found: {match[0]}; write instead: {instead}"


def tracked_files() -> list[str]:
    listing = subprocess.check_output(["git", "ls-files", "-z"], text=True, cwd=ROOT)
    return [name for name in listing.split("\0") if name and not SKIPPED.match(name)]


def main() -> int:
    found = 0
    for name in sys.argv[1:] or tracked_files():
        path = ROOT / name
        if not path.is_file() or path.is_symlink() or (path.suffix and path.suffix not in SUFFIXES):
            continue
        try:
            lines = sorted(find(name, path.read_text(encoding="utf-8")), key=lambda line: int(line.split(":")[1]))
        except (SyntaxError, UnicodeDecodeError, tokenize.TokenError) as error:
            lines = [f"{name}: cannot be read: {error}. Fix the file"]
        found += len(lines)
        print("\n".join(lines), end="\n" if lines else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
