"""The state folder of an earlier version opens: what was spent is spent, what was granted is granted.

Stored answers are a cache: a version whose plans or format are others measures anew, and charges for it, as `docs/how-to/upgrade.md`
says.

`tests/serve/earlier_state` was made by the code of commit d6f26b3 (the last one before entries of schema 3), by a proxy over a
thousand people: ada asked for a count by region and a sum, eve for both by region and for ada's count, then the operator granted
the analysts 0.25. It is the folder as that proxy left it, without what is made anew at each start. Never make it anew to mend a test:
people have such folders. When the format of the state changes again, a folder of the version before that is added.
"""

from __future__ import annotations

import shutil
import stat
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.ledger.entries import SCHEMA
from dpproxy.records.place import SqliteReader
from dpproxy.records.record import show, verify
from dpproxy.serve.launch import launched

EARLIER = Path(__file__).with_name("earlier_state")
KEPT = ("ledger.sqlite", "ledger.sqlite.anchor", "answers.sqlite", "unknown-users.key")
COUNT = "SELECT region, count(*) FROM people GROUP BY 1 ORDER BY 1"
SPENT = [
    ["role", "analyst", "never", "1", "2.25", "1.25"],
    ["role", "curious", "never", "1", "3", "2"],
    ["user", "ada", "never", "1", "1.5", "0.5"],
    ["dataset", "town", "never", "1.5", "10", "8.5"],
]
"""As `dpproxy budget` of that version said."""


@pytest.fixture
def town(tmp_path: Path) -> Path:
    """The policy, beside its data and a copy of the state."""
    (tmp_path / "state").mkdir(mode=0o700)
    for name in KEPT:
        shutil.copy(EARLIER / name, tmp_path / "state" / name)
        (tmp_path / "state" / name).chmod(stat.S_IRUSR | stat.S_IWUSR)
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        people = "i::INTEGER AS id, CASE WHEN i % 3 = 0 THEN 'west' ELSE 'east' END AS region, (i % 100)::INTEGER AS income"
        connection.execute(f"CREATE TABLE people AS SELECT {people} FROM range(1000) AS t(i)")
    return shutil.copy(EARLIER / "town.yaml", tmp_path / "town.yaml")


def budget(policy: Path) -> list[list[str]]:
    done = CliRunner().invoke(commands, ["budget", str(policy), "--state", str(policy.parent / "state")])
    assert done.exit_code == 0, done.output
    return [line.split("\t")[1:7] for line in done.stdout.splitlines()[1:]]


def test_an_earlier_versions_state_is_carried_on(town: Path) -> None:
    reader = SqliteReader(town.parent / "state" / "ledger.sqlite")
    before = [entry for _, entry in show(reader)]
    assert budget(town) == SPENT, "also before it is opened to write"
    with launched([town], town.parent / "state") as proxy:

        def ask(user: str) -> list[tuple[object, ...]]:
            where = f"host={proxy.host} port={proxy.port} user={user} password=x dbname=town"
            with psycopg.connect(where, autocommit=True) as connection:
                return connection.execute(COUNT).fetchall()

        assert [region for region, _ in ask("ada")] == ["east", "west"]
        assert ask("ada") == ask("eve")
        now = budget(town)
    assert [account[:3] for account in now] == [account[:3] for account in SPENT]
    for (*_, was, limit, left), (*_, spent, same, less) in zip(SPENT, now, strict=True):
        assert (Decimal(spent) >= Decimal(was), same, Decimal(less) <= Decimal(left)) == (True, limit, True)
    assert SCHEMA > 2
    assert [entry for _, entry in show(reader)][: len(before)] == before
    assert verify(reader, key=None).entries > len(before)
