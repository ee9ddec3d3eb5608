# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check and convert all options of the role poller, before the role changes anything.

Numbers and flags come as texts from ``-e name=value`` and from surveys, so options are converted. No message contains
the content of a hook, the token of a controller, or what a webhook is sent with: they may be secret.
"""

import base64
import json
import shlex
from typing import Any, Callable, Dict, List, Tuple

from .._scheduled_events.runs import PHASES
from .hook_set import WEBHOOK_HOOK

NUMBERS = ("interval", "hook_timeout", "margin", "controller_grace")
FLAGS = ("dry_run",)
EMPTY_IS_NULL = ("vm_name", "metrics_directory")
LISTS = ("endpoint_networks",)
WHOLE_NUMBERS = ("min_duration", "max_duration", "max_resources")
WORDS = ("event_types", "event_sources", "event_statuses")
PROGRAMS = ("content", "src", "command")
KEYS = ("name", "phase", *PROGRAMS)

CONTROLLER_PROGRAM = "/usr/local/lib/scheduled-events/scheduled-events-controller"
CONTROLLER_HOOK = "00-awx-job-template"
# Keys that poller_controller does not have, and what to do instead
NOT_OF_CONTROLLER = {"grace": "unknown key: set poller_controller_grace"}
CONTROLLER_NUMBERS = ("request_timeout", "interval")
CONTROLLER_FLAGS = ("cancel_on_cancelled", "allow_http")

# First in its phase, before that of a controller, so that the message waits for no other hook. Whatever happens to it,
# it ends soon, and prepares nothing (77): a message that cannot be stored must not prevent an acknowledgement.
WEBHOOK_HOOK_CONTENT = """\
#!/bin/sh
timeout --kill-after=5 30 {python} -IS /usr/local/lib/scheduled-events/scheduled-events-webhooks spool ||
    echo "webhooks: the messages cannot be kept and are lost: exit status $?"
exit 77
"""

TEXTS_OF_FLAGS = {
    **dict.fromkeys(("yes", "true", "on", "y", "t", "1"), True),
    **dict.fromkeys(("no", "false", "off", "n", "f", "0"), False),
}

Hooks = Dict[str, Dict[str, str]]


class WrongOption(ValueError):
    """A value that the role cannot use; the message says what it is, what was expected, and what to do."""


def convert(value: Any, to: Callable[[str], Any]) -> Any:
    """A text as what it stands for; one that stands for nothing of the kind is left for the check to refuse."""
    if not isinstance(value, str):
        return value
    try:
        return to(value.strip())
    except (ValueError, KeyError):
        return value


def to_flag(text: str) -> bool:
    """Return the flag for a text that Ansible accepts as true or false."""
    return TEXTS_OF_FLAGS[text.lower()]


def convert_options(options: Dict[str, Any]) -> Dict[str, Any]:
    """The options of the role as the keys of its configuration."""
    converted = dict(options)
    for key in NUMBERS:
        converted[key] = convert(options.get(key), float)
    for key in FLAGS:
        converted[key] = _convert_flag(options.get(key))
    for key in EMPTY_IS_NULL:
        converted[key] = options.get(key) or None
    for key in LISTS:
        converted[key] = convert(options.get(key), _to_words)
    rules = options.get("rules")
    if isinstance(rules, list):
        converted["rules"] = [_convert_rule(rule) if isinstance(rule, dict) else rule for rule in rules]
    return converted


def _convert_flag(value: Any) -> Any:
    return convert(str(value) if isinstance(value, int) else value, to_flag)


def _convert_rule(rule: Dict[str, Any]) -> Dict[str, Any]:
    converted = dict(rule)
    for key in WHOLE_NUMBERS:
        if key in rule:
            converted[key] = convert(rule[key], int)
    for key in WORDS:
        if key in rule:
            converted[key] = convert(rule[key], _to_words)
    return converted


def _to_words(text: str) -> List[str]:
    return [word.strip() for word in text.split(",")]


def read_hooks(hooks: Any, sources: Dict[str, str]) -> Hooks:
    """The contents of the hooks, by phase and name, in base64.

    :raises WrongOption: the first mistake.
    """
    if not isinstance(hooks, list):
        raise WrongOption(f"poller_hooks is {_kind(hooks)}, expected a list of dictionaries: give it to -e as JSON")
    found: Hooks = {}
    for index, hook in enumerate(hooks):
        phase, name, content = _read_hook(f"poller_hooks[{index}]", hook, sources)
        if name in found.setdefault(phase, {}):
            raise WrongOption(
                f'poller_hooks[{index}]: "{name}" of {phase} is in the list already, expected each name once in a '
                f"phase: rename or remove one of them"
            )
        found[phase][name] = base64.b64encode(content).decode()
    return found


def _read_hook(place: str, hook: Any, sources: Dict[str, str]) -> Tuple[str, str, bytes]:
    from scheduled_events_poller.unit.config import is_hook_name

    if not isinstance(hook, dict):
        raise WrongOption(f"{place} is {_kind(hook)}, expected a dictionary with name, phase and a program: correct it")
    for key in hook:
        if key not in KEYS:
            raise WrongOption(f"{place}: {_show(key)} is not a key of a hook, expected {', '.join(KEYS)}: correct it")
    name = hook.get("name")
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not is_hook_name(name):
        raise WrongOption(
            f"{place}: name is {_show(name)}, expected at most 200 letters, digits, "
            f'".", "_" and "-", with a letter or digit first: rename it'
        )
    phase = hook.get("phase")
    if phase not in PHASES:
        raise WrongOption(f"{place} ({name}): phase is {_show(phase)}, expected one of {', '.join(PHASES)}: correct it")
    place = f"{place} ({name} of {phase})"
    given = [key for key in PROGRAMS if hook.get(key) not in (None, "", [])]
    if len(given) != 1:
        raise WrongOption(
            f"{place} has {' and '.join(given) or 'no program'}, expected exactly one of {', '.join(PROGRAMS)}: "
            f"{'remove the others' if given else 'add one'}"
        )
    reader = {"content": _of_content, "src": _of_source, "command": _of_command}[given[0]]
    return str(phase), str(name), reader(place, hook[given[0]], sources)


def _of_content(place: str, text: Any, _sources: Dict[str, str]) -> bytes:
    if not isinstance(text, str) or not text.startswith("#!"):
        raise WrongOption(f"{place}: content is not a script, expected a first line such as #!/bin/sh: add it")
    try:
        return _check_script(place, text.encode("utf-8"))
    except UnicodeEncodeError:
        raise WrongOption(f"{place}: content cannot be written as UTF-8: correct it, or give a file as src") from None


def _of_source(place: str, name: Any, sources: Dict[str, str]) -> bytes:
    content = base64.b64decode(sources.get(name, "")) if isinstance(name, str) else b""
    if not content:
        raise WrongOption(
            f"{place}: src {_show(name)} cannot be read, or is empty, expected a file on the control node, beside the "
            f"playbook or in its directory files: correct the path"
        )
    return _check_script(place, content)


def _of_command(place: str, words: Any, _sources: Dict[str, str]) -> bytes:
    if not isinstance(words, list):
        raise WrongOption(
            f"{place}: command is {_kind(words)}, expected a list: write the program and each argument as an item"
        )
    for index, word in enumerate(words):
        if isinstance(word, bool) or not isinstance(word, (str, int, float)):
            raise WrongOption(f"{place}: command[{index}] is {_kind(word)}, expected a text: put it into quotes")
        if "\0" in str(word):
            raise WrongOption(f"{place}: command[{index}] has a NUL, which no argument can have: remove it")
    if not str(words[0]):
        raise WrongOption(f"{place}: command[0] is empty, expected a program on the host: name one")
    line = " ".join(shlex.quote(str(word)) for word in words)
    try:
        return f"#!/bin/sh\nexec {line}\n".encode()
    except UnicodeEncodeError:
        raise WrongOption(f"{place}: command cannot be written as UTF-8: correct it") from None


def _check_script(place: str, content: bytes) -> bytes:
    if content.startswith(b"#!") and content.split(b"\n", 1)[0].endswith(b"\r"):
        raise WrongOption(f"{place}: its lines end as on Windows, expected line feeds alone: convert it with dos2unix")
    return content


def read_controller(given: Any, grace: Any, python: str) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
    """The settings of the controller as the program is given them, and the hook that has them; neither without one.

    :raises WrongOption: the first mistake.
    """
    from scheduled_events_poller.notify.settings import parse_controller

    if not isinstance(given, dict):
        raise WrongOption(f"poller_controller is {_kind(given)}, expected a dictionary: give it to -e as JSON")
    if not given:
        if grace:
            raise WrongOption(
                f"poller_controller_grace: expected 0 without poller_controller, not {_show(grace)}: nothing shows "
                f"whether a job runs, so set poller_controller, or take it out"
            )
        return {}, []
    settings = {key: value for key, value in given.items() if value is not None}
    for key in sorted(settings.keys() & NOT_OF_CONTROLLER.keys()):
        raise WrongOption(f"poller_controller.{key}: {NOT_OF_CONTROLLER[key]}")
    for key in CONTROLLER_NUMBERS:
        if key in settings:
            settings[key] = convert(settings[key], float)
    for key in CONTROLLER_FLAGS:
        if key in settings:
            settings[key] = _convert_flag(settings[key])
    settings["grace"] = grace
    try:
        parse_controller(settings)
    except ValueError as error:
        raise WrongOption(f"poller_{error}") from error
    command = [python, "-I", CONTROLLER_PROGRAM]
    return settings, [{"name": CONTROLLER_HOOK, "phase": "prepare", "command": command}]


def read_webhooks(webhooks: Any) -> List[Dict[str, Any]]:
    """The receivers of webhooks, checked.

    :raises WrongOption: the first mistake.
    """
    from scheduled_events_poller.notify.settings import parse_receivers

    if isinstance(webhooks, list):
        webhooks = [_convert_webhook(webhook) if isinstance(webhook, dict) else webhook for webhook in webhooks]
    try:
        receivers = parse_receivers(webhooks, place="poller_webhooks")
    except ValueError as error:
        raise WrongOption(str(error)) from error
    return [
        {**receiver._asdict(), "phases": list(receiver.phases), "headers": dict(receiver.headers)}
        for receiver in receivers
    ]


def _convert_webhook(webhook: Dict[str, Any]) -> Dict[str, Any]:
    converted = dict(webhook)
    for key, to in (("timeout", float), ("max_messages", int), ("max_bytes", int)):
        if key in webhook:
            converted[key] = convert(webhook[key], to)
    if "phases" in webhook:
        converted["phases"] = convert(webhook["phases"], lambda text: [word.strip() for word in text.split(",")])
    return converted


def add_webhook_hooks(hooks: Hooks, webhooks: List[Dict[str, Any]], python: str) -> Hooks:
    """The hooks and those that the webhooks need.

    :raises WrongOption: a hook has the name of one of them.
    """
    content = base64.b64encode(WEBHOOK_HOOK_CONTENT.format(python=shlex.quote(python)).encode()).decode()
    added = {phase: dict(contents) for phase, contents in hooks.items()}
    for phase in sorted({phase for webhook in webhooks for phase in webhook["phases"]}):
        if WEBHOOK_HOOK in added.setdefault(phase, {}):
            raise WrongOption(
                f"poller_hooks: {WEBHOOK_HOOK} of {phase} has the name of the hook that poller_webhooks brings, "
                f"expected another: rename it"
            )
        added[phase][WEBHOOK_HOOK] = content
    return added


def _kind(value: Any) -> str:
    kinds = {str: "a text", dict: "a dictionary", list: "a list", bool: "true or false", type(None): "empty"}
    return kinds.get(type(value), "a number")


def _show(value: Any) -> str:
    return json.dumps(value, default=str)[:200]


def check(given: Dict[str, Any]) -> Dict[str, Any]:
    """Check the input of the role with the program that it installs, which must be importable.

    :param given: the ``options``, the ``hooks``, the ``controller`` and the ``webhooks`` as Ansible has them; the
        ``sources`` that hooks name (their contents in base64 by name, empty if there is none); and the ``python`` of
        the program.
    :returns: the ``config`` of the program, the ``hooks`` by phase and name with their contents in base64, the settings
        of the ``controller``, empty without one, and the ``webhooks``.
    :raises WrongOption: the first mistake.
    """
    from scheduled_events_poller.unit.config import ConfigError, parse

    options = convert_options(given["options"])
    grace = options.get("controller_grace")
    controller, own_hooks = read_controller(given.get("controller") or {}, grace, given.get("python", ""))
    hooks = read_hooks(given["hooks"], given["sources"])
    _add_own(hooks, own_hooks)
    webhooks = read_webhooks(given["webhooks"])
    # Without those of the webhooks: an event is not held because one of them is missing.
    names: Dict[str, List[str]] = {phase: sorted(hooks.get(phase, {})) for phase in PHASES}
    config = {**options, "hooks": names}
    try:
        parse(config)
    except ConfigError as error:
        raise WrongOption(f"poller_{error}") from error
    all_hooks = add_webhook_hooks(hooks, webhooks, given["python"])
    return {"config": config, "hooks": all_hooks, "controller": controller, "webhooks": webhooks}


def _add_own(hooks: Hooks, own_hooks: List[Dict[str, Any]]) -> None:
    """Add the hooks that the role brings itself."""
    for hook in own_hooks:
        phase, name, content = _read_hook("poller_controller", hook, {})
        if name in hooks.setdefault(phase, {}):
            raise WrongOption(f'poller_hooks: "{name}" of {phase} is the hook of poller_controller: rename yours')
        hooks[phase][name] = base64.b64encode(content).decode()
