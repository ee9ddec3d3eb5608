# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bill of materials of a release."""

import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile

SCRIPT = pathlib.Path(__file__).parents[3] / "scripts" / "sbom.py"


def test_the_bill_names_the_tarball_and_each_requirement(tmp_path):
    about = {"namespace": "maintops", "name": "scheduled_events", "version": "1.2.3", "license": ["GPL-3.0-or-later"]}
    files = {
        "MANIFEST.json": json.dumps({"collection_info": about}),
        "meta/ee-requirements.txt": "# a comment\nrequests>=2.20\n\naiohttp >=3.7\n",
    }
    tarball = tmp_path / "collection.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    found = json.loads(subprocess.run([sys.executable, SCRIPT, tarball], stdout=subprocess.PIPE, check=True).stdout)
    collection = found["metadata"]["component"]
    assert collection["purl"] == "pkg:generic/maintops.scheduled_events@1.2.3"
    assert collection["licenses"] == [{"license": {"id": "GPL-3.0-or-later"}}]
    assert collection["hashes"][0]["content"] == hashlib.sha256(tarball.read_bytes()).hexdigest()
    ranges = {each["purl"]: each["properties"][0]["value"] for each in found["components"]}
    assert ranges == {"pkg:pypi/requests": ">=2.20", "pkg:pypi/aiohttp": ">=3.7"}
    assert found["dependencies"] == [{"ref": collection["bom-ref"], "dependsOn": list(ranges)}]
