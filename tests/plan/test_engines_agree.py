"""DuckDB's generated SQL, PostgreSQL's, and the analyst's own in PostgreSQL: random expressions over values on which engines differ.

`differential` makes both: integer division and modulo of negatives, halves of numeric and of float8, month ends, daylight saving,
unicode, casts. Each expression is the key of a count, so that every row's value is compared. Where PostgreSQL itself
raises, the two generated statements must still agree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import differential
import duckdb
import plan_harness
import pytest
import shop_world
from agreement import groups, plans
from hypothesis import HealthCheck, given, settings
from plan_harness import cells, queries, values_of
from postgres_shop import PostgresShop
from scratch_postgres import scratch_server

from dpproxy.errors import Refusal
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.sql.template import Dialect


@dataclass(frozen=True)
class Pair:
    """The same rows in both engines."""

    shop: PostgresShop
    duck: duckdb.DuckDBPyConnection
    catalog: Catalog
    policy: Policy

    def problem(self, expression: str) -> str | None:
        """What is wrong with the answers; None when nothing is, "refused" when there are none."""
        sql = f"SELECT {expression} AS k, count(*) FROM orders GROUP BY 1"
        if not self.shop.takes(sql):  # of other types than PostgreSQL has such an operation for: the facade says so
            return None
        plain = self._plain(sql)
        try:
            postgres, other = plans(sql, self.catalog, self.policy)
        except Refusal:
            return None if plain is None else "refused"
        if postgres.inputs:  # constants that the facade would compute
            return None
        values = values_of(postgres)
        ours = groups(cells(self.shop.run(queries(postgres.measurements[0], values)[0]).select(["k0", "b0"])), 1)
        duck = groups(self.duck.sql(queries(other.measurements[0], values)[0]).project("k0, b0").fetchall(), 1)
        wanted = ours if plain is None else plain
        for name, found in (("PostgreSQL", ours), ("DuckDB", duck)):
            if found != wanted:
                return f"{name}: {dict(found.items() - wanted.items())} instead of {dict(wanted.items() - found.items())}"
        return None

    def _plain(self, sql: str) -> dict[Any, Any] | None:
        """What PostgreSQL says to the statement itself, None where it raises."""
        self.shop.connection.execute("SET search_path = main, pg_catalog")
        try:
            return groups(cells(self.shop.run(sql)), 1)
        except ValueError:
            return None
        finally:
            self.shop.connection.execute("SET search_path = pg_catalog")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[Pair]:
    with scratch_server(tmp_path_factory.mktemp("agree")) as server, duckdb.connect(":memory:") as duck:
        shop = PostgresShop(server, "edges", 3, trouble=False)
        shop_world.fill(duck, 3, trouble=False)
        for statement in differential.edge():
            shop.connection.execute(statement.encode())
            duck.execute(statement)
        yield Pair(shop, duck, shop_catalog, plan_harness.wide(plan_harness.policy()))
        shop.close()


@pytest.mark.parametrize("kind", differential.FORMS)
def test_each_form(kind: str, pair: Pair) -> None:
    rng = random.Random(kind)
    for form in differential.FORMS[kind]:
        for _ in range(2):
            expression = differential.filled(lambda given: rng.choice(given.elements), form, 0)  # type: ignore[attr-defined]
            assert pair.problem(expression) is None, expression


def _nested(pair: Pair, examples: int, *, seeded: bool) -> None:
    refused: list[bool] = []

    @settings(max_examples=examples, deadline=None, database=None, derandomize=seeded, suppress_health_check=list(HealthCheck))
    @given(differential.expressions())
    def agree(expression: str) -> None:
        found = pair.problem(expression)
        refused.append(found == "refused")
        assert found in (None, "refused"), expression

    agree()
    assert sum(refused) < len(refused) / 10, "most expressions must be accepted, or nothing is shown"


def test_nested_expressions(pair: Pair) -> None:
    _nested(pair, 100, seeded=True)


@pytest.mark.long
def test_nested_expressions_by_the_thousand(pair: Pair) -> None:
    _nested(pair, 5_000, seeded=False)


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_nested_guards_end(dialect: Dialect, shop_catalog: Catalog) -> None:
    """Each repeats its operand: twenty of them would be hundreds of megabytes of SQL."""
    nested = "sqrt(" * 20 + "weight" + ")" * 20
    policy = plan_harness.policy()
    statement = plan_harness.statement(f"SELECT count(*) FROM orders WHERE {nested} > 1", policy)
    with pytest.raises(Refusal, match="too complex"):
        planning(policy, shop_catalog, dialect)(statement, policy.roles["analyst"], {"search_path": "public"}, ())
