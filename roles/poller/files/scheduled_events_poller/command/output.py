# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all commands share: the paths that were chosen, failures, and output for terminals and for programs."""

import argparse
import json
import os
import sys
from typing import Any, Sequence, TextIO, Tuple

from .. import spool
from ..unit import poller


class CommandError(Exception):
    """The command cannot be carried out. The message contains the reason and an instruction."""


def places(chosen: argparse.Namespace) -> poller.Places:
    directories = spool.Directories(chosen.hooks_directory, chosen.runtime_directory, chosen.hooks_runtime_directory)
    return poller.Places(chosen.state_file, directories, chosen.drill_directory)


def histories(chosen: argparse.Namespace) -> Tuple[str, str]:
    """The directories of the histories of the polling unit and of the roles."""
    return places(chosen).history_directory, chosen.roles_directory


def complain(message: str) -> None:
    """Write to standard error, also if the text contains unprintable characters."""
    _write(sys.stderr, message)


def say(text: str) -> None:
    """Write a line to standard output."""
    _write(sys.stdout, text)


def _write(stream: TextIO, text: str) -> None:
    """Write a line, unless it has no reader: the command goes on without its output."""
    try:
        stream.buffer.write(_printable(text))
        stream.flush()
    except OSError as error:
        # Python writes the rest once more at its end, which changes the exit status.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError):  # whose reader, such as head, has ended
            raise CommandError(f"the output cannot be written: {error.strerror}") from error


def say_json(value: Any) -> None:
    """Write a value as JSON."""
    say(json.dumps(value, indent=2))


def say_table(rows: Sequence[Sequence[str]]) -> None:
    """Write rows of cells, of which the first row is the heading, in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def _printable(text: str) -> bytes:
    # Event text may hold anything; a terminal gets no control characters, and no locale makes us fail.
    shown = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)
    return shown.encode("utf-8", "replace") + b"\n"
