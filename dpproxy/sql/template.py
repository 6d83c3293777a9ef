"""Generated SQL with holes for values that are known when a statement runs.

Knows: dialects by name. Must not know: what the SQL says. Values enter as literals that the engine's own spelling makes. While a
text is put together its holes are written as `\\x00index:type\\x00`; NUL occurs in no literal, so a finished text splits into a
`Template` without escaping.
"""

from __future__ import annotations

import re
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


class TooManyRows(ValueError):
    """Rows that the facade was to hand over are more than a measurement takes."""


class NoLiteral(ValueError):
    """The value of `hole` has no literal in the engine; the cause says why."""

    def __init__(self, why: ValueError, hole: Param) -> None:
        super().__init__(str(why))
        self.hole = hole


@dataclass(frozen=True)
class Found:
    """Stands for the numbers of groups that were released before the statement runs, each after a comma."""


@dataclass(frozen=True)
class Template:
    """Generated SQL with holes. `render` fills them with literals of the dialect."""

    dialect: Dialect
    parts: tuple[str | Param | Found, ...]

    @classmethod
    def of(cls, dialect: Dialect, text: str) -> Template:
        """Split a spelled text at its holes."""
        return cls(dialect, split_holes(text))

    def render(
        self,
        values: Sequence[str | None],
        literal: Callable[[Dialect, str, str | None], str],
        found: Sequence[int] = (),
    ) -> str:
        """Return the SQL with its holes filled. `values[i]` is PostgreSQL's text form of parameter i; `literal` is
        `engines.literal`. Raises NoLiteral for a value that the engine cannot take."""

        def text(part: str | Param | Found) -> str:
            if isinstance(part, Param):
                try:
                    return literal(self.dialect, part.type, values[part.index])
                except ValueError as error:
                    raise NoLiteral(error, part) from error
            return part if isinstance(part, str) else "".join(f", {number}" for number in found)

        return "".join(map(text, self.parts))


Text = tuple[str | Param | Found, ...]
"""Generated SQL, or a name made of it, with holes."""

_HOLE = re.compile("\x00(\\d+):([a-z0-9\\[\\](),]+)\x00|\x00found\x00")
FOUND = "\x00found\x00"
"""The hole for groups that an earlier round released: to follow an element of a list."""


def hole(index: int, type_: str) -> str:
    """Write the hole for a parameter."""
    return f"\x00{index}:{type_}\x00"


def split_holes(text: str) -> Text:
    """Split a rendered text at its holes."""
    found: list[str | Param | Found] = []
    at = 0
    for match in _HOLE.finditer(text):
        if match.start() > at:
            found.append(text[at : match.start()])
        found.append(Param(int(match.group(1)), match.group(2)) if match.group(1) else Found())
        at = match.end()
    if at < len(text):
        found.append(text[at:])
    return tuple(found)
