# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The poller's side of the spool: what it asks for, reads and counts as configured."""

import os
import shutil

import pytest
from _scheduled_events.runs import WEBHOOK_HOOK
from _scheduled_events.terms import UNKNOWN_HOOKS
from scheduled_events_poller.spool import MAX_RESULT, RunResult, format_result, parse_request
from scheduled_events_poller.unit.hooks import HookRequests, phases


@pytest.fixture
def requests(root_side):
    made = HookRequests(root_side.directories)
    made.prepare()
    return made


def test_a_request_is_written_as_a_whole_under_the_id_of_its_run(root_side, requests):
    job = root_side.job(hooks=("10-hook",))
    assert requests.ask(job) == ""
    with open(os.path.join(root_side.directories.requests, root_side.run_id), "rb") as file:
        assert parse_request(file.read(), root_side.run_id) == job
    assert os.listdir(root_side.directories.runtime) == ["requests"]


def test_a_request_is_replaced_by_its_repetition(root_side, requests):
    for ends_at in (1000.0, 900.0):
        requests.ask(root_side.job(ends_at=ends_at))
    with open(os.path.join(root_side.directories.requests, root_side.run_id), "rb") as file:
        assert parse_request(file.read(), root_side.run_id).ends_at == 900.0


def test_requests_that_nothing_takes_are_noticed(root_side, requests):
    requests.ask(root_side.job())
    assert [requests.unheard(now) for now in (100.0, 110.0)] == ["", ""]
    assert "the units scheduled-events-hooks.path and scheduled-events-hooks.service" in requests.unheard(110.5)
    os.unlink(os.path.join(root_side.directories.requests, root_side.run_id))
    assert requests.unheard(111.0) == ""
    requests.ask(root_side.job())  # once more, and so seen first now
    assert requests.unheard(121.0) == ""


def test_a_request_on_a_full_disk_could_not_be_asked_for_and_leaves_nothing(root_side, requests, monkeypatch):
    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    request = os.path.join(root_side.directories.requests, root_side.run_id)
    assert requests.ask(root_side.job()).endswith(f"No space left on device: '{request}'")
    assert (root_side.requests(), os.listdir(root_side.directories.runtime)) == ([], ["requests"])


def test_the_directory_of_requests_is_made_again_where_it_was_removed(root_side, requests):
    os.rmdir(root_side.directories.requests)
    assert requests.ask(root_side.job()) == ""
    assert root_side.requests() == [root_side.run_id]
    assert os.stat(root_side.directories.requests).st_mode & 0o777 == 0o700


def test_a_request_without_a_spool_could_not_be_asked_for(root_side, requests):
    shutil.rmtree(root_side.directories.runtime)
    with open(root_side.directories.runtime, "w"):
        pass
    assert requests.ask(root_side.job()).startswith("the request for the hooks cannot be written: ")


def test_what_crashes_left_half_written_is_removed(root_side):
    names = [".prepare.1234", ".status.json.1234", "boot", "status.json"]
    for name in names:
        with open(os.path.join(root_side.directories.runtime, name), "w"):
            pass
    HookRequests(root_side.directories).prepare()
    assert sorted(os.listdir(root_side.directories.runtime)) == ["boot", "requests", "status.json"]


def test_the_directory_of_the_requests_holds_no_request_that_is_not_whole(root_side, requests, monkeypatch):
    held, replace = [], os.replace

    def look(temporary, path):
        held.append(root_side.requests())
        replace(temporary, path)

    monkeypatch.setattr(os, "replace", look)
    assert requests.ask(root_side.job()) == ""
    assert (held, root_side.requests()) == ([[]], [root_side.run_id])


# Results


def leave_result(root_side, content):
    with open(os.path.join(root_side.directories.results, root_side.run_id), "wb") as file:
        file.write(content)


def test_the_result_of_a_run_is_read(root_side, requests):
    result = RunResult(root_side.run_id, "timeout", "10-hook: it was ended at its deadline", 60.0)
    leave_result(root_side, format_result(result))
    assert requests.result(root_side.run_id) == result


def test_the_result_of_a_runner_that_was_killed_before_it_removed_the_other_name_is_read(root_side, requests):
    result = RunResult(root_side.run_id, "ok", "", 1.0)
    leave_result(root_side, format_result(result))
    results = root_side.directories.results
    os.link(os.path.join(results, root_side.run_id), os.path.join(results, f".{root_side.run_id}.0123456789ab"))
    assert requests.result(root_side.run_id) == result


def test_a_running_run_has_no_result(root_side, requests):
    assert requests.result(root_side.run_id) is None


def test_a_result_that_is_too_long_is_not_read_whole(root_side, requests):
    leave_result(root_side, b" " * MAX_RESULT + format_result(RunResult(root_side.run_id, "ok", "", 1.0)))
    assert requests.result(root_side.run_id) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_not_a_file_is_not_a_result(root_side, requests, make):
    make(os.path.join(root_side.directories.results, root_side.run_id))
    assert requests.result(root_side.run_id) is None


# Phases


def test_a_phase_is_configured_where_a_hook_is_there(root_side):
    root_side.add_hook(phase="started")
    root_side.add_hook(name=".hidden", phase="recover")
    assert phases(root_side.directories.hooks, {}) == ({"started"}, {}, "")


def test_a_phase_is_configured_where_the_configuration_requires_a_hook(root_side):
    root_side.add_hook(name="10-a")
    required = {"prepare": ("10-a", "20-b"), "recover": ("90-return",)}
    assert phases(root_side.directories.hooks, required) == (
        {"prepare", "recover"},
        {"prepare": ("20-b",), "recover": ("90-return",)},
        "10-a/20-b",
    )


def test_the_hook_of_the_webhooks_prepares_nothing(root_side):
    root_side.add_hook(name=WEBHOOK_HOOK)
    assert phases(root_side.directories.hooks, {}) == ({"prepare"}, {}, "")
    root_side.add_hook(name="10-a")
    assert phases(root_side.directories.hooks, {}).preparation == "10-a"


def test_without_any_directory_only_what_is_required_is_configured(tmp_path):
    found = phases(str(tmp_path / "absent"), {"prepare": ("10-a",)})
    assert found == ({"prepare"}, {"prepare": ("10-a",)}, "10-a")


def test_a_phase_whose_directory_cannot_be_read_is_configured_and_misses_nothing(root_side):
    with open(os.path.join(root_side.directories.hooks, "failed.d"), "w"):
        pass  # fails with another error than that of a directory that does not exist, for root too
    assert phases(root_side.directories.hooks, {"failed": ("10-a",)}) == ({"failed"}, {}, "")


def test_a_directory_of_prepare_hooks_that_cannot_be_read_is_left_to_root(root_side):
    os.rmdir(os.path.join(root_side.directories.hooks, "prepare.d"))
    with open(os.path.join(root_side.directories.hooks, "prepare.d"), "w"):
        pass
    assert phases(root_side.directories.hooks, {}) == ({"prepare"}, {}, UNKNOWN_HOOKS)


def test_a_set_of_hooks_behind_a_link_counts(root_side, tmp_path):
    root_side.add_hook()
    os.symlink(root_side.directories.hooks, str(tmp_path / "link"))
    assert phases(str(tmp_path / "link"), {}).configured == {"prepare"}
