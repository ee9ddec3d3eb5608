# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The token of a controller in whatever the controller answers: it is never shown, in no form."""

import html
import json
import urllib.parse

import pytest
from _scheduled_events.hidden import HIDDEN, MOST, hide
from scheduled_events_poller.notify import controller_hook
from scheduled_events_poller.notify.controller import Controller
from scheduled_events_poller.notify.settings import ControllerSettings

TOKEN = "aB3dEf6hIj9lMnOpQrSt2vWx"
PERCENT = "".join(f"%{ord(character):02x}" for character in TOKEN)
FORMS = {
    "plain": TOKEN,
    "percent": PERCENT,
    "upper": PERCENT.upper(),
    "mixed": TOKEN[:9] + PERCENT[27:],
    "twice": urllib.parse.quote(PERCENT),
    "thrice": urllib.parse.quote(urllib.parse.quote(PERCENT)),
    "json": "".join(f"\\u{ord(character):04x}" for character in TOKEN),
    "html": "".join(f"&#x{ord(character):x};" for character in TOKEN),
    "decimal": "".join(f"&#{ord(character)};" for character in TOKEN),
    "case": TOKEN.swapcase(),
    "cut": TOKEN[:15],
    "end": TOKEN[6:],
}


def parts(text):
    """Whether a text has a part of the token that helps."""
    plain = text
    for _time in range(4):
        plain = urllib.parse.unquote(plain)
    return any(TOKEN[start : start + 8].lower() in plain.lower() for start in range(len(TOKEN) - 7))


@pytest.mark.parametrize("form", FORMS)
def test_the_token_is_hidden_in_each_form(form):
    shown = hide(f"İt leads to https://sso.example.com/?next={FORMS[form]}&x=1", [TOKEN])
    assert shown.startswith("İt leads to https://sso.example.com/?next=" + HIDDEN)
    assert shown.endswith("&x=1")
    assert not parts(shown)


@pytest.mark.parametrize("text", ["", "%", "%zz&#;\\u", "a" * 100, "ünïcode % 25 &#65;"])
def test_other_text_stays_as_it_is(text):
    assert hide(text, [TOKEN]) == text
    assert hide(text, []) == text


def test_a_secret_is_hidden_whatever_its_characters_are():
    assert hide("is pässwörd-ÄÖÜ-longer", ["pässwörd-ÄÖÜ-longer"]) == "is …"


def test_a_text_of_extra_vars_that_an_answer_quotes_is_hidden(controller, make_vm):
    detail = {"variables_needed_to_start": ["'db_password' value hunter2-secret is too small, prod"]}
    controller.faults["POST /api/v2/job_templates/7/launch/"] = [(400, {}, detail)]
    _status, reason = make_vm(extra_vars={"database": [{"password": "hunter2-secret"}], "stage": "prod"}).run()
    assert "'db_password' value … is too small, prod" in reason


@pytest.mark.parametrize("password", ['a"bcdef', "a\\bcdef", 'a\\"bcdef', "a/bcdef", "a&b<c>d", "a'bcdef", "пароль"])
def test_a_secret_is_hidden_where_its_signs_are_escaped(controller, make_vm, password):
    detail = {"variables_needed_to_start": [f"'db_password' value {password} is too small"]}
    controller.faults["POST /api/v2/job_templates/7/launch/"] = [(400, {}, detail)]
    _status, reason = make_vm(extra_vars={"password": password}).run()
    assert "'db_password' value … is too small" in reason
    json_text, numbers = json.dumps(password)[1:-1], "".join(f"&#{ord(character)};" for character in password)
    for form in (json_text, json_text.replace("/", "\\/"), html.escape(password), html.escape(json_text), numbers):
        assert hide(f"is {form}, too", [password]) == "is …, too"


def test_the_user_and_the_password_of_a_proxy_are_hidden_in_each_form():
    proxy = "http://proxyuser:pass%40word@proxy.example.com:3128"
    settings = ControllerSettings("https://awx.example.com", 7, token=TOKEN, proxy=proxy)
    text = "407 Basic cHJveHl1c2VyOnBhc3NAd29yZA== of proxyuser:pass@word, pass%40word"
    assert Controller(settings).hide(text) == "407 Basic … of …:…, …"


def test_a_short_token_is_hidden_whole():
    assert hide("is t0k3n, t0k3", ["t0k3n"]) == "is …, t0k3"


def test_a_long_text_is_cut_not_searched_for_ever():
    assert len(hide("%25" * 10**6, [TOKEN])) <= MOST


def carries(form):
    return [
        (302, {"Location": f"https://sso.example.com/?next={FORMS[form]}"}, b""),
        (307, {"Location": FORMS[form]}, FORMS[form].encode()),
        (401, {}, {"detail": f"no {FORMS[form]}"}),
        (409, {}, json.dumps({"a": [FORMS[form]]}).encode()),
        (200, {}, f"<html>{FORMS[form]}".encode()),
        (200, {}, {"current_version": f"/api/{FORMS[form]}/"}),
        (503, {}, FORMS[form].encode()),
    ]


@pytest.mark.parametrize("form", ["plain", "percent", "twice", "cut"])
@pytest.mark.parametrize("place", ["GET /api/", "/launch/", "GET /api/v2/jobs/", "POST /api/v2/labels/"])
def test_no_answer_brings_the_token_into_the_journal_or_the_status(controller, make_vm, capfd, form, place):
    for answer in carries(form):
        vm = make_vm(token=TOKEN)
        controller.faults[place] = [answer]
        _status, reason = vm.run(run=len(controller.asked) + 1)
        assert not parts(reason + "".join(vm.said)), (answer, reason, vm.said)
    captured = capfd.readouterr()
    assert not parts(captured.out + captured.err)


def test_what_a_job_says_of_itself_does_not_show_the_token(controller, make_vm):
    vm = make_vm(token=TOKEN)
    launch = controller.run
    controller.status = "failed"

    def run(body):
        launch(body)
        controller.jobs[1]["job_explanation"] = f"Bearer {PERCENT}"
        return {"id": 1, "ignored_fields": {}}

    controller.run = run
    _status, reason = vm.run()
    assert "Bearer …" in reason


def test_the_check_does_not_show_the_token(controller, make_vm):
    vm = make_vm(token=TOKEN)
    controller.template["name"], controller.launch["ask_limit_on_launch"] = TOKEN, False
    vm.write(vm.files.settings, {"url": controller.url, "job_template": TOKEN, "token": TOKEN})
    _status, reason = controller_hook.check_settings(vm.files)
    assert not parts(reason), reason
