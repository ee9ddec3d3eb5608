# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

import pytest
from _scheduled_events.endpoint import SettingError, check_api_version, check_endpoint


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
    assert check_endpoint(endpoint) == expected


@pytest.mark.parametrize(
    "endpoint",
    ["", "127.0.10.1", "ftp://127.0.10.1", "http://", "http:///metadata", "http://host:x", "http://host:99999",
     "http://host?x=1", "http://host#x", "http://user:secret@host", "http://ho st", "file:///etc/passwd"],
)  # fmt: skip
def test_anything_else_is_refused_with_what_was_expected(endpoint):
    with pytest.raises(SettingError) as caught:
        check_endpoint(endpoint)
    assert "is not the URL of a metadata service: expected http://HOST or http://HOST:PORT" in str(caught.value)


def test_a_password_in_the_url_is_not_repeated():
    with pytest.raises(SettingError) as caught:
        check_endpoint("http://user:secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("version", ["2017-03-01", "2020-07-01", "2031-12-31"])
def test_any_date_is_a_version(version):
    assert check_api_version(version) == version


@pytest.mark.parametrize("version", ["latest", "", "2020-7-1", "2020-07-01-preview", "20200701", "2020-07-01\n"])
def test_what_is_not_a_date_is_refused(version):
    with pytest.raises(SettingError) as caught:
        check_api_version(version)
    assert str(caught.value) == (
        'api_version "' + version + '" is not a version of Scheduled Events: '
        'expected a date such as 2020-07-01, and the service does not know "latest"'
    )
