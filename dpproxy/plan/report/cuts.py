"""What is said after an answer of what bounds cut: of how many units, where that was measured, and which bounds may cut more.

Knows: the bounds of a plan, the released numbers of the measurements that count what they cut. Must not know: exact values. What
is told follows from released numbers, so nothing is charged for telling it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from dpproxy.plan.model import Cut
from dpproxy.plan.report.typical_error import Values


def cuts_told(cuts: Sequence[Cut], values: Mapping[int, Values], bounds: Sequence[str]) -> str:
    """Say what bounds cut, and which bounds may cut something that nothing measures.

    For example: `bounds cut about 12 % of customers (3 rows of a customer in a group)`.
    """
    said = [f"bounds cut {share_cut(cut, values[cut.measurement])}" for cut in cuts if cut.measurement in values]
    return "; ".join([*dict.fromkeys(said), *([f"bounds that may have cut something: {', '.join(bounds)}"] if bounds else [])])


def share_cut(cut: Cut, values: Values) -> str:
    """Say which part of the units bounds cut. Both numbers are noisy: where hardly any unit was counted, no part is told."""
    units, beyond = (int(column[0]) for column in values)
    bounds = f"({', '.join(cut.bounds)})"
    if units < 1:
        return f"an unknown share: there are too few {cut.units} to say {bounds}"
    percent = float(100 * min(max(Fraction(beyond, units), Fraction(0)), Fraction(1)))
    return f"about {percent:.{0 if percent >= 10 else 2}{'f' if percent >= 10 else 'g'}} % of {cut.units} {bounds}"
