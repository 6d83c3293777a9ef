"""Spark's operators and functions: what they are worth on Sail, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from operation_cases import UNHEARD, VALUES
from small_expressions import call, column, lit, ref

from dpproxy.engines.spark import Spark
from dpproxy.errors import Refusal
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import Refused
from dpproxy.tree.expr import Call, Lit

REFUSED = {name: row.spark.why for name, row in CATALOGUE.items() if isinstance(row.spark, Refused)}
BIG = ref(column(1, "int8"))


def test_values_are_those_of_the_other_engines(ask_spark: Any) -> None:
    """In one statement: on Sail each costs a plan."""
    spelled, wanted = [], []
    for expr, value in VALUES:
        if isinstance(expr, Call) and expr.op in REFUSED:
            continue
        if isinstance(expr, Call) and expr.op in ("like", "ilike") and not isinstance(expr.args[1], Lit):
            with pytest.raises(Refusal, match="a pattern of the row"):
                Spark().expr(expr, {})
            continue
        spelled.append(Spark().expr(expr, {}))
        wanted.append(value)
    fields = ", ".join(f"'c{i}', {text}" for i, text in enumerate(spelled))
    found = ask_spark(f"named_struct({fields})")
    assert [v if v is None or isinstance(v, bool | str) else float(v) for v in found.values()] == wanted


def test_what_is_not_proven_equal_is_refused_with_its_reason() -> None:
    for op, why in REFUSED.items():
        arguments = [lit("1", "float8")] * 2 if why.startswith("its last digit") else [lit("a", "text")] * 3
        with pytest.raises(Refusal, match="not supported on Spark") as caught:
            Spark().expr(call(op, *arguments, type_="float8"), {})
        assert why in caught.value.message
    with pytest.raises(Refusal, match="`unheard_of`"):
        Spark().expr(UNHEARD, {})
    assert sum(why != "" for why in REFUSED.values()) > 20


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, 0, -7])
@pytest.mark.parametrize("by", [-1, 0, 3])
def test_whole_numbers_do_not_wrap_around(value: int, by: int, ask_spark: Any) -> None:
    """Sail wraps around without a word where Spark raises."""
    names = {1: f"CAST('{value}' AS BIGINT)"}
    divided = call("int/", BIG, lit(str(by), "int8"), type_="int8")
    times = call("*", BIG, lit("1000", "int8"), type_="int8")
    text = ", ".join(f"'{i}', {Spark().expr(e, names)}" for i, e in enumerate((divided, times, call("neg", BIG, type_="int8"))))
    quotient = None if by == 0 else abs(value) // abs(by) * (1 if (value < 0) == (by < 0) else -1)
    assert ask_spark(f"named_struct({text})") == {"0": quotient, "1": value * 1000, "2": -value}
