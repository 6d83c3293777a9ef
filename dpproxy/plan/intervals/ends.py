"""The ends of an interval: which are open, and why.

Knows: how measurements are bounded, what is made of their columns. Must not know: data, widths of noise. The low end and the high
end of an interval are numbers where the noise is all that is unknown. An end is open where more is: SQL writes it as NULL, and as
infinity where the type has it. What an answer leaves open is said with it, since a missing end is easily overlooked. Some
expressions have ends where a divisor is surely not 0, and none where it may be: that is seen in the answer alone.
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


@dataclass(frozen=True)
class End:
    """An end of an interval. `why`: the reason that it is open; empty where it is not."""

    why: str = ""

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
    def why_none(self) -> str:
        """Say why there is no end at all; empty where there is one."""
        return self.low.why if self.low.is_open and self.high.is_open else ""


def column_ends(made: Compiled, spec: BasisSpec) -> Ends:
    """Return the ends of a basis column. Bounds may have cut rows or groups, and nothing is known of how much: rows that are cut
    take away from a count, and from a sum of what is not negative. So does a value that is held at what is no fact of it."""
    bounding = made.bounding
    rows = spec.kind not in ("units", "weight") or bool(spec.norm(bounding))
    cut = bounding.pick or (bounding.per_unit and rows and (bool(bounding.norm) or not made.all_rows))
    below, above = ((cut and moved) or not sure for moved, sure in zip((spec.lo < 0, spec.hi > 0), spec.sure, strict=True))
    return Ends(End(CUT if below else ""), End(CUT if above else ""))


def sum_ends(made: Compiled, spec: BasisSpec) -> Ends:
    """Return the ends of a window sum of a basis column. Of undeclared groups some are not shown, and those that are shown have
    passed a threshold by their noise."""
    ends = column_ends(made, spec)
    return Ends(End(UNSHOWN), End(UNSHOWN)) if made.keys and made.bounding.dense is None else ends


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
    return f"no interval can be told of {', '.join(found)}" if found else ""
