"""Planning a statement: tree + policy + settings -> `Plan` or `Refusal`. A pure function.

Knows: the analyser, measurements, how the charge is divided. Must not know: backends, ledgers, entropy. A statement costs what
the session says (`dpproxy.epsilon`, else the role's default), whatever its shape: the charge is divided over its
measurements, and in each over its basis columns, so that a price is known before a query is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dpproxy.errors import FEATURE_NOT_SUPPORTED, PROGRAM_LIMIT_EXCEEDED, STATEMENT_TOO_COMPLEX, SYNTAX_ERROR, NoRoom, Refusal
from dpproxy.plan.bind import cte_expansion
from dpproxy.plan.bind.queries import QueryBinder
from dpproxy.plan.bind.results import ReleasedResult, RowsResult, row_level
from dpproxy.plan.context import GRID_STEPS, Context, Counter, TableColumns
from dpproxy.plan.known_tables import KnownTables
from dpproxy.plan.measure import bound_cuts
from dpproxy.plan.measure.noise_scales import calibrate
from dpproxy.plan.model import Plan
from dpproxy.plan.outer.error_intervals import text_with_error_numbers, with_error_numbers
from dpproxy.plan.outer.measurer import StatementMeasurer
from dpproxy.plan.outer.registry import Registry
from dpproxy.plan.outer.safe_division import with_safe_division
from dpproxy.plan.report.explain import explain_rows, plan_account
from dpproxy.plan.report.typical_error import aimable, typical_aggregates
from dpproxy.plan.rewrite.rules import rewritten
from dpproxy.plan.settings import session_settings
from dpproxy.policy.catalog import Catalog, TableName
from dpproxy.policy.model import Policy, Role
from dpproxy.privacy.loss import ZERO
from dpproxy.sql.dialect import locate, to_sql_once
from dpproxy.sql.effort import counted
from dpproxy.sql.empty_result import returns_nothing
from dpproxy.sql.statements import Statement, parse
from dpproxy.sql.template import Dialect

PlanFunction = Callable[[Statement, Role, Mapping[str, str | None], tuple[str, ...]], Plan]

_KINDS = ("select", "explain", "copy", "cursor", "create_table_as", "prepare")


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
        raise Refusal(STATEMENT_TOO_COMPLEX, "statement is nested too deeply") from error
    except SqlglotError as error:
        raise Refusal(SYNTAX_ERROR, "dpproxy cannot parse this statement over private tables") from error


def _roomy(statement: Statement, context: Context) -> Plan:
    """The plan on the finest grids that leave room for the noise in 64 bits."""
    most = GRID_STEPS[0]
    for steps in GRID_STEPS[:-1]:
        if steps <= most:
            try:
                return _plan_query(statement, replace(context, steps=steps))
            except NoRoom as refusal:
                most = min(steps, refusal.size or steps) // refusal.times
    return _plan_query(statement, replace(context, steps=GRID_STEPS[-1]))


def planning(policy: Policy, catalog: Catalog, dialect: Dialect, pick_key: int = 0) -> PlanFunction:
    """The planner of a dataset: (statement, role, settings by name, names of parameter types) -> Plan. `pick_key`: see
    `Context`."""

    table_columns: dict[TableName, TableColumns] = {}

    def planned(statement: Statement, role: Role, settings: Mapping[str, str | None], types: tuple[str, ...]) -> Plan:
        context = Context(
            policy, catalog, role, dialect, session_settings(settings), types, pick_key=pick_key, table_columns=table_columns
        )
        return plan(statement, context)

    return planned


def _analysed(statement: Statement, context: Context) -> tuple[Registry, ReleasedResult]:
    """What a statement reads, measured. One that is refused may be another way to write one that is not (the rules
    of `rewrite`)."""
    try:
        return _measured(parse(statement.query), context)
    except Refusal as refusal:
        if refusal.sqlstate in (STATEMENT_TOO_COMPLEX, PROGRAM_LIMIT_EXCEEDED):
            raise  # written another way it is no smaller
        tree = parse(statement.query)
        if not rewritten(tree, KnownTables(context).of_tree(tree)):
            raise
        return _measured(tree, context)


def _measured(tree: exp.Expr, context: Context) -> tuple[Registry, ReleasedResult]:
    cte_expansion.check(tree)
    locate(tree)
    for column in tree.find_all(exp.Column):
        column.set("db", None)  # `schema.table.column`: which table is meant PostgreSQL has checked
    registry = Registry(context, Counter())
    queries = QueryBinder(context, registry.counter, StatementMeasurer(registry))
    result = ReleasedResult(tree, False) if returns_nothing(tree) else queries.bind(tree, {})
    if isinstance(result, RowsResult):
        raise row_level(tree, context)
    return registry, result


def _plan_query(statement: Statement, context: Context) -> Plan:
    registry, result = _analysed(statement, context)
    measured = bound_cuts.measured(registry.compiled, context.policy.unit_name)
    registry.compiled += [compiled for compiled, _ in measured]
    measurements = calibrate(registry.compiled, context)
    confidence = Fraction(context.settings.confidence)
    if not registry.compiled and not registry.arrays:
        outer = statement.query  # it turned out to read nothing private: the facade's own business
    else:
        outer = to_sql_once(with_error_numbers(with_safe_division(result.tree), measurements, confidence))
    inputs = [replace(i, sql=text_with_error_numbers(i.sql, measurements, confidence)) for i in registry.inputs]
    loss = sum((m.loss for m in measurements), ZERO)
    return Plan(
        tuple(measurements),
        outer,
        len(context.parameters),
        tuple(registry.arrays),
        tuple(inputs),
        loss,
        explain_rows(plan_account(measurements, registry.compiled, loss, context, outer), statement.options),
        typical_aggregates(measurements, registry.compiled),
        bound_cuts.unmeasured(registry.compiled, context.policy.unit_name),
        tuple(cut for _, cut in measured),
        aimable(registry.compiled),
    )
