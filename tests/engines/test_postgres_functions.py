"""What the generated SQL asks of an engine that calls itself PostgreSQL is what docs/how-to/postgresql.md lists, and no more."""

from __future__ import annotations

import plan_harness
import pytest
from fixture_cases import ACCEPTED
from library_functions import listed, named
from plan_harness import queries, values_of
from postgres_expressions import EXPRESSIONS, ODD, WHOLE

from dpproxy.errors import Refusal
from dpproxy.policy.catalog import Catalog


def test_every_function_is_listed(monkeypatch: pytest.MonkeyPatch, shop_catalog: Catalog) -> None:
    monkeypatch.setattr(plan_harness, "engine", "postgres")
    texts = []
    for case in ACCEPTED:
        made = case.known_plan(shop_catalog)
        texts += [text for m in made.measurements for text in queries(m, values_of(made, case.values))]
    for sql in [*WHOLE, *(f"SELECT count(*) FROM orders WHERE ({e}) IS NOT NULL" for e in (*EXPRESSIONS, *ODD))]:
        try:
            made = plan_harness.plan(sql, shop_catalog)
        except Refusal:
            continue
        texts += [text for m in made.measurements for text in queries(m, values_of(made))]
    found = {name for text in texts for name in named(text)}
    assert found <= listed(), "what the generated SQL needs of an engine is documented"
    assert len(found) > 30
