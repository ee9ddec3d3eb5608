# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import stat
import time
import typing as t

from ansible.errors import AnsibleActionFail

from ..module_utils._load_balancer.call import ARM_OPTIONS
from ..module_utils._scheduled_events.files import write_atomically
from ..module_utils._scheduled_events.history import Fact, format_moment
from ..module_utils._scheduled_events.text import counted
from ..plugin_utils._ansible.core import arguments_of
from ..plugin_utils._ansible.lines import show
from ..plugin_utils._azure import graph
from ..plugin_utils._azure.action import ArmAction
from ..plugin_utils._azure.arm import ArmError
from ..plugin_utils._report.audit import compare
from ..plugin_utils._report.data import as_json, as_junit, as_otlp
from ..plugin_utils._report.gather import collection_version, histories_of, variable_of, vm_names_of
from ..plugin_utils._report.page import page
from ..plugin_utils._report.story import tell

OUTPUTS = ("html", "json", "otlp", "junit")
MODE = 0o640
AUDIT = {
    "subscriptions": {"type": "list", "elements": "str", "required": True},
    "days": {"type": "float", "default": 30},
    **ARM_OPTIONS,
}


class ActionModule(ArmAction):
    """Write a report of what the hosts of the play registered. It runs on the control node."""

    _requires_connection = False

    def run(self, tmp: t.Any = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        spec: dict[str, dict[str, t.Any]] = {
            "variable": {"type": "str", "required": True},
            **{name: {"type": "path"} for name in OUTPUTS},
            "audit": {"type": "dict", "options": AUDIT},
        }
        options = arguments_of(self, spec)
        hosts = variables["ansible_play_hosts_all"]
        histories, unread = histories_of(hosts, variables["hostvars"], options["variable"])
        names = vm_names_of(hosts, variables["hostvars"], histories)
        story = tell(histories, unread, names)
        made, version = time.time(), collection_version()
        audit = None
        if options["audit"]:
            events, policies = self._rows(options["audit"], variables)
            ids = variable_of(hosts, variables["hostvars"], "id")  # as azure.azcollection.azure_rm sets it
            since = made - options["audit"]["days"] * 86400.0
            audit = compare(events, policies, histories, story, names, vm_ids=ids, since=since)
            story = story.since(since)  # the histories were read from before, for events that Azure has announced early
        texts = {
            "html": lambda: page(story, made=made, version=version, audit=audit),
            "json": lambda: as_json(story, made=made, version=version, audit=audit),
            "otlp": lambda: as_otlp(story, version=version),
            "junit": lambda: as_junit(story),
        }
        wanted = {name: options[name] for name in OUTPUTS if options[name]}
        _refuse_other_than_files(wanted.values())
        if not self._task.check_mode:
            for name, path in wanted.items():
                try:
                    write_atomically(path, texts[name]().encode(), mode=MODE)
                except OSError as error:
                    hint = ". Make its directory first" if isinstance(error, FileNotFoundError) else ""
                    raise AnsibleActionFail(f"{path} cannot be written: {error.strerror}{hint}") from None
        files = list(wanted.values())
        verdict = f"{story.verdict} {audit.verdict}" if audit else story.verdict
        written = "Would be written" if self._task.check_mode else "Written"
        for line in (verdict, f"Read: {_read(histories)}", *(f"{written}: {path}" for path in files)):
            show(line)
        said = {"verdict": verdict, "good": story.is_good and (audit is None or audit.is_good), "files": files}
        return {**result, "changed": bool(files), **said, "audit": audit.as_dict() if audit else None}

    def _rows(self, asked: dict[str, t.Any], variables: dict[str, t.Any]) -> list[list[t.Any]]:
        """The rows of both queries. Azure is only read."""
        subscriptions = asked["subscriptions"]
        if not subscriptions:
            raise AnsibleActionFail(
                "The audit has no subscription. Set audit_subscriptions to the ids of those of the VMs"
            )
        credentials = {"subscription_id": subscriptions[0], **asked["credentials"]}
        try:
            with self._arm({**asked, "credentials": credentials}, variables) as arm:
                return [graph.rows_of(arm, query, subscriptions) for query in (graph.EVENTS, graph.POLICIES)]
        except ArmError as error:
            raise AnsibleActionFail(str(error)) from None


def _refuse_other_than_files(paths: t.Iterable[str]) -> None:
    """Refuse what a file must not take the place of, such as a device. ``/dev/stdout`` is a link.

    :raises AnsibleActionFail: there is one.
    """
    for path in paths:
        if os.path.exists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise AnsibleActionFail(f"{path} is not a regular file, and a report replaces it. Give the path of a file")


def _read(histories: t.Mapping[str, t.Sequence[Fact]]) -> str:
    """What the report follows from: the hosts, their facts and the times of these."""
    times = sorted(fact.time for facts in histories.values() for fact in facts)
    between = f", from {format_moment(times[0])} to {format_moment(times[-1])}" if times else ""
    return f"{len(times)} facts of {counted(len(histories), 'host')}{between}"
