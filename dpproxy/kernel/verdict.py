"""What a plan claims against what is derived of its trees: a claim that is less is refused.

Knows: a `Measurement`, its trees, what is derived of them. Must not know: how the planner came to its claims. With
`mechanisms.charge_check`, which holds the charge against the claim, what is charged covers what the query can tell of a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from dpproxy.kernel import reports
from dpproxy.kernel.contributions import Deriving, Found, Reach
from dpproxy.kernel.growth import Growth
from dpproxy.kernel.leaves import Leaves, Unproven
from dpproxy.kernel.shares import Share, Size
from dpproxy.privacy.measurement import Basis, FirstRound, Measurement, Selection, Threshold, Top
from dpproxy.privacy.running_sums import Running, coefficients
from dpproxy.tree.expr import Relation
from dpproxy.tree.measured import Numbered, Statement, Written, rows_of
from dpproxy.tree.relation import Beside


@dataclass(frozen=True)
class Trees:
    """The trees of a measurement's queries: `main` that of the first, `side` of the others in their order, `first` of the round
    before."""

    main: Statement
    side: tuple[Statement, ...] = ()
    first: Statement | None = None


@dataclass(frozen=True)
class Derived:
    """What is derived of a measurement, by query. `growth`: of a unit with at most R rows in each table any relation has at most
    `times` * R**`power`."""

    main: Found
    side: tuple[Found, ...]
    first: Found | None
    growth: Size

    def counted(self, l0: int) -> tuple[int, ...] | None:
        """Return which keys (by number) differ among a unit's rows, where that it changes no more than `l0` groups rests on how
        many declared groups agree in the others (`Measurement.counted`); None where it is proved. Raises Unproven where neither
        bounds the groups."""
        if all(found.groups is not None and found.groups <= l0 for found in (self.main, *self.side)):
            return None
        if not self.main.declared:
            raise Unproven(f"a unit reaches more than {l0} groups")
        return tuple(sorted(self.main.varying))


Stored = Mapping[str, Written]
"""What stored tables were made to hold, by their names."""


def derived(
    trees: Trees, leaves: Leaves, handed: Mapping[int, Beside] = MappingProxyType({}), stored: Stored = MappingProxyType({})
) -> Derived:
    """Derive what one unit can change. `handed`: what is known of rows that the facade hands over, by hole. Raises Unproven for
    what no rule covers."""
    reports.check_absent(trees, leaves)
    deriving = Deriving(leaves, stored)
    if trees.first is not None and not isinstance(trees.first, Numbered):
        raise Unproven("a first round without numbers of groups")
    first = deriving.of(trees.first) if trees.first is not None else None
    main, side = deriving.of(trees.main), tuple(map(deriving.of, trees.side))
    return Derived(main, side, first, _grown(trees, Growth(leaves, handed)))


def check_table(defined: Written, made: Written, leaves: Leaves, stored: Stored) -> None:
    """Raise Unproven where a unit has something else in a stored table, by what it is made of, than by its definition, which is
    what measurements that read it are derived from. `stored`: the tables that it may be made of."""
    reports.check_absent((defined, made), leaves)
    deriving = Deriving(leaves, stored)
    if deriving.table(defined) != deriving.table(made):
        raise Unproven("a stored table is made otherwise than it is defined")


def _grown(trees: Trees, growth: Growth) -> Size:
    """How much of a unit's rows all queries go through; most are of one relation."""
    known: dict[int, tuple[Relation, Share]] = {}
    for tree in (trees.main, *trees.side, *([trees.first] if trees.first is not None else [])):
        rows = rows_of(tree)
        if id(rows.child) not in known:
            known[id(rows.child)] = rows.child, growth.of(rows.child)
        values = (e for v in rows.values if v is not None for e in (v.value, v.where) if e is not None)
        growth.computed((*rows.keys, *values), known[id(rows.child)][1])
    return growth.largest


def check(found: Derived, claimed: Measurement) -> None:
    """Raise Unproven where a measurement claims less than is derived of its trees."""
    main = found.main
    if main.keys != len(claimed.keys) or len(main.columns) != len(claimed.bases):
        raise Unproven("the query has other columns than the measurement")
    if claimed.dense != main.declared:
        raise Unproven("groups are called declared that are not, or the other way round")
    if found.counted(claimed.l0) != claimed.counted:
        raise Unproven("declared groups are to be counted, or the other way round")
    for basis, reach in zip(claimed.bases, main.columns, strict=True):
        _check_basis(basis, reach, claimed.l0)
        if basis.running is not None:
            _check_running(basis, basis.running, reach, main)
    _check_kept(claimed, main)
    _check_selections(claimed, found)
    if claimed.threshold is not None and claimed.threshold.first is not None:
        _check_first(claimed, claimed.threshold.first, found.first)
    elif found.first is not None:
        raise Unproven("a first round that nothing is charged for")


def _check_basis(basis: Basis, reach: Reach, l0: int) -> None:
    """In the norm that is claimed; of a unit in l0 groups with at most `most` in each, l1 is l0 * most, the square of l2
    l0 * most**2."""
    if reach.steps != basis.steps:
        raise Unproven("a column has other steps than it claims")
    if not basis.signed and reach.lo < 0:
        raise Unproven("a column counts less than nothing, which it does not say")
    if basis.norm == 0:
        changed, claimed = reach.most, basis.linf
    elif basis.norm == 1:
        changed, claimed = min([reach.most * l0, *([reach.whole] if reach.norm == 1 else [])]), basis.linf
    elif basis.norm == 2:
        known = {0: [], 1: [reach.whole**2], 2: [reach.whole]}[reach.norm]
        changed, claimed = min([reach.most**2 * l0, *known]), basis.linf**2
    else:
        raise Unproven("a norm that is none")
    if changed > claimed:
        raise Unproven(f"a unit changes `{basis.label}` by more than {basis.linf}")


def _check_running(basis: Basis, running: Running, reach: Reach, main: Found) -> None:
    """The groups in their runs are multiplied by whole numbers before noise. Of a unit in one group at most, a column of these
    times what it changes there is all that changes, and the first column is the longest."""
    if not main.declared or main.groups is None or main.groups > 1 or not 0 <= running.key < main.keys:
        raise Unproven("running sums of groups of which a unit may change several")
    first = sum(c * c for c in coefficients(running.length, running.width))
    if reach.steps != 1 or reach.most > running.within or running.within**2 * first > basis.linf**2:
        raise Unproven(f"a unit changes running sums of `{basis.label}` by more than {basis.linf}")


def _check_kept(claimed: Measurement, main: Found) -> None:
    """Which groups are shown is decided by noisy numbers of units, or by choices: none is shown that needs one unit alone."""
    if main.declared:
        if main.least > 1:  # one unit more or less would show all that the others add to the group
            raise Unproven("declared groups of few units are left out")
        if claimed.threshold is not None or (claimed.top is not None and claimed.top.absent is not None):
            raise Unproven("declared groups are kept by a threshold")
    elif claimed.threshold is not None:
        _check_threshold(claimed.threshold, claimed.bases, main)
    elif claimed.top is None or claimed.top.absent is None:
        raise Unproven("undeclared groups are shown whoever is in them")
    if claimed.top is not None:
        _check_top(claimed.top, claimed.bases, main)


def _check_threshold(threshold: Threshold, bases: Sequence[Basis], main: Found) -> None:
    """A unit weighs between nothing and 1 (`fine` parts) in each group, and groups of fewer than `min_units` are not there."""
    reach = main.columns[threshold.basis]
    if reach.lo < 0 or reach.hi > bases[threshold.basis].fine or main.least != threshold.min_units:
        raise Unproven("groups are kept by what is no number of units")


def _check_top(top: Top, bases: Sequence[Basis], main: Found) -> None:
    reach = main.columns[top.score]
    if reach.lo < 0 or reach.most > bases[top.score].linf or (top.absent is not None and main.least != top.min_units):
        raise Unproven("groups are chosen by what a unit can lower, or raise by more than is claimed")


def _check_selections(claimed: Measurement, found: Derived) -> None:
    if {s.query for s in claimed.selections} != set(range(1, len(found.side) + 1)):
        raise Unproven("selections of other queries")
    for selection in claimed.selections:
        _check_selection(selection, claimed, found.side[selection.query - 1], found.main)


def _check_selection(selection: Selection, claimed: Measurement, side: Found, main: Found) -> None:
    """Of declared groups only these are looked at (`Derived.counted`)."""
    if side.keys != main.keys or side.size != selection.size:
        raise Unproven("a selection of other groups or buckets")
    if side.varying != main.varying:
        raise Unproven("a selection of other rows")
    if side.columns[0].most > selection.sensitivity:
        raise Unproven(f"a unit changes `{selection.label}` by more than {selection.sensitivity}")


def _check_first(claimed: Measurement, first: FirstRound, found: Found | None) -> None:
    """The column of the first round is claimed with the others; in the main query it is nothing."""
    if found is None or len(found.columns) != 1 or found.keys != len(claimed.keys):
        raise Unproven("no query of the first round")
    if found.declared or claimed.threshold is None or found.least != claimed.threshold.min_units:
        raise Unproven("a first round of other groups")
    if found.groups is None or found.groups > claimed.l0:
        raise Unproven(f"a unit reaches more than {claimed.l0} groups in the first round")
    basis, reach = claimed.bases[first.basis], found.columns[0]
    _check_basis(basis, reach, claimed.l0)
    if reach.lo < 0 or reach.hi > basis.fine or claimed.bases[first.basis].steps != 1:
        raise Unproven("groups are found by what is no number of units")
