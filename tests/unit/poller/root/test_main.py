# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands of root's side."""

import pathlib

import pytest
from scheduled_events_poller.root import dispatcher, main, runner


def test_a_dispatcher_that_lacks_something_now_ends_with_one_line():
    option = "--hooks-runtime-directory=/proc/missing"
    assert str(main.main([option, "dispatch"])).startswith("requests wait: [Errno 2] No such file or directory")


@pytest.mark.parametrize("command", ["run", "ended"])
def test_a_run_whose_result_cannot_be_stored_ends_with_one_line_and_for_good(root_side, command, capsys):
    root_side.accept()
    pathlib.Path(root_side.directories.results).rmdir()
    pathlib.Path(root_side.directories.results).touch()
    options = [f"--{name.replace('_', '-')}-directory={path}" for name, path in root_side.directories._asdict().items()]
    assert main.main([*options, command, root_side.run_id]) == 74
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"{root_side.run_id}: its result cannot be stored: [Errno 17] File exists: ")
    assert root_side.jobs() == [root_side.run_id]


def test_a_hook_is_killed_as_many_seconds_after_its_deadline_as_the_page_about_hooks_says():
    page = pathlib.Path(__file__).parents[4] / "docs" / "hooks.md"
    assert "gets SIGTERM, and SIGKILL three seconds later" in page.read_text()
    assert runner.GRACE == 3.0


def test_root_limits_what_the_user_of_the_poller_can_have_it_do_as_the_security_model_says():
    page = (pathlib.Path(__file__).parents[4] / "docs" / "security-model.md").read_text()
    bounds = (dispatcher.MAX_JOBS, dispatcher.MAX_REQUESTS)
    assert "At most {} requests run at a time, {} start at once, and starting them takes".format(*bounds) in page
    assert f"At most {dispatcher.MAX_RESULTS:,} results, outputs and memories of events are kept." in page


@pytest.mark.parametrize(
    "arguments", [[], ["run"], ["run", "1", "2"], ["other", "1"], ["--other-directory=/", "dispatch"]]
)
def test_another_command_shows_how_it_is_used(arguments):
    assert main.main(arguments) == main.__doc__
