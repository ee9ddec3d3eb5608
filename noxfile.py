# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks and tests. `make test` runs them all, by scripts/stages.py; `nox --session NAME` runs one."""

import os
import pathlib
import shutil
import subprocess
import sys

import nox

ROOT = pathlib.Path(__file__).parent
REPORTS = ROOT / ".nox" / "reports"
TARGET_SIDE_TESTS = ["tests/unit/guard", "tests/unit/plugins/module_utils", "tests/unit/poller"]
GITHUB_SCHEMAS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "custom.github-workflows-require-timeout": ".github/workflows/*.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.dependabot": ".github/dependabot.yml",
}
TWO_AT_A_TIME = ["--numprocesses=2", "--dist=loadfile"]  # most of these tests wait for something

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"  # virtualenv no longer knows 3.6
nox.options.download_python = "never"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False  # nox skips a missing interpreter, and reports this
nox.options.sessions = []  # scripts/stages.py names those of `make test`


def discover_pythons() -> dict[str, str]:
    """Put every CPython of the machine on PATH, where nox looks for them; the path of each version wanted, or ""."""
    lines = subprocess.check_output([sys.executable, ROOT / "scripts" / "pythons.py"], text=True).splitlines()
    found = dict(line.split("\t") for line in lines)
    directories = [str(pathlib.Path(path).parent) for path in found.values() if path]
    os.environ["PATH"] = os.pathsep.join([*directories, os.environ["PATH"]])
    return found


PYTHONS = discover_pythons()


def install(session: nox.Session, group: str) -> None:
    """Install a dependency group of pyproject.toml."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group))


def run_pytest(session: nox.Session, *args: str, **env: str) -> None:
    """Run pytest on the tests of a session, or on those that the user names; leave its counts for the report."""
    report = REPORTS / f"{session.name}.xml"
    if any(argument.startswith("tests/") for argument in session.posargs):
        args = tuple(argument for argument in args if not argument.startswith("tests/"))
    session.run("pytest", f"--junitxml={report}", *args, *session.posargs, env=env)


def installed_collection(session: nox.Session) -> str:
    """Install the collection from its tarball; return the directory for ANSIBLE_COLLECTIONS_PATH."""
    collections = pathlib.Path(session.create_tmp()).resolve() / "collections"
    session.run("scripts/install-collection", str(collections), external=True, silent=True)
    return str(collections)


def keep_what_must_suffice(collections: str) -> None:
    """Remove from the installed collection what plugins, roles and playbooks must not use."""
    for path in pathlib.Path(collections, "ansible_collections", "maintops", "scheduled_events").iterdir():
        if path.is_dir() and path.name not in ("meta", "playbooks", "plugins", "roles"):
            shutil.rmtree(path)


def copy_checkout(destination: pathlib.Path) -> None:
    """Copy what git tracks, and what it would, to ``destination``, replacing it."""
    listing = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], text=True, cwd=ROOT
    )
    shutil.rmtree(destination, ignore_errors=True)
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).exists():  # deleted, not yet committed
            (destination / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, destination / name, follow_symlinks=False)


@nox.session
def lint(session: nox.Session) -> None:
    """Style, licences, types, language, changelog."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("yamllint", "--strict", ".")
    session.run("ansible-lint", "--offline", env={"ANSIBLE_COLLECTIONS_PATH": installed_collection(session)})
    session.run("reuse", "lint", "--quiet")
    session.run("python", "scripts/role_readmes.py", "--check")
    session.run("python", "scripts/guides.py", "--check")
    session.run("python", "scripts/prose.py")
    session.run("codespell")
    session.run("antsibull-changelog", "lint")
    for schema, pattern in GITHUB_SCHEMAS.items():
        files = sorted(str(path) for path in ROOT.glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", schema, *files, silent=True)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site; a warning is an error. Nothing is asked of the network."""
    install(session, "docs")
    pages = ROOT / ".nox" / "site" / "pages"
    shutil.rmtree(pages.parent, ignore_errors=True)
    pages.mkdir(parents=True, mode=0o755)
    collections = pathlib.Path(installed_collection(session))
    installed = collections / "ansible_collections" / "maintops" / "scheduled_events"
    session.run("antsibull-docs", "lint-collection-docs", str(installed))
    (installed / "docs" / "docsite" / "extra-docs.yml").unlink()  # docs/site/conf.py lists the guides
    session.run(
        "antsibull-docs",
        "--config-file=docs/site/antsibull-docs.cfg",
        "collection",
        "--use-current",
        "--squash-hierarchy",
        "--fail-on-error",
        f"--dest-dir={pages}",
        "maintops.scheduled_events",
        env={"ANSIBLE_COLLECTIONS_PATH": str(collections)},
    )
    (pages / "index.rst").rename(pages / "reference.rst")
    shutil.copy2(ROOT / "docs" / "site" / "index.rst", pages)
    shutil.copytree(ROOT / "docs" / "images", pages / "images")
    html = pages.parent / "html"
    session.run("sphinx-build", "-W", "--keep-going", "--quiet", "-c", "docs/site", str(pages), str(html))
    session.log(f"Open {html / 'index.html'}")


@nox.session
def release(session: nox.Session) -> None:
    """Show what the release of the prepared version would be; with --confirm, make it."""
    install(session, "release")
    session.run("python", "scripts/release.py", *session.posargs)


@nox.session
def unit(session: nox.Session) -> None:
    """The unit tests on this Python."""
    install(session, "unit")
    run_pytest(session, *TWO_AT_A_TIME, "tests/unit")


@nox.session(python=list(PYTHONS))
def library(session: nox.Session) -> None:
    """The unit tests of what runs on a VM, on every Python that a VM may have, with the newest requests."""
    test_target_side(session, "library", TARGET_SIDE_TESTS)


@nox.session
@nox.parametrize(
    "python,group",
    [
        nox.param("3.6", "library-rhel-8", id="rhel-8"),
        nox.param("3.9", "library-debian-12", id="debian-12-3.9"),
        nox.param("3.11", "library-debian-12", id="debian-12"),
    ],
)
def library_requests(session: nox.Session, group: str) -> None:
    """What asks the service, with the requests and urllib3 of distributions, from the oldest that is supported on."""
    test_target_side(session, group, ["tests/unit/plugins/module_utils"])


def test_target_side(session: nox.Session, group: str, tests: list[str]) -> None:
    """Run unit tests of what runs on a VM with the libraries of a dependency group."""
    if session.python == "3.6":
        session.install("pip>=21,<22")  # the one that comes with 3.6 takes releases that need a newer Python
    install(session, group)
    run_pytest(session, *TWO_AT_A_TIME, *tests)


@nox.session(python="3.9")
def emulator(session: nox.Session) -> None:
    """The emulator with the oldest Python and aiohttp that it serves: those of Debian 11."""
    install(session, "emulator")
    run_pytest(session, "tests/unit/emulator")


@nox.session
def integration(session: nox.Session) -> None:
    """Playbooks against the emulator, with the collection as a user installs it."""
    session.run("scripts/install-commands", "haproxy", external=True)
    # Tests that need these are skipped without them.
    dhcp = ["dnsmasq=dnsmasq-base", "dhclient=isc-dhcp-client", "dhcpcd=dhcpcd-base"]
    session.run("scripts/install-commands", *dhcp, external=True, success_codes=range(256))
    install(session, "integration")
    collections = installed_collection(session)
    keep_what_must_suffice(collections)
    run_pytest(
        session,
        "--durations=10",
        *TWO_AT_A_TIME,
        "tests/integration",
        ANSIBLE_COLLECTIONS_PATH=collections,
    )


@nox.session
def eda(session: nox.Session) -> None:
    """The rulebooks in a real ansible-rulebook, with the collection as a user installs it."""
    session.run("scripts/install-commands", "java=openjdk-17-jre-headless", external=True)
    install(session, "eda")
    run_pytest(session, "--durations=5", "tests/eda", ANSIBLE_COLLECTIONS_PATH=installed_collection(session))


@nox.session
def controllers(session: nox.Session) -> None:
    """What runs in a controller: in ansible-runner, and in an AWX where one is named (see tests/controllers).

    Without arguments for pytest, the tests marked "long" are left out: `make controllers` runs them too.
    """
    install(session, "controllers")
    packages = session.run(
        "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", silent=True
    ).strip()
    session.run("scripts/install-collection", packages, "--no-deps", external=True, silent=True)
    for module in (ROOT / "tests" / "guard").glob("*.py"):  # the jobs of AWX have no PYTHONPATH
        shutil.copy2(module, packages)
    if "AWX_START" in os.environ:
        session.run("tests/controllers/install-tools", external=True)
        session.run("scripts/install-commands", "java=openjdk-17-jre-headless", external=True)
    run_pytest(
        session,
        "--durations=10",
        "-m",
        "not long",
        "tests/controllers",
        ANSIBLE_COLLECTIONS_PATH=packages,
        PYTHON=PYTHONS["3.11"],
        RUNNER_VENV=session.virtualenv.location,
        UV=f"{session.virtualenv.bin}/uv",
    )


@nox.session
def molecule(session: nox.Session) -> None:
    """Roles on test hosts with systemd; arguments go to Molecule (default: test --all)."""
    session.run("tests/hosts/install-tools", external=True)
    install(session, "molecule")
    session.run(
        "molecule",
        *(session.posargs or ["test", "--all"]),
        env={
            "ANSIBLE_COLLECTIONS_PATH": installed_collection(session),
            "MOLECULE_COMMAND_BORDERS": "false",  # they break long lines
            "PYTHONPATH": str(ROOT / "tests" / "guard"),
        },
    )


@nox.session
def sanity(session: nox.Session) -> None:
    """Run ansible-test sanity; nothing is downloaded but packages."""
    install(session, "sanity")
    home = pathlib.Path(session.create_tmp()).resolve() / "home"
    session.run("python", "scripts/ansible_test_home.py", str(home))
    checkout = pathlib.Path(session.create_tmp()) / "ansible_collections" / "maintops" / "scheduled_events"
    copy_checkout(checkout)
    with session.chdir(checkout):
        session.run("git", "init", "--quiet", external=True)  # else it asks the repository around, which ignores .nox
        session.run("ansible-test", "sanity", "--venv", "--color", *session.posargs, env={"HOME": str(home)})


@nox.session
def galaxy(session: nox.Session) -> None:
    """The tarball: what is in it, and what Galaxy and Automation Hub check when it is published."""
    install(session, "galaxy")
    run_pytest(session, "tests/galaxy")
