# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the CPU seconds of each test and of its fixtures into the junit file; scripts/report.py shows them.

They are user and system time of this process and of its children, and of their children once they have ended.
"""

import os
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


def read(path):
    """Return the content of a small file of /proc; empty if it does not exist. For each fixture, pathlib is slow."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the process has ended
        return b""
    finally:
        os.close(descriptor)


def children():
    """Return the processes that this one has started and not waited for, such as emulators."""
    return read(f"/proc/self/task/{os.getpid()}/children").split()


def spent_by(pid):
    """Return the seconds of a process and of its ended children."""
    fields = read(b"/proc/%s/stat" % pid).rpartition(b")")[2].split()
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
