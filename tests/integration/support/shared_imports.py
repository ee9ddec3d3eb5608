# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module utils that modules bring in their payloads, imported once: see zygote.py.

Most CPU time of a module is the import of its module utils. The first child that runs a payload hands it to the zygote,
which imports from it what the child has imported. A later child gets these modules if its payload has the same files,
by their sizes and checksums. If one file differs, it imports all of them itself.
"""

import contextlib
import gc
import hashlib
import importlib
import importlib.machinery
import marshal
import os
import pathlib
import pkgutil
import sys
import types
import zipimport
from collections.abc import Sequence

ROOTS = ("ansible", "ansible_collections")
SIZE, CHECKSUM = 3, 7  # in an entry of the directory of a zip file, as zipimport keeps it
Signature = tuple[int, int]


def is_shared(name: str) -> bool:
    """Whether the module may be shared: a module util, but none of the packages above, which Ansible generates."""
    return name.startswith(ROOTS) and ".module_utils." in name


def signatures_of(archive: str) -> dict[str, Signature]:
    """By path, what distinguishes a file of a payload from another. The last file names its own place."""
    entries = zipimport._zip_directory_cache[archive].items()
    return {path: (entry[SIZE], entry[CHECKSUM]) for path, entry in entries if path != "sitecustomize.py"}


def archive_of(path: Sequence[str] | None) -> str:
    """The payload in which a package is; empty if it is elsewhere."""
    importer = pkgutil.get_importer(path[0]) if path else None
    return importer.archive if isinstance(importer, zipimport.zipimporter) else ""


class SharedImports:
    """Finds the modules that the zygote has imported, as an entry of ``sys.meta_path``.

    :param directory: where children leave payloads for the zygote.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._directory.mkdir()
        self._known: set[str] = set()
        self._modules: dict[str, types.ModuleType] = {}
        self._signatures: dict[str, Signature] = {}  # of their files
        self._fitting: dict[str, bool] = {}  # by payload, whether it has no other file in place of one of these
        self._new: dict[str, bytes] = {}  # payloads of this child, by their keys
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module that was imported from a payload with the same files."""
        archive = archive_of(path) if is_shared(name) else ""
        if not archive or not self._fits(archive) or name not in self._modules:
            return None
        module = self._modules[name]
        is_package = hasattr(module, "__path__")
        inner = name.replace(".", "/")
        if f"{inner}/__init__.py" * is_package + f"{inner}.py" * (not is_package) not in signatures_of(archive):
            return None
        spec = importlib.machinery.ModuleSpec(name, self, origin=module.__file__, is_package=is_package)
        if is_package:  # what is not shared comes from the payload
            spec.submodule_search_locations = module.__path__ = [f"{archive}/{inner}"]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module, as a loader returns it."""
        return self._modules[spec.name]

    def exec_module(self, _module: types.ModuleType) -> None:
        """It has been executed."""

    def _fits(self, archive: str) -> bool:
        if archive not in self._fitting:
            own = signatures_of(archive)
            self._fitting[archive] = all(own.get(path, found) == found for path, found in self._signatures.items())
            key = hashlib.sha256(repr(sorted(own.items())).encode()).hexdigest()
            if self._fitting[archive] and not (self._directory / key).exists():
                self._new[key] = pathlib.Path(archive).read_bytes()  # it will be removed
        return self._fitting[archive]

    def hand_over(self) -> None:
        """At the end of a child: leave the payload for the zygote, with the names of what was imported from it."""
        names = [name for name, module in list(sys.modules.items()) if self._is_own(name, module)]
        for key, content in self._new.items():
            own = self._directory / f"{key}.{os.getpid()}"
            own.write_bytes(marshal.dumps((content, names)))
            own.replace(self._directory / key)

    @staticmethod
    def _is_own(name: str, module: types.ModuleType) -> bool:
        return is_shared(name) and isinstance(getattr(module, "__loader__", None), zipimport.zipimporter)

    def take_over(self) -> None:
        """In the zygote: import what children have handed over."""
        for key in os.listdir(self._directory):
            if key not in self._known and "." not in key:
                self._known.add(key)
                content, names = marshal.loads((self._directory / key).read_bytes())  # noqa: S302 - written above
                self._import(self._directory / f"{key}.zip", content, names)
                gc.freeze()  # so that children share this memory

    def _import(self, payload: pathlib.Path, content: bytes, names: list[str]) -> None:
        payload.write_bytes(content)
        archive = str(payload)
        sys.path.insert(0, archive)
        try:
            for name in names:
                with contextlib.suppress(Exception):  # each child that needs it will see why
                    importlib.import_module(name)
            if not self._fitting.get(archive):
                return
            own = signatures_of(archive)
            for name, module in list(sys.modules.items()):
                if self._is_own(name, module) and name not in self._modules:
                    self._modules[name] = module
                    path = module.__file__.removeprefix(f"{archive}/")
                    self._signatures[path] = own[path]
        finally:
            self._forget(archive)

    def _forget(self, archive: str) -> None:
        """Leave the modules of Ansible to each child, which finds those that are shared here."""
        sys.path.remove(archive)
        self._fitting.clear()
        self._new.clear()
        for name in [name for name in sys.modules if name.partition(".")[0] in ROOTS]:
            del sys.modules[name]
        for place in [place for place in sys.path_importer_cache if place.startswith(archive)]:
            del sys.path_importer_cache[place]
