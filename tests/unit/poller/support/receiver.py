# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A receiver of webhooks on loopback, and messages for it."""

import json

from web_servers import Handler, WebServer

EVENT = {
    "event_id": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    "event_type": "Reboot",
    "event_status": "Scheduled",
    "event_source": "Platform",
    "resource_type": "VirtualMachine",
    "resources": ["web1", "web2"],
    "not_before": "2026-01-31T12:00:00Z",
    "seconds_until_not_before": 600.0,
    "description": "Host server is undergoing maintenance.",
    "duration_in_seconds": 9,
    "affects_this_vm": True,
    "is_leader": True,
    "additional": {},
}


def message(number=1, phase="prepare", **event):
    """A message as the hook writes it."""
    return {
        "version": 1,
        "id": f"00000000-0000-4000-8000-{number:012d}",
        "time": "2026-01-31T11:50:00Z",
        "phase": phase,
        "vm_name": "web1",
        "failed_phase": "prepare" if phase == "failed" else None,
        "failed_reason": "10-drain: exit status 1" if phase == "failed" else None,
        "event": {**EVENT, **event},
    }


def ids(*numbers):
    """The ids of messages."""
    return [message(number)["id"] for number in numbers]


class Server(WebServer):
    def handle_error(self, *_arguments):
        """A client that does not wait for all of an answer, or does not like the certificate."""


class Receiver:
    """Records requests. ``answers``: for each request to come, a status and headers; then 200.

    ``raw``: bytes to send instead of an HTTP answer; ``{path}`` in them becomes the path of the request.
    """

    def __init__(self, port=0, certificate=None):
        self.requests, self.answers, self.raw = [], [], None
        receiver = self

        class Answer(Handler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.content()
                receiver.requests.append((self.path, dict(self.headers), body))
                if receiver.raw is not None:
                    self.wfile.write(receiver.raw.replace(b"{path}", self.path.encode()))
                    self.close_connection = True
                    return
                status, headers = receiver.answers.pop(0) if receiver.answers else (200, {})
                self.reply(status, headers=headers)

        server = Server(Answer, port, certificate)
        self.port, self.stop = server.server_port, server.stop
        self.url = f"{server.url}/hook/T0SECRETPATH"

    def bodies(self):
        return [json.loads(body.decode()) for _path, _headers, body in self.requests]

    def ids(self):
        return [headers["X-Scheduled-Events-Id"] for _path, headers, _body in self.requests]
