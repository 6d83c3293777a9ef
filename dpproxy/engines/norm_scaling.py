"""A unit's contributions to all its groups, scaled down together to a norm (`Scaled`; PRIVACY.md section 3, Bounds).

Knows: columns `n{i}`, `t{i}` of a unit in a group, what one may add. Must not know: engines; this SQL is common to all but for
a few `Words`. Let x be a unit's vector of a column over its groups, B = `Scaled.bound`. It is measured as x itself when its
norm is at most B, else as x * B / norm(x): an l1 or l2 norm of at most B either way, which is the sensitivity whatever the
number of groups.

Counts and sums are measured in steps (`Scaled.steps`): the least power of two 2**j by which x must be divided to have a norm
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

from dataclasses import dataclass

from dpproxy.tree.measured import MAX_SIZE as MOST
from dpproxy.tree.measured import Part, Scaled

STEPS = 4096
LOWERED = "0.999999999"
RAISED = "1.000000001"
EXACT = 2**53
"""Whole numbers up to this are doubles. A quotient of such is rounded, but never past a whole number; beyond, sizes are raised
and what is divided by a step is lowered, by far more than doubles can be wrong."""


SMALL = 2**24
"""What all units add is below 2**63 where each adds less than this, and there are fewer than 2**39 of them."""
TURNS = 2**32
ALIKE = ("weight", "units")
"""Kinds of which a unit adds the same to each group it is counted in: they have no steps."""


@dataclass(frozen=True)
class Words:
    """What engines call the type of doubles, and how they write a double cut off to BIGINT, the floor of one of at least 0 where
    that is compared or cut off, and a sum of BIGINT that cannot overflow. `still`: whether a relation that a statement reads
    twice has the same rows both times; where it may not, a unit's groups and what bounds them are read at once. `norm`: a sum of
    sizes in a type that is compared at little cost, good up to EXACT. `once`: what keeps a table expression from being computed
    by each of its readers. `steps`: columns of steps by whose values together parts are summed first. `small`: a sum of BIGINTs
    below SMALL, where that costs less than any other. `turn`: a hash and a whole number below TURNS as one BIGINT in whose order
    the first few are kept, where `min(..., n)` keeps these at less cost than ranking all. `divided`: the whole part of a quotient
    of BIGINTs."""

    double: str = "DOUBLE PRECISION"
    cut: str = "CAST(trunc({}) AS BIGINT)"
    floor: str = "floor({})"
    added: str = "sum({})"
    still: bool = True
    norm: str = "{}"
    once: str = ""
    steps: int = 2
    small: str = ""
    turn: str = ""
    divided: str = ""


COMMON = Words()


def norm(part: Scaled, words: Words = COMMON) -> str:
    """Write the sum over a unit's groups of sizes (l1) or of their squares (l2)."""
    if part.kind in ALIKE:
        counted = _counted_in(part)
        return "count(*)" if counted == "1" else words.added.format(counted)
    size = _size(part, words)
    total = words.added.format(size if part.norm == 1 else f"{size} * {size}")
    return words.norm.format(total) if _most(part, part.steps - 1) < EXACT else total


def added(part: Part | None, text: str, words: Words = COMMON) -> str:
    """Write the sum of what units add to a group as that part."""
    small = isinstance(part, Scaled) and part.bound * part.fine < SMALL
    return (words.small or words.added if small else words.added).format(text)


def alone(part: Scaled, words: Words = COMMON) -> str:
    """Write the same of a unit with one group."""
    size = _size(part, words)
    return size if part.norm == 1 else f"{size} * {size}"


def decided(part: Scaled, words: Words = COMMON) -> list[str]:
    """Write what a unit's norm, in `s{i}`, decides for all its groups: `m{i}`, 2**j of its step, of columns with steps; `y{i}`,
    what it adds to each group it is counted in, of columns that count it once there."""
    if part.steps > 1:
        return [f"{step(part)} AS m{part.index}"]
    return [f"{_weight(part, words)} AS y{part.index}"] if part.kind in ALIKE else []


def step(part: Scaled) -> str:
    """Write 2**j of the unit's step, of columns with steps."""
    arms = (f"WHEN s{part.index} <= {_most(part, j)} THEN {1 << j}" for j in range(part.steps - 1))
    return f"CASE {' '.join(arms)} ELSE {1 << part.steps - 1} END"


def partial(part: Scaled, words: Words = COMMON) -> str:
    """Write a unit's contribution to a group in `fine` parts of a grid unit, as BIGINT; the norm is in `s{counter}`, and what
    `decided` writes beside it."""
    i, fine, bound = part.index, part.fine, _bound(part)
    if part.kind in ALIKE:
        return f"y{i}" if (counted := _counted_in(part)) == "1" else f"{counted} * y{i}"
    whole = f"n{i}" if part.kind == "count" else f"coalesce(t{i}, 0)"
    held = f"{_held(part, words)} * {fine}"
    first = f"WHEN s{part.counter} <= {_most(part, 0)} THEN CAST({whole} AS BIGINT) * {fine}"
    last = f"ELSE {words.cut.format(f'{held} * ({bound} * {LOWERED} / {_root(part, words)})')}"
    if words.divided and part.steps > 1 and part.bound * fine << part.steps <= EXACT:  # the same numbers as of doubles
        divided = words.divided.format(f"CAST({whole} AS BIGINT) * {fine}", f"m{i}")
        return f"CASE WHEN s{i} <= {_most(part, part.steps - 1)} THEN {divided} {last} END"
    lowered = "" if part.bound * fine << part.steps <= EXACT else f" * {LOWERED}"
    divided = words.cut.format(f"{held}{lowered} / m{i}")
    between = f" WHEN s{i} <= {_most(part, part.steps - 1)} THEN {divided}" if part.steps > 1 else ""
    return f"CASE {first}{between} {last} END"


def _weight(part: Scaled, words: Words) -> str:
    """Write what a unit adds, as BIGINT, to each group it is counted in: the norm is that of zeros and ones."""
    i, fine, bound = part.index, part.fine, _bound(part)
    if part.kind == "units" and part.norm == 2:  # of numbers that are 0 or 1 the squares add up to what they add up to
        bound, scaled = part.rows, f"sqrt({part.rows} * {LOWERED} / CAST(s{i} AS {words.double}))"
    else:
        bound, scaled = _most(part, 0), f"({bound} * {LOWERED} / {_root(part, words)})"
    return f"CASE WHEN s{i} <= {bound} THEN CAST({fine} AS BIGINT) ELSE {words.cut.format(f'{fine} * {scaled}')} END"


def _root(part: Scaled, words: Words) -> str:
    measure = f"CAST(s{part.counter} AS {words.double})"
    return measure if part.norm == 1 else f"sqrt({measure})"


def _counted_in(part: Scaled) -> str:
    """Write 1 where a group counts the unit, else 0: a weight not where an earlier round has found the group."""
    tested = f"CASE WHEN n{part.index} > 0 THEN 1 ELSE 0 END" if part.tested else "1"
    return "fresh" if part.fresh else tested


def _most(part: Scaled, step: int) -> int:
    """The largest norm, as it is added up, of that step."""
    bound = _bound(part) << step
    return bound if part.norm == 1 else bound * bound


def _counted(part: Scaled) -> bool:
    """Whether the norm is that of the numbers of rows."""
    return part.kind == "count" or part.mean


def _bound(part: Scaled) -> int:
    """The largest norm, in the unit of sizes."""
    if part.kind == "weight":
        return 1
    return part.rows if _counted(part) or part.kind == "units" else STEPS


def _size(part: Scaled, words: Words) -> str:
    i = part.index
    if part.kind in ALIKE:
        return f"({_counted_in(part)})"
    if _counted(part):
        return f"CASE WHEN n{i} > {MOST} THEN {MOST} ELSE n{i} END"
    linf = max(part.bound, 1)
    parts = words.floor.format(f"abs({_double(i, words)}) * {STEPS}{'' if linf <= EXACT else f' * {RAISED}'} / {linf}")
    return f"CASE WHEN coalesce(t{i}, 0) = 0 THEN 0 WHEN {parts} < {MOST - 1} THEN CAST({parts} AS BIGINT) + 1 ELSE {MOST} END"


def _held(part: Scaled, words: Words) -> str:
    """What is scaled of a count or a sum, as a double within what sizes can say."""
    i = part.index
    if part.kind == "count":
        return f"CAST(CASE WHEN n{i} > {MOST} THEN {MOST} ELSE n{i} END AS {words.double})"
    most = MOST * max(part.row, 1) if part.mean else (MOST - 1) * max(part.bound, 1) // STEPS
    return f"greatest(least({_double(i, words)}, {float(most)!r}), {-float(most)!r})"


def _double(i: int, words: Words) -> str:
    return f"CAST(coalesce(t{i}, 0) AS {words.double})"
