# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the code cites of docs/contract.md exists there."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[3]
CONTRACT = ROOT / "docs" / "contract.md"
CITED_FROM = ("benchmarks", "demo", "extensions", "playbooks", "plugins", "roles", "scripts", "tests")
OUTPUT = ROOT / "tests" / "output"  # of ansible-test
CITATION = re.compile(r"docs/contract\.md, section ([0-9]+(?:\.[0-9]+)?)")
MENTION = re.compile(r"\bcontract\b", re.IGNORECASE)


def sections():
    """The numbers of the sections, and of the points that are numbered in them."""
    numbers, section = set(), ""
    for line in CONTRACT.read_text().splitlines():
        heading, point = re.match(r"## ([0-9]+)\. ", line), re.match(r"([0-9]+)\. ", line)
        section = heading.group(1) if heading else section
        numbers.add(section)
        if point:
            numbers.add(f"{section}.{point.group(1)}")
    return numbers


def lines():
    """Each line of code that mentions a contract, with its place."""
    for directory in CITED_FROM:
        for path in sorted((ROOT / directory).rglob("*")):
            if (
                path.suffix not in {".j2", ".md", ".py", ".yml"}
                or path == pathlib.Path(__file__)
                or OUTPUT in path.parents
            ):
                continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if MENTION.search(line):
                    yield f"{path.relative_to(ROOT)}:{number}", line


def test_each_mention_of_the_contract_cites_a_section_that_exists():
    known = sections()
    mentions = {place: CITATION.search(line) for place, line in lines()}

    assert mentions, "expected citations of docs/contract.md"
    assert [place for place, citation in mentions.items() if not citation or citation.group(1) not in known] == []


def test_the_sections_of_the_contract_are_numbered_without_gaps():
    numbers = [int(number) for number in re.findall(r"^## ([0-9]+)\. ", CONTRACT.read_text(), re.MULTILINE)]

    assert numbers == list(range(1, len(numbers) + 1))
