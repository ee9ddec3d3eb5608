# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the bill of materials of a tarball of the collection to standard output: python scripts/sbom.py TARBALL

In the format of CycloneDX: the collection, and what its modules and roles need of other projects on a VM and on the
control node. The event source and the emulator also need aiohttp.
"""

import hashlib
import json
import pathlib
import re
import sys
import tarfile
from typing import Any

REQUIREMENTS = "meta/ee-requirements.txt"


def bill(tarball: pathlib.Path) -> dict[str, Any]:
    """The bill of materials of a tarball."""
    with tarfile.open(tarball) as archive:
        texts = {name: archive.extractfile(name).read().decode() for name in ("MANIFEST.json", REQUIREMENTS)}
    about = json.loads(texts["MANIFEST.json"])["collection_info"]
    purl = f"pkg:generic/{about['namespace']}.{about['name']}@{about['version']}"
    needed = re.findall(r"^([A-Za-z0-9_.-]+)(.*)$", texts[REQUIREMENTS], re.MULTILINE)
    components = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}",
            "name": name,
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": "range", "value": versions.strip()}],
        }
        for name, versions in needed
    ]
    collection = {
        "type": "library",
        "bom-ref": purl,
        "group": about["namespace"],
        "name": about["name"],
        "version": about["version"],
        "purl": purl,
        "licenses": [{"license": {"id": each}} for each in about["license"]],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(tarball.read_bytes()).hexdigest()}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": collection},
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": [each["bom-ref"] for each in components]}],
    }


if __name__ == "__main__":
    print(json.dumps(bill(pathlib.Path(sys.argv[1])), indent=2))
