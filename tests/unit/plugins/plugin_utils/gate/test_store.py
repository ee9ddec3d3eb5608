# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who a run of Ansible is, whether another one is dead, and what it remembers."""

import multiprocessing
import os
import platform

import pytest
from ansible.utils.vars import get_unique_id

from plugins.plugin_utils._ansible.run import owner_of
from plugins.plugin_utils._gate.store import Store


def test_a_run_is_called_after_its_machine_and_its_directory(tmp_path):
    run = Store(tmp_path).this_run()
    assert run.name == f"{platform.node()}/{tmp_path.name}"
    assert run.owner == owner_of(os.getppid())


def test_what_one_process_writes_the_next_one_reads(tmp_path):
    with Store(tmp_path).open() as content:
        content["long"] = "x" * 1000
    with Store(tmp_path).open() as content:
        assert content == {"long": "x" * 1000}
        content["long"] = ""
    with Store(tmp_path).open() as content:
        assert content == {"long": ""}


def test_what_fails_changes_nothing(tmp_path):
    def change_and_fail():
        with Store(tmp_path).open() as content:
            content["half"] = True
            raise KeyError

    with pytest.raises(KeyError):
        change_and_fail()
    with Store(tmp_path).open() as content:
        assert content == {}


def test_each_host_reads_the_last_decision_of_its_own_gate(tmp_path):
    store = Store(tmp_path)
    store.note_decision("play", ["web1", "web2"], {"open": False})
    store.note_decision("play", ["web1"], {"open": True})
    store.note_decision("another play", ["web3"], {"open": True})
    assert [store.decision("play", host) for host in ("web1", "web2", "web3")] == [
        {"open": True},
        {"open": False},
        None,
    ]


def test_of_a_host_that_several_plays_maintain_the_last_one_counts(tmp_path):
    store, plays = Store(tmp_path), [get_unique_id() for _play in range(2)]  # as ansible-core does
    with store.open() as content:
        content["progress"] = {
            plays[1]: {"web1": "done", "web2": "began"},
            plays[0]: {"web1": "began", "web2": "done", "web3": "began", "web4": "failed"},
        }
    assert store.begun() == {"web2", "web3"}


def test_no_change_of_several_processes_at_once_is_lost(tmp_path):
    def count():
        for _number in range(50):
            with Store(tmp_path).open() as content:
                content["n"] = content.get("n", 0) + 1

    running = [multiprocessing.get_context("fork").Process(target=count) for _process in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    with Store(tmp_path).open() as content:
        assert content == {"n": 150}
