"""What a policy says of one question of one role: answered at which price and error, or refused and why. Nothing is measured.

Knows: the planner, what a role's facade shows. Must not know: rows, ledgers, files. A verdict is a pure function of policy,
catalog, role, text and settings, as the plan is that the proxy would make. What PostgreSQL itself would refuse while it reads
a statement (a column of a public table that does not exist, a function of the wrong arguments) is not seen here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlglot import exp

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.plan_cache import PlanCache, plans_for
from dpproxy.errors import SYNTAX_ERROR, UNDEFINED_OBJECT, UNDEFINED_TABLE, Refusal
from dpproxy.facade.ddl import Shown
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy, Role
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.sql.dialect import ident
from dpproxy.sql.output_names import output_name
from dpproxy.sql.statements import Statement, parse
from dpproxy.sql.template import Dialect
from dpproxy.table_terms import TableName

Settings = Mapping[str, str | None]

SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "dpproxy")


@dataclass(frozen=True)
class Answered:
    """A question would be answered: for this charge, with these columns. `errors`: of each aggregate whose error is known before
    any data is read, by the name that EXPLAIN gives it, half the width of its 95 % interval, in units of the column. `loss`: what
    the ledger is charged. `cuts`: the bounds that may cut data, in words."""

    epsilon: Decimal
    delta: Decimal
    columns: tuple[str, ...]
    errors: Mapping[str, float] = field(default_factory=dict)
    loss: Loss = field(default=ZERO, compare=False)
    cuts: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Refused:
    """A question would be refused, uncharged, in these words."""

    sqlstate: str
    message: str
    hint: str = ""


Verdict = Answered | Refused


class Bench:
    """The bench holds a policy over a catalog, to try questions on."""

    def __init__(self, policy: Policy, catalog: Catalog, dialect: Dialect) -> None:
        self.policy, self.catalog, self.dialect = policy, catalog, dialect
        self.plans: PlanCache = plans_for(policy, catalog, dialect)

    def verdict(self, role: str, query: str, settings: Settings | None = None) -> Verdict:
        """Say what would become of a query. `settings` are those of the session, as in {"dpproxy.epsilon": "0.5"}."""
        try:
            return self._verdict(role, query, settings or {})
        except Refusal as refusal:
            return Refused(refusal.sqlstate, refusal.message, refusal.hint or "")

    def _verdict(self, role: str, query: str, settings: Settings) -> Verdict:
        statement, known = self._one(role, query)
        if not statement.private:
            self._check_names(statement, known)
            return Answered(Decimal(0), Decimal(0), _columns(parse(statement.query)) if statement.query else ())
        plan = self.plans.plan(_explained(statement), known, settings, ())
        price = (Decimal(plan.loss.epsilon) / MICRO, Decimal(plan.loss.delta) / ATTO)
        return Answered(*price, _columns(parse(plan.outer)), _errors(plan), plan.loss, plan.cuts)

    def planned(self, role: str, query: str, settings: Settings | None = None) -> Plan | None:
        """Return the plan of a query, with its account as JSON in `Plan.explain`; None where no private table is read. Raises
        Refusal."""
        statement, known = self._one(role, query)
        if statement.private:
            return self.plans.plan(_explained(statement), known, settings or {}, ())
        self._check_names(statement, known)
        return None

    def _one(self, role: str, query: str) -> tuple[Statement, Role]:
        known = self.policy.roles.get(role)
        if known is None:
            raise Refusal(UNDEFINED_OBJECT, f'role "{role}" is not in the policy')
        statements = self.plans.split(query, known)
        if len(statements) != 1:
            raise Refusal(SYNTAX_ERROR, f"one statement is asked at a time, not {len(statements)}")
        return statements[0], known

    def _check_names(self, statement: Statement, role: Role) -> None:
        """Refuse what the role's facade does not have."""
        try:
            tree = parse(statement.query or statement.text)
        except Exception as error:
            raise Refusal(SYNTAX_ERROR, "this is no statement that dpproxy can read") from error
        there = {table.name for table, _ in Shown(self.policy, self.catalog, role).tables}
        for name in relations(tree):
            if name not in there:
                raise Refusal(UNDEFINED_TABLE, f'relation "{name.name}" does not exist')


def relations(tree: exp.Expr) -> Iterator[TableName]:
    """Yield the tables and views that a statement names, those of PostgreSQL and of dpproxy left out."""
    local = {ident(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name, schema = ident(table.this), ident(table.args.get("db"))
        own = not schema and (name in local or name.startswith("pg_"))
        if not isinstance(table.this, exp.Func) and not own and schema not in SYSTEM_SCHEMAS:
            yield TableName(schema or "public", name)


def _explained(statement: Statement) -> Statement:
    """The statement, to be planned as its EXPLAIN would be: the account of what it does comes with the plan."""
    return replace(statement, kind="explain", options=("FORMAT", "JSON"))


def _columns(tree: exp.Expr) -> tuple[str, ...]:
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tuple(output_name(item) for item in tree.expressions) if isinstance(tree, exp.Select) else ()


def _errors(plan: Plan) -> dict[str, float]:
    (account,) = json.loads("".join(plan.explain))
    found: dict[str, float] = {}
    for measurement in account["Privacy Plan"]["Measurements"]:
        for output in measurement["Outputs"]:
            if "Within" in output:
                found[output["Aggregate"]] = max(output["Within"], found.get(output["Aggregate"], 0.0))
    return found
