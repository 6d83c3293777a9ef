"""Planning a statement: tree + policy + settings -> `Plan` or `Refusal`. A pure function.

Knows: the analyser, measurements, how the charge is divided. Must not know: backends, ledgers, entropy. A statement costs what
the session says (`dpproxy.epsilon`, else the role's default), whatever its shape: the charge is divided over its
measurements, and in each over its basis columns, so that a price is known before a query is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dpproxy.errors import FEATURE_NOT_SUPPORTED, PROGRAM_LIMIT_EXCEEDED, UNDEFINED_TABLE, Refusal
from dpproxy.plan import canonical, joins, naming, rollup
from dpproxy.plan.accuracy import settled, settled_text, source_columns
from dpproxy.plan.engines import engine
from dpproxy.plan.explain import account, spelled
from dpproxy.plan.expr import Call, Column, Exists, Expr, Hole, Ref, conjunction
from dpproxy.plan.finish import finish
from dpproxy.plan.functions import unsupported
from dpproxy.plan.given import known_of
from dpproxy.plan.grids import STEPS
from dpproxy.plan.hooks import QueryHooks
from dpproxy.plan.loss import ZERO
from dpproxy.plan.measure import Compiled, Compiler
from dpproxy.plan.model import Array, Dialect, Input, Plan
from dpproxy.plan.outer import Branch, MeasuredSelect, array_source, parse_expression, sets_source, with_columns
from dpproxy.plan.outer_types import TreeTypes
from dpproxy.plan.probes import returns_nothing
from dpproxy.plan.query import Analyser
from dpproxy.plan.relation import Filter, Given, Rows, Values
from dpproxy.plan.results import Item, ReleasedResult, Result, RowsResult, alias_columns, renamed, row_level
from dpproxy.plan.scope import Context, Counter, Env
from dpproxy.plan.select import finish_select
from dpproxy.plan.settings import session_settings
from dpproxy.plan.tables import Shape
from dpproxy.plan.typical import aimable, cuts, typical
from dpproxy.plan.virtual import VIRTUAL_TABLES
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, Role
from dpproxy.sql.dialect import copied, position, to_sql
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
    _first_array: list[int] = field(default_factory=list)
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
        return self._input(f"(SELECT ({_with_ctes(result.tree, ctes)})::{local})", type_)

    def _released_trees(self, env: Env) -> dict[str, exp.Expr]:
        """The rewritten trees of the released CTEs in scope, in order."""
        found = {}
        for name, cte in env.items():
            result = self.released_ctes.get(id(cte.query))
            if result is not None:
                tree = copied(result.tree)
                found[name] = tree if not cte.columns else _renamed(tree, cte.columns)
        return found

    def _input(self, sql: str, type_: str) -> Hole:
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
        cells = ", ".join(f"{_local(n, t)}::text" for n, t in zip(names, types.values(), strict=True))
        sql = (
            f"(SELECT coalesce(json_agg(json_build_array({cells})), '[]') FROM ({_with_ctes(query, ctes)}) "
            f"AS dpproxy_rows({', '.join(names)}))"
        )
        hole = self._input(sql, f"rows({','.join(types.values())})")
        columns = tuple(Column(self.counter.column(), n, t) for n, t in types.items())
        beside = known_of(query, columns, ctes)
        given = Item(item.alias, Rows(Given(columns, hole.index), beside=(beside,)), columns, item.node)
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
        return Rows(Values((), ((),)))

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
        select.set("from_", exp.From(this=self._source(measured, rows)))
        return ReleasedResult(tree, True)

    def _source(self, measured: MeasuredSelect, rows: Rows) -> exp.Expr:
        """The released arrays as a source: one measurement, or one for each grouping set, or the finest added up."""
        compiled = [self._compile(measured, rows, members) for members in measured.sets]
        if len(compiled) == 1 and self._others(measured, compiled[0]):
            return self._with_other(measured, rows, compiled[0])
        if len(compiled) == 1:
            source = self._set_source(measured.alias, compiled[0], measured.sets[0])
            more = source_columns(measured.teller, self._register(compiled[0]), 1)
            return with_columns(source, measured.alias, more) if more else source
        finest = _addable(measured, compiled)
        order = rollup.chain(measured.sets)
        if finest is None and order is not None and _exact_levels(measured, compiled):
            return self._consistent(measured, compiled, order)
        note = NOTES[finest is not None]
        compiled = [replace(c, shape=replace(c.shape, notes=(*c.shape.notes, note))) for c in compiled]
        branches = []
        for i, members in enumerate(measured.sets):
            chosen, keys = (compiled[finest], measured.sets[finest]) if finest is not None else (compiled[i], members)
            source = self._set_source(f"{measured.alias}_{i}", chosen, keys)
            summed = finest is not None and members != keys
            cells = _size(chosen) // _size(compiled[i]) if summed else 1
            more = source_columns(measured.teller, self._register(chosen), cells)
            branches.append((source, members, summed, more))
        return self._branched(measured, branches)

    def _consistent(self, measured: MeasuredSelect, compiled: list[Compiled], order: list[int]) -> exp.Expr:
        """Levels measured by themselves, then made to add up (`rollup`)."""
        noted = [replace(c, shape=replace(c.shape, notes=(*c.shape.notes, ADJUSTED))) for c in compiled]
        levels = []
        for i in order:
            source = to_sql(self._set_source(f"{measured.alias}_{i}", noted[i], measured.sets[i]))
            levels.append(rollup.Level(source, tuple(f"k{k}" for k in measured.sets[i]), self._register(noted[i])))
        ctes, names = rollup.consistent(levels, [f"b{i}" for i in range(len(measured.specs))])
        branches: list[Branch] = []
        for i, name in zip(order, names, strict=True):
            more = source_columns(measured.teller, self._register(noted[i]), 1)
            branches.append((exp.to_table(name), measured.sets[i], False, more))
        return self._branched(measured, branches, ctes)

    @staticmethod
    def _branched(measured: MeasuredSelect, branches: list[Branch], ctes: str = "") -> exp.Expr:
        values = [f"b{i}" for i in range(len(measured.specs))]
        values += [f"s{i}_{j}" for i, s in enumerate(measured.selections) for j in range(s.columns)]
        return sets_source(measured.alias, branches, [_wire(k.type) for _, k in measured.keys], values, ctes)

    def _others(self, measured: MeasuredSelect, compiled: Compiled) -> bool:
        """Whether groups may be missing whose sum is asked for."""
        return self.context.settings.other and compiled.threshold is not None and bool(measured.specs or measured.selections)

    def _with_other(self, measured: MeasuredSelect, rows: Rows, compiled: Compiled) -> exp.Expr:
        """The groups, and one row with NULL keys for all others: a measurement of its own, of the rows whose keys have not
        been released. Which these are is known by then; the two compose like any two statements."""
        members = measured.sets[0]
        source = self._set_source(f"{measured.alias}_0", compiled, members)
        more = source_columns(measured.teller, self._register(compiled), 1)
        rest = self._compile(measured, self._unreleased(rows, measured, compiled), ())
        notes = (*rest.shape.notes, "all groups that have not been released, together")
        rest = replace(rest, shape=replace(rest.shape, notes=notes))
        others = self._set_source(f"{measured.alias}_1", rest, ())
        more_others = source_columns(measured.teller, self._register(rest), 1)
        return self._branched(measured, [(source, members, False, more), (others, (), False, more_others)])

    def _unreleased(self, rows: Rows, measured: MeasuredSelect, compiled: Compiled) -> Rows:
        """The rows whose keys are not among those that a measurement released."""
        keys = [measured.keys[i][1] for i in measured.sets[0]]
        types = [(f"k{i}", key.type) for i, key in enumerate(keys)]
        first = len(self.context.parameters) + 1 + self._first_array[self._register(compiled)]
        cells = ", ".join(f"{_local(name, type_)}::text" for name, type_ in types)
        released = to_sql(array_source("dpproxy_keys", first, types))
        sql = f"(SELECT coalesce(json_agg(json_build_array({cells})), '[]') FROM {released})"
        hole = self._input(sql, f"rows({','.join(type_ for _, type_ in types)})")
        columns = tuple(Column(self.counter.column(), name, type_) for name, type_ in types)
        pairs = zip(columns, keys, strict=True)
        equal = conjunction(tuple(Call("bool", "is_not_distinct", (Ref(c.type, c), key)) for c, key in pairs))
        assert equal is not None
        return joins.filtered(rows, Exists("bool", Filter(columns, Given(columns, hole.index), equal), True))

    def _compile(self, measured: MeasuredSelect, rows: Rows, members: tuple[int, ...]) -> Compiled:
        spelled, context = engine(self.context.dialect), self.context
        chosen = [measured.keys[i] for i in members]
        rows, keys, specs, selections = canonical.normal(rows, chosen, measured.specs, measured.selections)
        compiler = Compiler(rows, context, spelled)
        compiled = compiler.compiled(keys, specs, selections, measured.top)
        return replace(compiled, outputs=tuple(measured.outputs), names=naming.names(compiler, keys, compiled))

    def _set_source(self, alias: str, compiled: Compiled, members: tuple[int, ...]) -> exp.Expr:
        """`unnest(...)` of a measurement's arrays, its keys named after their place among all keys."""
        index = self._register(compiled)
        types = [(f"k{i}", type_) for i, (_, type_) in zip(members, compiled.keys, strict=True)]
        # the compiled measurement may have a column more than was asked for: the units behind its threshold
        types += [(f"b{i}", "int8") for i in range(len(compiled.specs))]
        types += [(f"s{i}_{j}", "int8") for i, s in enumerate(compiled.selections) for j in range(s.columns)]
        first = len(self.context.parameters) + 1 + self._first_array[index]
        return array_source(alias, first, types)

    def _register(self, compiled: Compiled) -> int:
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
        self._first_array.append(len(self.arrays))
        self.arrays += [Array(_wire(t), index, i) for i, (_, t) in enumerate(compiled.keys)]
        width = len(compiled.specs) + sum(s.columns for s in compiled.selections)
        self.arrays += [Array("int8", index, len(compiled.keys) + i) for i in range(width)]
        return index


def _wire(type_: str) -> str:
    return "timestamp" if type_ == "timestamptz" else type_


def _size(compiled: Compiled) -> int:
    """How many groups a measurement has when all are declared."""
    return (compiled.shape.dense.size or 1) if compiled.shape.dense is not None else 1


def _addable(measured: MeasuredSelect, compiled: list[Compiled]) -> int | None:
    """The grouping set whose released cells shall be added up to all others, None to measure each set by itself.

    Adding up needs a set of all keys with declared groups, and additive bases. With S sets measured apart each has 1/S
    of the epsilon: noise S * L0 a cell. Added up, a cell of set s is a sum of n_f / n_s cells of noise L0 of the finest. The
    sum of variances over the sets decides; both roads cost the same charge.
    """
    everything = set(range(len(measured.keys)))
    finest = next((i for i, s in enumerate(measured.sets) if set(s) == everything), None)
    additive = all(s.kind in ("count", "sum") for s in measured.specs) and not measured.selections
    if finest is None or not additive:
        return None
    sizes = [1 if not s else (c.shape.dense.size if c.shape.dense is not None else None)
             for s, c in zip(measured.sets, compiled, strict=True)]  # fmt: skip
    if any(size is None for size in sizes):
        return None
    known = [size or 1 for size in sizes]
    apart = sum((len(compiled) * _reach(c)) ** 2 for c in compiled)
    together = sum(_reach(compiled[finest]) ** 2 * known[finest] / size for size in known)
    return finest if together <= apart else None


NOTES = ("each grouping set is measured by itself", "the other grouping sets are added up from the finest")
ADJUSTED = "each grouping set is measured by itself, then all are adjusted to add up (least squares)"


def _exact_levels(measured: MeasuredSelect, compiled: list[Compiled]) -> bool:
    """Whether the true cells of all sets add up: additive columns of declared groups, of units with one row each."""
    additive = bool(measured.specs) and all(s.kind in ("count", "sum") for s in measured.specs) and not measured.selections
    declared = all(c.shape.dense is not None and c.shape.dense.size is not None for c in compiled if c.keys)
    return additive and declared and not any(c.shape.per_unit for c in compiled)


def _reach(compiled: Compiled) -> int:
    return 1 if compiled.shape.norm else compiled.shape.l0


def _local(name: str, type_: str) -> str:
    """Instants travel as the session's local timestamps."""
    return f"({name})::timestamp" if type_ == "timestamptz" else name


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
    return f"WITH {bodies} SELECT * FROM ({to_sql(tree)}) AS dpproxy_staged"


def plan(statement: Statement, context: Context) -> Plan:
    """The plan of a statement. Raises Refusal; its position counts characters of `statement.query`."""
    if statement.kind not in _KINDS:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "only queries may read private tables",
            hint="Use SELECT; COPY (SELECT ...) TO STDOUT, cursors, PREPARE, EXPLAIN and CREATE TEMP TABLE AS of one work too.",
        )
    try:
        return _roomy(statement, context)
    except RecursionError as error:
        raise Refusal("54001", "statement is nested too deeply") from error


def _roomy(statement: Statement, context: Context) -> Plan:
    """The plan on the finest grids that leave room for the noise in 64 bits."""
    for steps in STEPS[:-1]:
        try:
            return _plan_query(statement, replace(context, steps=steps))
        except Refusal as refusal:
            if refusal.sqlstate != PROGRAM_LIMIT_EXCEEDED:
                raise
    return _plan_query(statement, replace(context, steps=STEPS[-1]))


def planning(policy: Policy, catalog: Catalog, dialect: Dialect) -> PlanFunction:
    """The planner of a dataset: (statement, role, settings by name, names of parameter types) -> Plan."""

    shapes: dict[TableName, Shape] = {}

    def planned(statement: Statement, role: Role, settings: Mapping[str, str | None], types: tuple[str, ...]) -> Plan:
        context = Context(policy, catalog, role, dialect, session_settings(settings), types, shapes=shapes)
        return plan(statement, context)

    return planned


def _plan_query(statement: Statement, context: Context) -> Plan:
    tree = parse(statement.query)
    planner = Planner(context)
    analyser = Analyser(planner)
    result = ReleasedResult(tree, False) if returns_nothing(tree) else analyser.analyse(tree, {})
    if isinstance(result, RowsResult):
        raise row_level(tree, context)
    measurements = finish(planner.compiled, context)
    confidence = Fraction(context.settings.confidence)
    if not planner.compiled and not planner.arrays:
        outer = statement.query  # it turned out to read nothing private: the facade's own business
    else:
        outer = to_sql(settled(guarded(result.tree), measurements, confidence))
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
        cuts(planner.compiled, context.policy.unit_name),
        aimable(planner.compiled),
    )
