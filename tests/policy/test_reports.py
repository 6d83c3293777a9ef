"""Tables of reports as they are read: limits, claims and their epsilon, what is stored. What is wrong is in broken.yaml."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from dpproxy.local.claims import (
    Binary,
    Claim,
    CountMean,
    Direct,
    Duchi,
    Hadamard,
    Hashed,
    Laplace,
    Levels,
    Plane,
    Sequence,
    Unary,
)
from dpproxy.policy.load import load_text
from dpproxy.policy.model import Budget, ColumnPolicy, Policy, ReleasedList, Reports, TableKind, TablePolicy, UnitPath
from dpproxy.policy.problems import PolicyError
from dpproxy.table_terms import TableName

T = TableName("public", "t")


def loaded(columns: str, reports: str = "epsilon: 4", more: str = "") -> Policy:
    text = f"""
version: 1
dataset: d
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: device }}
tables:
  t: {{ reports: {{ {reports} }}, columns: {{ {columns} }} }}
  words: {{ public: true }}
{more}roles: {{ analyst: {{}} }}
users: {{}}
"""
    return load_text(text, "p.yaml", Path("/d"), {})


def column(randomised: str, reports: str = "epsilon: 4") -> ColumnPolicy:
    return loaded(f"x: {{ randomised: {{ {randomised} }}, from: x_r }}", reports).tables[T].columns["x"]


def claim(randomised: str, reports: str = "epsilon: 4") -> Claim:
    made = column(randomised, reports).randomised
    assert made is not None
    ((number, found),) = made.claims
    assert number == 1
    return found


FOUR, VALUES = Fraction(4), "values: [a, b, c]"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("by: rr, if_yes: 3/4, if_no: 0.25", Binary(Fraction(3, 4), Fraction(1, 4))),
        ("by: rr", Binary.within(FOUR)),
        (f"by: krr, {VALUES}", Direct.within(FOUR, 3)),
        (f"by: krr, {VALUES}, keep: 1/2", Direct(3, Fraction(1, 2))),
        (f"by: auto, {VALUES}", Direct.within(FOUR, 3)),
        (f"by: auto, {VALUES}, epsilon: 0.5", Direct.within(Fraction(1, 2), 3)),
        ("by: auto, values: { table: words.word }, count: 2600", Plane.within(FOUR, 2600, 53, 3)),
        (f"by: pgr, {VALUES}, base: 5, dimension: 3", Plane.within(FOUR, 3, 5, 3)),
        ("by: flh, k: 64, seed: s", Hashed.within(FOUR, 64, "s")),
        ("by: hcms, k: 64, m: 256, seed: s", Hadamard.within(FOUR, 64, 256, "s")),
        ("by: levels, range: [0, 24]", Levels.within(FOUR, Fraction(0), Fraction(24), 5)),
        ("by: levels, range: [0, 24], levels: 2, keep: 3/4", Levels(Fraction(0), Fraction(24), 2, Fraction(3, 4))),
        ("by: laplace, range: [-1, 1], scale: 2", Laplace(Fraction(-1), Fraction(1), Fraction(2))),
        ("by: duchi, range: [0, 1]", Duchi.within(FOUR, Fraction(0), Fraction(1))),
        ("by: sfp, letters: abc, length: 4, k: 8, m: 16, seed: s", Sequence.within(FOUR, "abc", 4, 8, 16, "s")),
    ],
)
def test_claims(written: str, expected: Claim) -> None:
    assert claim(written) == expected


@pytest.mark.parametrize(
    ("written", "kind"),
    [(f"by: oue, {VALUES}", Unary), (f"by: sue, {VALUES}", Unary), ("by: cms, k: 8, m: 16, seed: s", CountMean)],
)
def test_bit_vectors_are_stored_as_cells(written: str, kind: type) -> None:
    assert isinstance(claim(written, "epsilon: 4, rows: cells"), kind)
    with pytest.raises(PolicyError, match="rows: cells"):
        claim(written)


def test_limits() -> None:
    whole = "epsilon: 2.5, per_day: 3, keep: 2w, at_least: 500, answers: memoised, rows: cells"
    table = loaded("x: { randomised: { by: rr } }", whole).tables[T]
    assert table.kind is TableKind.REPORTS
    assert table.reports == Reports(Fraction(5, 2), 3, 14, 500, fresh=False, cells=True)
    assert loaded("x: { randomised: { by: rr } }").tables[T].reports == Reports(FOUR)


def test_what_is_stored_and_what_is_seen() -> None:
    seen = column(f"by: auto, {VALUES}")
    assert seen.randomised is not None
    assert (seen.values, seen.randomised.values, seen.randomised.stored) == (("a", "b", "c"), ("a", "b", "c"), "x_r")
    assert column("by: levels, range: [0, 24]").range == (Decimal(0), Decimal(24))
    listed = column("by: auto, values: { table: words.word, order: id }, count: 2600").randomised
    assert listed is not None
    assert listed.values == ReleasedList(TableName("public", "words"), "word", 2600, "id")


def test_versions_share_the_list() -> None:
    """A list grows at its end: the first claim is about fewer of its values."""
    made = column("by: krr, values: [a, b, c], claims: { 2: { epsilon: 4 }, 1: { epsilon: 2, count: 2 } }").randomised
    assert made is not None
    assert made.claims == ((1, Direct.within(Fraction(2), 2)), (2, Direct.within(FOUR, 3)))
    assert FOUR * 999 / 1000 < made.epsilon <= FOUR


def test_two_columns_of_one_report_add_up() -> None:
    both = "x: { randomised: { by: rr, epsilon: 2 } }, y: { randomised: { by: krr, values: [a, b, c], epsilon: %s } }"
    assert loaded(both % "2").tables[T].kind is TableKind.REPORTS
    with pytest.raises(PolicyError, match="tells epsilon 5 "):
        loaded(both % "3")


def test_reports_alone_need_neither_unit_nor_budget() -> None:
    policy = loaded("x: { randomised: { by: rr } }")
    assert (policy.unit_key, policy.unit_name, policy.budget) == (None, "device", Budget(0, 0))
    assert policy.roles["analyst"].budget == Budget(0, 0)
    with pytest.raises(PolicyError) as found:
        loaded("x: { randomised: { by: rr } }", more="  people: { unit: id, columns: { id: unit } }\n")
    said = {p.what for p in found.value.problems}
    assert {"a policy has no `budget`", "a privacy unit has no `key`", "a role has no `budget`", "a role has no `query`"} <= said


def test_a_table_is_of_one_kind() -> None:
    with pytest.raises(ValueError, match="both a unit and reports"):
        TablePolicy(T, UnitPath("id"), True, loaded("x: { randomised: { by: rr } }").tables[T].bounds, {}, reports=Reports(FOUR))


@pytest.mark.parametrize("by", ["rr", "krr, values: [a, b]", "levels, range: [0, 1]", "hcms, k: 8, m: 8, seed: s"])
def test_noise_may_come_on_top(by: str) -> None:
    """A column of a table with a unit may be randomised, by mechanisms of few reports."""
    text = f"""
version: 1
dataset: d
backend: {{ duckdb: d.duckdb }}
privacy_unit: {{ name: person, key: t.id }}
budget: {{ epsilon: 1 }}
tables: {{ t: {{ unit: id, columns: {{ id: unit, x: {{ randomised: {{ by: {by}, epsilon: 1 }} }} }} }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 1 }}, query: {{ epsilon: 0.1 }} }} }}
users: {{}}
"""
    table = load_text(text, "p.yaml", Path("/d"), {}).tables[T]
    assert table.kind is TableKind.PEOPLE
    assert table.columns["x"].randomised is not None
