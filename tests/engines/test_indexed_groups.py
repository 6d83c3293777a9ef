"""Groups are indexed where a cell is small and most rows are read, and what is grouped after them is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest
from small_expressions import column, ref

from dpproxy.engines import engine
from dpproxy.engines.key_stages import MOST_BYTES, cell
from dpproxy.engines.measured import Source
from dpproxy.sql.template import INDEXED
from dpproxy.tree.expr import Call, Lit, Relation, ValuesDomain
from dpproxy.tree.measured import (
    Added,
    Contributions,
    Counted,
    Declared,
    DeclaredPart,
    Filled,
    Held,
    Listed,
    MeasuredRows,
    Order,
    PartSum,
    Picked,
    RowValue,
    Scaled,
    Sums,
    UnitGroups,
)
from dpproxy.tree.relation import Distinct, Filter, Join, Project, Scan, Union

UNIT, WORD, AMOUNT, OTHER = column(0, nullable=False), column(1, "text"), column(2), column(3)
SCAN = Scan((UNIT, WORD, AMOUNT), 0, ("main", "t"), ("u", "g", "a"))
VALUE = RowValue(ref(AMOUNT), None, Held(0, 10, Fraction(1)))
ROWS = MeasuredRows(SCAN, UNIT, (ref(WORD),), (VALUE, VALUE, VALUE))
COUNT, SUM, CENTRED, WIDE = Counted(0), Added(1, 0, 10, 0), Added(2, -5, 5, 5), Added(2, 0, 2**32, 0)
STEPS = Scaled(0, "count", 2, 10, 1, 2**20, 0, steps=12)
TWENTY = {0: Listed(tuple(f"c{i}" for i in range(20)))}
KNOWN = Call("bool", "is_not_null", (ref(UNIT),))


def stage(*totals: Counted | Added, parts: Sequence[Scaled] = (STEPS,), rows: MeasuredRows = ROWS) -> Contributions:
    return Contributions(UnitGroups(rows, totals), tuple(parts))


@pytest.mark.parametrize(
    ("totals", "size"),
    [([COUNT], 8), ([SUM], 16), ([SUM, COUNT], 24), ([CENTRED], 16), ([SUM, CENTRED], None), ([WIDE], None), ([COUNT] * 3, 24)],
)
def test_a_count_and_a_sum_are_few_enough(totals: list[Counted | Added], size: int | None) -> None:
    assert cell(stage(*totals), TWENTY) == size
    assert size is None or size <= MOST_BYTES


def test_few_rows_are_hashed() -> None:
    """Conditions leave a part of the rows, of which nobody knows how small it is."""

    def indexed(relation: Relation) -> bool:
        return cell(stage(COUNT, rows=replace(ROWS, child=relation)), TWENTY) is not None

    known = Filter(SCAN.columns, SCAN, KNOWN)
    few = Filter(SCAN.columns, known, Call("bool", ">", (ref(AMOUNT), Lit("int4", "3"))))
    others = Scan((OTHER,), 1, ("main", "v"), ("u",))
    some = Distinct((OTHER,), Filter((OTHER,), others, Call("bool", "=", (ref(OTHER), Lit("int4", "3")))))
    same = Call("bool", "=", (ref(UNIT), ref(OTHER)))
    columns = (*SCAN.columns, OTHER)
    assert indexed(known)
    assert not indexed(few)
    assert indexed(Join(columns, "inner", known, others, same))
    assert not indexed(Join(columns, "inner", known, some, same))
    assert not indexed(Join(columns, "inner", some, known, same))
    with_test = Call("bool", "and", (same, Call("bool", "<", (ref(OTHER), Lit("int4", "3")))))
    assert not indexed(Join(columns, "inner", known, others, with_test))
    assert indexed(Union(SCAN.columns, (SCAN, known)))
    assert not indexed(Union(SCAN.columns, (SCAN, few)))
    assert not indexed(Project(SCAN.columns, few, tuple(map(ref, SCAN.columns))))


def test_one_key_alone_is_indexed_beside_the_unit() -> None:
    two = replace(ROWS, keys=(ref(WORD), ref(AMOUNT)))
    assert cell(stage(COUNT, rows=two), TWENTY) is None
    assert cell(stage(COUNT, rows=two), {**TWENTY, 1: Listed(("x",))}) is None
    assert cell(Contributions(Picked(UnitGroups(ROWS, (COUNT,)), 1, Order(3, (0,))), (STEPS,)), TWENTY) is None


@pytest.mark.parametrize(
    ("values", "steps", "indexed"),
    [(20, (12,), True), (100, (12,), True), (1000, (12,), False), (20, (12, 12), True), (20, (9, 9), False), (20, (3, 3), True)],
)
def test_groups_of_keys_and_steps_are_indexed_only_where_they_always_were(
    values: int, steps: tuple[int, ...], *, indexed: bool
) -> None:
    """A table of all steps that there could be, for each value, would be most of it empty."""
    parts = [replace(STEPS, index=i, counter=i, steps=n) for i, n in enumerate(steps)]
    found = cell(stage(COUNT, parts=parts), {0: Listed(tuple(f"c{i}" for i in range(values)))})
    assert (found is not None) is indexed


def text_of(rows: MeasuredRows, words: str = "duckdb") -> str:
    domain = Declared((DeclaredPart(((0, ref(WORD)),), ((WORD, ValuesDomain(("b", "a"))),), (), ()),), 1)
    tree = Filled(Sums(stage(COUNT, rows=rows), (PartSum(0, 12),)), domain)
    return Source.of(rows.child, engine(words)).query(tree).text


def test_the_mark_changes_nothing_but_the_index() -> None:
    text, mark = text_of(ROWS), INDEXED.format(8)
    assert text.count(mark) == 1
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 7 AS u, ['a', 'b', 'c'][1 + i % 3] AS g, i AS a FROM range(100) AS s(i)")
        plain = connection.execute(text.replace(mark, "")).fetchall()
        assert connection.execute(text).fetchall() == plain
    assert mark not in text_of(ROWS, "postgres")


def test_rows_with_a_condition_have_no_mark() -> None:
    some = Filter(SCAN.columns, SCAN, Call("bool", ">", (ref(AMOUNT), Lit("int4", "3"))))
    assert "indexed" not in text_of(replace(ROWS, child=some))
