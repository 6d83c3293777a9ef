"""Keys by number, run on a few rows: only listed ones have one, and each is told from its number again."""

from __future__ import annotations

from datetime import date
from typing import Any

import duckdb
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine
from dpproxy.engines.key_stages import KeyCodes
from dpproxy.engines.relations import Renderer
from dpproxy.engines.row_texts import RowTexts
from dpproxy.engines.unit_stages import GroupNames
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import (
    Calendar,
    Coding,
    Contributions,
    Listed,
    MeasuredRows,
    StoredGroups,
    StoredSums,
    Sums,
    UnitGroups,
    Written,
)
from dpproxy.tree.relation import Scan

UNIT, WORD, WHEN = column(0, nullable=False), column(1, "text"), column(2, "timestamp")
SCAN = Scan((UNIT, WORD, WHEN), 0, ("main", "t"), ("u", "w", "seen"))
ROWS = [(1, "a", "2024-01-31"), (1, "b", "2024-03-01"), (2, "stray", "2023-12-31 23:59:59"), (2, None, None)]
MONTH = call("trunc_time", lit("month", "text"), ref(WHEN), type_="timestamp")
WORDS, MONTHS = Listed(("a", "b")), Calendar("month", date(2024, 1, 1), 3)


def codes(*keys: Expr, name: str = "duckdb") -> KeyCodes:
    renderer = Renderer(engine(name))
    return KeyCodes(RowTexts(renderer, renderer.block(SCAN), MeasuredRows(SCAN, UNIT, keys, ())))


def groups(keys: KeyCodes) -> UnitGroups:
    return UnitGroups(keys.texts.rows, ())


def run(text: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t(u INT, w VARCHAR, seen TIMESTAMP)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    return connection.execute(text).fetchall()


def read(keys: KeyCodes) -> str:
    """The keys of rows that have one, as a relation."""
    return f"(SELECT * FROM ({keys.texts.keyed()}){keys.declared()})"


@pytest.mark.parametrize(
    ("key", "values", "kept"), [(ref(WORD), WORDS, ["a", "b"]), (MONTH, MONTHS, ["2024-01-01", "2024-03-01"])]
)
def test_rows_of_other_values_have_no_number_and_are_left_out(key: Expr, values: Coding, kept: list[str]) -> None:
    keys = codes(key)
    keys.count(groups(keys), {0: values})
    assert keys.values == {0: values}
    assert len(run(f"SELECT * FROM {read(keys)}")) == 2
    whole = f"(SELECT {keys.texts.key(0)} AS k0 FROM {keys.texts.block.source})"
    same = keys.same("d", "a", GroupNames.of(engine("duckdb"), [key]))
    found = run(f"SELECT CAST(d.k0 AS VARCHAR) FROM {whole} AS d JOIN {read(keys)} AS a ON {same} ORDER BY 1")
    assert [text.removesuffix(" 00:00:00") for (text,) in found] == kept


def test_other_keys_are_compared_as_they_are() -> None:
    keys = codes(ref(WORD), MONTH)
    keys.count(groups(keys), {1: MONTHS})
    same = keys.same("d", "a", GroupNames.of(engine("duckdb"), keys.texts.rows.keys))
    whole = f"(SELECT {keys.texts.key(0)} AS k0, {keys.texts.key(1)} AS k1 FROM {keys.texts.block.source})"
    assert run(f"SELECT d.k0 FROM {whole} AS d JOIN {read(keys)} AS a ON {same} ORDER BY 1") == [("a",), ("b",)]
    assert list(keys.texts.codes) == [1]


def test_nothing_is_counted_by_number_where_the_engine_has_none() -> None:
    keys = codes(ref(WORD), name="postgres")
    keys.count(groups(keys), {0: WORDS})
    assert (keys.values, keys.texts.codes, keys.declared()) == ({}, {}, "")


def test_stored_groups_are_counted_by_their_own_column_and_stored_sums_are_counted_already() -> None:
    keys = codes(ref(WORD))
    keys.count(StoredGroups("x", groups(keys), (4,), (), False), {0: WORDS})
    assert '"w"' not in keys.texts.codes[0]
    assert "k4" in keys.texts.codes[0]
    keys = codes(ref(WORD))
    keys.count(StoredSums("x", Written(Sums(Contributions(groups(keys), ()), ()), ((0, WORDS),)), (0,), ()), {0: WORDS})
    assert (keys.values, keys.texts.codes) == ({0: WORDS}, {})
