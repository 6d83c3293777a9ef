"""The environment says nothing to connections of dpproxy's own: with every variable of libpq set to nonsense, all is as without."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import asyncpg
import pytest

from dpproxy import postgres_connections
from dpproxy.facade.cluster import plain
from dpproxy.serve.launch import launched
from tests.worlds.one_table import written
from tests.worlds.wire_client import PASSWORD, Wire, rows

from .test_imports import trees

VARIABLES = (
    *("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGREQUIREAUTH", "PGCHANNELBINDING"),
    *(
        "PGSERVICE",
        "PGSERVICEFILE",
        "PGOPTIONS",
        "PGAPPNAME",
        "PGSSLMODE",
        "PGREQUIRESSL",
        "PGSSLNEGOTIATION",
        "PGSSLCOMPRESSION",
    ),
    *("PGSSLCERT", "PGSSLKEY", "PGSSLCERTMODE", "PGSSLROOTCERT", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLSNI", "PGREQUIREPEER"),
    *("PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION", "PGGSSENCMODE", "PGKRBSRVNAME", "PGGSSLIB", "PGGSSDELEGATION"),
    *("PGCONNECT_TIMEOUT", "PGCLIENTENCODING", "PGTARGETSESSIONATTRS", "PGLOADBALANCEHOSTS", "PGDATESTYLE", "PGTZ", "PGGEQO"),
    *("PGSYSCONFDIR", "PGLOCALEDIR", "PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION", "PGDATA", "SSLKEYLOGFILE"),
)
NONSENSE = dict.fromkeys(VARIABLES, "/nonsense")


def test_only_one_file_connects_by_asyncpg() -> None:
    connecting = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("asyncpg.connect", "asyncpg.create_pool")
    }
    assert connecting == {"dpproxy.postgres_connections"}
    assert not [module for module, tree in trees().items() if "psycopg" in ast.dump(tree)]


def test_asyncpg_reads_the_environment_only_where_it_is_hidden() -> None:
    """Whichever version is installed: a file that reads it elsewhere would escape."""
    folder = Path(asyncpg.__file__).parent
    reading = {
        str(path.relative_to(folder)) for path in folder.rglob("*.py") if {"os.environ", "os.getenv", "from os"} & _words(path)
    }
    assert reading == {"connect_utils.py", "cluster.py", "_testbase/__init__.py"}, "the latter two serve its own tests"


def _words(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return used | {"from os" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "os"}


async def test_a_server_is_reached_as_its_address_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = plain(tmp_path)
    for name, value in NONSENSE.items():
        monkeypatch.setenv(name, value)
    await cluster.start()
    try:
        async with cluster.connected() as connection:
            assert await connection.fetchval("SELECT 1") == 1
        address = f"postgresql://postgres@/postgres?host={os.path.dirname(cluster.socket)}"
        direct = await postgres_connections.connect(address)
        assert await direct.fetchval("SELECT current_setting('application_name')") == ""
        await direct.close()
        pool = await postgres_connections.create_pool(address, min_size=0, max_size=1)
        assert await pool.fetchval("SELECT current_database()") == "postgres"
        await pool.close()
    finally:
        await cluster.stop()


async def test_a_proxy_serves_whatever_the_environment_says(tmp_path: Path) -> None:
    folder = written(tmp_path)
    with launched([folder / "shop.yaml"], tmp_path / "state", env=NONSENSE) as proxy:
        wire = await Wire.open(proxy.port)
        await wire.login(password=PASSWORD)
        assert rows(await wire.query("SELECT 1")) == [("1",)]
        await wire.close()
