"""Drivers' own tests through the proxy: strangers.toml says which, and what is left out and why.

Run where their source distributions may be fetched (scripts/clients). Every test that is not left out must pass; what is
left out must exist, so that the list does not rot.
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
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpproxy.facade.binaries import find_binaries
from dpproxy.policy.password import make_verifier
from dpproxy.serve.launch import launched

from .conftest import DATA, POLICY, Town
from .install import absent, long_run, made, pip, run

pytestmark = pytest.mark.slow
WORD = "tester"  # user and password: some suites do not quote theirs
SUITES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("strangers.toml").read_text())["suite"]
CHANGES = (
    (r"(?i)\bcreate table\b", "CREATE TEMP TABLE"),
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


def changed(tests: Path) -> None:
    for file in tests.rglob("*.py"):
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
    report = home / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(home), "-q", "--tb=native", "--color=no"]
    command += ["-p", "no:cacheprovider", "-p", "no:asyncio", f"--junitxml={report}", "-o", "junit_family=xunit2"]
    command += [part for test in excluded(suite) for part in ("--deselect", test)]
    environment = {**os.environ, **town.environment, "PYTHONPATH": str(extra), **suite.get("environment", {})}
    done = subprocess.run(
        [*command, suite["tests"]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )
    assert report.exists(), (done.stdout + done.stderr)[-5000:]
    return outcome(report), done.stdout


@pytest.mark.parametrize("suite", SUITES, ids=lambda s: f"{s['name']}-own-tests")
def test_suite(suite: dict[str, Any], quarter: Town, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    extra = pip(*suite["requires"])
    number = installed(suite["package"], extra)
    shutil.copytree(source(suite["package"], number) / suite["tests"], tmp_path / suite["tests"])
    changed(tmp_path / suite["tests"])
    found, said = ran(suite, quarter, extra, tmp_path)
    left_out = re.search(r"(\d+) deselected", said)
    numbers = {"passed": found.passed, "failed": len(found.failed), "left out": int(left_out[1]) if left_out else 0}
    record_property("stranger", suite["name"])
    record_property("version", number)
    record_property("numbers", {**numbers, "skipped by itself": found.skipped})
    assert not found.failed, said[-8000:]
    assert found.passed > 100
    for test in excluded(suite):
        assert (tmp_path / test.partition("::")[0]).exists(), f"{test} is gone: strangers.toml is out of date"
