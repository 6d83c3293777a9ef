"""Drivers of other languages and libraries, each in a process of its own, against the proxy of the other client tests.

A script under `drivers/` prints one line of JSON for each thing it tries; every one must hold. What it tried is a row of
the table of docs/clients.md, written by scripts/clients. A driver that is neither installed nor can be fetched skips, loudly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Town
from .install import absent, deb, long_run, made, need, npm, pip, run, venv

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parent / "drivers"
Command = tuple[list[str], Mapping[str, str]]
"""What to run, and what to add to its environment."""


@dataclass(frozen=True)
class Driver:
    """`ready` fetches what is needed, or skips the test."""

    name: str
    ready: Callable[[], Command]


def python(script: str, packages: tuple[str, ...], *arguments: str, **more: str) -> Callable[[], Command]:
    def ready() -> Command:
        path = os.pathsep.join((str(pip(*packages, light=packages is ORM)), str(SCRIPTS)))
        return [sys.executable, str(SCRIPTS / script), *arguments], {"PYTHONPATH": path, **more}

    return ready


def node(script: str) -> Callable[[], Command]:
    def ready() -> Command:
        folder = npm(
            "pg@8.23.1", "pg-cursor@2.22.0", "pg-query-stream@4.17.0", "pg-copy-streams@7.0.0", "postgres@3.4.9", "knex@3.3.0"
        )
        return ["node", str(SCRIPTS / script)], {"NODE_PATH": str(folder / "node_modules")}

    return ready


def works(*command: str) -> bool:
    """Whether something is installed in this system."""
    try:
        return subprocess.run(command, capture_output=True, timeout=300).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def libraries(root: Path) -> Path:
    """Where an unpacked Debian keeps what depends on the processor."""
    return root / "usr" / "lib" / str(sysconfig.get_config_var("MULTIARCH"))


def system_psql() -> Command:
    command = [sys.executable, str(SCRIPTS / "psql_script.py")]
    if works("psql", "-V"):
        return command, {}
    root = deb("postgresql-client")
    folder = next((root / "usr" / "lib" / "postgresql").glob("*/bin"))
    return command, {"PATH": f"{folder}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(libraries(root))}


CARGO = """
[package]
name = "client"
version = "0.0.0"
edition = "2021"
[dependencies]
tokio-postgres = "*"
tokio = { version = "*", features = ["rt-multi-thread", "macros", "time"] }
futures-util = "*"
"""


def rust() -> Command:
    """Compiled from Debian's sources by this machine's compiler, once for each state of the script."""
    need("cargo", "rustc")
    root, script = deb("librust-tokio-postgres-dev"), SCRIPTS / "tokio.rs"
    sources = root / "usr" / "share" / "cargo" / "registry"
    version = next(sources.glob("tokio-postgres-*")).name.rpartition("-")[2]
    project = root / f"tokio-{script.stat().st_mtime_ns}"
    binary = project / "target" / "debug" / "client"
    if not binary.exists():
        (project / "src").mkdir(parents=True, exist_ok=True)
        (project / ".cargo").mkdir(exist_ok=True)
        (project / "src" / "main.rs").write_text(script.read_text())
        (project / "Cargo.toml").write_text(CARGO)
        config = f'[source.crates-io]\nreplace-with = "debian"\n[source.debian]\ndirectory = "{sources}"\n'
        (project / ".cargo" / "config.toml").write_text(config)
        environment = {**os.environ, "TOKIO_POSTGRES": version}
        command = ["cargo", "build", "--offline", "--quiet"]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=400)
        if done.returncode:
            absent(f"cargo build: {done.stderr[-500:]}")
    return [str(binary)], {}


def perl() -> Command:
    need("perl")
    command = ["perl", str(SCRIPTS / "dbdpg.pl")]
    if works("perl", "-MDBD::Pg", "-e", "1"):
        return command, {}
    root = deb("libdbd-pg-perl")
    folders = [*libraries(root).glob("perl5/*"), root / "usr" / "share" / "perl5"]
    environment = {"PERL5LIB": os.pathsep.join(map(str, folders)), "LD_LIBRARY_PATH": str(libraries(root))}
    if not works("env", *(f"{k}={v}" for k, v in environment.items()), "perl", "-MDBD::Pg", "-e", "1"):
        absent("this perl is not the one Debian's DBD::Pg is for")
    return command, environment


def php() -> Command:
    script = str(SCRIPTS / "pdo.php")
    if works("php", "-r", "exit(in_array('pgsql', PDO::getAvailableDrivers()) ? 0 : 1);"):
        return ["php", script], {}
    root = deb("php8.2-cli", "php8.2-pgsql")
    folder = next((root / "usr" / "lib" / "php").glob("20*"))
    extensions = [part for name in ("pdo", "pdo_pgsql", "pgsql") for part in ("-d", f"extension={name}.so")]
    command = [str(root / "usr" / "bin" / "php8.2"), "-n", "-d", f"extension_dir={folder}", *extensions, script]
    return command, {"LD_LIBRARY_PATH": str(libraries(root))}


def ruby() -> Command:
    script = str(SCRIPTS / "ruby_pg.rb")
    if works("ruby", "-rpg", "-e", "0"):
        return ["ruby", script], {}
    root = deb("ruby3.1", "ruby-pg")
    lib = libraries(root)
    folders = [
        *(root / "usr" / "lib" / "ruby" / part for part in ("vendor_ruby", "3.1.0")),
        *(lib / "ruby" / part for part in ("vendor_ruby/3.1.0", "3.1.0")),
    ]
    return [str(root / "usr" / "bin" / "ruby3.1"), "--disable-gems", script], {
        "RUBYLIB": os.pathsep.join(map(str, folders)),
        "LD_LIBRARY_PATH": str(lib),
    }


GO = ("golang-1.19-go", "golang-github-lib-pq-dev", "golang-github-jackc-pgx-v4-dev")


def go(driver: str) -> Callable[[], Command]:
    def ready() -> Command:
        need("gcc")
        root = deb(*GO)
        goroot = root / "usr" / "lib" / "go-1.19"
        binary = root / f"pgx-{(SCRIPTS / 'pgx.go').stat().st_mtime_ns}"
        if not binary.exists():
            environment = {
                **os.environ,
                "GOROOT": str(goroot),
                "GOPATH": str(root / "usr" / "share" / "gocode"),
                "GO111MODULE": "off",
                "GOCACHE": str(root / "cache"),
                "GOFLAGS": "",
                "GOTOOLCHAIN": "local",
                "CGO_ENABLED": "0",
            }
            command = [str(goroot / "bin" / "go"), "build", "-o", str(binary), str(SCRIPTS / "pgx.go")]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
            if done.returncode:
                absent(f"go build: {done.stderr[-500:]}")
        return [str(binary), driver], {}

    return ready


def r_language() -> Command:
    script = str(SCRIPTS / "rpostgres.R")
    if works("Rscript", "-e", "library(RPostgreSQL)"):
        return ["Rscript", script], {}
    return r_home(deb("r-cran-rpostgresql"), script)


def r_home(root: Path, script: str) -> Command:
    """Run a script by an R that was unpacked."""
    home = root / "usr" / "lib" / "R"
    folders = [home / "lib", libraries(root), *(libraries(root) / name for name in ("blas", "lapack"))]
    return [str(home / "bin" / "exec" / "R"), "--no-echo", "--no-restore", "--vanilla", f"--file={SCRIPTS / script}"], {
        "R_HOME": str(home),
        "EDITOR": "vi",  # R does not start without a name here, which its missing Renviron would have
        "R_LIBS": str(home / "site-library"),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders)),
    }


def odbc(mode: str) -> Callable[[], Command]:
    def ready() -> Command:
        root = deb("odbc-postgresql", "libodbc2")
        driver = libraries(root) / "odbc" / "psqlodbcw.so"
        more = {"LD_LIBRARY_PATH": str(libraries(root)), "PSQLODBC": str(driver)}
        return python("odbc_script.py", ("pyodbc",), mode, **more)()

    return ready


JDBC_MODES = ("extended", "simple", "extendedCacheEverything")


def jdbc_of_debian() -> Path:
    return deb("libpostgresql-jdbc-java") / "usr" / "share" / "java" / "postgresql.jar"


def jdbc_of_npm() -> Path:
    """A newer one than Debian's, as another tool ships it."""
    folder = npm("liquibase@4.28.1", light=False) / "node_modules" / "liquibase" / "dist" / "liquibase"
    return folder / "internal" / "lib" / "postgresql.jar"


def jdbc(driver: Callable[[], Path], mode: str) -> Callable[[], Command]:
    def ready() -> Command:
        need("java", "javac")
        jar = driver()
        classpath = os.pathsep.join(map(str, (jar, *(jar.parent.glob("*.jar") if driver is jdbc_of_debian else ()))))
        return ["java", "-Xshare:auto", "-cp", classpath, str(SCRIPTS / "Jdbc.java"), mode], {}

    return ready


def dbt() -> Command:
    long_run()
    return [str(venv("dbt-core<1.11", "dbt-postgres<1.10")), str(SCRIPTS / "transform_script.py")], {}


def superset() -> Command:
    """Its metadata take more than a minute to prepare: once, then each run has a copy."""
    long_run()
    python = venv("apache-superset==6.1.*", "psycopg2-binary", "rich", "cachetools", "flask-caching==2.3.1")
    settings = {"SUPERSET_CONFIG_PATH": str(SCRIPTS / "superset_config.py"), "FLASK_APP": "superset"}

    def prepare(folder: Path) -> None:
        assignments = [f"{k}={v}" for k, v in {**settings, "SUPERSET_HOME": str(folder)}.items()]
        who = ("--username", "admin", "--password", "admin", "--firstname", "a", "--lastname", "b", "--email", "a@example.org")
        for arguments in (("db", "upgrade"), ("fab", "create-admin", *who), ("init",)):
            run(["env", *assignments, str(python.with_name("superset")), *arguments])

    home = made("superset", (str(python),), prepare, light=False)
    return [str(python), str(SCRIPTS / "superset_script.py")], {**settings, "SUPERSET_HOME": str(home)}


FRAMES = ("pandas", "sqlalchemy>=2", "psycopg2-binary")
COLUMNS = ("polars", "adbc-driver-postgresql", "connectorx", "pyarrow")
DUCKDB = ("duckdb==1.5.5", "duckdb-extension-postgres-scanner==1.5.5")
ORM = ("sqlalchemy==2.1.9", "psycopg2-binary==2.9.13")
"""Fetched by a plain test run too: five seconds. What that fetches is pinned, so that it says the same tomorrow."""

DRIVERS = (
    Driver("psql (system)", system_psql),
    Driver("psycopg2", python("psycopg2_script.py", ORM)),
    *(Driver(f"SQLAlchemy, {d}", python("sqlalchemy_script.py", ORM, d)) for d in ("psycopg2", "psycopg", "pg8000")),
    Driver("pandas", python("pandas_script.py", FRAMES)),
    Driver("polars, ADBC", python("polars_script.py", COLUMNS)),
    Driver("connectorx", python("connectorx_script.py", COLUMNS)),
    *(Driver(f"JDBC, {mode}", jdbc(jdbc_of_debian, mode)) for mode in JDBC_MODES),
    *(Driver(f"JDBC of npm, {mode}", jdbc(jdbc_of_npm, mode)) for mode in JDBC_MODES),
    Driver("DuckDB's postgres extension", python("duckdb_script.py", DUCKDB)),
    Driver("psqlODBC", odbc("plain")),
    Driver("psqlODBC, UseDeclareFetch", odbc("fetch")),
    Driver("node pg", node("node_pg.js")),
    Driver("node postgres.js", node("node_postgres.js")),
    Driver("node knex", node("node_knex.js")),
    Driver("Go lib/pq", go("postgres")),
    Driver("Go pgx", go("native")),
    Driver("Go pgx by database/sql", go("pgx")),
    Driver("Rust tokio-postgres", rust),
    Driver("Perl DBD::Pg", perl),
    Driver("PHP PDO", php),
    Driver("Ruby pg", ruby),
    Driver("R RPostgreSQL", r_language),
    Driver("dbt-postgres", dbt),
    Driver("Apache Superset", superset),
)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda d: d.name.replace(" ", "-"))
def test_driver(driver: Driver, town: Town, record_property: Callable[[str, object], None]) -> None:
    tried(driver, town, record_property)


def tried(driver: Driver, town: Town, record_property: Callable[[str, object], None]) -> None:
    """Run a client's script against the proxy; each of its checks must hold."""
    command, more = driver.ready()
    done = subprocess.run(
        command,
        env={**os.environ, **town.environment, **more},
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
        errors="replace",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    checks = {line["check"]: line["ok"] for line in lines if "check" in line}
    record_property("client", driver.name)
    record_property("version", next((line["version"] for line in lines if "version" in line), "?"))
    record_property("checks", checks)
    record_property("notes", [line["note"] for line in lines if "note" in line])
    failures = [f"{line['check']}: {line['why']}" for line in lines if line.get("ok") is False]
    assert not failures, "\n".join(failures)
    assert checks, done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
