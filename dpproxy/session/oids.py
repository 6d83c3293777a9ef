"""Names and object ids of PostgreSQL's built-in types: the same in every PostgreSQL, since before 8.0.

Knows: the catalogue `pg_type.dat`. Must not know: sessions, plans.
"""

from __future__ import annotations

from typing import Final

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
