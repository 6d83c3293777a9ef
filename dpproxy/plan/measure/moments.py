"""Variances, correlations and regressions from noisy moments (PRIVACY.md section 3, Aggregates).

Knows: which centred moments each statistic needs and its formula over them. Must not know: noise, engines. Values are centred
at the middle of their bounds, squares again at the middle of theirs, so that every moment is symmetric about 0 and has the
least sensitivity; all statistics of the same inputs share them. Results are clamped to their feasible sets.

Where a person's rows weigh together over all groups (`whole`: `bounds: { rows: n }`), moments are measured in steps of their own
size, as counts and sums are (`engines.norm_scaling`). What counts then is how large they are, not how large they may be: values
are taken from the number of their bounds that is nearest to 0, and squares as they are. So no moment is less than nothing, where
the bounds have one sign; the first is the one of sum(x); and the noise of avg(x) is that of sum(x) / count(*).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dpproxy.plan.intervals import arithmetic
from dpproxy.plan.intervals.arithmetic import Range
from dpproxy.plan.measure import output_weights
from dpproxy.plan.measure.specs import CONTRIBUTION_STEPS, BasisSpec, Sure
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.grid import FINEST, FINEST_PRODUCTS, MOST_CLASSES, doublings, grid_of, on_grid
from dpproxy.plan.refusals import OTHER_ARGUMENTS, unsupported
from dpproxy.sql.types import FLOATS, decimal
from dpproxy.tree.expr import Call, Cast, Expr, Lit, conjunction

SINGLE = {"var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"}
PAIRED = {"corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy"}
PAIRED |= {"regr_count", "regr_sxx", "regr_syy", "regr_sxy"}

VALUES, MOMENTS, PRODUCTS = CONTRIBUTION_STEPS - 1, MOST_CLASSES // 2, MOST_CLASSES
"""Doublings of values that are measured in classes: of those that are added up and averaged; of those of a statistic, and of
products of two such, which reach as far. Were the ones cut earlier than the others, it would be of nobody's values."""


@dataclass(frozen=True)
class Centred:
    """A value centred at `center`; |value - center| <= half, on each side where that is `sure`."""

    value: Expr
    centred: Expr
    lo: int
    hi: int
    grid: Fraction
    center: Fraction
    half: Fraction
    sure: Sure
    classes: bool

    @property
    def both(self) -> bool:
        """Tell whether no value is further from the centre."""
        return all(self.sure)


def centred(value: Expr, steps: int, whole: bool = False) -> Centred:
    """Return a value about the middle of its bounds; about the number nearest to 0 in them where contributions are `whole`."""
    classes = whole and not all(facts(value).sure)
    lo, hi, grid = grid_of(value, min(steps, FINEST) if classes else steps)
    middle = min(max(lo, 0), hi) if whole else (lo + hi) // 2
    center = middle * grid
    half = max(hi - middle, middle - lo) * grid
    centred = value if center == 0 else Call(value.type, "-", (value, Lit(_literal_type(value), decimal(center))))
    return Centred(value, centred, lo - middle, hi - middle, grid, center, half, facts(value).sure, classes)


def _literal_type(value: Expr) -> str:
    return value.type if value.type not in FLOATS else "numeric"


Found = tuple[tuple[BasisSpec, ...], Range, str, tuple[float, ...]]


def moments(name: str, arguments: Sequence[Expr], where: Expr | None, label: str, steps: int, whole: bool = False) -> Found:
    """Return the bases, formula and PostgreSQL type of a statistic, and the weights of its bases. Raises Refusal for wrong
    arguments."""
    inputs, bases = _needed(name, arguments, where, label, steps, whole)
    if name in SINGLE:
        weights = output_weights.DEVIATION if name.startswith("stddev") else output_weights.VARIANCE
        return bases, *_single(name, inputs[0], bases[2]), weights
    places = used(name)
    y, x = inputs
    formula = _paired(name, y, x, bases)
    if name != "regr_count":
        formula = arithmetic.among(formula, arithmetic.basis(0), 2 if name == "covar_samp" else 1)
    type_ = "int8" if name == "regr_count" else "float8"
    return tuple(bases[i] for i in places), formula, type_, tuple(_weight(name, i) for i in places)


def needed(
    name: str, arguments: Sequence[Expr], where: Expr | None, label: str, steps: int, whole: bool = False
) -> tuple[BasisSpec, ...]:
    """Return the bases alone, for a tenth of the work. Raises Refusal as `moments` does."""
    bases = _needed(name, arguments, where, label, steps, whole)[1]
    return bases if name in SINGLE else tuple(bases[i] for i in used(name))


def _needed(
    name: str, arguments: Sequence[Expr], where: Expr | None, label: str, steps: int, whole: bool
) -> tuple[list[Centred], tuple[BasisSpec, ...]]:
    """The inputs and what is summed of them: of two also what the statistic does not use, in places of their own."""
    wanted = 1 if name in SINGLE else 2
    if len(arguments) != wanted:
        raise unsupported(f"{name}() with {len(arguments)} arguments", OTHER_ARGUMENTS)
    inputs = [centred(a, steps, whole) for a in arguments]
    if wanted == 1:
        squares = _square(inputs[0], where, f"centred squares for {label}", steps, _counted(arguments[0]), whole)
        return inputs, (*mean_bases(arguments[0], where, label, steps, whole, MOMENTS), squares)
    y, x = inputs
    present = tuple(Call("bool", "is_not_null", (i.value,)) for i in inputs if facts(i.value).nullable)
    condition = conjunction((*((where,) if where is not None else ()), *present))
    count = BasisSpec("count", None, condition, f"count for {label}", mean=True)
    bases = [count, *(_first(i, condition, f"centred sum of {n} for {label}", None, whole) for n, i in (("y", y), ("x", x)))]
    if name not in ("regr_count", "regr_avgx", "regr_avgy"):
        bases.append(_cross(y, x, condition, f"products of y and x for {label}", steps, whole))
        bases.append(_square(y, condition, f"centred squares of y for {label}", steps, None, whole))
        bases.append(_square(x, condition, f"centred squares of x for {label}", steps, None, whole))
    return inputs, tuple(bases)


_COVARIANCE, _REGRESSION, _ALL = (0, 1, 2, 3), (0, 1, 2, 3, 5), (0, 1, 2, 3, 4, 5)
_USED = {"regr_count": (0,), "regr_avgy": (0, 1), "regr_avgx": (0, 2), "regr_sxx": (0, 2, 5), "regr_syy": (0, 1, 4)}
_USED |= dict.fromkeys(("covar_pop", "covar_samp", "regr_sxy"), _COVARIANCE)
_USED |= dict.fromkeys(("regr_slope", "regr_intercept"), _REGRESSION)


def used(name: str) -> tuple[int, ...]:
    """Which of a pair's bases a statistic uses: count, sums of y and x, products, squares of y and x."""
    return _USED.get(name, _ALL)


def _weight(name: str, index: int) -> float:
    """Of basis `index` of the paired ones, in the statistic `name`."""
    if name == "regr_count":
        return 1.0
    if name in ("regr_avgx", "regr_avgy"):
        return 0.5 if index == 0 else 1.0
    if name in ("regr_sxx", "regr_syy"):
        return output_weights.VARIANCE[min(index, 1)]
    squares = output_weights.SQUARES if name in ("corr", "regr_r2") else 2 * output_weights.SQUARES
    return squares if index > 3 else output_weights.COVARIANCE[index]


def mean_bases(
    value: Expr, where: Expr | None, label: str, steps: int, whole: bool = False, most: int = VALUES
) -> tuple[BasisSpec, BasisSpec]:
    """Count and centred sum of a bounded value: what AVG, VARIANCE and STDDEV of it have in common."""
    counted = _counted(value)
    first = _first(centred(value, steps, whole), where, f"centred sum for {label}", counted, whole, most)
    return BasisSpec("count", counted, where, f"count for {label}", mean=True), first


def _counted(value: Expr) -> Expr | None:
    return value if facts(value).nullable else None


def _first(i: Centred, where: Expr | None, label: str, counted: Expr | None, whole: bool, most: int = MOMENTS) -> BasisSpec:
    label, rest = label.replace("centred sum", "sum") if whole and not i.center else label, None if whole else counted
    made = BasisSpec("sum", i.value, where, label, i.lo, i.hi, i.grid, i.center, not whole, rest, sure=i.sure)
    return in_classes(made, most) if i.classes else made


def in_classes(spec: BasisSpec, most: int) -> BasisSpec:
    """Return a sum whose values are measured in classes, by size, since nothing says how large they are."""
    return replace(spec, doublings=doublings(spec.lo, spec.hi, most))


def _square(i: Centred, where: Expr | None, label: str, steps: int, counted: Expr | None, whole: bool) -> BasisSpec:
    """Sum of (x - c)^2 - half^2/2, on a grid of its own; where contributions are whole, of (x - c)^2."""
    top = i.half * i.half
    lo, hi, grid = on_grid(Fraction(0), top, i.grid * i.grid, min(steps, FINEST_PRODUCTS) if i.classes else steps)
    middle = 0 if whole else (lo + hi) // 2
    square = Call("float8", "square", (i.centred,))
    ends, rest = (True, i.both), None if whole else counted  # what is held nearer the centre has a lesser square
    made = BasisSpec("sum", square, where, label, lo - middle, hi - middle, grid, middle * grid, not whole, rest, sure=ends)
    return in_classes(made, PRODUCTS) if i.classes else made


def _cross(y: Centred, x: Centred, where: Expr | None, label: str, steps: int, whole: bool) -> BasisSpec:
    corners = [a * b * y.grid * x.grid for a in (y.lo, y.hi) for b in (x.lo, x.hi)]
    top = y.half * x.half
    classes = y.classes or x.classes
    steps = min(steps, FINEST_PRODUCTS) if classes else steps
    lo, hi, grid = on_grid(min(corners) if whole else -top, max(corners) if whole else top, y.grid * x.grid, steps)
    positive = all(i.lo >= 0 and i.sure[0] for i in (y, x))
    product, both = Call("float8", "*", (_float(y.centred), _float(x.centred))), y.both and x.both
    made = BasisSpec("sum", product, where, label, lo, hi, grid, mean=not whole, sure=(both or positive, both))
    return in_classes(made, PRODUCTS) if classes else made


def _float(expr: Expr) -> Expr:
    return expr if expr.type == "float8" else Cast("float8", expr)


def _present() -> Range:
    """GREATEST(count, 1), in floats."""
    return arithmetic.rising(arithmetic.at_least(arithmetic.basis(0), "1"), lambda x: f"{x}::float8")


def _mean(index: int, i: Centred) -> Range:
    """The mean of x - c."""
    low, high = (Fraction(0) if i.lo >= 0 else -i.half, Fraction(0) if i.hi <= 0 else i.half)
    return arithmetic.named(arithmetic.clamped(_per_row(index, i.grid), decimal(low), decimal(high), i.sure))


def _per_row(index: int, grid: Fraction) -> Range:
    return arithmetic.over(arithmetic.scaled(arithmetic.basis(index), f"{decimal(grid)}::float8"), arithmetic.named(_present()))


def _mean_square(index: int, spec: BasisSpec, i: Centred) -> Range:
    inner = arithmetic.plus(_per_row(index, spec.grid), arithmetic.constant(decimal(spec.center)))
    return arithmetic.named(arithmetic.clamped(inner, "0", decimal(i.half * i.half), spec.sure))


def _variance(mean: Range, square: Range) -> Range:
    found = arithmetic.at_least(arithmetic.minus(square, arithmetic.named(arithmetic.squared(mean))), "0")
    return arithmetic.named(replace(found, positive=True))


def _sampled(a: Range) -> Range:
    """Times n / (n - 1), which falls with n from 2 on."""

    def ratio(n: str) -> str:
        return f"GREATEST({n}, 1)::float8 / GREATEST({n} - 1, 1)"

    n = arithmetic.basis(0)
    times = Range(ratio(n.value), ratio(n.high), ratio(f"GREATEST({n.low}, 2)"), ratio(n.free), positive=True)
    return arithmetic.growing(a, times) if a.positive else arithmetic.times(a, times)


def _single(name: str, i: Centred, squares: BasisSpec) -> tuple[Range, str]:
    found = _variance(_mean(1, i), _mean_square(2, squares, i))
    if not name.endswith("_pop"):
        found = _sampled(found)
    type_ = "float8" if i.value.type in FLOATS else "numeric"
    root = "sqrt" if name.startswith("stddev") else ""
    held = arithmetic.rising(found, lambda x: f"CAST({root}({x}) AS {type_})")
    return arithmetic.among(held, arithmetic.basis(0), 1 if name.endswith("_pop") else 2), type_


def _paired(name: str, y: Centred, x: Centred, bases: Sequence[BasisSpec]) -> Range:
    """The formula of a statistic over the bases it uses (`_used`), numbered among those."""
    if name == "regr_count":
        return arithmetic.at_least(arithmetic.basis(0), "0")
    if name in ("regr_avgy", "regr_avgx"):
        i = y if name == "regr_avgy" else x
        return _centred(_mean(1, i), i)
    if name in ("regr_sxx", "regr_syy"):
        i, squares = (x, bases[5]) if name == "regr_sxx" else (y, bases[4])
        return replace(arithmetic.times(_present(), _variance(_mean(1, i), _mean_square(2, squares, i))), positive=True)
    covariance = _covariance(y, x, bases[3])
    if name == "covar_pop":
        return covariance
    if name == "covar_samp":
        return _sampled(covariance)
    if name == "regr_sxy":
        return arithmetic.times(_present(), covariance)
    if name in ("regr_slope", "regr_intercept"):
        slope = arithmetic.named(arithmetic.divided(covariance, _variance(_mean(2, x), _mean_square(4, bases[5], x))))
        needs = _per_row(2, x.grid).needs | _per_row(4, bases[5].grid).needs  # else the variance may be nothing
        slope = replace(slope, low_needs=needs, high_needs=needs)
        if name == "regr_slope":
            return slope
        return arithmetic.minus(_centred(_mean(1, y), y), arithmetic.times(slope, _centred(_mean(2, x), x)))
    variances = (_variance(_mean(1, y), _mean_square(4, bases[4], y)), _variance(_mean(2, x), _mean_square(5, bases[5], x)))
    correlation = _correlation(covariance, *variances)
    return correlation if name == "corr" else arithmetic.squared(correlation)


def _centred(mean: Range, i: Centred) -> Range:
    return arithmetic.plus(arithmetic.constant(decimal(i.center)), mean)


def _covariance(y: Centred, x: Centred, products: BasisSpec) -> Range:
    limit = decimal(y.half * x.half)
    product = arithmetic.clamped(_per_row(3, products.grid), f"-{limit}", limit, products.sure)
    return arithmetic.named(arithmetic.minus(product, arithmetic.times(_mean(1, y), _mean(2, x))))


def _correlation(covariance: Range, vy: Range, vx: Range) -> Range:
    """Within +-1; NULL where a variance is nothing, as PostgreSQL has it (LEAST and GREATEST would pass over the NULL)."""
    both = arithmetic.named(arithmetic.rising(arithmetic.growing(vy, vx), lambda x: f"sqrt({x})"))
    found = arithmetic.clamped(arithmetic.divided(covariance, both), "-1", "1")
    return arithmetic.named(replace(found, value=f"CASE WHEN {both.value} > 0 THEN {found.value} END"))
