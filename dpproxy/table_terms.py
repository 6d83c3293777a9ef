"""Terms of tables that every room shares: what a table is called, which columns are compared exactly, what an enumerated type is.

Knows: names, PostgreSQL's kinds of numbers. Must not know: policies, catalogs, data.
"""

from __future__ import annotations

from collections.abc import Hashable
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


class Enumeration(str):
    """An enumerated type: to engines and to arithmetic of types it is `text`; to analysts a type of its own, `schema.name`, whose
    values have the order of its `labels`. No labels: they are not published, so that analysts see texts, and nothing may depend
    on the order of values."""

    __slots__ = ("labels", "name", "schema")
    schema: str
    name: str
    labels: tuple[str, ...]

    def __new__(cls, schema: str = "", name: str = "", labels: tuple[str, ...] = ()) -> Enumeration:
        made = super().__new__(cls, "text")
        made.schema, made.name, made.labels = schema, name, labels
        return made

    def _identity(self) -> Hashable:
        return self.schema, self.name, self.labels

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, Enumeration) else str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type[Enumeration], tuple[str, str, tuple[str, ...]]]:
        return Enumeration, (self.schema, self.name, self.labels)


def longest_label(type_: str) -> int | None:
    """Return the characters of an enumerated type's longest label; None for other types."""
    return max(map(len, type_.labels), default=None) if isinstance(type_, Enumeration) else None


def hidden_labels(type_: str) -> str:
    """Return a type as it is where its labels are not published."""
    return Enumeration() if isinstance(type_, Enumeration) else type_


def spelled_type(type_: str) -> str:
    """Return a type as the facade spells it: an enumerated one by its own name."""
    return ".".join(map(_quoted, (type_.schema, type_.name))) if isinstance(type_, Enumeration) and type_.labels else type_


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
