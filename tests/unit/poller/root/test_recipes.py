# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hooks in examples/hooks, run by the runner of the polling unit, with a stand-in for each product."""

import contextlib
import glob
import os
import socket
import stat
import threading
import time

import pytest
from fake_clock import FakeClock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 4)
HOOKS = os.path.join(ROOT, "examples", "hooks")
NAMES = sorted(os.listdir(HOOKS))
LICENCE = 4  # lines: three of the licence, and an empty one
LONGEST = 25  # lines

# What a product does, as the text of a shell script. The files of its state are in its current directory.
PACEMAKER = {
    "crm_node": 'echo "1 web1" | cut -d " " -f 2',
    "crm_standby": 'echo "${1#--update=}" > standby',
    "crm_mon": """
        standby=false; running=2; [ "$(cat standby 2>&1)" != on ] || standby=true
        # The resources leave between the second look and the third one.
        echo >> looks; [ $standby = false ] || [ "$(wc -l < looks)" -lt 3 ] || running=0
        node() { echo "<node name='$1' online='$2' standby='$3' $4 standby_onfail='false' resources_running='$5'/>"; }
        { node web1 true $standby "" $running; node web10 "${other:=true}" false "$state" 3
          echo "<node name='web1' id='1'/>"; } | tr "'" '"'
    """,
}
KUBERNETES = {
    "hostname": "echo AKS-web-vmss000001",
    "kubectl": """
        case "$*" in
            *spec.unschedulable*) printf "$(cat unschedulable) $(cat annotation)" ;;
            get*) printf "$(cat annotation)" ;;
            annotate*scheduled-events-) rm annotation ;;
            annotate*) echo cordoned > annotation ;;
            drain*) echo true > unschedulable ;;
            uncordon*) rm unschedulable ;;
        esac 2> /dev/null
        true
    """,
}
SLURM = {
    "hostname": "echo node1",
    "scontrol": """
        case "$*" in
            *State=DRAIN*) echo IDLE+DRAIN > state; echo "${*##*Reason=} [root@2026-01-31T12:00:00]" > reason ;;
            *State=RESUME*) rm state reason ;;
            *) echo "NodeName=node1 State=$(cat state || echo ALLOCATED) Weight=1 Reason=$(cat reason || echo none)" ;;
        esac 2> /dev/null
    """,
    "squeue": 'echo >> looks; [ "$(wc -l < looks)" -gt 1 ] || echo 4711',
}
RUNNER = {
    "systemctl": """
        case "$*" in
            *LoadState*) cat loaded 2> /dev/null || echo loaded ;;
            *ActiveState*) cat state 2> /dev/null || echo active ;;
            *KillSignal*) cat signal 2> /dev/null || echo 3 ;;
            *KillMode*) echo mixed ;;
            *TimeoutStopUSec*) cat limit 2> /dev/null || echo infinity ;;
            stop*) echo inactive > state ;;
            start*) rm state ;;
        esac
    """,
}
SPOT = {"az": 'case "$*" in "vmss show"*) cat capacity 2> /dev/null || echo 7 ;; esac'}
PRODUCTS = {
    "pacemaker": PACEMAKER,
    "kubernetes": KUBERNETES,
    "slurm": SLURM,
    "gitlab-runner": RUNNER,
    "spot": SPOT,
    "patroni": {"curl": 'case "$*" in *http_code*) echo 503 ;; esac'},
    "notify": {},
}


class Host:
    """A host with a product, in a directory of the test."""

    def __init__(self, root_side, directory, monkeypatch):
        self.root_side, self.directory = root_side, directory
        self.calls_file = directory / "calls"
        (directory / "bin").mkdir()
        monkeypatch.setenv("PATH", "{}:{}".format(directory / "bin", os.environ["PATH"]))

    def install(self, product, failing=None):
        """Make the commands of a product; one call, as it is recorded, can always fail."""
        for name, text in PRODUCTS[product].items():
            fails = f'[ "{name} $*" != "$FAILING" ] || exit 1'
            path = self.directory / "bin" / name
            path.write_text(f'#!/bin/sh\ncd {self.directory}\necho "{name} $*" >> calls\n{fails}\n{text}\n')
            path.chmod(0o755)
        os.environ["FAILING"] = failing or ""

    def run(self, name, **changes):
        """Run a hook as the runner does, with 11 seconds: it can run three times; the outcome."""
        product, _dash, phase = name.rpartition("-")
        phase = phase if product else "prepare"
        with open(os.path.join(HOOKS, name)) as file:
            text = file.read()
        for place in ("/var/lib/maintops", "/run/maintops", "/etc/notify-webhook"):
            text = text.replace(place, str(self.directory / "host") + place)
        text = text.replace("alarm(15)", "alarm(1)")
        for other in ("prepare", "recover", "advised"):
            for path in glob.glob(os.path.join(self.root_side.directories.hooks, other + ".d", "*")):
                os.unlink(path)
        self.root_side.add_hook(text, phase=phase)
        times = {"timeout": 11.0, "ends_at": 11.0, "deadline": time.time() + 300}
        result = self.root_side.run_phase(FakeClock(0.0), phase=phase, **dict(times, **changes))
        self.reason = result.reason
        return result.outcome

    def calls(self):
        """The calls since the last look."""
        calls = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.write_text("")
        return calls

    def send_to(self, address):
        """Have messages sent there."""
        place = self.directory / "host" / "etc" / "notify-webhook"
        place.parent.mkdir(parents=True)
        place.write_text(address)

    def write(self, name, text):
        (self.directory / name).write_text(text + "\n")


@pytest.fixture
def host(root_side, tmp_path, monkeypatch):
    monkeypatch.setenv("FAILING", "")
    return Host(root_side, tmp_path, monkeypatch)


def product_of(name):
    return name.rpartition("-")[0] or name


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_a_short_program_with_a_comment(name):
    path = os.path.join(HOOKS, name)
    with open(path) as file:
        lines = file.read().splitlines()
    assert len(lines) - LICENCE <= LONGEST
    assert lines[LICENCE] == ""
    assert lines[LICENCE + 1].startswith("# ")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o755


@pytest.mark.parametrize("name", NAMES)
def test_text_of_an_event_never_reaches_a_command(host, name):
    mark = str(host.directory / "mark")
    hostile = f"x'; touch {mark}; $(touch {mark}) `touch {mark}` \" -- --help\n| touch {mark}"
    event = dict.fromkeys(host.root_side.event, hostile)
    host.install(product_of(name))
    host.run(name, event=dict(event, resources=[hostile]), vm_name=hostile)
    assert not os.path.exists(mark)
    assert [call for call in host.calls() if "touch" in call] == []


def calls_when_all_succeeds(host, name):
    host.install(product_of(name))
    host.run(name)
    calls = sorted(set(host.calls()))
    for leftover in ("standby", "looks", "state", "reason"):
        if (host.directory / leftover).exists():
            (host.directory / leftover).unlink()
    return calls


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("-prepare") and "kubernetes" not in name])
def test_nothing_is_prepared_where_a_call_of_the_product_fails(host, name):
    for call in calls_when_all_succeeds(host, name):
        host.install(product_of(name), failing=call)
        assert host.run(name) in ("failed", "timeout"), call
        calls_when_all_succeeds(host, name)


def test_a_message_whose_channel_answers_for_ever_holds_no_event(host):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)

    def answer():
        connection, _address = listener.accept()
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
            while True:
                connection.sendall(b"a")
                time.sleep(0.05)

    threading.Thread(target=answer, daemon=True).start()
    host.send_to(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    assert host.run("notify") == "nothing"
    listener.close()


# As the library of the system does while no server of names answers: nothing of Python runs until it ends.
LOOKS_UP_FOR_EVER = """
import ctypes, socket
def getaddrinfo(*_arguments):
    mutex = ctypes.create_string_buffer(64)
    for _time in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)
socket.getaddrinfo = getaddrinfo
"""


def test_a_message_to_a_name_that_is_looked_up_for_ever_holds_no_event(host, monkeypatch):
    host.write("sitecustomize.py", LOOKS_UP_FOR_EVER)
    monkeypatch.setenv("PYTHONPATH", str(host.directory))
    host.send_to("http://chat.example/")
    assert host.run("notify") == "nothing"


def test_a_node_of_pacemaker_is_in_standby_until_its_resources_have_moved(host):
    host.install("pacemaker")
    assert host.run("pacemaker-prepare") == "ok"
    look = ["crm_mon --one-shot --output-as=xml", "crm_node --name"]
    assert host.calls() == [*look, "crm_standby --update=on", *look, *look]
    assert host.run("pacemaker-prepare") == "ok"
    assert host.calls() == look
    for calls in (["crm_standby --update=off"], []):
        assert (host.run("pacemaker-recover"), host.calls()) == ("ok", calls)


@pytest.mark.parametrize(
    ("name", "value"),
    [("other", "false"), *(("state", f"{each}='true'") for each in ("maintenance", "unclean", "shutdown"))],
)
def test_a_node_of_pacemaker_that_is_the_last_one_keeps_its_resources(host, monkeypatch, name, value):
    host.install("pacemaker")
    monkeypatch.setenv(name, value)
    assert (host.run("pacemaker-prepare"), host.reason) == ("failed", "10-hook: no other node is online")
    assert "crm_standby --update=on" not in host.calls()


def test_a_node_of_pacemaker_leaves_its_standby_where_no_other_node_can_run_its_resources_any_more(host, monkeypatch):
    host.install("pacemaker")
    assert host.run("pacemaker-prepare", timeout=1.0, ends_at=1.0) == "timeout"
    host.calls()
    monkeypatch.setenv("other", "false")  # it failed, or two nodes have begun their standby at the same moment
    assert (host.run("pacemaker-prepare"), host.reason) == ("failed", "10-hook: no other node is online")
    assert "crm_standby --update=off" in host.calls()
    assert (host.run("pacemaker-recover"), host.calls()) == ("ok", [])


def test_a_node_of_pacemaker_that_an_operator_put_into_standby_stays_there(host):
    host.install("pacemaker")
    host.write("standby", "on")
    assert host.run("pacemaker-prepare") == "ok"
    assert host.run("pacemaker-recover") == "ok"
    assert [call for call in host.calls() if call.startswith("crm_standby")] == []


def test_a_node_of_pacemaker_that_an_operator_has_emptied_is_prepared_also_if_it_is_alone(host, monkeypatch):
    host.install("pacemaker")
    host.write("standby", "on")
    host.write("looks", "\n" * 3)
    monkeypatch.setenv("other", "false")
    assert host.run("pacemaker-prepare") == "ok"
    assert "crm_standby --update=off" not in host.calls()


GET = "kubectl get node aks-web-vmss000001 --output jsonpath="
CORDONED = "kubectl annotate node aks-web-vmss000001 scheduled-events=cordoned --overwrite"


def test_a_node_of_kubernetes_is_drained_in_the_time_until_the_deadline(host):
    host.install("kubernetes")
    for _time in range(2):
        assert host.run("kubernetes-prepare") == "ok"
        _hostname, get, annotate, drain = host.calls()
        assert get == GET + "{.spec.unschedulable} {.metadata.annotations.scheduled-events}"
        assert annotate == CORDONED
        start = "kubectl drain aks-web-vmss000001 --ignore-daemonsets --delete-emptydir-data --grace-period "
        grace, timeout = drain[len(start) :].split(" --timeout ")
        assert drain.startswith(start)
        assert timeout[-1] == "s"
        assert 240 < int(timeout[:-1]) <= 295
        assert int(grace) == int(timeout[:-1]) * 3 // 4  # the drain waits for pods that have to be killed, too
    assert host.run("kubernetes-recover") == "ok"
    uncordon = ["kubectl uncordon aks-web-vmss000001", "kubectl annotate node aks-web-vmss000001 scheduled-events-"]
    assert host.calls()[2:] == uncordon
    assert host.run("kubernetes-recover") == "ok"
    assert host.calls()[2:] == []


def test_a_node_of_kubernetes_that_an_operator_cordoned_stays_so(host):
    host.install("kubernetes")
    host.write("unschedulable", "true")
    assert host.run("kubernetes-prepare") == "ok"
    assert CORDONED not in host.calls()
    assert host.run("kubernetes-recover") == "ok"
    assert "kubectl uncordon aks-web-vmss000001" not in host.calls()


@pytest.mark.parametrize("verb", ["get", "annotate", "drain"])
def test_a_node_of_kubernetes_is_not_prepared_where_a_call_fails(host, verb):
    host.install("kubernetes")
    path = host.directory / "bin" / "kubectl"
    path.write_text(path.read_text().replace("\n", f'\n[ "$1" != {verb} ] || exit 1\n', 1))
    assert host.run("kubernetes-prepare") == "timeout"


def test_a_node_of_kubernetes_without_time_is_not_drained(host):
    host.install("kubernetes")
    assert host.run("kubernetes-prepare", deadline=time.time() + 4) == "failed"
    assert [call for call in host.calls() if "drain" in call] == []


def test_a_node_of_slurm_is_drained_until_its_last_job_has_ended(host):
    host.install("slurm")
    show, jobs = "scontrol --oneliner show node node1", "squeue --noheader --nodelist=node1 --format=%A"
    drain = "scontrol update NodeName=node1 State=DRAIN Reason=scheduled-event"
    assert host.run("slurm-prepare") == "ok"
    assert [call for call in host.calls() if not call.startswith("hostname")] == [show, drain, jobs, show, jobs]
    assert host.run("slurm-prepare") == "ok"
    assert drain not in host.calls()
    for resumed in (True, False):
        assert host.run("slurm-recover") == "ok"
        assert ("scontrol update NodeName=node1 State=RESUME" in host.calls()) == resumed


def test_a_node_of_slurm_that_an_operator_drained_stays_so(host):
    host.install("slurm")
    host.write("state", "IDLE+DRAIN")
    host.write("reason", "a broken disk")
    assert host.run("slurm-prepare") == "ok"
    assert host.run("slurm-recover") == "ok"
    assert [call for call in host.calls() if "update" in call] == []


def test_a_runner_is_stopped_after_its_jobs_and_started_again(host):
    host.install("gitlab-runner")
    for calls in (["systemctl stop gitlab-runner"], []):
        assert host.run("gitlab-runner-prepare") == "ok"
        assert [call for call in host.calls() if " show " not in call] == calls
    for calls in (["systemctl start gitlab-runner"], []):
        assert host.run("gitlab-runner-recover") == "ok"
        assert [call for call in host.calls() if " show " not in call] == calls


@pytest.mark.parametrize(("setting", "value"), [("signal", "15"), ("limit", "1min 30s")])
def test_a_runner_whose_jobs_systemd_would_end_is_not_stopped(host, setting, value):
    host.install("gitlab-runner")
    host.write(setting, value)
    assert host.run("gitlab-runner-prepare") == "failed"
    assert host.reason.startswith("10-hook: systemd would end the jobs: set KillSignal=SIGQUIT")
    assert "systemctl stop gitlab-runner" not in host.calls()


@pytest.mark.parametrize("loaded", ["not-found", "masked", "error"])
def test_a_runner_that_is_not_a_unit_of_this_host_is_not_said_to_be_stopped(host, loaded):
    host.install("gitlab-runner")
    host.write("loaded", loaded)
    host.write("state", "inactive")
    assert host.run("gitlab-runner-prepare") == "failed"
    assert host.reason == "10-hook: gitlab-runner is not a unit of this host: correct its name in this hook"


@pytest.mark.parametrize("limit", ["2h", "1d 1h 30min", "infinity"])
def test_a_runner_whose_jobs_have_hours_to_end_is_stopped(host, limit):
    host.install("gitlab-runner")
    host.write("limit", limit)
    assert host.run("gitlab-runner-prepare") == "ok"


def test_a_runner_whose_last_job_still_runs_starts_after_it_and_the_recovery_does_not_wait(host):
    host.install("gitlab-runner")
    assert host.run("gitlab-runner-prepare") == "ok"
    host.write("state", "deactivating")  # the event is over before the job is
    host.calls()
    assert host.run("gitlab-runner-recover") == "ok"
    assert "systemctl start --no-block gitlab-runner" in host.calls()


@pytest.mark.parametrize("state", ["inactive", "deactivating"])
def test_a_runner_that_an_operator_stops_is_not_started(host, state):
    host.install("gitlab-runner")
    host.write("state", state)
    assert host.run("gitlab-runner-prepare") == "ok"
    assert host.run("gitlab-runner-recover") == "ok"
    assert "systemctl start gitlab-runner" not in host.calls()


SCALE = "az vmss scale --resource-group workers --name workers --new-capacity 8 --no-wait --output none"


def test_a_worker_asks_once_for_its_replacement(host):
    host.install("spot")
    assert host.run("spot-advised") == "ok"
    show = "az vmss show --resource-group workers --name workers --query sku.capacity --output tsv"
    assert host.calls() == ["az login --identity --output none", show, SCALE]
    assert (host.run("spot-advised"), host.calls()) == ("ok", [])


@pytest.mark.parametrize(("capacity", "asked"), [("7", [SCALE]), ("8", []), ("20", [])])
def test_a_worker_that_asks_again_never_asks_for_less_than_there_is(host, capacity, asked):
    host.install("spot", failing=SCALE)
    assert host.run("spot-advised") == "timeout"
    host.calls()
    host.write("capacity", capacity)  # 8: the answer was lost, not the request; 20: others have added instances
    host.install("spot")
    assert host.run("spot-advised") == "ok"
    assert [call for call in host.calls() if "scale " in call] == asked


@pytest.mark.parametrize("capacity", ["50", "None", "0"])
def test_a_worker_asks_for_nothing_without_a_capacity_below_the_limit(host, capacity):
    host.install("spot")
    host.write("capacity", capacity)
    assert host.run("spot-advised") in ("failed", "timeout")
    assert [call for call in host.calls() if "scale" in call] == []
