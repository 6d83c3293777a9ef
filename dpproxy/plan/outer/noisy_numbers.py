"""SUM and AVG of numbers to which devices added noise: read by laplace and duchi, of which no values are candidates.

Knows: bound expressions, claims. Must not know: engines, how an estimate is computed. Engines return whole numbers. So a number
by laplace is counted in steps of a fine grid above the range's low end; one that no device sends (beyond forty scales of noise)
is no report. Of duchi the sign says all: how many lie above the middle. Either is affine in two integers, as estimates are:

    laplace    sum = low n + step (T + n / 2),        variance 2 scale^2 n
    duchi      sum = (middle - reach) n + 2 reach C,  variance 4 reach^2 C (1 - C / n) at most
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from sqlglot import exp

from dpproxy.local.claims import Duchi, Laplace
from dpproxy.plan.bind import reported
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.measure.specs import Measured
from dpproxy.policy.model import Randomised
from dpproxy.privacy.readings import Estimate
from dpproxy.sql.dialect import position
from dpproxy.sql.types import NUMBERS, decimal
from dpproxy.tree.expr import Agg, Call, Cast, Expr, Lit, Ref, conjunction
from dpproxy.tree.measured import ReportTotal
from dpproxy.tree.relation import RandomisedColumn

STEPS: Final = 2**20
"""Of a range, or of a scale of noise that is larger: a sum of 10^9 reports stays within 64 bits."""

SCALES: Final = 40
"""An honest report is farther off with a chance of e^-40."""

AROUND = (
    "sum(x) and avg(x), of reports that plain columns choose; compute around: SELECT a * 2 FROM (SELECT avg(x) AS a FROM ...) t."
)


def noisy_number(
    agg: Agg, label: str, value: Expr, column: RandomisedColumn, how: Randomised,
    conditions: tuple[tuple[Expr, ...], list[Expr]], times: Expr | None,
    total: Callable[[ReportTotal], int], estimate: Callable[[Estimate], int], node: exp.Expr,
) -> tuple[Measured, tuple[int, ...]]:  # fmt: skip
    """Return the formula and the estimates of an aggregate. `conditions`: plain ones, and those of randomised columns;
    `times`: how many reports a row stands for. Raises Refusal."""
    plain, listed = conditions
    (_, claim), *more = how.claims
    if listed or more or not isinstance(value, Ref) or not isinstance(claim, Laplace | Duchi):
        use = (
            "several claims of it are not estimated together"
            if more
            else "it is added up as it is, and nothing else is asked of it"
        )
        raise reported.randomised(column.shown.name, use, AROUND, position(node))
    stored: Expr = Ref(column.stored.type, column.stored)
    number = stored if column.stored.type == "float8" else Cast("float8", stored)
    there = _there(claim, stored, number)
    where = [*plain, *there]
    among = total(ReportTotal(times, conjunction(tuple(where))))
    if isinstance(claim, Duchi):
        middle, reach = (claim.low + claim.high) / 2, claim.reach
        above = total(ReportTotal(times, conjunction((*where, _compared(">", number, middle)))))
        first = Estimate(label, above, among, among, (), noise="share")
        factor, shift = 2 * reach, middle - reach
    else:
        step = max(claim.high - claim.low, claim.scale) / STEPS
        steps = _steps(number, claim.low, step)
        each = Call("int8", "*", (steps, times)) if times is not None else steps
        added = total(ReportTotal(each, conjunction(tuple(where))))
        first = Estimate(label, added, among, among, (), noise=claim.variance / step**2)
        factor, shift = step, claim.low + step / 2
    return _made(agg, factor, shift), (estimate(first), estimate(Estimate(label, among, among, among, ())))


def _there(claim: Laplace | Duchi, stored: Expr, number: Expr) -> Sequence[Expr]:
    """What is true of a report that a device may have sent."""
    present = Call("bool", "is_not_null", (stored,))
    if isinstance(claim, Duchi):
        return (present,)
    far = SCALES * claim.scale
    return present, _compared(">=", number, claim.low - far), _compared("<=", number, claim.high + far)


def _compared(op: str, number: Expr, with_: Fraction) -> Expr:
    return Call("bool", op, (number, _float(with_)))


def _steps(number: Expr, low: Fraction, step: Fraction) -> Expr:
    """The steps that a number is above the low end."""
    above = Call("float8", "-", (number, _float(low)))
    return Cast("int8", Call("float8", "floor", (Call("float8", "*", (above, _float(1 / step))),)))


def _float(number: Fraction) -> Lit:
    return Lit("float8", repr(float(number)))


def _made(agg: Agg, factor: Fraction, shift: Fraction) -> Measured:
    """factor b0 + shift n, and the mean."""
    type_ = agg.type if agg.type in NUMBERS else "float8"
    scale, more = _numeric(factor), _numeric(shift)
    found = arithmetic.rising(arithmetic.basis(0), lambda x: f"({x}::numeric * {scale} + {{1}}::numeric * {more})")
    if agg.name == "avg":
        found = arithmetic.rising(found, lambda x: f"({x} / GREATEST({{1}}, 1))")
    found = arithmetic.rising(found, lambda x: f"({x})::{type_}")
    return Measured((), found.value, type_, "mean" if agg.name == "avg" else "derived", (), found)


def _numeric(number: Fraction) -> str:
    return decimal(Fraction(round(number * 10**30), 10**30)) + "::numeric"
