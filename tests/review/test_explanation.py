"""What is told of a role: budgets as odds, columns by what can be done with them, errors as the planner states them."""

from __future__ import annotations

import math
from dataclasses import replace

from dpproxy.amounts import MICRO
from dpproxy.review.explanation import Page, explanation
from dpproxy.review.verdicts import Answered, Bench


def texts(page: Page) -> str:
    return "\n".join(sentence for section in page.sections for sentence in section.sentences)


def test_everything_of_a_role(bench: Bench) -> None:
    for role in bench.policy.roles.values():
        page = explanation(bench, role.name)
        seen = [t for t in bench.policy.tables.values() if role.tables is None or t.name in role.tables]
        told = [s.title.removeprefix("Table ") for s in page.sections if s.title.startswith("Table ")]
        assert told == [str(t.name) for t in seen if not t.kind.shown]
        assert f"{role.budget.epsilon / MICRO:.6g}" in texts(page)
        assert bench.policy.unit_name in texts(page)


def test_hidden_columns_are_named_as_such_and_nothing_else(bench: Bench) -> None:
    role = next(iter(bench.policy.roles))
    page = explanation(bench, role)
    for section in page.sections:
        table = next((t for t in bench.policy.tables.values() if section.title == f"Table {t.name}"), None)
        if table is not None:
            hidden = {c.name for c in bench.catalog.tables[table.name].columns} - set(table.columns)
            line = next(s for s in section.sentences if s.startswith(("Not there", "No column")))
            assert all(name in line for name in hidden)


def test_errors_are_those_of_the_planner(bench: Bench) -> None:
    """A count of one row a unit: 95 % of its Laplace noise is within ln 20 / epsilon, and no less may be stated."""
    name, role = next(iter(bench.policy.roles.items()))
    table = next(t for t in bench.policy.tables.values() if t.one and not t.kind.shown)
    page = explanation(bench, name)
    section = next(s for s in page.sections if s.title == f"Table {table.name}")
    cell = next(row for row in section.rows if row[0].startswith("how many rows"))[1]
    verdict = bench.verdict(name, f"SELECT count(*) FROM {table.name}", {"dpproxy.epsilon": str(role.query.epsilon / MICRO)})
    assert isinstance(verdict, Answered)
    (stated,) = verdict.errors.values()
    assert cell == f"± {stated:,.4g}"
    alone = math.log(20) * MICRO / role.query.epsilon
    assert alone - 1 <= stated <= 3 * alone, "what is stated holds at least as often as is said"


def test_who_is_not_protected_is_said(bench: Bench) -> None:
    """By the page, and by EXPLAIN of each statement that reads the table."""
    role = next(iter(bench.policy.roles))
    name = next(t.name for t in bench.policy.tables.values() if t.unit is not None)
    tables = {**bench.policy.tables, name: replace(bench.policy.tables[name], unprotected=("payee",))}
    given = Bench(replace(bench.policy, tables=tables), bench.catalog, "duckdb")
    said = f"named by `payee` of `{name}` is not protected there"
    assert said in texts(explanation(given, role))
    assert said not in texts(explanation(bench, role))
    plan = given.planned(role, f"SELECT count(*) FROM {name}")
    assert plan is not None
    assert said in "".join(plan.explain)
