# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/prose.py: each habit is found, with its line, and plain sentences are not."""

import pathlib
import sys

import pytest
from loading import loaded

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "prose.py"


def load():
    return loaded(SCRIPT)


prose = load()


def phrases(path, source):
    """The phrases found in a file."""
    return [line.partition("found: ")[2].partition(";")[0] for line in prose.find(path, source)]


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("The status tells what runs.", "tells"),
        ("VMs are told by their address.", "told"),
        ("It searches anew.", "anew"),
        ("Mend the configuration.", "Mend"),
        ("Raise the time-out.", "time-out"),
        ("The file is no script.", "is no script"),
        ("It removes a mark that is left.", "that is left"),
        ("Forget an event that is gone.", "that is gone"),
        ("Nobody listens at the port.", "Nobody"),
        ("It belongs to somebody else.", "somebody"),
        ("Whoever adds a provider writes a file.", "Whoever"),
        ("Refused, as was asked, is the event.", "as was asked"),
        ("What was found is restored.", "What was found is"),
        ("The user has had enough.", "has had enough"),
        ("It asks in vain.", "in vain"),
        ("Hooks run in units of their own.", "of their own"),
        ("The directory is made if need be.", "if need be"),
        ("It takes it away.", "takes it away"),
        ("Files stay. One that changed is replaced.", "One that"),
        ("- name: See that the unit runs", "See that"),
        ("- name: Look for the unit", "Look for"),
        ("# It asks\n# in\n# vain.", "in vain"),
    ],
)
def test_a_habit_is_found(sentence, phrase):
    assert phrases("page.md", sentence + "\n") == [phrase]


def test_every_habit_has_a_sentence_in_this_file():
    sentences = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert [pattern.pattern for pattern, _instead in prose.PATTERNS if not pattern.search(sentences)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no event.",
        "The event is no longer announced.",
        "If there is no document, the poll fails.",
        "The timeout is 5 seconds.",
        "A survey that is left empty selects all events.",
        "One of `wait` and `skip`.",
        "- name: Ensure the unit is enabled",
        "The storyteller recommends amends.",
        "# The file\n\n# is no",
    ],
)
def test_a_plain_sentence_is_not_found(sentence):
    assert phrases("page.md", sentence + "\n") == []


def test_a_program_is_read_in_its_strings_and_comments_only():
    source = (
        "def tell(nobody):\n"
        '    """Ask the service\n'
        '    anew."""\n'
        "    anew = {'told': 1}  # in vain\n"
        '    raise ValueError(f"{anew} is no "\n'
        '                     f"number of {nobody}")\n'
    )
    assert [line.split(";")[0] for line in prose.find("module.py", source)] == [
        "module.py:3: found: anew",
        "module.py:5: found: is no number",
        "module.py:4: found: in vain",
    ]


def test_a_phrase_in_a_file_fails_the_check_and_shows_line_and_advice(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("Good.\n\nThe status tells it.\n", encoding="utf-8")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["prose.py", "page.md"])
    assert prose.main() == 1
    assert capsys.readouterr().out == "page.md:3: found: tells; write instead: show, report, identify\n"


def test_a_plain_file_passes_the_check(tmp_path, monkeypatch, capsys):
    (tmp_path / "page.md").write_text("The status shows the events.\n", encoding="utf-8")
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["prose.py", "page.md"])
    assert (prose.main(), capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(("name", "content"), [("page.md", b"\xff"), ("program.py", b"x = (")])
def test_a_file_that_cannot_be_read_fails_the_check_and_is_named(tmp_path, monkeypatch, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["prose.py", name])

    assert prose.main() == 1
    assert capsys.readouterr().out.startswith(f"{name}: cannot be read: ")
