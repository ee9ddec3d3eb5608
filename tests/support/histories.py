# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Histories of hosts, as the tests of the report need them."""

from plugins.module_utils._scheduled_events.history import Fact

ID = "c7061bac-afdc-4513-b24b-aa5f13a16123"
AT = 1769860200.0  # 2026-01-31T11:50:00Z
NOTICE = 900.0


def a_fact(kind, after, host="web1", **more):
    known = {"vm_name": host, "event_id": ID, "event_type": "Redeploy", "not_before": AT + NOTICE, **more}
    return Fact(kind, AT + after, "poller", **known)


def announcement(host="web1", after=0.0, **more):
    known = {
        "event_source": "Platform",
        "resources": ("web1", "web2"),
        "resource_count": 2,
        "announced_seconds": 5.0,
        **more,
    }
    return a_fact("seen", after, host, **known)


def a_phase(phase, begin, end, host="web1", outcome="ok", reason="", **more):
    return [
        a_fact("phase_began", begin, host, phase=phase, **more),
        a_fact("phase_ended", end, host, phase=phase, outcome=outcome, reason=reason, **more),
    ]


def a_maintenance(host="web1", *, later=0.0, leads=True):
    """A maintenance without a problem; everything after the announcement is ``later``."""
    who = {"by": f"the polling unit of {host}", "via": "metadata service", "rule": "no rule: prepare"}
    facts = [announcement(host), *a_phase("prepare", 1 + later, 121 + later, host)]
    if leads:
        facts.append(a_fact("acknowledged", 160, host, **who))
    return [
        *facts,
        a_fact("started", 170 + later, host),
        a_fact("over", 420 + later, host),
        *a_phase("recover", 421 + later, 450 + later, host),
        a_fact("returned", 450 + later, host),
        a_fact("impact", 430 + later, host, outcome="rebooted", measured_seconds=48.2),
    ]
