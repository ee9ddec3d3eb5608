# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks and tests. scripts/stages.py runs those of `make test` and `make soak`; `nox --session NAME` runs one."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

import nox

ROOT = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT / "scripts"))

import cores  # noqa: E402 - found only through the path set above, as is the next
import uv_pip  # noqa: E402

NEWEST_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"  # scripts/make-venv has chosen it
REPORTS = ROOT / ".nox" / "reports"
RESULTS = ROOT / ".nox" / "matrix"  # scripts/matrix.py reads them
TARGET_SIDE_TESTS = ["tests/unit/guard", "tests/unit/plugins/module_utils", "tests/unit/poller"]
CONTROLLER_SIDE_TESTS = ["tests/unit/plugins/filter", "tests/unit/plugins/plugin_utils"]
GITHUB_SCHEMAS = {
    "vendor.github-workflows": ".github/workflows/*.yml",
    "custom.github-workflows-require-timeout": ".github/workflows/*.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.dependabot": ".github/dependabot.yml",
}
REFERRED_TO = {
    "azure/azcollection": [
        "plugins/inventory/azure_rm.py",
        "plugins/modules/azure_rm_accesstoken_info.py",
    ]
}
EVENT_SOURCE = "extensions/eda/plugins/event_source/scheduled_events.py"
TWO_AT_A_TIME = ["--numprocesses=2", "--dist=loadfile"]  # most of these tests wait for something

if len(tempfile.gettempdir()) > 30:
    os.environ["TMPDIR"] = "/tmp"  # noqa: S108 - see scratch; tests add some seventy characters

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"  # uv takes a tenth of the time, but does not know 3.6
nox.options.download_python = "never"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False  # nox skips a missing interpreter, and reports this
nox.options.sessions = []  # scripts/stages.py names those of `make test`


def discover_pythons() -> dict[str, str]:
    """Put every CPython of the machine on PATH, where nox looks for them; the path of each version wanted, or ""."""
    lines = subprocess.check_output([sys.executable, ROOT / "scripts" / "pythons.py"], text=True).splitlines()
    found = dict(line.split("\t") for line in lines)
    found[NEWEST_PYTHON] = sys._base_executable
    directories = [str(pathlib.Path(path).parent) for path in found.values() if path]
    os.environ["PATH"] = os.pathsep.join([*directories, os.environ["PATH"]])
    return found


SOAK = os.environ.get("TIER") == "soak"  # what scripts/stages.py --soak runs, and what it repeats more often
PYTHONS = discover_pythons()
UV_SETTINGS = uv_pip.settings()
OLDEST_PYTHON = next((version for version in PYTHONS if PYTHONS[version]), "3.6")
BETWEEN_PYTHONS = [version for version in PYTHONS if version not in (OLDEST_PYTHON, NEWEST_PYTHON)]
DEBIAN_12_PYTHONS = ("3.9", "3.11")
ON_EACH_CORE = [nox.param(cores.python_for(core, PYTHONS), core, id=core) for core in cores.CORES]
# What a core can change: how a module gets its arguments and fails, action plugins, templates, and handlers. Of these
# files, `make test` runs the tests marked "core", and `make soak` all.
PLAYBOOKS = [
    "tests/integration/modules/test_info.py",
    "tests/integration/respond/test_respond.py",
    "tests/integration/rolling_maintenance/test_handlers.py",
]
if SOAK:  # modules that go the same way as that of test_info
    PLAYBOOKS += ["tests/integration/modules/test_approve.py", "tests/integration/modules/test_wait.py"]
# The tests of ansible-test sanity that depend on the core. The others are linters, of which the newest core has the
# newest, with more checks; the older ones run in `make soak`. Only the oldest core imports modules on Python 3.6.
SANITY_OF_A_CORE = ["ansible-doc", "compile", "import", "runtime-metadata", "validate-modules"]


def marked(marker: str, places: list[str]) -> list[str]:
    """The arguments for pytest that select the tests with a marker; the other files are not read."""
    files = sorted(path for place in places for path in (ROOT / place).rglob("test_*.py"))
    chosen = [str(path.relative_to(ROOT)) for path in files if f"pytest.mark.{marker}" in path.read_text()]
    return ["-m", marker, *chosen]


def install(session: nox.Session, group: str, *more: str) -> None:
    """Install a dependency group of pyproject.toml, and what else is given."""
    packages = nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group) if group else ()
    session.install(*packages, *more, env=UV_SETTINGS)


def backend(version: str) -> str:
    """What makes virtual environments of a Python: uv does not know 3.6."""
    return "venv" if version == "3.6" else "uv"


def version_of(session: nox.Session, expression: str, module: str = "sys") -> str:
    """A version that Python itself or a module of the session has."""
    return session.run("python", "-c", f"import {module}; print({expression})", silent=True).split()[-1]


def check_and_record(session: nox.Session, name: str, *command: str, env: dict[str, str], **facts: str) -> bool:
    """Run a command, and leave its result for scripts/matrix.py; whether it passed."""
    report = REPORTS / f"{name}.xml"
    facts["python"] = version_of(session, "sys.version.split()[0]")
    try:
        session.run(*command, *([f"--junitxml={report}"] if command[0] == "pytest" else []), env=env)
        facts["passed"] = True
    except nox.command.CommandFailed:
        facts["passed"] = False
    if command[0] == "pytest" and report.exists():
        suite = ET.parse(report).getroot().find("testsuite")
        facts["tests"] = int(suite.get("tests")) - int(suite.get("skipped"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(facts))
    return facts["passed"]


def run_pytest(session: nox.Session, *args: str, **env: str) -> None:
    """Run pytest on the tests of a session, or on those that the user names; leave its counts for the report."""
    report = REPORTS / f"{session.name}.xml"
    if any(argument.startswith("tests/") for argument in session.posargs):
        args = tuple(argument for argument in args if not argument.startswith("tests/"))
    more = ["--timeout=0"] if SOAK else []
    session.run("pytest", f"--junitxml={report}", *more, *args, *session.posargs, env=env)


def scratch(session: nox.Session) -> pathlib.Path:
    """The directory for the files of a session.

    Not that of `session.create_tmp`, which also sets TMPDIR to it: the sockets of tests, of Molecule and of Python's
    multiprocessing are below TMPDIR, and a path of more than 107 bytes, as in a deep checkout, is too long for them.
    """
    directory = pathlib.Path(session.virtualenv.location).resolve() / "scratch"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def installed_collection(session: nox.Session) -> str:
    """Install the collection from its tarball; return the directory for ANSIBLE_COLLECTIONS_PATH."""
    collections = scratch(session) / "collections"
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


def copy_what_documentation_refers_to(session: nox.Session, collections: str) -> None:
    """Copy these plugins of other collections; antsibull-docs reads the documentation of all that it finds."""
    [packages] = pathlib.Path(session.virtualenv.location).glob("lib/*/site-packages/ansible_collections")
    for name, plugins in REFERRED_TO.items():
        for part in ["MANIFEST.json", "meta", "plugins/doc_fragments", *plugins]:
            source, destination = packages / name / part, pathlib.Path(collections, "ansible_collections", name, part)
            destination.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, destination, dirs_exist_ok=True)
            else:
                shutil.copy2(source, destination)


def shell_scripts() -> list[str]:
    """The programs whose first line names a shell."""
    places = (".ci", "examples", "extensions", "roles", "scripts", "tests")
    files = [path for place in places for path in sorted((ROOT / place).rglob("*")) if path.is_file()]
    return [str(path) for path in files if path.read_bytes()[:40].split(b"\n")[0].endswith((b"/sh", b" sh", b"bash"))]


@nox.session
def lint(session: nox.Session) -> None:
    """Style, licences, types, language, changelog."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")
    session.run("yamllint", "--strict", ".")
    collections = installed_collection(session)
    copy_what_documentation_refers_to(session, collections)
    plugins = "ansible_collections.maintops.scheduled_events.plugins"
    session.run("mypy", f"--package={plugins}", env={"MYPYPATH": collections})
    session.run("mypy", EVENT_SOURCE)
    env = {"ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
    session.run("ansible-lint", "--offline", env=env)
    installed = f"{collections}/ansible_collections/maintops/scheduled_events"
    checks = ["--plugin-docs", "--validate-collection-refs=all", "--disallow-unknown-collection-refs"]
    session.run("antsibull-docs", "lint-collection-docs", *checks, installed, env=env)
    session.run("reuse", "lint", "--quiet")
    session.run("python", "scripts/role_readmes.py", "--check")
    session.run("python", "scripts/prose.py")
    session.run("codespell")
    session.run("shellcheck", *shell_scripts())
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
    collections = installed_collection(session)
    session.run(
        "antsibull-docs",
        "--config-file=docs/site/antsibull-docs.cfg",
        "collection",
        "--use-current",
        "--squash-hierarchy",
        "--fail-on-error",
        f"--dest-dir={pages}",
        "maintops.scheduled_events",
        env={"ANSIBLE_COLLECTIONS_PATH": collections},
    )
    (pages / "index.rst").rename(pages / "reference.rst")
    changelog = pages / "changelog.rst"
    empty = "The changelog of maintops.scheduled_events is empty."  # before the first release, without a title
    changelog.write_text(changelog.read_text().replace(empty, f"Release notes\n=============\n\n{empty}"))
    for page in [ROOT / "docs" / "site" / "index.rst", *ROOT.glob("docs/*.md")]:
        shutil.copy2(page, pages)
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


@nox.session(python=OLDEST_PYTHON, venv_backend=backend(OLDEST_PYTHON))
def oldest(session: nox.Session) -> None:
    """The unit tests of what runs on a VM, on the oldest Python and with the oldest requests; `unit` has the newest."""
    test_target_side(session, "library-oldest", [*TWO_AT_A_TIME, *TARGET_SIDE_TESTS])


@nox.session(python=BETWEEN_PYTHONS)
def edge(session: nox.Session) -> None:
    """What can differ on the other Pythons that a VM may have, two of them with the requests of a distribution."""
    group = "library-debian-12" if session.python in DEBIAN_12_PYTHONS else "library"
    test_target_side(session, group, marked("edge", TARGET_SIDE_TESTS))


def library(session: nox.Session) -> None:
    """The unit tests of what runs on a VM, on one Python, with the newest requests."""
    test_target_side(session, "library", [*TWO_AT_A_TIME, *TARGET_SIDE_TESTS])


def library_oldest(session: nox.Session) -> None:
    """What asks the service, on one Python, with the oldest requests that runs there."""
    test_target_side(session, "library-oldest", [*TWO_AT_A_TIME, "tests/unit/plugins/module_utils"])


for each in PYTHONS:
    for function in (library, library_oldest):
        name = f"{function.__name__}-{each}"
        nox.session(function, name=name, python=each, venv_backend=backend(each), tags=[function.__name__])


def test_target_side(session: nox.Session, group: str, arguments: list[str]) -> None:
    """Run unit tests of what runs on a VM with the libraries of a dependency group."""
    if session.python == "3.6":
        session.install("pip>=21,<22")  # the one that comes with 3.6 takes releases that need a newer Python
    install(session, group)
    requests = version_of(session, "requests.__version__", "requests")
    command = ["pytest", *arguments, *session.posargs]
    if not check_and_record(session, session.name, *command, env={}, requests=requests):
        session.error("tests failed")


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
    dhcp = ["dnsmasq=dnsmasq-base", "dhclient=isc-dhcp-client"]
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

    Without arguments for pytest, the tests marked "long" are left out: `make controllers` and `make soak` run them too.
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
        "" if SOAK else "not long",
        "tests/controllers",
        ANSIBLE_COLLECTIONS_PATH=packages,
        PYTHON=PYTHONS["3.11"],
        RUNNER_VENV=session.virtualenv.location,
        UV=f"{session.virtualenv.bin}/uv",
    )


@nox.session
def molecule(session: nox.Session) -> None:
    """Roles on test hosts with systemd; arguments go to Molecule (default: test each scenario, at the same time)."""
    session.run("tests/hosts/install-tools", external=True)
    install(session, "molecule")
    env = {
        "ANSIBLE_COLLECTIONS_PATH": installed_collection(session),
        "FLEET_FORM": "long" if SOAK else "short",
        "MOLECULE_COMMAND_BORDERS": "false",  # they break long lines
        "PYTHONPATH": str(ROOT / "tests" / "guard"),
    }
    if session.posargs:
        session.run("molecule", *session.posargs, env=env)
        return
    # Most of the time each of them waits. Its output comes at its end. With --workers, Molecule would neither show the
    # journals after a failure nor remove the hosts.
    scenarios = sorted(path.parent.name for path in ROOT.glob("extensions/molecule/*/molecule.yml"))
    slot = int(os.environ.get("MOLECULE_SLOT") or 0)
    with concurrent.futures.ThreadPoolExecutor(len(scenarios)) as pool:
        runs = {
            name: pool.submit(
                session.run,
                *("molecule", "test", "--scenario-name", name),
                env={**env, "MOLECULE_SLOT": str((slot + number) % 256)},
                silent=True,
            )
            for number, name in enumerate(scenarios)
        }
    failed = []
    for name, run in runs.items():
        try:
            print(run.result())
        except nox.command.CommandFailed:  # nox has shown its output
            failed.append(name)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def make_ansible_test_start(session: nox.Session) -> None:
    """Replace the script of an older core, which does not start if the path of Python is too long for a "#!" line.

    pip and uv then put lines in front of it that Python does not accept before ``from __future__ import``.
    """
    script = pathlib.Path(session.bin, "ansible-test")
    lines = script.read_text().split("\n")
    if lines[0] == "#!/bin/sh":
        stub = "from ansible_test._util.target.cli.ansible_test_cli_stub import main"
        script.write_text("\n".join([*lines[:3], stub, "", "main()", ""]))


def ansible_test(session: nox.Session, core: str, command: str, *options: str) -> bool:
    """Run a command of ansible-test in a copy of the checkout; nothing is downloaded but packages."""
    home = scratch(session) / "home"
    uv = pathlib.Path(sys.prefix, "bin", "uv")
    session.run("python", "scripts/ansible_test_home.py", str(home), str(uv), env=UV_SETTINGS)
    make_ansible_test_start(session)
    checkout = scratch(session) / "ansible_collections" / "maintops" / "scheduled_events"
    copy_checkout(checkout)
    version = version_of(session, "ansible.release.__version__", "ansible.release")
    with session.chdir(checkout):
        session.run("git", "init", "--quiet", external=True)  # else it asks the repository around, which ignores .nox
        return check_and_record(
            session,
            f"{command}-{core}",
            *("ansible-test", command, "--venv", "--color", *options),
            env={"HOME": str(home)},
            core=version,
        )


@nox.session
@nox.parametrize("python,core", ON_EACH_CORE)
def sanity(session: nox.Session, core: str) -> None:
    """Run ansible-test sanity of one ansible-core, without an ignore file."""
    install(session, "", f"ansible-core=={core}.*")
    tests = [] if SOAK or core == cores.NEWEST else SANITY_OF_A_CORE
    if not ansible_test(session, core, "sanity", *(session.posargs or [f"--test={test}" for test in tests])):
        session.error(f"ansible-test sanity of ansible-core {core} failed")


@nox.session(name="ansible_test")
@nox.parametrize("python,core", ON_EACH_CORE)
def ansible_test_tests(session: nox.Session, core: str) -> None:
    """Run ansible-test units and ansible-test integration of one ansible-core."""
    install(session, "", f"ansible-core=={core}.*")
    units = ansible_test(session, core, "units", f"--python={session.python}", "--num-workers=2")
    if not ansible_test(session, core, "integration", f"--python={session.python}") or not units:
        session.error(f"ansible-test of ansible-core {core} failed")


@nox.session(name="core")
@nox.parametrize("python,core", ON_EACH_CORE)
def on_one_core(session: nox.Session, core: str) -> None:
    """The unit tests of what imports Ansible, playbooks against the emulator, and the demo, on one ansible-core."""
    install(session, "unit", f"ansible-core=={core}.*")
    env = {"ANSIBLE_COLLECTIONS_PATH": installed_collection(session), "PYTHONPATH": str(ROOT / "tests" / "guard")}
    version = version_of(session, "ansible.release.__version__", "ansible.release")
    units = CONTROLLER_SIDE_TESTS if SOAK else marked("core", CONTROLLER_SIDE_TESTS)
    playbooks = PLAYBOOKS if SOAK else ["-m", "core", *PLAYBOOKS]
    checks = {
        "unit": (["pytest", *units], {}),
        "playbooks": (["pytest", *TWO_AT_A_TIME, *playbooks], env),
        "demo": (["python", "demo/run.py"], env),
    }
    failed = [
        check
        for check, (command, environment) in checks.items()
        if not check_and_record(session, f"{check}-{core}", *command, env=environment, core=version)
    ]
    if failed:
        session.error(f"failed with ansible-core {core}: {', '.join(failed)}")


@nox.session
def galaxy(session: nox.Session) -> None:
    """The tarball: what is in it, and what Galaxy and Automation Hub check when it is published."""
    install(session, "galaxy")
    run_pytest(session, "tests/galaxy")


@nox.session
def fuzz(session: nox.Session) -> None:
    """All readers of documents, with a million mutated documents. Arguments go to tests/fuzz/fuzz.py."""
    install(session, "library")
    session.run("python", "tests/fuzz/fuzz.py", *session.posargs, env={"PYTHONPATH": str(ROOT / "tests" / "guard")})


@nox.session
def publish_test(session: nox.Session) -> None:
    """Publish the tarball to a Galaxy server on loopback, and install it from there. Not part of `make test`."""
    install(session, "publish_test")
    session.run("tests/galaxy/publish", external=True)
