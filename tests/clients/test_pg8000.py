"""pg8000: pure Python, text format, its own state machine; DB-API and native."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pg8000.dbapi
import pg8000.native
import pytest

from .conftest import REGIONS, Town

BY_REGION = "SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region"


@pytest.fixture
def native(town: Town) -> Iterator[Any]:
    with pg8000.native.Connection(
        town.user, host=town.host, port=town.port, password=town.password, database=town.database
    ) as connection:
        yield connection


def test_rows_and_columns(native: Any) -> None:
    assert [tuple(r) for r in native.run(BY_REGION)] == REGIONS
    assert [(c["name"], c["type_oid"]) for c in native.columns] == [("region", 25), ("n", 20)]


@pytest.mark.parametrize(
    ("where", "value", "expected"),
    [
        ("income < :v", Decimal(2500), 500),
        ("income < :v", 2500, 500),
        ("height >= :v", 175.0, 500),
        ("region = :v", "east", 250),
        ("region = ANY(:v)", ["east", "west"], 500),
        ("member = :v", True, 500),
        ("born < :v", dt.date(1950, 1, 21), 1),
        ("joined < :v", dt.datetime(2020, 1, 2), 3),
        ("region = :v", None, 0),
    ],
)
def test_parameters(native: Any, where: str, value: object, expected: int) -> None:
    ((count,),) = native.run(f"SELECT count(*) FROM people WHERE {where}", v=value)
    assert abs(count - expected) <= 1


def test_prepared(native: Any) -> None:
    statement = native.prepare("SELECT count(*) FROM people WHERE region = :region")
    assert [statement.run(region=r) for r in ("east", "west")] == [[[250]], [[250]]]
    statement.close()


def test_copy(native: Any) -> None:
    out = io.BytesIO()
    native.run(f"COPY ({BY_REGION}) TO STDOUT (FORMAT csv)", stream=out)
    assert out.getvalue().decode().splitlines() == [f"{region},{n}" for region, n in REGIONS]


def test_catalog(native: Any) -> None:
    sql = "SELECT column_name FROM information_schema.columns WHERE table_name = :t ORDER BY ordinal_position"
    assert [name for (name,) in native.run(sql, t="shops")] == ["id", "name", "opened"]
    assert ["email"] not in native.run(sql, t="people")


def test_errors(native: Any) -> None:
    with pytest.raises(pg8000.native.DatabaseError) as caught:
        native.run("SELECT * FROM people")
    assert caught.value.args[0]["C"]
    assert [tuple(r) for r in native.run(BY_REGION)] == REGIONS


def test_dbapi_transactions(town: Town) -> None:
    connection = pg8000.dbapi.connect(town.user, host=town.host, port=town.port, password=town.password, database=town.database)
    cursor = connection.cursor()
    cursor.execute("SELECT region, count(*) AS n FROM people WHERE income < %s GROUP BY region ORDER BY region", (5000,))
    assert [tuple(r) for r in cursor.fetchmany(2)] == REGIONS[:2]
    assert [tuple(r) for r in cursor.fetchall()] == REGIONS[2:]
    with pytest.raises(pg8000.dbapi.DatabaseError):
        cursor.execute("SELECT nope FROM people")
    connection.rollback()
    cursor.execute(BY_REGION)
    assert [tuple(r) for r in cursor.fetchall()] == REGIONS
    connection.commit()
    connection.close()
