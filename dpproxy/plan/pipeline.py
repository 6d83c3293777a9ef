"""Planning a statement: tree + policy + settings -> `Plan` or `Refusal`. A pure function, and the table of contents of `plan`.

    parse      text to tree                                             sql.statements
    bind       names, types and whose rows they are; what is measured   bind, outer, measure
    (rewrite   where that is refused: the tree in another way,          rewrite
     bind      and once more)
    calibrate  what the statement costs, over all it measures           measure.noise_scales, privacy
    prove      that no unit changes more than is claimed                kernel
    agree      totals and parts that are measured apart                 outer.totals
    spell      the query above the measurements, as text                intervals.writer
    report     EXPLAIN, typical errors, what bounds may cut             report

Knows: which stage follows which. Must not know: backends, ledgers, entropy; what a stage does is said where it stands. The stages
are functions below, in this order. A statement costs what the session says (`dpproxy.epsilon`, else the role's default), whatever
its shape: the charge is divided over its measurements, and in each over its basis columns, so that a price is known before a
query is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpproxy.amounts import ATTO
from dpproxy.errors import (
    FEATURE_NOT_SUPPORTED,
    INTERNAL_ERROR,
    PROGRAM_LIMIT_EXCEEDED,
    STATEMENT_TOO_COMPLEX,
    SYNTAX_ERROR,
    NoRoom,
    Refusal,
    UnprovenPlan,
)
from dpproxy.kernel.leaves import Leaves, Unproven, leaves
from dpproxy.kernel.reports import judged
from dpproxy.kernel.verdict import Derived, Stored, check, derived
from dpproxy.plan.bind import cte_expansion
from dpproxy.plan.bind.queries import QueryBinder
from dpproxy.plan.bind.reported import rows_of_reports
from dpproxy.plan.bind.results import ReleasedResult, RowsResult
from dpproxy.plan.context import GRID_STEPS, Context, Counter, StoredTable, TableColumns, session_settings
from dpproxy.plan.intervals import moved_calls
from dpproxy.plan.intervals.ends import endless
from dpproxy.plan.intervals.numbers import text_with_error_numbers, with_error_numbers
from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.measure import bound_cuts
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.measure.noise_scales import calibrate
from dpproxy.plan.model import Cut, Input, Plan
from dpproxy.plan.outer import totals
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.safe_division import with_safe_division
from dpproxy.plan.outer.staging import StatementMeasurer
from dpproxy.plan.outer.totals import Totals
from dpproxy.plan.previews import preview
from dpproxy.plan.refusals import FormRefusal, rows_of_people
from dpproxy.plan.report.explain import explain_rows, plan_account
from dpproxy.plan.report.omissions import hidden_groups, with_proofs
from dpproxy.plan.report.readings import reading_account, reports_account
from dpproxy.plan.report.typical_error import aimable, typical_aggregates
from dpproxy.plan.rewrite.rules import rewritten
from dpproxy.plan.signals import signals
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.data_claims import told, unitless_rows
from dpproxy.policy.model import Policy, Role
from dpproxy.policy.unit_forms import others_named
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import each
from dpproxy.privacy.readings import Reading
from dpproxy.privacy.vector_loss import loss_together
from dpproxy.sql.dialect import locate, to_sql_once
from dpproxy.sql.effort import counted
from dpproxy.sql.grouping_sets import returns_nothing
from dpproxy.sql.nodes import every
from dpproxy.sql.statements import Statement, parse
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName
from dpproxy.tree.relation import Beside

PlanFunction = Callable[[Statement, Role, Mapping[str, str | None], tuple[str, ...]], Plan]

Proved = tuple[Measurement, Derived]

_KINDS = ("select", "explain", "copy", "cursor", "create_table_as", "prepare")


def planning(
    policy: Policy, catalog: Catalog, dialect: Dialect, pick_key: int = 0, stored: Sequence[StoredTable] = ()
) -> PlanFunction:
    """Return the planner of a dataset: (statement, role, settings by name, names of parameter types) -> Plan. `pick_key`,
    `stored`: see `Context`."""

    table_columns: dict[TableName, TableColumns] = {}
    known = leaves(policy, catalog)

    def planned(statement: Statement, role: Role, settings: Mapping[str, str | None], types: tuple[str, ...]) -> Plan:
        asked = dict(statement.asked)
        role = _within(role, asked.pop("delta", None))
        chosen = session_settings({**settings, **asked})
        context = Context(
            policy, catalog, role, dialect, chosen, types, pick_key=pick_key, table_columns=table_columns, leaves=known,
            stored=tuple(stored),
        )  # fmt: skip
        return plan(statement, context)

    return planned


def _within(role: Role, delta: str | None) -> Role:
    """The role whose statements cost at most this delta, where one is asked for that is smaller than its own."""
    if delta is None:
        return role
    return replace(role, query=replace(role.query, delta=min(role.query.delta, int(Decimal(delta) * ATTO))))


def plan(statement: Statement, context: Context) -> Plan:
    """Plan a statement. Raises Refusal; its position counts characters of `statement.query`."""
    if statement.kind not in _KINDS:
        raise Refusal(
            FEATURE_NOT_SUPPORTED,
            "only queries may read private tables",
            hint="Use SELECT; COPY (SELECT ...) TO STDOUT, cursors, PREPARE and EXPLAIN of one work too, and "
            "CREATE TEMP TABLE AS where the policy allows it.",
        )
    try:
        return counted(lambda: _with_room(statement, context))[0]
    except RecursionError as error:
        raise Refusal(STATEMENT_TOO_COMPLEX, "statement is nested too deeply") from error
    except SqlglotError as error:
        raise Refusal(SYNTAX_ERROR, "dpproxy cannot parse this statement over private tables") from error


def _with_room(statement: Statement, context: Context) -> Plan:
    """The plan on the finest grids that leave room for the noise in 64 bits."""
    most = GRID_STEPS[0]
    for steps in GRID_STEPS[:-1]:
        if steps <= most:
            try:
                return _all_stages(statement, replace(context, steps=steps))
            except NoRoom as refusal:
                most = min(steps, refusal.size or steps) // refusal.times
    return _all_stages(statement, replace(context, steps=GRID_STEPS[-1]))


def _all_stages(statement: Statement, context: Context) -> Plan:
    signalled = signals(statement, context)
    if signalled is not None:
        return signalled
    try:
        registry, result, rules = _bind_or_rewrite(statement, context)
    except Refusal as refusal:
        shown = None if isinstance(refusal, NoRoom) else preview(statement, context)
        if shown is None:
            raise
        return shown
    cuts = _measure_cuts(registry, context)
    measurements = calibrate(registry.compiled, context)
    proved = _proved(registry, measurements, context)
    measurements = [claimed for claimed, _ in proved]
    shared = totals.found(registry, measurements, Fraction(context.settings.confidence))
    measurements = totals.noted(measurements, registry, shared)
    readings = _judged(registry, context)
    outer = _spell(statement, registry, result, measurements, shared, context)
    inputs = _spell_inputs(registry, measurements, context)
    loss = loss_together(measurements)
    unitless, others = _unitless(registry, context), _unprotected(registry, context)
    said = tuple(reports_account(drafted, context.policy) for drafted in registry.readings)
    account = with_proofs(
        plan_account(measurements, registry.compiled, loss, context, outer, rules, unitless, others, said), proved
    )
    return Plan(
        measurements=tuple(measurements),
        outer=outer,
        parameters=len(context.parameters),
        arrays=tuple(registry.arrays),
        inputs=inputs,
        loss=loss,
        explain=explain_rows(account, statement.options),
        typical=typical_aggregates(measurements, registry.compiled, each(Fraction(context.settings.confidence))),
        hidden=hidden_groups(measurements, registry.compiled, context.policy.unit_name),
        left_out=tuple(dict.fromkeys(out for compiled in registry.compiled for out in compiled.left_out)),
        unitless=unitless,
        endless=endless(registry.compiled),
        devices=tuple(dict.fromkeys(o.devices for made in registry.compiled for o in made.outputs if o.devices)),
        cuts=bound_cuts.unmeasured(registry.compiled, context.policy.unit_name),
        measured_cuts=cuts,
        aimable=aimable(registry.compiled),
        moving=any(c.moving for c in registry.compiled),
        unshown=tuple(c.unshown for c in registry.compiled),
        readings=readings,
        accounts=tuple(reading_account(drafted, context.policy) for drafted in registry.readings),
        weighings=tuple(drafted.weighings for drafted in registry.readings),
        rewritten=rules,
    )


def _bind_or_rewrite(statement: Statement, context: Context) -> tuple[Registry, ReleasedResult, tuple[str, ...]]:
    """Bind a statement as it is written; where that is refused, as the rules write it, whose names are the last part."""
    try:
        return *_bind(parse(statement.query), context), ()
    except Refusal as first:
        if first.sqlstate in (STATEMENT_TOO_COMPLEX, PROGRAM_LIMIT_EXCEEDED):
            raise  # written another way it is no smaller
        tree = parse(statement.query)
        rules = rewritten(tree, KnownTables(context).of_tree(tree))
        if not rules:
            raise
        try:
            return *_bind(tree, context), rules
        except NoRoom:
            raise  # of this grid
        except Refusal as second:
            raise _refusal_of_both(first, second) from None


def _refusal_of_both(first: Refusal, second: Refusal) -> Refusal:
    """Choose between the refusal of a statement as it is written and that of what the rules make of it: the first, since nobody
    wrote the other tree. But where the first is about a form, and the second is not, the rules did away with the form: then the
    second says what stands in the way besides."""
    return second if isinstance(first, FormRefusal) and not isinstance(second, FormRefusal) else first


def _bind(tree: exp.Expr, context: Context) -> tuple[Registry, ReleasedResult]:
    """The tree with all that is private in it measured, and the measurements. The tree is changed."""
    cte_expansion.check(tree)
    locate(tree)
    for column in every(tree, exp.Column):
        column.set("db", None)  # `schema.table.column`: which table is meant PostgreSQL has checked
    moved_calls.push(tree, KnownTables(context))
    registry = Registry(context, Counter())
    queries = QueryBinder(context, registry.counter, StatementMeasurer(registry))
    result = ReleasedResult(tree, False) if returns_nothing(tree) else queries.bind(tree, {})
    if isinstance(result, RowsResult):
        if result.rows.reports is not None:
            raise rows_of_reports(tree, result.rows.reports.table.name)
        raise rows_of_people(tree, context.policy.unit_name)
    return registry, result


def compiled(query: str, context: Context) -> tuple[Compiled, ...]:
    """Return what a query has measured, without noise. Raises Refusal."""
    registry, _ = _bind(parse(query), context)
    return tuple(registry.compiled)


def _measure_cuts(registry: Registry, context: Context) -> tuple[Cut, ...]:
    """Register the measurements that say how many units bounds cut, where the role has them."""
    measured = bound_cuts.measured(registry.compiled, context.policy.unit_name)
    registry.compiled += [compiled for compiled, _ in measured]
    return tuple(cut for _, cut in measured)


def _unitless(registry: Registry, context: Context) -> tuple[str, ...]:
    """Which rows of the statement's tables belong to no unit; nothing where no table is measured."""
    tables = (context.policy.tables[name] for name in registry.counter.tables) if registry.compiled else ()
    found = [told(rows, context.policy.unit_name) for t in tables for rows in unitless_rows(t, context.policy, context.catalog)]
    return tuple(dict.fromkeys(found))


def _unprotected(registry: Registry, context: Context) -> tuple[str, ...]:
    """Which columns of the statement's tables name units that rows do not count for."""
    tables = (context.policy.tables[name] for name in registry.counter.tables) if registry.compiled else ()
    return tuple(dict.fromkeys(said for t in tables if (said := others_named(t, context.policy.unit_name)) is not None))


def _proved(registry: Registry, measurements: Sequence[Measurement], context: Context) -> list[Proved]:
    """Derive from the trees what one unit can change, and refuse a plan that claims less: a bug of the planner is no leak."""
    known = context.leaves if context.leaves is not None else leaves(context.policy, context.catalog)
    stored = {table.name: table.written for table in context.stored}
    pairs = zip(registry.compiled, measurements, strict=True)
    return [_proof(made, claimed, known, registry.beside, stored) for made, claimed in pairs]


def _proof(made: Compiled, claimed: Measurement, known: Leaves, handed: Mapping[int, Beside], stored: Stored) -> Proved:
    try:
        found = derived(made.trees, known, handed, stored)
        claimed = replace(claimed, counted=found.counted(claimed.l0))
        check(found, claimed)
        return claimed, found
    except Unproven as error:
        raise _unproven(str(error), f"{claimed!r}\n{made.trees!r}") from error


def _judged(registry: Registry, context: Context) -> tuple[Reading, ...]:
    """The readings, each with the kernel's word that it is of reports and public rows alone."""
    known = context.leaves if context.leaves is not None else leaves(context.policy, context.catalog)
    try:
        return tuple(judged(drafted.reading, drafted.trees, known) for drafted in registry.readings)
    except Unproven as error:
        raise _unproven(str(error), repr(registry.readings)) from error


def _unproven(rule: str, plan: str) -> UnprovenPlan:
    return UnprovenPlan(
        INTERNAL_ERROR,
        "dpproxy cannot prove what it would promise of this statement",
        hint="Tell the operator; another way to write it may be provable.",
        rule=rule,
        plan=plan,
    )


def _spell(
    statement: Statement,
    registry: Registry,
    result: ReleasedResult,
    measurements: Sequence[Measurement],
    shared: Totals,
    context: Context,
) -> str:
    """The outer query. A statement that turned out to read nothing private is the facade's own business."""
    if not registry.compiled and not registry.arrays:
        return statement.query
    tree, confidence = with_safe_division(result.tree), Fraction(context.settings.confidence)
    tree = with_error_numbers(tree, measurements, confidence, shared.noise, registry.sources)
    return to_sql_once(totals.adjusted(tree, registry, shared, measurements))


def _spell_inputs(registry: Registry, measurements: Sequence[Measurement], context: Context) -> tuple[Input, ...]:
    """What the facade evaluates before a measurement runs."""
    confidence = Fraction(context.settings.confidence)
    made = (text_with_error_numbers(i.sql, measurements, confidence, registry.sources) for i in registry.inputs)
    return tuple(replace(i, sql=sql) for i, sql in zip(registry.inputs, made, strict=True))
