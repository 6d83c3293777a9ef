"""Generated SQL with holes for values that are known when a statement runs.

Knows: dialects by name. Must not know: what the SQL says. Values enter as literals that the engine's own spelling makes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Dialect = Literal["duckdb", "postgres", "spark"]


@dataclass(frozen=True)
class Param:
    """Stands for a value that is known only when the statement runs.

    `index` 0..n-1: the client's `$1`..`$n`. From n on: `Plan.inputs[index - n]`, evaluated by the facade.
    `type` is the PostgreSQL type the value has in the generated SQL.
    """

    index: int
    type: str


@dataclass(frozen=True)
class Template:
    """Holds generated SQL with holes. `render` fills them with literals of the dialect."""

    dialect: Dialect
    parts: tuple[str | Param, ...]

    def render(self, values: Sequence[str | None], literal: Callable[[Dialect, str, str | None], str]) -> str:
        """Return the SQL with its holes filled. `values[i]` is PostgreSQL's text form of parameter i; `literal` is
        `plan.engines.literal`."""
        return "".join(p if isinstance(p, str) else literal(self.dialect, p.type, values[p.index]) for p in self.parts)


Text = tuple[str | Param, ...]
"""Generated SQL, or a name made of it, with holes."""
