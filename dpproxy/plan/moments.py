"""Variances, correlations and regressions from noisy moments (PRIVACY.md section 3, Aggregates).

Knows: which centred moments each statistic needs and its formula over them. Must not know: noise, engines. Values are centred
at the middle of their bounds, squares again at the middle of theirs, so that every moment is symmetric about 0 and has the
least sensitivity; all statistics of the same inputs share them. Results are clamped to their feasible sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpproxy.plan import nominal
from dpproxy.plan.decimals import decimal
from dpproxy.plan.expr import Call, Expr, Lit, conjunction
from dpproxy.plan.facts import facts
from dpproxy.plan.functions import unsupported
from dpproxy.plan.measure import BasisSpec, grid_of, on_grid
from dpproxy.sql.types import FLOATS

SINGLE = {"var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev"}
PAIRED = {"corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy"}
PAIRED |= {"regr_count", "regr_sxx", "regr_syy", "regr_sxy"}


@dataclass(frozen=True)
class _Input:
    """A value centred at `center`; |value - center| <= half."""

    value: Expr
    centred: Expr
    lo: int
    hi: int
    grid: Fraction
    center: Fraction
    half: Fraction


def _input(value: Expr) -> _Input:
    lo, hi, grid = grid_of(value)
    middle = (lo + hi) // 2
    center = middle * grid
    half = max(hi - middle, middle - lo) * grid
    centred = value if center == 0 else Call(value.type, "-", (value, Lit(_literal_type(value), decimal(center))))
    return _Input(value, centred, lo - middle, hi - middle, grid, center, half)


def _literal_type(value: Expr) -> str:
    return value.type if value.type not in FLOATS else "numeric"


Found = tuple[tuple[BasisSpec, ...], str, str, tuple[float, ...]]


def moments(name: str, arguments: Sequence[Expr], where: Expr | None, label: str) -> Found:
    """Bases, formula, PostgreSQL type of a statistic, and the weights of its bases. Raises Refusal for wrong arguments."""
    wanted = 1 if name in SINGLE else 2
    if len(arguments) != wanted:
        raise unsupported(f"{name}() with {len(arguments)} arguments")
    inputs = [_input(a) for a in arguments]
    present = tuple(Call("bool", "is_not_null", (i.value,)) for i in inputs if facts(i.value).nullable)
    if wanted == 1:
        weights = nominal.DEVIATION if name.startswith("stddev") else nominal.VARIANCE
        squares = _square(inputs[0], where, f"centred squares for {label}")
        return (*mean_bases(arguments[0], where, label), squares), *_single(name, inputs[0], squares), weights
    y, x = inputs
    condition = conjunction((*((where,) if where is not None else ()), *present))
    count = BasisSpec("count", None, condition, f"count for {label}")
    bases = [count, *(_first(i, condition, f"centred sum of {n} for {label}") for n, i in (("y", y), ("x", x)))]
    if name not in ("regr_count", "regr_avgx", "regr_avgy"):
        bases.append(_cross(y, x, condition, f"products of y and x for {label}"))
        bases.append(_square(y, condition, f"centred squares of y for {label}"))
        bases.append(_square(x, condition, f"centred squares of x for {label}"))
    used, formula = _paired(name, y, x, bases)
    type_ = "int8" if name == "regr_count" else "float8"
    return tuple(bases[i] for i in used), formula, type_, tuple(_weight(name, i) for i in used)


def _weight(name: str, index: int) -> float:
    """Of basis `index` of the paired ones, in the statistic `name`."""
    if name == "regr_count":
        return 1.0
    if name in ("regr_avgx", "regr_avgy"):
        return 0.5 if index == 0 else 1.0
    if name in ("regr_sxx", "regr_syy"):
        return nominal.VARIANCE[min(index, 1)]
    squares = nominal.SQUARES if name in ("corr", "regr_r2") else 2 * nominal.SQUARES
    return squares if index > 3 else nominal.COVARIANCE[index]


def mean_bases(value: Expr, where: Expr | None, label: str) -> tuple[BasisSpec, BasisSpec]:
    """Count and centred sum of a bounded value: what AVG, VARIANCE and STDDEV of it have in common."""
    counted = value if facts(value).nullable else None
    return BasisSpec("count", counted, where, f"count for {label}"), _first(_input(value), where, f"centred sum for {label}")


def _first(i: _Input, where: Expr | None, label: str) -> BasisSpec:
    return BasisSpec("sum", i.value, where, label, i.lo, i.hi, i.grid, i.center, mean=True)


def _square(i: _Input, where: Expr | None, label: str) -> BasisSpec:
    """Sum of (x - c)^2 - half^2/2, on a grid of its own."""
    top = i.half * i.half
    lo, hi, grid = on_grid(Fraction(0), top, i.grid * i.grid)
    middle = (lo + hi) // 2
    square = Call("float8", "square", (i.centred,))
    return BasisSpec("sum", square, where, label, lo - middle, hi - middle, grid, middle * grid, mean=True)


def _cross(y: _Input, x: _Input, where: Expr | None, label: str) -> BasisSpec:
    top = y.half * x.half
    lo, hi, grid = on_grid(-top, top, y.grid * x.grid)
    return BasisSpec("sum", Call("float8", "*", (_float(y.centred), _float(x.centred))), where, label, lo, hi, grid, mean=True)


def _float(expr: Expr) -> Expr:
    from dpproxy.plan.expr import Cast

    return expr if expr.type == "float8" else Cast("float8", expr)


_N = "GREATEST({0}, 1)::float8"


def _mean(index: int, i: _Input) -> str:
    """The mean of x - c."""
    bound = decimal(i.half)
    return f"LEAST(GREATEST({{{index}}} * {decimal(i.grid)}::float8 / {_N}, -{bound}), {bound})"


def _mean_square(index: int, spec: BasisSpec, i: _Input) -> str:
    inner = f"{{{index}}} * {decimal(spec.grid)}::float8 / {_N} + {decimal(spec.center)}"
    return f"LEAST(GREATEST({inner}, 0), {decimal(i.half * i.half)})"


def _variance(mean: str, square: str) -> str:
    return f"GREATEST({square} - power({mean}, 2), 0)"


def _single(name: str, i: _Input, squares: BasisSpec) -> tuple[str, str]:
    variance = _variance(_mean(1, i), _mean_square(2, squares, i))
    if not name.endswith("_pop"):
        variance = f"{variance} * {_N} / GREATEST({{0}} - 1, 1)"
    type_ = "float8" if i.value.type in FLOATS else "numeric"
    root = "sqrt" if name.startswith("stddev") else ""
    return f"CAST({root}({variance}) AS {type_})", type_


def _paired(name: str, y: _Input, x: _Input, bases: list[BasisSpec]) -> tuple[list[int], str]:
    """The indexes of the bases a statistic uses, and its formula over those, renumbered."""
    my, mx = _mean(1, y), _mean(2, x)
    if name == "regr_count":
        return [0], "GREATEST({0}, 0)"
    if name == "regr_avgy":
        return [0, 1], f"{decimal(y.center)} + {my}"
    if name == "regr_avgx":
        return [0, 2], f"{decimal(x.center)} + {_mean(1, x)}"
    if name == "regr_sxx":
        return [0, 2, 5], f"{_N} * {_variance(_mean(1, x), _mean_square(2, bases[5], x))}"
    if name == "regr_syy":
        return [0, 1, 4], f"{_N} * {_variance(my, _mean_square(2, bases[4], y))}"
    limit = decimal(y.half * x.half)
    product = f"LEAST(GREATEST({{3}} * {decimal(bases[3].grid)}::float8 / {_N}, -{limit}), {limit})"
    covariance = f"({product} - {my} * {mx})"
    if name == "covar_pop":
        return [0, 1, 2, 3], covariance
    if name == "covar_samp":
        return [0, 1, 2, 3], f"{covariance} * {_N} / GREATEST({{0}} - 1, 1)"
    if name == "regr_sxy":
        return [0, 1, 2, 3], f"{_N} * {covariance}"
    if name in ("regr_slope", "regr_intercept"):
        vx = _variance(mx, _mean_square(4, bases[5], x))
        slope = f"{covariance} / NULLIF({vx}, 0)"
        if name == "regr_slope":
            return [0, 1, 2, 3, 5], slope
        centre = f"({decimal(y.center)} + {my})"
        return [0, 1, 2, 3, 5], f"{centre} - {slope} * ({decimal(x.center)} + {mx})"
    vy, vx = _variance(my, _mean_square(4, bases[4], y)), _variance(mx, _mean_square(5, bases[5], x))
    correlation = f"LEAST(GREATEST({covariance} / NULLIF(sqrt({vx} * {vy}), 0), -1), 1)"
    return [0, 1, 2, 3, 4, 5], correlation if name == "corr" else f"power({correlation}, 2)"
