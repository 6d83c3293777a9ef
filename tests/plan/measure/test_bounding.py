"""Which of a unit's groups are kept is the hash's choice, by a key; how many, whatever the key, is the bound's."""

from __future__ import annotations

import plan_harness
import pytest
from plan_harness import Shop

from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.template import Dialect

SQL = "SELECT category, status, qty, count(*) FROM orders GROUP BY 1, 2, 3"
DISTINCT = "SELECT count(DISTINCT qty) FROM orders"


def made(sql: str, catalog: Catalog, key: int, dialect: Dialect = "duckdb") -> Plan:
    rules = plan_harness.policy()
    read = plan_harness.statement(sql, rules)
    return planning(rules, catalog, dialect, key)(read, rules.roles["careful"], {"search_path": "public"}, ())


def test_the_key_decides_which_groups_and_not_how_many(shop_catalog: Catalog) -> None:
    shop = Shop(3, most=0)
    kept = []
    for key in range(5):
        (measurement,) = made(SQL, shop_catalog, key).measurements
        (text,) = plan_harness.queries(measurement, ())
        assert measurement.threshold is not None
        whole = text.replace(f"HAVING count(*) >= {measurement.threshold.min_units}", "")
        assert whole != text
        kept.append([tuple(row.values()) for row in shop.run(whole).to_pylist()])
    assert len({tuple(rows) for rows in kept}) == 5
    assert len({sum(row[-1] for row in rows) for rows in kept}) == 1  # units, each once in each of its groups


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("sql", [SQL, DISTINCT])
def test_another_key_is_another_measurement(sql: str, dialect: Dialect, shop_catalog: Catalog) -> None:
    """Its exact values are others, so that no stored answer is taken for it."""
    one, same, other = (made(sql, shop_catalog, key, dialect).measurements[0] for key in (7, 7, 2**63 - 1))
    assert one == same
    assert one.canonical != other.canonical
    assert str(2**63 - 1) in "".join(plan_harness.queries(other, ()))
    assert (one.bases, one.loss, one.l0) == (other.bases, other.loss, other.l0)


@pytest.mark.parametrize("what", ["count(*)", "count(DISTINCT order_id)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)"])
def test_the_order_of_keys_decides_nothing(what: str, shop_catalog: Catalog) -> None:
    """Measurements of one name keep the same groups: a stored answer for keys in one order is what measuring in another gives."""
    shop, found = Shop(3, most=0), []
    for keys in ("category, status, qty", "qty, category, status", "status, qty, category"):
        names = keys.split(", ")
        (measurement,) = made(f"SELECT {keys}, {what} FROM orders GROUP BY 1, 2, 3", shop_catalog, 5).measurements
        least = f"HAVING count(*) >= {measurement.threshold.min_units}" if measurement.threshold else "-"
        texts = plan_harness.queries(measurement, ())
        assert any("rank" in text for text in texts)
        tables = [shop.run(text.replace(least, "")).to_pylist() for text in texts]
        rest = [[{names[int(k[1:])] if k[0] == "k" else k: v for k, v in row.items()} for row in table] for table in tables]
        found.append(([sorted(map(repr, map(sorted_items, table))) for table in rest], measurement.canonical))
    assert found[0][0] == found[1][0] == found[2][0]
    names_of = [(m.rows, sorted(map(repr, m.keys))) for _, m in found if m is not None]
    assert len(names_of) == 3
    assert names_of[0] == names_of[1] == names_of[2]


def sorted_items(row: dict[str, object]) -> list[tuple[str, object]]:
    return sorted(row.items(), key=lambda item: item[0])
