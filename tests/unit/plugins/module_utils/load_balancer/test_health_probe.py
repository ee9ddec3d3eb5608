# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import re

import pytest

from plugins.module_utils._load_balancer.call import OPTIONS
from plugins.module_utils._load_balancer.health_probe import Flag, ProbeAnswer, Probed, check_settings
from plugins.module_utils._load_balancer.record import DrainError, Record
from plugins.module_utils._scheduled_events.files import Folder

pytestmark = pytest.mark.edge

UNKNOWN = "whether its balancers send it traffic again is not known: they had 16 s to notice"
URL = "http://127.0.0.1/healthz"
DEFAULTS = {name: option.get("default") for name, option in OPTIONS.items()}


class Service:
    """Answers 503 as long as its flag is there, unless ``answers`` holds other answers, of which the last is kept."""

    def __init__(self, flag):
        self.flag = flag
        self.answers = []
        self.peers = []

    def probe(self):
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return ProbeAnswer(503 if self.flag.exists() else 200)


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path / "etc" / "drained")


class Host:
    """A host for which each call is one run of the module. Two probes of the balancer take 10 s."""

    def __init__(self, service, record, clock, simulate, options):
        self._service, self._record, self._clock, self._simulate = service, record, clock, simulate
        self._options = {**DEFAULTS, "flag": str(service.flag), "url": URL, "ports": [80], **options}

    def drain(self, holder, **options):
        return self._run(holder, "drained", **{"drain_timeout": 0, **options})

    def put_back(self, holder, timeout=60, **options):
        return self._run(holder, "active", return_timeout=timeout, **options)

    def _run(self, holder, state, **options):
        return Probed(
            {**self._options, "holder": holder, "state": state, **options},
            self._record,
            probe=self._service.probe,
            peers=lambda: list(self._service.peers),
            simulate=self._simulate,
            clock=self._clock,
        ).bring()


@pytest.fixture
def make(service, tmp_path, clock):
    def host(simulate=False, **options):
        record = Record(Folder(str(tmp_path / "state")), simulate=simulate, clock=clock)
        return Host(service, record, clock, simulate, options)

    return host


@pytest.fixture
def record(tmp_path, clock):
    return Record(Folder(str(tmp_path / "state")), clock=clock)


@pytest.fixture
def host(make):
    return make()


def test_a_flag_is_raised_once(host):
    assert host.drain("first")["changed"]
    assert not host.drain("first")["changed"]


def test_the_service_of_another_user_sees_the_flag_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        Flag(str(tmp_path / "etc" / "drained")).raise_()
    finally:
        os.umask(before)
    assert (tmp_path / "etc").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "etc" / "drained").stat().st_mode & 0o777 == 0o644


def test_a_flag_that_an_operator_has_removed_is_raised_again_which_is_a_change(host, make, service):
    host.drain("first")
    service.flag.unlink()
    assert make(simulate=True).drain("first")["changed"]
    assert host.drain("first")["changed"]
    assert service.flag.exists()


def test_a_second_holder_is_a_change_also_in_check_mode_and_where_the_flag_is_up(host, make):
    host.drain("first")
    assert make(simulate=True).drain("second")["changed"]
    assert not make(simulate=True).drain("first")["changed"]


def test_a_link_in_place_of_the_flag_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    for target in (secret, tmp_path / "new"):
        (tmp_path / "drained").symlink_to(target)
        Flag(str(tmp_path / "drained")).raise_()
        (tmp_path / "drained").unlink()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "new").exists()


def test_the_balancer_gets_the_time_to_notice_even_when_the_flag_was_there(host, service, clock):
    service.peers = ["10.0.0.7:1"]
    for _run in range(2):
        assert host.drain("first")["msg"].endswith("still has 1 on port 80, from 10.0.0.7:1")
    assert clock.now == 1022


def test_no_message_shows_the_password_of_the_health_endpoint(make, service):
    service.answers = [ProbeAnswer(404)] * 20
    with pytest.raises(DrainError, match=r"^http://…@127\.0\.0\.1/healthz answers 404 "):
        make(url="http://user:secret@127.0.0.1/healthz", on_timeout="fail").drain("first")


def test_a_service_that_honours_the_flag_late_is_waited_for(host, service, clock):
    service.answers = [ProbeAnswer(200), ProbeAnswer(200), ProbeAnswer(200), ProbeAnswer(503)]
    assert host.drain("first")["msg"] == ""
    assert clock.now == 1013


WRONG = {
    "a wrong path": ([ProbeAnswer(404)], f"{URL} answers 404 before .*/drained exists, expected 200"),
    "a wrong port": ([ProbeAnswer(0, "Connection refused")], rf"{URL} answers nothing \(Connection refused\) before "),
    "a service that is down": ([ProbeAnswer(502)], f"{URL} answers 502 before .*Correct the URL, or start the service"),
    "a flag that is not honoured": (
        [ProbeAnswer(200)],
        f"{URL} answers 200 although .*/drained exists, expected 503; waited 5 s. Let the health endpoint of your ",
    ),
    "another status": (
        [ProbeAnswer(200), ProbeAnswer(404)],
        f"{URL} answers 404 although .*set load_balancer_probe_drained_st",
    ),
    "a service that ends": (
        [ProbeAnswer(200), ProbeAnswer(0, "refused")],
        rf"{URL} answers nothing \(refused\) although ",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_probe_does_not_pass_as_drained_and_leaves_nothing(host, service, record, clock, kind):
    service.answers, message = list(WRONG[kind][0]), WRONG[kind][1]
    with pytest.raises(DrainError, match=message):
        host.drain("first")
    assert clock.now == 1005
    assert not service.flag.exists()
    assert record.read().holders == []


def test_a_service_that_comes_up_just_then_is_waited_for(host, service):
    service.answers = [ProbeAnswer(502), ProbeAnswer(200), ProbeAnswer(503)]
    assert host.drain("first")["msg"] == ""


def test_the_status_of_a_drained_host_can_be_another_one(make, service):
    service.answers = [ProbeAnswer(200), ProbeAnswer(404)]
    assert make(drained_status=404).drain("first")["msg"] == ""


@pytest.mark.parametrize("answer", [ProbeAnswer(503), ProbeAnswer(404), ProbeAnswer(0, "Connection refused")])
def test_a_flag_that_exists_is_not_checked_again_but_for_200(make, service, answer):
    """The service may be down: since a reboot, or by its maintenance."""
    make().drain("first")
    service.answers = [answer]
    for holder in ("first", "second"):
        assert make().drain(holder)["msg"] == ""
    service.answers = [ProbeAnswer(200)]
    with pytest.raises(DrainError, match=r"answers 200 although .* exists"):
        make().drain("second")
    assert service.flag.exists()


@pytest.mark.parametrize("kind", WRONG)
def test_without_insisting_the_flag_is_raised_and_the_problem_named(host, service, kind):
    service.answers, message = list(WRONG[kind][0]), WRONG[kind][1]
    if kind == "a flag that is not honoured":
        with pytest.raises(DrainError, match="answers 200 although"):
            host.drain("first", on_timeout="continue")
    else:
        result = host.drain("first", on_timeout="continue")
        assert re.search(message, result["msg"])
        assert "failed" not in result
    assert service.flag.exists()


def test_check_mode_does_not_ask_a_service_that_may_not_be_installed(make, service):
    service.answers = [ProbeAnswer(0, "Connection refused")]
    assert make(simulate=True).drain("first")["changed"]


@pytest.mark.parametrize(
    ("seconds", "notice", "is_certain"), [(100, 11, True), (11, 11, True), (7, 7, False), (0, 0, False)]
)
def test_the_wait_for_the_notice_ends_with_the_time_there_is(host, service, clock, seconds, notice, is_certain):
    result = host.drain("first", finish_within=seconds)
    assert clock.now == 1000 + notice
    problem = f"its balancers need 11 s to notice that it is out, and had {seconds} s"
    assert (result["msg"], result.get("failed", False)) == (("", False) if is_certain else (problem, True))
    assert service.flag.exists()


def test_a_service_that_does_not_honour_the_flag_is_not_waited_for_longer_than_there_is_time(host, service, clock):
    service.answers = [ProbeAnswer(200)]
    with pytest.raises(DrainError, match="waited 0 s"):
        host.drain("first", finish_within=0)
    assert clock.now == 1000


def test_a_return_is_waited_for_half_of_the_time_there_is(host, make, clock, record):
    host.drain("first")
    assert host.put_back("first", timeout=600, balancers=["lb1"])["ask"]
    begin = clock.now
    make().drain("second", finish_within=60)
    assert clock.now == begin + 30 + 11
    assert record.read().holders == ["second"]


def test_only_connections_that_were_there_are_waited_for(host, service, clock):
    service.peers = ["a:1", "a:2"]
    clock.at = [
        (1013, lambda: service.peers.append("probe:9")),
        (1015, lambda: service.peers.remove("a:1")),
        (1020, lambda: service.peers.remove("a:2")),
    ]
    assert host.drain("first", drain_timeout=60)["msg"] == ""
    assert clock.now == 1020


def test_remaining_connections_are_reported(host, service, clock):
    service.peers = ["a:1", "a:2"]
    clock.at = [(1015, lambda: service.peers.remove("a:1"))]
    result = host.drain("first", drain_timeout=60)
    assert result["failed"]
    assert result["msg"] == "it gets no new connections, but after 60 s it still has 1 on port 80, from a:2"
    assert clock.now == 1011 + 60


def test_connections_have_all_of_the_time_there_is(host, service, clock):
    service.peers = ["a:1"]
    clock.at = [(1019, lambda: service.peers.remove("a:1"))]
    assert host.drain("first", drain_timeout=60, finish_within=20)["msg"] == ""
    assert clock.now == 1019


def test_a_wait_for_connections_ends_with_its_stretch_and_is_continued(host, service, clock):
    service.peers = ["a:1", "a:2"]
    first = host.drain("first", drain_timeout=60, wait_at_most=15)
    assert (first["changed"], clock.now) == (True, 1011 + 15)
    service.peers = ["a:2", "later:1"]
    clock.at = [(1030, lambda: service.peers.remove("a:2"))]
    last = host.drain("first", drain_timeout=60, wait_at_most=15, resume=first["resume"])
    assert last == {"changed": False, "msg": "", "resume": {}}
    assert clock.now == 1030


def test_a_host_is_back_when_it_answers_200_and_the_balancer_had_time_to_notice(host, service, clock, record):
    leases = []
    clock.at = [(1012, lambda: leases.append(record.returning()))]
    host.drain("first")
    service.answers = [ProbeAnswer(0, "refused"), ProbeAnswer(502), ProbeAnswer(200)]
    assert host.put_back("first") == {"changed": True, "msg": UNKNOWN, "resume": {}}
    assert clock.now == 1011 + 18  # 2 s for the service, then 11 s to notice and one interval more
    assert leases == [{"holder": "first", "seconds": 135}]  # 60, 16 to notice, and 60 to spare, one second ago
    assert not service.flag.exists()
    assert host.put_back("first") == {"changed": False, "msg": "", "resume": {}}


def test_connections_count_once_a_caller_has_asked_the_balancers(host, service, clock):
    service.peers = ["before:1"]
    asked = host.drain("first", balancers=["lb1"], drain_timeout=60)
    assert (asked["changed"], asked["ask"], asked["resume"]["problem"], clock.now) == (True, True, "", 1011)
    service.peers = ["before:1", "meanwhile:2"]
    clock.at = [(1015, lambda: service.peers.remove("before:1")), (1020, service.peers.clear)]
    last = host.drain("first", balancers=["lb1"], drain_timeout=60, resume={**asked["resume"], "asked": True})
    assert last == {"changed": False, "msg": "", "resume": {}}
    assert clock.now == 1020


def test_a_problem_of_the_service_is_named_after_the_balancers_were_asked(host, service):
    service.answers = [ProbeAnswer(200), ProbeAnswer(404)]
    asked = host.drain("first", balancers=["lb1"], on_timeout="continue")
    last = host.drain("first", balancers=["lb1"], on_timeout="continue", resume={**asked["resume"], "asked": True})
    assert "answers 404 although" in last["msg"]


def test_the_end_of_a_return_is_left_to_a_caller_that_asks_the_balancers(host, service, clock, record):
    host.drain("first")
    assert host.put_back("first", balancers=["lb1"]) == {"changed": True, "msg": "", "resume": {}, "ask": True}
    assert clock.now == 1011
    assert record.returning() == {"holder": "first", "seconds": 196}  # twice 60, 16 to notice, and 60 to spare
    assert not service.flag.exists()


def test_a_host_that_does_not_answer_is_named_and_stays_held_so_that_a_second_run_continues(host, service):
    host.drain("first")
    service.answers = [ProbeAnswer(0, "Connection refused")]
    with pytest.raises(
        DrainError, match=r"does not answer 200 although .* does not exist; waited 60 s, last answer none Conn"
    ):
        host.put_back("first")
    service.answers = []
    assert host.put_back("first")["changed"]


@pytest.mark.parametrize("balancers", [[], ["lb1"]])
def test_a_flag_of_an_operator_stays(host, service, balancers):
    service.flag.parent.mkdir()
    service.flag.touch()
    host.drain("first")
    host.drain("first")
    back = host.put_back("first", balancers=balancers)
    assert (back["changed"], service.flag.exists(), back.get("ask", False)) == (True, True, False)
    assert back["msg"].startswith("stays out, for ")


def test_check_mode_says_that_a_flag_of_an_operator_stays(host, make, service):
    service.flag.parent.mkdir()
    service.flag.touch()
    host.drain("first")
    assert make(simulate=True).put_back("first")["msg"].startswith("stays out, for ")


def test_a_host_whose_record_is_lost_is_out_as_long_as_its_flag_is_there(host, service, tmp_path):
    host.drain("first")
    (tmp_path / "state" / "load-balancer.json").unlink()
    with pytest.raises(DrainError, match="is gone"):
        host.put_back("first", was_drained=True)
    service.flag.unlink()
    assert not host.put_back("first", was_drained=True)["changed"]


def test_a_flag_stays_for_another_holder(host, service):
    host.drain("first")
    host.drain("second")
    assert host.put_back("first")["msg"] == "stays drained for second"
    assert service.flag.exists()


def test_a_holder_that_comes_while_the_host_returns_waits_until_it_is_back(host, service, clock, record):
    host.drain("first")
    assert host.put_back("first", balancers=["lb1"])["ask"]

    def end():
        with record.locked():
            record.forget("first")

    clock.at = [(1030, end)]
    host.drain("second")
    assert clock.now == 1030 + 11
    assert service.flag.exists()


def test_a_holder_that_needs_nothing_put_back_does_not_wait_for_the_one_that_puts_the_host_back(host, clock, record):
    host.drain("first")
    began = clock.now
    record.release("first", seconds=100)
    assert not host.put_back("second")["changed"]
    assert clock.now == began


def test_a_holder_that_comes_after_the_lease_takes_the_place_of_the_other(host, make, service, clock, record):
    host.drain("first")
    service.answers = [ProbeAnswer(502)]

    def come():
        clock.now += 500  # the lease is over, since this machine stood still
        service.answers = []
        make().drain("second")

    clock.at = [(1015, come)]
    assert host.put_back("first")["msg"] == "stays drained for second"
    assert service.flag.exists()
    make().put_back("second")
    assert not service.flag.exists()
    assert record.read().holders == []


class Remote(Folder):
    """As that of a Windows host: a read returns the content at the time when the changes were written last."""

    def __init__(self, path):
        super().__init__(path)
        self._known = {}

    def read(self, name, largest=-1):
        if name not in self._known:
            self._known[name] = super().read(name, largest)
        return self._known[name]

    def write(self, name, content, *, mode, durable=False):
        self._known = {}
        super().write(name, content, mode=mode, durable=durable)

    def remove(self, name):
        self._known = {}
        super().remove(name)

    def write_changes(self):
        self._known = {}


def test_a_holder_that_comes_to_a_remote_host_is_noticed_while_the_host_returns(service, make, clock, tmp_path):
    remote = Record(Remote(str(tmp_path / "state")), clock=clock)
    host = Host(service, remote, clock, False, {})
    host.drain("first")
    service.answers = [ProbeAnswer(502)]

    def come():
        clock.now += 500  # the lease is over
        service.answers = []
        make().drain("second")

    clock.at = [(1015, come)]
    assert host.put_back("first")["msg"] == "stays drained for second"


def test_a_flag_that_was_raised_by_hand_while_the_host_returns_is_named(host, service, clock):
    host.drain("first")
    service.answers = [ProbeAnswer(503)]
    clock.at = [(1015, service.flag.touch)]
    with pytest.raises(DrainError, match=r"does not answer 200 since .*/drained was created again; waited 60 s"):
        host.put_back("first")


def test_check_mode_changes_nothing(make, service, tmp_path):
    assert make(simulate=True).drain("first")["changed"]
    assert list(tmp_path.iterdir()) == []
    make().drain("first")
    back = make(simulate=True).put_back("first")
    assert (back["changed"], back["msg"]) == (True, f"would remove {service.flag}")
    assert service.flag.exists()


@pytest.mark.parametrize(("interval", "count", "seconds"), [(5, 2, 11), (0.1, 2, 2), (2.5, 3, 9)])
def test_the_balancer_notices_after_its_probes_and_a_second(make, clock, interval, count, seconds):
    make(interval=interval, count=count).drain("first")
    assert clock.now == 1000 + seconds


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("flag", "drained", "flag is drained, expected an absolute path"),
        ("ports", [], "ports is empty, expected at least one port"),
        ("drained_status", 200, "drained_status is 200, which a host in service gives"),
        ("url", "", 'url is "", expected http://HOST/PATH or https://HOST/PATH. Set load_balancer_probe_url'),
        ("url", "http://me:s3/cret@web/healthz", 'url is "http://…@web/healthz", expected http://HOST/PATH'),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(option, value, message):
    settings = {"flag": "/etc/drained", "ports": [80], "url": "http://127.0.0.1/healthz", "drained_status": 503}
    check_settings(settings)
    with pytest.raises(DrainError, match=message):
        check_settings(dict(settings, **{option: value}))
