"""Tools on top of drivers: ORMs, data frames, terminals, checks of data, models' servers. Each runs as a script of its own.

As drivers do (`test_drivers`): a script under `drivers/` prints what it tried, and each is a row of the table of docs/clients.md.
Fetching them takes minutes and a gigabyte: only scripts/clients does, and only it tries them. They log in as `bo`, whose role has
invented rows for previews, but for those that compute on rows themselves.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from .conftest import Town
from .install import absent, deb, long_run, need, npm, pip, venv
from .test_drivers import SCRIPTS, Command, Driver, jdbc_of_debian, libraries, r_home, tried, works

pytestmark = pytest.mark.slow


def with_pip(script: str, *packages: str) -> Callable[[], Command]:
    def ready() -> Command:
        long_run()
        return [sys.executable, str(SCRIPTS / script)], {"PYTHONPATH": f"{pip(*packages)}:{SCRIPTS}"}

    return ready


def with_venv(script: str, *packages: str) -> Callable[[], Command]:
    def ready() -> Command:
        long_run()
        return [str(venv(*packages)), str(SCRIPTS / script)], {}

    return ready


def with_npm(script: str, *packages: str) -> Callable[[], Command]:
    def ready() -> Command:
        long_run()
        return ["node", str(SCRIPTS / script)], {"NODE_PATH": str(npm(*packages, light=False) / "node_modules")}

    return ready


def dbplyr() -> Command:
    long_run()
    return r_home(deb("r-cran-dbplyr", "r-cran-rpostgresql"), "dbplyr.R")


def libpqxx() -> Command:
    long_run()
    need("g++")
    root = deb("libpqxx-dev", "libpq-dev")
    source = SCRIPTS / "libpqxx.cpp"
    binary = root / f"libpqxx-{source.stat().st_mtime_ns}"
    options = [
        "-std=c++17",
        "-w",
        f"-I{root}/usr/include",
        f"-L{libraries(root)}",
        str(source),
        "-o",
        str(binary),
        "-lpqxx",
        "-lpq",
    ]
    done = subprocess.run(["g++", *options], capture_output=True, text=True, timeout=300)
    if done.returncode:
        absent(f"g++: {done.stderr[-500:]}")
    return [str(binary)], {"LD_LIBRARY_PATH": str(libraries(root))}


def libreoffice() -> Command:
    """An office that is installed: one that is only unpacked looks for its registry where its packages would have put it."""
    long_run()
    need("soffice")
    python = "/usr/bin/python3"
    if not works(python, "-c", "import uno"):
        absent("no python3-uno for this system's Python")
    return [python, str(SCRIPTS / "libreoffice_script.py")], {"PYTHONPATH": str(SCRIPTS)}


def pgadmin() -> Command:
    """In a browser without a window. `$DPPROXY_PICTURE`, where it is set, names the file of a screenshot."""
    long_run()
    need("chromium", "chromedriver")
    path = f"{pip('selenium==4.*')}:{SCRIPTS}"
    return [str(venv("pgadmin4==9.18")), str(SCRIPTS / "pgadmin_script.py")], {"PYTHONPATH": path}


def spark() -> Command:
    long_run()
    need("java")
    jar = jdbc_of_debian().resolve()
    return [str(venv("pyspark==4.0.*")), str(SCRIPTS / "spark_script.py")], {"JDBC_JAR": str(jar), "PGUSER": "ada"}


ORMS = ("pg@8.23.1", "pg-hstore", "sequelize@6.37.8", "typeorm@0.3", "reflect-metadata")
MALLOY = ("antlr4ts@0.5.0-alpha.4", "@malloydata/malloy@0.0.431", "@malloydata/db-postgres@0.0.431")
TOOLS = (
    Driver("Django", with_pip("django_script.py", "django==5.2.*", "psycopg[binary]==3.3.*")),
    Driver("Evidence", with_npm("evidence.js", "@evidence-dev/postgres@1.0.10")),
    Driver("Great Expectations", with_venv("expectations_script.py", "great-expectations[postgresql]==1.24.1")),
    Driver("Harlequin", with_venv("harlequin_script.py", "harlequin==2.17.0", "harlequin-postgres==1.5.2")),
    Driver("ibis", with_pip("ibis_script.py", "ibis-framework[postgres]==12.0.0")),
    Driver("LangChain SQLDatabase", with_pip("langchain_script.py", "langchain-community==0.4.2", "psycopg2-binary==2.9.13")),
    Driver("libpqxx", libpqxx),
    Driver("LibreOffice Base", libreoffice),
    Driver("Malloy", with_npm("malloy.js", *MALLOY)),
    Driver("MCP server for PostgreSQL", with_npm("mcp_server.js", "@modelcontextprotocol/server-postgres@0.6.2")),
    Driver("pgAdmin", pgadmin),
    Driver("pgcli", with_venv("pgcli_script.py", "pgcli==4.7.1")),
    Driver("Qt (PySide6)", with_pip("qt_script.py", "PySide6-Essentials==6.8.*")),
    Driver("R dbplyr", dbplyr),
    Driver("Sequelize", with_npm("sequelize.js", *ORMS)),
    Driver("Soda", with_venv("soda_script.py", "soda-core-postgres==3.5.6", "setuptools<80")),
    Driver("Spark, JDBC", spark),
    Driver("TypeORM", with_npm("typeorm.js", *ORMS)),
)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda t: t.name.replace(" ", "-"))
def test_tool(tool: Driver, town: Town, record_property: Callable[[str, object], None]) -> None:
    tried(tool, replace(town, user="bo"), record_property)


def test_every_script_is_run_by_something() -> None:
    texts = "".join((Path(__file__).parent / name).read_text() for name in ("test_drivers.py", "test_tools.py"))
    scripts = [
        path.name for path in SCRIPTS.iterdir() if path.suffix in (".py", ".js", ".R", ".cpp", ".rs", ".go", ".rb", ".php", ".pl")
    ]
    assert [name for name in scripts if name not in texts and name not in ("checks.py", "checks.js", "superset_config.py")] == []
