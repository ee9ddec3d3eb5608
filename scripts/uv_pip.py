# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run `uv pip install` with the settings of pip, which uv does not read: python scripts/uv_pip.py ARGUMENT ..."""

import ast
import os
import subprocess
import sys

VARIABLES = {  # option of pip: variable of uv, and what stands between its values
    "cert": ("SSL_CERT_FILE", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}
LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # all indexes count, not the first that has the package


def settings():
    """Return the environment variables that give uv what pip's files and variables say, and what is set for uv."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
    found = dict(LIKE_PIP)
    for line in listing.splitlines():  # global.find-links='/wheels'; the variables, as :env:.find-links, come first
        name, _equals, value = line.partition("=")
        variable, between = VARIABLES.get(name.rpartition(".")[2], ("", ""))
        if variable:
            found.setdefault(variable, between.join(ast.literal_eval(value).split()))
    return {name: os.environ.get(name, value) for name, value in found.items()}


if __name__ == "__main__":
    uv = os.path.join(os.path.dirname(sys.executable), "uv")
    sys.exit(subprocess.call([uv, "pip", "install", *sys.argv[1:]], env={**os.environ, **settings()}))
