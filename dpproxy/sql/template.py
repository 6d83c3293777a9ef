"""Generated SQL with holes for values that are known when a statement runs.

Knows: dialects by name. Must not know: what the SQL says. Values enter as literals that the engine's own spelling makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Dialect = Literal["duckdb", "postgres", "spark"]

KEPT = " /*'kept {} {}*/"
"""Stands after common table expressions that a query begins with, and names the last of them, where the other round of its
measurement begins with the same ones: what is named so is all that the rest of the query reads. An engine may keep what these
are. Marks are numbered from 1. A mark is a comment, so that the text means the same everywhere; with one quotation mark, of which
constants have two."""
INDEXED = " /*'indexed {}*/"
"""Stands where rows are grouped by unit and one short key, and says how many bytes such a group's sums take: few enough for an
engine to index groups that it would hash else."""


@dataclass(frozen=True)
class Param:
    """Stands for a value that is known only when the statement runs.

    `index` 0..n-1: the client's `$1`..`$n`. From n on: `Plan.inputs[index - n]`, evaluated by the facade.
    `type` is the PostgreSQL type the value has in the generated SQL.
    """

    index: int
    type: str


@dataclass(frozen=True)
class Found:
    """Stands for the numbers of groups that were released before the statement runs, each after a comma."""


@dataclass(frozen=True)
class Template:
    """Holds generated SQL with holes. `render` fills them with literals of the dialect."""

    dialect: Dialect
    parts: tuple[str | Param | Found, ...]

    def render(
        self,
        values: Sequence[str | None],
        literal: Callable[[Dialect, str, str | None], str],
        found: Sequence[int] = (),
    ) -> str:
        """Return the SQL with its holes filled. `values[i]` is PostgreSQL's text form of parameter i; `literal` is
        `engines.literal`."""

        def text(part: str | Param | Found) -> str:
            if isinstance(part, Param):
                return literal(self.dialect, part.type, values[part.index])
            return part if isinstance(part, str) else "".join(f", {number}" for number in found)

        return "".join(map(text, self.parts))


Text = tuple[str | Param | Found, ...]
"""Generated SQL, or a name made of it, with holes."""
