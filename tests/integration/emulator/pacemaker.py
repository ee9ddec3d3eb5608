# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster on one machine, as far as a resource agent asks Pacemaker: nodes, attributes, nothing pending.

Run as ``crm_attribute``, ``crm_node``, ``crm_resource`` or ``crm_simulate``. ``CLUSTER`` is the directory of its state.
"""

import argparse
import json
import os
import pathlib
import sys

CLUSTER = pathlib.Path(os.environ["CLUSTER"])
ATTRIBUTES, CALLS, NODES = CLUSTER / "attributes.json", CLUSTER / "calls", CLUSTER / "nodes"


def attribute(arguments):
    """Set, delete or show an attribute of a node or of the cluster."""
    parser = argparse.ArgumentParser(prog="crm_attribute", allow_abbrev=False)
    parser.add_argument("-n", "--name", required=True)
    parser.add_argument("-N", "--node", default="")
    parser.add_argument("-t", "--type")
    parser.add_argument("-v", "--update")
    parser.add_argument("-D", "--delete", action="store_true")
    parser.add_argument("-G", "--query", action="store_true")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-l", "--lifetime")
    parser.add_argument("-d", "--default", default="")
    wanted = parser.parse_args(arguments)
    known = json.loads(ATTRIBUTES.read_text())
    key = f"{wanted.node}/{wanted.name}"
    if wanted.query:
        print(known.get(key, wanted.default))
        return
    if wanted.delete:
        known.pop(key, None)
    else:
        known[key] = wanted.update
    ATTRIBUTES.write_text(json.dumps(known))


def main():
    """Do what the name says under which this runs, and record it."""
    name, arguments = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
    with CALLS.open("a") as calls:
        calls.write(json.dumps([name, *arguments]) + "\n")
    if name == "crm_attribute":
        attribute(arguments)
    elif name == "crm_node":
        for number, node in enumerate(NODES.read_text().split(), 1):
            print(number, node, "member")
    elif name == "crm_simulate":
        print("Transition Summary:")


main()
