# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which hosts are Windows hosts. Private to the collection."""

from __future__ import annotations

import typing as t


def is_meant_as_windows(variables: t.Mapping[str, t.Any]) -> bool:
    """Whether the variables of a host say that it is a Windows host, before there is a connection."""
    connection = str(variables.get("ansible_connection", "")).rpartition(".")[2]
    return connection in ("winrm", "psrp") or variables.get("ansible_shell_type") in ("powershell", "cmd")
