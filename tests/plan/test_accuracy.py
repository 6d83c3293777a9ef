"""What is said of an answer's error is true: intervals hold the bounded true value as often as they say, and not much more.

The outer query of a plan is run once over the arrays of a thousand releases, as if they were a thousand groups: the exact
columns of one big shop, each time with other noise of the plan's scales. The generator is seeded: no run is unlucky.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import plan_harness
import psycopg
import pytest
import shop_world

from dpproxy.errors import Refusal
from dpproxy.facade.facade import Facade
from dpproxy.mechanisms import sampler
from dpproxy.mechanisms.exact import Exact, Int64
from dpproxy.mechanisms.noise import OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.plan import accuracy, calibration
from dpproxy.plan.loss import Loss
from dpproxy.plan.model import Basis, Measurement, Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.session.arrays import array_literal
from dpproxy.session.outer import array_constant, with_literals

RELEASES = 1000
EPSILON = "0.05"
PEOPLE = """
INSERT INTO customers SELECT i, ['north', 'south', 'east', 'west'][1 + h % 4], ['F', 'M'][1 + h % 2], 1950, 1000 * (h % 120),
  h % 120 - 60 + (h // 1000) % 50 - 25, 0.5 * (h % 8000), DATE '2022-01-01', h % 3 = 0, 0, 'x', 'y'
FROM (SELECT i, (hash(i) // 2::UBIGINT ** 33)::INTEGER AS h FROM range(20000) AS t(i))
"""
LINEAR = ["count(*)", "count(*) FILTER (WHERE vip)", "sum(income)", "sum(score)", "count(DISTINCT customer_id)"]
MEANS = ["avg(income)", "avg(score)", "avg(wealth)", "sum(income) / NULLIF(count(*), 0)", "regr_avgy(income, score)"]
DERIVED = [
    "stddev(income)", "var_pop(income)", "var_samp(score)", "covar_pop(income, score)", "corr(income, score)",
    "regr_slope(income, score)", "regr_intercept(income, score)", "regr_r2(income, score)", "regr_sxx(income, score)",
    "100.0 * count(*) FILTER (WHERE vip) / count(*)", "sum(income) - 2 * sum(score)",
]  # fmt: skip


class Seeded:
    """The product's own sampler on a pseudo-random generator."""

    def __init__(self, seed: int) -> None:
        self._bytes = random.Random(seed).randbytes

    def draw(self, basis: Basis, size: int) -> Int64:
        draw = sampler.laplace if basis.mechanism == "laplace" else sampler.gaussian
        return draw(basis.scale, size, self._bytes)


class Stage:
    """Twenty thousand customers, and a PostgreSQL for outer queries."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.catalog = catalog
        self._data = duckdb.connect()
        self._data.execute(shop_world.DDL + PEOPLE)
        self._loop = asyncio.new_event_loop()
        self._facade = Facade(connections=5)
        self._loop.run_until_complete(self._facade.start(folder))
        place = {"host": str(Path(self._facade.socket).parent), "user": "postgres", "dbname": "postgres"}
        self._postgres = psycopg.connect(**place, autocommit=True)

    def close(self) -> None:
        self._postgres.close()
        self._loop.run_until_complete(self._facade.stop())
        self._loop.close()

    def true(self, sql: str) -> float:
        (value,) = self._data.execute(sql).fetchone() or ()
        return float(value)

    def plan(self, sql: str, mechanism: Mechanism = "laplace", **settings: str) -> Plan:
        policy = replace(plan_harness.policy(), mechanism=mechanism)
        return plan_harness.plan(sql, self.catalog, policy, **{"dpproxy__epsilon": EPSILON, **settings})

    def released(self, made: Plan, seed: int = 7) -> np.ndarray[Any, Any]:
        """What the client would see, in RELEASES answers: one row an answer, NULL as NaN."""
        (measurement,) = made.measurements
        literals = {}
        noise = Seeded(seed)
        for i, column in enumerate(self._exact(measurement)):
            values = np.full(RELEASES, column, dtype=np.int64) + noise.draw(measurement.bases[i], RELEASES)
            literals[i + 1] = array_constant(array_literal(values), "int8")
        cursor = self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False)
        rows = [[math.nan if v is None else float(v) for v in row] for row in cursor.fetchall()]
        return np.array(rows)

    def selected(self, made: Plan) -> np.ndarray[Any, Any]:
        """The same of percentiles, through the mechanism's door."""
        (measurement,) = made.measurements
        tables = tuple(self._data.cursor().sql(sql).to_arrow_table() for sql in plan_harness.queries(measurement, []))
        drawn = [release(measurement, Exact(tables), OwnNoise()).values for _ in range(RELEASES)]
        columns = [np.concatenate(column) for column in zip(*drawn, strict=True)]
        literals = {i + 1: array_constant(array_literal(column), "int8") for i, column in enumerate(columns)}
        cursor = self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False)
        return np.array([[float(v) for v in row] for row in cursor.fetchall()])

    def _exact(self, measurement: Measurement) -> list[int]:
        (sql,) = plan_harness.queries(measurement, [])
        return [int(v) for v in self._data.execute(sql).fetchone() or ()]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, shop_catalog: Catalog) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("accuracy"), shop_catalog)
    yield made
    made.close()


def told(aggregate: str) -> str:
    return f"SELECT {aggregate}, dpproxy.low({aggregate}), dpproxy.high({aggregate}), dpproxy.stderr({aggregate}) FROM customers"


def coverage(answers: np.ndarray[Any, Any], truth: float) -> float:
    """How often the interval holds the truth; NULL is no bound."""
    below = np.isnan(answers[:, 1]) | (answers[:, 1] <= truth)
    above = np.isnan(answers[:, 2]) | (truth <= answers[:, 2])
    return float(np.mean(below & above))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregate", LINEAR)
def test_intervals_of_counts_and_sums(stage: Stage, aggregate: str, mechanism: Mechanism) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), mechanism))
    assert 0.93 <= coverage(answers, truth) <= 0.97
    assert answers[:, 3] == pytest.approx(np.std(answers[:, 0]), rel=0.15)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregate", MEANS)
def test_intervals_of_means(stage: Stage, aggregate: str, mechanism: Mechanism) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), mechanism))
    assert 0.93 <= coverage(answers, truth) <= 0.97
    assert np.median(answers[:, 3]) == pytest.approx(np.std(answers[:, 0]), rel=0.15)


@pytest.mark.parametrize("aggregate", DERIVED)
def test_intervals_of_what_is_derived(stage: Stage, aggregate: str) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), dpproxy__epsilon="1"))
    assert 0.93 <= coverage(answers, truth) <= 0.97
    assert np.all(answers[:, 1] <= answers[:, 0])
    assert np.all(answers[:, 0] <= answers[:, 2])
    assert np.median(answers[:, 3]) == pytest.approx(np.std(answers[:, 0]), rel=0.2)


@pytest.mark.parametrize("aggregate", ["avg(score)", "stddev(income)", "corr(income, score)", "regr_slope(income, score)"])
def test_intervals_where_noise_is_large(stage: Stage, aggregate: str) -> None:
    """Of few people: where formulas bend over their noise, intervals hold more often than they say, and never less."""
    made = stage.plan(told(aggregate).replace("FROM customers", "FROM (SELECT * FROM customers WHERE score > 52) t"))
    answers, truth = stage.released(made), stage.true(f"SELECT {aggregate} FROM customers WHERE score > 52")
    assert coverage(answers, truth) >= 0.93


def test_confidence_is_the_sessions(stage: Stage) -> None:
    truth = stage.true("SELECT sum(income) FROM customers")
    for confidence in ("0.5", "0.8", "0.99"):
        answers = stage.released(stage.plan(told("sum(income)"), dpproxy__confidence=confidence))
        expected = float(confidence)
        assert coverage(answers, truth) == pytest.approx(expected, abs=3.5 * math.sqrt(expected * (1 - expected) / RELEASES))


def test_a_wrong_scale_would_be_seen(stage: Stage) -> None:
    """The test of the tests: noise 30 % stronger than the plan says is not covered, noise 30 % weaker too well."""
    made = stage.plan(told("count(*)"))
    truth = stage.true("SELECT count(*) FROM customers")
    for factor, wrong in ((Fraction(13, 10), lambda c: c < 0.93), (Fraction(7, 10), lambda c: c > 0.97)):
        (measurement,) = made.measurements
        bases = tuple(replace(b, scale=b.scale * factor) for b in measurement.bases)
        drawn = replace(made, measurements=(replace(measurement, bases=bases),))
        assert wrong(coverage(stage.released(drawn), truth))


PERCENTILES = [
    ("income", 0.5, "TRUE"), ("income", 0.95, "TRUE"), ("score", 0.02, "TRUE"), ("income", 0.5, "score > 58"),
    ("wealth", 0.3, "score > 62"), ("income", 0.999, "vip"),
]  # fmt: skip


def percentile(column: str, fraction: float, name: str = "percentile_disc") -> str:
    return f"{name}({fraction}) WITHIN GROUP (ORDER BY {column})"


@pytest.mark.parametrize(("column", "fraction", "where"), PERCENTILES)
def test_intervals_of_percentiles(stage: Stage, column: str, fraction: float, where: str) -> None:
    """Of many people and of few, whatever lies beside them: at least as often as is said, for data that lie close more often."""
    aggregate = percentile(column, fraction)
    source = f"FROM (SELECT * FROM customers WHERE {where}) AS t"
    truth = stage.true(f"SELECT {aggregate} {source}")
    for confidence in ("0.95", "0.6"):
        made = stage.plan(
            f"SELECT {aggregate}, dpproxy.low({aggregate}), dpproxy.high({aggregate}) {source}",
            dpproxy__epsilon="1", dpproxy__confidence=confidence,
        )  # fmt: skip
        answers = stage.selected(made)
        assert coverage(answers, truth) >= float(confidence) - 0.02
        assert np.all(answers[:, 1] <= answers[:, 0])
        assert np.all(answers[:, 0] <= answers[:, 2])
        if where == "TRUE":
            assert np.median(answers[:, 2] - answers[:, 1]) < 20_000  # of 20,000 people: some percentiles
        if fraction == 0.999:
            assert np.mean(answers[:, 2] == 200_000) > 0.7  # fewer ranks above than a draw may miss: mostly the range's end


def test_ends_of_percentiles_share_the_charge(stage: Stage) -> None:
    """One query for all; the percentile keeps half of the epsilon, and both ends aim as many ranks beside it."""
    aggregate = percentile("income", 0.25, "percentile_cont")
    plain = stage.plan(f"SELECT {aggregate} FROM customers")
    made = stage.plan(f"SELECT {aggregate}, dpproxy.low({aggregate}), dpproxy.high(({aggregate})) FROM customers")
    assert made.loss.epsilon == plain.loss.epsilon
    (measurement,) = made.measurements
    assert len(measurement.queries) == 2
    value, low, high = measurement.selections
    assert value.epsilon == pytest.approx(0.5 * plain.loss.epsilon, rel=0.05)
    assert low.epsilon == pytest.approx(high.epsilon, rel=0.01)
    failure = Fraction(1, 40)
    rank = calibration.end_rank(low.size, Fraction(1, 4), 1, Fraction(low.epsilon, 10**6), failure)
    assert (value.offset, low.offset) == (0, -rank)
    assert high.offset == pytest.approx(rank, rel=0.01)
    assert f"-> dpproxy.low(percentile_cont(0.25) WITHIN GROUP (ORDER BY income))  aims {rank} ranks below" in "\n".join(
        made.explain
    )
    names = measurement.canonical
    assert names is not None
    assert len(set(names.columns)) == 3


def test_ends_of_another_confidence_are_other_measurements(stage: Stage) -> None:
    aggregate = percentile("income", 0.25)
    made = [
        stage.plan(f"SELECT dpproxy.low({aggregate}) FROM customers", dpproxy__confidence=c).measurements[0].canonical
        for c in ("0.9", "0.99")
    ]
    assert [len(set(one.columns) & set(two.columns)) for one, two in [made]] == [1]  # type: ignore[union-attr]


def test_nothing_is_known_where_a_divisor_may_be_zero(stage: Stage) -> None:
    few = "sum(income) / count(*) FILTER (WHERE income > 1000000)"
    answers = stage.released(stage.plan(f"SELECT 0, dpproxy.low({few}), dpproxy.high({few}) FROM customers"))
    assert np.mean(np.isnan(answers[:, 1]) & np.isnan(answers[:, 2])) > 0.95


def test_no_extra_charge(stage: Stage) -> None:
    """The same measurement, whatever is asked about it."""
    plain = stage.plan("SELECT region, count(*), avg(income) FROM customers GROUP BY region")
    more = stage.plan(
        "SELECT region, count(*), avg(income), dpproxy.low(avg(income)), dpproxy.stderr(count(*) / avg(income)) FROM customers "
        "GROUP BY region HAVING dpproxy.low(count(*)) > 10 ORDER BY dpproxy.high(avg(income))"
    )
    assert more.measurements == plain.measurements
    assert more.loss == plain.loss


def test_only_the_function_alone_still_measures(stage: Stage) -> None:
    (measurement,) = stage.plan("SELECT dpproxy.low(count(*)) FROM customers").measurements
    assert len(measurement.bases) == 1


def test_each_grouping_set_has_its_own_interval(stage: Stage) -> None:
    made = stage.plan("SELECT region, sex, dpproxy.high(count(*)) FROM customers GROUP BY ROLLUP (region, sex)")
    assert "dpproxy_half" not in made.outer
    (measurement,) = made.measurements
    (basis,) = measurement.bases
    for cells in (1, 3, 12):
        assert f"{accuracy.half_width(basis, Fraction(19, 20), cells)} AS h0_1" in made.outer


def test_inside_a_staged_subquery(stage: Stage) -> None:
    made = stage.plan("SELECT count(*) FROM customers WHERE income > (SELECT dpproxy.low(avg(income)) FROM customers)")
    assert len(made.measurements) == 2
    assert not any("dpproxy_half" in given.sql for given in made.inputs)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT dpproxy.low(n) FROM (SELECT count(*) AS n FROM customers) AS t", "must stand around an aggregate"),
        ("SELECT dpproxy.stderr(1), count(*) FROM customers", "must stand around an aggregate"),
        ("SELECT dpproxy.low(region), count(*) FROM customers GROUP BY region", "must stand around an aggregate"),
        ("SELECT dpproxy.high(max(income)) FROM customers", r"not available for max\(\)"),
        ("SELECT dpproxy.low(mode() WITHIN GROUP (ORDER BY sex)) FROM customers", r"not available for mode\(\)"),
        (f"SELECT dpproxy.stderr({percentile('income', 0.5)}) FROM customers", r"not available for percentile_disc\(\)"),
        (f"SELECT dpproxy.low({percentile('income', 0)}) FROM customers", r"not available for percentile_disc\(\)"),
        (f"SELECT dpproxy.low(2 * {percentile('income', 0.5)}) FROM customers", "expressions of percentile_disc"),
        (
            "SELECT dpproxy.high(percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY income)) FROM customers",
            r"not available for percentile_cont\(\)",
        ),
        ("SELECT dpproxy.low(ln(count(*))) FROM customers", "not available for this expression"),
        ("SELECT dpproxy.low(sum(count(*)) OVER ()) FROM customers GROUP BY region", "not available for this expression"),
        ("SELECT sum(n) FROM (SELECT customer_id, dpproxy.low(count(*)) AS n FROM orders GROUP BY customer_id) AS t", "low"),
    ],
)
def test_where_it_means_nothing(stage: Stage, sql: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as refused:
        stage.plan(sql)
    assert refused.value.position is not None


# --- sums of cells, deviations


def basis(mechanism: calibration.MechanismName, scale: Fraction) -> Basis:
    return Basis("b", 1, Fraction(1), mechanism, scale, Loss(10**6))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [1, 2, 5, 40])
@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(95, 100), Fraction(99, 100)])
def test_sums_of_cells(mechanism: calibration.MechanismName, cells: int, confidence: Fraction) -> None:
    made = basis(mechanism, Fraction(80))
    sums = Seeded(3).draw(made, 8_000 * cells).reshape(8_000, cells).sum(axis=1)
    half = accuracy.half_width(made, confidence, cells)
    slack = 4 * math.sqrt(float(confidence * (1 - confidence)) / 8_000)
    assert np.mean(np.abs(sums) <= half) == pytest.approx(float(confidence), abs=slack + 0.005)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 2), Fraction(500)])
def test_deviations(mechanism: calibration.MechanismName, scale: Fraction) -> None:
    made = basis(mechanism, scale)
    drawn = Seeded(5).draw(made, 50_000)
    assert accuracy.deviation(made) == pytest.approx(float(np.std(drawn)), rel=0.03)


# --- EXPLAIN


def test_explain_as_json(stage: Stage) -> None:
    policy = plan_harness.policy()
    sql = "SELECT category, count(*), avg(amount), max(amount) FROM orders GROUP BY category"
    statement = plan_harness.statement(f"EXPLAIN (PRIVACY, FORMAT JSON) {sql}", policy)
    from dpproxy.plan.planner import planning

    made = planning(policy, stage.catalog, "duckdb")(statement, policy.roles["analyst"], {"search_path": "public"}, ())
    (text,) = made.explain
    (told,) = json.loads(text)
    plan = told["Privacy Plan"]
    assert plan["Charge"] == {"Epsilon": 1.0, "Delta": 1e-6, "Maximum Epsilon": 10.0}
    (measurement,) = plan["Measurements"]
    assert measurement["Groups"]["Threshold"] == made.measurements[0].threshold.tau  # type: ignore[union-attr]
    kinds = [sorted(o.keys() - {"Aggregate", "Noise", "Selection"}) for o in measurement["Outputs"]]
    assert kinds == [["Within"], ["Within Times Rows"], ["Within Ranks"]]
    for basis_told, known in zip(measurement["Noise"], made.measurements[0].bases, strict=True):
        assert basis_told["Scale"] == float(known.scale * known.grid)
        half = calibration.interval(known.mechanism, known.scale, Fraction(95, 100))
        assert basis_told["Within"] == float(half * known.grid)
    spent = sum(x["Epsilon"] for part in ("Noise", "Selections") for x in measurement[part])
    assert spent == pytest.approx(1, abs=1e-4)


def test_explain_as_text(stage: Stage) -> None:
    made = stage.plan("SELECT region, count(*), avg(income), stddev(score) FROM customers GROUP BY region", "gaussian")
    text = "\n".join(made.explain)
    assert text.startswith("Differentially Private Answer  (charge epsilon=0.05, delta=1e-06; a query may cost up to 10)")
    assert "intervals hold with 95 %" in text
    assert "Groups: all 4 declared ones" in text
    assert "-> avg(income)  within about +-" in text
    assert "discrete Gaussian, scale" in text
    assert "Post-processing (free): SELECT" in text


def test_the_interval_of_a_mean_in_explain_is_that_of_the_answer(stage: Stage) -> None:
    made = stage.plan(told("avg(income)"), dpproxy__epsilon="1")
    (line,) = (line for line in made.explain if "avg(income)  within" in line)
    said = float(line.split("+-")[1].split(" ")[0])
    answers = stage.released(made)
    rows = stage.true("SELECT count(*) FROM customers")
    wide = np.median(answers[:, 2] - answers[:, 1]) / 2 * rows
    assert wide <= said <= 2 * wide
