"""What one SELECT asks to be measured: keys, basis columns, selections, grouping sets, and what is made of them.

Knows: bound expressions and the specifications of columns. Must not know: trees, engines, noise. A request only grows while its
SELECT is rewritten; equal things are asked for once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpproxy.amounts import MICRO
from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec, TopSpec, size_classes
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import contribution, most_rows
from dpproxy.privacy import noise_error, running_sums
from dpproxy.privacy.measurement import Basis, Names
from dpproxy.privacy.readings import Reading
from dpproxy.privacy.running_sums import Running
from dpproxy.sql.types import INTEGERS, TIMES
from dpproxy.tree.expr import Agg, Expr
from dpproxy.tree.measured import ReadingQuery, Weighing
from dpproxy.tree.relation import Reported, Rows

# Which measurements are of sums over runs of groups, and get noise on those (`privacy.running_sums`)?
#
# Knows: compiled measurements, what reads them. Must not know: data, SQL. That is possible where a unit is in one group, all
# groups are declared, and one key puts them into runs of a known length; and of use where only sums over that key are asked
# for. Noise is Gaussian then: of the two kinds of noise the better one is chosen as for any measurement (`charge_division`),
# here for the sums.


MOST_SENSITIVE = 2**20
"""Grid units that one unit may change a group by: a hundred million such units in each group of a year of days still fit into 64
bits when they are coded."""

IN_ORDER = (*INTEGERS, *TIMES)
"""Types of keys whose order in a backend's answer, of numbers or of texts, is that of the outer query's ORDER BY: some backends
tell decimals as texts, and a facade may have another collation."""


@dataclass(frozen=True)
class Series:
    """Sums along key number `key` are all that is asked of the groups: over `widths` of them, None for all so far."""

    key: int
    widths: tuple[int | None, ...]


def running_of(compiled: Compiled, series: Series | None) -> Running | None:
    """Return how sums are measured in place of groups; None where they cannot be, or are not better for it. Of its widths it is
    the one whose use makes the worst sum best; `within` is 1."""
    bounding, dense = compiled.bounding, compiled.bounding.dense
    if series is None or dense is None or dense.size is None or bounding.l0 != 1 or bounding.norm or compiled.selections:
        return None
    if compiled.keys[series.key][1] not in IN_ORDER:
        return None
    if not compiled.specs or any(spec.sensitivity(bounding) > MOST_SENSITIVE for spec in compiled.specs):
        return None
    sizes = zip(dense.parts, dense.sizes, strict=True)
    length = next((size for part, size in sizes if [number for number, _ in part.keys] == [series.key]), None)
    if length is None or not 2 <= length <= running_sums.MOST_GROUPS:
        return None
    widths = {min(width or length, length) for width in series.widths}
    found = [Running(series.key, length, width, 1) for width in sorted(widths)]
    best = min(found, key=lambda r: max(running_sums.ratio(r, width) for width in widths))
    return best if max(running_sums.ratio(best, width) for width in widths) < 1 else None


def names_of_sums(names: Names, running: Running) -> Names:
    """Name a measurement whose sums got the noise: it is another one than that of its groups, and nothing is added up of it. The
    key is told by its name: its number is that of one spelling, and rows have the same name in any."""
    told = f" in sums of {running.width} of {running.length} along "
    columns = tuple((*column, told, *names.keys[running.key]) for column in names.columns)
    nothing = tuple(None for _ in columns)
    additive, mixes = tuple(False for _ in columns), tuple(() for _ in columns)
    return replace(names, columns=columns, complete=False, totals=nothing, additive=additive, mixes=mixes)


def running_note(running: Running, bases: Sequence[Basis], laplace: bool) -> str:
    """Say what noise on sums does, for the column where it does least, compared with noise of the same charge on each group by
    itself."""
    sums, single = min(_gains(basis, laplace) for basis in bases)
    asked = (
        f"totals so far of {running.length}"
        if running.width == running.length
        else f"sums of {running.width} of {running.length}"
    )
    return (
        f"only {asked} groups are asked for, and noise is on these (square-root factorisation): their errors are typically "
        f"{sums:.2g} times less than of groups added up, those of single groups {single:.2g} times more"
    )


def _gains(basis: Basis, laplace: bool) -> tuple[float, float]:
    """By how much a sum errs less, and a group more, than with Gaussian noise on each group, or with `laplace` noise if there
    might be any and it is less."""
    assert basis.running is not None
    running, scale = basis.running, float(basis.scale)
    apart = scale * running.within / basis.linf
    if laplace:
        apart = min(apart, math.sqrt(2) * running.within * MICRO / basis.loss.epsilon)
    added = apart * math.sqrt(running_sums.typical_cells(running.length, running.width))
    typical = scale * running_sums.typical_spread(running.length, running.width, running.width)
    return added / typical, noise_error.deviation(basis) / apart


MAX_COLUMNS = 512  # measured by one query, as many as the averages of 256 values need; the widest dashboard has 84 aggregates


def extra_columns(basis: int) -> tuple[str, ...]:
    """Name the columns released in addition to a basis column with steps: its raw value, its last step, what is in later ones."""
    return f"r{basis}", f"t{basis}", f"x{basis}"


@dataclass
class MeasurementRequest:
    """The request is what the SELECT asks for. `keys[i]` is a label and the key's expression, `sets` the keys of each grouping
    set, by index. `top` is the column by which groups are chosen, where that is cheaper than releasing all; `series` the sums
    along a key that are all that is asked of the columns."""

    rows: Rows
    keys: list[tuple[str, Expr]] = field(default_factory=list)
    specs: list[BasisSpec] = field(default_factory=list)
    selections: list[SelectionSpec] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    top: TopSpec | None = None
    series: Series | None = None
    _key_places: dict[Expr, int] = field(default_factory=dict)
    _places: dict[Hashable, int] = field(default_factory=dict)

    @cached_property
    def stepped(self) -> bool:
        """Tell whether counts and sums are measured in steps (`specs.BasisSpec.steps`)."""
        if not self.rows.limits.whole or self.rows.one:
            return False
        limits = contribution(self.rows, ())
        return size_classes(limits.rows, limits.greatest) > 1

    def in_classes(self, agg: Agg) -> bool:
        """Tell whether an aggregate is made of columns in steps: of rows that weigh together, or of values of which a unit has
        one, where nothing says how large they are."""
        return self.stepped or (self._alone and not all(all(facts(a).sure) for a in agg.args))

    @property
    def _alone(self) -> bool:
        return self.rows.one or (not self.rows.limits.whole and most_rows(self.rows, ()) == 1)

    @property
    def empty(self) -> bool:
        """Tell whether nothing is asked for."""
        return not (self.keys or self.specs or self.selections)

    def key(self, expr: Expr) -> int | None:
        """Return the index of a key that is asked for already."""
        return self._key_places.get(expr)

    def add_key(self, label: str, expr: Expr) -> int:
        """Ask for a key, and return its index."""
        self._key_places[expr] = len(self.keys)
        self.keys.append((label, expr))
        return len(self.keys) - 1

    def basis(self, spec: BasisSpec) -> int:
        """Ask for a basis column, and return its index. Raises Refusal beyond `MAX_COLUMNS`."""
        if spec.kind == "count":
            spec = replace(spec, mean=False)  # one count serves all
        told = (spec.kind, spec.value, spec.where, spec.lo, spec.hi, spec.grid, spec.center, spec.mean, spec.doublings)
        if told not in self._places:
            if len(self.specs) == MAX_COLUMNS:
                raise Refusal(
                    PROGRAM_LIMIT_EXCEEDED,
                    f"this query needs more than {MAX_COLUMNS} noisy columns",
                    hint="Ask for fewer aggregates at a time: an average needs two columns, a correlation six.",
                )
            self._places[told] = len(self.specs)
            self.specs.append(spec)
        return self._places[told]

    def in_steps(self, basis: int) -> bool:
        """Tell whether a basis column is measured in steps."""
        return bool(self.specs[basis].doublings) or (self.stepped and self.specs[basis].stepped)

    def step_columns(self) -> list[str]:
        """Return the names of columns released in addition to basis columns with steps: see `Measurement.stepped`."""
        return [name for i in range(len(self.specs)) if self.in_steps(i) for name in extra_columns(i)]

    def selection(self, spec: SelectionSpec) -> list[str]:
        """Ask for a selection, and name its columns, s{selection}_{fraction}."""
        if spec not in self.selections:
            self.selections.append(spec)
        index = self.selections.index(spec)
        return [f"s{index}_{i}" for i in range(spec.columns)]

    def output(self, found: Output) -> None:
        """Something that is made of the columns; told once."""
        if found not in self.outputs:
            self.outputs.append(found)


@dataclass(frozen=True)
class Drafted:
    """A reading before the kernel has judged it, the trees of its queries, whose reports it is of, and the labels of keys."""

    reading: Reading
    trees: tuple[ReadingQuery, ...]
    source: Reported
    weighings: tuple[Weighing, ...] = ()
