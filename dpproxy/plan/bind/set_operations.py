"""UNION, INTERSECT and EXCEPT of rows (PRIVACY.md section 2, the rows on set operations).

Knows: rows and their columns. Must not know: SQL text, engines. Rows of units are put together with their unit as one
more column, so that each row of the result belongs to one unit as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, SYNTAX_ERROR, Refusal
from dpproxy.plan.bind import reported
from dpproxy.plan.bind.constant_columns import with_common_types
from dpproxy.plan.bind.joins import summed_limits
from dpproxy.plan.bind.results import Result, RowsResult
from dpproxy.plan.bind.scope import reading
from dpproxy.plan.bind.tables import reach_unit
from dpproxy.plan.context import Context, Counter
from dpproxy.plan.functions.operators import coerce
from dpproxy.plan.properties.equivalence import EquivalenceClasses, equalities
from dpproxy.plan.properties.facts import as_type, merged
from dpproxy.plan.properties.fanout import beside_values, most_public_rows, overall_limits
from dpproxy.plan.refusals import mixed_rows, unsupported
from dpproxy.policy.names import plural
from dpproxy.sql.dialect import position
from dpproxy.sql.types import common
from dpproxy.table_terms import same_kind
from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref, Relation, Taint, ValuesDomain
from dpproxy.tree.relation import (
    SINGLE,
    Beside,
    Contribution,
    Distinct,
    Identity,
    Project,
    Rows,
    Union,
    Values,
)


class SetOperation:
    """One set operation of two queries that both are rows."""

    def __init__(self, context: Context, counter: Counter, node: exp.SetOperation) -> None:
        self.context, self.counter, self.node = context, counter, node
        self.distinct = bool(node.args.get("distinct"))
        self.union = isinstance(node, exp.Union)

    def of(self, left: RowsResult, right: RowsResult) -> RowsResult:
        """Combine two queries that both are rows. Raises Refusal."""
        if len(left.columns) != len(right.columns):
            raise Refusal(SYNTAX_ERROR, "each UNION query must have the same number of columns", position(self.node))
        for rows in (left.rows, right.rows):
            if rows.reports is not None:
                raise reported.beside_private(rows.reports.table.name, position(self.node))
        if left.rows.private != right.rows.private:
            raise mixed_rows(self.node, self.context.policy.unit_name)
        for column in (*left.columns, *right.columns):
            reading(column)
        left, right = with_common_types(left, right, type(self.node).__name__.upper())
        sides = [reach_unit(side.rows, self.context, self.counter) for side in (left, right)]
        outputs = tuple(self._merged(a, b) for a, b in zip(left.columns, right.columns, strict=True))
        constants = [_constant_rows(left), _constant_rows(right)]
        if self.union and constants[0] is not None and constants[1] is not None:
            return self._constants(outputs, [*constants[0], *constants[1]])
        if not self.union:
            return self._sides(outputs, sides, (left, right))
        return self._union(outputs, sides, (left, right))

    def _union(self, outputs: tuple[Column, ...], sides: list[Rows], results: tuple[RowsResult, RowsResult]) -> RowsResult:
        unit = _unit_column(sides, self.counter) if results[0].rows.private else None
        extra = (unit,) if unit is not None else ()
        children = []
        for side, result in zip(sides, results, strict=True):
            columns = [*result.columns, *([side.unit] if side.unit is not None else [])]
            children.append(projected(side.node, columns, self.counter))
        rows_node = Union((*outputs, *extra), tuple(children))
        limits = summed_limits(overall_limits(sides[0]), overall_limits(sides[1]))
        same = _unit_equalities(outputs, unit, sides, results)
        ids = _unit_ids(outputs, *results)
        node: Relation = rows_node
        one = False
        if self.distinct and unit is not None and not fix_unit(*results):
            raise self._across_units()
        if self.distinct:
            one = unit is not None and _only_units(sides, results)
            node, limits = Distinct(rows_node.columns, rows_node), SINGLE if one else limits
        known = Contribution(limits, self._beside(node, sides))
        return RowsResult(
            Rows(node=node, unit=unit, one=one, conditions=same, contribution=known, identity=Identity(ids)), outputs
        )

    def _constants(self, outputs: tuple[Column, ...], rows: list[tuple[Expr, ...]]) -> RowsResult:
        """`SELECT 1, 'a' UNION ALL SELECT 2, 'b' ...`: a list of values, however long."""
        typed = [tuple(coerce(e, c.type) for e, c in zip(row, outputs, strict=True)) for row in rows]
        if self.distinct:
            typed = list(dict.fromkeys(typed))
        values = Values(outputs, tuple(typed))
        return RowsResult(Rows(node=values, contribution=Contribution(beside=(beside_values(values),))), outputs)

    def _sides(self, outputs: tuple[Column, ...], sides: list[Rows], results: tuple[RowsResult, RowsResult]) -> RowsResult:
        """INTERSECT and EXCEPT of public rows, or of rows whose columns fix the unit: what is kept is one unit's business."""
        word = "intersect" if isinstance(self.node, exp.Intersect) else "except"
        if any(o.type == "interval" for o in outputs):
            raise unsupported(f"{word.upper()} of intervals", "Select numbers: extract(epoch FROM x).")
        unit = _unit_column(sides, self.counter) if sides[0].private else None
        if unit is not None and not fix_unit(*results):
            raise self._across_units()
        extra = (unit,) if unit is not None else ()
        children = tuple(
            projected(side.node, [*result.columns, *([side.unit] if side.unit is not None else [])], self.counter)
            for side, result in zip(sides, results, strict=True)
        )
        node = Union((*outputs, *extra), children, word if self.distinct else f"{word} all")
        if unit is None:
            return RowsResult(Rows(node=node, contribution=Contribution(beside=self._beside(node, sides))), outputs)
        one = self.distinct and _only_units(sides, results)
        limits = SINGLE if one else overall_limits(sides[0])
        same = _unit_equalities(outputs, unit, sides, results)
        ids = Identity(_unit_ids(outputs, *results))
        return RowsResult(
            Rows(node=node, unit=unit, one=one, conditions=same, contribution=Contribution(limits), identity=ids), outputs
        )

    @staticmethod
    def _beside(node: Relation, sides: list[Rows]) -> tuple[Beside, ...]:
        """Of public sides."""
        if any(side.private for side in sides):
            return ()
        sizes = [most_public_rows(side) for side in sides]
        return (Beside(frozenset(c.id for c in node.columns), None if None in sizes else sum(s or 0 for s in sizes)),)

    def _across_units(self) -> Refusal:
        policy = self.context.policy
        return Refusal(
            FEATURE_NOT_SUPPORTED,
            f"{type(self.node).__name__.upper()} compares rows of different {plural(policy.unit_name)}",
            position(self.node),
            hint=f"Write SELECT DISTINCT on both sides, select `{policy.unit_column}` on both, or count or group the result in a "
            "query around it.",
        )

    def _merged(self, a: Column, b: Column) -> Column:
        domain = a.domain if a.domain == b.domain else None
        if isinstance(a.domain, ValuesDomain) and isinstance(b.domain, ValuesDomain):
            domain = ValuesDomain(tuple(dict.fromkeys((*a.domain.values, *b.domain.values))))
        type_ = common([a.type, b.type])
        bound, limited = merged([as_type(type_, Ref(c.type, c)) for c in (a, b)])
        return Column(
            self.counter.column(), a.name, type_, bound,
            a.grid if a.grid == b.grid else None, max(a.taint, b.taint), constant=False, domain=domain,
            optional=a.optional or b.optional, undeclared=a.undeclared or b.undeclared, limited=limited,
            exact=a.exact if a.exact == b.exact else "",
        )  # fmt: skip


def fix_unit(left: Result, right: Result) -> bool:
    """Tell whether both sides are rows that agree in a column only when they are of the same unit (or are not private at all)."""
    if not isinstance(left, RowsResult) or not isinstance(right, RowsResult):
        return False
    if not left.rows.private and not right.rows.private:
        return True
    for a, b in zip(left.columns, right.columns, strict=False):
        same = a.taint == b.taint and (a.taint == Taint.UNIT or a.name == b.name) and same_kind(a, b)
        if same and _fixes(a, left.rows) and _fixes(b, right.rows):
            return True
    return False


def _fixes(column: Column, rows: Rows) -> bool:
    return not column.optional and (column.id in rows.determinants or (rows.unit is not None and column.id == rows.unit.id))


def _unit_equalities(
    outputs: Sequence[Column], unit: Column | None, sides: Sequence[Rows], results: Sequence[RowsResult]
) -> tuple[Expr, ...]:
    """What joins look for: which outputs are the unit id of their row, on whichever side it comes from."""
    if unit is None:
        return ()
    found = []
    for output, *columns in zip(outputs, *(r.columns for r in results), strict=True):
        if all(_is_unit(c, s) for c, s in zip(columns, sides, strict=True)):
            found.append(Call("bool", "=", (Ref(output.type, output), Ref(unit.type, unit))))
    return tuple(found)


def _is_unit(column: Column, rows: Rows) -> bool:
    if rows.unit is None or column.optional:
        return False
    classes = EquivalenceClasses(equalities(rows.conditions))
    return classes.find(column.id) == classes.find(rows.unit.id)


def _only_units(sides: Sequence[Rows], results: Sequence[RowsResult]) -> bool:
    """Whether all columns are the unit id."""
    return all(s.unit is not None and c.id == s.unit.id for s, r in zip(sides, results, strict=True) for c in r.columns)


def projected(node: Relation, columns: Sequence[Column], counter: Counter) -> Project:
    """Return these columns alone, under new ids."""
    fresh = tuple(replace(c, id=counter.column()) for c in columns)
    return Project(fresh, node, tuple(Ref(c.type, c) for c in columns))


def _unit_column(sides: Sequence[Rows], counter: Counter) -> Column:
    units = [s.unit for s in sides if s.unit is not None]
    return replace(units[0], id=counter.column(), nullable=any(u.nullable for u in units))


def _constant_rows(result: RowsResult) -> list[tuple[Expr, ...]] | None:
    """The rows of a query of constants; None for other queries."""
    node = result.rows.node
    if isinstance(node, Values) and node.columns and tuple(c.id for c in node.columns) == tuple(c.id for c in result.columns):
        return list(node.rows)
    if not isinstance(node, Project) or not isinstance(node.child, Values) or node.child.columns:
        return None
    whole = len(node.items) == len(result.columns) and all(isinstance(i, Lit) for i in node.items)
    return [node.items] if whole else None


def _unit_ids(outputs: Sequence[Column], left: RowsResult, right: RowsResult) -> frozenset[int]:
    """Output columns that fix the unit on both sides."""
    found = set()
    for output, a, b in zip(outputs, left.columns, right.columns, strict=True):
        if same_kind(a, b) and _fixes(a, left.rows) and _fixes(b, right.rows):
            found.add(output.id)
    return frozenset(found)
