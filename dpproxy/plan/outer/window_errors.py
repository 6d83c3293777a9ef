"""`dpproxy.low(sum(count(*)) OVER (...))` and its like: how far off a window sum of released values may be, and shares of one.

Knows: window sums, formulas over released columns. Must not know: data, scales. A sum of groups has the noise of all of them: of
groups with noise of their own it is independent, of running sums (`privacy.running_sums`) it is less, and known for each number
of groups (`error_numbers`). As for any aggregate an end is open where bounds may have cut; and where groups are not declared: of
those that are not shown nothing is known, and those that are have passed a threshold by their noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dpproxy.plan.measure.enclosures import Range, rising
from dpproxy.plan.measure.specs import Measured
from dpproxy.plan.outer.error_numbers import SUM_DEVIATION, SUM_HALF
from dpproxy.plan.outer.window_sums import WindowSum
from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.trees import function_name
from dpproxy.sql.types import NUMBERS, type_name


@dataclass(frozen=True)
class SumErrors:
    """The errors of a window sum of one basis of a source. `sums`: with its window over the released columns; `among`: of how
    many rows some are shown by their values; `shown`: what stands for it in the answer."""

    sums: WindowSum
    measured: Measured
    alias: str
    basis: int
    among: int
    shown: str

    @property
    def type(self) -> str:
        """Return PostgreSQL's type of the sum."""
        of, average = self.measured.type, function_name(self.sums.window.this) == "avg"
        return ("float8" if average else of) if of in ("float4", "float8") else "numeric"

    @property
    def positive(self) -> bool:
        return self.measured.range is not None and self.measured.range.positive

    def end(self, name: str) -> exp.Expr:
        """Write the low or the high end, or the deviation."""
        if name == "stderr":
            return parse_expression(f"CAST({self._value(self._call(SUM_DEVIATION, 1, self._cells))} AS float8)")
        return parse_expression(f"CAST({self.ends()[name == 'high']} AS {self.type})")

    def ends(self, shares: int = 1) -> tuple[str, str]:
        """Return both ends; `shares`: of how many intervals that have to hold at once."""
        return self._around(self._total, self._cells, shares)

    def others(self, shares: int) -> tuple[str, str]:
        """Return both ends of the sum without the row's own group."""
        return self._around(f"({self._total} - {self.alias}.b{self.basis})", f"GREATEST({self._cells} - 1, 1)", shares)

    def _around(self, total: str, cells: str, shares: int) -> tuple[str, str]:
        half, ends = self._call(SUM_HALF, self.among * shares, cells), []
        for sign, width in ("-g", "+h"):
            known, text = f"{self.alias}.{width}s{self.basis}", self._value(f"{total} {sign} {half}")
            ends.append(f"CASE WHEN {known} THEN {f'GREATEST({text}, 0)' if self.positive else text} END")
        return (f"COALESCE({ends[0]}, 0)" if self.positive else ends[0]), ends[1]

    def _call(self, name: str, among: int, cells: str) -> str:
        first = int(self.sums.first and self.sums.rising)
        return f"{name}('{self.alias}', {self.basis}, {first}, {among}, {cells})"

    @property
    def _total(self) -> str:
        return self._over(f"sum({self.alias}.b{self.basis})")

    @property
    def _cells(self) -> str:
        return self._over("count(*)")

    def _over(self, call: str) -> str:
        window = self.sums.window.copy()
        window.set("this", parse_expression(call))
        return to_sql(window)

    def _value(self, total: str) -> str:
        """The formula of a basis, of a sum of it, or of that over the groups."""
        assert self.measured.range is not None
        found = self.measured.range.free.format(f"({total})")
        return f"(({found}) / {self._cells})" if function_name(self.sums.window.this) == "avg" else f"({found})"


def whole(number: int, positive: bool) -> Range:
    """Enclose window sum `number` of an expression."""
    value = f"{{m{number}}}"
    return Range(value, f"{{ml{number}}}", f"{{mu{number}}}", value, True, positive=positive)


def share(own: Range, number: int) -> Range:
    """Enclose what is not negative, divided by sum `number` of it and others, in which it is: own / (own + others) rises with the
    one and falls with the other, and is from 0 to 1 whatever is known of them."""
    low, high, whole = f"GREATEST({own.low}, 0)", own.high, f"NULLIF({{m{number}}}, 0)"
    ends = f"({low} + {{ou{number}}})", f"({high} + {{ol{number}}})"
    return Range(
        f"({own.value} / {whole})",
        f"CASE WHEN {ends[0]} > 0 THEN {low} / {ends[0]} ELSE 0 END",
        f"CASE WHEN {ends[1]} > 0 THEN {high} / {ends[1]} ELSE 1 END",
        f"({own.free} / {whole})",
        positive=True,
    )


def linear(node: exp.Expr, leaf: exp.Expr, found: Range) -> Range | None:
    """Make of a leaf's range what positive constants and casts make of the leaf; None for an expression of others."""
    if node is leaf:
        return found
    if isinstance(node, exp.Paren):
        return linear(node.this, leaf, found)
    if isinstance(node, exp.Cast) and type_name(node.to) in ("numeric", "float8"):
        inner, to = linear(node.this, leaf, found), to_sql(node.to)
        return rising(inner, lambda x: f"CAST({x} AS {to})") if inner is not None else None
    if not isinstance(node, exp.Mul):
        return None
    one, other = (node.this, node.expression) if positive_number(node.expression) else (node.expression, node.this)
    inner = linear(one, leaf, found) if positive_number(other) else None
    return rising(inner, lambda x: f"({x} * {to_sql(other)})") if inner is not None else None


def positive_number(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and float(node.this) > 0


def straight(measured: Measured) -> bool:
    """Tell whether an aggregate is a column times a constant, of a type that adds up to numbers."""
    return measured.kind == "linear" and measured.range is not None and not measured.range.steps and measured.type in NUMBERS
