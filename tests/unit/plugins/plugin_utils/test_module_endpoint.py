# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``endpoint: auto`` does in a module, with a default address on loopback. Modules have no option for that."""

import functools

import pytest
from web_servers import Handler, WebServer

from plugins.module_utils import _module
from plugins.module_utils._module import COMMON_OPTIONS, ImdsModule
from plugins.module_utils._scheduled_events import discovery
from plugins.module_utils._scheduled_events.checks import WrongValue
from plugins.module_utils._scheduled_events.client import Unreachable
from plugins.module_utils._scheduled_events.discovery import Searched

pytestmark = pytest.mark.core

PLACE = "/run/systemd/netif/leases/2 (systemd-networkd)"


class Module:
    """An AnsibleModule as far as it is needed."""

    def __init__(self, **options):
        self.params = {name: option.get("default") for name, option in COMMON_OPTIONS.items()} | options
        self.warn = pytest.fail


class Answer(Handler):
    def do_GET(self):
        self.reply(200, b'{"DocumentIncarnation": 7, "Events": []}')


@pytest.fixture
def port():
    server = WebServer(Answer)
    yield server.server_port
    server.stop()


@pytest.fixture
def search(monkeypatch):
    """Set where a module that searches begins, and what it finds in leases."""

    def use(default="http://127.0.0.1:9", leases=("127.0.0.1",), port=9):
        searched = Searched(dict.fromkeys(leases, PLACE), [])
        changed = {"default": default, "ports": (port,), "leases": lambda: searched, "patience": 0}
        monkeypatch.setattr(_module, "find", functools.partial(discovery.find, **changed))

    return use


def test_an_endpoint_that_the_owner_names_is_not_searched(search, port):
    search()
    run = ImdsModule(Module(endpoint=f"http://127.0.0.1:{port}/"))
    assert run.where() == {"endpoint": f"http://127.0.0.1:{port}", "endpoint_source": "given"}


def test_the_default_address_is_shown_as_such_and_asked_by_the_module(search, port):
    search(default=f"http://127.0.0.1:{port}")
    run = ImdsModule(Module(endpoint="auto"))
    assert run.where() == {"endpoint": f"http://127.0.0.1:{port}", "endpoint_source": "default address"}
    assert run.client.fetch().incarnation == 7


def test_an_address_of_a_lease_is_used_only_if_the_owner_allows_its_network(search, port):
    search(port=port)
    run = ImdsModule(Module(endpoint="auto", endpoint_networks=["127.0.0.0/8"]))
    assert run.where() == {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint_source": "DHCP option 245 in /run/systemd/netif/leases/2 (systemd-networkd)",
    }
    with pytest.raises(Unreachable, match="is not in an allowed network"):
        ImdsModule(Module(endpoint="auto"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "automatic"}, 'endpoint: expected .*, or auto, not "automatic"$'),
        (
            {"endpoint_networks": ["everywhere"]},
            r'endpoint_networks\[0\]: expected an IPv4 network, .*"everywhere"$',
        ),
        ({"endpoint": "auto", "api_version": "latest"}, 'api_version: expected a date, .*, not "latest"$'),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_asked(search, options, message):
    search()
    with pytest.raises(WrongValue, match=message):
        ImdsModule(Module(**options))
