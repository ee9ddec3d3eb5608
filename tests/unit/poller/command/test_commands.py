# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``scheduled-events`` as a process."""

import email.utils
import json
import os
import pathlib
import shlex
import subprocess
import threading
import time

import pytest
from page_blocks import block
from polling_unit import GIVE_UP, ID, OTHER_ID, ROOT, until
from scheduled_events_poller.unit import status


def test_status_shows_what_it_does_with_an_exit_code(unit, imds):
    code, output, _errors = unit.command("status")
    summary = "the polling unit does not run, or cannot write its status. See its journal"
    assert (code, output) == (2, f"CRITICAL: {summary}\n")
    unit.add_hook("prepare", "exit 1")
    unit.start()
    until(lambda: unit.command("status")[0] == 0, "the status OK")
    imds.announce()
    until(lambda: "did not succeed" in unit.log(), "the failure")
    until(lambda: unit.command("status")[0] == 1, "the status WARNING")
    output = unit.command("status")[1]
    assert output.startswith("WARNING: 1 of 1 event of vm1 in trouble\n")
    assert "not acknowledged, because its prepare hooks did not succeed: 10-hook: exit status 1" in output
    assert json.loads(unit.command("status", "--json")[1])["exit_code"] == 1


def test_status_shows_before_an_event_that_nothing_prepares_and_which_hooks_it_would_refuse(unit):
    unit.start()
    asks = f"  asks {unit.settings['endpoint']} (given)\n"
    until(lambda: unit.command("status")[1].endswith(f", no prepare hooks\n{asks}"), "that it has no hook")
    unit.add_hook("prepare", "exit 0")
    unit.add_hook("recover", "exit 0")
    until(lambda: "no prepare hooks" not in unit.command("status")[1], "the hook")
    assert unit.command("status")[0] == 0
    path = unit.path("hooks/recover.d/10-hook")
    for text, mode, problem in (
        ("#!/bin/sh\n", 0o644, "refused: it is not executable. Run chmod +x"),
        ("#!/etc/passwd\n", 0o755, 'the interpreter in its first line cannot be executed: "#!/etc/passwd"'),
        ("#!/bin/sh\r\n", 0o755, r'the interpreter in its first line is missing: "#!/bin/sh\r"'),
        ("exit 0\n", 0o755, "it is not a program, expected a first line such as #!/bin/sh"),
    ):
        with open(path, "w", newline="") as file:
            file.write(text)
        os.chmod(path, mode)
        assert unit.command("status")[:2] == (1, f"WARNING: recover.d/10-hook: {problem}\n{asks}")
    os.remove(path)
    for number in range(6):
        unit.add_hook("recover", "exit 0", name=f"{number}-hook")
        os.chmod(unit.path(f"hooks/recover.d/{number}-hook"), 0o644)
    wrong = [f"recover.d/{number}-hook: refused: it is not executable. Run chmod +x" for number in range(6)]
    below = "".join(f"  {each}\n" for each in wrong[4:])
    assert unit.command("status")[:2] == (1, f"WARNING: {'; '.join(wrong[:4])}; 2 other problems, below\n{below}{asks}")
    assert json.loads(unit.command("status", "--json")[1])["summary"] == "; ".join(wrong)
    for number in range(6):
        os.remove(unit.path(f"hooks/recover.d/{number}-hook"))
    os.mkdir(unit.path("hooks/restore"))  # of the owner
    open(unit.path("hooks/recovery"), "w").close()
    for name in ("recover", "Recover.d", "recovery.d", "recover_d"):
        os.mkdir(unit.path(f"hooks/{name}"))
        problem = f"{name}: no hook there is run, expected hooks in recover.d. Move them"
        assert unit.command("status")[:2] == (1, f"WARNING: {problem}\n{asks}")
        os.rmdir(unit.path(f"hooks/{name}"))


def test_status_shows_what_a_hook_says_while_it_runs_and_not_after_that(unit, imds):
    path = unit.path("root")
    said = os.path.join(path, f"said-{ID.lower()}")
    unit.add_hook("prepare", f"echo 'there is no job yet' >{said}\nuntil [ -e {path}/go-on ]; do sleep 0.1; done")
    unit.start()
    imds.announce()
    until(lambda: "\n    output of the hook: there is no job yet\n" in unit.command("status")[1], "what the hook says")
    assert json.loads(unit.command("status", "--json")[1])["events"][0]["said"] == "there is no job yet"
    open(os.path.join(path, "go-on"), "w").close()
    until(lambda: "prepare running" not in unit.command("status")[1], "the end of the hook")
    assert "its hook says" not in unit.command("status")[1]


def test_status_shows_the_status_of_an_event_only_while_azure_announces_it(unit, imds):
    unit.add_hook("prepare", "")
    unit.add_hook("recover", "exit 1")
    unit.start()
    imds.announce()
    until(lambda: f"  Reboot {ID} (Scheduled): " in unit.command("status")[1], "the event")
    unit.await_acknowledgement()
    imds.events = []
    until(lambda: f"  Reboot {ID}: recovery failed: " in unit.command("status")[1], "the failure")


@pytest.mark.edge
def test_list_shows_the_events_of_this_vm(unit, imds):
    unit.configure()
    assert unit.command("list")[1] == "no events of vm1 (incarnation 0)\n"
    imds.announce(Resources=["vm2"])
    assert unit.command("list")[1] == "no events of vm1 (incarnation 1)\n"
    lines = unit.command("list", "--all")[1].splitlines()
    assert lines[1].split() == [ID, "Reboot", "Scheduled", "-", "-", "-", "vm2"]
    shown = json.loads(unit.command("list", "--all", "--json")[1])
    assert [event["event_id"] for event in shown["events"]] == [ID]


@pytest.mark.parametrize(
    ("resources", "options", "code", "message"),
    [
        (["vm1"], [], 0, "acknowledged"),
        (["vm1", "vm2"], [], 1, "it also names other VMs than vm1"),
        (["vm1", "vm2"], ["--force"], 0, "acknowledged"),
        (["vm2"], ["--force"], 1, "it does not name this VM, vm1"),
    ],
)
def test_approve_speaks_for_others_only_by_force_and_never_for_others_alone(
    unit, imds, resources, options, code, message
):
    unit.configure()
    imds.announce(Resources=resources)
    ended, output, _errors = unit.command("approve", ID.lower(), *options)
    assert ended == code
    assert message in output
    assert len(imds.posts) == (1 if code == 0 else 0)


MOMENT = block("docs/choose-the-moment.md", "$ sudo scheduled-events approve").splitlines()


@pytest.mark.parametrize("command", MOMENT)
def test_a_command_of_the_page_about_the_moment_starts_the_preparation_of_an_event_that_waits(unit, imds, command):
    event_id = command.split()[-1]
    unit.add_hook("prepare", "true")
    unit.configure(acknowledge="never")
    unit.start()
    imds.announce(event_id, NotBefore=email.utils.formatdate(time.time() + 7200, usegmt=True))
    until(lambda: event_id in unit.log(), "the event")
    assert "prepare hooks run" not in unit.log()
    assert unit.command(*command.split()[3:])[0] == 0
    until(lambda: "prepare hooks ended: ok" in unit.log(), "the preparation")


def test_approve_asks_for_the_other_events_also_where_its_output_cannot_be_written(unit, imds):
    unit.add_hook("prepare", "true")
    unit.configure(acknowledge="never")
    unit.start()
    imds.announce(OTHER_ID)
    waits = email.utils.formatdate(time.time() + 7200, usegmt=True)
    imds.events = [*imds.events, dict(imds.events[0], EventId=ID, NotBefore=waits)]
    until(lambda: ID in unit.log() and "prepare hooks ended: ok" in unit.log(), "the preparation")
    with open("/dev/full", "w") as full:
        command = [*unit.arguments, "approve", ID, OTHER_ID]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, b"No space left" in ended.stderr) == (1, True)
    assert imds.acknowledged() == [[OTHER_ID]]
    facts = json.loads(unit.command("history", "--json")[1])["facts"]
    assert [fact["event_id"] for fact in facts if fact["kind"] == "acknowledged"] == [OTHER_ID]
    until(lambda: unit.log().count("prepare hooks ended: ok") == 2, "the preparation")


@pytest.mark.parametrize("command", ["config check", "leases"])
def test_a_command_whose_output_cannot_be_written_has_failed(unit, command):
    unit.configure()
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*unit.arguments, *command.split()], stdout=full, stderr=subprocess.PIPE, check=False)
    message = b"scheduled-events: the output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, message)


def test_the_status_names_the_other_vm_the_option_and_a_command_for_an_event_that_alone_holds(unit, imds):
    unit.add_hook("prepare", "true")
    unit.start()
    imds.announce(Resources=["vm1", "vm2"])
    sentence = (
        "not acknowledged by this VM, because acknowledge is alone, and the event also names vm2; waiting for "
        f"NotBefore. Set poller_acknowledge, or run 'scheduled-events approve --force {ID}' to acknowledge it for all "
        "its VMs"
    )
    until(lambda: sentence in unit.command("status")[1], "the status")


@pytest.mark.parametrize(
    ("names", "others"),
    [
        (["vm1"], ""),
        (["vm1", "vm2"], "it also names other VMs than vm1, and an acknowledgement counts for all of them, and "),
    ],
)
def test_approve_refuses_what_its_hooks_prepared_nothing_for(unit, imds, names, others):
    unit.add_hook("prepare", "exit 77")
    unit.start()
    imds.announce(Resources=names)
    until(lambda: "no prepare hook prepared this VM" in unit.log(), "the note")
    assert unit.command("approve", ID)[:2] == (
        1,
        f"{ID}: not acknowledged: {others}its prepare hooks prepared nothing; --force does it\n",
    )
    assert imds.posts == []


def test_an_operator_acknowledges_by_hand_what_nothing_is_configured_to_prepare_for(unit, imds):
    unit.start()
    # It would wait for its moment, if hooks were configured.
    imds.announce(NotBefore=email.utils.formatdate(time.time() + 7200, usegmt=True))
    until(lambda: "nothing is configured that prepares for it" in unit.log(), "the note")
    assert imds.posts == []
    assert unit.command("status")[1].startswith("WARNING: 1 of 1 event of vm1 in trouble\n")
    assert unit.command("approve", ID)[:2] == (0, f"{ID}: acknowledged\n")
    assert imds.acknowledged() == [[ID]]
    facts = json.loads(unit.command("history", "--json")[1])["facts"]
    [fact] = [fact for fact in facts if fact["kind"] == "acknowledged"]
    assert (fact["source"], fact["event_id"], fact["vm_name"]) == ("operator", ID, "vm1")
    assert fact["by"].endswith(", with scheduled-events approve")


def test_approve_refuses_what_is_not_prepared(unit, imds):
    unit.add_hook("prepare", "exit 1")
    unit.start()
    imds.announce()
    until(lambda: "did not succeed" in unit.log(), "the failure")
    code, output, _errors = unit.command("approve", ID)
    assert code == 1
    assert "its prepare hooks ended: failed; --force does it" in output


@pytest.mark.parametrize("settings", [{}, {"dry_run": True}, {"hooks": {"prepare": ["missing"]}}])
def test_approve_refuses_where_prepare_hooks_are_configured_and_no_success_is_known(unit, imds, settings):
    if "hooks" not in settings:
        unit.add_hook("prepare", "")
    unit.configure(**settings)
    imds.announce()
    code, output, _errors = unit.command("approve", ID)
    assert code == 1
    assert "prepare hooks are configured, and the polling unit has not run them for it; --force does it" in output
    assert imds.posts == []
    assert unit.command("approve", ID, "--force")[0] == 0
    assert imds.acknowledged() == [[ID]]


def test_approve_sends_what_was_prepared_or_what_a_rule_approves(unit, imds):
    unit.add_hook("prepare", "")
    unit.configure(acknowledge="never", rules=[{"action": "approve", "event_types": ["Freeze"], "max_duration": 8}])
    unit.start()
    imds.announce()
    until(lambda: "because acknowledge is never" in unit.log(), "the preparation")
    imds.announce(ID, OTHER_ID, EventType="Freeze", DurationInSeconds=5)
    until(lambda: unit.command("status")[1].count("acknowledge is never") == 2, "the second event")
    assert unit.command("approve", ID, OTHER_ID)[0] == 0
    assert imds.acknowledged() == [[ID, OTHER_ID]]


def test_approve_judges_by_what_is_known_after_the_document_was_read(unit, imds):
    unit.add_hook("prepare", "")
    unit.configure(acknowledge="never")
    unit.start()
    imds.announce()
    until(lambda: "because acknowledge is never" in unit.log(), "the preparation")
    unit.kill()
    imds.hang_next = True
    answers = []
    asking = threading.Thread(target=lambda: answers.append(unit.command("approve", ID)))
    asking.start()
    assert imds.hanging.wait(GIVE_UP)
    os.unlink(unit.path("state.json"))  # meanwhile nothing is prepared any more
    imds.release.set()
    asking.join(GIVE_UP)
    [(code, output, _errors)] = answers
    assert (code, imds.posts) == (1, [])
    assert "the polling unit has not run them for it" in output


def test_poll_shows_what_would_be_done_and_does_nothing(unit, imds):
    unit.configure()
    unit.add_hook("prepare", f"touch {unit.path('ran')}")
    imds.announce()
    code, output, _errors = unit.command("poll")
    assert code == 0
    assert f"{ID}: would run the prepare hooks" in output
    assert (imds.posts, os.path.exists(unit.path("ran"))) == ([], False)


def test_poll_knows_that_hooks_of_this_boot_still_run(unit, imds):
    unit.add_hook("prepare", f"while ! [ -e {unit.path('go')} ]; do sleep 0.01; done")
    unit.start()
    imds.announce()
    until(lambda: "prepare hooks run" in unit.log(), "preparation")
    unit.process.terminate()
    unit.process.wait(GIVE_UP)
    code, output, _errors = unit.command("poll")
    open(unit.path("go"), "w").close()
    assert code == 0
    assert output == "nothing to do (incarnation 1, 1 event)\n"


@pytest.mark.parametrize("content", [{"event_id": ID}, {"EventId": ID}, {"Events": [{"EventId": ID}]}])
def test_hooks_test_runs_the_hooks_of_a_phase(unit, content):
    unit.add_hook("prepare", 'echo "id $SCHEDULED_EVENT_ID"')
    with open(unit.path("event"), "w") as file:
        json.dump(content, file)
    code, output, _errors = unit.command("hooks", "test", "prepare", "--event", unit.path("event"))
    assert code == 0
    assert f"id {ID}\n" in output


@pytest.mark.parametrize(
    ("known", "expected"),
    [('{"vm_name": "web1"}', "web1 true"), ('{"vm_name": null}', "this-vm false"), ("[]", "this-vm false")],
)
def test_hooks_test_gives_the_name_of_this_vm_that_the_unit_knows(unit, known, expected):
    unit.add_hook("prepare", 'echo "$SCHEDULED_EVENTS_VM_NAME $(grep -o "affects_this_vm.: [a-z]*" | cut -d" " -f2)"')
    os.mkdir(unit.path("run"))
    for name, content in (("run/status.json", known), ("event", '{"EventId": "E", "Resources": ["WEB1"]}')):
        with open(unit.path(name), "w") as file:
            file.write(content)
    code, output, _errors = unit.command("hooks", "test", "prepare", "--event", unit.path("event"))
    assert (code, output.splitlines()[0]) == (0, expected)


def test_config_check_refuses_a_mistake_with_its_place(unit):
    unit.configure(margin="x")
    code, _output, errors = unit.command("config", "check", unit.path("poller.json"))
    assert code == 1
    assert errors.startswith(f"scheduled-events: {unit.path('poller.json')}: margin: expected seconds from 0 to 86400")
    unit.configure(margin=1)
    path = unit.path("poller.json")
    assert unit.command("config", "check", path) == (0, f"{path}: the configuration is valid\n", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "-: cannot be read as JSON: Expecting property name"),
        ("[" * 100000, "-: cannot be read as JSON: "),
        ("[]", "-: expected a dictionary with config, controller and webhooks, not []"),
        ('{"config": {}}', '-: expected a dictionary with config, controller and webhooks, not {"config": {}}'),
        ('{"config": 5, "controller": {}, "webhooks": []}', "expected a dictionary, not 5"),
        ('{"config": {}, "controller": [1], "webhooks": []}', "controller: expected a dictionary"),
        ('{"config": {}, "controller": {}, "webhooks": 5}', "webhooks: expected a list of at most"),
        ('{"config": {}, "controller": {}, "webhooks": []}', ""),
    ],
)
def test_config_check_of_all_settings_refuses_odd_json(unit, content, message):
    command = [*unit.arguments, "config", "check", "-"]
    done = subprocess.run(command, input=content.encode(), stderr=subprocess.PIPE, check=False)
    assert done.returncode == (1 if message else 0)
    assert done.stderr.decode().startswith("scheduled-events: " + message if message else "")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["| true", ">&-", ">&- 2>&-"])
@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["status"], status.CRITICAL), (["hooks", "test", "recover", "--event", "-"], status.OK)],
)
def test_a_command_whose_output_has_no_reader_ends_with_its_own_status(unit, closed, words, wanted):
    command = " ".join(map(shlex.quote, [*unit.arguments, *words]))
    shell = ["bash", "-c", f"(sleep 0.2; {command}) {closed}; exit ${{PIPESTATUS[0]}}"]
    event = json.dumps({"event_id": ID}).encode()
    done = subprocess.run(shell, input=event, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (wanted, b"")


def test_run_with_a_bad_configuration_ends_with_the_reason_and_the_status_that_systemd_does_not_restart(unit):
    unit.configure(interval=0)
    code, _output, errors = unit.command("run")
    assert code == 78
    assert "interval: expected seconds from 0.25 to 5" in errors


def test_list_warns_of_a_name_that_is_not_that_of_the_service(unit, imds):
    imds.announce()
    unit.configure(vm_name="VM1")
    assert unit.command("list")[2] == ""
    unit.configure(vm_name="web1")
    code, output, errors = unit.command("list")
    assert (code, output) == (0, "no events of web1 (incarnation 1)\n")
    assert errors == (
        'scheduled-events: vm_name: "web1" is not the name that the metadata service gives this VM, which is "vm1"; '
        "events of this VM are not found under another name\n"
    )


@pytest.mark.parametrize("status", [403, 421])
def test_list_names_what_to_allow_where_the_service_is_closed_with_a_status_of_its_own(unit, imds, status):
    unit.configure()
    imds.status = status
    code, _output, errors = unit.command("list")
    assert code == 4
    assert "Allow the user " in errors


def test_the_beginning_of_an_option_is_refused_since_a_later_option_can_begin_so_too(unit):
    assert "unrecognized arguments: --js" in unit.command("history", "--js")[2]


def test_a_hook_that_ends_as_a_command_to_which_the_service_is_closed_has_failed(unit, imds):
    unit.configure()
    imds.status = 403
    unit.add_hook("recover", f"exec {' '.join(map(shlex.quote, unit.arguments))} list")
    with open(unit.path("event"), "w") as file:
        json.dump({"event_id": ID}, file)
    code, output, _errors = unit.command("hooks", "test", "recover", "--event", unit.path("event"))
    assert (code, output.splitlines()[-1].partition(" after")[0]) == (1, "failed")


def refuses_to_test_hooks(unit):
    code, output, errors = unit.command("hooks", "test", "recover")
    assert (code, output) == (1, "")
    assert errors.startswith(f"scheduled-events: {ID} is announced now")


def test_hooks_test_runs_nothing_beside_an_event_that_is_announced_unless_a_file_names_one(unit, imds):
    unit.configure()
    unit.add_hook("recover", 'echo "id $SCHEDULED_EVENT_ID"')
    imds.announce()
    refuses_to_test_hooks(unit)
    with open(unit.path("event"), "w") as file:
        json.dump({"EventId": ID, "EventType": "Reboot", "Resources": ["vm"]}, file)
    code, output, _errors = unit.command("hooks", "test", "recover", "--event", unit.path("event"))
    assert (code, f"id {ID}\n" in output) == (0, True)


def test_hooks_test_runs_nothing_beside_an_event_that_the_unit_knows_while_the_service_does_not_answer(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, "echo ran")
    unit.acknowledge(imds)
    imds.status = 500
    refuses_to_test_hooks(unit)


def test_hooks_test_runs_nothing_beside_an_event_of_a_former_name_that_hooks_ran_for(unit, imds):
    for phase in ("prepare", "recover"):
        unit.add_hook(phase, "echo ran")
    unit.acknowledge(imds)
    unit.configure(vm_name="new")
    unit.restart()
    state = pathlib.Path(unit.path("state.json"))
    until(lambda: '"elsewhere": true' in state.read_text(), "the event of the former name")
    for imds.status in (200, 500):
        refuses_to_test_hooks(unit)


def test_hooks_test_takes_a_sample_where_no_event_is_announced(unit):
    unit.configure()
    unit.add_hook("failed", 'echo "phase $SCHEDULED_EVENT_FAILED_PHASE type $SCHEDULED_EVENT_TYPE"')
    code, output, _errors = unit.command("hooks", "test", "failed")
    assert code == 0
    assert "with a sample event" in output
    assert "phase prepare type Reboot\n" in output


def test_the_version_is_that_of_the_collection(unit):
    with open(os.path.join(ROOT, "galaxy.yml"), encoding="utf-8") as file:
        [version] = [line.split()[1] for line in file if line.startswith("version:")]
    assert unit.command("--version")[1] == f"scheduled-events {version}\n"


@pytest.mark.parametrize("kind", ["fifo", "link", "directory", "huge", "text", "list", "nothing known", "late"])
def test_status_neither_hangs_nor_breaks_on_what_a_compromised_user_leaves(unit, kind):
    path = unit.path("run/status.json")
    os.makedirs(unit.path("run"))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        os.symlink("/etc/passwd", path)
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(2**30)
    else:
        with open(path, "w") as file:
            late = json.dumps({"time": 10**400})
            file.write({"text": "{", "list": "[[]]", "nothing known": "{}", "late": late}[kind])
    code, output, _errors = unit.command("status")
    assert code == 3
    assert output.startswith(f"UNKNOWN: {path} cannot be read: ")


HOSTILE = {
    "a FIFO": os.mkfifo,
    "a link to endless zeros": lambda path: os.symlink("/dev/zero", path),
    "a directory": os.mkdir,
    "a huge file": lambda path: os.truncate(os.open(path, os.O_WRONLY | os.O_CREAT), 2**40),
    "a second name of a file": lambda path: os.link(
        os.path.join(os.path.dirname(os.path.dirname(path)), "poller.json"), path
    ),
}


@pytest.mark.timeout(120)  # without the guard the first kinds hang
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_command_of_root_hangs_on_what_a_compromised_user_leaves(unit, imds, kind):
    unit.configure()
    os.mkdir(unit.path("run"))
    for name in ("run/boot", "run/status.json"):
        HOSTILE[kind](unit.path(name))
    imds.announce()
    assert unit.command("poll")[0] == 0
    assert unit.command("status")[0] == 3
    os.mkdir(unit.path("state"))
    HOSTILE[kind](unit.path("state/state.json"))
    for command in (["poll"], ["approve", ID]):
        code, _output, errors = unit.command(f"--state-file={unit.path('state/state.json')}", *command)
        assert code == 1
        assert errors.startswith(f"scheduled-events: {unit.path('state/state.json')}: it ")
    assert imds.posts == []


def test_the_commands_of_an_operator_leave_no_file(unit, imds):
    unit.start()
    imds.announce()
    until(lambda: imds.polls > 2, "polls")
    before = sorted(os.listdir(unit.path(".")) + os.listdir(unit.path("run")))
    for command in (["list"], ["status"], ["poll"], ["approve", ID], ["clear", ID], ["hooks", "test", "prepare"]):
        unit.command(*command)
    assert sorted(os.listdir(unit.path(".")) + os.listdir(unit.path("run"))) == before


@pytest.mark.parametrize("event_id", ["", " "])
@pytest.mark.parametrize("command", ["approve", "retry", "clear"])
def test_an_empty_id_stands_for_no_event_and_above_all_not_for_all_events(unit, command, event_id):
    code, output, errors = unit.command(command, event_id)
    assert (code, output) == (2, "")
    assert errors.endswith("argument ID: expected the EventId of an event, not an empty text\n")


@pytest.mark.timeout(120)  # a second unit that is not refused goes on polling
def test_a_second_unit_is_refused_and_the_first_one_keeps_its_socket(unit):
    unit.start()
    for runtime in ("run", "other"):
        code, _output, errors = unit.command(f"--runtime-directory={unit.path(runtime)}", "run")
        assert code == 1
        assert "the poller cannot begin: another polling unit holds" in errors
    assert "the polling unit does not know this event" in unit.command("clear", ID)[2]
    os.mkdir(unit.path("elsewhere"))
    assert unit.command(f"--state-file={unit.path('elsewhere/state.json')}", "run")[0] == 1
    unit.restart()


@pytest.mark.timeout(120)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("place", [".", "state.json", "run"])
def test_another_user_than_that_of_the_state_is_refused_and_leaves_nothing(unit, place):
    unit.configure()
    os.mkdir(unit.path("run"))
    open(unit.path("state.json"), "w").close()
    os.chown(unit.path(place), 12345, -1)
    before = sorted(os.listdir(unit.path(".")) + os.listdir(unit.path("run")))
    code, _output, errors = unit.command("run")
    assert code == 1
    assert "belongs to the user 12345, and this process runs as the user root" in errors
    assert "scheduled-events poll" in errors
    assert sorted(os.listdir(unit.path(".")) + os.listdir(unit.path("run"))) == before


KNOWN = {
    "time": 1000.0,
    "last_successful_poll": 1000.0,
    "failed_polls": 0,
    "error": "",
    "unsaved": "",
    "unrecorded": "",
    "unheard": "",
    "misnamed": "",
    "lost": "",
    "dry_run": False,
    "events": [],
    "vm_name": "vm1",
    "incarnation": 3,
    "missing_hooks": {},
    "prepares": True,
    "unnamed_events": 0,
    "acknowledging_for": 0.0,
}


@pytest.mark.parametrize(
    ("now", "changes", "code", "summary"),
    [
        (1001.0, {}, status.OK, "0 events of vm1, incarnation 3"),
        (1001.0, {"events": [{"trouble": False}]}, status.OK, "1 event of vm1, incarnation 3"),
        (1001.0, {"prepares": False}, status.OK, "0 events of vm1, incarnation 3, no prepare hooks"),
        (
            1001.0,
            {"dry_run": True, "events": [{"trouble": False}]},
            status.WARNING,
            "dry run, nothing is done about 1 event of vm1",
        ),
        (1001.0, {"dry_run": True}, status.OK, "dry run, 0 events of vm1, incarnation 3"),
        (1031.0, {}, status.CRITICAL, "the polling unit has not written its status for 31 seconds"),
        (400.0, {}, status.CRITICAL, "the status is from 600 seconds in the future. Check the clock of this VM"),
        (1001.0, {"last_successful_poll": 2000.0}, status.CRITICAL, None),
        (
            1001.0,
            {"last_successful_poll": 970.0, "failed_polls": 2, "error": "x"},
            status.CRITICAL,
            "no document for 31 seconds: x",
        ),
        (1001.0, {"last_successful_poll": None, "failed_polls": 0}, status.WARNING, None),
        (1001.0, {"last_successful_poll": None, "failed_polls": 2, "error": "x"}, status.CRITICAL, None),
        (1001.0, {"events": [{"trouble": True}]}, status.WARNING, "1 of 1 event of vm1 in trouble"),
        (1001.0, {"unheard": "requests wait"}, status.WARNING, "requests wait"),
        (1001.0, {"misnamed": "another name"}, status.WARNING, "another name"),
        (
            1001.0,
            {"missing_hooks": {"prepare": ["10-a", "20-b"]}},
            status.WARNING,
            "the prepare hook 10-a is configured but missing. Run the role poller again; "
            "the prepare hook 20-b is configured but missing. Run the role poller again",
        ),
        (1001.0, {"acknowledging_for": 31.0}, status.WARNING, "an acknowledgement has been under way for 31 seconds"),
        (1001.0, {"unnamed_events": 1}, status.WARNING, None),
        (1001.0, {"unsaved": "the state cannot be saved"}, status.WARNING, "the state cannot be saved"),
        (1001.0, {"error": "disk full"}, status.WARNING, "disk full"),
    ],
)
def test_the_status_is_judged(now, changes, code, summary):
    found, problems = status.judge({**KNOWN, **changes}, now)
    assert found == code
    assert summary is None or problems == summary.split("; ")
