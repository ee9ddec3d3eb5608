# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requests of the operator to the unit: who answers them."""

import contextlib
import select
import socket
import threading

import pytest
from scheduled_events_poller.unit import control


def test_only_the_unit_can_answer_a_request(tmp_path):
    def serve():
        _message, sender = listener.recvfrom(control.LARGEST)
        with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as another:
            another.sendto(b"forged", sender)
        listener.sendto(b"of the unit", sender)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert control.send(str(tmp_path / "notify"), "retry", "E1") == "of the unit"
        thread.join()


def test_a_unit_that_does_not_answer_ends_the_request_with_what_to_look_at(tmp_path, monkeypatch):
    monkeypatch.setattr(control, "ANSWER_TIMEOUT", 0.01)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        with pytest.raises(control.NoUnit, match="does not answer: timed out"):
            control.send(str(tmp_path / "notify"), "retry", "E1")


def test_an_outcome_of_a_thread_ends_the_wait_of_the_unit(tmp_path):
    with contextlib.ExitStack() as stack:
        inbox = control.Inbox(str(tmp_path / "notify"), stack)
        assert not select.select([inbox._wake_end], [], [], 0)[0]
        inbox.deliver("polled")
        assert select.select([inbox._wake_end], [], [], 0)[0]
        assert list(inbox.outcomes()) == ["polled"]
