"""What bounds cut: which bounds may have, for people, and - where a policy allots epsilon to it - how many units they did.

Knows: compiled measurements, released values. Must not know: exact values. How much was cut is data: it is measured like
anything else, as a measurement of its own in the same plan and charge. Its columns are the number of units that have rows in
the measurement and that of those which have more rows or groups than the bounds let count. A unit is 0 or 1 in either:
the sensitivity of both is 1, whatever bounds there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.specs import BasisSpec, Bounding
from dpproxy.plan.model import Cut
from dpproxy.policy.names import plural
from dpproxy.privacy.measurement import Names
from dpproxy.sql.template import split_holes
from dpproxy.tree.measured import Test

UNITS, BEYOND = "units", "beyond"
_BOUNDING = Bounding(1, 1, False, False, None, ("how many units the bounds cut: not part of the answer, said after it",))


def bounds_of(made: Compiled, unit: str) -> tuple[str, ...]:
    """Return the bounds on rows and groups that a measurement's units may be beyond, each with the setting that says it."""
    bounding, found = made.bounding, []
    if bounding.holds_rows:
        pass
    elif bounding.norm and _counted(made):
        hidden = " (more count where they exceed the noise)" if any(spec.steps(bounding) > 1 for spec in made.specs) else ""
        over = " over all groups" if bounding.spread else ""
        found.append(f"`rows`: {bounding.rows} rows of a {unit}{over}{hidden}")
    elif bounding.per_unit and _counted(made) and not made.all_rows:
        found.append(f"`rows_per_group`: {bounding.rows} rows of a {unit}" + (" in a group" if made.keys else ""))
    return (*found, *([f"`groups`: {bounding.l0} groups of a {unit}"] if not bounding.holds_groups else []))


def _counted(made: Compiled) -> bool:
    return any(s.kind not in ("units", "weight") for s in made.specs) or bool(made.selections)


def tests(made: Compiled) -> tuple[Test, ...]:
    """Return what tells that a unit is beyond the bounds: `most`, its rows in a group, `size`, its rows in all (of
    `Bounding.norm`), or `groups`, how many groups it has, above a number; nothing where none can be."""
    bounding, found = made.bounding, list[Test]()
    if bounding.per_unit and _counted(made) and not (bounding.rows == 1 and made.all_rows):
        found.append(("size", bounding.rows**bounding.norm) if bounding.norm else ("most", bounding.rows))
    if bounding.pick:
        found.append(("groups", bounding.l0))
    return tuple(found)


def measured(made: Sequence[Compiled], unit: str) -> list[tuple[Compiled, Cut]]:
    """Return the measurements that say how many units the bounds of others cut, each once, and the words for them; their
    numbers follow those of the others."""
    found: dict[str, tuple[Compiled, Cut]] = {}
    for one in made:
        if one.cut is None or one.cut.text in found:
            continue
        if one.specs or one.selections:  # declared groups alone are there in any case
            specs = tuple(BasisSpec("units", None, None, label) for label in (plural(unit), f"{plural(unit)} that bounds cut"))
            name = split_holes(f"cut: {one.cut.text}")
            names = Names(
                rows=name, keys=(), columns=tuple(map(split_holes, (UNITS, BEYOND))), base=name,
                totals=(None, None), accepts=(), groups=(),
                complete=False, bound=0, additive=(False, False), mixes=((), ()),
            )  # fmt: skip
            compiled = Compiled(one.cut, (), specs, (), (), _BOUNDING, None, 1, names=names, cutting=True)
            found[one.cut.text] = compiled, Cut(len(made) + len(found), f"{plural(unit)}", bounds_of(one, unit))
    return list(found.values())


def unmeasured(compiled: Sequence[Compiled], unit: str) -> tuple[str, ...]:
    """Bounds that cut something where data go beyond them, and of which nothing is measured."""
    found: list[str] = []
    for made in compiled:
        if made.cut is None and not made.cutting:
            found += bounds_of(made, unit)
        found += made.limited
        found += [f"`range` of {name}" for name in made.clamped]
    return tuple(dict.fromkeys(found))
