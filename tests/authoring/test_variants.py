"""Policies for trials are policies: over other data, for one user a role, with the bounds and noise that are asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpproxy.amounts import MICRO
from dpproxy.authoring.trials import QUIET_EPSILON, UNREACHED, Variant, asker, varied
from dpproxy.policy.load import load_text
from dpproxy.policy.model import Bounds, DuckDBBackend, Policy
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName
from tests.worlds.authored_town import town_text

VISITS = TableName("public", "visits")
VERIFIER = make_verifier("sesame")


def policy_of(variant: Variant, text: str = "") -> Policy:
    return load_text(varied([text or town_text()], variant, Path("/rows.duckdb"), VERIFIER), "v.yaml", Path("/"))


def test_as_it_is_but_for_budgets_and_people() -> None:
    old, made = load_text(town_text(), "town.yaml", Path("/town")), policy_of(Variant("as_is"))
    assert made.backend == DuckDBBackend("/rows.duckdb")
    assert made.tables == old.tables
    assert made.reuse_seconds == 0
    assert {u.name: u.role for u in made.users.values()} == {asker(role): role for role in old.roles}
    for name, role in made.roles.items():
        assert (role.query.epsilon, role.query.delta) == (old.roles[name].query.epsilon, old.roles[name].query.delta)
        assert role.budget.epsilon > 10**6 * MICRO


def test_without_noise() -> None:
    made = policy_of(Variant("quiet", quiet=True))
    assert {(r.query.epsilon, r.min_units) for r in made.roles.values()} == {(QUIET_EPSILON * MICRO, 1)}


@pytest.mark.parametrize(
    ("factor", "bounds"), [(None, Bounds(UNREACHED, None, True)), (2.0, Bounds(10, None, True)), (0.01, Bounds(1, None, True))]
)
def test_other_bounds(factor: float | None, bounds: Bounds) -> None:
    assert policy_of(Variant("x", rows=factor)).tables[VISITS].bounds == bounds


def test_bounds_of_groups() -> None:
    text = town_text().replace("bounds: { rows: 5 }", "bounds: { rows_per_group: 4, groups: 3 }")
    assert policy_of(Variant("x", rows=0.5), text).tables[VISITS].bounds == Bounds(2, 3)
    assert policy_of(Variant("x", rows=None), text).tables[VISITS].bounds == Bounds(UNREACHED, UNREACHED)


def test_what_is_in_included_files_is_varied_too() -> None:
    """Tables and roles of other files are found, and their bounds and prices are those of the trial."""
    whole = town_text()
    tables, rest = whole.split("  visits:\n")[1].split("  shops:")
    roles = rest.split("roles:\n")[1].split("users:")[0]
    main = whole.replace("  visits:\n" + tables, "").replace("roles:\n" + roles, "include: [tables.yaml, roles.yaml]\n")
    texts = [main, f"tables:\n  visits:\n{tables}", f"roles:\n{roles}"]
    for variant in (Variant("as_is"), Variant("wide", rows=2.0), Variant("quiet", quiet=True)):
        made = load_text(varied(texts, variant, Path("/rows.duckdb"), VERIFIER), "v.yaml", Path("/"))
        alone = load_text(varied([whole], variant, Path("/rows.duckdb"), VERIFIER), "v.yaml", Path("/"))
        assert replace(made, digest="", tables=dict(sorted(made.tables.items(), key=str))) == replace(
            alone, digest="", tables=dict(sorted(alone.tables.items(), key=str))
        )
