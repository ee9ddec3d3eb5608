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
from page_blocks import block
from pages import Reader


@pytest.fixture
def reader(tmp_path, installed_collection, zygotes):  # noqa: ARG001
    new = Reader(tmp_path, installed_collection)
    yield new
    new.stop()


def test_the_guide_leads_to_an_acknowledged_event(reader):
    announced = reader.paste(block("docs/start-in-five-minutes.md", "PATH=$PATH"))
    assert '"event_type": "Redeploy"' in announced
    respond = block("docs/start-in-five-minutes.md", "mkdir -p ~/first")
    assert "delay: 10\n" in respond
    summary = reader.paste(respond.replace("delay: 10\n", "delay: 0\n")).partition("PLAY RECAP")[0]
    for word in ("seen as Scheduled", "prepared", "acknowledged", "over", "recovered"):
        assert word in summary
    assert not (reader.home / "first" / "drained").exists()
    assert "approved" in reader.paste(block("docs/start-in-five-minutes.md", "scheduled-events-emulator log"))


def test_the_page_about_haproxy_drains_and_returns_a_web_server(reader):
    playbook = block("docs/behind-haproxy.md", "- name: Respond to the scheduled events of the web servers")
    (reader.home / "respond-web.yml").write_text(playbook)
    lab = block("docs/behind-haproxy.md", "sudo apt-get")
    # Other runs of this test on this machine have other addresses.
    lab = lab.replace("127.0.20.", f"127.{os.getpid() % 250 + 1}.20.")
    first, end, last = lab.partition("scheduled-events-emulator shutdown\n")
    try:
        shown = reader.paste(first)
        # The production commands, with the lab as the production.
        (reader.home / "inventory.yml").write_text((reader.home / "lab.yml").read_text())
        again = reader.paste(block("docs/behind-haproxy.md", "ansible-playbook -i inventory.yml respond-web.yml"))
        reader.paste(end + last)
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
    assert "no event: 2 hosts" in again, again


def test_the_page_about_5000_vms_drains_the_vms_of_an_event_and_acknowledges_once(reader):
    shown = reader.paste(block("docs/5000-vms-on-awx.md", "mkdir -p ~/shop && cd ~/s"))
    assert "Drain, and wait for the last connection to end" in shown
    assert re.search(r"Summary of 2 hosts:\n +Redeploy \S+: acknowledged by vm[12] at ", shown), shown


def test_the_page_about_a_gate_skips_a_host_with_an_event_and_patches_it_later(reader):
    (reader.home / "patch-web.yml").write_text(block("docs/gate-a-rolling-patch.md", "- name: Patch the web servers"))
    lab = block("docs/gate-a-rolling-patch.md", "echo")
    checked, skipped, finished = re.split(r"PLAY RECAP.*", reader.paste(lab))[:3]
    assert "patching" not in checked
    patched = [[name for name in ("web1", "web2") if f"patching {name}" in shown] for shown in (skipped, finished)]
    assert patched == [["web1"], ["web2"]], skipped + finished


def test_the_playbook_of_modules_alone_drains_acknowledges_waits_and_returns(ansible, fleet, tmp_path):
    emulator = fleet("web1", "web2", options=("--rate-limit", "0"))
    event_id = emulator.schedule("Redeploy", "web1", "web2", notice=900, started_for=1)
    for name in emulator.endpoints:
        (tmp_path / name).mkdir()
    text = block("docs/start-in-five-minutes.md", "- name: Drain, acknowledge, wait, return")
    (steps,) = yaml.safe_load(text.replace("/usr/local/bin/", "touch {{ vm_directory }}/"))
    steps["module_defaults"] = {"group/maintops.scheduled_events.imds": {"endpoint": "{{ imds_endpoint }}"}}
    hosts = emulator.inventory(vm_directory=lambda name: str(tmp_path / name))["all"]["hosts"]
    run = ansible.run_playbook([steps], inventory={"all": {"children": {"web": {"hosts": hosts}}}})
    assert run.rc == 0, run.output
    assert [(vm, ids) for vm, ids, _status in emulator.posts()] == [("web1", [event_id])]
    traces = {name: sorted(path.name for path in (tmp_path / name).iterdir()) for name in emulator.endpoints}
    assert traces == {"web1": ["drain", "return"], "web2": ["drain", "return"]}
