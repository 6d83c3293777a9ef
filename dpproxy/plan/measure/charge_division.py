"""A statement's charge divided over all its columns, and which noise each measurement gets.

Knows: weights of outputs, shares of epsilon, the role's limits. Must not know: scales, thresholds, data. What is divided is
fixed by the plan alone, and all parts are integers that add up to no more than the charge.

Epsilon is divided so that the largest relative error of the statement's outputs is least (`privacy.epsilon_split`, which also
says what no output gets less than). What an output needs is told by `output_weights` for a nominal group, times the groups that
a unit reaches, times how much smaller a group is than a total. A measurement has Laplace or Gaussian noise; which ones have
which is tried for the statement as a whole, since all Gaussian columns are one vector. Delta is divided evenly over
thresholds and that vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpproxy.amounts import MICRO
from dpproxy.errors import FEATURE_NOT_SUPPORTED, INVALID_PARAMETER_VALUE, Refusal
from dpproxy.plan.context import Context
from dpproxy.plan.measure import output_weights
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.privacy import running_sums
from dpproxy.privacy.epsilon_split import Allocation, Weights, allocate
from dpproxy.privacy.measurement import Vector
from dpproxy.privacy.noise_scale import MechanismName, gaussian_rho

UNKNOWN_GROUPS = 100
"""How many groups undeclared keys are taken to have: only to weigh such a measurement against others of the statement."""

MOST_GROUPS = 100
"""Beyond, a measurement weighs no more: a total beside a value for each of 10,000 groups keeps a tenth of the charge."""


@dataclass(frozen=True)
class Share:
    """What one measurement may spend: `parts` of epsilon, one a column (bases, selections, the choice of groups), those of
    Gaussian bases in proportion to their parts of the vector's rho. `delta_keys` (atto) is for the threshold."""

    parts: tuple[int, ...]
    mechanism: MechanismName
    delta_keys: int


NOTHING = Share((), "laplace", 0)


def charge_of(context: Context) -> int:
    """Return the statement's epsilon in micro-epsilon. Raises Refusal 22023 outside the role's limits."""
    limits = context.role.query
    epsilon = context.settings.epsilon if context.settings.epsilon is not None else limits.epsilon
    if epsilon <= 0 or epsilon > limits.max_epsilon:
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"dpproxy.epsilon must be above 0 and at most {limits.max_epsilon / MICRO:g} for role {context.role.name}",
            hint="SET dpproxy.epsilon = ... within the policy's max_epsilon.",
        )
    return epsilon


def columns_of(compiled: Compiled) -> int:
    """How many columns share a measurement's epsilon: bases, selections each as one, and the choice of groups, last."""
    return len(compiled.specs) + len(compiled.selections) + (compiled.top is not None)


def divided(compiled: Sequence[Compiled], context: Context) -> tuple[list[Share], Vector | None]:
    """Return what each measurement may spend, and what all Gaussian columns together. Raises Refusal when the charge or the
    policy's delta cannot carry it."""
    paying = [c for c in compiled if columns_of(c)]
    if not paying:
        return [NOTHING for _ in compiled], None
    epsilon = charge_of(context)
    thresholds = sum(_undeclared(c) for c in paying)
    cuts = dict(_cuts(paying, epsilon, context))
    asked = [(i, c) for i, c in enumerate(paying) if i not in cuts]
    names, allocation = _best([c for _, c in asked], epsilon - sum(map(sum, cuts.values())), thresholds, context)
    delta = _delta(context, thresholds, names)
    rest, shares, vector = iter(allocation.parts), dict[int, Share](), 0
    for (i, c), name in zip(asked, names, strict=True):
        parts = _in_rounds(c, [next(rest) for _ in range(columns_of(c))])
        shares[i] = Share(parts, name, delta if _undeclared(c) else 0)
        vector += sum(parts[: len(c.specs)]) if name == "gaussian" else 0
    shares |= {i: Share(parts, "laplace", 0) for i, parts in cuts.items()}
    found = iter(shares[i] for i in range(len(paying)))
    return [next(found) if columns_of(c) else NOTHING for c in compiled], Vector(vector, delta) if vector else None


def _in_rounds(compiled: Compiled, parts: list[int]) -> tuple[int, ...]:
    """What the weights of a threshold have is that of both rounds: no output is made of the first one's alone."""
    at = compiled.threshold
    if compiled.first is not None and at is not None:
        both = parts[at] + parts[at + 1]
        parts[at + 1] = max(both * output_weights.FIRST // 100, 1)
        parts[at] = both - parts[at + 1]
    return tuple(parts)


def _delta(context: Context, thresholds: int, names: Sequence[MechanismName]) -> int:
    """Each threshold's and the vector's."""
    needs = thresholds + ("gaussian" in names)
    delta = context.role.query.delta // needs if needs else 0
    if thresholds and delta <= 0:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "grouping by a column without declared values needs a delta, and the policy gives this role none",
            hint="Ask the policy's author to declare the column's values, or to give the role's `query` a `delta`.",
        )
    return delta


def _cuts(paying: Sequence[Compiled], whole: int, context: Context) -> Iterator[tuple[int, tuple[int, ...]]]:
    """What the policy allots to measure what bounds cut is divided evenly over such measurements."""
    cutting = [i for i, c in enumerate(paying) if c.cutting]
    for i in cutting:
        each = whole * context.role.query.measure_bounds // (MICRO * len(cutting))
        yield i, _allocated(Weights.of(columns_of(paying[i]), _rows(paying[i])), each).parts


def _undeclared(compiled: Compiled) -> bool:
    return compiled.threshold is not None or (compiled.top is not None and compiled.bounding.dense is None)


def too_small() -> Refusal:
    return Refusal(
        INVALID_PARAMETER_VALUE,
        "dpproxy.epsilon is too small for this statement",
        hint="SET dpproxy.epsilon to more, or ask for fewer aggregates in one statement.",
    )


def _allocated(weights: Weights, whole: int) -> Allocation:
    if whole < weights.columns:
        raise too_small()
    return allocate(weights, whole)


# --- which noise


def _best(asked: Sequence[Compiled], whole: int, thresholds: int, context: Context) -> tuple[Sequence[MechanismName], Allocation]:
    """The kinds of noise with the smallest largest error for the same charge; the first that is tried when equal."""
    found: list[tuple[float, Sequence[MechanismName], Allocation]] = []
    if not asked:
        raise too_small()
    for names in _choices(asked, context):
        ratio = _gaussian_ratio(whole, context.role.query.delta // (thresholds + 1)) if "gaussian" in names else 0.0
        allocation = _allocated(_weights(asked, names, ratio), whole)
        found.append((allocation.error if ratio < math.inf else math.inf, names, allocation))
    _, names, allocation = min(found, key=lambda tried: tried[0])
    return names, allocation


def _choices(asked: Sequence[Compiled], context: Context) -> Iterator[Sequence[MechanismName]]:
    """Laplace noise for all that may have it; then Gaussian noise for the measurements of which a unit reaches most groups, more
    and more of them. Units that weigh by an l2 norm need Gaussian noise."""
    wanted = context.policy.mechanism
    fixed = {i: name for i, c in enumerate(asked) if (name := _fixed(c, wanted)) is not None}
    reaches = sorted({_reached(c) for i, c in enumerate(asked) if i not in fixed}, reverse=True)
    if not context.role.query.delta:
        reaches = []
    for least in dict.fromkeys([None, *reaches[:1], *reaches[len(reaches) // 2 :][:1], *reaches[-1:]]):
        yield [fixed.get(i, "laplace" if least is None or _reached(c) < least else "gaussian") for i, c in enumerate(asked)]


def _reached(compiled: Compiled) -> float:
    """As many groups of a unit as favour Gaussian noise as much: by their root, which sums over runs have less noise by."""
    return compiled.bounding.reach / _sums_ratio(compiled) ** 2


def _sums_ratio(compiled: Compiled) -> float:
    """How large Gaussian noise of sums over runs is, where it is theirs, in that of groups added up."""
    return running_sums.ratio(compiled.running, compiled.running.width) if compiled.running is not None else 1.0


def _fixed(compiled: Compiled, wanted: str) -> MechanismName | None:
    if not compiled.specs or wanted == "laplace":
        return "laplace"
    by_norm = compiled.bounding.norm == 2 and any(spec.norm(compiled.bounding) for spec in compiled.specs)
    return "gaussian" if wanted == "gaussian" or by_norm else None


def _gaussian_ratio(epsilon: int, delta: int) -> float:
    """The deviation of Gaussian noise for one number, relative to that of Laplace noise of the same charge; infinite where no
    Gaussian noise is proven."""
    try:
        rho = float(gaussian_rho(epsilon, delta))
    except ValueError:
        return math.inf
    return epsilon / MICRO / (2 * math.sqrt(rho)) if rho > 0 else math.inf


# --- weights


def _weights(asked: Sequence[Compiled], names: Sequence[MechanismName], ratio: float) -> Weights:
    """Rows of all outputs over all columns, in units of what Laplace noise of the whole charge does to a number that a unit
    changes by its own."""
    rows: list[dict[int, float]] = []
    gaussian, first = set[int](), 0
    for compiled, name in zip(asked, names, strict=True):
        if name == "gaussian":
            gaussian |= {first + c for c in range(len(compiled.specs))}
        factors = _factors(compiled, name, min(ratio, 1e6))
        smaller = math.sqrt(_groups(compiled))
        rows += [{first + c: w * factors[c] * smaller for c, w in row.items()} for row in _rows(compiled)]
        first += columns_of(compiled)
    return Weights.of(first, rows, gaussian)


def _rows(compiled: Compiled) -> list[dict[int, float]]:
    """A row for each output, one for the groups that a threshold hides, one for the choice of groups."""
    width = columns_of(compiled)
    factor = output_weights.row_factor(compiled.bounding.rows)
    rows = []
    for made in compiled.outputs:
        row: dict[int, float] = {}
        for index, weight in zip(made.bases, made.weights, strict=False):
            row[index] = max(row.get(index, 0.0), weight * (1.0 if compiled.specs[index].kind == "units" else factor))
        if made.selection is not None:
            row[len(compiled.specs) + made.selection] = made.weights[0] * factor
        rows.append(row)
    if compiled.threshold is not None:
        weight = output_weights.WEIGHED_THRESHOLD if compiled.bounding.spread else output_weights.THRESHOLD
        rows.append({compiled.threshold: weight})
    if compiled.top is not None:
        rows.append({width - 1: output_weights.TOP})
    return rows or [dict.fromkeys(range(width), 1.0)]


def _factors(compiled: Compiled, name: MechanismName, ratio: float) -> list[float]:
    """Of each column: by how much its noise exceeds that for one group. Where a column's sensitivity is over all groups together,
    that of others counts for each of the groups; linear columns in proportion to them, Gaussian ones to their root."""
    bounding, reach = compiled.bounding, compiled.bounding.reach
    own = [
        s.sensitivity(bounding) / s.fine(bounding) / max(s.linf(bounding.rows), 1) for s in compiled.specs
    ]  # above 1 for units
    spread = reach if name == "laplace" else math.sqrt(reach)
    kind = 1.0 if name == "laplace" else ratio * _sums_ratio(compiled)
    bases = [kind * (f if s.norm(bounding) else spread) for s, f in zip(compiled.specs, own, strict=True)]
    return [*bases, *(float(reach) for _ in range(columns_of(compiled) - len(bases)))]


def _groups(compiled: Compiled) -> int:
    """Sizes of groups are uneven: the usual one holds more than its even share, taken as 1 / sqrt(groups) of all."""
    dense = compiled.bounding.dense
    if compiled.rest:
        return UNKNOWN_GROUPS  # it may be as small as one of the groups that are there
    if not compiled.keys:
        return 1
    return min(dense.size or UNKNOWN_GROUPS, MOST_GROUPS) if dense else UNKNOWN_GROUPS
