"""Which aggregates have intervals without any end, and why: said with the answer, since a missing end is easily overlooked.

Knows: which widths an interval's ends need (`plan.measure.enclosures.Range`), which of them bounds leave open. Must not know:
data.
Some have ends where a divisor is surely not nothing, and none where it may be: that is seen in the answer alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpproxy.plan.measure.bound_cuts import open_ends
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.output_weights import Output

UNORDERED = "its values have no order"
CUT = "bounds may have cut rows that would raise or lower it"


def why_endless(made: Compiled, output: Output) -> str:
    """Say why an aggregate's interval has no end; empty where it has one."""
    if output.selection is not None:
        return UNORDERED if made.selections[output.selection].values else ""
    cut = [(i, *open_ends(made, made.specs[i])) for i in output.bases]
    unknown = {(side, i) for i, low, high in cut for side, is_open in (("g", low), ("h", high)) if is_open}
    return CUT if output.low & unknown and output.high & unknown else ""


def endless(compiled: Sequence[Compiled]) -> tuple[str, ...]:
    """Name these aggregates of a statement, each with the reason."""
    return tuple(dict.fromkeys(text for made in compiled for text in _told(made)))


def _told(made: Compiled) -> Iterator[str]:
    for output in made.outputs:
        reason = why_endless(made, output)
        if reason:
            yield f"{output.label} ({reason})"


def endless_told(found: Sequence[str]) -> str:
    """Write the sentence of the notice."""
    return f"no interval can be told of {', '.join(found)}" if found else ""
