# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role poller as what it installs: the settings of the program, and the contents of hooks.

No message contains the content of a hook, the token of a controller, or what a webhook is sent with: these may be
secret.
"""

from __future__ import annotations

import json
import re
import shlex
import typing as t

from ...module_utils._scheduled_events.checks import WrongValue
from ...module_utils._scheduled_events.runs import WEBHOOK_HOOK
from ...module_utils._scheduled_events.terms import CONTROLLER
from .._ansible.core import refuse_empty_options, short_names, typed_values
from .._ansible.zones import rules_with_offsets

# Options of the role that are not keys of poller.json.
OF_THE_ROLE = {"hosts", "state", "keep_state", "hooks", "remove_prepare_hooks", "webhooks", "controller"}
OF_THE_ROLE |= {"history_group", "python", "forecast_hosts", "forecast_event_types", "forecast_strict"}
INTERPRETER = re.compile(r"/[A-Za-z0-9/._+@:,=~-]+")
PROGRAMS = ("content", "src", "command")

CONTROLLER_HOOK = "00-awx-job-template"
CONTROLLER_HOOK_CONTENT = """\
#!/bin/sh
exec {python} -I /usr/local/lib/scheduled-events/scheduled-events-controller
"""
# First in its phase, before that of a controller, so that the message waits for no other hook. Whatever happens to it,
# it ends soon, and prepares nothing (77): a message that cannot be stored must not prevent an acknowledgement.
WEBHOOK_HOOK_CONTENT = """\
#!/bin/sh
timeout --kill-after=5 30 {python} -IS /usr/local/lib/scheduled-events/scheduled-events-webhooks spool ||
    echo "webhooks: the messages cannot be kept and are lost: exit status $?" |
        tee /run/scheduled-events-webhooks/lost # which "scheduled-events status" reads
exit 77
"""

Values = t.Mapping[str, t.Any]


class Plan(t.NamedTuple):
    """What the role installs.

    ``config``, ``controller`` and ``webhooks`` are the contents of the files of settings. ``controller`` and
    ``webhooks`` are empty if there is nothing to install. ``hooks``: contents by phase and name.
    """

    config: dict[str, t.Any]
    controller: dict[str, t.Any]
    webhooks: list[dict[str, t.Any]]
    hooks: dict[str, dict[str, bytes]]


def plan(
    specs: Values,
    values: Values,
    *,
    python: str,
    read_source: t.Callable[[str], bytes],
    check_settings: t.Callable[[dict[str, t.Any]], str],
) -> Plan:
    """Convert and check the values of the variables of the role.

    :param specs: the options in meta/argument_specs.yml.
    :param python: the interpreter on the host.
    :param read_source: returns the content of a file on the control node; raises OSError.
    :param check_settings: returns the first mistake that the program finds in its settings, or an empty text.
    :raises WrongValue: the first mistake.
    """
    if not INTERPRETER.fullmatch(python):
        raise WrongValue(
            f'poller_python: expected an absolute path of letters, digits and the characters "/._+@:,=~-", since the '
            f"first line of a program holds it, not {python!r}: set another one, such as a link to it"
        )
    refuse_empty_options(values.get("poller_rules") or [], "poller_rules")
    typed = typed_values(specs, values)
    variables = short_names(specs, "poller")
    config = {name: _without_nulls(typed[variables[name]]) for name in variables.keys() - OF_THE_ROLE}
    config = {name: None if value == "" else value for name, value in config.items()}
    config["rules"] = rules_with_offsets(config["rules"], "poller_rules")
    controller = _given(typed["poller_controller"] or {})
    webhooks = [_given(webhook) for webhook in typed["poller_webhooks"]]
    grace = config["controller_grace"]
    if controller:
        controller["grace"] = grace
    elif grace:
        raise WrongValue(
            f"poller_controller_grace: expected 0 without poller_controller, not {grace:g}: nothing shows whether "
            f"a job runs, so set poller_controller, or take it out"
        )
    elif config["acknowledge"] == CONTROLLER:
        raise WrongValue(
            "poller_acknowledge: expected another value than controller without poller_controller, since no job would "
            "acknowledge: set poller_controller, or take it out"
        )
    own = _own_hooks(controller, webhooks, python)
    found = [
        (hook["phase"], hook["name"], _content(f"poller_hooks[{index}]", hook, read_source))
        for index, hook in enumerate(typed["poller_hooks"])
    ]
    for phase, name, _bytes in found:
        if (phase, name) in own:
            raise WrongValue(f'poller_hooks: "{name}" of {phase} is the hook of {own[phase, name][0]}: rename yours')
    found += [(*place, content) for place, (_option, content) in own.items()]
    config["hooks"] = {}
    hooks: dict[str, dict[str, bytes]] = {}
    for phase, name, content in found:
        hooks.setdefault(phase, {})[name] = content
        # Without those of the webhooks: an event is not held because one of them is missing.
        if own.get((phase, name), ("",))[0] != "poller_webhooks":
            config["hooks"].setdefault(phase, []).append(name)
    problem = check_settings({"config": config, "controller": controller, "webhooks": webhooks})
    if problem:
        raise WrongValue(re.sub(r"^\w+", lambda name: variables.get(name[0], name[0]), problem))
    return Plan(config, controller, webhooks, hooks)


def _without_nulls(value: t.Any) -> t.Any:
    """The value without keys that are null."""
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in _given(value).items()}
    return value


def _given(value: Values) -> dict[str, t.Any]:
    return {key: each for key, each in value.items() if each is not None}


def _own_hooks(
    controller: Values, webhooks: t.Sequence[Values], python: str
) -> dict[tuple[str, str], tuple[str, bytes]]:
    """The hooks that the role brings itself, by phase and name: the option that brings them, and the content."""
    own = {}
    if controller:
        content = CONTROLLER_HOOK_CONTENT.format(python=python).encode()
        own["prepare", CONTROLLER_HOOK] = ("poller_controller", content)
    for phase in sorted({phase for webhook in webhooks for phase in webhook["phases"]}):
        own[phase, WEBHOOK_HOOK] = ("poller_webhooks", WEBHOOK_HOOK_CONTENT.format(python=python).encode())
    return own


def _content(place: str, hook: Values, read_source: t.Callable[[str], bytes]) -> bytes:
    place = f"{place} ({hook['name']} of {hook['phase']})"
    given = [key for key in PROGRAMS if hook[key] not in (None, "", [])]
    if len(given) != 1:
        raise WrongValue(
            f"{place} has {' and '.join(given) or 'no program'}, expected exactly one of {', '.join(PROGRAMS)}: "
            f"{'remove the others' if given else 'add one'}"
        )
    value = hook[given[0]]
    if given == ["command"]:
        return _of_command(place, value)
    if given == ["src"]:
        content = _of_source(place, value, read_source)
    else:
        content = _encoded(f"{place}: content", value, ", or give a file as src")
    if not content.startswith((b"#!", b"\x7fELF")):
        raise WrongValue(
            f"{place}: {given[0]} is not a program, expected it to begin with a line such as #!/bin/sh, without a byte "
            "order mark: add the line"
        )
    if given == ["content"] and content.startswith(b"#!") and b"\n" not in content.strip():
        raise WrongValue(
            f"{place}: content is one line, expected commands after the line that begins with #!: write "
            f'"content: |", since ">" joins the lines, or give a file as src'
        )
    if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
        raise WrongValue(f"{place}: its lines end as on Windows, expected line feeds alone: convert it with dos2unix")
    return content


def _of_source(place: str, name: str, read_source: t.Callable[[str], bytes]) -> bytes:
    try:
        content = read_source(name)
    except OSError:
        content = b""
    if not content:
        raise WrongValue(
            f"{place}: src {json.dumps(name)} cannot be read, or is empty, expected a file on the control node, beside "
            f"the playbook or in its directory files: correct the path"
        )
    return content


def _of_command(place: str, words: t.Any) -> bytes:
    if not isinstance(words, list):
        raise WrongValue(f"{place}: command is not a list: write the program and each argument as an item")
    for index, word in enumerate(words):
        if isinstance(word, bool) or not isinstance(word, (str, int, float)) or "\0" in str(word):
            raise WrongValue(f"{place}: command[{index}] is not a text without NUL: put it into quotes")
    if not str(words[0]):
        raise WrongValue(f"{place}: command[0] is empty, expected a program on the host: name one")
    line = " ".join(shlex.quote(str(word)) for word in words)
    return _encoded(f"{place}: command", f"#!/bin/sh\nexec {line}\n")


def _encoded(place: str, text: str, advice: str = "") -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise WrongValue(f"{place} cannot be written as UTF-8: correct it{advice}") from None
