"""Declared groups: how many combinations are tried of the keys that differ among a unit's rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.kernel.domains import combinations
from dpproxy.kernel.leaves import Unproven
from dpproxy.kernel.owners import Owners
from dpproxy.tree.expr import Exists, SeriesDomain, TableDomain, ValuesDomain
from dpproxy.tree.measured import Declared, DeclaredPart, Strays
from tests.kernel.small_tables import LEAVES, ORDERS, REGION, REGIONS

WORD, DAY, STRAY = column(40, "text"), column(41, "date"), column(42, "bool")
VALUES, DAYS = (WORD, ValuesDomain(("a", "b", None))), (DAY, SeriesDomain(0, 9, "day", nulls=True))
WORDS = DeclaredPart(((0, ref(WORD)),), (VALUES,), (), ())
MONTHS = DeclaredPart(((1, call("month", ref(DAY), type_="int4")),), (DAYS,), (), ())
PUBLIC = DeclaredPart(((2, ref(REGION)),), (), (REGIONS,), ())


def size(parts: tuple[DeclaredPart, ...], *varying: int) -> int | None:
    return combinations(Declared(parts, len(parts)), Owners(LEAVES), frozenset(varying))


def test_as_many_as_are_tried() -> None:
    assert size((WORDS, MONTHS), 0, 1) == 3 * 11
    assert size((WORDS, MONTHS), 1) == 11, "a key of one value in a unit's rows is one"
    assert size((WORDS, MONTHS, PUBLIC), 0, 1) == 33
    assert size((WORDS, MONTHS, PUBLIC), 2) is None, "how many rows a public table has the plan does not know"
    strays = Strays(WORD, STRAY, (), (("x",), (None,)))
    assert size((DeclaredPart(WORDS.keys, WORDS.columns, (), (), (strays,)),), 0) == 5


@pytest.mark.parametrize(("type_", "exact"), [("int4", "numeric"), ("numeric", "DECIMAL(18,3)"), ("timestamp", "TIMESTAMP_S")])
def test_declared_values_are_compared_as_their_column(type_: str, exact: str) -> None:
    """As a catalog says of it: PostgreSQL's whole numbers are compared with each other as they are."""
    number = replace(column(43, type_), exact=exact)
    part = DeclaredPart(((0, ref(number)),), ((number, ValuesDomain(("1", "2"))),), (), ())
    assert size((part,), 0) == 2


@pytest.mark.parametrize(
    "part",
    [
        DeclaredPart(((0, ref(WORD)),), (VALUES,), (ORDERS,), ()),
        DeclaredPart(((0, ref(WORD)),), (VALUES,), (), (Exists("bool", ORDERS),)),
        DeclaredPart(((0, call("random", lit("1"))),), (VALUES,), (), ()),
        DeclaredPart(((0, ref(WORD)),), ((WORD, TableDomain(3)),), (), ()),
    ],
)
def test_nothing_private_declares_a_group(part: DeclaredPart) -> None:
    with pytest.raises(Unproven):
        size((part,), 0)
