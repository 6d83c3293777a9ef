"""A Java driver's own tests: compiled beside the driver's package, run by JUnit's console.

Knows: javac, JUnit's reports. Must not know: the proxy, which tests are left out and why (`strangers.toml`). Files that are left out are
not compiled, and count as many tests as they have methods; of a method that is left out the outcome is not counted, since
JUnit's console chooses by class.
"""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from .conftest import Town
from .install import deb, need
from .test_drivers import jdbc_of_npm

ANNOTATION = "org.checkerframework.checker.nullness.qual"
"""Of a checker that the sources name and that does nothing when they run."""
_METHOD = re.compile(r"@(?:Parameterized|Repeated)?Test\b")
Results = list[tuple[str, str]]
"""Each test as `file::method`, and `passed`, `failed` or `skipped`."""


def junit(*packages: str) -> Path:
    need("java", "javac")
    return deb(*packages)


def without(home: Path, left_out: Sequence[str]) -> int:
    """Remove files and folders that are left out, and lists of tests, which name them. Return how many test methods they had."""
    paths = [home / test for test in left_out if "::" not in test]
    files = [file for path in paths for file in (path.rglob("*.java") if path.is_dir() else (path,))]
    methods = sum(len(_METHOD.findall(file.read_text())) for file in files)
    for file in (*files, *home.rglob("*Suite.java")):
        file.unlink(missing_ok=True)
    return methods


def ran(suite: Mapping[str, object], town: Town, libraries: Path, home: Path) -> tuple[Results, str]:
    """Compile what is there, run it, and return how each test ended."""
    jars = os.pathsep.join(map(str, (jdbc_of_npm(), *sorted((libraries / "usr" / "share" / "java").glob("*.jar")))))
    classes = _compiled(home, jars)
    properties = {
        "server": town.host, "port": town.port, "database": town.database, "username": town.user, "password": town.password,
        "privilegedUser": town.user, "privilegedPassword": town.password, "build.properties.relative.path": home,
        "junit.jupiter.execution.timeout.default": "60s", "user.timezone": "UTC",
    }  # fmt: skip
    command = ["java", "-ea", *(f"-D{name}={value}" for name, value in properties.items()), "-cp", f"{classes}{os.pathsep}{jars}"]
    command += ["org.junit.platform.console.ConsoleLauncher", f"--scan-classpath={classes}", f"--reports-dir={home / 'reports'}"]
    command += ["--details=none", "--disable-banner", "--include-classname=.*Test"]
    done = subprocess.run(
        command, cwd=home, capture_output=True, text=True, errors="replace", timeout=1500, stdin=subprocess.DEVNULL
    )
    return _results(home / "reports", home / str(suite["tests"]), home), done.stdout + done.stderr


def _compiled(home: Path, jars: str) -> Path:
    annotation = home / "annotation" / "Nullable.java"
    annotation.parent.mkdir()
    annotation.write_text(
        f"package {ANNOTATION}; import java.lang.annotation.*; @Target(ElementType.TYPE_USE) public @interface Nullable {{}}"
    )
    sources = [str(path) for path in sorted(home.rglob("*.java"))]
    (home / "sources").write_text("\n".join(sources))
    classes = home / "classes"
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-proc:none", "-d", str(classes), "-cp", jars, f"@{home / 'sources'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr[-5000:]
    return classes


def _results(reports: Path, tests: Path, home: Path) -> Results:
    found = []
    for report in sorted(reports.glob("TEST-*.xml")):
        for case in ET.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            ended = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            file = tests / (str(case.get("classname")).partition("$")[0].replace(".", "/") + ".java")
            found.append((f"{file.relative_to(home)}::{case.get('name')}", ended))
    return found
