"""The ends of an interval: which are open, and why.

Knows: how measurements are bounded, what is made of their columns. Must not know: data, widths of noise. The low end and the high
end of an interval are numbers where the noise is all that is unknown. An end is open where more is: SQL writes it as NULL, and as
infinity where the type has it. What an answer leaves open is said with it, since a missing end is easily overlooked. Some
expressions have ends where a divisor is surely not 0, and none where it may be: that is seen in the answer alone.

An end that rows in steps not taken would leave open is closed where the policy says how many rows a unit has at most
(`hidden`). Let R be that number, and B the bound of a unit's norm, for n rows. A unit of R rows has a norm of R / n times B at
most, l1 or l2, and there are as many steps as hold it (`specs.size_classes`): so step j holds exactly what its units add, T_j,
in units of 2**j, and the truth is t = sum over all j of 2**j T_j. What is released is Y_j = T_j + Z_j, of all steps, with noise
Z_j of a law that was fixed before. So W = sum of 2**j Y_j is t + sum of 2**j Z_j: of a deviation that is known, whatever the
data, whichever steps were taken. With `raw` the steps that were taken and `later` the others, W = raw + later. Hence t <= W + h
and t >= W - h, each with the confidence that h is for; an end that is further away holds too, so the high one may be max(raw,
W) + h, and the low one of what may be less than nothing min(raw, W) - h. Of what is not negative the low end is raw - h of the
steps taken: the others add to it. h is that of R rows times the units that noise of one step hides, since each step has the
noise of the same bound, 2**j of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.specs import BasisSpec

UNORDERED = "its values have no order"
CUT = "bounds may have cut rows that would raise or lower it"
UNSHOWN = "groups that are not shown may belong to it"
UNDECLARED = "rows of values that are not declared may belong to it"


@dataclass(frozen=True)
class End:
    """An end of an interval. `why`: the reason that it is open; empty where it is not. `hidden`: rows may be cut as far as noise
    hides them, and it is as far away as they may be."""

    why: str = ""
    hidden: bool = False

    @property
    def is_open(self) -> bool:
        return bool(self.why)


@dataclass(frozen=True)
class Ends:
    """Both ends of an interval."""

    low: End = End()
    high: End = End()

    @property
    def any_open(self) -> bool:
        return self.low.is_open or self.high.is_open

    @property
    def any_cut(self) -> bool:
        """Tell whether bounds may cut anything, told or not."""
        return self.any_open or self.low.hidden or self.high.hidden

    @property
    def why_none(self) -> str:
        """Say why there is no end at all; empty where there is one."""
        return self.low.why if self.low.is_open and self.high.is_open else ""


def column_ends(made: Compiled, spec: BasisSpec) -> Ends:
    """Return the ends of a basis column. Bounds may have cut rows or groups, and nothing is known of how much: rows that are cut
    take away from a count, and from a sum of what is not negative. So does a value that is held at what is no fact of it."""
    bounding = made.bounding
    rows = bounding.per_unit and (spec.kind not in ("units", "weight") or bool(spec.norm(bounding)))
    cut = rows and not bounding.holds_rows and (bool(bounding.norm) or not made.all_rows)
    hidden = bounding.holds_groups and spec.steps(bounding) > 1 and bounding.closed
    left_out = End() if not cut and bounding.holds_groups else End(hidden=True) if hidden else End(CUT)
    below, above = (
        End(CUT) if not sure else left_out if moved else End()
        for moved, sure in zip((spec.lo < 0, spec.hi > 0), spec.sure, strict=True)
    )
    return Ends(below, above)


def sum_ends(made: Compiled, spec: BasisSpec) -> Ends:
    """Return the ends of a window sum of a basis column. Of undeclared groups some are not shown, and those that are shown have
    passed a threshold by their noise."""
    known = column_ends(made, spec)
    ends = Ends(*(End(CUT) if end.hidden else end for end in (known.low, known.high)))
    return Ends(End(UNSHOWN), End(UNSHOWN)) if made.keys and made.bounding.dense is None else ends


def whole_ends(made: Compiled, spec: BasisSpec, ordered: bool) -> Ends:
    """Return the ends of a window sum over groups of all values of their keys, by how many rows may be in no group: those are in
    the sum of the same SQL on the data. A `range` is taken as true. `ordered`: NULL comes last, and is in no sum before."""
    if not any(rows.others == "values" or (rows.nulls and not ordered) for rows in made.left_out):
        return Ends()
    return Ends(End(UNDECLARED if spec.lo < 0 else ""), End(UNDECLARED if spec.hi > 0 else ""))


def output_ends(made: Compiled, output: Output) -> Ends:
    """Return the ends of what is made of columns. An end is open where a width that it needs is unknown."""
    if output.selection is not None:
        unordered = End(UNORDERED if made.selections[output.selection].values else "")
        return Ends(unordered, unordered)
    ends = [(i, column_ends(made, made.specs[i])) for i in output.bases]
    unknown = {("g", i): both.low.why for i, both in ends} | {("h", i): both.high.why for i, both in ends}

    def end(needs: frozenset[tuple[str, int]]) -> End:
        return End(next((unknown[need] for need in sorted(needs) if unknown.get(need)), ""))

    return Ends(end(output.low), end(output.high))


def endless(compiled: Sequence[Compiled]) -> tuple[str, ...]:
    """Name the aggregates of a statement whose intervals have no end, each with the reason."""
    said = (
        f"{output.label} ({why})" for made in compiled for output in made.outputs if (why := output_ends(made, output).why_none)
    )
    return tuple(dict.fromkeys(said))


def endless_told(found: Sequence[str]) -> str:
    """Write the sentence of the notice."""
    return f"no interval can be given for {', '.join(found)}" if found else ""
