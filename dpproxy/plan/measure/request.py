"""What one SELECT asks to be measured: keys, basis columns, selections, grouping sets, and what is made of them.

Knows: bound expressions and the specifications of columns. Must not know: trees, engines, noise. A request only grows while its
SELECT is rewritten; equal things are asked for once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

from dpproxy.errors import PROGRAM_LIMIT_EXCEEDED, Refusal
from dpproxy.plan.measure.output_weights import Output
from dpproxy.plan.measure.running import Series
from dpproxy.plan.measure.specs import BasisSpec, SelectionSpec, TopSpec, size_classes
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.fanout import contribution, most_rows
from dpproxy.privacy.readings import Reading
from dpproxy.tree.expr import Agg, Expr
from dpproxy.tree.measured import ReadingQuery
from dpproxy.tree.relation import Reported, Rows

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
