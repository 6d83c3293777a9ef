"""`dpproxy.low(percentile_cont(p) ...)` and `high`: the ends of a percentile's interval, selected as it is.

Knows: the selections of a measured SELECT. Must not know: data, how a selection is drawn. How far a percentile is off depends
on the data beside it, which nothing else that is released tells. So each end is a quantile of its own, from the same counts,
aimed as many ranks beside the percentile as its own draw may miss (`selection_ranks.end_rank`): whatever the data, it is on the
wrong side with half of what the confidence leaves at most. No number of rows is needed, and near the ends of the range, where
so many ranks may not be there, the range's end is a candidate. They share the statement's epsilon: the percentile keeps half of
what it has.

Not of min and max, which nothing is beyond of, nor of mode, whose values have no order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal
from dpproxy.plan.measure import output_weights
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.specs import Measured, SelectionSpec
from dpproxy.plan.outer.request import MeasurementRequest
from dpproxy.sql.dialect import position, to_sql

SIDES = {"low": -1, "high": 1}


@dataclass(frozen=True)
class Ends:
    """These are the ends of the percentiles of one measured SELECT, whose released columns are those of `alias`."""

    request: MeasurementRequest
    alias: str
    confidence: Fraction

    def text(self, found: Measured, node: exp.Expr, name: str, call: exp.Expr) -> str:
        """SQL of one end; never beyond the percentile itself. Raises Refusal."""
        spec = found.selection
        if name not in SIDES or spec is None or not _quantile(spec) or found.type.endswith("[]"):
            raise _refused(spec, node, name, call)
        label = f"dpproxy.{name}({to_sql(node)})"
        end = replace(spec, label=label, side=SIDES[name], confidence=self.confidence)
        values = [found.formula.format(*self._columns(one)) for one in (spec, end)]
        weight = output_weights.END * (output_weights.FILTERED if spec.where is not None else 1.0)
        output = Output(label, "selected", (weight,), (), self.request.selections.index(end))
        self.request.output(output)
        return f"{'LEAST' if name == 'low' else 'GREATEST'}({', '.join(values)})"

    def _columns(self, spec: SelectionSpec) -> list[str]:
        return [f"{self.alias}.{column}" for column in self.request.selection(spec)]


def _quantile(spec: SelectionSpec) -> bool:
    return not spec.values and len(spec.fractions) == 1 and 0 < spec.fractions[0] < 1


def _refused(spec: SelectionSpec | None, node: exp.Expr, name: str, call: exp.Expr) -> Refusal:
    aggregate = to_sql(node).split("(")[0].lower()
    hint = "Ask for a percentile near it instead, and for that one's dpproxy.low() and dpproxy.high()."
    if spec is not None and not spec.values and len(spec.fractions) > 1:
        hint = "Ask for each percentile by itself."
    elif spec is not None and _quantile(spec):
        hint = "Ask for dpproxy.low() and dpproxy.high(), one percentile each."
    return Refusal(
        FEATURE_NOT_SUPPORTED,
        f"dpproxy.{name}() is not available for {aggregate}(): how far off it is depends on how dense the data are there",
        position(call),
        hint=hint,
    )
