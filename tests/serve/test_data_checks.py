"""A policy held against its data: what does not fit, what is promised and not kept, what is hardly meant."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.load import load_file, load_text
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import PolicyError
from dpproxy.serve.data_checks import checked_catalog, doubts, fitting_catalog, live_claims, open_backend
from dpproxy.table_terms import TableName

GREEDY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 0, every: year }
tables:
  people: { unit: id, columns: { id: unit } }
roles:
  analyst: { budget: { epsilon: 10, delta: 0, every: month }, query: { epsilon: 0.5, max_epsilon: 1 } }
  intern: { budget: { epsilon: 9, delta: 0, every: year }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
"""


def world(folder: Path, rows: str = "SELECT 1") -> Path:
    (folder / "town.yaml").write_text(GREEDY.replace("VERIFIER", make_verifier("x")))
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people (id INT); INSERT INTO people {rows}")
    return folder / "town.yaml"


async def told(path: Path) -> tuple[object, ...]:
    """What is said of a policy: doubts, or whatever does not fit."""
    loaded = load_file(path)
    backend = open_backend(loaded)
    try:
        return await doubts(loaded, await checked_catalog(loaded, backend), backend)
    except PolicyError as error:
        return error.problems
    finally:
        await backend.close()


async def test_what_fits_is_not_yet_true(tmp_path: Path) -> None:
    """Two rows of a person break a promise; a draft, which promises nothing yet, is only held against names and types."""
    path = world(tmp_path, "SELECT 1 FROM range(2)")
    (problem,) = await told(path)
    assert "a person has more than one row here, up to 2;" in str(problem)
    loaded = load_file(path)
    backend = open_backend(loaded)
    try:
        assert list(map(str, (await fitting_catalog(loaded, backend)).tables)) == ["people"]
    finally:
        await backend.close()


async def test_data_that_cannot_be_read_are_a_problem_of_the_policy(tmp_path: Path) -> None:
    path = world(tmp_path)
    path.write_text(
        path.read_text()
        .replace("people.id", "people.ident")
        .replace("id: unit", "ident: unit")
        .replace("unit: id", "unit: ident")
    )
    (problem,) = await told(path)
    assert "ident" in str(problem)
    path.write_text(path.read_text().replace("duckdb: town.duckdb", "duckdb: tow.duckdb"))
    with pytest.raises(PolicyError, match=r"did you mean `town.duckdb`\?"):
        await told(path)


async def test_a_role_that_may_spend_what_is_for_all_is_doubtful(tmp_path: Path) -> None:
    path = world(tmp_path)
    (doubt,) = await told(path)
    assert "town.yaml:10:3: role `analyst` alone may spend the whole budget" in str(doubt)
    path.write_text(path.read_text().replace("epsilon: 10, delta: 0, every: m", "epsilon: 9, delta: 0, every: m"))
    assert await told(path) == ()


class Opened:
    """Data that change while they are open, with a key of the catalog or without."""

    state, dialect = "", "postgres"

    def __init__(self, *unique: tuple[str, ...]) -> None:
        self.unique, self.shared = unique, 0

    async def introspect(self) -> Catalog:
        columns = {"people": ("id",), "orders": ("pid", "ref"), "items": ("ref",), "notes": ("ref",)}
        return Catalog({
            TableName("public", name): CatalogTable(
                TableName("public", name), ("public", name), tuple(CatalogColumn(c, c, "int4") for c in of),
                unique=self.unique if name == "orders" else (),
            )
            for name, of in columns.items()
        })  # fmt: skip

    async def violations(self, checks: tuple[str, ...], aside: bool = False) -> tuple[int, ...]:
        return tuple(self.shared if '"orders"' in check else 0 for check in checks)


CHAIN = """
version: 1
dataset: shop
backend: { postgres: "postgresql://reader@db/shop" }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit } }
  orders: { unit: { via: people.id, column: pid }, bounds: { rows_per_group: 1, groups: 1 }, columns: { pid: unit, ref: key } }
  items: { unit: { via: orders.ref }, bounds: { rows_per_group: 1, groups: 1 }, columns: { ref: key } }
  notes: { unit: { via: orders.ref }, bounds: { rows_per_group: 1, groups: 1 }, columns: { ref: key } }
roles: { analyst: { budget: { epsilon: 1, delta: 0 }, query: { epsilon: 1, max_epsilon: 1 } } }
users: {}
"""
ORDERS, ITEMS, NOTES = (TableName("public", name) for name in ("orders", "items", "notes"))


@dataclass
class Moving:
    version: int = 1

    async def current(self, now: dt.datetime) -> str:
        return str(self.version)


async def test_whoever_reads_a_table_of_a_claim_waits_for_a_look_at_the_new_epoch() -> None:
    """Also by a path that is not the first over it."""
    opened, epoch, policy = Opened(), Moving(), load_text(CHAIN, "shop.yaml", Path("."))
    for user in (ITEMS, NOTES):
        opened.shared = 0
        standing = live_claims(policy, await opened.introspect(), opened, epoch)  # type: ignore[arg-type]
        await standing.check((ORDERS, user), pytest.fail)
        opened.shared, epoch.version = 2, epoch.version + 1
        with pytest.raises(Refusal, match="table orders is closed"):
            await standing.check((ORDERS, user), pytest.fail)
        await standing.close()


async def test_a_key_that_is_gone_makes_the_data_others() -> None:
    """Plans were made by it: they are to be made anew, before anything else is measured."""
    opened, epoch, policy, asked = Opened(("ref",)), Moving(), load_text(CHAIN, "shop.yaml", Path(".")), list[str]()
    standing = live_claims(policy, await opened.introspect(), opened, epoch)  # type: ignore[arg-type]
    await standing.check((ORDERS, ITEMS), lambda: asked.append("early"))
    opened.unique, epoch.version = (), 2
    with pytest.raises(Refusal, match="have changed"):
        await standing.check((TableName("public", "people"), ORDERS), lambda: asked.append("anew"))
    assert asked == ["anew"]
    await standing.close()
