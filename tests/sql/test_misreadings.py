"""What sqlglot binds otherwise than PostgreSQL is refused; what it binds alike is not."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.statements import parse

MISREAD = """
~ a + b
2 * ~ a + b
- ~ a + b
~ a AT TIME ZONE 'UTC'
a ~ b || c
a || b LIKE c -> d @> e
a LIKE b @> c
a @> b & c
a <-> b - c <-> d LIKE e ~ f
x BETWEEN 1 AND 2 ~* y
x NOT BETWEEN 1 AND 2 ^@ y
x LIKE ANY ('{a,b}') ^ 2
x = ANY ('{1}') || 'a'
x <> ALL ('{1}')::text
x::int[1]
x::"int"
x::"char" ARRAY
x::int8 (y)
x::bool .y
"array"[1]
ARRAY(SELECT 1)::int[1]
interval(0) '1 s'
interval - x
interval * 2
x IS NORMALIZED
x IS DOCUMENT
x COLLATE "C"::date
x -> 1.5
x ->> ''
x -> 1e3
'a' #> y
!! x
-~ x
+~- x
x ?? y
x <=> y
x == y
x !=-1
x ~~ 'a'
x *-~ y
x BETWEEN 8 ~ y AND 9
x AT TIME ZONE 'UTC' ^ 2
extract('a b' FROM x)
"""

ALIKE = """
- a ^ 2
- 2 ^ 2
2 ^ 3 ^ 4
-1::int2
a % 2 = 0
NOT a = b
NOT NOT a
NOT a IS NULL
NOT a IN (1)
a IS NULL = b
a = b IS NULL
a = b IS NOT TRUE
a = (b IS NULL)
a IN (1)
a + b IN (1, 2)
a = b IN (1)
a LIKE b || '%' ESCAPE '!'
a NOT ILIKE '%x'
a BETWEEN SYMMETRIC 2 AND 1
a BETWEEN 1 AND 2 AND b
a NOT BETWEEN b - 1 AND b + 1 OR c
a IS DISTINCT FROM b + 1
a || b = c || d
a & b
a & ~ b
a & b | c @> d
x COLLATE "C" || y
a & (b | c)
5 & 3 + 1
a << 1
a !~ 'x'
a=-1
a>=-1
2*-1
a - -1
a -> 'b' ->> 'c'
a AT TIME ZONE 'UTC' > b
(a + b)::int
a::int::text
x = ANY (ARRAY[1])
x <> ALL (ARRAY[1, 2])
x < ALL (SELECT 1)
interval '1 day' * 2
INTERVAL '3' DAY
a OR b AND NOT c
CASE WHEN a = 1 THEN - b ELSE b END + 1
"array"
f(a => 1)
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("expression", lines(MISREAD))
def test_misread_expressions_are_refused(expression: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(f"SELECT {expression}, count(*) FROM t")
    assert caught.value.sqlstate in ("0A000", "42601")
    assert caught.value.hint


@pytest.mark.parametrize("expression", lines(ALIKE))
def test_others_are_not(expression: str) -> None:
    parse(f"SELECT {expression}, count(*) FROM t")


JOINS = ["a JOIN b CROSS JOIN c ON d", "a JOIN b NATURAL JOIN c ON d", "a LEFT JOIN b CROSS JOIN c ON d", "values v"]


@pytest.mark.parametrize("source", JOINS)
def test_misread_sources_are_refused(source: str) -> None:
    with pytest.raises(Refusal):
        parse(f"SELECT count(*) FROM {source}")
