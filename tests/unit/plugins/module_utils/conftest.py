# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A metadata service on loopback that answers what a test scripted, and remembers what it was asked."""

import json
import os

import pytest
from fake_clock import FakeClock
from web_servers import Handler, WebServer

HERE = os.path.dirname(os.path.abspath(__file__))
PAYLOADS = os.path.join(HERE, "..", "..", "..", "payloads")


def payload(name):
    with open(os.path.join(PAYLOADS, name + ".json"), "rb") as stream:
        return stream.read()


def event(**fields):
    raw = {
        "EventId": "A1",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "ResourceType": "VirtualMachine",
        "Resources": ["vm1"],
        "NotBefore": "Mon, 19 Sep 2016 18:29:47 GMT",
    }
    raw.update(fields)
    return raw


def document_text(*events, **top):
    return json.dumps(dict({"DocumentIncarnation": 1, "Events": list(events)}, **top))


class Scripted(Handler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        script = self.server.script
        self.server.asked.append((self.command, self.path, dict(self.headers), self.content().decode()))
        answer = script.pop(0) if len(script) > 1 else script[0]
        if answer is None:  # break the connection off
            self.close_connection = True
            return
        status, body, headers = answer
        self.reply(status, body if isinstance(body, bytes) else body.encode("utf-8"), headers)

    do_GET = do_POST = answer


class Service:
    """``script`` holds the answers in their order, (status, body, headers) or None; the last one is repeated."""

    def __init__(self):
        self.server = WebServer(Scripted)
        self.server.script = self.script = []
        self.server.asked = self.asked = []
        self.endpoint, self.stop = self.server.url, self.server.stop

    def answers(self, *script):
        self.script[:] = [self.complete(answer) for answer in script]

    @staticmethod
    def complete(answer):
        if answer is None:
            return None
        if isinstance(answer, (str, bytes)):
            answer = (200, answer)
        return answer if len(answer) == 3 else (answer[0], answer[1], {})


@pytest.fixture
def service():
    running = Service()
    yield running
    running.stop()


@pytest.fixture
def clock():
    return FakeClock(100.0)
