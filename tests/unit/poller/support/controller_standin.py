# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for a controller, for what a real one (tests/controllers) cannot show quickly: faults at a given request,
and VMs whose clocks a test moves."""

import json
import re
import urllib.parse

from web_servers import Handler, WebServer

PROMPTS = {f"ask_{field}_on_launch": True for field in ("limit", "labels", "variables")}


class Controller:
    """Labels, launches and jobs, as AWX 24.6.1 has them.

    ``faults``: by method and end of a path, answers to the next such requests: ``(status, headers, body)``, or a
    function that is called before the request is carried out as usual. ``asked``: all requests.
    """

    def __init__(self, certificate=None):
        self.labels, self.jobs, self.asked, self.bodies, self.faults = [], {}, [], [], {}
        self.status = "successful"  # of a job that is launched
        self.left_out = ()  # hosts that no job reaches
        self.hides_jobs = False  # the user of the token has lost the role Execute
        self.template = {"id": 7, "name": "respond", "organization": 3, "job_slice_count": 1}
        self.launch = dict(PROMPTS, variables_needed_to_start=[], passwords_needed_to_start=[])
        handler = type("Handler", (_Handler,), {"controller": self})
        server = WebServer(handler, certificate=certificate)
        self.url, self.stop = server.url, server.stop

    def launched(self):
        """The bodies of the launches."""
        return [body for path, body in self.bodies if path.endswith("/launch/")]

    def add_label(self, name):
        self.labels.append({"id": len(self.labels) + 1, "name": name})
        return self.labels[-1]

    def answer(self, method, path, query, body):
        """Status, headers and document."""
        self.asked.append(f"{method} {path}")
        if body is not None:
            self.bodies.append((path, body))
        for ending, faults in self.faults.items():
            if faults and self.asked[-1].endswith(ending):
                fault = faults.pop(0)
                if isinstance(fault, tuple):
                    return fault
                fault()
        name = (method, re.sub("[0-9]+", "N", path.replace("/api/v2/", "")))
        return self._answer(name, path, query, body)

    def _answer(self, name, path, query, body):
        if name == ("GET", "/api/"):
            return 200, {}, {"current_version": "/api/v2/"}
        if name == ("GET", "job_templates/"):
            return 200, {}, {"results": [self.template] if query["name"] == self.template["name"] else []}
        if name == ("GET", "job_templates/N/launch/"):
            return 200, {}, self.launch
        if name == ("POST", "labels/"):
            return self._make_label(body["name"])
        if name == ("GET", "labels/"):
            named = [label for label in self.labels if label["name"].startswith(query["name__startswith"])]
            return 200, {}, {"results": named[::-1]}
        if name == ("POST", "job_templates/N/launch/"):
            return 201, {}, self.run(body)
        return self._of_jobs(name, path, query)

    def _make_label(self, name):
        if not name:
            return 400, {}, {"name": ["This field may not be blank."]}
        if any(label["name"] == name for label in self.labels):
            return 400, {}, {"__all__": ["Label with this Name and Organization already exists."]}
        return 201, {}, self.add_label(name)

    def _of_jobs(self, name, path, query):
        if self.hides_jobs:
            return (403, {}, {"detail": "no"}) if "N" in name[1] else (200, {}, {"results": []})
        if name == ("GET", "jobs/"):
            name, prefix = query.get("labels__name"), query.get("labels__name__startswith")
            found = [job for job in self._newest() if job["label"].startswith(prefix or name)]
            return 200, {}, {"results": [job for job in found if prefix or job["label"] == name]}
        job = self.jobs[int(re.search("jobs/([0-9]+)/", path).group(1))]
        if name[0] == "POST":
            job["status"] = "canceled"
            return 202, {}, None
        return 200, {}, summaries_of(job, query) if name[1].endswith("/job_host_summaries/") else job

    def run(self, body):
        """Launch a job."""
        job = {
            "id": len(self.jobs) + 1,
            "status": self.status,
            "limit": body["limit"],
            "extra_vars": json.dumps(body.get("extra_vars", {"scheduled_event": {}})),
            "launch_type": "manual",
            "event_processing_finished": True,
        }
        job["label"] = next(label["name"] for label in self.labels if label["id"] == body["labels"][0])
        job["host_status_counts"] = {"ok": 1}
        job["ran"] = [host for host in body["limit"].split(",") if host not in self.left_out]
        self.jobs[job["id"]] = job
        return dict(job, ignored_fields={})

    def _newest(self):
        return [self.jobs[number] for number in sorted(self.jobs, reverse=True)]


def summaries_of(job, query):
    """Those of the hosts on which a job ran."""
    return {"results": [{"host_name": host} for host in job["ran"] if host in query["host_name__in"].split(",")]}


class _Handler(Handler):
    controller = None
    protocol_version = "HTTP/1.1"
    wbufsize = 65536  # an answer in one piece

    def do_GET(self):
        self._carry_out(None)

    def do_POST(self):
        self._carry_out(json.loads(self.content().decode()))

    def _carry_out(self, body):
        url = urllib.parse.urlsplit(self.path)  # a whole URL if we are the proxy
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.netloc:
            self.controller.asked.append("proxy for " + url.netloc)
        assert self.headers["Authorization"].startswith("Bearer ")
        status, headers, document = self.controller.answer(self.command, url.path, query, body)
        content = (
            document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
        )
        self.reply(status, content, headers)
