"""Names of groups: equal ones are found, NULLs too, and an order is the same in whatever rows it is asked for."""

from __future__ import annotations

import duckdb
from small_expressions import column, ref

from dpproxy.engines import engine
from dpproxy.engines.unit_stages import GroupNames
from dpproxy.tree.measured import Order

NAMES = GroupNames.of(engine("duckdb"), [ref(column(1, "text")), ref(column(2, "interval"))])


def test_names_and_types_of_keys() -> None:
    assert NAMES.keys == ("k0", "k1")
    assert NAMES.group == ["u", "k0", "k1"]
    assert NAMES.types == ("text", "text"), "intervals are grouped by their texts"


def test_groups_are_the_same_where_both_keys_are_null() -> None:
    one, connection = GroupNames.of(engine("duckdb"), [ref(column(1, "text"))]), duckdb.connect()
    rows = "(VALUES (1, 'a'), (1, NULL), (2, NULL))"
    same = one.same("x", "y", one.group)
    text = f"SELECT x.u, x.k0 FROM {rows} AS x(u, k0) JOIN {rows} AS y(u, k0) ON {same} ORDER BY ALL"
    assert connection.execute(text).fetchall() == [(1, "a"), (1, None), (2, None)]


def test_a_number_is_of_the_group_and_a_turn_of_the_unit_in_it() -> None:
    one, order, connection = GroupNames.of(engine("duckdb"), [ref(column(1, "text"))]), Order(7, (0,)), duckdb.connect()
    rows = "(VALUES (1, 'a'), (2, 'a'), (1, 'b'), (2, 'b')) AS x(u, k0)"
    numbers = set(connection.execute(f"SELECT k0, {one.number(order)} FROM {rows}").fetchall())
    assert len(numbers) == len({number for _, number in numbers}) == 2
    hashes = set(connection.execute(f"SELECT {one.hash(order, ['u', 'k0'])} FROM {rows}").fetchall())
    assert len(hashes) == 4
    assert one.turn(order) == f"{one.hash(order, ['u', 'k0'])}, k0", "equal hashes are told apart by the key itself"
    assert one.number(order) != one.number(Order(8, (0,)))


def test_a_group_of_one_text_is_numbered_by_that_text() -> None:
    text, whole = (GroupNames.of(engine("postgres"), [ref(column(1, type_))]) for type_ in ("text", "int8"))
    assert text.number(Order(7, (0,))) == "coalesce(hashtextextended(k0, 7), 7)", "of NULL too"
    assert whole.number(Order(7, (0,))) == "hash_record_extended(ROW(k0), 7)"
