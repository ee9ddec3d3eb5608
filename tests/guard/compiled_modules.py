# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep the compiled code of what is imported from a zip file of sources, as Ansible packs its modules.

Python keeps none, and a third of the CPU time of a short module is compilation. Does nothing before Python 3.8.
"""

import contextlib
import marshal
import os
import sys
import zipimport
from importlib import _bootstrap_external

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__pycache__")


def kept(compile_source):
    """Wrap the function of zipimport that compiles a source."""
    import _imp  # 3.6 has no source_hash

    def compiled(pathname, source):
        key = _imp.source_hash(_bootstrap_external._RAW_MAGIC_NUMBER, source).hex()  # as Python's own files have it
        path = os.path.join(PLACE, f"{key}.{sys.implementation.cache_tag}")
        with contextlib.suppress(OSError, EOFError, TypeError, ValueError), open(path, "rb") as stream:
            return marshal.load(stream)  # noqa: S302 - written below
        code = compile_source(pathname, source)
        own = f"{path}.{os.getpid()}"
        with contextlib.suppress(OSError):  # the directory may be that of another user
            with open(own, "wb") as stream:
                marshal.dump(code, stream)
            os.replace(own, path)
        return code

    return compiled


def install():
    """Keep the compiled code in this process, and take what others have kept."""
    if hasattr(zipimport, "_compile_source"):
        zipimport._compile_source = kept(zipimport._compile_source)
