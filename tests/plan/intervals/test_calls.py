"""Which nodes ask for an interval of an aggregate, and where that means nothing."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.plan.intervals.calls import NAMES, interval_call, misplaced_call, refuse_misplaced
from dpproxy.sql.statements import parse


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((f"dpproxy.{name}(count(*))", name) for name in NAMES),
        ("DPPROXY.Low(sum(x))", "low"),
        ("low(x)", None),
        ("other.low(x)", None),
        ("dpproxy.upper(x)", None),
        ("dpproxy.low", None),
        ('"DPPROXY".low(x)', None),
        ("count(*)", None),
    ],
)
def test_calls(text: str, name: str | None) -> None:
    assert interval_call(parse(f"SELECT {text} FROM t").expressions[0]) == name


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("SELECT a, dpproxy.low(a) FROM t", 10),
        ("SELECT a FROM t WHERE dpproxy.high(a) > 1", 22),
        ("SELECT a FROM t ORDER BY 1 + dpproxy.stderr(a)", 29),
        ("SELECT a FROM (SELECT dpproxy.low(count(*)) AS a FROM t) u", None),
        ("SELECT (SELECT dpproxy.low(count(*)) FROM u) FROM t", None),
        ("SELECT a FROM t WHERE a IN (SELECT dpproxy.low(b) FROM u UNION SELECT 1)", None),
        ("SELECT low(a) FROM t", None),
    ],
)
def test_a_select_of_released_rows_has_none_of_its_own(sql: str, at: int | None) -> None:
    """Those of subqueries are theirs."""
    if at is None:
        refuse_misplaced(parse(sql))
        return
    with pytest.raises(Refusal) as caught:
        refuse_misplaced(parse(sql))
    assert caught.value.sqlstate == "0A000"
    assert (caught.value.position or 0) - 1 in range(at, at + 9)
    assert "must stand around an aggregate" in caught.value.message


def test_the_refusal_says_what_to_write() -> None:
    found = misplaced_call(parse("SELECT dpproxy.high(a) FROM t").expressions[0])
    assert found.message.startswith("dpproxy.high()")
    assert "dpproxy.high(count(*))" in (found.hint or "")
