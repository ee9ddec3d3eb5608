# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Properties of the history, for any fact, any crash and any number of facts."""

import contextlib
import os
import shutil
import tempfile

import pytest

hypothesis = pytest.importorskip("hypothesis", reason="hypothesis runs on newer Pythons only")

from _scheduled_events import history  # noqa: E402
from _scheduled_events.checks import WrongValue  # noqa: E402
from _scheduled_events.history import Fact, cleaned, line_of, parse_line  # noqa: E402
from _scheduled_events.history_file import BEFORE, MAX_AGE, MAX_FILE, PRESENT, append, read  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

TEXTS = st.text(st.characters(), max_size=500)
SECONDS = st.floats(0, 253402300799)
FACTS = st.builds(
    Fact,
    kind=st.sampled_from(history.KINDS),
    time=SECONDS,
    source=st.sampled_from(history.SOURCES),
    vm_name=TEXTS,
    boot_id=TEXTS,
    run=TEXTS,
    event_id=TEXTS,
    event_type=TEXTS,
    event_status=TEXTS,
    event_source=TEXTS,
    phase=TEXTS,
    outcome=TEXTS,
    reason=TEXTS,
    by=TEXTS,
    via=TEXTS,
    rule=TEXTS,
    not_before=st.one_of(st.none(), SECONDS),
    resources=st.lists(TEXTS, max_size=30).map(tuple),
    resource_count=st.one_of(st.none(), st.integers(0, 10000)),
    announced_seconds=st.one_of(st.none(), st.floats(-1, 1e9)),
    measured_seconds=st.one_of(st.none(), st.floats(0, 1e9)),
)
NOW, DAY = 1600000000.0, 86400.0


def a_fact(number=0, *, time=NOW, **more):
    return Fact("seen", time, "poller", event_id=f"event-{number}", **more)


def facts_of(directory, now=NOW):
    return list(read(directory, now=now).facts)


@given(FACTS)
def test_every_fact_is_read_as_it_was_cleaned(fact):
    assert parse_line(line_of(fact)) == cleaned(fact)


@given(FACTS)
def test_every_fact_is_one_line_of_limited_length(fact):
    line = line_of(fact)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert len(line.decode("utf-8").splitlines()) == 1
    assert len(line) <= history.MAX_LINE


@given(FACTS)
def test_a_fact_is_cleaned_once(fact):
    assert cleaned(cleaned(fact)) == cleaned(fact)


@given(st.binary(max_size=200))
def test_no_line_ends_the_reader(line):
    with contextlib.suppress(WrongValue):
        parse_line(line)


@given(st.integers(0, 400))
def test_a_crash_loses_the_last_line_at_most(cut):
    directory = tempfile.mkdtemp()
    try:
        facts = [a_fact(number) for number in range(4)]
        made = directory
        append(made, facts, now=NOW)
        content = b"".join(map(line_of, facts))
        cut = min(cut, len(content))
        os.truncate(os.path.join(directory, PRESENT), len(content) - cut)
        whole = sum(len(content) - cut >= len(b"".join(map(line_of, facts[:count]))) - 1 for count in range(1, 5))
        assert facts_of(directory) == facts[:whole]
        assert read(directory, now=NOW).problems == ()
        append(made, [a_fact(9)], now=NOW)
        assert facts_of(directory) == [*facts[:whole], a_fact(9)]
    finally:
        shutil.rmtree(directory)


@given(st.lists(st.tuples(st.integers(1, 200), st.integers(0, 40), st.text(max_size=200)), max_size=20))
@settings(max_examples=20)  # each writes up to a megabyte
def test_the_files_keep_their_bounds_and_the_newest_facts(batches):
    directory = tempfile.mkdtemp()
    try:
        made, written, now = directory, [], NOW
        for count, days, reason in batches:
            now += days * DAY
            batch = [a_fact(len(written) + number, time=now, reason=reason * 2) for number in range(count)]
            append(made, batch, now=now)
            written += batch
        names = os.listdir(directory)
        assert set(names) <= {PRESENT, BEFORE}
        assert all(os.path.getsize(os.path.join(directory, name)) <= MAX_FILE for name in names)
        found = facts_of(directory, now)
        assert [fact.event_id for fact in found] == [fact.event_id for fact in written[len(written) - len(found) :]]
        assert all(now - fact.time <= MAX_AGE for fact in found)
        recent = [fact for fact in written if now - fact.time < 150 * DAY]
        assert len(found) >= min(len(recent), 300)
    finally:
        shutil.rmtree(directory)
