"""All neighbours at once: they say what each says alone, and what cannot be asked so is asked of each."""

from __future__ import annotations

import re

import plan_harness
import pyarrow as pa
import pytest
from all_neighbours import SCHEMA, AllNeighbours, Disagreement, cells
from each_engine import Engine
from fixture_cases import ACCEPTED, Case, sampled
from plan_harness import AnyShop, Shop, as_ordered, queries, values_of

from dpproxy.engines import literal
from dpproxy.policy.catalog import Catalog

REGIONS = 'SELECT region, count(*) AS n FROM "main"."customers" AS c GROUP BY region ORDER BY region'

SEVERAL = re.compile(r"\([^()]*, [^()]*\) (NOT )?IN \(SELECT")
"""Several columns in a subquery, which DuckDB refuses beside each row of a list."""


@pytest.fixture
def shop(engine: Engine) -> AnyShop:
    return engine.quick_shop(1, 4)


@pytest.mark.parametrize("case", sampled(ACCEPTED, 12), ids=str)
def test_they_say_what_each_says_alone(case: Case, shop: AnyShop, shop_catalog: Catalog) -> None:
    made = case.known_plan(shop_catalog)
    values = values_of(made, case.values)
    texts = [text for m in made.measurements for text in queries(m, values)]
    texts += [m.threshold.first.query.render(values, literal) for m in made.measurements if m.threshold and m.threshold.first]
    assert isinstance(shop, plan_harness.WithNeighbours)
    before = shop.neighbours.asked["alone"]
    for text in texts:
        for unit in (*shop.units, plan_harness.NOBODY, plan_harness.SHUFFLED):
            together, alone = shop.run(text, unit), shop.alone(text, unit)
            assert together.schema.names == alone.schema.names
            assert as_ordered(text, together) == as_ordered(text, alone), unit
    several = sum(bool(SEVERAL.search(text)) for text in texts) if shop.dialect == "duckdb" else 0
    assert shop.neighbours.asked["alone"] - before <= several, "DuckDB takes no other text for one of each alone"


def test_what_cannot_be_asked_together_is_asked_alone(shop: AnyShop) -> None:
    """A row's own place in its table is none in that of all."""
    assert isinstance(shop, plan_harness.WithNeighbours)
    place = "rowid" if shop.dialect == "duckdb" else "ctid"
    text, before = f'SELECT count({place}) AS n FROM "main"."customers" AS c', shop.neighbours.asked["alone"]
    assert [shop.run(text, unit).column(0)[0].as_py() for unit in (4, "newcomer")] == [10, 12]
    assert shop.neighbours.asked["alone"] == before + 1


def test_the_order_of_rows_shows(shop: AnyShop) -> None:
    """A bug that takes whichever row comes first is found beside the neighbour whose rows are turned round."""
    first = 'SELECT qty, row_number() OVER (PARTITION BY customer_id) AS n FROM "main"."orders" AS o'
    text = f"SELECT sum(qty) AS b0 FROM ({first}) AS t WHERE n = 1 AND qty BETWEEN 0 AND 100"
    assert shop.run(text, plan_harness.SHUFFLED) != shop.run(text)
    assert shop.run(text.replace("customer_id)", "customer_id ORDER BY order_id)"), plan_harness.SHUFFLED) == shop.run(
        text.replace("customer_id)", "customer_id ORDER BY order_id)")
    )


def test_rows_that_change_are_read_again() -> None:
    shop = Shop(1, 1)
    regions = cells(shop.run(REGIONS, 4))
    shop.execute("DELETE FROM beside_4.customers WHERE region = 'east'")
    assert cells(shop.run(REGIONS, 4)) == [row for row in regions if row[0] != "east"] != regions


def test_an_engine_that_answers_otherwise_for_all_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each neighbour's rows are taken for those of the next."""
    shop, lateral = Shop(1, 2, quick=True), AllNeighbours.lateral

    def shifted(self: AllNeighbours, text: str) -> str:
        return lateral(self, text).replace("= everyone.beside", "= (everyone.beside + 1) % 6")

    monkeypatch.setattr(AllNeighbours, "lateral", shifted)
    texts = [REGIONS.replace("AS n", f"+ {i} AS n") for i in range(200)]
    with pytest.raises(Disagreement, match="it alone"):
        all(shop.run(text, 4) for text in texts)


def test_the_texts_of_a_statement() -> None:
    created: list[str] = []
    asked = AllNeighbours((7, "newcomer"), lambda database, table: ("id", "x"), created.append, lambda text: pa.table({}), ())
    text = asked.lateral('SELECT d.k0 FROM "main"."t" AS t0 JOIN "stored"."main".t AS t1 ON TRUE ORDER BY d.k0, k1')
    assert created == [
        f'CREATE TABLE {SCHEMA}."t" AS SELECT "id", "x", 0 AS beside FROM "beside_7"."t"'
        ' UNION ALL SELECT "id", "x", 1 AS beside FROM "beside_newcomer"."t"',
        f'CREATE TABLE {SCHEMA}."storedt" AS SELECT "id", "x", 0 AS beside FROM "stored"."beside_7"."t"'
        ' UNION ALL SELECT "id", "x", 1 AS beside FROM "stored"."beside_newcomer"."t"',
    ]
    assert text == (
        "SELECT q.*, everyone.beside FROM (VALUES (0), (1)) AS everyone(beside), LATERAL (SELECT d.k0 FROM"
        f' (SELECT "id", "x" FROM {SCHEMA}."t" AS all_rows WHERE all_rows.beside = everyone.beside) AS t0 JOIN'
        f' (SELECT "id", "x" FROM {SCHEMA}."storedt" AS all_rows WHERE all_rows.beside = everyone.beside) AS t1 ON TRUE ORDER BY d.k0, k1) AS q'
        " ORDER BY everyone.beside, q.k0, q.k1"
    )
    asked.forget()
    assert created[2:] == [f'DROP TABLE {SCHEMA}."t"', f'DROP TABLE {SCHEMA}."storedt"']


def test_no_table_is_shared() -> None:
    asked = AllNeighbours((7,), lambda database, table: (), lambda text: None, lambda text: pa.table({}), ())
    with pytest.raises(AssertionError, match="would share"):
        asked.lateral('SELECT count(*) FROM "main" . "t"')
