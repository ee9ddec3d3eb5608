# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A state directory of a host that costs no disk."""

import contextlib

from plugins.module_utils._scheduled_events.files import Folder


class MemoryFolder(Folder):
    """The files by their names, as they are on another machine. Nothing is locked."""

    is_here = False

    def __init__(self):
        super().__init__("/var/lib/maintops")
        self.files = {}

    def is_there(self):
        return True

    def make(self):
        pass

    def guarded(self, *_patience, **_how):
        return contextlib.nullcontext()

    def has(self, name):
        return name in self.files

    def read(self, name, _largest=-1):
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name]

    def written_at(self, name):
        self.read(name)
        return 0.0

    def write(self, name, content, **_how):
        self.files[name] = content

    def remove(self, name):
        self.read(name)
        del self.files[name]
