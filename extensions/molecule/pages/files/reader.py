# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The blocks of the pages that need a machine with systemd, run as they stand there: reader.py CONTAINER.

One machine, the pages one after the other. What is peculiar to it stands in files beside the inventory of the pages.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).parents[4]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from page_blocks import block  # noqa: E402 - found only through the path set above

ENTER = str(pathlib.Path(__file__).parents[2] / "shared" / "enter")
ENDPOINT = "http://127.0.10.1:8169"
LIMIT = 900  # seconds after which a command is ended
COLLECTION = "ansible_collections/maintops/scheduled_events"
CONNECTION = """\
ansible_connection: containers.podman.podman
ansible_host: {container}
ansible_podman_executable: {enter}
ansible_python_interpreter: /usr/bin/python3
"""


def expect(condition: object, what: str) -> None:
    if not condition:
        raise RuntimeError(what)


class Running:
    """A command that runs."""

    def __init__(self, command: list[str], directory: pathlib.Path, environment: dict[str, str]) -> None:
        self._command = command
        self._output = tempfile.TemporaryFile("a+")  # noqa: SIM115 - until the result; the command appends, wherever
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    def shown(self) -> str:
        """The output so far."""
        self._output.seek(0)
        return self._output.read()

    def result(self) -> str:
        """The output, at the end."""
        with self._output:
            status = self._process.wait(LIMIT)
            expect(status == 0, f"{self._command[-1]}\nended with {status}:\n{self.shown()}")
            return self.shown()


class Reader:
    """A user with a shell on the control node, in a new directory, and a shell of root on the machine."""

    def __init__(self, container: str, home: pathlib.Path) -> None:
        self._container, self.home = container, home
        self.install_collection()
        # One podman call a task instead of five; a wait for a task looks a thousand times a second otherwise.
        self.write(".ansible.cfg", "[defaults]\npipelining = true\ninternal_poll_interval = 0.01\n")
        self.write("inventory.yml", "web: {hosts: {web1: }}\nlab: {hosts: {web1: }}\n")
        self.write("group_vars/all.yml", f"scheduled_events_endpoint: {ENDPOINT}\n")
        for name in ("web1", "worker1"):
            self.write(f"host_vars/{name}.yml", CONNECTION.format(container=container, enter=ENTER))
        unset = ("ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_CONFIG", "ANSIBLE_INVENTORY")
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in unset},
            "ANSIBLE_NOCOLOR": "true",
            "HOME": str(home),
            "PATH": os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def install_collection(self) -> None:
        installed = pathlib.Path(os.environ["ANSIBLE_COLLECTIONS_PATH"], COLLECTION)
        shutil.copytree(installed, self.home / ".ansible" / "collections" / COLLECTION)

    def write(self, name: str, text: str) -> None:
        (self.home / name).parent.mkdir(exist_ok=True)
        (self.home / name).write_text(text)

    def here(self, text: str) -> str:
        """Run a block on the control node; its output."""
        return self.start(text).result()

    def start(self, text: str) -> "Running":
        """Start a block on the control node."""
        return Running(["bash", "-e", "-c", text], self.home, self._environment)

    def there(self, text: str) -> str:
        """Run a block on the machine; its output. Of a console, the lines after a prompt are the commands."""
        commands = "\n".join(line[2:] for line in text.splitlines() if line.startswith(("$ ", "# "))) or text
        command = [ENTER, "exec", self._container, "sh", "-e", "-c", f"cd /root\n{commands}"]
        return Running(command, self.home, self._environment).result()

    def console(self, text: str) -> str:
        """Run the lines after a prompt, each where it belongs, whatever its exit status is; their output."""
        commands = [line[2:] for line in text.splitlines() if line.startswith("# ")]
        return "".join(
            self.here(line) if line.startswith("ansible") else self.there(f"{line} || true") for line in commands
        )

    def until(self, command: str, pattern: str) -> None:
        """Wait until a command of the machine shows a pattern."""
        wait_for(lambda: re.search(pattern, self.there(command), re.DOTALL), f"{command} does not show {pattern}")


def wait_for(condition: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + LIMIT
    while not condition():
        expect(time.monotonic() < give_up, what)
        time.sleep(1)


def rehearse(reader: Reader) -> None:
    """The lab of the page about the polling unit, and what other pages show during an event."""
    reader.write("lab.yml", block("docs/polling-unit.md", "- name: Prepare a machine for rehearsals"))
    reader.here(block("docs/polling-unit.md", "ansible-playbook -i inventory.yml lab.yml"))
    # The event stays until the other pages were read, however long that takes.
    announce = block("docs/polling-unit.md", "# scheduled-events-emulator schedule")
    expect("--started-for 5\n" in announce, announce)
    reader.there(announce.replace("--started-for 5\n", "--started-for 3600\n"))
    reader.until("scheduled-events list", "Redeploy")
    listed = reader.there(block("docs/troubleshooting.md", "scheduled-events status"))
    expect("Redeploy" in listed, listed)
    ad_hoc = block("docs/troubleshooting.md", "ansible web1")
    read = reader.here(f"{ad_hoc.strip()} -i inventory.yml".replace("scope=all", f"'scope=all endpoint={ENDPOINT}'"))
    expect('"event_type": "Redeploy"' in read, read)
    reader.until("scheduled-events status", r"\(Started\)")
    reader.there("scheduled-events-emulator complete {}".format(re.findall(r"Redeploy (\S+) ", listed)[0]))
    reader.until("scheduled-events history", RECOVERED)


def look_back(reader: Reader) -> None:
    """The page about what remains after a maintenance."""
    history = reader.there(block("docs/after-a-maintenance.md", "scheduled-events history"))
    expect("acknowledged" in history, history)
    reader.here(block("docs/after-a-maintenance.md", "ansible-playbook -i inventory.yml --limit all"))
    expect("Redeploy" in (reader.home / "maintenance.html").read_text(), "the report does not show the event")
    # The status 1: the preparation of the lab takes 15 of the 20 seconds of a Preempt, a busy machine needs more.
    forecast = block("docs/after-a-maintenance.md", "scheduled-events forecast").strip()
    forecast = reader.there(f"{forecast} || [ $? -eq 1 ]")
    expect("Redeploy fits" in forecast, forecast)
    reader.here(block("docs/after-a-maintenance.md", "ansible-playbook maintops.scheduled_events.forecast"))
    reader.there("cp /var/lib/scheduled-events-history/history.jsonl history-of-another-vm.jsonl")
    replayed = reader.there(block("docs/after-a-maintenance.md", "scheduled-events replay"))
    expect("Redeploy" in replayed, replayed)


def drill(reader: Reader) -> None:
    """The page about drills, with a web server of the machine as the service."""
    reader.there("systemctl start nginx")
    service = "http://{}/".format(reader.there("hostname --all-ip-addresses").split()[0])
    checked = reader.here(block("docs/drill.md", "ansible-playbook", "--check").replace(EXAMPLE, service))
    expect("web1: a drill announces Reboot of the VM web1" in checked, checked)
    passed = reader.here(block("docs/drill.md", "ansible-playbook", "report_html").replace(EXAMPLE, service))
    expect("web1: passed" in passed, passed)
    expect("Reboot" in (reader.home / "drill.html").read_text(), "the report does not show the drill")
    watching = reader.start(block("docs/drill.md", "ansible-playbook", "drill_watch"))
    wait_for(lambda: "web1: waits for Redeploy of Azure" in watching.shown(), "the drill does not wait for Azure")
    reader.there(f"scheduled-events-emulator schedule Redeploy web1 --started-for 5 --event-id {EVENT}")
    expect("web1: passed" in (watched := watching.result()), watched)
    followed = reader.there(block("docs/operate-the-polling-unit.md", "$ scheduled-events status"))
    expect("prepare hook 10-drain: ok" in followed, followed)


def install(reader: Reader) -> None:
    """The polling unit: the example of its role in check mode, then the hooks of nginx, which are tried by hand."""
    reader.write("poller.yml", block("roles/poller/README.md", "- hosts: web\n  gather_facts: false"))
    checked = reader.here(block("roles/poller/README.md", "ansible-playbook poller.yml"))
    expect("90-return" in checked, checked)
    reader.write("group_vars/web.yml", block("docs/polling-unit.md", "poller_hooks:"))
    reader.write("poller.yml", block("docs/polling-unit.md", "- name: Watch for scheduled events"))
    reader.here("ansible-playbook poller.yml --inventory inventory.yml")
    shown = reader.here(block("roles/poller/README.md", "ansible all"))
    expect("web1 | CHANGED" in shown, shown)
    site = f"server {{ listen 80; {block('docs/polling-unit.md', 'location = /health')} }}"
    reader.there(f"cat > /etc/nginx/sites-enabled/default <<'END'\n{site}\nEND\nsystemctl reload nginx")
    console = block("docs/polling-unit.md", "# cat event.json")
    (event,) = re.findall(r"^# cat event\.json\n(.*?)^# ", console, re.DOTALL | re.MULTILINE)
    reader.there(f"cat > event.json <<'END'\n{event}END")
    prepare, recover, end = console.partition("# scheduled-events hooks test recover")
    reader.there(prepare)
    expect(reader.there(HEALTH) == "503", "the web server is not drained")
    reader.there(recover + end)
    expect(reader.there(HEALTH) == "200", "the web server has not returned")


def emulate(reader: Reader) -> None:
    """The emulator as its role shows it."""
    reader.write("emulator.yml", block("roles/emulator/README.md", "- name: Serve the metadata of two VMs"))
    reader.here("ansible-playbook -i inventory.yml emulator.yml")
    for number in (1, 2):
        answered = reader.there(f"curl -s -H Metadata:true 'http://127.0.10.{number}:8169/metadata/{DOCUMENT}'")
        expect('"Events"' in answered, answered)


def uninstall(reader: Reader) -> None:
    """The commands that remove everything."""
    reader.here(block("docs/overview.md", "ansible-playbook maintops.scheduled_events.install_poller"))
    expect(not (reader.home / ".ansible" / "collections" / COLLECTION).exists(), "the collection is not removed")
    reader.there("! test -e /usr/local/bin/scheduled-events")
    reader.install_collection()


def evict(reader: Reader) -> None:
    """The lab of the page about Spot workers, its drill, and its end."""
    reader.write("inventory.yml", block("docs/spot-workers.md", "lab:\n"))
    reader.write("workers.yml", block("docs/spot-workers.md", "- name: Watch for evictions"))
    reader.write("lab.yml", block("docs/spot-workers.md", "- name: Evict a worker"))
    # A busy machine needs more than the three seconds of the page, and then more than those of the notice. The hooks of
    # the page run ten minutes before NotBefore.
    lab = block("docs/spot-workers.md", "# ansible-playbook -i inventory.yml lab.yml")
    expect("spot_eviction worker1\n" in lab, lab)
    reader.console(lab.replace("spot_eviction worker1\n", "spot_eviction worker1 --notice 300\n"))
    reader.until("systemctl is-active worker.service || true", "inactive")
    reader.until("scheduled-events status", "because acknowledge is never")
    (event,) = re.findall(r"Preempt (\S+) ", reader.there("scheduled-events status"))
    reader.there(f"scheduled-events-emulator start {event}")
    reader.until("scheduled-events status", r"\(Started\)")
    reader.there(f"scheduled-events-emulator complete {event}")
    reader.until("scheduled-events status", "0 events")
    drilled = reader.here(block("docs/spot-workers.md", "ansible-playbook"))
    expect("worker1: passed: prepared, not acknowledged" in drilled, drilled)
    reader.console(block("docs/spot-workers.md", "# ansible-playbook -i inventory.yml workers.yml -e poller_state"))
    reader.there("! test -e /usr/local/bin/scheduled-events && ! test -e /run/systemd/system/worker.service")


EVENT = "C7061BAC-AFDC-4513-B24B-AA5F13A16123"
DOCUMENT = "scheduledevents?api-version=2020-07-01"
EXAMPLE = "https://www.example.com/"
HEALTH = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1/health"
RECOVERED = "recover.*ok"
PARTS = (rehearse, look_back, drill, install, uninstall, emulate, evict)


def cpu() -> float:
    """Seconds of the processor that all commands on the control node have taken."""
    return sum(os.times()[:4])


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        reader = Reader(sys.argv[1], pathlib.Path(home))
        for part in PARTS:
            began, used = time.monotonic(), cpu()
            part(reader)
            print(f"{part.__name__}: {time.monotonic() - began:.0f} s, CPU {cpu() - used:.0f} s", flush=True)


main()
