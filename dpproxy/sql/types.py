"""PostgreSQL's types as far as the planner reasons about them.

Knows: names, OIDs, families, which type an operator of two types yields. Must not know: engines, policies.
"""

from __future__ import annotations

import re
from fractions import Fraction

from sqlglot import exp

OIDS = {
    16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "int8", 18: "text", 19: "text",
    114: "json", 700: "float4", 701: "float8", 705: "unknown", 1042: "bpchar", 1043: "varchar", 1082: "date",
    1083: "time", 1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric", 2950: "uuid",
    3802: "jsonb", 1000: "bool[]", 1005: "int2[]", 1007: "int4[]", 1016: "int8[]", 1009: "text[]", 1015: "varchar[]",
    1021: "float4[]", 1022: "float8[]", 1231: "numeric[]", 1182: "date[]", 1115: "timestamp[]", 1185: "timestamptz[]",
    2951: "uuid[]",
}  # fmt: skip

SHOWN = frozenset(
    {
        *("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar"),
        *("date", "time", "timetz", "timestamp", "timestamptz", "interval"),
        *("uuid", "json", "jsonb", "bytea", "inet", "cidr", "macaddr", "bit", "varbit", "xml"),
    }
)
"""Types a column may have that analysts see, and arrays of them; any other is shown as text."""

INTEGERS = ("int2", "int4", "int8")
FLOATS = ("float4", "float8")
NUMBERS = (*INTEGERS, "numeric", *FLOATS)
TEXTS = ("text", "varchar", "bpchar", "name")
TIMES = ("date", "timestamp", "timestamptz")

# by sqlglot's names: its FLOAT is what `real` becomes, PostgreSQL's `float` becomes its DOUBLE
_NAMES = {
    "smallint": "int2", "int2": "int2", "int": "int4", "integer": "int4", "int4": "int4", "bigint": "int8", "int8": "int8",
    "decimal": "numeric", "numeric": "numeric", "real": "float4", "float4": "float4", "float": "float4",
    "double precision": "float8", "double": "float8", "float8": "float8", "text": "text", "varchar": "varchar",
    "character varying": "varchar", "char": "bpchar", "character": "bpchar", "bpchar": "bpchar", "date": "date",
    "time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz", "interval": "interval", "boolean": "bool",
    "bool": "bool", "uuid": "uuid", "bytea": "bytea", "json": "json", "jsonb": "jsonb", "string": "text",
    "timestamp without time zone": "timestamp", "timestamp with time zone": "timestamptz",
}  # fmt: skip


def type_name(node: exp.DataType) -> str | None:
    """Return PostgreSQL's short name of a type in a cast (arrays with `[]`), None for a type we do not know."""
    if node.is_type("array"):
        inner = node.expressions[0] if node.expressions else None
        element = type_name(inner) if isinstance(inner, exp.DataType) else None
        return f"{element}[]" if element else None
    text = node.this.value.lower() if hasattr(node.this, "value") else str(node.this).lower()
    return _NAMES.get(text)


def type_length(node: exp.DataType) -> tuple[int, ...]:
    """Return the modifiers of a type: (10, 2) of numeric(10,2), (255,) of varchar(255)."""
    found = []
    for parameter in node.expressions:
        value = parameter.this if isinstance(parameter, exp.DataTypeParam) else parameter
        if isinstance(value, exp.Literal) and not value.is_string:
            found.append(int(value.this))
    return tuple(found)


def castable(source: str, target: str) -> bool:
    """Tell whether PostgreSQL casts one type to another. Whole numbers of any size are cast to boolean here."""
    if source == target or source in (*TEXTS, "unknown") or target in TEXTS:
        return True
    if source in NUMBERS:
        return target in NUMBERS or (target == "bool" and source in INTEGERS)
    if source in TIMES:
        return target in TIMES or (target == "time" and source != "date")
    return source == "bool" and target in INTEGERS


def wire_type(type_: str) -> str:
    """Return the type in which values travel between the facade and the engine: instants do as the session's local timestamps,
    and the outer query casts them in its time zone."""
    return "timestamp" if type_ == "timestamptz" else type_


def shown_type(type_: str) -> str:
    """Return the type in which analysts see a column of a type."""
    return type_ if type_.removesuffix("[]") in SHOWN else "text"


def common(types: list[str]) -> str:
    """Return the type of CASE, COALESCE, GREATEST, UNION over these (PostgreSQL, "UNION, CASE and related constructs")."""
    known = [t for t in types if t != "unknown"]
    if not known:
        return "text"
    result = known[0]
    for t in known[1:]:
        result = _wider(result, t)
    return result


_RANK = {t: i for i, t in enumerate(("int2", "int4", "int8", "numeric", "float4", "float8"))}
_TIME_RANK = {"date": 0, "timestamp": 1, "timestamptz": 2}


def _wider(a: str, b: str) -> str:
    for rank in (_RANK, _TIME_RANK):
        if a in rank and b in rank:
            return a if rank[a] >= rank[b] else b
    if a in TEXTS and b in TEXTS:
        return a if a == b else "text"
    return a


def arithmetic(a: str, b: str) -> str:
    """Return the type of `a op b` for numbers: the wider one; float4 mixed with anything else is float8."""
    if a == b:
        return a
    wider = _wider(a, b)
    return "float8" if wider == "float4" else wider


# PostgreSQL's text form of arrays, taken apart.
#
# Knows: its quoting. Must not know: types, engines.


def array_items(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array literal. Raises ValueError for other arrays."""
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        raise ValueError("not a one-dimensional array")
    items: list[str | None] = []
    for match in _ITEM.finditer(body[1:-1]):
        quoted, plain = match.groups()
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted))
        elif plain:
            if "{" in plain:
                raise ValueError("not a one-dimensional array")
            items.append(None if plain.upper() == "NULL" else plain)
    return items


_ITEM = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)')


# Rationals as decimal text for formulas the facade computes.
#
# Knows: arithmetic. Must not know: anything else.


MAX_DIGITS = 40  # decimals of a grid: policies' resolutions and products of a few of them have far fewer


def decimal(value: Fraction) -> str:
    """Return a rational with a power-of-ten denominator as a decimal literal; others to the nearest double."""
    if value.denominator == 1:
        return str(value.numerator)
    digits = 0
    while (value * 10**digits).denominator != 1:
        digits += 1
        if digits > MAX_DIGITS:
            return repr(float(value))
    whole = abs(value * 10**digits).numerator
    text = str(whole).rjust(digits + 1, "0")
    return f"{'-' if value < 0 else ''}{text[:-digits]}.{text[-digits:]}"
