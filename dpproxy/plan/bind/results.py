"""What binding a query yields.

Knows: rows, trees. Must not know: how queries are analysed. A query is either rows (of units, or public ones that were
asked for as rows) or something the facade may run as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dpproxy.sql.dialect import ident
from dpproxy.tree.expr import Column
from dpproxy.tree.relation import Rows


@dataclass(frozen=True)
class RowsResult:
    """The query is rows; `columns` are its outputs, in order."""

    rows: Rows
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ReleasedResult:
    """The facade can run the query as it now stands. `measured`: it contains a measurement."""

    tree: exp.Expr
    measured: bool


Result = RowsResult | ReleasedResult


@dataclass(frozen=True)
class Item:
    """One item of FROM: rows (private or public) or something only the facade can produce."""

    alias: str
    rows: Rows | None
    columns: tuple[Column, ...]
    node: exp.Expr

    @property
    def private(self) -> bool:
        return self.rows is not None and self.rows.private


def renamed(item: Item, names: Sequence[str]) -> Item:
    """Return the item under the column names of its alias, as far as they go."""
    if not names:
        return item
    first = [replace(c, name=n) for c, n in zip(item.columns, names, strict=False)]
    return replace(item, columns=(*first, *item.columns[len(first) :]))


def alias_columns(node: exp.Expr) -> tuple[str, ...]:
    """Return the column names in `AS alias(a, b)`."""
    alias = node.args.get("alias")
    return tuple(ident(c) for c in alias.args.get("columns") or ()) if alias is not None else ()
