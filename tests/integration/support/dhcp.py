# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A DHCP server and a host in separate network namespaces, joined by a cable, and the DHCP clients of Debian.

The host has its own empty directories of leases. All of it ends with its processes, which end by themselves.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from emulation import until

OUTLIVES = 120  # seconds after which the namespaces end, should the test not end them
SERVER, NETWORK = "10.77.0.1", "10.77.0.0/24"
NETWORKD = "/usr/lib/systemd/systemd-networkd"
OWN_DIRECTORIES = ("/run/dbus", "/run/systemd", "/var/lib/dhcp")
LEASES = {
    "dhclient": "var/lib/dhcp/*.leases",
    "systemd-networkd": "run/systemd/netif/leases/*",
}
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

# If /sys is read-only, systemd-networkd does not wait for udev.
PREPARE_HOST = f"""
set -e
for directory in {" ".join(OWN_DIRECTORIES)}; do
    [ ! -d "$directory" ] || mount -t tmpfs -o mode=755 tmpfs "$directory"
done
mount -t sysfs -o ro sysfs /sys
ip link set lo up
exec sleep {OUTLIVES}
"""


def need(*commands: str) -> None:
    """Skip the test where a command is missing."""
    missing = [command for command in commands if not shutil.which(command, path=PATH)]
    if missing:
        pytest.skip(f"missing here: {', '.join(missing)} (Debian: dnsmasq-base, isc-dhcp-client, iproute2)")


class Cable:
    """Both ends: ``server`` with dnsmasq on 10.77.0.1, and ``host``, whose interface is ``eth0``.

    :param option: the bytes of option 245 as dnsmasq wants them; ``None`` gives no such option.
    """

    def __init__(self, directory: pathlib.Path, option: str | None) -> None:
        need("unshare", "nsenter", "ip", "mount", "dnsmasq")
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []
        try:
            self._server = self._namespaces("--net", script=f"set -e; ip link set lo up; exec sleep {OUTLIVES}")
            self._host = self._namespaces("--net", "--mount", script=PREPARE_HOST)
            self._plug_in()
            self._serve(option)
        except BaseException:
            self.stop()
            raise

    def _namespaces(self, *kinds: str, script: str) -> int:
        """The process that keeps them."""
        keeper = self.start("unshare", *kinds, "sh", "-c", script)
        own = f"/proc/{keeper.pid}/comm"
        until(lambda: keeper.poll() is not None or pathlib.Path(own).read_text() == "sleep\n", what="the namespaces")
        if keeper.poll() is not None:
            pytest.skip(f"no namespaces can be made here: {self.log()}")
        return keeper.pid

    def _plug_in(self) -> None:
        add = ("ip", "link", "add", "srv0", "type", "veth", "peer", "name", "eth0", "netns", str(self._host))
        for command in (add, ("ip", "addr", "add", f"{SERVER}/24", "dev", "srv0"), ("ip", "link", "set", "srv0", "up")):
            self.run(self.in_server(*command))
        self.run(self.in_host("ip", "link", "set", "eth0", "up"))

    def _serve(self, option: str | None) -> None:
        leases = self._directory / "dnsmasq.leases"
        arguments = ["--keep-in-foreground", "--port=0", "--interface=srv0", "--bind-interfaces", "--no-ping"]
        arguments += ["--conf-file=/dev/null", "--user=root", "--pid-file=", f"--dhcp-leasefile={leases}"]
        arguments += ["--dhcp-range=10.77.0.10,10.77.0.20,255.255.255.0,1h", "--log-facility=-"]
        self.start(*self.in_server("dnsmasq", *arguments, *([f"--dhcp-option-force=245,{option}"] if option else [])))
        until(lambda: "sockets bound" in self.log(), what="dnsmasq")

    def in_server(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self._server}", "--net", *command]

    def in_host(self, *command: str) -> list[str]:
        return ["nsenter", f"--target={self._host}", "--net", "--mount", *command]

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start a process that ends with the test."""
        with (self._directory / "log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PATH": PATH}
            )
        self._running.append(process)
        return process

    def run(self, command: list[str]) -> str:
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": PATH}, timeout=OUTLIVES
        ).stdout

    def log(self) -> str:
        return (self._directory / "log").read_text(errors="replace")

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(OUTLIVES)
            except subprocess.TimeoutExpired:
                process.kill()

    # The host

    def ask_for_a_lease(self, client: str) -> None:
        """Start a DHCP client on the host, and wait until it has written its lease."""
        getattr(self, "_" + client.replace("-", "_"))()
        seen_from_here = pathlib.Path(f"/proc/{self._host}/root")

        def written() -> bool:
            return any(path.stat().st_size for path in seen_from_here.glob(LEASES[client]))

        until(written, what=f"a lease of {client}")

    def _dhclient(self) -> None:
        need("dhclient")
        # Only the lease is wanted, so it need not configure anything.
        self.start(*self.in_host("dhclient", "-4", "-d", "-sf", "/bin/true", "eth0"))

    def _systemd_networkd(self) -> None:
        if not os.path.exists(NETWORKD) or "\nsystemd-network:" not in pathlib.Path("/etc/passwd").read_text():
            pytest.skip(f"missing here: {NETWORKD} or its user systemd-network")
        network = (
            "[Match]\\nName=eth0\\n[Network]\\nDHCP=ipv4\\nLinkLocalAddressing=no\\n[DHCPv4]\\nRequestOptions=245\\n"
        )
        prepare = f"""
            set -e
            mkdir -p /run/systemd/network /run/systemd/netif/leases /run/systemd/netif/links /run/systemd/netif/lldp
            printf '{network}' >/run/systemd/network/10-eth0.network
            chown -R systemd-network /run/systemd/netif
            exec {NETWORKD}
        """
        self.start(*self.in_host("sh", "-c", prepare))

    def search(self, library: pathlib.Path, program: str) -> object:
        """Run a program on the host with the library; the JSON that it prints.

        :param library: the directory that holds the package ``_scheduled_events``.
        """
        text = f"import json, sys, time; sys.path.insert(0, {str(library)!r})\n{program}"
        environment = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", sys.executable]
        return json.loads(self.run(self.in_host(*environment, "-c", text)))
