"""Padded rows of an outer join: what is NULL of them, and what is not, though an operand is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import Nulls
from dpproxy.plan.properties.null_padding import ignores_padding
from dpproxy.tree.expr import Agg, Expr

KEPT, PADDED = ref(column(1, "text")), ref(column(2, "text"))
NOTHING: list[Expr] = [
    PADDED, call("upper", PADDED, type_="text"), call("concat", KEPT, PADDED, type_="text"), call("nullif", PADDED, KEPT, type_="text"),
    call("coalesce", PADDED, PADDED, type_="text"),
]  # fmt: skip
SOMETHING: list[Expr] = [
    KEPT, call("coalesce", PADDED, KEPT, type_="text"), call("nullif", KEPT, PADDED, type_="text"),
    call("concat_ws", lit("-", "text"), PADDED, KEPT, type_="text"), call("concat_ws", lit("-", "text"), PADDED, type_="text"),
    call("is_null", PADDED), call("greatest", KEPT, PADDED, type_="text"),
]  # fmt: skip


def is_ignored(value: Expr) -> bool:
    return ignores_padding(Agg("int8", "count", (value,)), frozenset({1}))


@pytest.mark.parametrize("value", NOTHING, ids=str)
def test_padded_rows_add_nothing(value: Expr) -> None:
    assert is_ignored(value)


@pytest.mark.parametrize("value", SOMETHING, ids=str)
def test_padded_rows_count(value: Expr) -> None:
    """`nullif(a, NULL)` is a, and texts that are put together with a mark are there without those that are NULL."""
    assert not is_ignored(value)


def test_a_row_that_says_otherwise_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "nullif", replace(CATALOGUE["nullif"], nulls=Nulls.OTHERS))
    assert is_ignored(call("nullif", KEPT, PADDED, type_="text"))
