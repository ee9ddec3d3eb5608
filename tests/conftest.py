# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the CPU seconds of each test and of its fixtures into the junit file; scripts/report.py shows them.

They are user and system time of this process and of its children, and of their children once they have ended.
"""

import os
import pathlib
import resource

import pytest

TICKS = os.sysconf("SC_CLK_TCK")
LEAST = 0.1  # seconds, for a fixture to be named


class Account:
    """What the current test has used."""

    began = 0.0
    fixtures = []


def spent():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + sum(map(spent_by, children()))


def children():
    """Return the processes that this one has started and not waited for, such as emulators."""
    task = pathlib.Path(f"/proc/self/task/{os.getpid()}/children")
    return task.read_text().split() if task.exists() else []


def spent_by(pid):
    """Return the seconds of a process and of its ended children."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0
    return sum(map(int, fields[11:15])) / TICKS


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol():
    Account.began, Account.fixtures = spent(), []
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef):
    before = spent()
    yield
    seconds = spent() - before
    if seconds >= LEAST:
        Account.fixtures.append(("cpu of " + fixturedef.argname, f"{seconds:.2f}"))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    if call.when == "teardown":
        item.user_properties += [("cpu", f"{spent() - Account.began:.2f}"), *Account.fixtures]
    yield
