"""What a measurement reads of each row, as SQL: its keys, and its values on their grids.

Knows: measured rows, an engine's spelling. Must not know: what is made of the rows. Equal values share one column, and a value
that the engine adds up faster in a type of its own is in that type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from dpproxy.engines.base import Engine
from dpproxy.engines.relations import Block, Renderer
from dpproxy.tree.expr import Column, Expr, Ref
from dpproxy.tree.measured import MeasuredRows, RowBucket, RowValue

# Rows with the value of each expression in a column of its own, so that what repeats it costs a look-up only.
#
# Knows: how expressions are spelled, one engine's fence. Must not know: what the values are measured for.


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


@dataclass
class RowTexts:
    """Measured rows that are selected from `block`. `factors`: of values in the engine's own type, grid units in one of it.
    `columns`: of the texts of row values, `values`: of row values, each the column it is in. `codes`: of keys that
    are counted by number, that number."""

    renderer: Renderer
    block: Block
    rows: MeasuredRows
    factors: dict[int, int] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    values: dict[int, str] = field(default_factory=dict)
    codes: dict[int, str] = field(default_factory=dict)

    @property
    def _engine(self) -> Engine:
        return self.renderer.engine

    @property
    def unit(self) -> str:
        return self.block.names[self.rows.unit.id]

    def key(self, i: int) -> str:
        return self.renderer.key(self.rows.keys[i], self.block.names)

    def keyed(self) -> str:
        """Select the keys of each row, and its values."""
        return self._select(self._keys())

    def with_units(self) -> str:
        """Select the unit of each row, its keys and its values."""
        return self._select([f"{self.unit} AS u", *self._keys()])

    def _keys(self) -> list[str]:
        return [f"{self.codes.get(i) or self.key(i)} AS k{i}" for i in range(len(self.rows.keys))]

    def _select(self, plain: list[str]) -> str:
        inner = HeldColumns(self.renderer, self.block)
        items = [text for i, value in enumerate(self.rows.values) for text in self._value(i, value, inner)]
        return inner.select(plain, items)

    def _value(self, i: int, value: RowValue | RowBucket | None, inner: HeldColumns) -> list[str]:
        """Row value i, where there is one and no column has it yet."""
        if value is None:
            return []
        if isinstance(value, RowBucket):
            return [f"{self._bucket(value, inner)} AS bucket"]
        text = inner.where(value.where, self._own(i, value, inner))
        self.values[i] = self.columns.setdefault(text, f"x{i}")
        return [f"{text} AS x{i}"] if self.values[i] == f"x{i}" else []

    def _own(self, i: int, value: RowValue, inner: HeldColumns) -> str:
        if value.value is None:
            return "1"
        column, names = inner.held(value.value)
        held = value.held
        if held is None:
            return names[column.column.id]
        if held.native:
            text, self.factors[i] = self._engine.addend(column, held.lo, held.hi, held.grid, names)
            return text
        return self._engine.fixed(column, held.lo, held.hi, held.grid, Fraction(0), names)

    def _bucket(self, bucket: RowBucket, inner: HeldColumns) -> str:
        value, names = inner.held(bucket.value)
        text = names[value.column.id]
        if bucket.values:
            literal = self._engine.literal
            arms = " ".join(f"WHEN {text} = {literal(value.type, v)} THEN {i}" for i, v in enumerate(bucket.values))
            text = f"CAST(CASE {arms} END AS BIGINT)"
        else:
            text = self._engine.fixed(value, bucket.lo, bucket.hi, bucket.grid, Fraction(0), names)
            text = f"CAST({text} AS BIGINT) - ({bucket.lo})"
        return inner.where(bucket.where, text)
