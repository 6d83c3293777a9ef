"""Relations of the planner's own language, and what is known of those whose rows belong to units.

Knows: columns and expressions. Must not know: SQL text, engines. `Rows` carries the privacy type of PRIVACY.md section 2: the
only way to make one is through the functions of the binder, each of which is a row of that table.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.plan.expr import Call, Column, Expr, Ref
from dpproxy.policy.catalog import TableName


@dataclass(frozen=True)
class Relation:
    """Base of all relations; `columns` are its outputs."""

    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Scan(Relation):
    """A table of the backend: `source` is (schema, table), `names` the engine's column names, in order."""

    number: int
    source: tuple[str, str]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Values(Relation):
    """Rows of constants (a VALUES list, generate_series of constants). `series`: (start, stop, step) expressions."""

    rows: tuple[tuple[Expr, ...], ...] = ()
    series: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Given(Relation):
    """Rows the facade computes before the measurement runs (released or public ones): hole `index`."""

    index: int


@dataclass(frozen=True)
class Public(Relation):
    """A public relation of whatever form, numbered as a scan is: the values of its columns are declared groups."""

    number: int
    child: Relation


@dataclass(frozen=True)
class Join(Relation):
    kind: str  # inner | left | cross
    left: Relation
    right: Relation
    on: Expr | None


@dataclass(frozen=True)
class Filter(Relation):
    child: Relation
    condition: Expr


def of_somebody(node: Relation, unit: Column) -> Relation:
    """The rows that belong to a unit: those whose unit id is NULL count for nothing."""
    if not unit.nullable:
        return node
    return Filter(node.columns, node, Call("bool", "is_not_null", (Ref(unit.type, unit),)))


@dataclass(frozen=True)
class Project(Relation):
    """`columns[i]` is `items[i]` over the child's columns."""

    child: Relation
    items: tuple[Expr, ...]


@dataclass(frozen=True)
class Aggregate(Relation):
    """GROUP BY `keys`; columns are keys then aggs."""

    child: Relation
    keys: tuple[Expr, ...]
    aggs: tuple[Expr, ...]


@dataclass(frozen=True)
class Distinct(Relation):
    child: Relation


@dataclass(frozen=True)
class Union(Relation):
    """UNION ALL (or set operation `op`) of children with positionally equal columns."""

    children: tuple[Relation, ...]
    op: str = "union all"


@dataclass(frozen=True)
class Limits:
    """Contribution of one unit to the relation: `rows` in any group, `groups` reached (None: all there can be).

    `whole`: in all its groups together it weighs no more than `rows` in one (`policy.model.Bounds`).
    """

    rows: int
    groups: int | None
    whole: bool = False


@dataclass(frozen=True)
class Beside:
    """A public relation joined in: its columns' ids, how many rows it has (None: not known), `most` of them share a value
    of a column (id, number), and conditions `on` which alone it is joined, where they do not hold for all rows."""

    columns: frozenset[int]
    size: int | None
    most: tuple[tuple[int, int], ...] = ()
    on: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Few:
    """At most `rows` rows of one unit share the values of these columns, those repeated by the public rows in `beside`
    counted."""

    columns: frozenset[int]
    rows: int
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True)
class Numbered:
    """A column that numbers the rows of one unit that share the values of the columns `among`, from 1."""

    column: int
    among: frozenset[int]
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True)
class PendingPath:
    """A private scan whose unit is still to be reached: `column` equals `target`'s `target_column` next."""

    column: Column
    target: TableName
    target_column: str


Origin = tuple[TableName, Column, str]
"""A column, and the table and name it has there."""


@dataclass(frozen=True)
class Rows:
    """A relation and its privacy type: Public when `unit` is None, else every row belongs to the unit in `unit`.

    `one`: at most one row per unit. `determinants`: ids of columns that fix the unit (keys of private tables).
    `conditions`: conjuncts every row satisfies. `publics`: public relations that are joined inwardly.
    `padded`: a public table was the outer side of an outer join; its unmatched rows stand for empty groups. `kept`: ids
    of the columns that are not NULL in those rows.
    `tables`: scans of private tables by table name, for joins along the policy's foreign-key paths. `origins`: as `tables`, of
    columns that came through GROUP BY or DISTINCT. `keyed`: ids of columns of which no two rows share all values, if known.
    `sides`: of private relations joined on the unit alone, the ids of each one's columns and the groups a unit reaches in it.
    `limits` are those of the private rows; `beside` are the public relations that repeat them (`fanout`). `few` and `numbers`
    say of which columns' values they have fewer.
    """

    node: Relation
    unit: Column | None = None
    pending: PendingPath | None = None
    one: bool = False
    limits: Limits = Limits(1, 1)
    determinants: frozenset[int] = frozenset()
    conditions: tuple[Expr, ...] = ()
    publics: tuple[Scan | Public, ...] = ()
    padded: bool = False
    tables: tuple[Origin, ...] = ()
    kept: frozenset[int] = frozenset()
    beside: tuple[Beside, ...] = ()
    sides: tuple[tuple[frozenset[int], int], ...] = ()
    origins: tuple[Origin, ...] = ()
    keyed: frozenset[int] = frozenset()
    few: tuple[Few, ...] = ()
    numbers: tuple[Numbered, ...] = ()

    @property
    def private(self) -> bool:
        return self.unit is not None or self.pending is not None
