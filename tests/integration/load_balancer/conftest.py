# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host web1 with its files in a separate directory, and balancers, all on this machine."""

import tempfile
import types
from pathlib import Path

import pytest
from balanced import Host
from haproxies import Backend, HAProxy


@pytest.fixture
def backend(tmp_path):
    server = Backend(tmp_path / "etc" / "drained")
    yield server
    server.stop()


@pytest.fixture
def haproxy_fleet(ansible, backend, tmp_path):
    """Two balancers with web1 in two backends each (and web2, which the role must not touch), and the host."""
    servers = {"web1": backend.port, "web2": backend.port}
    with tempfile.TemporaryDirectory(prefix="haproxy-") as base:
        balancers = {}
        try:
            for name in ("lb1", "lb2"):
                directory = Path(base) / name
                directory.mkdir()
                balancers[name] = HAProxy(directory, {"www": servers, "api": servers})
            variables = {
                "load_balancer_provider": "haproxy",
                "load_balancer_haproxy_hosts": list(balancers),
                "load_balancer_haproxy_become": False,
                "load_balancer_drain_timeout": 20,
                "load_balancer_return_timeout": 20,
            }
            own = {name: {"load_balancer_haproxy_socket": str(each.socket)} for name, each in balancers.items()}
            yield types.SimpleNamespace(host=Host(ansible, tmp_path, variables, balancers=own), **balancers)
        finally:
            for balancer in balancers.values():
                balancer.stop()


class Ssh:
    """Stands in for the command ssh: it notes its arguments and runs the command on this machine."""

    SCRIPT = """\
#!/bin/sh
directory=$(dirname "$0")
printf '%s\\037' "$@" >>"$directory/calls"
echo >>"$directory/calls"
[ -e "$directory/dead" ] && echo "ssh: connect to host: No route to host" >&2 && exit 255
for command; do :; done
exec sh -c "$command"
"""

    def __init__(self, directory):
        self._calls = directory / "calls"
        self.dead = directory / "dead"
        program = directory / "ssh"
        program.write_text(self.SCRIPT)
        program.chmod(0o755)
        self.VARIABLES = {
            "ansible_connection": "ssh",
            "ansible_host": "at-{{ inventory_hostname }}",
            "ansible_port": "{{ numbers[inventory_hostname] }}",
            "ansible_user": "user-{{ inventory_hostname }}",
            "ansible_ssh_private_key_file": "/keys/{{ inventory_hostname }}",
            "ansible_ssh_common_args": "-o Tag={{ inventory_hostname }}",
            "ansible_ssh_executable": str(program),
            "ansible_ssh_retries": 0,
        }

    def calls(self):
        """The arguments of each call but for the command."""
        return [line.split("\037")[:-2] for line in self._calls.read_text().splitlines() if "\037" in line]


class Sudo:
    """Stands in for the command sudo: it notes the user and runs the command as it is."""

    SCRIPT = """\
#!/bin/sh
while [ "$1" != /bin/sh ]; do
    [ "$1" = -u ] && echo "$2" >>"$(dirname "$0")/users"
    shift
done
exec "$@"
"""

    def __init__(self, directory):
        self._users = directory / "users"
        self.program = directory / "sudo"
        self.program.write_text(self.SCRIPT)
        self.program.chmod(0o755)

    def users(self):
        """Who was to be."""
        return set(self._users.read_text().split())


@pytest.fixture
def sudo(tmp_path):
    (tmp_path / "sudo").mkdir()
    return Sudo(tmp_path / "sudo")


@pytest.fixture
def ssh(tmp_path):
    (tmp_path / "ssh").mkdir()
    return Ssh(tmp_path / "ssh")


@pytest.fixture
def probed_host(ansible, backend, tmp_path):
    """A host whose health endpoint honours the flag."""
    variables = {
        "load_balancer_provider": "health_probe",
        "load_balancer_probe_flag": str(backend.flag),
        "load_balancer_probe_url": f"http://127.0.0.1:{backend.port}/healthz",
        "load_balancer_probe_interval": 0.1,
        "load_balancer_ports": [backend.port],
        "load_balancer_drain_timeout": 20,
        "load_balancer_return_timeout": 5,
    }
    return Host(ansible, tmp_path, variables)
