# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM and its metadata service in separate network namespaces, joined by a cable.

The process of the tests moves into the namespace of the service, where also the controllers are, with the name server
that the VM asks. The namespaces have no names: they end with their last process, whatever ends the tests.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest
from emulation import until

SERVICE, VM = "10.78.0.1", "10.78.0.2"
FORKED = ("10.78.0.11", "10.78.0.12")  # of the VMs at the emulator
SSH_PORT = 2222
NEW_NETWORK, NEW_MOUNTS = 0x40000000, 0x00020000  # of <sched.h>; os.unshare needs Python 3.12
LIBC = ctypes.CDLL(None, use_errno=True)
NEEDS = ("ip", "mount", "nft", "nsenter", "setpriv", "tc", "unshare")
os.environ["PATH"] += ":/usr/sbin:/sbin"
SSHD = """\
Port {port}
ListenAddress {address}
HostKey {directory}/key
AuthorizedKeysFile {directory}/key.pub
PidFile {directory}/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
SetEnv PYTHONPATH={guard}
"""


def of_libc(name: str, *arguments: int) -> None:
    if getattr(LIBC, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


class Network:
    """The two namespaces. To be made before the process has other threads or children.

    :ivar interpreter: what ansible_python_interpreter is to be for modules that run on the VM.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        missing = [command for command in NEEDS if not shutil.which(command)]
        if os.geteuid() != 0 or missing:
            pytest.skip(f"needs root and these commands: {', '.join(missing or NEEDS)}")
        of_libc("unshare", NEW_NETWORK | NEW_MOUNTS)
        run("mount", "--make-rprivate", "/")
        resolver = directory / "resolv.conf"
        resolver.write_text(f"nameserver {SERVICE}\noptions timeout:1 attempts:2\n")
        run("mount", "--bind", str(resolver), os.path.realpath("/etc/resolv.conf"))
        run("ip", "link", "set", "lo", "up")
        self._own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        # It ends when this process does, which holds the other end of its standard input.
        keep = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"]
        self._keeper = subprocess.Popen(keep, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._keeper.stdout
        assert self._keeper.stdout.readline() == b"ready\n", "no namespace"
        self._of_vm = os.open(f"/proc/{self._keeper.pid}/ns/net", os.O_RDONLY)
        run("ip", "link", "add", "wire", "type", "veth", "peer", "name", "eth0", "netns", str(self._keeper.pid))
        self.plug_in()
        self._sshd: subprocess.Popen[bytes] | None = None
        threading.Thread(target=_serve_names, daemon=True).start()
        interpreter = directory / "python"
        self.interpreter = str(interpreter)
        self._enter = f"nsenter --net=/proc/{self._keeper.pid}/ns/net"

    def write_interpreter(self, python: str) -> None:
        path = pathlib.Path(self.interpreter)
        path.write_text(f'#!/bin/sh\nexec {self._enter} {python} "$@"\n')
        path.chmod(0o755)

    @contextlib.contextmanager
    def on_vm(self) -> Iterator[None]:
        """What this thread starts meanwhile runs on the VM."""
        of_libc("setns", self._of_vm, NEW_NETWORK)
        try:
            yield
        finally:
            of_libc("setns", self._own, NEW_NETWORK)

    def vm(self, *commands: str) -> None:
        """Run commands on the VM."""
        with self.on_vm():
            self.service(*commands)

    @staticmethod
    def service(*commands: str) -> None:
        """Run commands where the service is."""
        for command in commands:
            run(*command.split())

    def plug_in(self) -> None:
        """Give both ends of the cable their addresses."""
        self.service("ip link set wire up", *(f"ip addr add {each}/24 dev wire" for each in (SERVICE, *FORKED)))
        self.vm("ip link set eth0 up", f"ip addr add {VM}/24 dev eth0")

    def repair(self) -> None:
        """End every fault of the network."""
        for end, name in ((self.vm, "eth0"), (self.service, "wire")):
            end("nft flush ruleset", f"tc qdisc replace dev {name} root pfifo", f"ip addr flush dev {name}")
        self.plug_in()

    def start_sshd(self) -> dict[str, str]:
        """Let a server of SSH run on the VM; the variables of a host that is reached through it."""
        if not shutil.which("sshd"):
            pytest.skip("needs sshd (Debian: openssh-server)")
        key, config = self.directory / "key", self.directory / "sshd_config"
        if not key.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
            places = {"directory": self.directory, "guard": os.environ["PYTHONPATH"]}
            config.write_text(SSHD.format(port=SSH_PORT, address=VM, **places))
            # It ends with this process, whatever ends that.
            command = ["setpriv", "--pdeathsig", "TERM", str(shutil.which("sshd")), "-D", "-f", str(config)]
            with self.on_vm():
                self._sshd = subprocess.Popen([*command, "-E", str(self.directory / "sshd.log")])
            until((self.directory / "sshd.pid").exists, what="the server of SSH")
        options = f"-F none -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ControlMaster=no"
        return {
            "ansible_connection": "ssh",
            "ansible_host": VM,
            "ansible_port": str(SSH_PORT),
            "ansible_user": "root",
            "ansible_ssh_args": options,
            "ansible_timeout": "2",
        }

    def stop(self) -> None:
        for process in filter(None, (self._sshd, self._keeper)):
            process.terminate()
            process.wait(60)


def _serve_names() -> None:
    """Answer for names such as n11.example: the address 10.78.0.11."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((SERVICE, 53))
    while True:
        question, client = server.recvfrom(512)
        label = question[13 : 13 + question[12]]
        end = question.index(b"\0", 12) + 5
        is_a = question[end - 4 : end - 2] == b"\0\1"
        answer = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + bytes([10, 78, 0, int(label[1:])]) if is_a else b""
        head = question[:2] + b"\x81\x80\0\1\0" + bytes([is_a]) + b"\0\0\0\0"
        server.sendto(head + question[12:end] + answer, client)
