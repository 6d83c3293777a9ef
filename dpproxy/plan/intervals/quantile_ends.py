"""`dpproxy.low(percentile_cont(p) ...)` and `high`, of min and max too: the ends of an interval, selected as the value is.

Knows: the selections of a measured SELECT. Must not know: data, how a selection is drawn. How far a percentile is off depends
on the data beside it, which nothing else that is released tells. So each end is a quantile of its own, from the same counts,
aimed as many ranks beside the percentile as its own draw may miss (`selection_ranks.end_rank`): whatever the data, it is on the
wrong side with half of what the confidence leaves at most. No number of rows is needed, and near the ends of the range, where
so many ranks may not be there, the range's end is a candidate. They share the statement's epsilon: the percentile keeps half of
what it has.

Where it is no fact that values end with the candidates (`SelectionSpec.sure`), an end that is the last candidate is open.

The least value is at least the range's low end, which costs nothing to know; its other end is that of a percentile of next to
nothing, which is never below it. So with the greatest. What bounds cut may be on any side of a percentile: of units with
several rows its ends are the range's. It takes nothing from between the least and the greatest that are left.

Not of mode, whose values have no order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.measure import output_weights
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.request import MeasurementRequest
from dpproxy.plan.measure.specs import Measured, SelectionSpec
from dpproxy.sql.dialect import position, to_sql

SIDES = {"low": -1, "high": 1}

NEAREST = Fraction(1, 2**20)
"""The percentile beside the least value (`mechanisms.exponential.MAX_DENOMINATOR`): of up to a million values it is the least."""


@dataclass(frozen=True)
class QuantileEnds:
    """The ends of the selections of one measured SELECT, whose released columns are those of `alias`."""

    request: MeasurementRequest
    alias: str
    label_of: Callable[[exp.Expr], str]
    confidence: Fraction

    def text(self, found: Measured, node: exp.Expr, name: str, call: exp.Expr, shares: int = 1) -> str:
        """SQL of one end, or of an array of them; never beyond the value itself. So many intervals as `shares` are to hold at
        once. Raises Refusal."""
        spec = found.selection
        if name not in SIDES or spec is None or spec.values:
            raise _refused(spec, node, name, call)
        ends = [self._end(found, spec, i, name, f"dpproxy.{name}({self.label_of(node)})", shares) for i in range(spec.columns)]
        return f"ARRAY[{', '.join(ends)}]" if found.type.endswith("[]") else ends[0]

    def value(self, found: Measured) -> str:
        """SQL of what is selected."""
        assert found.selection is not None
        return found.formula.format(*self._columns(found.selection))

    def _end(self, found: Measured, spec: SelectionSpec, number: int, name: str, label: str, shares: int) -> str:
        """An end of the percentile of that number."""
        fraction, side = spec.fractions[number], SIDES[name]
        if fraction == (side > 0) or (0 < fraction < 1 and not self.request.rows.one):
            return found.single.format(f"({(spec.hi - spec.lo) * (side > 0)})::int8") if spec.sure[side > 0] else _unknown(found)
        aimed, confidence = min(max(fraction, NEAREST), 1 - NEAREST), 1 - (1 - self.confidence) / shares
        label += f"[{number + 1}]" if spec.columns > 1 else ""
        end = replace(spec, label=label, fractions=(aimed,), side=side, confidence=confidence)
        self._ask(end, output_weights.END * (output_weights.FILTERED if spec.where is not None else 1.0))
        (chosen,) = self._columns(end)
        value, beside = (found.single.format(column) for column in (self._columns(spec)[number], chosen))
        text = f"{'LEAST' if name == 'low' else 'GREATEST'}({value}, {beside})"
        if spec.sure[side > 0]:
            return text
        inside = f"{chosen} < {spec.hi - spec.lo}" if side > 0 else f"{chosen} > 0"  # what is beyond is held there
        return f"CASE WHEN {inside} THEN {text} ELSE {_unknown(found)} END"

    def _ask(self, end: SelectionSpec, weight: float) -> None:
        self.request.selection(end)
        self.request.output(Output(end.label, "selected", (weight,), (), self.request.selections.index(end)))

    def _columns(self, spec: SelectionSpec) -> list[str]:
        return [f"{self.alias}.{column}" for column in self.request.selection(spec)]


def _unknown(found: Measured) -> str:
    """An end of which nothing is known."""
    return f"CAST(NULL AS {found.type.removesuffix('[]')})"


def _refused(spec: SelectionSpec | None, node: exp.Expr, name: str, call: exp.Expr) -> Refusal:
    aggregate = to_sql(node).split("(")[0].lower()
    hint = "Group by the column instead, and count: each count has an interval."
    if spec is not None and not spec.values:
        hint = "Ask for dpproxy.low() and dpproxy.high()."
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"dpproxy.{name}() is not available for {aggregate}(): how far off it is depends on how dense the data are there",
        position(call),
        hint=hint,
    )
