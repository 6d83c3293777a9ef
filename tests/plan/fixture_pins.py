"""What a plan says as fixtures write it: numbers, both ends of every clamp, and which groups are declared.

Knows: plans, the trees of their measurements, the shop without people. Must not know: what a fixture expects.
`scripts/pins` writes these fields of all fixtures anew.

A clamp is `low..high` in grid units of what it bounds, as the tree has them from its rows up: a row's value, a point of a grid,
or a unit's total; of a mean `low..high of k`, k rows of that many each, from `shift` on where it is shifted. Declared groups are
listed, keys joined by `|`; of many, how many there are, the first, the last, and a digest of all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import plan_harness
from plan_harness import Planned, Shop

from dpproxy.privacy.measurement import Measurement
from dpproxy.tree.expr import Expr, Relation
from dpproxy.tree.measured import Declared, Held, RowBucket, ShareCut, TotalCut

LISTED = 6
"""Groups that are listed one by one."""


def pinned(planned: Planned, values: tuple[str | None, ...], empty: Shop) -> list[dict[str, Any]]:
    """Describe the measurements of a plan, with clamps and declared groups. `empty`: any shop; that without people is asked."""
    made = plan_harness.values_of(planned.plan, values)
    found = []
    for measurement, trees in zip(planned.plan.measurements, planned.trees, strict=True):
        one = described(measurement)
        clamps = [clamp for tree in (trees.main, *trees.side) for clamp in clamps_of(tree)]
        if clamps:
            one["clamps"] = clamps
        if measurement.keys and measurement.dense:
            table = empty.alone(plan_harness.queries(measurement, made)[0], plan_harness.EMPTY)
            one["declared"] = listed([row[: len(measurement.keys)] for row in plan_harness.cells(table)])
        found.append(one)
    return found


def described(measurement: Measurement) -> dict[str, Any]:
    """Describe a measurement by its numbers alone."""
    groups = "one" if not measurement.keys else "declared" if measurement.dense else "threshold"
    if measurement.top is not None:
        groups = f"top {measurement.top.k}"
    found: dict[str, Any] = {
        "keys": [key.label for key in measurement.keys],
        "groups": groups,
        "l0": measurement.l0,
        "linf": [basis.linf for basis in measurement.bases],
    }
    if measurement.selections:
        found["selections"] = [{"kind": s.kind, "size": s.size, "sensitivity": s.sensitivity} for s in measurement.selections]
    return found


def clamps_of(node: object) -> Iterator[str]:
    """List the clamps of a measurement's tree, those of its rows first."""
    match node:
        case Relation() | Expr() | Declared():
            return
        case tuple():
            for item in node:
                yield from clamps_of(item)
        case Held(lo=lo, hi=hi) | TotalCut(lo=lo, hi=hi):
            yield f"{lo}..{hi}"
        case RowBucket(lo=lo, hi=hi, values=values):
            yield f"{lo}..{hi}" if not values else "|".join(map(str, values))
        case ShareCut(rows=rows, lo=lo, hi=hi, shift=shift):
            yield f"{lo}..{hi} of {rows}" + (f" from {shift}" if shift else "")
        case _ if is_dataclass(node):
            for field in fields(node):
                yield from clamps_of(getattr(node, field.name))


def listed(groups: list[tuple[object, ...]]) -> list[str]:
    """List groups, or say what there are of many."""
    texts = ["|".join("NULL" if part is None else str(part) for part in group) for group in groups]
    if len(texts) <= LISTED:
        return texts
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:8]
    return [f"{len(texts)} of them", texts[0], texts[-1], digest]
