# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts that are not the metadata service: a failure that names the URL and the cause."""

import pytest

from playbooks import module_task, play

MODULES = {"scheduled_events_info": {}, "scheduled_event_approve": {"event_id": ["A"]}, "scheduled_events_wait": {}}
QUESTION = (
    ". Is this an Azure VM? The metadata service answers only inside one: "
    "run this on the VM itself, or set endpoint, of roles scheduled_events_endpoint, to where it is"
)
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"
HOSTS = ["closed port", "404", "redirect", "HTML"]


@pytest.fixture(scope="module")
def elsewhere(web_host):
    """The target of the redirecting host. No program may ask it."""
    return web_host(200, b'{"DocumentIncarnation":1,"Events":[]}')


@pytest.fixture(scope="module")
def endpoints(web_host, elsewhere):
    """Kind of host → URL."""
    gone = web_host()
    gone.stop()
    return {
        "closed port": gone.endpoint,
        "404": web_host(404, b"no such page").endpoint,
        "redirect": web_host(302, headers={"Location": elsewhere.endpoint + EVENTS}).endpoint,
        "HTML": web_host(200, HTML).endpoint,
    }


def waits(module, kind):
    return (module, kind) == ("scheduled_events_wait", "HTML")


@pytest.fixture(scope="module")
def run(ansible, endpoints):
    """All modules against all hosts: the whole run."""
    tasks = [
        {
            # What retrying could change is waited for: only HTML to the wait is such a thing.
            **module_task(module, {"endpoint": url, **arguments, **({"timeout": 2} if waits(module, kind) else {})}),
            "name": f"{module} {kind}",
        }
        for module, arguments in MODULES.items()
        for kind, url in endpoints.items()
    ]
    return ansible.run_playbook([play(tasks)], options=("-vv",))


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize("module", MODULES)
def test_the_failure_names_url_and_cause(run, endpoints, elsewhere, module, kind):
    result = run.one(task=f"{module} {kind}")
    url = endpoints[kind] + EVENTS
    causes = {
        "closed port": f"GET {endpoints[kind]}/metadata/scheduledevents got no answer: [Errno 111] Connection refused"
        + QUESTION,
        "404": f"GET {url} answered 404 Not Found: this host does not know the path, or not the api-version "
        '2020-07-01: "no such page"',
        "redirect": f"GET {url} answered 302 Found: a redirect to {elsewhere.endpoint}{EVENTS}, which the metadata "
        "service never sends and is not followed; check the endpoint and any proxy in front of it",
        "HTML": f"GET {url} answered 200 OK, but not with a Scheduled Events document: it is not JSON: ",
    }
    assert result.failed
    assert causes[kind] in result["msg"]


def test_no_traceback_reaches_the_user(run):
    assert "Traceback" not in run.output
    assert not [result for result in run.tasks if "Traceback" in str(result.result.get("exception", ""))]


def test_a_redirect_is_not_followed(run, elsewhere):
    assert run.all()
    assert elsewhere.asked == []


def test_the_ad_hoc_command_fails_without_a_traceback(ansible, closed_port):
    run = ansible.run_ad_hoc("scheduled_events_info", f"endpoint={closed_port}")
    assert run.rc == 2
    assert f"GET {closed_port}/metadata/scheduledevents got no answer" in run.output
    assert "Traceback" not in run.output
