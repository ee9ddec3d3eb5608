# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plugins of a test in place of those of another collection."""

import os


def stand_in(directory, collection, plugins):
    """Write the plugins, such as ``{"action/project": source}``; the variables with which Ansible finds them."""
    place = directory.joinpath("ansible_collections", *collection.split("."), "plugins")
    for name, source in plugins.items():
        path = place / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return {"ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(directory), os.environ["ANSIBLE_COLLECTIONS_PATH"]])}
