"""Planning a statement: tree + policy + settings -> `Plan` or `Refusal`. A pure function.

Knows: the analyser, measurements, how the charge is divided. Must not know: backends, ledgers, entropy. A statement costs what
the session says (`dpproxy.epsilon`, else the role's default), whatever its shape: the charge is divided over its
measurements, and in each over its basis columns, so that a price is known before a query is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpproxy.errors import (
    FEATURE_NOT_SUPPORTED,
    PROGRAM_LIMIT_EXCEEDED,
    STATEMENT_TOO_COMPLEX,
    SYNTAX_ERROR,
    UNDEFINED_TABLE,
    NoRoom,
    Refusal,
)
from dpproxy.plan import (
    amplification,
    canonical,
    coverage,
    cuts,
    expansion,
    fanout,
    joins,
    laterals,
    lookups,
    naming,
    parentheses,
    taken_apart,
    unmatched,
)
from dpproxy.plan.accuracy import settled, settled_text
from dpproxy.plan.effort import counted
from dpproxy.plan.engines import engine
from dpproxy.plan.engines.base import Engine
from dpproxy.plan.explain import account, spelled
from dpproxy.plan.expr import Agg, Call, Column, Expr, Hole, conjunction
from dpproxy.plan.finish import finish
from dpproxy.plan.functions import unsupported
from dpproxy.plan.given import as_json, bounds_of, known_of
from dpproxy.plan.grids import STEPS
from dpproxy.plan.hooks import QueryHooks
from dpproxy.plan.interval import OPEN
from dpproxy.plan.loss import ZERO
from dpproxy.plan.measure import Compiled, Compiler, column_notes
from dpproxy.plan.mixed import parted
from dpproxy.plan.model import Array, Dialect, Input, Plan
from dpproxy.plan.outer import MeasuredSelect, array_source, parse_expression
from dpproxy.plan.outer_types import TreeTypes
from dpproxy.plan.probes import returns_nothing
from dpproxy.plan.query import Analyser
from dpproxy.plan.ranked import percentiles
from dpproxy.plan.relation import Beside, Contribution, Given, Rows, Values
from dpproxy.plan.released import local, source, wire
from dpproxy.plan.results import Item, ReleasedResult, Result, RowsResult, alias_columns, renamed, row_level
from dpproxy.plan.scope import Context, Counter, Env
from dpproxy.plan.select import finish_select
from dpproxy.plan.settings import session_settings
from dpproxy.plan.specs import BasisSpec, SelectionSpec
from dpproxy.plan.tables import Shape
from dpproxy.plan.trees import mentions
from dpproxy.plan.typical import aimable, typical
from dpproxy.plan.virtual import VIRTUAL_TABLES
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, Role
from dpproxy.sql.dialect import copied, locate, position, to_sql, to_sql_once
from dpproxy.sql.statements import Statement, parse

MAX_MEASUREMENTS = 64  # of one statement: each costs a backend query

PlanFunction = Callable[[Statement, Role, Mapping[str, str | None], tuple[str, ...]], Plan]

_KINDS = ("select", "explain", "copy", "cursor", "create_table_as", "prepare")


@dataclass
class Planner:
    """State of planning one statement; nothing outlives it."""

    context: Context
    counter: Counter = field(default_factory=Counter)
    compiled: list[Compiled] = field(default_factory=list)
    arrays: list[Array] = field(default_factory=list)
    inputs: list[Input] = field(default_factory=list)
    released_ctes: dict[int, ReleasedResult] = field(default_factory=dict)
    first_array: list[int] = field(default_factory=list)
    scalars: dict[str, list[tuple[Env, Expr]]] = field(default_factory=dict)
    given: dict[int, Beside] = field(default_factory=dict)  # by hole: what is known of rows that the facade hands over
    _aliases: int = 0
    _virtual: dict[str, int] = field(default_factory=dict)

    def next_alias(self) -> str:
        self._aliases += 1
        return f"dpproxy_m{self._aliases}"

    def hooks(self, analyser: Analyser, env: Env, rows: Rows | None) -> QueryHooks:
        return QueryHooks(self, analyser, env, rows)

    def finish_select(self, analyser: Analyser, select: exp.Select, rows: Rows, scope: object, env: Env) -> Result:
        from dpproxy.plan.scope import Scope

        assert isinstance(scope, Scope)
        return finish_select(self, analyser, select, rows, scope, env)

    # --- constants and staged values

    def facade_constant(self, sql: str, type_: str) -> Expr:
        wanted = Input(sql, type_)
        if wanted not in self.inputs:
            self.inputs.append(wanted)
        return Hole(type_, len(self.context.parameters) + self.inputs.index(wanted))

    def released_scalar(self, result: ReleasedResult, env: Env) -> Expr:
        """A released scalar subquery below a measurement: evaluated by the facade first, then a constant."""
        ctes = self._released_trees(env)
        type_ = TreeTypes(self.context, ctes).scalar(result.tree)
        if not type_:
            raise unsupported("a scalar subquery of this form", "Cast its result: (SELECT ...)::numeric.")
        local = "timestamp" if type_ == "timestamptz" else type_
        bounds = bounds_of(result.tree, ctes)
        hole = self.input(f"(SELECT ({_with_ctes(result.tree, ctes)})::{local})", type_)
        return replace(hole, bound=bounds[0]) if len(bounds) == 1 else hole

    def _released_trees(self, env: Env) -> dict[str, exp.Expr]:
        """The rewritten trees of the released CTEs in scope, in order."""
        found = {}
        for name, cte in env.items():
            result = self.released_ctes.get(id(cte.query))
            if result is not None:
                tree = copied(result.tree)
                found[name] = tree if not cte.columns or mentions(tree, name) else _renamed(tree, cte.columns)
        return found

    def input(self, sql: str, type_: str) -> Hole:
        arrays, measurements = self._used(sql)
        self.inputs.append(Input(sql, type_, arrays, measurements))
        return Hole(type_, len(self.context.parameters) + len(self.inputs) - 1)

    def _used(self, sql: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        first = len(self.context.parameters)
        numbers = {int(n) - first - 1 for n in re.findall(r"\$(\d+)", sql)}
        arrays = tuple(sorted(n for n in numbers if 0 <= n < len(self.arrays)))
        measurements = {self.arrays[a].measurement for a in arrays}
        return arrays, tuple(sorted(m for m in measurements if m is not None))

    def released_rows(self, analyser: Analyser, item: Item, query: exp.Expr, env: Env) -> Item:
        """Released rows joined with private ones: the facade computes them first, then they are constants."""
        ctes = self._released_trees(env)
        types = TreeTypes(self.context, ctes).columns(query)
        if not types or not all(types.values()):
            raise unsupported("joining these released rows with private rows", "Cast their columns: x::text, n::numeric.")
        names = [f"c{i}" for i in range(len(types))]
        cells = ", ".join(f"{local(n, t)}::text" for n, t in zip(names, types.values(), strict=True))
        bounds = bounds_of(query, ctes)
        bounds = bounds if len(bounds) == len(types) else [OPEN] * len(types)
        columns = tuple(Column(self.counter.column(), n, t, b) for (n, t), b in zip(types.items(), bounds, strict=True))
        beside = known_of(query, columns, ctes)
        sql = as_json(_with_ctes(query, ctes), names, cells, amplification.handed(beside))
        hole = self.input(sql, f"rows({','.join(types.values())})")
        self.given[hole.index] = beside
        given = Item(
            item.alias, Rows(node=Given(columns, hole.index), contribution=Contribution(beside=(beside,))), columns, item.node
        )
        return renamed(given, alias_columns(item.node))

    def released_in(self, analyser: Analyser, query: exp.Expr, env: Env) -> RowsResult:
        """`x IN (released query)`."""
        result = analyser.analyse(copied(query), env)
        if isinstance(result, RowsResult):
            raise unsupported("IN (subquery) of this form")
        item = self.released_rows(analyser, Item("", None, (), exp.Subquery(this=result.tree)), result.tree, env)
        assert item.rows is not None
        return RowsResult(item.rows, item.columns)

    def values_item(self, analyser: Analyser, node: exp.Values) -> Item:
        from dpproxy.plan.values import values_item

        return values_item(self, analyser, node)

    def one_row(self) -> Rows:
        """FROM nothing: one row without columns."""
        return Rows(node=Values((), ((),)))

    def virtual(self, node: exp.Table, name: str) -> None:
        """A table of schema dpproxy: replaced by arrays the session fills."""
        columns = VIRTUAL_TABLES.get(name)
        if columns is None:
            raise Refusal(UNDEFINED_TABLE, f'relation "dpproxy.{name}" does not exist', position(node))
        if name not in self._virtual:
            self._virtual[name] = len(self.arrays)
            self.arrays += [Array(t, None, i, name) for i, (_, t) in enumerate(columns)]
        first = len(self.context.parameters) + 1 + self._virtual[name]
        alias = copied(node.args["alias"].this) if node.args.get("alias") is not None else exp.to_identifier(name)
        source = array_source("dpproxy_v", first, list(columns))
        source.args["alias"].set("this", alias)
        node.replace(source)

    # --- measurements

    def measure(self, analyser: Analyser, select: exp.Select, rows: Rows, scope: object, env: Env) -> ReleasedResult:
        from dpproxy.plan.scope import Scope

        assert isinstance(scope, Scope)
        measured = MeasuredSelect(self, analyser, select, rows, scope, env)
        tree = measured.rewrite()
        if not (measured.keys or measured.specs or measured.selections):
            raise unsupported("a query with neither keys nor aggregates")
        select.set("from_", exp.From(this=source(self, measured, rows)))
        return ReleasedResult(tree, True)

    def compile(self, measured: MeasuredSelect, rows: Rows, members: tuple[int, ...]) -> Compiled:
        context = self.context
        chosen = [measured.keys[i] for i in members]
        fanout.check(rows, [key for _, key in chosen])
        rows, keys, specs, selections = canonical.normal(rows, chosen, measured.specs, measured.selections)
        compiler = Compiler(rows, context, self._spelled(rows, keys, specs, selections))
        compiled = compiler.compiled(keys, specs, selections, measured.top)
        beyond = cuts.condition(compiled) if context.role.query.measure_bounds else ""
        cut = compiler.cut(keys, beyond) if beyond else ""
        names, more = naming.names(compiler, keys, compiled), column_notes(compiled, context.policy.unit_name)
        told = replace(compiled.shape, notes=(*compiled.shape.notes, *more))
        dense = compiled.shape.dense
        whole = dense is not None and coverage.holds_all(dense, rows.conditions)
        return replace(compiled, shape=told, outputs=tuple(measured.outputs), names=names, cut=cut, holds_all=whole)

    def _spelled(
        self,
        rows: Rows,
        keys: Sequence[tuple[str, Expr]],
        specs: Sequence[BasisSpec] = (),
        selections: Sequence[SelectionSpec] = (),
    ) -> Engine:
        """The engine with texts cut as the measurement's cost demands. Raises Refusal when nothing bounds the cost."""
        items = [key for _, key in keys]
        items += [e for s in specs for e in (s.value, s.where) if e is not None]
        items += [e for c in selections for e in (c.value, c.where) if e is not None]
        cut, _ = amplification.chosen(rows.node, items, self.context, self.given)
        return engine(self.context.dialect, cut)

    def shared_values(self, measured: MeasuredSelect, agg: Agg) -> tuple[str, exp.Expr] | None:
        """The values that enough units share in each group of a measured SELECT, as a source of its own; its columns are the
        keys and then the value. None when the values are declared: then all are there, whoever has them."""
        value = agg.args[0]
        present = Call("bool", "is_not_null", (value,))
        rows = joins.filtered(measured.rows, conjunction((*([agg.where] if agg.where is not None else []), present)))
        keys = [*(measured.keys[i] for i in measured.sets[0]), (f"values of {agg.name}()", value)]
        rows, keys, _, _ = canonical.normal(rows, keys, [], [])
        compiler = Compiler(rows, self.context, self._spelled(rows, keys))
        compiled = compiler.compiled(keys, [], [])
        if compiled.shape.dense is not None:
            return None
        alias = self.next_alias()
        compiled = replace(compiled, names=naming.names(compiler, keys, compiled))
        return alias, self.set_source(alias, compiled, tuple(range(len(keys))))

    def set_source(self, alias: str, compiled: Compiled, members: tuple[int, ...]) -> exp.Expr:
        """`unnest(...)` of a measurement's arrays, its keys named after their place among all keys."""
        index = self.register(compiled)
        types = [(f"k{i}", type_) for i, (_, type_) in zip(members, compiled.keys, strict=True)]
        # the compiled measurement may have a column more than was asked for: the units behind its threshold
        types += [(f"b{i}", "int8") for i in range(len(compiled.specs))]
        types += [(f"s{i}_{j}", "int8") for i, s in enumerate(compiled.selections) for j in range(s.columns)]
        stepped = [i for i, spec in enumerate(compiled.specs) if spec.steps(compiled.shape) > 1]
        types += [(name, "int8") for i in stepped for name in (f"r{i}", f"t{i}")]
        first = len(self.context.parameters) + 1 + self.first_array[index]
        return array_source(alias, first, types)

    def register(self, compiled: Compiled) -> int:
        for i, known in enumerate(self.compiled):
            if (known.sql, known.specs, known.selections, known.top) == (
                compiled.sql, compiled.specs, compiled.selections, compiled.top,
            ):  # fmt: skip
                self.compiled[i] = replace(known, outputs=tuple(dict.fromkeys((*known.outputs, *compiled.outputs))))
                return i
        if len(self.compiled) >= MAX_MEASUREMENTS:
            raise Refusal("54001", f"statement needs more than {MAX_MEASUREMENTS} measurements")
        index = len(self.compiled)
        self.compiled.append(compiled)
        self.first_array.append(len(self.arrays))
        self.arrays += [Array(wire(t), index, i) for i, (_, t) in enumerate(compiled.keys)]
        stepped = sum(spec.steps(compiled.shape) > 1 for spec in compiled.specs)
        width = len(compiled.specs) + sum(s.columns for s in compiled.selections) + 2 * stepped
        self.arrays += [Array("int8", index, len(compiled.keys) + i) for i in range(width)]
        return index


def _renamed(tree: exp.Expr, columns: tuple[str, ...]) -> exp.Expr:
    """A CTE's query under the column names of its WITH clause."""
    names = ", ".join(f'"{c}"' for c in columns)
    return parse_expression(f"SELECT * FROM ({to_sql(tree)}) AS dpproxy_cte({names})")


def guarded(tree: exp.Expr) -> exp.Expr:
    """Divisors made NULL where they are 0: a noisy count may be 0 where the exact one never is."""
    for node in list(tree.find_all(exp.Div, exp.Mod)):
        divisor = node.expression
        if not _never_zero(divisor):
            divisor.replace(_or_null(divisor))
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() in ("mod", "div") and len(call.expressions) == 2 and not _never_zero(call.expressions[1]):
            call.set("expressions", [call.expressions[0], _or_null(call.expressions[1])])
    return tree


def _or_null(divisor: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="NULLIF", expressions=[copied(divisor), exp.Literal.number(0)])


def _never_zero(divisor: exp.Expr) -> bool:
    """A number, NULLIF(x, 0), or GREATEST with a number above 0."""
    plain = divisor.unnest() if isinstance(divisor, exp.Paren) else divisor
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "nullif":
        return _number(plain.expressions[-1]) == 0
    if isinstance(plain, exp.Anonymous) and plain.name.lower() == "greatest":
        return any((_number(e) or 0) > 0 for e in plain.expressions)
    return bool(_number(plain))


def _number(node: exp.Expr) -> float | None:
    return float(node.this) if isinstance(node, exp.Literal) and not node.is_string else None


def _with_ctes(tree: exp.Expr, ctes: Mapping[str, exp.Expr]) -> str:
    """A released query with the CTEs it may refer to in front of it."""
    if not ctes:
        return to_sql(tree)
    bodies = ", ".join(f'"{name}" AS ({to_sql(body)})' for name, body in ctes.items())
    word = "WITH RECURSIVE" if any(mentions(body, name) for name, body in ctes.items()) else "WITH"
    return f"{word} {bodies} SELECT * FROM ({to_sql(tree)}) AS dpproxy_staged"


def plan(statement: Statement, context: Context) -> Plan:
    """The plan of a statement. Raises Refusal; its position counts characters of `statement.query`."""
    if statement.kind not in _KINDS:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "only queries may read private tables",
            hint="Use SELECT; COPY (SELECT ...) TO STDOUT, cursors, PREPARE, EXPLAIN and CREATE TEMP TABLE AS of one work too.",
        )
    try:
        return counted(lambda: _roomy(statement, context))[0]
    except RecursionError as error:
        raise Refusal("54001", "statement is nested too deeply") from error
    except SqlglotError as error:
        raise Refusal(SYNTAX_ERROR, "dpproxy cannot parse this statement over private tables") from error


def _roomy(statement: Statement, context: Context) -> Plan:
    """The plan on the finest grids that leave room for the noise in 64 bits."""
    most = STEPS[0]
    for steps in STEPS[:-1]:
        if steps <= most:
            try:
                return _plan_query(statement, replace(context, steps=steps))
            except NoRoom as refusal:
                most = min(steps, refusal.size or steps) // refusal.times
    return _plan_query(statement, replace(context, steps=STEPS[-1]))


def planning(policy: Policy, catalog: Catalog, dialect: Dialect, pick_key: int = 0) -> PlanFunction:
    """The planner of a dataset: (statement, role, settings by name, names of parameter types) -> Plan. `pick_key`: see
    `Context`."""

    shapes: dict[TableName, Shape] = {}

    def planned(statement: Statement, role: Role, settings: Mapping[str, str | None], types: tuple[str, ...]) -> Plan:
        context = Context(policy, catalog, role, dialect, session_settings(settings), types, pick_key=pick_key, shapes=shapes)
        return plan(statement, context)

    return planned


def _analysed(statement: Statement, context: Context) -> tuple[Planner, ReleasedResult]:
    """What a statement reads, measured. One that is refused may be another way to write one that is not (`parentheses`,
    `laterals`, `lookups`, `taken_apart`, `ranked`, `mixed`, `unmatched`)."""
    try:
        return _measured(parse(statement.query), context)
    except Refusal as refusal:
        if refusal.sqlstate in (STATEMENT_TOO_COMPLEX, PROGRAM_LIMIT_EXCEEDED):
            raise  # written another way it is no smaller
        tree = parse(statement.query)
        reader = Analyser(Planner(context))
        reads = reader.reads_private(tree)
        changed = [parentheses.without(tree), laterals.without(tree), taken_apart.inside(tree, reads), percentiles(tree)]
        changed += [lookups.joined(tree, reads), parted(tree, reads), unmatched.counted(tree, reader.known(reads))]
        if not any(changed):
            raise
        return _measured(tree, context)


def _measured(tree: exp.Expr, context: Context) -> tuple[Planner, ReleasedResult]:
    expansion.check(tree)
    locate(tree)
    for column in tree.find_all(exp.Column):
        column.set("db", None)  # `schema.table.column`: which table is meant PostgreSQL has checked
    planner = Planner(context)
    result = ReleasedResult(tree, False) if returns_nothing(tree) else Analyser(planner).analyse(tree, {})
    if isinstance(result, RowsResult):
        raise row_level(tree, context)
    return planner, result


def _plan_query(statement: Statement, context: Context) -> Plan:
    planner, result = _analysed(statement, context)
    measured = cuts.measured(planner.compiled, context.policy.unit_name)
    planner.compiled += [compiled for compiled, _ in measured]
    measurements = finish(planner.compiled, context)
    confidence = Fraction(context.settings.confidence)
    if not planner.compiled and not planner.arrays:
        outer = statement.query  # it turned out to read nothing private: the facade's own business
    else:
        outer = to_sql_once(settled(guarded(result.tree), measurements, confidence))
    inputs = [replace(i, sql=settled_text(i.sql, measurements, confidence)) for i in planner.inputs]
    loss = sum((m.loss for m in measurements), ZERO)
    return Plan(
        tuple(measurements),
        outer,
        len(context.parameters),
        tuple(planner.arrays),
        tuple(inputs),
        loss,
        spelled(account(measurements, planner.compiled, loss, context, outer), statement.options),
        typical(measurements, planner.compiled),
        cuts.unmeasured(planner.compiled, context.policy.unit_name),
        tuple(cut for _, cut in measured),
        aimable(planner.compiled),
    )
