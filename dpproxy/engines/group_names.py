"""The columns that name a unit's group, u, k0, k1, ...: how groups are told apart, ordered and numbered in SQL.

Knows: an engine's spelling, keyed orders. Must not know: rows, what groups add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.engines.base import Engine
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Expr
from dpproxy.tree.measured import Order


@dataclass(frozen=True)
class GroupNames:
    """The names of keys, and the types that their columns have."""

    engine: Engine
    keys: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, engine: Engine, keys: Sequence[Expr]) -> GroupNames:
        types = ("text" if key.type == "interval" else key.type for key in keys)
        return cls(engine, tuple(f"k{i}" for i in range(len(keys))), tuple(types))

    @property
    def group(self) -> list[str]:
        """Name a unit's group."""
        return ["u", *self.keys]

    def hash(self, order: Order, columns: list[str]) -> str:
        return self.engine.pick_hash(columns, order.key)

    def number(self, order: Order) -> str:
        """Number a group, whoever is in it."""
        names = [f"k{i}" for i in order.keys]
        if len(names) == 1 and self.types[order.keys[0]] in TEXTS:
            return self.engine.text_number(names[0], order.key)
        return self.engine.group_number(names, order.key)

    def turn(self, order: Order) -> str:
        """Say in what order a unit's groups are picked."""
        names = [f"k{i}" for i in order.keys]
        return f"{self.hash(order, ['u', *names])}, {', '.join(names)}"

    def same(self, a: str, b: str, names: Sequence[str]) -> str:
        """The same unit and keys in two relations; the unit is never NULL."""
        types = dict(zip(self.keys, self.types, strict=True))
        pairs = ((n, f"{a}.{n}", f"{b}.{n}") for n in names)
        return " AND ".join(f"{x} = {y}" if n == "u" else self.engine.same(x, y, types[n]) for n, x, y in pairs)
