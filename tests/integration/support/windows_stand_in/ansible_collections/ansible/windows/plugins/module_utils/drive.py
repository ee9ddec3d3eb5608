# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where paths of Windows lie on this machine: drive C is the directory STAND_IN_DRIVE of the host."""

import ntpath
import os


def local(path):
    """A path of this machine for one of Windows. Others stay as they are, such as those of temporary files."""
    drive, rest = ntpath.splitdrive(path)
    if not drive:
        return path
    return os.path.join(os.environ["STAND_IN_DRIVE"], drive[0].upper(), *rest.replace("\\", "/").strip("/").split("/"))


def exists(path):
    return os.path.exists(local(path))
