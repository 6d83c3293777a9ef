"""The policies we ship: the sample shop, and one for each data set of the corpus, against its tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpproxy.backends.duckdb import DuckDB
from dpproxy.policy.check import check
from dpproxy.policy.load import load_file, load_policy
from dpproxy.policy.model import DuckDBBackend, UnitPath
from dpproxy.policy.people import make_verifier, parse_verifier
from dpproxy.serve.data_checks import broken_claims
from dpproxy.table_terms import TableName

ROOT = Path(__file__).resolve().parents[2]
CORPUS = sorted((ROOT / "tests/corpus/policies").glob("*.yaml"))


def password_fits(verifier: str, password: str) -> bool:
    found = parse_verifier(verifier)
    return make_verifier(password, found.iterations, found.salt) == verifier


def test_the_shop() -> None:
    policy = load_policy(ROOT / "policies/shop.yaml", {})
    assert policy.backend == DuckDBBackend(str(ROOT / "policies/shop.duckdb"))
    assert {str(t.name) for t in policy.tables.values() if not t.kind.shown} == {"customers", "orders", "order_items"}
    assert policy.tables[TableName("public", "orders")].unit == UnitPath("customer_id")
    assert password_fits(policy.users["ada"].password, "ada")
    assert password_fits(policy.users["eve"].password, "eve")
    assert policy.roles["intern"].budget.epsilon < policy.roles["analyst"].budget.epsilon


def test_there_is_a_policy_for_each_data_set(shared: Path) -> None:
    assert [f.stem for f in CORPUS] == sorted(f.stem for f in (shared / "corpus/policy").glob("*.json"))


@pytest.mark.parametrize("file", CORPUS, ids=lambda f: f.stem)
async def test_a_corpus_policy_fits_its_data(file: Path, shared: Path) -> None:
    loaded = load_file(file, {"DPPROXY_CORPUS": str(shared / "corpus/db")})
    assert isinstance(loaded.policy.backend, DuckDBBackend)
    backend = DuckDB(loaded.policy.backend)
    try:
        catalog = await backend.introspect()
        assert check(loaded.policy, catalog, loaded.file, loaded.positions) == ()
        assert await broken_claims(loaded.policy, catalog, backend) == {}
        for table in loaded.policy.tables.values():
            if not table.kind.shown:
                assert {c.name for c in catalog.tables[table.name].columns} == set(table.columns)
    finally:
        await backend.close()
    assert password_fits(loaded.policy.users["analyst"].password, "analyst")


@pytest.mark.parametrize("file", [ROOT / "policies/shop.yaml", *CORPUS], ids=lambda f: f.stem)
def test_lines_say_which_schema_they_follow(file: Path) -> None:
    first = file.read_text().splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(.*)", first)
    assert found
    assert (file.parent / found[1]).resolve() == ROOT / "dpproxy.schema.json"
