"""Rows with the value of each expression in a column of its own, so that what repeats it costs a look-up only.

Knows: how expressions are spelled, one engine's fence. Must not know: what the values are measured for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dpproxy.engines.relations import Block, Renderer
from dpproxy.tree.expr import Column, Expr, Ref

HELD = -1  # id of a held column: counters start at 0
_PLAIN = re.compile(r'\w+\.("([^"]|"")*"|\w+)(::\w+)?')  # a column as it is: nothing to compute, wherever it is named


@dataclass
class HeldColumns:
    """Rows with the value of each expression in a column of its own, v0, v1, ...: what repeats it costs a look-up only."""

    renderer: Renderer
    block: Block
    _texts: dict[str, str] = field(default_factory=dict)

    def _name(self, expr: Expr) -> str:
        return self._texts.setdefault(self.renderer.summand(expr, self.block.names), f"v{len(self._texts)}")

    def held(self, expr: Expr) -> tuple[Ref, dict[int, str]]:
        """Return the expression as a reference to its column, and the column's name in scope."""
        column = expr.column if isinstance(expr, Ref) else Column(HELD, "held", expr.type)
        return Ref(expr.type, column), {column.id: self._name(expr)}

    def where(self, condition: Expr | None, text: str) -> str:
        """Write `text` in rows that satisfy the condition, NULL in others."""
        return text if condition is None else f"CASE WHEN {self._name(condition)} THEN {text} END"

    def select(self, plain: list[str], items: list[str]) -> str:
        """Write `plain` (`expression AS name`) and items over held columns. To be called last."""
        names = [text.rpartition(" AS ")[2] for text in plain]
        held = [f"{text} AS {name}" for text, name in self._texts.items()]
        rows = f"SELECT {', '.join([*plain, *held]) or '1 AS one'} FROM {self.block.source}{self.block.where_text}"
        if not items:
            return rows
        begin, end = self.renderer.engine.fence if any(not _PLAIN.fullmatch(text) for text in self._texts) else ("", "")
        return f"SELECT {', '.join([*names, *items])} FROM ({begin}{rows}{end}) AS v"
