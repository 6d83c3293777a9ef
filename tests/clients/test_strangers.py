"""Drivers' own tests through the proxy: strangers.toml says which, and what is left out and why.

Run by scripts/clients, where their source distributions may be fetched. Some drivers have their tests in their repositories alone: these
are taken, at the tag that strangers.toml names, from clones in the folder that `$DPPROXY_CHECKOUTS` names, and nothing else of them;
the driver is the package of pip or npm. Every test that is not left out must pass; what is left out must exist, so that the list does
not rot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpproxy.facade.account import find_binaries
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import launched

from . import java_tests
from .conftest import DATA, POLICY, Town
from .install import absent, long_run, made, need, npm, pip, run

pytestmark = pytest.mark.slow
WORD = "tester"  # user and password: some suites do not quote theirs
SUITES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("strangers.toml").read_text())["suite"]
CHANGES = (
    (r"(?i)\bcreate (unlogged )?table\b", "CREATE TEMP TABLE"),
    (r'"UNLOGGED"', '"TEMP"'),
    (r"(?i)\bcreate (type|domain) (?=[\w{%\"])", r"CREATE \1 pg_temp."),
    (r"database='postgres'", "database='town'"),
    (r'"user": "postgres", "password": "pw"', f'"user": "{WORD}", "password": "{WORD}", "database": "town"'),
)


@dataclass(frozen=True)
class Outcome:
    passed: int
    failed: list[str]
    skipped: int


@pytest.fixture(scope="module")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A proxy whose user has a name and a password that need no quoting."""
    long_run()
    folder = tmp_path_factory.mktemp("quarter")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(DATA)
    policy = POLICY.replace("VERIFIER", make_verifier(WORD)).replace("  ada:", f"  {WORD}:")
    (folder / "town.yaml").write_text(policy)
    with launched([folder / "town.yaml"], folder / "state") as proxy:
        yield replace(Town(proxy.host, proxy.port), user=WORD, password=WORD)


def installed(package: str, folder: Path) -> str:
    """The version that is tested: in the folder of what the suite requires, or in this environment."""
    for found in folder.glob(f"{package}*.dist-info"):
        return found.name.removesuffix(".dist-info").rpartition("-")[2]
    try:
        return version(package)
    except PackageNotFoundError:
        absent(f"no {package} here")


def source(package: str, number: str) -> Path:
    """The unpacked source distribution."""

    def install(folder: Path) -> None:
        path = f"{find_binaries().folder}{os.pathsep}{os.environ['PATH']}"  # pg_config is asked for to make the metadata
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", package, "--dest", str(folder), f"{package}=={number}"]
        run(["env", f"PATH={path}", *command])
        for archive in folder.glob("*.tar.gz"):
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")

    folder = made("sdist", (f"{package}=={number}",), install, light=False)
    return next(path for path in folder.iterdir() if path.is_dir())


def cloned(suite: Mapping[str, Any], folder: Path) -> None:
    """Put the tests of a repository at a tag into a folder."""
    clones = os.environ.get("DPPROXY_CHECKOUTS")
    clone = Path(clones) / suite["checkout"] if clones else None
    if clone is None or not clone.exists():
        absent(f"no clone of {suite['repository']} as {suite['checkout']} in $DPPROXY_CHECKOUTS")
    need("git")
    wanted = [suite["tests"], *suite.get("beside", ())]
    run(["git", "-C", str(clone), "archive", f"--output={folder / 'tests.tar'}", suite["tag"], *wanted])
    with tarfile.open(folder / "tests.tar") as opened:
        opened.extractall(folder, filter="data")


def changed(tests: Path) -> None:
    for file in (*tests.rglob("*.py"), *tests.rglob("*.java")):
        text = file.read_text()
        for pattern, replacement in CHANGES:
            text = re.sub(pattern, replacement, text)
        file.write_text(text)


def excluded(suite: Mapping[str, Any]) -> list[str]:
    return [f"{suite['tests']}/{test}" for group in suite["excluded"] for test in group["tests"]]


def outcome(report: Path) -> Outcome:
    passed, failed, skipped = 0, [], 0
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return Outcome(passed, failed, skipped)


def ran(suite: Mapping[str, Any], town: Town, extra: Path, home: Path) -> tuple[Outcome, str]:
    """By pytest. What it says ends with how many tests were deselected."""
    report = home / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(home), "-q", "--tb=native", "--color=no"]
    command += ["-p", "no:asyncio", f"--junitxml={report}", "-o", "junit_family=xunit2", *suite.get("options", ())]
    command += [part for test in excluded(suite) for part in ("--deselect", test)]
    environment = {**os.environ, **town.environment, "PYTHONPATH": str(extra), **suite.get("environment", {})}
    done = subprocess.run(
        [*command, suite["tests"]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
        stdin=subprocess.DEVNULL,
    )
    assert report.exists(), (done.stdout + done.stderr)[-5000:]
    return outcome(report), done.stdout


def ran_by_node(suite: Mapping[str, Any], town: Town, extra: Path, home: Path) -> tuple[Outcome, str]:
    """File by file, as its Makefile runs them: a file that ends well has passed. The driver is the package's, beside its tests."""
    driver = (home / suite["tests"]).parent
    shutil.copytree(extra / "node_modules" / suite["package"] / "lib", driver / "lib")
    for secret in (home / suite["tests"]).rglob("pgpass.file"):
        secret.chmod(0o600)
    (home / "node_modules").symlink_to(extra / "node_modules")
    left_out = set(excluded(suite))
    files = [path for path in sorted((home / suite["tests"]).rglob("*-tests.js")) if str(path.relative_to(home)) not in left_out]
    failed, said = [], ""
    for path in files:
        done = subprocess.run(
            ["node", str(path)],
            cwd=driver,
            env={**os.environ, **town.environment},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            failed.append(str(path.relative_to(home)))
            said += f"{failed[-1]}: {(done.stdout + done.stderr)[-1500:]}\n"
    return Outcome(len(files) - len(failed), failed, 0), f"{said}{len(left_out)} deselected"


def ran_by_java(suite: Mapping[str, Any], town: Town, extra: Path, home: Path) -> tuple[Outcome, str]:
    """All at once. Of a method that is left out the outcome does not count: `Test.java::method` stands for all its parameters."""
    left_out = excluded(suite)
    uncompiled = java_tests.without(home, left_out)
    results, said = java_tests.ran(suite, town, extra, home)
    counted = [(test, ended) for test, ended in results if re.split(r"[(\[]", test)[0] not in left_out]
    failed = [test for test, ended in counted if ended == "failed"]
    number = {ended: sum(e == ended for _, e in counted) for ended in ("passed", "skipped")}
    uncounted = uncompiled + len(results) - len(counted)
    return Outcome(number["passed"], failed, number["skipped"]), f"{said}\n{uncounted} deselected"


@dataclass(frozen=True)
class Runner:
    """`fetched` returns the folder of what a suite requires; `ran` runs the suite in a folder that has its tests."""

    fetched: Callable[..., Path]
    ran: Callable[[Mapping[str, Any], Town, Path, Path], tuple[Outcome, str]]


RUNNERS = {
    "pytest": Runner(pip, ran),
    "node": Runner(partial(npm, light=False), ran_by_node),
    "java": Runner(java_tests.junit, ran_by_java),
}


@pytest.mark.parametrize("suite", SUITES, ids=lambda s: f"{s['package']}-own-tests")
def test_suite(suite: dict[str, Any], quarter: Town, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    runner = RUNNERS[suite.get("runner", "pytest")]
    extra = runner.fetched(*suite["requires"])
    if "checkout" in suite:
        number = re.sub(r"^\D*", "", suite["tag"])
        cloned(suite, tmp_path)
    else:
        number = installed(suite["package"], extra)
        shutil.copytree(source(suite["package"], number) / suite["tests"], tmp_path / suite["tests"])
    changed(tmp_path)
    for test in excluded(suite):
        assert (tmp_path / test.partition("::")[0]).exists(), f"{test} is gone: strangers.toml is out of date"
    found, said = runner.ran(suite, quarter, extra, tmp_path)
    left_out = re.search(r"(\d+) deselected", said)
    numbers = {"passed": found.passed, "failed": len(found.failed), "left out": int(left_out[1]) if left_out else 0}
    record_property("stranger", suite["name"])
    record_property("version", number)
    record_property("numbers", {**numbers, "skipped by itself": found.skipped})
    assert not found.failed, "\n".join((*found.failed, said[-8000:]))
    assert found.passed > suite.get("least", 100)
