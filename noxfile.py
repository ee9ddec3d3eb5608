# Copyright (c) 2026 The maintops.scheduled_events authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checks and tests. scripts/stages.py runs those of `make test` and `make soak`; `nox --session NAME` runs one."""

import concurrent.futures
import os
import pathlib
import shutil
import sys
import tempfile

import nox

ROOT = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT / "scripts"))

import pythons  # noqa: E402 - found only through the path set above, as is the next
import uv_pip  # noqa: E402

NEWEST_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"  # scripts/make-venv has chosen it
REPORTS = ROOT / ".nox" / "reports"
TARGET_SIDE_TESTS = ["tests/unit/guard", "tests/unit/plugins/module_utils", "tests/unit/poller"]
CONTROLLER_SIDE_TESTS = ["tests/unit/plugins/filter", "tests/unit/plugins/plugin_utils"]
# Plugins of other collections that the documentation refers to. antsibull-docs reads the documentation of all it finds.
MODULES = ("accesstoken_info", "resource", "servicebus", "servicebusqueue", "servicebussaspolicy")
PARTS = ("MANIFEST.json", "meta", "plugins/doc_fragments", "plugins/inventory/azure_rm.py")
REFERRED_TO = [
    f"ansible_collections/azure/azcollection/{part}"
    for part in (*PARTS, *(f"plugins/modules/azure_rm_{module}.py" for module in MODULES))
]
TWO_AT_A_TIME = ["--numprocesses=2", "--dist=loadfile"]  # most of these tests wait for something
# Among the stages of `make test`, others fill the waits, and a second process would import all tests a second time.
UNLESS_OTHERS_RUN = [] if os.environ.get("TIER") == "test" else TWO_AT_A_TIME

if len(tempfile.gettempdir()) > 30:
    os.environ["TMPDIR"] = "/tmp"  # noqa: S108 - see scratch; tests add some seventy characters

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"  # uv takes a tenth of the time, but does not know 3.6
nox.options.download_python = "never"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = False  # nox skips a missing interpreter, and reports this
nox.options.sessions = []  # scripts/stages.py names those of `make test`

SOAK = os.environ.get("TIER") == "soak"  # what scripts/stages.py --soak runs, and what it repeats more often
LONG_IN_SOAK = ["-m", "" if SOAK else "not long"]  # `make test` leaves out the tests marked "long"
PYTHONS = {version: pythons.find(version) for version in pythons.VERSIONS}
PYTHONS[NEWEST_PYTHON] = sys._base_executable
os.environ["PATH"] = os.pathsep.join([*map(os.path.dirname, filter(None, PYTHONS.values())), os.environ["PATH"]])
BACKENDS = {"3.6": "venv"}  # uv does not know it
UV_SETTINGS = uv_pip.settings()
OLDEST_PYTHON = next((version for version in PYTHONS if PYTHONS[version]), "3.6")
BETWEEN_PYTHONS = [version for version in PYTHONS if version not in (OLDEST_PYTHON, NEWEST_PYTHON)]
DEBIAN_12_PYTHONS = ("3.9", "3.11")
ON_EACH_CORE = [nox.param(pythons.python_for(core, PYTHONS), core, id=core) for core in pythons.CORES]
# What a core can change. Of these files, `make test` runs the tests marked "core", and `make soak` all.
PLAYBOOKS = [
    "tests/integration/modules/test_forecast.py",
    "tests/integration/modules/test_info.py",
    "tests/integration/respond/test_respond.py",
    "tests/integration/rolling_maintenance/test_handlers.py",
]
if SOAK:  # modules that go the same way as that of test_info
    PLAYBOOKS += ["tests/integration/modules/test_approve.py", "tests/integration/modules/test_wait.py"]
# These tests of ansible-test sanity depend on the core. The others are linters: `make soak` has the older ones, too.
SANITY_OF_A_CORE = ["ansible-doc", "compile", "import", "runtime-metadata", "validate-modules"]


def marked(marker: str, places: list[str]) -> list[str]:
    """The arguments for pytest that select the tests with a marker; the other files are not read."""
    files = sorted(path for place in places for path in (ROOT / place).rglob("test_*.py"))
    chosen = [str(path.relative_to(ROOT)) for path in files if f"pytest.mark.{marker}" in path.read_text()]
    return ["-m", marker, *chosen]


def install(session: nox.Session, group: str, *more: str) -> None:
    """Install a dependency group of pyproject.toml, and what else is given."""
    packages = nox.project.dependency_groups(nox.project.load_toml("pyproject.toml"), group)
    session.install(*packages, *more, env=UV_SETTINGS)


def run_pytest(session: nox.Session, *args: str, name: str = "", **env: str) -> None:
    """Run pytest on the tests of a session, or on those that the user names; leave its counts for the report."""
    if any(argument.startswith("tests/") for argument in session.posargs):
        args = tuple(argument for argument in args if not argument.startswith("tests/"))
    more = ["--timeout=0"] if SOAK else []
    session.run("pytest", f"--junitxml={REPORTS / (name or session.name)}.xml", *more, *args, *session.posargs, env=env)


def scratch(session: nox.Session) -> pathlib.Path:
    """The directory for the files of a session.

    Not that of `session.create_tmp`, which also sets TMPDIR to it: the sockets of tests, of Molecule and of Python's
    multiprocessing are below TMPDIR, and a path of more than 107 bytes, as in a deep checkout, is too long for them.
    """
    directory = pathlib.Path(session.virtualenv.location).resolve() / "scratch"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def site_packages(session: nox.Session) -> pathlib.Path:
    return next(pathlib.Path(session.virtualenv.location).resolve().glob("lib/*/site-packages"))


def installed_collection(session: nox.Session) -> str:
    """Install the collection from its tarball; return the directory for ANSIBLE_COLLECTIONS_PATH."""
    collections = str(scratch(session) / "collections")
    session.run("scripts/install-collection", collections, external=True, silent=True)
    return collections


@nox.session
def lint(session: nox.Session) -> None:
    """Style, licences, types, language, changelog."""
    install(session, "lint")
    session.run("pre-commit", "run", "--all-files", "--show-diff-on-failure")
    collections = installed_collection(session)
    with session.chdir(site_packages(session)):
        session.run("cp", "--recursive", "--parents", *REFERRED_TO, collections, external=True)
    plugins = "ansible_collections.maintops.scheduled_events.plugins"
    session.run("mypy", f"--package={plugins}", env={"MYPYPATH": collections})
    for plugin in ("event_source/scheduled_events.py", "event_filter/azure_events.py"):
        session.run("mypy", f"extensions/eda/plugins/{plugin}")
    env = {"ANSIBLE_COLLECTIONS_PATH": collections, "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"}
    session.run("ansible-lint", "--offline", env=env)
    installed = f"{collections}/ansible_collections/maintops/scheduled_events"
    checks = ["--plugin-docs", "--validate-collection-refs=all", "--disallow-unknown-collection-refs"]
    session.run("antsibull-docs", "lint-collection-docs", *checks, installed, env=env)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, also as a browser shows it; a warning is an error. Nothing is asked of the network."""
    if not shutil.which("google-chrome"):
        session.run("scripts/install-packages", "chromium=chromium", external=True)
    install(session, "docs")
    pages = ROOT / ".nox" / "site" / "pages"
    shutil.rmtree(pages.parent, ignore_errors=True)
    pages.mkdir(parents=True, mode=0o755)
    collections = installed_collection(session)
    options = ["--use-current", "--squash-hierarchy", "--fail-on-error", f"--dest-dir={pages}"]
    antsibull_docs = ["antsibull-docs", "--config-file=docs/site/antsibull-docs.cfg", "collection", *options]
    session.run(*antsibull_docs, "maintops.scheduled_events", env={"ANSIBLE_COLLECTIONS_PATH": collections})
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
    run_pytest(session, "tests/site")


@nox.session
def unit(session: nox.Session) -> None:
    """The unit tests on this Python."""
    install(session, "unit")
    run_pytest(session, *UNLESS_OTHERS_RUN, "tests/unit")


def test_target_side(session: nox.Session, group: str, *arguments: str) -> None:
    """Run unit tests of what runs on a VM with the libraries of a dependency group."""
    if session.python == "3.6":
        session.install("pip>=21,<22")  # the one that comes with 3.6 takes releases that need a newer Python
    install(session, group)
    run_pytest(session, *arguments)


@nox.session(python=OLDEST_PYTHON, venv_backend=BACKENDS.get(OLDEST_PYTHON))
def oldest(session: nox.Session) -> None:
    """The unit tests of what runs on a VM, on the oldest Python and with the oldest requests; `unit` has the newest."""
    test_target_side(session, "library-oldest", *UNLESS_OTHERS_RUN, *TARGET_SIDE_TESTS)


@nox.session(python=BETWEEN_PYTHONS)
def edge(session: nox.Session) -> None:
    """What can differ on the other Pythons that a VM may have, two of them with the requests of a distribution."""
    group = "library-debian-12" if session.python in DEBIAN_12_PYTHONS else "library"
    test_target_side(session, group, *marked("edge", TARGET_SIDE_TESTS))


def library(session: nox.Session) -> None:
    """On one Python, what runs on a VM with the newest requests, or what asks the service with the oldest."""
    if "oldest" in session.name:
        test_target_side(session, "library-oldest", *TWO_AT_A_TIME, "tests/unit/plugins/module_utils")
    else:
        test_target_side(session, "library", *TWO_AT_A_TIME, *TARGET_SIDE_TESTS)


for each in PYTHONS:
    for prefix in ("library", "library_oldest"):
        nox.session(library, name=f"{prefix}-{each}", python=each, venv_backend=BACKENDS.get(each), tags=[prefix])


@nox.session(python="3.9")
def emulator(session: nox.Session) -> None:
    """The emulator with the oldest Python and aiohttp that it serves: those of Debian 11."""
    install(session, "emulator")
    run_pytest(session, "tests/unit/emulator")


@nox.session
def integration(session: nox.Session) -> None:
    """Playbooks against the emulator, with the collection as a user installs it. The long tests run in `make soak`."""
    session.run("scripts/install-packages", "haproxy=haproxy", external=True)
    # Tests that need these are skipped without them.
    dhcp = ["dnsmasq=dnsmasq-base", "dhclient=isc-dhcp-client"]
    session.run("scripts/install-packages", *dhcp, "nft=nftables", external=True, success_codes=range(256))
    install(session, "integration")
    collections = installed_collection(session)
    for path in pathlib.Path(collections, "ansible_collections", "maintops", "scheduled_events").iterdir():
        if path.is_dir() and path.name not in ("meta", "playbooks", "plugins", "roles"):  # these must suffice
            shutil.rmtree(path)
    run_pytest(
        session,
        "--durations=10",
        *TWO_AT_A_TIME,
        *LONG_IN_SOAK,
        "tests/integration",
        ANSIBLE_COLLECTIONS_PATH=collections,
    )
    if not session.posargs:
        some = ["--numprocesses=4", "-m", "diagonal", "tests/faults"]
        run_pytest(session, *some, name="integration faults", ANSIBLE_COLLECTIONS_PATH=collections)


@nox.session
def faults(session: nox.Session) -> None:
    """Every fault with every consumer, on separate networks. Writes docs/fault-matrix.md if it runs all of them."""
    # Not openssh-server, which would start to listen. Without it, cells are skipped, and the page is not written.
    session.run("scripts/install-packages", "ip=iproute2", "nft=nftables", external=True)
    install(session, "integration")
    seen = scratch(session) / "seen"
    shutil.rmtree(seen, ignore_errors=True)
    seen.mkdir()
    env = {"ANSIBLE_COLLECTIONS_PATH": installed_collection(session), "FAULTS_SEEN": str(seen)}
    run_pytest(session, "--numprocesses=6", "--durations=5", "tests/faults", **env)
    if not session.posargs:
        session.run("python", "tests/faults/page.py", str(seen), env=env)


@nox.session
def eda(session: nox.Session) -> None:
    """The rulebooks in a real ansible-rulebook, with the collection as a user installs it.

    The tests marked "long" run in `make soak`.
    """
    session.run("scripts/install-packages", "java=default-jre-headless", external=True)
    install(session, "eda")
    run_pytest(
        session, "--durations=5", *LONG_IN_SOAK, "tests/eda", ANSIBLE_COLLECTIONS_PATH=installed_collection(session)
    )


@nox.session
def controllers(session: nox.Session) -> None:
    """What runs in a controller: in ansible-runner, and in an AWX where one is named (see tests/controllers).

    Without arguments for pytest, the tests marked "long" are left out: `make controllers` and `make soak` run them too.
    """
    install(session, "controllers")
    packages = str(site_packages(session))
    session.run("scripts/install-collection", packages, "--no-deps", external=True, silent=True)
    for module in (ROOT / "tests" / "guard").glob("*.py"):  # the jobs of AWX have no PYTHONPATH
        shutil.copy2(module, packages)
    if "AWX_START" in os.environ:
        session.run("tests/controllers/install-tools", external=True)
        session.run("scripts/install-packages", "java=default-jre-headless", external=True)
    env = {"ANSIBLE_COLLECTIONS_PATH": packages, "PYTHON": PYTHONS["3.11"], "UV": f"{session.virtualenv.bin}/uv"}
    env["RUNNER_VENV"] = session.virtualenv.location
    run_pytest(session, "--durations=10", *LONG_IN_SOAK, "tests/controllers", **env)


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
    # With --workers, Molecule would neither show the journals after a failure nor remove the hosts.
    scenarios = sorted(path.parent.name for path in ROOT.glob("extensions/molecule/*/molecule.yml"))
    slot = int(os.environ.get("MOLECULE_SLOT") or 0)

    def failure(name: str) -> str:
        number = str((slot + scenarios.index(name)) % 256)
        command = ["molecule", "test", "--scenario-name", name]
        try:
            print(session.run(*command, env={**env, "MOLECULE_SLOT": number}, silent=True))
        except nox.command.CommandFailed:  # nox has shown its output
            return name
        return ""

    with concurrent.futures.ThreadPoolExecutor(len(scenarios)) as pool:
        failed = list(filter(None, pool.map(failure, scenarios)))
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def ansible_test(session: nox.Session, core: str, command: str, *options: str) -> None:
    """Run a command of ansible-test in a copy of the checkout; nothing is downloaded but packages."""
    session.install(f"ansible-core=={core}.*", env=UV_SETTINGS)
    home = scratch(session) / "home"
    uv = pathlib.Path(sys.prefix, "bin", "uv")
    session.run("python", "scripts/ansible_test_home.py", str(home), str(uv), env=UV_SETTINGS)
    checkout = scratch(session) / "ansible_collections" / "maintops" / "scheduled_events"
    shutil.rmtree(checkout, ignore_errors=True)
    index = {"GIT_INDEX_FILE": str(scratch(session) / "index")}  # what git tracks, and what it would
    session.run("git", "add", "--all", external=True, env=index)
    session.run("git", "checkout-index", "--all", f"--prefix={checkout}/", external=True, env=index)
    with session.chdir(checkout):
        session.run("git", "init", "--quiet", external=True)  # else it asks the repository around, which ignores .nox
        # Not its script: that of an older core does not start where the path of Python is too long for a "#!" line.
        program = "ansible_test._util.target.cli.ansible_test_cli_stub"
        session.run("python", "-m", program, command, "--venv", "--color", *options, env={"HOME": str(home)})


@nox.session
@nox.parametrize("python,core", ON_EACH_CORE)
def sanity(session: nox.Session, core: str) -> None:
    """Run ansible-test sanity of one ansible-core, without an ignore file."""
    tests = [] if SOAK or core == pythons.NEWEST_CORE else SANITY_OF_A_CORE
    ansible_test(session, core, "sanity", *(session.posargs or [f"--test={test}" for test in tests]))


@nox.session(name="ansible_test")
@nox.parametrize("python,core", ON_EACH_CORE)
def ansible_test_tests(session: nox.Session, core: str) -> None:
    """Run ansible-test units and ansible-test integration of one ansible-core."""
    ansible_test(session, core, "units", f"--python={session.python}", "--num-workers=2")
    ansible_test(session, core, "integration", f"--python={session.python}")


@nox.session(name="core")
@nox.parametrize("python,core", ON_EACH_CORE)
def on_one_core(session: nox.Session, core: str) -> None:
    """The unit tests of what imports Ansible, playbooks against the emulator, and the demo, on one ansible-core."""
    install(session, "unit", f"ansible-core=={core}.*")
    env = {"ANSIBLE_COLLECTIONS_PATH": installed_collection(session), "PYTHONPATH": str(ROOT / "tests" / "guard")}
    run_pytest(session, *(CONTROLLER_SIDE_TESTS if SOAK else marked("core", CONTROLLER_SIDE_TESTS)))
    more = [] if SOAK else ["-m", "core"]
    run_pytest(session, *TWO_AT_A_TIME, *more, *PLAYBOOKS, name=f"{session.name} playbooks", **env)
    session.run("python", "demo/run.py", env=env)


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
