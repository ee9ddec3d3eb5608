# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The provider and the state of the module load_balancer, and what it does on the host itself."""

import pytest

from plugins.module_utils._load_balancer.call import OPTIONS, carry_out, wrong_state
from plugins.module_utils._load_balancer.health_probe import Flag, ProbeAnswer
from plugins.module_utils._load_balancer.record import FILE, DrainError, Record
from plugins.module_utils._scheduled_events.files import Folder

DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}


@pytest.fixture
def call(tmp_path, clock):
    """Carry out options with a service that answers 503 while the flag is raised, and 200 otherwise."""
    asked, flag = [], tmp_path / "drained"

    def probe(url):
        asked.append(url)
        return ProbeAnswer(503 if flag.exists() else 200)

    def run(provider, state, simulate=False, **options):
        given = {**DEFAULTS, "provider": provider, "state": state, "flag": str(flag), "drain_timeout": 0, **options}
        return carry_out(given, Folder(str(tmp_path)), simulate=simulate, probe=probe, peers=lambda: [], clock=clock)

    run.asked, run.flag, run.record = asked, flag, tmp_path / FILE
    return run


@pytest.mark.parametrize(
    ("provider", "state", "wrong"),
    [
        ("record", "held", ""),
        ("record", "released", ""),
        ("health_probe", "drained", ""),
        ("haproxy", "active", ""),
        (
            "record",
            "drained",
            "state is drained, expected held or returning or interrupted or released with provider record",
        ),
        ("haproxy", "held", "state is held, expected drained or active with provider haproxy"),
    ],
)
def test_each_provider_has_its_own_states(provider, state, wrong):
    assert wrong_state({"provider": provider, "state": state}) == wrong


def test_the_record_is_written_without_a_look_at_the_service(call):
    assert call("record", "held", holder="patch")["changed"]
    assert call.record.exists()
    assert (call.asked, call.flag.exists()) == ([], False)


def test_a_host_is_drained_by_its_flag_and_its_service_asked_at_the_url_given(call):
    assert call("health_probe", "drained", holder="patch", url="http://127.0.0.1:8080/ready")["changed"]
    assert call.flag.exists()
    assert set(call.asked) == {"http://127.0.0.1:8080/ready"}


def test_a_host_that_cannot_be_put_back_keeps_no_other_holder_waiting(call, tmp_path, clock):
    call("health_probe", "drained", holder="patch")
    call.flag.unlink()
    call.flag.mkdir()  # so that it cannot be removed as a file
    with pytest.raises(OSError, match="drained"):
        call("health_probe", "active", holder="patch")
    record = Record(Folder(str(tmp_path)), clock=clock)
    assert (record.returning(), record.read().holders) == (None, ["patch"])


@pytest.mark.parametrize(("provider", "state"), [("record", "held"), ("health_probe", "drained")])
def test_check_mode_writes_nothing(call, provider, state):
    assert call(provider, state, holder="patch", simulate=True)["changed"]
    assert not call.flag.exists()
    assert not call.record.exists()


def test_a_flag_that_is_not_a_path_from_the_root_is_refused_before_anything_is_written(call):
    with pytest.raises(DrainError, match="flag"):
        call("health_probe", "drained", holder="patch", flag="drained")
    assert not call.record.exists()


def test_the_flag_of_another_machine_is_raised_in_place_of_a_file_here(tmp_path, clock):
    there = Flag(str(tmp_path / "there"))
    options = {**DEFAULTS, "provider": "health_probe", "state": "drained", "flag": "C:\\drained", "drain_timeout": 0}
    carry_out(
        {**options, "holder": "patch"},
        Folder(str(tmp_path)),
        simulate=False,
        probe=lambda _url: ProbeAnswer(503 if (tmp_path / "there").exists() else 200),
        peers=lambda: [],
        clock=clock,
        flag=there,
        is_absolute=lambda path: path.startswith("C:"),
    )
    assert (tmp_path / "there").exists()
