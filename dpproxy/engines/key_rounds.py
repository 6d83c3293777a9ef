"""What both rounds of a measurement of undeclared groups add up: all but the weight of groups that the first has not found.

Knows: nodes, names of columns. Must not know: engines, noise, how a round decides (`mechanisms.key_rounds`). The first
round asks what each group weighs, the second for everything else and what the groups weigh that are new by then. Until some are
found all of them are new, so that sums of one kind, made once, answer the first and all of the second but that weight.
"""

from __future__ import annotations

from dataclasses import replace

from dpproxy.engines.unit_stages import basis_columns
from dpproxy.tree.measured import Contributions, Fresh, NoTotal, Order, Part, PartSum, RowCount, Scaled, Sums, Total


def both(node: Sums, *, first: bool) -> Contributions | None:
    """Return what units contribute in both rounds, as if no group were found yet; None for what is neither."""
    match node.child:
        case Contributions(child=Fresh(child=child), parts=parts) if fresh(node) is not None:
            return Contributions(child, tuple(map(_unfound, parts)))
        case Contributions() as made if first:
            return made
        case _:
            return None


def _unfound(part: Part | None) -> Part | None:
    return replace(part, fresh=False) if isinstance(part, Scaled) else part


def fresh(node: Sums) -> tuple[Order, Scaled] | None:
    """Return the weight of new groups and the order of their numbers, in a second round with one such weight."""
    if not isinstance(node.child, Contributions) or not isinstance(node.child.child, Fresh):
        return None
    weights = [part for part in node.child.parts if isinstance(part, Scaled) and part.fresh]
    return (node.child.child.order, weights[0]) if len(weights) == 1 else None


def alone(node: Sums) -> Sums:
    """Return the sums without parts that nothing adds up, for engines that keep nothing for the other round."""
    if not isinstance(node.child, Contributions):
        return node
    used = {total.index for total in node.totals if isinstance(total, PartSum)}
    used |= {getattr(node.child.parts[i], "counter", i) for i in used}
    parts = tuple(part if i in used else None for i, part in enumerate(node.child.parts))
    return replace(node, child=replace(node.child, parts=parts))


def column(i: int, total: Total) -> list[str]:
    """Write total i as it is read from the sums of both rounds, in `s`, which are under the numbers of their parts."""
    match total:
        case PartSum(index=part):
            pairs = zip(basis_columns(part, total), basis_columns(i, total), strict=True)
            return [f"s.{there} AS {name}" for there, name in pairs]
        case RowCount():
            return [f"s.units AS b{i}"]
        case NoTotal():
            return [f"CAST(0 AS BIGINT) AS b{i}"]
        case _:
            raise TypeError(f"no sum of both rounds: {type(total).__name__}")
