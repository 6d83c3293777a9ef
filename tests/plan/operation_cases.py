"""Operations of constants and what they are worth on every engine, chosen where engines raise or differ.

NULL is what a value becomes for which PostgreSQL raises; whoever spells an operation anew finds here what it must keep.
"""

from __future__ import annotations

from small_expressions import call, lit

from dpproxy.tree.expr import Expr

NONE, YES = lit(None, "int4"), lit("true", "bool")


def _floats(*texts: str) -> tuple[Expr, ...]:
    return tuple(lit(text, "float8") for text in texts)


VALUES: list[tuple[Expr, object]] = [
    (call("int/", lit("7"), lit("0"), type_="int4"), None),
    (call("%", lit("-7"), lit("3"), type_="int4"), -1),
    (call("/", *_floats("1", "0"), type_="float8"), None),
    (call("nullif", lit("1"), lit("1"), type_="int4"), None),
    (call("coalesce", NONE, lit("2"), type_="int4"), 2),
    (call("greatest", NONE, lit("2"), lit("5"), type_="int4"), 5),
    (call("is_distinct", NONE, lit("1")), True),
    (call("is_not_distinct", NONE, NONE), True),
    (call("and", YES, call("not", YES)), False),
    (call("round", *_floats("2.5"), type_="float8"), 2),
    (call("round", lit("2.5", "numeric"), type_="numeric"), 3),
    (call("trunc", lit("0.29", "numeric"), lit("2"), type_="numeric"), 0.29),
    (call("sign", *_floats("-3.5"), type_="int4"), -1),
    (call("sqrt", *_floats("-1"), type_="float8"), None),
    (call("sqrt", *_floats("16"), type_="float8"), 4),
    (call("ln", *_floats("0"), type_="float8"), None),
    (call("log", *_floats("100"), type_="float8"), 2),
    (call("exp", *_floats("0"), type_="float8"), 1),
    (call("power", *_floats("2", "10"), type_="float8"), 1024),
    (call("year", lit("2024-02-29", "date"), type_="int4"), 2024),
    (call("date_diff", lit("2024-03-01", "date"), lit("2024-02-28", "date"), type_="int4"), 2),
    (call("like", lit("abc", "text"), lit("a_c", "text")), True),
    (call("ilike", lit("ABC", "text"), lit("b", "text")), False),
    (call("like", lit("a%", "text"), lit("a\\%", "text")), True),
    (call("like", lit("a%", "text"), call("concat", lit("a\\", "text"), lit("%", "text"), type_="text")), True),
    (call("like", lit("a", "text"), call("concat", lit("%", "text"), lit("\\", "text"), type_="text")), None),
    (call("ilike", lit("A\\", "text"), call("concat", lit("a\\", "text"), lit("\\", "text"), type_="text")), True),
    (call("lower", lit("ÀÉ", "text"), type_="text"), "àé"),
    (call("concat", lit("a", "text"), lit("b", "text"), type_="text"), "ab"),
]
UNHEARD = call("unheard_of", lit("1"))
