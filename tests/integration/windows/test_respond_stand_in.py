# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role respond on stand-ins of Windows hosts and on Linux hosts: no Windows and no PowerShell run here.

Requests, the state file and its renaming go through stand-ins in Python of modules of ansible.windows, which do what
the sources of those modules do (support/windows_stand_in). Update the golden files with GOLDEN=write.
"""

import json
import os
import pathlib
import re

import pytest
from emulation import until
from responders import AHEAD, NAMED, PLAYBOOK, TURN, result
from windows import CONNECTION, windows

GOLDEN = pathlib.Path(__file__).parent / "golden"
OPTIONS = ("--speed", "60", "--rate-limit", "0")
FORKS = ("--forks", "20")
PLACE = "C/Program Files/maintops"  # of the state, on the drive of a stand-in
CASES = ("quiet", "reboots", "fails", "recovery_fails", "started")
HOSTS = {"alpha": CASES, "omega": (*CASES, "lost")}  # Linux hosts, and stand-ins of Windows hosts
TASKS = """
- name: {phase} tasks
  ansible.builtin.fail:
    msg: it cannot be done
  when: "'{phase}' in fails"

- name: Hold on in {phase} while the test says so
  ansible.builtin.wait_for:
    path: '{{{{ holds }}}}'
    state: absent
    timeout: 300
  when: holds | default('') | length > 0
"""


class Fleet:
    """Hosts with one VM each, and tasks files for them."""

    def __init__(self, emulate, directory, names, *outside):
        vms = [{"name": name, "kind": "availability_set", "set": name.rpartition("-")[2]} for name in names]
        vms += [{"name": name, "kind": "availability_set", "set": name.rpartition("-")[2]} for name in outside]
        self.emulator = emulate(vms, *OPTIONS)
        self.directory, self.names = directory, names
        for phase in ("prepare", "started", "recover"):
            (directory / f"{phase}.yml").write_text(f"---\n{TASKS.format(phase=phase)}")

    def drive(self, name):
        return self.directory / "drives" / name

    def generations(self, name):
        return sorted((self.drive(name) / PLACE).glob("state-*.json"))

    def state(self, name):
        """What respond remembers of a stand-in."""
        files = json.loads(self.generations(name)[-1].read_text())["files"] if self.generations(name) else {}
        return json.loads(files["respond.json"])["events"] if "respond.json" in files else {}

    def inventory(self, **host_vars):
        inventory = self.emulator.inventory(scheduled_events_endpoint=lambda name: self.emulator.endpoints[name])
        hosts = {name: inventory["all"]["hosts"][name] for name in self.names}
        for name, variables in hosts.items():
            variables["fails"] = []
            if name.startswith("omega"):
                variables.update(ansible_connection=CONNECTION, ansible_drive=str(self.drive(name)))
            else:
                variables["scheduled_events_state_directory"] = str(self.drive(name) / "state")
            variables.update(host_vars.get(name.rpartition("-")[2], {}))
        tasks = {f"respond_{phase}_tasks": str(self.directory / f"{phase}.yml") for phase in ("prepare", "recover")}
        tasks["respond_started_tasks"] = str(self.directory / "started.yml")
        return {"all": {"hosts": hosts, "vars": {**tasks, "ansible_become": False, "respond_wait_timeout": 240}}}

    def environment(self):
        return windows(self.directory / "windows.log")


class Story:
    """A run of all cases on both kinds of hosts."""

    def __init__(self, ansible, emulate, directory):
        names = [f"{host}-{case}" for host, cases in HOSTS.items() for case in cases]
        fleet = self.fleet = Fleet(emulate, directory, names)
        self.events = {name: [self._announce(name)] for name in names if not name.endswith("quiet")}
        (directory / "breaks").write_text("9")
        run = ansible.start_playbook(
            PLAYBOOK,
            inventory=fleet.inventory(
                fails={"fails": ["prepare"], "respond_wait_timeout": 12},
                recovery_fails={"fails": ["recover"]},
                lost={"ansible_breaks_at": str(directory / "breaks")},
            ),
            options=(*FORKS, *NAMED),
            env=fleet.environment(),
        )
        for name in ("alpha-started", "omega-started"):
            self._complete_once_answered(name, run)
        self.run = run.result()
        self.broke = (directory / "breaks").read_text()

    def _complete_once_answered(self, name, run):
        """Remove a Started event once a turn after the started tasks has read it."""
        emulator = self.fleet.emulator
        last = "Hold on in started while the test says so"
        until(lambda: run.all(host=name, task=last) or not run.running, what="the started tasks")
        polls = emulator.polls(name)["polls"]
        until(lambda: emulator.polls(name)["polls"] > polls or not run.running, what="a poll after them")
        emulator.complete(self.events[name][0])

    def _announce(self, name):
        emulator = self.fleet.emulator
        lasts = AHEAD if name.endswith("started") else 60
        event_id = emulator.schedule("Reboot", name, notice=AHEAD, started_for=lasts, description="Größe {{ x }}")
        if name.endswith("started"):
            emulator.start(event_id)
        return event_id

    def result(self, host, case):
        """What the role leaves, without what is of the host or of the moment."""
        found = {key: value for key, value in result(self.run, f"{host}-{case}").items() if key != "history"}
        text = json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False)
        for number, event_id in enumerate(self.events.get(f"{host}-{case}", [])):
            text = text.replace(event_id, f"EVENT-{number}")
        text = re.sub(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text.replace(host, "HOST").replace("-lost", "-reboots")
        )
        text = re.sub(r"\(/\S+/(\w+\.yml:\d+)\)", r"(DIRECTORY/\1)", text)
        return re.sub(r"acknowledged \d+ s", "acknowledged NUMBER s", text) + "\n"


@pytest.fixture(scope="module")
def story(ansible, emulate, tmp_path_factory):
    return Story(ansible, emulate, tmp_path_factory.mktemp("respond"))


@pytest.mark.parametrize("host", HOSTS)
def test_the_result_of_a_linux_host_and_of_the_stand_in_of_a_windows_host_has_the_same_history(story, host):
    facts = result(story.run, f"{host}-reboots")["history"]
    # Started lasts for a second here, in which no poll may fall.
    assert [" ".join([fact["kind"], fact.get("phase", "")]).strip() for fact in facts if fact["kind"] != "started"] == [
        "seen",
        "phase_began prepare",
        "phase_ended prepare",
        "acknowledged",
        "over",
        "phase_began recover",
        "phase_ended recover",
        "returned",
    ]


@pytest.mark.parametrize(("host", "case"), [(host, case) for host, cases in HOSTS.items() for case in cases])
def test_respond_leaves_the_golden_result_on_a_linux_host_and_on_the_stand_in_of_a_windows_host(story, host, case):
    path = GOLDEN / f"respond_{'reboots' if case == 'lost' else case}.json"
    found = story.result(host, case)
    if os.environ.get("GOLDEN") == "write" and host == "alpha":
        path.write_text(found)
    assert found == path.read_text(), story.run.output


def test_only_events_of_prepared_hosts_are_acknowledged_and_each_once(story):
    posts = sorted((vm, ids, status) for vm, ids, status in story.fleet.emulator.posts())
    prepared = [f"{host}-{case}" for host, cases in HOSTS.items() for case in cases]
    prepared = [name for name in prepared if not name.endswith(("quiet", "-fails", "started"))]
    assert posts == sorted((name, story.events[name], 200) for name in prepared)


def test_a_connection_that_breaks_while_the_state_is_written_is_reached_again(story):
    assert int(story.broke) < 1, "the connection did not break"
    assert "omega-lost: lost (the control node lost the host: the stand-in of a connection breaks)" in story.run.output


def test_a_recovery_that_failed_is_still_known_on_the_stand_in(story):
    [entry] = story.fleet.state("omega-recovery_fails").values()
    assert entry["runs"]["recover"]["outcome"] == "failed"
    assert story.fleet.state("omega-reboots") == {}


def test_a_stand_in_without_an_event_is_not_written_to(story):
    assert not story.fleet.drive("omega-quiet").exists()
    assert len(story.fleet.generations("omega-reboots")) == 2


class Killed:
    """A run that is killed between the preparation and the acknowledgement, and the run after it."""

    def __init__(self, ansible, emulate, directory):
        names = ["omega-prepared", "omega-preparing", "omega-torn", "omega-older"]
        fleet = self.fleet = Fleet(emulate, directory, names, *(name.replace("omega", "other") for name in names))
        schedule = fleet.emulator.schedule
        self.events = {
            name: schedule("Redeploy", name, name.replace("omega", "other"), notice=AHEAD, started_for=60)
            for name in names
        }
        held = directory / "held"
        held.touch()
        first = ansible.start_playbook(
            PLAYBOOK,
            inventory=fleet.inventory(preparing={"holds": str(held)}),
            options=(*FORKS, *NAMED),
            env=fleet.environment(),
        )
        ready = [name for name in names if name != "omega-preparing"]
        until(lambda: all(map(self._is_prepared, ready)) or not first.running, what="the preparation")
        until(lambda: fleet.state("omega-preparing") or not first.running, what="the beginning of a preparation")
        first.stop()
        self.first = first
        self.posts_of_first = fleet.emulator.posts()
        held.unlink()
        # They see that it was killed only when they want to go on.
        until(lambda: not first.processes(), what="the end of all processes of the run")
        self._break_files()
        alone = {name[6:]: {"respond_acknowledge": "any"} for name in names}
        self.run, self.run_of_broken = (
            ansible.run_playbook(
                PLAYBOOK,
                inventory=fleet.inventory(**alone),
                options=(*FORKS, "--limit", ",".join(hosts)),
                env=fleet.environment(),
            )
            for hosts in (names[:2], names[2:])
        )

    def _is_prepared(self, name):
        entries = self.fleet.state(name).values()
        return any(entry["runs"].get("prepare", {}).get("outcome") == "ok" for entry in entries)

    def _break_files(self):
        torn, older = (self.fleet.generations(name) for name in ("omega-torn", "omega-older"))
        torn[-1].write_bytes(torn[-1].read_bytes()[:300])
        older[-1].write_bytes(bytes(len(older[-1].read_bytes())))  # as a power cut leaves it: its length, and zeros

    def phases(self, name):
        return [turn["next"] for turn in self.run.all(host=name, action=TURN) if "next" in turn.result]


@pytest.fixture(scope="module")
def killed(ansible, emulate, tmp_path_factory):
    return Killed(ansible, emulate, tmp_path_factory.mktemp("killed"))


def test_nothing_was_acknowledged_when_the_run_was_killed(killed):
    assert killed.posts_of_first == [], killed.first.output


def test_the_next_run_does_not_prepare_again_and_acknowledges(killed):
    phases = killed.phases("omega-prepared")
    assert (phases.count("prepare"), phases[-2:]) == (0, ["recover", "done"]), killed.run.output
    assert ("omega-prepared", [killed.events["omega-prepared"]], 200) in killed.fleet.emulator.posts()


def test_the_next_run_prepares_again_what_was_not_prepared_and_acknowledges(killed):
    phases = killed.phases("omega-preparing")
    assert (phases.count("prepare"), phases[-2:]) == (1, ["recover", "done"]), killed.run.output
    assert ("omega-preparing", [killed.events["omega-preparing"]], 200) in killed.fleet.emulator.posts()


@pytest.mark.parametrize("name", ["omega-torn", "omega-older"])
def test_a_broken_state_does_not_count_as_empty_and_stops_the_role(killed, name):
    [failed] = killed.run_of_broken.all(host=name, task="Read the first step")
    newest = killed.fleet.generations(name)[-1].name
    assert failed.status == "failed"
    assert f"C:\\Program Files\\maintops\\{newest} is broken" in failed["msg"]
    assert f"remove {newest}, and run it again" in failed["msg"]
    assert name not in [vm for vm, _ids, _status in killed.fleet.emulator.posts()]
