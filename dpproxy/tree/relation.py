"""Relations of the planner's own language, and what is known of those whose rows belong to units.

Knows: columns and expressions. Must not know: SQL text, engines. `Rows` carries the privacy type of PRIVACY.md section 2: the
only way to make one is through the functions of the binder, each of which is a row of that table. Which of its fields decide
privacy, and which only tune noise, is said in `Rows`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from dpproxy.table_terms import TableName
from dpproxy.tree.expr import (
    Call,
    Column,
    Exists,
    Expr,
    InQuery,
    Ref,
    Relation,
    Scalar,
    TableDomain,
    has_subquery,
    references,
    walk,
)


@dataclass(frozen=True)
class Scan(Relation):
    """A scan reads a table of the backend: `source` is (schema, table), `names` the engine's column names, in order."""

    number: int
    source: tuple[str, str]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Values(Relation):
    """The rows are constants: a VALUES list, elements of a constant array."""

    rows: tuple[tuple[Expr, ...], ...] = ()


@dataclass(frozen=True)
class Staged(Relation):
    """The rows are computed by the facade before the measurement runs (released or public ones): hole `index`."""

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
    """Keep the rows that belong to a unit: those whose unit id is NULL count for nothing."""
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


def _public_alone(node: Relation) -> bool:
    match node:
        case Staged() | Values() | Public():
            return True
        case Project(child=child, items=items):
            return _public_alone(child) and not any(map(has_subquery, items))
        case Filter(child=child, condition=condition):
            return _public_alone(child) and not has_subquery(condition)
        case Distinct(child=child):
            return _public_alone(child)
        case Scan(columns=columns):
            return all(isinstance(c.domain, TableDomain) for c in columns)
        case Aggregate(child=child, keys=keys, aggs=aggs):
            return _public_alone(child) and not any(map(has_subquery, (*keys, *aggs)))
        case _:
            return False


def is_public_alone(condition: Expr) -> bool:
    """Tell whether all that the subqueries of a condition read are public rows, and none reads the row that it is evaluated for.
    What is tried to find declared groups may ask it; the kernel refuses what reads private rows after all."""
    return not outer_columns(condition) and all(
        not (isinstance(e, InQuery) and e.own) and _public_alone(e.relation)
        for e in walk(condition)
        if isinstance(e, InQuery | Exists | Scalar)
    )


def outer_columns(value: object) -> frozenset[Column]:
    """Return the columns that the subqueries of an expression read of the query around them."""
    read: set[Column] = set()
    own: set[Column] = set()

    def visit(part: object, inside: bool) -> None:
        if isinstance(part, tuple):
            for each in part:
                visit(each, inside)
        elif isinstance(part, Ref):
            read.update([part.column] if inside else [])
        elif isinstance(part, Relation | Expr):
            nested = inside or isinstance(part, Relation)
            own.update(part.columns if isinstance(part, Relation) else ())
            for entry in fields(part):
                if not (isinstance(part, Relation) and entry.name == "columns"):
                    # what a subquery compares with its rows is read where it stands; the rest of it is inside
                    visit(getattr(part, entry.name), nested or (isinstance(part, Scalar) and entry.name == "value"))

    visit(value, False)
    return frozenset(read - own)


@dataclass(frozen=True)
class ContributionLimits:
    """One unit contributes no more to the relation: `rows` in any group, `groups` reached (None: all there can be).

    `whole`: in all its groups together it weighs no more than `rows` in one (`policy.model.Bounds`). `by`: the bounds of the
    policy, or of the session, that these come from, as a reader knows them. `greatest`: the most rows that a unit has there at
    all, by the policy's word; None: not known. No promise rests on it.
    """

    rows: int
    groups: int | None
    whole: bool = False
    by: tuple[str, ...] = field(default=(), compare=False)
    greatest: int | None = None


SINGLE = ContributionLimits(1, 1, greatest=1)
"""Of a relation of one row a unit, or one that repeats no row of what it is joined with."""


@dataclass(frozen=True)
class Beside:
    """A public relation is joined in: its columns' ids, how many rows it has (None: not known), `most` of them share a value of a
    column (id, number), or, with `nulls`, have none there; and conditions `on` which alone it is joined, where they do not hold
    for all rows."""

    columns: frozenset[int]
    size: int | None
    most: tuple[tuple[int, int], ...] = ()
    on: tuple[Expr, ...] = ()
    nulls: bool = False


@dataclass(frozen=True)
class RowsPerValue:
    """At most `rows` rows of one unit share the values of these columns; those repeated by the public rows in `beside` are
    counted."""

    columns: frozenset[int]
    rows: int
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True)
class Numbered:
    """The column numbers the rows of one unit that share the values of the columns `among`, from 1."""

    column: int
    among: frozenset[int]
    beside: tuple[Beside, ...] = ()


@dataclass(frozen=True)
class PendingPath:
    """The unit of a private scan is still to be reached: `column` equals `target`'s `target_column` next."""

    column: Column
    target: TableName
    target_column: str


Origin = tuple[TableName, Column, str]
"""A column, and the table and name it has there."""


@dataclass(frozen=True)
class Contribution:
    """How much of one unit there is, as far as it is known. The generated SQL cuts to what follows from it, true or not:
    it decides how much noise is drawn and what is cut, never privacy.

    `limits` are those of the private rows; `beside` are the public relations that repeat them (`fanout`), none: nothing
    repeats them. `per_value` and `numbers` say of which columns' values they have fewer. `sides`: of private relations joined
    on the unit alone, the ids of each one's columns and the groups a unit reaches in it. `keyed`: ids of columns of which no
    two rows share all values. `unique`: ids of columns of each of which no two rows share a value, but for NULL and for rows that
    `beside` repeats (`properties.row_keys`).
    """

    limits: ContributionLimits = ContributionLimits(1, 1)
    beside: tuple[Beside, ...] = ()
    per_value: tuple[RowsPerValue, ...] = ()
    numbers: tuple[Numbered, ...] = ()
    sides: tuple[tuple[frozenset[int], int], ...] = ()
    keyed: frozenset[int] = frozenset()
    unique: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Identity:
    """Which columns name whose row it is. It decides what is accepted, never privacy: wherever rows are related by it, the
    generated SQL compares, or groups by, the unit ids as well.

    `determinants`: ids of columns that fix the unit where they are not NULL (keys of private tables). `tables`: columns of
    private tables, for joins along the policy's foreign-key paths. `origins`: the same, of columns that came through GROUP BY
    or DISTINCT.
    """

    determinants: frozenset[int] = frozenset()
    tables: tuple[Origin, ...] = ()
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Padding:
    """Some rows stand for groups without private ones. It decides which groups are declared and which aggregates mean the same
    without these rows, never privacy: declared groups are joined with what is measured.

    `publics`: public relations that are joined inwardly. `padded`: a public table was the outer side of an outer join; its
    unmatched rows stand for empty groups. `kept`: ids of the columns that are not NULL in those rows.
    """

    publics: tuple[Scan | Public, ...] = ()
    padded: bool = False
    kept: frozenset[int] = frozenset()


@dataclass(frozen=True)
class RandomisedColumn:
    """A column whose values devices randomised: `shown` is what a query names, and stands for the device's true value, which
    nobody has; `stored` holds the report. `name`: the policy's."""

    shown: Column
    stored: Column
    name: str


@dataclass(frozen=True)
class Reported:
    """Rows are reports of devices (PRIVACY.md section 9). `version`: the column that says by which version of the claim, where
    there are several; `times`: of rows that stand for several reports, how many. `conditions` are of randomised columns: they are
    met by true values, so that no row is left out for them. `plain`: names of columns that devices left as they are."""

    table: TableName
    columns: tuple[RandomisedColumn, ...]
    plain: tuple[str, ...] = ()
    version: Column | None = None
    times: Column | None = None
    conditions: tuple[Expr, ...] = ()

    def as_declared(self, value: Ref) -> Ref:
        """Return a randomised column under the policy's name, by whatever name a subquery passes it on."""
        own = next((column.shown for column in self.columns if column.shown.id == value.column.id), None)
        return value if own is None else Ref(own.type, own)

    def named(self, expr: Expr) -> tuple[RandomisedColumn, ...]:
        """Return the randomised columns that an expression names."""
        read = {column.id for column in references(expr)}
        return tuple(column for column in self.columns if column.shown.id in read)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A relation and its privacy type. With a `unit` every row belongs to the unit in it. With `reports` the rows are reports, of
    which none is shown. With neither they are Public.

    **What decides privacy**, and must be true of the rows that `node` has, whatever the data:
    - `unit`: the row is there only because of that unit's rows and of public ones. NULL: it is nobody's, and counts for nothing.
    - `one`: no unit has two rows, because a table has none (its unit column is its key), because each unit is grouped or made
      distinct as a whole, or because such relations are joined on the unit. The step that bounds a unit's rows is left out.
    - `conditions`: each is true in every row. A column that they make equal to the unit is taken for the unit.
    - `Column.constant`: the same in all rows of a unit; then none of its groups are picked. `Column.optional`: NULL in rows that
      an outer join did not match, which are those of many units. Of columns the node alone says it (`columns.nulled_column`).
    What else privacy rests on is not claimed here but enforced by the SQL of a measurement: how many groups a unit reaches
    (`measure.compiler`), how many rows it has in one, that values are on their grid. That functions are total is theirs.

    `weighed`: conditions of columns that devices randomised, of a unit's rows. All rows are there: each weighs in aggregates what
    its report says of the condition (`plan.outer.noise_on_top`). It decides what an answer means, never privacy.

    **What only tunes noise**, and what is accepted: `contribution`, `identity`, `padding`; each says why.

    An operator that makes other rows makes other `Rows`, and says what it claims; what it does not say is not claimed. Only
    `fewer` and `wider` carry all claims over, and which operators these are for is said there.
    """

    node: Relation
    unit: Column | None = None
    pending: PendingPath | None = None
    one: bool = False
    conditions: tuple[Expr, ...] = ()
    contribution: Contribution = Contribution()
    identity: Identity = Identity()
    padding: Padding = Padding()
    reports: Reported | None = None
    weighed: tuple[Expr, ...] = ()

    @property
    def private(self) -> bool:
        """Tell whether no row is to be shown."""
        return self.unit is not None or self.pending is not None or self.reports is not None

    def fewer(self, node: Relation, conditions: tuple[Expr, ...] = ()) -> Rows:
        """Return the same rows under the same columns, or some of them, in all of which the conditions hold too: all claims
        survive. Not for what repeats rows, or makes a value of one another's: joins, GROUP BY, unions."""
        assert {c.id for c in node.columns} >= {c.id for c in self.node.columns}
        return replace(self, node=node, conditions=(*self.conditions, *conditions))

    def wider(self, columns: tuple[Column, ...], items: tuple[Expr, ...]) -> Rows:
        """Return the same rows with more columns, each computed from its own row: all claims survive."""
        return replace(self, node=Project((*columns, *self.node.columns), self.node, items))

    def rewritten(self, node: Relation, conditions: tuple[Expr, ...], unit: Column | None) -> Rows:
        """Return the same rows, written in another way (`measure.normal_form`)."""
        return replace(self, node=node, conditions=conditions, unit=unit)

    def of_parent(self, unit: Column) -> Rows:
        """Return the rows, where a join on the columns of their path meets it: one of them is left only with the parent's row,
        and is of the parent's unit."""
        return replace(self, unit=unit, pending=None)

    def contributing(self, contribution: Contribution) -> Rows:
        return replace(self, contribution=contribution)

    def limited(self, limits: ContributionLimits) -> Rows:
        return replace(self, contribution=replace(self.contribution, limits=limits))

    def padding_of(self, padding: Padding) -> Rows:
        return replace(self, padding=padding)

    # what the parts say, by its own name

    @property
    def limits(self) -> ContributionLimits:
        return self.contribution.limits

    @property
    def beside(self) -> tuple[Beside, ...]:
        return self.contribution.beside

    @property
    def per_value(self) -> tuple[RowsPerValue, ...]:
        return self.contribution.per_value

    @property
    def keyed(self) -> frozenset[int]:
        return self.contribution.keyed

    @property
    def unique(self) -> frozenset[int]:
        return self.contribution.unique

    @property
    def determinants(self) -> frozenset[int]:
        return self.identity.determinants

    @property
    def publics(self) -> tuple[Scan | Public, ...]:
        return self.padding.publics

    @property
    def padded(self) -> bool:
        return self.padding.padded

    @property
    def kept(self) -> frozenset[int]:
        return self.padding.kept
