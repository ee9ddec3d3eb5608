# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a controller says of a job, and all that does not count as its word."""

import json

import pytest
from web_servers import Handler, WebServer

from plugins.plugin_utils._ansible.run import has_ended, this_job

pytestmark = pytest.mark.core

TOKEN = "t0k3nt0k3n"


@pytest.fixture
def controller():
    class Answer(Handler):
        def do_GET(self):
            self.server.asked.append((self.path, self.headers["Authorization"]))
            status, headers, body = self.server.answer
            self.reply(status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers)

    server = WebServer(Answer)
    server.asked, server.answer = [], (200, {}, {"id": 7, "status": "canceled"})
    yield server
    server.stop()


@pytest.fixture
def environment(controller):
    return {"CONTROLLER_HOST": controller.url + "/", "CONTROLLER_OAUTH_TOKEN": TOKEN}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("successful", True),
        ("failed", True),
        ("canceled", True),
        ("error", False),  # its node may be lost, and the job may still run there
        ("running", False),
        ("pending", False),
        (None, False),
    ],
)
def test_a_job_has_ended_if_its_controller_says_so(controller, environment, status, expected):
    controller.answer = (200, {}, {"id": 7, "status": status})
    assert has_ended(this_job({"awx_job_id": 7}, environment), environment) is expected
    assert controller.asked == [("/api/v2/jobs/7/", f"Bearer {TOKEN}")]


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b'{"id": 7, "status": "canc'),
        (200, {}, b"[" * 100000),
        (200, {}, []),
        (200, {}, {"id": 8, "status": "canceled"}),
        (404, {}, {"id": 7, "status": "canceled"}),
        (500, {}, {"id": 7, "status": "canceled"}),
        (302, {"Location": "/elsewhere"}, {"id": 7, "status": "canceled"}),
    ],
)
def test_any_other_answer_says_nothing(controller, environment, answer):
    controller.answer = answer
    assert not has_ended(this_job({"awx_job_id": 7}, environment), environment)
    assert len(controller.asked) == 1  # no redirect is followed, which would show the token to another server


@pytest.mark.parametrize("owner", [{}, {"job": 7}, {"controller": "http://127.0.0.1:1", "job": 7}, {"job": "../7"}])
def test_only_jobs_of_the_own_controller_are_asked_for(controller, environment, owner):
    assert not has_ended(owner, environment)
    assert not has_ended({"controller": controller.url, **owner, "job": "7/../8"}, environment)
    assert not has_ended({"controller": controller.url, "job": True}, environment)
    assert controller.asked == []


def test_without_a_token_nothing_is_asked(controller, environment):
    del environment["CONTROLLER_OAUTH_TOKEN"]
    assert this_job({"awx_job_id": 7}, environment) == {}
    assert not has_ended({"controller": controller.url, "job": 7}, environment)
    assert controller.asked == []


def test_another_prefix_is_the_one_of_the_environment(controller, environment):
    environment["CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX"] = "/api/controller/"
    assert has_ended(this_job({"awx_job_id": "7"}, environment), environment)
    assert controller.asked[0][0] == "/api/controller/v2/jobs/7/"


def test_a_run_outside_of_a_job_is_none(environment):
    assert this_job({}, environment) == {}
    assert this_job({"awx_job_id": "{{ x }}"}, environment) == {}
    assert this_job({"awx_job_id": 7}, {"CONTROLLER_HOST": "awx.example.com", "CONTROLLER_OAUTH_TOKEN": "x"}) == {
        "controller": "https://awx.example.com",
        "job": 7,
    }
