"""Exactness without noise: an accepted statement means what PostgreSQL says it means.

Every accepted fixture is answered with bounds that do not bind and noise that adds nothing, and compared with the same
SQL on a PostgreSQL that holds the same rows. Declared groups without rows are more than plain SQL shows: so statements
are compared with their groups undeclared, and the declared answer is then compared with the undeclared one, group by
group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import exact_harness
import plan_harness
import pytest
from exact_harness import Outcome, Pair
from fixture_cases import ACCEPTED, ACCEPTED_OF_TOOLS, Case, sampled

from dpproxy.mechanisms.noise import Released
from dpproxy.plan.measure import compiler
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.model import Policy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wide() -> Policy:
    return plan_harness.wide(plan_harness.policy())


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wide: Policy) -> Iterator[Pair]:
    running = Pair(tmp_path_factory.mktemp("pair"), wide, request.param)
    yield running
    running.close()


@pytest.fixture(autouse=True)
def planned_for_its_engine(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_harness, "planning", lambda policy, catalog, _: planning(policy, catalog, pair.dialect))


def undeclared(case: Case, pair: Pair, wide: Policy, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, bool]:
    """The plan as it would be without declared domains, and whether it has any."""
    found, plain = [], compiler.dense_domain
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "dense_domain", lambda *given: found.append(plain(*given)))
        made = case.plan(pair.catalog, wide)
    return made, any(domain is not None for domain in found)


@dataclass(frozen=True)
class Sparse:
    """A statement's plan without declared domains, whether it has some, and what was answered and released without."""

    plan: Plan
    declares: bool
    outcome: Outcome
    released: list[Released]


@pytest.fixture(scope="module")
def answered(pair: Pair) -> dict[int, Sparse]:
    """What has been answered without declared domains, by the case's identity: two tests ask for it."""
    return {}


@pytest.fixture
def sparse(case: Case, pair: Pair, wide: Policy, answered: dict[int, Sparse], monkeypatch: pytest.MonkeyPatch) -> Sparse:
    if id(case) not in answered:
        made, declares = undeclared(case, pair, wide, monkeypatch)
        answered[id(case)] = Sparse(made, declares, *pair.answer(made, case.values))
    return answered[id(case)]


@dataclass(frozen=True)
class Filled:
    """A statement's plan with the groups that are declared, and what was answered and released."""

    plan: Plan
    outcome: Outcome
    released: list[Released]


@pytest.fixture(scope="module")
def with_declared(pair: Pair) -> dict[int, Filled]:
    """What has been answered with declared groups, by the case's identity: two tests ask for it."""
    return {}


@pytest.fixture
def filled(case: Case, pair: Pair, wide: Policy, with_declared: dict[int, Filled]) -> Filled:
    if id(case) not in with_declared:
        made = case.plan(pair.catalog, wide)
        with_declared[id(case)] = Filled(made, *pair.answer(made, case.values))
    return with_declared[id(case)]


COMPARED = [c for c in ACCEPTED if c.exact in ("", "declared")]
COMPARED_OF_TOOLS = [c for c in ACCEPTED_OF_TOOLS if c.exact in ("", "declared")]


@pytest.mark.parametrize("case", [*COMPARED, *sampled(COMPARED_OF_TOOLS, 12)], ids=str)
def test_answers_are_those_of_plain_sql(case: Case, pair: Pair, request: pytest.FixtureRequest) -> None:
    answered: Sparse | Filled = request.getfixturevalue("filled" if case.exact else "sparse")
    ours = answered.outcome
    theirs = pair.plain(case.sql, case.values)
    outermost = case.sql[case.sql.rfind(")") :]
    assert exact_harness.difference(ours, theirs, ordered="ORDER BY" in outermost) == ""


@pytest.mark.parametrize("case", [*(c for c in ACCEPTED if "now()" not in c.exact), *sampled(ACCEPTED_OF_TOOLS, 12)], ids=str)
def test_declared_groups_are_the_undeclared_ones_and_zeros(case: Case, sparse: Sparse, request: pytest.FixtureRequest) -> None:
    if not sparse.declares:
        return  # one plan, whose answer is compared with plain SQL's above
    full: Filled = request.getfixturevalue("filled")
    declared, with_zeros = full.plan, full.released
    if len(declared.measurements) != len(sparse.plan.measurements):
        return  # grouping sets: declared groups of the finest set add up, others are measured each
    for measurement, all_groups, part in zip(declared.measurements, with_zeros, sparse.released, strict=True):
        width = len(measurement.bases)
        assert _groups(all_groups, width) == _groups(part, width)


def _groups(released: Released, width: int) -> dict[tuple[object, ...], tuple[int, ...]]:
    """Groups in which something is not zero."""
    keys = zip(*(k.to_pylist() for k in released.keys), strict=True) if released.keys else [()] * released.rows
    values = zip(*(v.tolist() for v in released.values[:width]), strict=True)
    rows = dict(zip(keys, values, strict=False))
    return {key: row for key, row in rows.items() if any(row)}


STRAY = """
UPDATE customers SET region = NULL, sex = 'X' WHERE customer_id % 7 = 0; UPDATE customers SET region = 'nowhere' WHERE customer_id % 11 = 0;
UPDATE customers SET birth_year = NULL WHERE customer_id % 5 = 0; UPDATE customers SET birth_year = 1850 WHERE customer_id % 13 = 0;
UPDATE customers SET signup = NULL WHERE customer_id % 6 = 0; UPDATE customers SET signup = DATE '2031-05-05' WHERE customer_id % 17 = 0;
UPDATE visits SET page = CASE WHEN customer_id % 2 = 0 THEN 'admin' END WHERE customer_id % 3 = 0;
"""
"""Customers whose keys are NULL, or not declared, or of whom one key is and another is not."""
DECLARED = {
    "region": "region IN ('north', 'south', 'east', 'west')",
    "sex": "(sex IN ('F', 'M') OR sex IS NULL)",
    "birth_year": "birth_year BETWEEN 1920 AND 2010",
    "date_trunc": "date_trunc BETWEEN '2022-01-01' AND '2023-12-31'",
}
YEAR = "date_trunc('year', signup)"
SETS = [
    "customers GROUP BY ROLLUP (region)",
    "customers GROUP BY ROLLUP (sex)",
    "customers GROUP BY ROLLUP (region, sex)",
    "customers GROUP BY ROLLUP (sex, region)",
    "customers GROUP BY CUBE (region, sex)",
    "customers GROUP BY ROLLUP (region, birth_year)",
    f"customers GROUP BY CUBE ({YEAR}, sex)",
    f"customers GROUP BY ROLLUP ({YEAR})",
    "customers GROUP BY GROUPING SETS ((region, sex), (region), (sex), ())",
    "customers GROUP BY GROUPING SETS ((region), (sex), ())",
    "customers WHERE sex = 'F' GROUP BY ROLLUP (region, sex)",
    "customers WHERE region IN ('north', 'nowhere') GROUP BY CUBE (region, sex)",
]


@pytest.fixture(scope="module")
def astray(pair: Pair, tmp_path_factory: pytest.TempPathFactory, wide: Policy) -> Iterator[Pair]:
    """The pair's engine, over a shop with values that are not declared."""
    running = Pair(tmp_path_factory.mktemp("astray"), wide, pair.dialect, changes=STRAY)
    yield running
    running.close()


@pytest.mark.parametrize("sets", SETS)
@pytest.mark.parametrize("measured", ["count(*)", "count(*), sum(score)"])
def test_rows_in_no_declared_group_are_in_totals_alone(measured: str, sets: str, astray: Pair, wide: Policy) -> None:
    keys = [key for key in DECLARED if re.search(rf"\b{key}\b", sets.partition("GROUP BY")[2])]
    grouped = [YEAR if key == "date_trunc" else key for key in keys]
    above = [f"grouping({group}) AS above_{key}" for key, group in zip(keys, grouped, strict=True)]
    sql = f"SELECT {', '.join([*grouped, *above, measured.replace('count(*)', 'count(*) AS n', 1)])} FROM {sets}"
    ours, _ = astray.answer(plan_harness.plan(sql, astray.catalog, wide))
    shown = " AND ".join(f"(above_{key} = 1 OR {DECLARED[key]})" for key in keys)
    theirs = astray.plain(f"SELECT * FROM ({sql}) AS every WHERE {shown}")
    left_out = len(astray.plain(sql).rows) - len(theirs.rows)
    assert left_out > 0 or "WHERE" in sets or keys == ["sex"], "a shop in which nothing is astray tries nothing"
    number = ours.names.index("n")
    not_empty = Outcome(ours.names, tuple(row for row in ours.rows if row[number]))
    assert exact_harness.difference(not_empty, theirs, ordered=False) == ""


def test_a_wrong_answer_is_seen(pair: Pair, wide: Policy) -> None:
    """The comparison itself: another predicate, another order, another name."""
    made = plan_harness.plan("SELECT region, count(*) FROM customers GROUP BY 1 ORDER BY 1", pair.catalog, wide)
    ours, _ = pair.answer(made)
    for wrong in ("count(*) - 1", "count(*) AS n"):
        theirs = pair.plain(f"SELECT region, {wrong} FROM customers GROUP BY 1 ORDER BY 1")
        assert exact_harness.difference(ours, theirs, ordered=True)
    backwards = pair.plain("SELECT region, count(*) FROM customers GROUP BY 1 ORDER BY 1 DESC")
    assert exact_harness.difference(ours, backwards, ordered=True)
