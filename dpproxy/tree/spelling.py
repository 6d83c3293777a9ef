"""What a planner may ask of a tree's text: an engine spells trees, the planner compares and sends what it spells.

Knows: trees. Must not know: engines, SQL. Two measurements are equal where their texts are. A stored table is of the same
rows where the texts of these rows are. A text follows from a tree and a `Speller` alone, and has holes
(`sql.template.split_holes`). `engines.EngineSpeller` is the speller of an engine: who measures is handed one, and imports none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Column, Expr, Relation
from dpproxy.tree.measured import DeclaredPart, Statement


@dataclass(frozen=True)
class Query:
    """A tree and its text. Texts tell queries apart."""

    tree: Statement = field(compare=False)
    text: str


class SpelledRows(Protocol):
    """The rows of a relation, whose FROM and WHERE are written once for all statements over them."""

    @property
    def relation(self) -> Relation:
        """The relation itself."""

    @property
    def text(self) -> str:
        """FROM and WHERE."""

    def query(self, tree: Statement) -> Query:
        """Spell a statement over these rows."""

    def column(self, column: Column) -> str:
        """Spell a column of the rows."""

    def key(self, key: Expr) -> str:
        """Spell a key, as rows are grouped by it."""

    def value(self, value: Expr) -> str:
        """Spell an expression that becomes a column."""


class Speller(Protocol):
    """Spells trees in the words of one engine. Equal spellers spell alike, and a speller is a key of what is remembered."""

    @property
    def dialect(self) -> Dialect:
        """The engine's name."""

    @property
    def uncut(self) -> Speller:
        """The speller of the same engine that cuts texts as late as it may."""

    def __hash__(self) -> int: ...

    def rows(self, relation: Relation) -> SpelledRows:
        """Spell rows by themselves."""

    def query(self, tree: Statement) -> Query:
        """Spell a statement by itself."""

    def groups(self, part: DeclaredPart) -> str:
        """Spell the declared groups of keys that have common sources."""
