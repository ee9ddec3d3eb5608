# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every verb with values that make no sense: a message and an exit status, never an exception."""

import json

import pytest
from scheduled_events_emulator.cli import main
from web_servers import Handler, WebServer

TIME = "a time from 0 to 10000000000 seconds, such as 90, 90s, 5m, 1h or 2d"
LONG = "9" * 5000
BYTES = "\udcff"  # what an argument that is not UTF-8 reads as


@pytest.fixture
def outcome(capsys):
    """Return a function that runs the command in this process and returns (exit status, errors)."""

    def call(*words):
        try:
            status = main(list(words))
        except SystemExit as usage:
            status = usage.code
        return status, capsys.readouterr().err

    return call


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: VERB"),
        (["explode"], "invalid choice: 'explode'"),
        (["log", "--sinc", "1"], "unrecognized arguments: --sinc 1"),  # a later option would change its meaning
        (["advance"], "the following arguments are required: SECONDS|next"),
        (["advance", "5 minutes"], f'"5 minutes" is not {TIME}'),
        (["advance", "soon"], f'"soon" is not {TIME}, nor next'),
        (["advance", "10000000001"], f'"10000000001" is not {TIME}'),
        (["advance", "m"], '"m" is not a time'),
        (["advance", ""], '"" is not a time'),
        (["advance", "nan"], '"nan" is not a time'),
        (["advance", "inf"], '"inf" is not a time'),
        (["advance", LONG], "is not a time"),
        (["advance", BYTES], '"\\udcff" is not a time'),
        (["advance", "--", "-5m"], '"-5m" is not a time'),
        (["schedule", "Reboot"], "the following arguments are required: VM"),
        (["schedule", "Rebot", "vm1"], "invalid choice: 'Rebot'"),
        (["schedule", "Reboot", "vm1", "--notice", "soon"], '--notice: "soon" is not a time'),
        (["schedule", "Reboot", "vm1", "--duration", "long"], '--duration: "long" is not a whole number of seconds'),
        (
            ["schedule", "Reboot", "vm1", "--duration=-2"],
            '--duration: "-2" is not a whole number of seconds up to 10000000000, or -1',
        ),
        (["schedule", "Reboot", "vm1", "--duration", LONG], "is not a whole number of seconds"),
        (["schedule", "Reboot", "vm1", "--source", "me"], "invalid choice: 'me'"),
        (["scenario", "earthquake", "vm1"], "invalid choice: 'earthquake'"),
        (["fault", "explode"], "invalid choice: 'explode'"),
        (["fault", "status", "--status", "ok"], '--status: "ok" is not an HTTP status from 200 to 599'),
        (["fault", "status", "--status", "999"], '--status: "999" is not an HTTP status from 200 to 599'),
        (["fault", "status", "--count", "1.5"], '--count: "1.5" is not a whole number from 0 to 10000000000'),
        (["fault", "slow", "--delay", "long"], '--delay: "long" is not a time'),
        (["log", "--since", "-1"], '--since: "-1" is not a whole number from 0 to 10000000000'),
        (["log", "--since", "²"], "is not a whole number from 0 to 10000000000"),
        (["serve"], "the following arguments are required: --fleet"),
        (["serve", "--fleet", "f", "--port", "65536"], '--port: "65536" is not a port from 0 to 65535'),
        (["serve", "--fleet", "f", "--port", "²"], "is not a port from 0 to 65535"),
        (["serve", "--fleet", "f", "--listen", "here"], '--listen: "here" is not an IP address such as 127.0.0.1'),
        (["serve", "--fleet", "f", "--control", "8170"], '--control: "8170" is not ADDRESS:PORT such as'),
        (["serve", "--fleet", "f", "--control", "localhost:8170"], '"localhost:8170" is not ADDRESS:PORT such as'),
        (["serve", "--fleet", "f", "--control", "127.0.0.1:²"], "is not ADDRESS:PORT such as"),
        (["serve", "--fleet", "f", "--speed", "0"], '--speed: "0" is not a number from 0.001 to 1e+06'),
        (["serve", "--fleet", "f", "--speed", "fast"], '--speed: "fast" is not a number from 0.001 to 1e+06'),
        (["serve", "--fleet", "f", "--rate-limit", "-1"], '--rate-limit: "-1" is not a whole number'),
        (["serve", "--fleet", "f", "--exit-after", "never"], '--exit-after: "never" is not a time'),
        (["--wait", "long", "state"], '--wait: "long" is not a time'),
        (["check-fleet"], "the following arguments are required: FILE"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(outcome, words, message):
    status, errors = outcome(*words)
    assert status == 2
    assert message in errors


def test_the_url_of_another_control_api_is_not_taken_for_the_address_to_serve_on(outcome):
    status, errors = outcome("--control", "http://127.0.0.1:8178", "serve", "--fleet", "absent.json")
    assert (status, "stands before serve, expected serve --control ADDRESS:PORT" in errors) == (1, True)


def test_a_token_beside_a_user_in_the_url_of_event_grid_is_refused(outcome, tmp_path):
    (tmp_path / "token").write_text("of-the-receiver")
    (tmp_path / "fleet.json").write_text('{"vms": [{"name": "web1", "address": "127.0.10.1"}]}')
    more = ("--event-grid-url", "http://me:secret@127.0.0.1:1/a@b", "--event-grid-token-file", tmp_path / "token")
    status, errors = outcome("serve", "--fleet", *map(str, (tmp_path / "fleet.json", *more)))
    assert (status, "has a user" in errors, "secret" in errors) == (1, True, False)
    status, errors = outcome("serve", "--fleet", str(tmp_path / "missing.json"), *map(str, more[2:]))  # without a URL
    assert (status, "missing.json: No such file" in errors) == (1, True)


@pytest.mark.parametrize(
    "control",
    ["https://127.0.0.1:1", "http://", "127.0.0.1:99999", "127.0.0.1:x", "http://[::1", "a..b:1", "x" * 300, "é\udcff"],
)
def test_an_invalid_control_url_is_refused(outcome, control):
    status, errors = outcome("--control", control, "--wait", "0", "state")
    assert status == 1
    assert errors.startswith('scheduled-events-emulator: --control "')
    assert errors.endswith(" is not a URL such as http://127.0.0.1:8170\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["schedule", "Reboot", "unknown"], 'vm "unknown": not in the fleet, expected one of web1'),
        (["schedule", "Reboot", BYTES], 'vm "\\udcff": not in the fleet'),
        (["schedule", "Reboot", "web1", "--event-id", "7"], 'event_id: "7" is not a GUID'),
        (["schedule", "Reboot", "web1", "--duration", "99", "--started-for", "9"], "started_for: 9.0 is not at least"),
        (["cancel", "7"], 'event "7": not in any VM\'s document'),
        (["start", "a/b?c#d"], "not in any VM's document"),
        (["complete", BYTES], "not in any VM's document"),
        (["complete", ""], "404 Not Found"),
        (["deallocate", BYTES], "not in the fleet"),
        (["restart", "unknown"], 'vm "unknown": not in the fleet'),
        (["advance", "next"], "no change of state is pending"),
        (["advance", "1e10"], "leads beyond the emulator's time"),
        (["fault", "status", "--vm", "unknown"], 'vm "unknown": not in the fleet'),
        (["fault", "status", "--count", "0"], "count: 0 is not a number from 1 to 10000000000"),
        (["fault", "redirect", "--location", "a\nb"], 'location: "a\\nb" is not a URL'),
        (["scenario", "spot_eviction", "web1"], 'vms: "web1" is not a Spot VM'),
    ],
)
def test_what_the_emulator_refuses_is_shown_with_its_reason(emulate, outcome, words, message):
    served = emulate()
    for _number in range(3 if words == ["advance", "1e10"] else 0):
        served.control("POST", "advance", {"seconds": 9.5e9})
    status, errors = outcome("--control", served.control_url, *words)
    assert status == 1
    assert errors.startswith("scheduled-events-emulator: ")
    assert message in errors


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "No such file or directory, expected a readable JSON file"),
        ("", "not JSON"),
        ("[" * 200_000, "not JSON"),
        ('{"vms": [{"name": "vm1", "adress": "127.0.40.1"}]}', "vms[0].adress: unknown key, expected one of address"),
        ('{"vms": [{"name": "vm1", "address": "vm1"}]}', 'vms[0].address: "vm1" is not an IP address'),
        ('{"vms": [{"name": "vm1", "from": ["127.0.0.1"]}]}', "VM vm1 has no address that it can call. Add --listen"),
        (
            '{"vms": [{"name": "vm1", "address": "127.0.40.1"}, {"name": "vm2", "from": ["127.0.0.9"]}]}',
            "VM vm2 has no address that it can call",
        ),
        ('{"vms": [{"name": "vm1", "address": "0.0.0.0"}]}', "is not an address of one VM. Use from, and --listen"),
    ],
)
def test_a_fleet_file_that_cannot_be_served_is_refused(outcome, tmp_path, text, message):
    fleet = tmp_path / "fleet.json"
    if text is not None:
        fleet.write_text(text)
    status, errors = outcome("serve", "--fleet", str(fleet), "--port=0", "--control=127.0.0.1:0", "--exit-after=1")
    assert status == 1
    assert message in errors


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b'{"vms": "\xff"}'])
def test_a_fleet_file_that_is_not_text_is_refused(outcome, tmp_path, content):
    fleet = tmp_path / "fleet.json"
    fleet.write_bytes(content)
    status, errors = outcome("check-fleet", str(fleet))
    assert status == 1
    assert f"fleet file {fleet}: not JSON" in errors


def test_a_directory_is_not_a_fleet_file(outcome, tmp_path):
    assert outcome("check-fleet", str(tmp_path)) == (
        1,
        f"scheduled-events-emulator: fleet file {tmp_path}: Is a directory, expected a readable JSON file\n",
    )


def test_a_name_of_a_file_that_is_not_utf8_can_be_shown(outcome, tmp_path):
    fleet = tmp_path / f"fleet{BYTES}.json"
    fleet.write_text(json.dumps({"vms": [{"name": "vm1", "address": "127.0.40.1"}]}))
    assert outcome("check-fleet", str(fleet)) == (0, "")


@pytest.mark.parametrize("start", ["noon", "0001-01-01T00:00:00+14:00", "1969-12-31", "9999-12-31T23:59:59Z", BYTES])
def test_a_start_outside_the_emulators_time_is_refused(outcome, tmp_path, start):
    fleet = tmp_path / "fleet.json"
    fleet.write_text(json.dumps({"vms": [{"name": "vm1", "address": "127.0.40.1"}]}))
    options = ["--port=0", "--control=127.0.0.1:0", "--exit-after=1", "--start-time", start]
    status, errors = outcome("serve", "--fleet", str(fleet), *options)
    assert status == 1
    assert "expected ISO 8601 such as 2026-01-31T12:00:00Z, from 1970 to 2999" in errors


@pytest.mark.parametrize("verb", ["state", "polls", "log", "faults", "clear-faults", "advance next", "restart vm1"])
@pytest.mark.parametrize("body", [b"[]", b"7", b'{"vms": 7}', b"<html>", b"[" * 200_000, b"\xff"])
def test_an_answer_of_another_server_is_reported(outcome, other_server, verb, body):
    url = other_server(body)
    status, errors = outcome("--control", url, *verb.split())
    assert status == 1
    assert "which no emulator does: give the URL that serve printed with --control" in errors


@pytest.fixture
def other_server():
    """Return a function that starts a server which answers everything with one body."""
    running = []

    def start(body):
        class Answer(Handler):
            def do_GET(self):
                self.content()
                self.reply(200, body)

            do_POST = do_DELETE = do_GET

        running.append(WebServer(Answer))
        return running[-1].url

    yield start
    for server in running:
        server.stop()


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("1h", 3600), ("2d", 172800)])
def test_a_time_may_have_a_unit(emulate, outcome, text, seconds):
    served = emulate()
    event_id = served.schedule("Reboot", "web1", notice=seconds)
    assert outcome("--control", served.control_url, "advance", text) == (0, "")
    assert [entry["event_id"] for entry in served.log("started")] == [event_id]
