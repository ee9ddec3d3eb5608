# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.checks import WrongValue, check
from _scheduled_events.discovery import ENDPOINT_OR_AUTO, NETWORKS
from _scheduled_events.exchange import API_VERSION, ENDPOINT


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://127.0.10.1", "http://127.0.10.1"),
        ("http://127.0.10.1:8169/", "http://127.0.10.1:8169"),
        ("https://imds.example", "https://imds.example"),
        ("http://[::1]:8169", "http://[::1]:8169"),
    ],
)
def test_a_url_of_a_host_is_taken_without_its_last_slash(endpoint, expected):
    assert check(endpoint, ENDPOINT, "endpoint") == check(endpoint, ENDPOINT_OR_AUTO, "endpoint") == expected


@pytest.mark.parametrize(
    "endpoint",
    ["", "127.0.10.1", "ftp://127.0.10.1", "http://", "http:///metadata", "http://host:x", "http://host:99999",
     "http://host:0", "http://[::1", "http://host?x=1", "http://host#x", "http://user:secret@host", "http://ho st",
     "http://\ud800", "file:///etc/passwd", 5, None, ["http://host"]],
)  # fmt: skip
def test_anything_else_is_refused_with_what_was_expected(endpoint):
    for kind, expected in ((ENDPOINT, "http://HOST:PORT"), (ENDPOINT_OR_AUTO, "http://HOST:PORT, or auto")):
        with pytest.raises(WrongValue) as caught:
            check(endpoint, kind, "endpoint")
        assert str(caught.value).startswith(f"endpoint: expected http://HOST or {expected}, not ")


def test_a_password_in_the_url_is_not_repeated():
    with pytest.raises(WrongValue) as caught:
        check("http://user:secret@host", ENDPOINT, "endpoint")
    assert str(caught.value).endswith('not "http://…@host"')


def test_auto_is_an_endpoint_only_where_the_service_is_searched():
    assert check("auto", ENDPOINT_OR_AUTO, "endpoint") == "auto"
    with pytest.raises(WrongValue):
        check("auto", ENDPOINT, "endpoint")


@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01", "2031-12-31"])
def test_any_date_is_a_version(version):
    assert check(version, API_VERSION, "api_version") == version


@pytest.mark.parametrize("version", ["latest", "", "2020-7-1", "2020-07-01-preview", "20200701", "2020-07-01\n"])
def test_what_is_not_a_date_is_refused(version):
    with pytest.raises(WrongValue, match=r"^api_version: expected a date, such as 2020-07-01, not "):
        check(version, API_VERSION, "api_version")


def test_networks_and_addresses_are_allowed():
    given = ["168.63.129.16", "10.0.0.0/8", " 169.254.0.0/16 "]
    assert check(given, NETWORKS, "endpoint_networks") == ("168.63.129.16/32", "10.0.0.0/8", "169.254.0.0/16")


@pytest.mark.parametrize("network", ["", "azure", "10.0.0.1/8", "::/0", "10.0.0.0/33", 10, None])
def test_anything_else_is_refused_as_a_network(network):
    with pytest.raises(WrongValue, match=r"^endpoint_networks\[1\]: expected an IPv4 network, such as .*, not "):
        check(["169.254.0.0/16", network], NETWORKS, "endpoint_networks")
