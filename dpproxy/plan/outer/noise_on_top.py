"""Aggregates over a column that devices randomised, in a table with a unit: weights of reports, added up with noise.

Knows: bound expressions, laws of claims, basis columns. Must not know: SQL of clients, scales of noise. Let p be the probability
that a device whose value is yes reports yes, q that of another one. A report of yes weighs (1 - q) / (p - q), one of no
-q / (p - q): on average over devices the weight is 1 where the value is yes, and 0 elsewhere. So a count of true values is the
sum of these weights, a sum of a CASE like any other: it is bounded, measured and charged as such, and its sensitivity is the
larger weight. A function g of the value weighs g(no) + (g(yes) - g(no)) times that.

The error is of two kinds. Central noise is drawn by the proxy. Noise of devices is in the data: over n reports, f of which are
yes in truth, its variance is (g(yes) - g(no))^2 [n q(1-q) + f (p(1-p) - q(1-q))] / (p-q)^2 (Warner 1965). Both are independent,
so an interval's half-width is the root of the sum of squared half-widths. n and f are read from the released columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, sqrt

from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.local.claims import Binary, Law
from dpproxy.local.laws import direct_law
from dpproxy.plan.bind import reported
from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure.aggregates import COUNTED, sum_type
from dpproxy.plan.measure.specs import BasisSpec, Measured
from dpproxy.plan.outer.report_weights import NotListed, weights, without_case
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.grid import grid_of
from dpproxy.plan.properties.required_bounds import bounded_argument
from dpproxy.policy.report_columns import number_text
from dpproxy.sql.types import decimal
from dpproxy.tree.expr import Agg, Call, Case, Cast, Column, Expr, InList, Lit, Ref, conjunction, conjuncts, references
from dpproxy.tree.relation import Rows

FINEST = 2**20
"""Parts of one in which weights are added up, where their denominators are larger: a sum is off by half a part a report, less
than a thousandth of the noise of devices."""

SIZE_SHARE = 0.1
"""What the number of reports weighs: the variance of devices alone is computed from it."""

TWO = "Ask of each column in a query of its own."
SPLIT = "Divide: sum(x) FILTER (WHERE a) / count(*) FILTER (WHERE a)."
AGGREGATES = "Use count, sum or avg: count(*) FILTER (WHERE x), avg(x::int)."


def concerns(agg: Agg, rows: Rows) -> bool:
    """Tell whether an aggregate over rows looks at a column that devices randomised."""
    return bool(reported.coins(*rows.weighed, agg.where, *agg.args, *(term for term, _, _ in agg.order)))


@dataclass(frozen=True)
class _Weighed:
    """What reports weigh: those that satisfy `said`, and others. `law`: of true values and reports that do. `before`: what a true
    value that does not weighs, `gap`: how much more one that does."""

    column: Column
    law: Law
    said: Expr
    before: Fraction
    gap: Fraction

    @property
    def reports(self) -> tuple[int, int, int]:
        """What a report of yes and one of no weigh, in so many parts of one."""
        law = self.law
        found = [self.before + self.gap * weight for weight in (law.slope + law.offset, law.offset)]
        parts = min(lcm(*(weight.denominator for weight in found)), FINEST)
        yes, no = (round(weight * parts) for weight in found)
        return yes, no, parts

    def case(self, yes: Expr, no: Expr) -> Case:
        """A value by what was reported; NULL where nothing was."""
        return Case(yes.type, ((self.said, yes), (Call("bool", "not", (self.said,)), no)), None)

    def variance(self, estimate: str, reports: str, most: Fraction | None) -> str:
        """The variance that devices make of a sum, as SQL; `most`: what is weighed is that at most, and None where it is 1."""
        law, scale = self.law, self.gap * (most if most is not None else 1)
        if not scale:
            return "0.0"
        n = f"GREATEST({reports}, 1)"
        if most is None and law.per_holder:
            holders = f"LEAST(GREATEST(({estimate} - {_text(self.before)} * {n}) / {_text(self.gap)}, 0), {n})"
            each = f"{_text(law.per_report)} * {n} + {_text(law.per_holder)} * {holders}"
        else:
            each = f"{_text(max(law.per_report, law.per_report + law.per_holder))} * {n}"
        return f"({_text(scale * scale)} * ({each}))"

    @property
    def told(self) -> str:
        """What EXPLAIN and the notice say of it."""
        assert self.column.coin is not None
        law, claim = self.law, self.column.coin.claim
        spread = sqrt(float(max(law.per_report, law.per_report + law.per_holder))) * abs(float(self.gap))
        return (
            f"{self.column.name} randomised on devices by {claim.name}, epsilon {number_text(claim.epsilon)}; "
            f"noise of devices sd {spread:.3g} x sqrt(reports)"
        )


def measured(agg: Agg, rows: Rows, label: str, node: exp.Expr, steps: int) -> Measured:
    """Return the bases and formula of an aggregate that `concerns` is true of. Raises Refusal."""
    first, *more = reported.coins(*rows.weighed, agg.where, *agg.args, *(term for term, _, _ in agg.order))

    def refused(use: str, hint: str) -> Refusal:
        return reported.randomised(first.name, use, hint, reported.place(node, first.name))

    if more:
        raise refused(f"it is not estimated together with `{more[0].name}`", TWO)
    if agg.distinct or agg.name not in ("count", "sum", "avg") or len(agg.args) > 1:
        raise refused(f"{agg.name}({'DISTINCT ...' if agg.distinct else ''}) would tell single answers", AGGREGATES)
    _check_rows(rows, first, node)
    agg = without_case(agg)
    conditions = [*conjuncts(agg.where), *rows.weighed]
    plain = tuple(c for c in conditions if not reported.coins(c))
    mine = tuple(dict.fromkeys(c for c in conditions if reported.coins(c)))
    value = agg.args[0] if agg.args else None
    own = value is not None and bool(reported.coins(value))
    for expr in (*mine, *([value] if own and value is not None else [])):
        if references(expr) != (first,):
            raise refused("one condition or value is of it and constants, joined with others by AND", SPLIT_CONDITION)
    only = conjunction(mine)
    if agg.name == "count" and value is not None and not own and facts(value).nullable:
        plain = (*plain, Call("bool", "is_not_null", (value,)))
    where = conjunction(tuple(dict.fromkeys(plain)))
    try:
        if agg.name == "count":
            asked = conjunction((*mine, *([Call("bool", "is_not_null", (value,))] if own and value is not None else [])))
            assert asked is not None
            return _count(_weighed(asked, first), where, label)
        assert value is not None
        if own:
            number = value if only is None else Case(value.type, ((only, value),), None)
            if agg.name == "avg" and _weighed(Call("bool", "is_not_null", (number,)), first).gap:
                raise refused("AVG is of all answers, or of those that plain columns choose", SPLIT)
            return _sum(_weighed(number, first), None, agg, where, label, steps)
        if agg.name == "avg":
            raise refused("AVG of another column is not estimated by it", SPLIT)
        assert only is not None
        return _sum(_weighed(only, first), value, agg, where, label, steps)
    except NotListed as why:
        raise refused(f"{why} is not estimated", "Compare it with constants: x, NOT x, x = true, x IS TRUE, x::int.") from None


def by_answers(agg: Agg, rows: Rows, column: Column, answer: str, label: str, node: exp.Expr) -> Measured:
    """Return the bases and formula of a count of each true value of a column, which `answer` is in a row: of yes the weights of
    reports, of no the reports less these. Raises Refusal for other aggregates."""
    assert column.coin is not None
    if agg.name != "count" or agg.distinct or concerns(agg, rows):
        use = "its true values are counted, and nothing else is of their groups"
        raise reported.randomised(column.name, use, INSTEAD, reported.place(node, column.name))
    _check_rows(rows, column, node)
    present = tuple(Call("bool", "is_not_null", (a,)) for a in agg.args if facts(a).nullable)
    where, of = conjunction((*conjuncts(agg.where), *present)), _weighed(Ref("bool", column), column)
    total, reports, part = _weights_of(of, where, label)
    yes = _both(of, part, None)

    def half(side: str) -> str:
        more = f"power({{{'h' if side == 'g' else 'g'}0}} * {_text(part)}, 2) + power({{{side}1}}, 2)"
        return f"sqrt(({more} + power({{z}}, 2) * {of.variance(yes.free, '({1} + {n1})', None)})::float8)::numeric"

    no = f"({{1}} - {yes.free})"
    either = [f"CASE WHEN {answer} THEN {a} ELSE {b} END" for a, b in (
        (yes.value, no), (yes.low, f"({no} - {half('g')})"), (yes.high, f"({no} + {half('h')})"),
    )]  # fmt: skip
    value, low, high = either
    needs = frozenset(("g0", "h0", "g1")), frozenset(("g0", "h0", "h1"))
    low = f"GREATEST(floor({low}), 0)"
    found = Range(f"round({value})::int8", low, f"ceil({high})", f"({value})", True, (), True, *needs)
    return replace(
        _made((total, reports), found, "int8", of, part, None), weights=(max(map(abs, (total.lo, total.hi))) * float(part), 1.0)
    )


INSTEAD = "Use a FILTER in place of the key: sum(y) FILTER (WHERE x), sum(y) FILTER (WHERE NOT x)."


def _check_rows(rows: Rows, column: Column, node: exp.Expr) -> None:
    if not rows.one:
        use, hint = (
            "of a person with several rows they may be one answer, repeated",
            "Estimate from a table with one row a person.",
        )
        raise reported.randomised(column.name, use, hint, reported.place(node, column.name))


SPLIT_CONDITION = "Split it: count(*) FILTER (WHERE a) + count(*) FILTER (WHERE b) - count(*) FILTER (WHERE a AND b)."


def _weighed(expr: Expr, column: Column) -> _Weighed:
    """What an expression makes of the reports of a column. Of k values out of many, each reported by p of those who have it and
    by q of others, one is reported by p + (k - 1) q of those who have one, and by k q of others. Raises NotListed."""
    assert column.coin is not None
    coin, own = column.coin, Ref(column.type, column)
    listed, unit = weights(expr, column, coin.values)
    found = [Fraction(weight, unit) for weight in listed.of(coin.values)]
    low, *high = sorted(set(found))
    if isinstance(coin.claim, Binary):
        return _Weighed(column, coin.claim.law, own, found[0], found[1] - found[0])
    if len(high) > 1:
        raise NotListed("a number with three values or more")
    chosen = tuple(Lit(column.type, v) for v, weight in zip(coin.values, found, strict=True) if high and weight == high[0])
    p, q, k = coin.claim.p, coin.claim.q, len(chosen)
    law = direct_law(p + (k - 1) * q, k * q) if chosen else coin.claim.law
    said = InList("bool", own, chosen) if chosen else Call("bool", "is_null", (own,))
    return _Weighed(column, law, said, low, high[0] - low if high else Fraction(0))


def _reports(of: _Weighed, where: Expr | None, label: str) -> BasisSpec:
    """How many reports there are: rows without one are not there."""
    own = Ref(of.column.type, of.column) if of.column.nullable else None
    return BasisSpec("count", own, where, f"reports for {label}")


def _count(of: _Weighed, where: Expr | None, label: str) -> Measured:
    if of.before == 1 and of.gap == 0:
        return Measured((_reports(of, where, label),), COUNTED.value, "int8", "linear", (1.0,), COUNTED)
    total, reports, part = _weights_of(of, where, label)
    found = _both(of, part, None)
    low = f"GREATEST(floor({found.low}), 0)"
    found = replace(found, value=f"round({found.value})::int8", low=low, high=f"ceil({found.high})", positive=True)
    return _made((total, reports), found, "int8", of, part, None)


def _weights_of(of: _Weighed, where: Expr | None, label: str) -> tuple[BasisSpec, BasisSpec, Fraction]:
    """The sum of weights, the number of reports, and the part of one that the sum is in."""
    yes, no, parts = of.reports
    value = of.case(Lit("int8", str(yes)), Lit("int8", str(no)))
    total = BasisSpec("sum", value, where, label, min(yes, no, 0), max(yes, no, 0), parts=parts)
    return total, _reports(of, where, label), Fraction(1, parts)


def _sum(of: _Weighed, value: Expr | None, agg: Agg, where: Expr | None, label: str, steps: int) -> Measured:
    """SUM of what the column says, or of a plain number by it; AVG of the former."""
    yes, no, parts = of.reports
    most, sure = None, (True, True)
    if value is None:
        case, of_type = of.case(Lit("int8", str(yes)), Lit("int8", str(no))), agg.args[0].type
        lo, hi, grid = min(yes, no, 0), max(yes, no, 0), Fraction(1)
    else:
        number, of_type = bounded_argument(agg), value.type
        most, sure = max(map(abs, facts(number).reach.ends)), facts(number).sure
        sure = (all(sure), all(sure))  # one weight is below 0
        type_ = "int8" if of_type in ("int2", "int4", "int8") else of_type
        number = Cast(type_, number) if type_ != number.type else number
        case = of.case(*(Call(type_, "*", (number, Cast(type_, Lit("int8", str(weight))))) for weight in (yes, no)))
        lo, hi, grid = grid_of(case, steps)
        lo, hi = min(lo, 0), max(hi, 0)
    total = BasisSpec("sum", case, where, label, lo, hi, grid, sure=sure, parts=parts)
    found = _both(of, grid / parts, most)
    if agg.name == "avg":
        type_ = "numeric"
        mean = arithmetic.over(found, arithmetic.at_least(arithmetic.basis(1), "1"))
        found = arithmetic.among(arithmetic.rising(mean, lambda x: f"({x})::{type_}"), arithmetic.basis(1), 1)
    else:
        type_ = sum_type(of_type)
        near = (lambda x: f"round({x})") if type_ == "int8" else (lambda x: x)
        found = replace(
            found,
            value=f"{near(found.value)}::{type_}",
            low=_outer("floor", found.low, type_),
            high=_outer("ceil", found.high, type_),
        )
    made = _made((total, _reports(of, where, label)), found, type_, of, grid / parts, most)
    return replace(made, devices=f"({made.devices} / power(GREATEST({{1}}, 1), 2))") if agg.name == "avg" else made


def _outer(function: str, text: str, type_: str) -> str:
    return f"{function}({text})" if type_ == "int8" else text


def _both(of: _Weighed, part: Fraction, most: Fraction | None) -> Range:
    """A sum of weights in parts of one, and ends that hold the noise of devices and the proxy's."""
    scale = _text(part)
    estimate = f"({{0}}::numeric * {scale})"
    devices = of.variance(estimate, "({1} + {n1})", most)

    def half(width: str) -> str:
        return f"sqrt((power({width} * {scale}, 2) + power({{z}}, 2) * {devices})::float8)::numeric"

    low, high = f"({estimate} - {half('{g0}')})", f"({estimate} + {half('{h0}')})"
    needs = frozenset(("g0",)), frozenset(("h0",))
    return Range(estimate, low, high, estimate, True, (), False, *needs)


def _made(bases: Sequence[BasisSpec], found: Range, type_: str, of: _Weighed, part: Fraction, most: Fraction | None) -> Measured:
    weight = float(max(abs(bases[0].lo), abs(bases[0].hi)) * part / (most or 1))
    devices = of.variance(f"({{0}}::numeric * {_text(part)})", "{1}", most)
    return Measured(
        tuple(bases), found.value, type_, "derived", (max(weight, 1.0), SIZE_SHARE), found, devices=devices, noise_told=of.told
    )  # fmt: skip


def _text(number: Fraction) -> str:
    """A rational number as a numeric constant of SQL, with thirty digits."""
    return decimal(Fraction(round(number * 10**30), 10**30)) + "::numeric"
