# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first steps of a new user, as the README and the guide show them."""

import contextlib
import os
import re
import signal

import pytest
import yaml
from pages import Reader, blocks

GUIDE = "docs/start-in-five-minutes.md"
HAPROXY = "docs/behind-haproxy.md"
FLEET = "docs/5000-vms-on-awx.md"
GATE = "docs/gate-a-rolling-patch.md"


@pytest.fixture
def reader(tmp_path, installed_collection):
    new = Reader(tmp_path, installed_collection)
    yield new
    new.stop()


def test_the_guide_leads_to_an_acknowledged_event(reader):
    _install, announce, respond, look = blocks(GUIDE, "sh")
    assert '"event_type": "Redeploy"' in reader.paste(announce)
    assert "delay: 10\n" in respond
    summary = reader.paste(respond.replace("delay: 10\n", "delay: 0\n")).partition("PLAY RECAP")[0]
    for word in ("seen as Scheduled", "prepared", "acknowledged", "over", "recovered"):
        assert word in summary
    assert not (reader.home / "first" / "drained").exists()
    assert "approved" in reader.paste(look)


def test_the_page_about_haproxy_drains_and_returns_a_web_server(reader):
    playbook = next(block for block in blocks(HAPROXY, "yaml") if "scheduled_events.respond" in block)
    (reader.home / "respond-web.yml").write_text(playbook)
    (lab,) = blocks(HAPROXY, "sh")
    # Other runs of this test on this machine have other addresses.
    lab = lab.replace("127.0.20.", f"127.{os.getpid() % 250 + 1}.20.")
    try:
        shown = reader.paste(lab)
    finally:
        for path in reader.home.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGTERM)
    checked, _recap, responded = shown.partition("PLAY RECAP")
    for line in ("web1: would take out lb1 www/web1, which is UP", "not acknowledged by this job"):
        assert line in checked, shown
    assert re.search(
        r"web1: seen as Scheduled, prepared, acknowledged \d+ s before NotBefore, over, recovered", responded
    )
    assert "no event: 1 host" in responded


def test_the_page_about_5000_vms_drains_the_vms_of_an_event_and_acknowledges_once(reader):
    (lab,) = blocks(FLEET, "sh")
    shown = reader.paste(lab)
    assert "Drain, and wait for the last connection to end" in shown
    assert re.search(r"Summary of 2 hosts:\n +Redeploy \S+: acknowledged by vm[12] at ", shown), shown


def test_the_page_about_a_gate_skips_a_host_with_an_event_and_patches_it_later(reader):
    (playbook,), (lab,) = blocks(GATE, "yaml"), blocks(GATE, "sh")
    (reader.home / "patch-web.yml").write_text(playbook)
    checked, skipped, finished = re.split(r"PLAY RECAP.*", reader.paste(lab))[:3]
    assert "patching" not in checked
    patched = [[name for name in ("web1", "web2") if f"patching {name}" in shown] for shown in (skipped, finished)]
    assert patched == [["web1"], ["web2"]], skipped + finished


def test_the_playbook_of_modules_alone_drains_acknowledges_waits_and_returns(ansible, fleet, tmp_path):
    emulator = fleet("web1", "web2", options=("--rate-limit", "0"))
    event_id = emulator.schedule("Redeploy", "web1", "web2", notice=900, started_for=1)
    for name in emulator.endpoints:
        (tmp_path / name).mkdir()
    (text,) = blocks(GUIDE, "yaml")
    (steps,) = yaml.safe_load(text.replace("/usr/local/bin/", "touch {{ vm_directory }}/"))
    steps["module_defaults"] = {"group/maintops.scheduled_events.imds": {"endpoint": "{{ imds_endpoint }}"}}
    hosts = emulator.inventory(vm_directory=lambda name: str(tmp_path / name))["all"]["hosts"]
    run = ansible.run_playbook([steps], inventory={"all": {"children": {"web": {"hosts": hosts}}}})
    assert run.rc == 0, run.output
    assert [(vm, ids) for vm, ids, _status in emulator.posts()] == [("web1", [event_id])]
    traces = {name: sorted(path.name for path in (tmp_path / name).iterdir()) for name in emulator.endpoints}
    assert traces == {"web1": ["drain", "return"], "web2": ["drain", "return"]}


def test_the_playbooks_of_the_readme_and_of_the_polling_unit_are_playbooks(reader):
    (reader.home / "deploy.yml").write_text("[]")
    names = []
    pages = ("README.md", "docs/polling-unit.md", "docs/operate-the-polling-unit.md")
    for number, text in enumerate(block for page in pages for block in blocks(page, "yaml")):
        if "hosts:" in text and "sources:" not in text:  # a rulebook has sources
            names.append(f"{number}.yml")
            (reader.home / names[-1]).write_text(text)
    assert len(names) >= 4
    listed = reader.paste(f"ansible-playbook --syntax-check {' '.join(names)}")
    assert [f"playbook: {name}" for name in names] == re.findall("playbook: .*", listed)


@pytest.mark.parametrize(
    ("page", "playbook"),
    [("docs/overview.md", "playbooks/install_poller.yml"), ("roles/poller/README.md", "poller.yml")],
)
def test_the_playbooks_that_a_page_runs_take_its_options(reader, page, playbook):
    (reader.home / "poller.yml").write_text("[{hosts: all, roles: [maintops.scheduled_events.poller]}]")
    commands = [line for block in blocks(page, "sh") for line in block.splitlines() if "ansible-playbook " in line]
    assert commands
    (reader.home / "inventory.yml").write_text("web: {hosts: {web1: }}")
    for command in commands:
        assert playbook in reader.paste(f"{command} --syntax-check")
