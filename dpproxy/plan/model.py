"""What a plan is: frozen values that fix every privacy number before any data is touched.

Knows: measurements, templates of generated SQL, arrays of the outer query. Must not know: how to run or draw
anything. A `Plan` is made by the planner alone; `mechanisms` and `backends` read `Measurement`; `session` reads `Plan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.readings import Reading
from dpproxy.sql.statements import Signal
from dpproxy.table_terms import TableName
from dpproxy.tree.measured import Weighing


@dataclass(frozen=True)
class Input:
    """An input is a scalar the facade evaluates before a measurement runs, as text (`SELECT (<sql>)::text`).

    `sql` may use the client's parameters `$1..$n` and the arrays of the measurements in `after`, numbered as in
    the outer query (`$n+1...`). Examples: `now()`, a released scalar subquery.
    """

    sql: str
    type: str
    arrays: tuple[int, ...] = ()  # indexes into Plan.arrays it needs
    measurements: tuple[int, ...] = ()  # indexes into Plan.measurements it needs
    readings: tuple[int, ...] = ()  # indexes into Plan.readings it needs

    @property
    def rows(self) -> bool:
        """Return whether it is rows, as JSON text, whose number the planner bounds."""
        return self.type.startswith("rows(")


@dataclass(frozen=True)
class Array:
    """An array is a parameter of the outer query: column `column` of measurement `measurement` (keys, bases, selections), or
    of the virtual table `virtual` of schema `dpproxy`, or of the rows invented for a table's column, `invented`; or whether a
    session was reached by a `signal` to the number that is input `column`; or column `column` of reading `reading`. `type` is
    the PostgreSQL element type.
    """

    type: str
    measurement: int | None
    column: int
    virtual: str | None = None
    invented: tuple[TableName, str] | None = None
    signal: Signal | None = None
    reading: int | None = None


@dataclass(frozen=True)
class ReadingAccount:
    """Facts for the notice of a reading. `randomised`: of each randomised column its name, mechanism, the standard
    error of a count times the root of the reports, and whether values are moved to add up; `keys`: labels of plain keys."""

    table: str
    epsilon: str
    per_day: int
    at_least: int
    keys: tuple[str, ...]
    randomised: tuple[tuple[str, str, float, bool], ...]
    point: float


@dataclass(frozen=True)
class Typical:
    """An aggregate whose error can be told from what is released (`plan.report.typical_error`): a column times a constant, or
    made of a count and a centred sum, in grid units: of the sum, the mean (`center` + sum / count) or the total (sum + `center` *
    count). `deviations`: of the noise of its `columns`, in grid units; of the first step alone where `steps` are the columns
    that say which is the last of each (None: it has one). `cells`: where sums of groups are asked for, how many are in one
    typically; the deviation is that of such. `span`: a mean is known to lie as close to its centre without any data. Of a
    `statistic` of moments (`plan.report.moment_errors`), `grids` and `centers` are those of its columns. Of what is selected by
    rank or frequency it is told by how many rows it may be displaced: `ranks`; its column, if it has one, counts the rows
    (`plan.report.rank_errors`)."""

    label: str
    kind: Literal["linear", "mean", "total", "moments", "ranks", "frequency"]
    measurement: int
    columns: tuple[int, ...]
    deviations: tuple[float, ...]
    center: int = 0
    steps: tuple[int | None, ...] = ()
    span: float = math.inf
    statistic: str = ""
    grids: tuple[float, ...] = ()
    centers: tuple[float, ...] = ()
    ranks: int = 0
    cells: float = 0.0


@dataclass(frozen=True)
class Cut:
    """A cut is a measurement that says how many units bounds cut (`plan.measure.bound_cuts`): `units` of them are its first
    column, those cut its second."""

    measurement: int
    units: str
    bounds: tuple[str, ...]


@dataclass(frozen=True)
class LeftOut:
    """Rows that no declared group holds, if there are any: those whose `column` is NULL (`nulls`), or holds another value than
    the policy's `values` or `range` (`others` says which of the two; empty for neither)."""

    column: str
    nulls: bool
    others: Literal["values", "range", ""] = ""


Unshown = tuple[int, str | None]
"""A key, by number, and a value of it that stands for all that are not declared (None: NULL): a cell of it is measured, and not
shown (`plan.outer.hidden_cells`)."""


@dataclass(frozen=True)
class Plan:
    """A plan says how a statement over private tables is answered.

    `outer` is SQL for the facade: the client's parameters keep their numbers `$1..$parameters`; array i is
    `$(parameters + 1 + i)`. `order`: the measurements in the order in which they must run (staged ones later);
    inputs[i] is evaluated as soon as its measurements are released.
    """

    measurements: tuple[Measurement, ...]
    outer: str
    parameters: int
    arrays: tuple[Array, ...]
    inputs: tuple[Input, ...]
    loss: Loss
    explain: tuple[str, ...]
    typical: tuple[Typical, ...] = ()  # whose error is told after the answer
    hidden: tuple[str, ...] = ()  # groups too small to be shown, for people
    left_out: tuple[LeftOut, ...] = ()  # rows in no group
    unitless: tuple[str, ...] = ()  # rows that belong to no unit, for people
    endless: tuple[str, ...] = ()  # aggregates whose intervals have no end, and why, for people
    devices: tuple[str, ...] = ()  # columns that devices randomised, and their noise, for people
    cuts: tuple[str, ...] = ()  # bounds that may cut data, for people
    measured_cuts: tuple[Cut, ...] = ()  # and those of which it is measured how many units they cut
    aimable: bool = False  # `typical` says the error of every aggregate
    moving: bool = False  # some measurement is another one at each time of day
    preview: str = ""  # what is told instead of a price where no row of the data is read (`plan.previews`)
    unshown: tuple[tuple[Unshown, ...], ...] = ()  # of each measurement
    readings: tuple[Reading, ...] = ()  # of reports, which cost nothing
    accounts: tuple[ReadingAccount, ...] = ()  # of readings
    weighings: tuple[tuple[Weighing, ...], ...] = ()  # of each reading, what its weights are that are listed later
    rewritten: tuple[str, ...] = ()  # the rules (`plan.rewrite.rules`) that wrote the statement another way, in their order
