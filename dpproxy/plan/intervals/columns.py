"""The columns of a released source that intervals are made of: half-widths, deviations, excesses of its noise.

Knows: what an `writer.IntervalWriter` has asked for, how rows of the source come about: released cells, sums of them, or
weighted sums. Must not know: data, scales, which calls of `numbers` stand for until the whole statement is planned.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.plan.intervals.ends import End, column_ends, sum_ends, whole_ends
from dpproxy.plan.intervals.numbers import DEVIATION, EXCESS, HALF, NORMAL, TAU, WHOLE
from dpproxy.plan.intervals.writer import MANY_GROUPS, IntervalWriter
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.privacy.noise_error import GROWTH, step_growth

OPEN = "NULL::numeric"
UNBOUNDED = 2**60
"""What is released of later steps where nothing is known of them (`mechanisms.step_columns`)."""


@dataclass(frozen=True)
class Adjusted:
    """Cells of a source that are weighted sums of what several measurements released (`rollup`, `margins`): column `w{basis}` is
    their variance, and rounding has moved them by `rounding` grid units at most. At one variance no weighted sum of noise has
    longer tails than the longest of those it is made of."""

    measurements: tuple[int, ...]
    rounding: float


def error_columns(
    writer: IntervalWriter,
    made: Compiled,
    measurement: int,
    cells: int,
    summed: bool = False,
    adjusted: Adjusted | None = None,
) -> list[str]:
    """Select items `call AS column`; a row of the source is the sum of `cells` released cells, of several rows if `summed`, or it
    is `adjusted`."""

    def grown(call: str, i: int, form: str) -> str:
        last = f"max(t{i})" if summed else f"t{i}"
        return form.format(f"{call} * {GROWTH.format(last)}") if writer.stepped(i) else call

    def half(i: int, shares: int) -> str:
        call = f"{HALF}({measurement}, {i}, {shares * among}, {cells})"
        if adjusted is not None:
            calls = (f"{HALF}({m}, {i}, {shares * among}, 1) / {DEVIATION}({m}, {i}, 1)" for m in adjusted.measurements)
            return f"ceil(GREATEST({', '.join(calls)}) * sqrt(w{i}) + {adjusted.rounding - WHOLE})::numeric"
        return grown(call, i, "ceil({} + 0.5)::numeric")  # what is drawn in parts of a grid unit is rounded

    def hidden(i: int, shares: int, sign: str) -> str:
        later, growth = f"sum(x{i})" if summed else f"x{i}", step_growth(made.specs[i].steps(made.bounding) - 1)
        whole = f"ceil({HALF}({measurement}, {i}, {shares * among}, {cells}) * {growth!r} + {1 + summed * cells})::numeric"
        return f"CASE WHEN {later} < {UNBOUNDED} THEN GREATEST({sign}{later}, 0) + {whole} END"

    def deviation(i: int) -> str:
        if adjusted is not None:
            return f"sqrt(w{i} + {adjusted.rounding} / 6.0::float8)"
        return grown(f"{DEVIATION}({measurement}, {i}, {cells})", i, "{}")

    found, among = [], _among(made, writer)
    for i, k in sorted(writer.halves):
        noise, ends = half(i, k), column_ends(made, made.specs[i])

        def width(end: End, sign: str, i: int = i, k: int = k, noise: str = noise) -> str:
            if end.is_open:
                return OPEN
            return hidden(i, k, sign) if end.hidden else noise

        low = (
            _passed(made, measurement, i, half(i, 2 * k))
            if made.threshold == i and not ends.low.is_open
            else width(ends.low, "-")
        )
        found += [f"{low} AS g{i}_{k}", f"{noise} AS n{i}_{k}", f"{width(ends.high, '')} AS h{i}_{k}"]
    for i in sorted(writer.sums):
        ends = sum_ends(made, made.specs[i])
        found += [f"{str(not ends.low.is_open).lower()} AS gs{i}", f"{str(not ends.high.is_open).lower()} AS hs{i}"]
        for letter, ordered in (("a", False), ("o", True)):
            over = whole_ends(made, made.specs[i], ordered)
            found += [
                f"{str(not end.is_open).lower()} AS {width}{letter}{i}" for width, end in (("g", over.low), ("h", over.high))
            ]
    found += [f"{deviation(i)} AS d{i}" for i in sorted(writer.deviations)]
    mixed = adjusted.measurements if adjusted is not None else (measurement,)
    excesses = {i: [f"{EXCESS}({m}, {i}, {cells})" for m in mixed] for i in sorted(writer.excesses)}
    found += [f"{calls[0] if len(calls) == 1 else f'GREATEST({chr(44).join(calls)})'} AS e{i}" for i, calls in excesses.items()]
    found += [f"{NORMAL}(0, {k * among}) AS z_{k}" for k in sorted(writer.points)]
    stepped = any(map(writer.stepped, writer.excesses))
    return found + ([f"{NORMAL}({int(stepped)}, {among}) AS z"] if writer.excesses else [])


def _among(made: Compiled, writer: IntervalWriter) -> int:
    """Of how many groups some are shown because of what was released: the highest of many are those whose noise was highest, so
    that the intervals of all must hold at once (union bound). Of groups chosen by a mechanism of their own the noise is fresh:
    of these only queries around choose by it."""
    if not made.keys or not (writer.chosen or writer.chosen_above):
        return 1
    if made.top is not None:
        return made.top.k if writer.chosen_above else 1
    dense = made.bounding.dense
    return MANY_GROUPS if dense is None or dense.size is None else max(dense.size, 1)


def _passed(made: Compiled, measurement: int, i: int, half: str) -> str:
    """How far the number of units in a released group may be below what is shown: it is shown because that is tau or more.

    `half` leaves half of the failure. Of a true number of tau or more, half of all noise or more passes the threshold: being
    beyond `half` is at most twice as likely among what passes. Where the end so found is below tau, any smaller number may have
    passed with noise as high: of those that did, how high they came out tells next to nothing.
    """
    least = max(made.min_units, 1)
    return f"CASE WHEN b{i} - {half} >= {TAU}({measurement}) THEN {half} ELSE b{i} - {least} END"
