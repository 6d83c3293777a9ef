"""A unit's contributions to all its groups, scaled down together to a norm (`Bounding.norm`; PRIVACY.md section 3, Bounds).

Knows: columns `n{i}`, `t{i}` of a unit in a group (`bounding`), what one may add. Must not know: engines; this SQL is common
to all. Let x be a unit's vector of a column over its groups, B = linf. It is measured as x itself when its norm is at most
B, else as x * B / norm(x): an l1 or l2 norm of at most B either way, which is the sensitivity whatever the number of groups.

Counts and sums are measured in steps (`BasisSpec.steps`): the least power of two 2**j by which x must be divided to have a norm
of at most B is the unit's step, x / 2**j is measured, in column j of the basis. The unit changes that column alone, by a
norm of at most B: as one vector over groups and steps its contribution has that norm, and the noise is the same as if
there were one column. Multiplied by 2**j and added up, the columns give back what was cut - at 2**j times the noise, so
that they are only taken as far as they are more than noise (`mechanisms.step_columns`). Beyond the last step x is scaled to B.

What is rounded, is rounded down. Norms are added up from whole numbers, so that the order of rows changes nothing: counts
as they are, sums as their size in 4096ths of B, rounded up. Weights are doubles, each operation good to 3e-16, and lowered
by 1e-9; products are truncated. A mean's sum is scaled by the weight of its count: of n rows, some of which add up to t,
|t| <= n m, so the norm of t is at most m times that of n, and B of the one is m times B of the other.
"""

from __future__ import annotations

from dpproxy.plan.measure.specs import BasisSpec, Bounding

MOST = 2**31 - 1
"""Sizes are held here: their squares fit 64 bits, and what is held is also what is scaled."""

STEPS = 4096
LOWERED = "0.999999999"
RAISED = "1.000000001"
EXACT = 2**53
"""Whole numbers up to this are doubles. A quotient of such is rounded, but never past a whole number; beyond, sizes are raised
and what is divided by a step is lowered, by far more than doubles can be wrong."""


def norm(spec: BasisSpec, i: int, bounding: Bounding) -> str:
    """Write the sum over a unit's groups of sizes (l1) or of their squares (l2); empty for columns that are not scaled."""
    which = spec.norm(bounding)
    if not which or not spec.scaled or spec.round == 1:
        return ""
    if spec.round == 2:
        return "sum(fresh)"
    if spec.kind == "weight" or _present(spec, i) == "1":
        return "count(*)"
    size = _size(spec, i, bounding)
    return f"sum({size})" if which == 1 else f"sum({size} * {size})"


def step(spec: BasisSpec, i: int, bounding: Bounding) -> str:
    """Write 2**j of the unit's step, from its norm in `s{i}`; empty for columns without steps."""
    count = spec.steps(bounding)
    if count == 1:
        return ""
    arms = (f"WHEN s{i} <= {_most(spec, bounding, j)} THEN {1 << j}" for j in range(count - 1))
    return f"CASE {' '.join(arms)} ELSE {1 << count - 1} END"


def partial(spec: BasisSpec, i: int, counter: int, bounding: Bounding) -> str:
    """Write a unit's contribution to a group in `fine` parts of a grid unit, as BIGINT; the norm is in `s{counter}`."""
    fine, bound, count = spec.fine(bounding), _bound(spec, bounding), spec.steps(bounding)
    whole = {"weight": _weight(spec), "count": f"n{i}", "units": _present(spec, i)}.get(spec.kind, f"coalesce(t{i}, 0)")
    if spec.kind == "units" and bounding.norm == 2:  # of numbers that are 0 or 1 the squares add up to what they add up to
        return _of_units(i, spec, bounding, whole)
    measure = f"CAST(s{counter} AS DOUBLE PRECISION)"
    root = measure if bounding.norm == 1 else f"sqrt({measure})"
    held = f"{_held(spec, i, bounding)} * {fine}"
    first = f"WHEN s{counter} <= {_most(spec, bounding, 0)} THEN CAST({whole} AS BIGINT) * {fine}"
    last = f"ELSE CAST(trunc({held} * ({bound} * {LOWERED} / {root})) AS BIGINT)"
    lowered = "" if spec.linf(bounding.rows) * fine << count <= EXACT else f" * {LOWERED}"
    divided = f"CAST(trunc({held}{lowered} / m{i}) AS BIGINT)"
    between = f" WHEN s{i} <= {_most(spec, bounding, count - 1)} THEN {divided}" if count > 1 else ""
    return f"CASE {first}{between} {last} END"


def _weight(spec: BasisSpec) -> str:
    """What a unit weighs in a group before it is scaled: nothing where an earlier round has found the group."""
    return "fresh" if spec.round == 2 else "1"


def _most(spec: BasisSpec, bounding: Bounding, step: int) -> int:
    """The largest norm, as it is added up, of that step."""
    bound = _bound(spec, bounding) << step
    return bound if bounding.norm == 1 else bound * bound


def _of_units(i: int, spec: BasisSpec, bounding: Bounding, present: str) -> str:
    fine, measure = spec.fine(bounding), f"CAST(s{i} AS DOUBLE PRECISION)"
    weight = f"{present} * {fine} * sqrt({bounding.rows} * {LOWERED} / {measure})"
    return f"CASE WHEN s{i} <= {bounding.rows} THEN CAST({present} AS BIGINT) * {fine} ELSE CAST(trunc({weight}) AS BIGINT) END"


def _present(spec: BasisSpec, i: int) -> str:
    """1 in groups where a unit is counted, for columns of units."""
    if spec.kind != "units":
        return ""
    return "1" if spec.where is None and spec.value is None else f"CASE WHEN n{i} > 0 THEN 1 ELSE 0 END"


def _counted(spec: BasisSpec) -> bool:
    """Whether the norm is that of the numbers of rows."""
    return spec.kind == "count" or spec.mean


def _bound(spec: BasisSpec, bounding: Bounding) -> int:
    """The largest norm, in the unit of sizes."""
    if spec.kind == "weight":
        return 1
    return bounding.rows if _counted(spec) or spec.kind == "units" else STEPS


def _size(spec: BasisSpec, i: int, bounding: Bounding) -> str:
    if spec.kind == "units":
        return f"({_present(spec, i)})"
    if _counted(spec):
        return f"CASE WHEN n{i} > {MOST} THEN {MOST} ELSE n{i} END"
    linf = max(spec.linf(bounding.rows), 1)
    parts = f"floor(abs({_double(i)}) * {STEPS}{'' if linf <= EXACT else f' * {RAISED}'} / {linf})"
    return f"CASE WHEN coalesce(t{i}, 0) = 0 THEN 0 WHEN {parts} < {MOST - 1} THEN CAST({parts} AS BIGINT) + 1 ELSE {MOST} END"


def _held(spec: BasisSpec, i: int, bounding: Bounding) -> str:
    """What is scaled, as a double within what sizes can say."""
    if spec.kind == "weight":
        return _weight(spec)
    if spec.kind == "units":
        return f"({_present(spec, i)})"
    if spec.kind == "count":
        return f"CAST(CASE WHEN n{i} > {MOST} THEN {MOST} ELSE n{i} END AS DOUBLE PRECISION)"
    row = max(abs(spec.lo), abs(spec.hi), 1)
    most = MOST * row if spec.mean else (MOST - 1) * max(spec.linf(bounding.rows), 1) // STEPS
    return f"greatest(least({_double(i)}, {float(most)!r}), {-float(most)!r})"


def _double(i: int) -> str:
    return f"CAST(coalesce(t{i}, 0) AS DOUBLE PRECISION)"
