"""The outer query as text: arrays as literals where no parameters are allowed, and columns as the original has them.

Knows: PostgreSQL's lexical structure, RowDescription. Must not know: plans' meaning, connections. Pure.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dpproxy.wire.backend import Field

_TOKENS = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'          # escape string
    | '(?:[^']|'')*'                    # string
    | "(?:[^"]|"")*"                    # name
    | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$   # dollar-quoted string
    | --[^\n]*                          # comments
    | /\*.*?\*/
    | (?<![\w$])\$(?P<number>\d+)       # parameter
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Outer:
    """An outer query as it was parsed on the facade: `text`, made of a plan's `planned` for an original with `fields`."""

    planned: str
    text: str
    oids: tuple[int, ...]
    fields: tuple[Field, ...] | None


class Outers:
    """Remembers the outer queries that statements had the last time, by role and text: each is a guess at what they will have
    again."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._known: OrderedDict[tuple[str, str], Outer] = OrderedDict()

    def guess(self, role: str, query: str) -> Outer | None:
        return self._known.get((role, query))

    def learn(self, role: str, query: str, outer: Outer) -> None:
        self._known[role, query] = outer
        self._known.move_to_end((role, query))
        if len(self._known) > self._most:
            self._known.popitem(last=False)


def with_literals(sql: str, literals: Mapping[int, str]) -> str:
    """Return `sql` with parameter `$k` replaced by `literals[k]` (SQL text), outside strings, names and comments."""

    def replace(match: re.Match[str]) -> str:
        number = match["number"]
        return literals.get(int(number), match[0]) if number else match[0]

    return _TOKENS.sub(replace, sql)


_BEYOND = re.compile(r"[^\x00-\x7f]")


def array_constant(literal: bytes, element: str) -> str:
    """Return an array literal as an SQL constant, whatever `standard_conforming_strings` and the client's encoding say."""
    text = _BEYOND.sub(lambda c: f"\\U{ord(c[0]):08x}", literal.decode().replace("\\", "\\\\").replace("'", "''"))
    return f" E'{text}'::{element}[]"


def same_columns(original: Sequence[Field], outer: Sequence[Field]) -> bool:
    """Whether clients would see the same names and types, and lengths or scales where the original has them."""
    return len(original) == len(outer) and all(
        (f.name, f.type) == (o.name, o.type) and f.modifier in (-1, o.modifier) for f, o in zip(original, outer, strict=True)
    )


def wrapped(sql: str, original: Sequence[Field], types: Sequence[str]) -> str:
    """Return `sql` with its columns cast to `types` (as `format_type` spells them) and named as the original's."""
    names = [f"c{i}" for i in range(len(original))]
    items = [
        f'{name}::{type} AS "{field.name.replace(chr(34), chr(34) * 2)}"'
        for name, type, field in zip(names, types, original, strict=True)
    ]
    return f"SELECT {', '.join(items)} FROM (\n{sql}\n) AS _ ({', '.join(names)})"


# Names and object ids of PostgreSQL's built-in types: the same in every PostgreSQL, since before 8.0.
#
# Knows: the catalogue `pg_type.dat`. Must not know: sessions, plans.


_TYPES: Final = {
    "bool": (16, 1000),
    "bytea": (17, 1001),
    "char": (18, 1002),
    "name": (19, 1003),
    "int8": (20, 1016),
    "int2": (21, 1005),
    "int4": (23, 1007),
    "text": (25, 1009),
    "oid": (26, 1028),
    "json": (114, 199),
    "xml": (142, 143),
    "cidr": (650, 651),
    "float4": (700, 1021),
    "float8": (701, 1022),
    "macaddr": (829, 1040),
    "inet": (869, 1041),
    "bpchar": (1042, 1014),
    "varchar": (1043, 1015),
    "date": (1082, 1182),
    "time": (1083, 1183),
    "timestamp": (1114, 1115),
    "timestamptz": (1184, 1185),
    "interval": (1186, 1187),
    "timetz": (1266, 1270),
    "bit": (1560, 1561),
    "varbit": (1562, 1563),
    "numeric": (1700, 1231),
    "uuid": (2950, 2951),
    "jsonb": (3802, 3807),
}

_NAMES: Final = {oid: name for name, (oid, _) in _TYPES.items()} | {array: f"{name}[]" for name, (_, array) in _TYPES.items()}


def type_name(oid: int) -> str:
    """Return `int4`, `text[]`, ...; `unknown` for a type that is not built in, so that nobody guesses at it."""
    return _NAMES.get(oid, "unknown")


def array_oid(element: str) -> int:
    """Return object id of the array type. Raises KeyError for a type that is not built in."""
    return _TYPES[element][1]
