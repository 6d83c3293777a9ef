"""Terms of tables that every room shares: what a table is called, and which columns are compared exactly.

Knows: names, PostgreSQL's kinds of numbers. Must not know: policies, catalogs, data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

_INTEGERS = ("int2", "int4", "int8")
_NUMBERS = (*_INTEGERS, "numeric", "float4", "float8")


@dataclass(frozen=True, order=True)
class TableName:
    """Names a table as analysts write it: PostgreSQL spelling, schema explicit (`public` is the default)."""

    schema: str
    name: str

    def __str__(self) -> str:
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"


class Compared(Protocol):
    """Describes a column, of a table or of a query, that is compared with another."""

    @property
    def type(self) -> str: ...

    @property
    def exact(self) -> str: ...


def same_kind(one: Compared, other: Compared) -> bool:
    """Return whether two columns that are found equal hold equal values. Numbers of two kinds are compared as doubles, and one
    double may stand for many numbers: 9007199254740992 and 9007199254740993 would then be one person, or one order."""
    if one.type not in _NUMBERS or other.type not in _NUMBERS or (one.type in _INTEGERS and other.type in _INTEGERS):
        return True
    return one.exact == other.exact and bool(one.exact or one.type == other.type)
