"""What is said of an answer's error is true: intervals hold the bounded true value as often as they say, and not much more.

The outer query of a plan is run once over the arrays of a thousand releases, as if they were a thousand groups: the exact
columns of one big shop, each time with other noise of the plan's scales. The generator is seeded: no run is unlucky.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import plan_harness
import pytest
from accuracy_stage import RELEASES, Seeded, Stage, coverage, told

from dpproxy.errors import Refusal
from dpproxy.plan.intervals.ends import Ends
from dpproxy.policy.model import Mechanism
from dpproxy.privacy import noise_error, noise_scale, noise_tail
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis

EACH = noise_error.each(Fraction(19, 20))
LEAST, MOST = 0.976, 0.998
"""Of a thousand intervals that each hold with 98.75 % (`noise_error.each`): three standard deviations to both sides."""

MEDIAN = "percentile_disc(0.5) WITHIN GROUP (ORDER BY income)"
LINEAR = ["count(*)", "count(*) FILTER (WHERE vip)", "sum(income)", "sum(score)", "count(DISTINCT customer_id)"]
MEANS = ["avg(income)", "avg(score)", "avg(wealth)", "sum(income) / NULLIF(count(*), 0)", "regr_avgy(income, score)"]
DERIVED = [
    "stddev(income)", "var_pop(income)", "var_samp(score)", "covar_pop(income, score)", "corr(income, score)",
    "regr_slope(income, score)", "regr_intercept(income, score)", "regr_r2(income, score)", "regr_sxx(income, score)",
    "100.0 * count(*) FILTER (WHERE vip) / count(*)", "sum(income) - 2 * sum(score)",
]  # fmt: skip


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregate", LINEAR)
def test_intervals_of_counts_and_sums(stage: Stage, aggregate: str, mechanism: Mechanism) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), mechanism))
    assert LEAST <= coverage(answers, truth) <= MOST
    assert answers[:, 3] == pytest.approx(np.std(answers[:, 0]), rel=0.15)


POSITIVE = ["count(*)", "sum(income)", "sum(CASE WHEN vip THEN 1 ELSE 0 END)", "sum(DISTINCT income)"]


@pytest.mark.parametrize("aggregate", POSITIVE)
def test_what_cannot_be_negative_is_not_shown_so_and_its_interval_reaches_as_far_up_as_noise(
    stage: Stage, aggregate: str
) -> None:
    made = stage.plan(told(aggregate))
    ((value, low, high, _),) = stage.answered(made, [np.array([-(10**9)])])
    assert (value, low) == (0, 0)
    assert high > 0
    above = stage.answered(made, [np.array([10**9])])[0]
    assert above[2] - above[0] == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize("aggregate", ["sum(score)", "sum(income - 5)"])
def test_what_may_be_negative_is_shown_as_it_is(stage: Stage, aggregate: str) -> None:
    made = stage.plan(told(aggregate))
    assert stage.answered(made, [np.array([-(10**9)])])[0][0] < 0


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("aggregate", MEANS)
def test_intervals_of_means(stage: Stage, aggregate: str, mechanism: Mechanism) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), mechanism))
    assert LEAST <= coverage(answers, truth) <= MOST
    assert np.median(answers[:, 3]) == pytest.approx(np.std(answers[:, 0]), rel=0.15)


@pytest.mark.parametrize("aggregate", DERIVED)
def test_intervals_of_what_is_derived(stage: Stage, aggregate: str) -> None:
    truth = stage.true(f"SELECT {aggregate} FROM customers")
    answers = stage.released(stage.plan(told(aggregate), dpproxy__epsilon="1"))
    assert LEAST <= coverage(answers, truth) <= MOST
    assert np.all(answers[:, 1] <= answers[:, 0])
    assert np.all(answers[:, 0] <= answers[:, 2])
    assert np.median(answers[:, 3]) == pytest.approx(np.std(answers[:, 0]), rel=0.2)


@pytest.mark.parametrize("aggregate", ["avg(score)", "stddev(income)", "corr(income, score)", "regr_slope(income, score)"])
def test_intervals_where_noise_is_large(stage: Stage, aggregate: str) -> None:
    """Of few people: where formulas bend over their noise, intervals hold more often than they say, and never less."""
    made = stage.plan(told(aggregate).replace("FROM customers", "FROM (SELECT * FROM customers WHERE score > 52) t"))
    answers, truth = stage.released(made), stage.true(f"SELECT {aggregate} FROM customers WHERE score > 52")
    assert coverage(answers, truth) >= LEAST


@pytest.mark.parametrize("aggregate", ["avg", "sum"])
def test_intervals_of_differences_of_times(stage: Stage, aggregate: str) -> None:
    """Days and the time of day are measured apart, and enclosed together; the noise is told in seconds."""
    call = f"{aggregate}(signup::timestamp - TIMESTAMP '2021-06-01 06:30')"
    seconds = ", ".join(f"extract(epoch FROM {name})" for name in ("v", "l", "h"))
    sql = f"SELECT {call} AS v, dpproxy.low({call}) AS l, dpproxy.high({call}) AS h, dpproxy.stderr({call}) AS s FROM customers"
    answers = stage.released(stage.plan(f"SELECT {seconds}, s FROM ({sql}) AS t"))
    assert LEAST <= coverage(answers, stage.true(f"SELECT {call.replace('(', '(epoch(', 1)}) FROM customers")) <= MOST
    assert np.median(answers[:, 3]) > 0.85 * np.std(answers[:, 0])  # a mean's time of day is held within a day
    epoch = f"dpproxy.low(extract(epoch FROM {call}))"
    assert stage.released(stage.plan(f"SELECT {epoch} FROM customers"))[:, 0] == pytest.approx(answers[:, 1], abs=1)


def test_confidence_is_the_sessions(stage: Stage) -> None:
    truth = stage.true("SELECT sum(income) FROM customers")
    for confidence in ("0.5", "0.8", "0.99"):
        answers = stage.released(stage.plan(told("sum(income)"), dpproxy__confidence=confidence))
        expected = 1 - (1 - float(confidence)) / 4
        assert coverage(answers, truth) == pytest.approx(expected, abs=3.5 * math.sqrt(expected * (1 - expected) / RELEASES))


def test_a_wrong_scale_would_be_seen(stage: Stage) -> None:
    """The test of the tests: noise 30 % stronger than the plan says is not covered, noise 30 % weaker too well; so would a
    width of half."""
    made = stage.plan(told("count(*)"))
    truth = stage.true("SELECT count(*) FROM customers")
    for factor, wrong in ((Fraction(13, 10), lambda c: c < LEAST), (Fraction(7, 10), lambda c: c > 0.9965)):
        (measurement,) = made.measurements
        bases = tuple(replace(b, scale=b.scale * factor) for b in measurement.bases)
        drawn = replace(made, measurements=(replace(measurement, bases=bases),))
        assert wrong(coverage(stage.released(drawn), truth))


def test_nothing_is_known_where_a_divisor_may_be_zero(stage: Stage) -> None:
    few = "sum(income) / count(*) FILTER (WHERE income > 1000000)"
    answers = stage.released(stage.plan(f"SELECT 0, dpproxy.low({few}), dpproxy.high({few}) FROM customers"))
    assert np.mean((answers[:, 1] == 0) & np.isnan(answers[:, 2])) > 0.95  # but that neither of the two is negative
    few = told("regr_slope(income, score)").replace("FROM customers", "FROM (SELECT * FROM customers WHERE score > 62) t")
    answers = stage.released(stage.plan(few))
    assert np.mean(np.isneginf(answers[:, 1]) & np.isposinf(answers[:, 2])) > 0.95


def test_the_text_of_a_number_has_the_ends_of_the_number(stage: Stage) -> None:
    text = "COALESCE(CAST(sum(income) AS TEXT), 'no row')"
    of_text, of_number = (stage.released(stage.plan(told(what))) for what in (text, "sum(income)"))
    assert np.array_equal(of_text, of_number)
    assert np.all(of_text[:, 1] < of_text[:, 2])


def test_no_extra_charge(stage: Stage) -> None:
    """The same measurement, whatever is asked about it."""
    plain = stage.plan("SELECT region, count(*), avg(income) FROM customers GROUP BY region")
    more = stage.plan(
        "SELECT region, count(*), avg(income), dpproxy.low(avg(income)), dpproxy.stderr(count(*) / avg(income)) FROM customers "
        "GROUP BY region HAVING dpproxy.low(count(*)) > 10 ORDER BY dpproxy.high(avg(income))"
    )
    assert more.measurements == plain.measurements
    assert more.loss == plain.loss


@pytest.mark.parametrize("value", ["n", "s / n", "100 * n + s"])
def test_around_columns_of_a_subquery(stage: Stage, value: str) -> None:
    """The numbers of the call around the aggregate, of the same measurement; a constant beside it is its own interval."""
    aggregate = value.replace("n", "count(*)").replace("s", "sum(income)")
    inner = "SELECT * FROM (SELECT count(*) AS n, sum(income) AS s FROM customers) AS u"
    if value == "n":
        inner += " UNION ALL SELECT 5, 6"
    ends = ", ".join(f"dpproxy.{name}({value})" for name in ("low", "high", "stderr"))
    answers = stage.released(stage.plan(f"WITH t AS ({inner}) SELECT {value}, {ends} FROM t"))
    wanted = stage.released(stage.plan(told(aggregate).replace("SELECT", "SELECT count(*), sum(income),")))[:, 2:]
    assert np.array_equal(answers, np.vstack([wanted, [5, 5, 5, 0]]) if value == "n" else wanted)


def test_only_the_function_alone_still_measures(stage: Stage) -> None:
    (measurement,) = stage.plan("SELECT dpproxy.low(count(*)) FROM customers").measurements
    assert len(measurement.bases) == 1


# --- what bounds cut


CUT = {
    "count(*)": "count", "sum(qty)": "sum of what is not negative", "count(DISTINCT category)": "at most three of each",
    "sum(amount)": "of both signs", "avg(qty)": "within the range", "stddev(qty)": "not negative", "sum(qty) / count(*)": "ratio",
    "COALESCE(sum(qty), 0)": "chosen", "GREATEST(count(*), 10)": "chosen", "regr_slope(amount, qty)": "nothing at all",
    "CASE WHEN count(*) > 5 THEN count(*) * 2 ELSE 0 END": "chosen",
}  # fmt: skip


def of_orders(stage: Stage, aggregate: str) -> float:
    """How often the interval of an aggregate of orders holds the truth of all rows. Of many customers three rows in a hundred
    count: people of many orders are cut to three."""
    made = stage.plan(told(aggregate).replace("customers", "orders"), dpproxy__epsilon="1")
    return coverage(stage.released(made), stage.true(f"SELECT {aggregate} FROM orders"))


@pytest.mark.parametrize("aggregate", CUT)
def test_what_bounds_cut_is_not_ruled_out(stage: Stage, aggregate: str) -> None:
    assert of_orders(stage, aggregate) >= LEAST


@pytest.mark.parametrize("aggregate", ["count(*)", "sum(qty)"])
def test_ends_that_forget_what_bounds_cut_would_be_seen(stage: Stage, aggregate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.plan.intervals.columns.column_ends", lambda made, spec: Ends())
    assert of_orders(stage, aggregate) < 0.5


def test_a_low_end_is_what_is_there(stage: Stage) -> None:
    """Rows left out cannot make a count, or a sum of what is not negative, less: its low end is that of noise alone, also where
    the sum is made of a count and a centred sum."""
    for aggregate in ("count(*)", "sum(qty)", "sum(qty) FILTER (WHERE qty > 3)"):
        more = f"SELECT {aggregate}, dpproxy.low({aggregate}), dpproxy.high({aggregate}), dpproxy.stderr({aggregate})"
        for beside in ("", ", avg(qty)"):
            answers = stage.released(stage.plan(f"{more}{beside} FROM orders", dpproxy__epsilon="1"))
            assert np.all(np.isnan(answers[:, 2]))
            assert np.all(answers[:, 0] - answers[:, 1] < 6 * answers[:, 3])


# --- groups that passed a threshold


def test_groups_that_are_there_by_their_noise(stage: Stage) -> None:
    """Of the groups that are shown: near the threshold most of those of few people are there because their noise was high."""
    ends = "dpproxy.low(count(*)), dpproxy.high(count(*))"
    made = stage.plan(f"SELECT count(*), {ends} FROM customers GROUP BY income", dpproxy__epsilon="1")
    (measurement,) = made.measurements
    (basis,), threshold = measurement.bases, measurement.threshold
    assert threshold is not None
    for truth in (threshold.tau - 4, threshold.tau - 2, threshold.tau + 2, threshold.tau + 12):
        noisy = truth + Seeded(11).draw(basis, 20_000)
        seen = noisy[noisy >= threshold.tau][:RELEASES]
        assert seen.size > 100
        shown = stage.answered(made, [np.zeros(seen.size, dtype=np.int64), seen])
        assert coverage(shown, truth) >= LEAST


TOP = "SELECT count(*), dpproxy.low(count(*)), dpproxy.high(count(*)) FROM customers GROUP BY income ORDER BY 1 DESC LIMIT 1 OFFSET 1"


def of_the_highest(stage: Stage, sql: str) -> float:
    """How often the intervals of what is shown hold, where all groups have 300 people."""
    made = stage.plan(sql, dpproxy__epsilon="1")
    (measurement,) = made.measurements
    (basis,), held = measurement.bases, []
    for seed in range(40):
        noisy = 300 + Seeded(seed).draw(basis, 4_000)
        shown = stage.answered(made, [np.arange(4_000), noisy])
        held += [coverage(shown, 300)] if shown.size else []
    assert len(held) >= 30
    return float(np.mean(held))


def test_groups_that_are_shown_because_they_came_out_high(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_the_highest(stage, TOP) > 0.95
    assert of_the_highest(stage, TOP.replace("ORDER BY 1 DESC LIMIT 1 OFFSET 1", "HAVING count(*) > 304")) > 0.95
    monkeypatch.setattr("dpproxy.plan.outer.measured_select.chosen_by_values", lambda select: False)
    assert of_the_highest(stage, TOP) < 0.5


def test_groups_that_a_query_around_shows_because_they_came_out_high(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    all_groups = TOP.removesuffix(" ORDER BY 1 DESC LIMIT 1 OFFSET 1").replace("count(*),", "count(*) AS n,", 1)
    around = f"WITH t AS ({all_groups}) SELECT * FROM t WHERE n > 304"
    assert of_the_highest(stage, around) > 0.95
    monkeypatch.setattr("dpproxy.plan.outer.measured_select.chosen_above", lambda select: False)
    assert of_the_highest(stage, around) < 0.8


WITHIN = "region IN ('north', 'south', 'east', 'west') AND sex IN ('F', 'M')"


def test_each_grouping_set_has_its_own_interval(stage: Stage) -> None:
    made = stage.plan(f"SELECT region, sex, dpproxy.high(count(*)) FROM customers WHERE {WITHIN} GROUP BY ROLLUP (region, sex)")
    assert "dpproxy_half" not in made.outer
    (measurement,) = made.measurements
    (basis,) = measurement.bases
    for cells in (1, 3, 12):
        assert f"{noise_error.half_width(basis, EACH, cells)} AS h0_1" in made.outer


def test_inside_a_staged_subquery(stage: Stage) -> None:
    made = stage.plan("SELECT count(*) FROM customers WHERE income > (SELECT dpproxy.low(avg(income)) FROM customers)")
    assert len(made.measurements) == 2
    assert not any("dpproxy_half" in given.sql for given in made.inputs)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT dpproxy.low(max(n)) FROM (SELECT count(*) AS n FROM customers) AS t", "must stand around an aggregate"),
        ("SELECT dpproxy.stderr(1), count(*) FROM customers", "must stand around an aggregate"),
        ("SELECT dpproxy.low(region), count(*) FROM customers GROUP BY region", "must stand around an aggregate"),
        ("SELECT dpproxy.low(mode() WITHIN GROUP (ORDER BY sex)) FROM customers", r"not available for mode\(\)"),
        (f"SELECT dpproxy.stderr({MEDIAN}) FROM customers", r"not available for percentile_disc\(\)"),
        (f"SELECT dpproxy.stderr(2 * {MEDIAN}) FROM customers", r"not available for percentile_disc\(\)"),
        (
            "SELECT dpproxy.high((percentile_cont(ARRAY[0.25, 0.5]) WITHIN GROUP (ORDER BY income))[1]) FROM customers",
            r"not available for",
        ),
        (
            "SELECT dpproxy.low(avg(delivered - ts) * 2) FROM (SELECT *, ts + interval '1 hour' AS delivered FROM orders) o",
            "this",
        ),
        ("SELECT dpproxy.low(ln(count(*))) FROM customers", "not available for this expression"),
        ("SELECT dpproxy.low(max(count(*)) OVER ()) FROM customers GROUP BY region", "not available for this expression"),
        ("SELECT sum(n) FROM (SELECT customer_id, dpproxy.low(count(*)) AS n FROM orders GROUP BY customer_id) AS t", "low"),
    ],
)
def test_where_it_means_nothing(stage: Stage, sql: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as refused:
        stage.plan(sql)
    assert refused.value.position is not None


# --- sums of cells, deviations


def basis(mechanism: noise_scale.MechanismName, scale: Fraction) -> Basis:
    return Basis("b", 1, Fraction(1), mechanism, scale, Loss(10**6))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [1, 2, 5, 40])
@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(95, 100), Fraction(99, 100)])
def test_sums_of_cells(mechanism: noise_scale.MechanismName, cells: int, confidence: Fraction) -> None:
    made = basis(mechanism, Fraction(80))
    sums = Seeded(3).draw(made, 8_000 * cells).reshape(8_000, cells).sum(axis=1)
    half = noise_error.half_width(made, confidence, cells)
    slack = 4 * math.sqrt(float(confidence * (1 - confidence)) / 8_000)
    assert np.mean(np.abs(sums) <= half) == pytest.approx(float(confidence), abs=slack + 0.005)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(7, 2), Fraction(500)])
def test_deviations(mechanism: noise_scale.MechanismName, scale: Fraction) -> None:
    made = basis(mechanism, scale)
    drawn = Seeded(5).draw(made, 50_000)
    assert noise_error.deviation(made) == pytest.approx(float(np.std(drawn)), rel=0.03)


# --- EXPLAIN


def test_explain_as_json(stage: Stage) -> None:
    policy = plan_harness.policy()
    sql = "SELECT category, count(*), avg(amount), max(amount) FROM orders GROUP BY category"
    statement = plan_harness.statement(f"EXPLAIN (PRIVACY, FORMAT JSON) {sql}", policy)
    from dpproxy.plan.pipeline import planning

    made = planning(policy, stage.catalog, "duckdb")(statement, policy.roles["analyst"], {"search_path": "public"}, ())
    (text,) = made.explain
    (told,) = json.loads(text)
    plan = told["Privacy Plan"]
    assert plan["Charge"] == {"Epsilon": 1.0, "Delta": 1e-6, "Maximum Epsilon": 10.0}
    (measurement,) = plan["Measurements"]
    assert measurement["Groups"]["Threshold"] == made.measurements[0].threshold.tau  # type: ignore[union-attr]
    kinds = [sorted(o.keys() - {"Aggregate", "Noise", "Selection"}) for o in measurement["Outputs"]]
    assert kinds == [["Bounds May Cut", "Within"], ["Bounds May Cut", "Within Times Rows"], ["Within Ranks"]]
    for basis_told, known in zip(measurement["Noise"], made.measurements[0].bases, strict=True):
        assert basis_told["Scale"] == float(known.scale * known.grid)
        half = noise_tail.interval(known.mechanism, known.scale, EACH)
        assert basis_told["Within"] == float(half * known.grid)
    spent = sum(x["Epsilon"] for part in ("Noise", "Selections") for x in measurement[part])
    assert spent == pytest.approx(1, abs=1e-4)


def test_explain_as_text(stage: Stage) -> None:
    made = stage.plan("SELECT region, count(*), avg(income), stddev(score) FROM customers GROUP BY region", "gaussian")
    text = "\n".join(made.explain)
    assert text.startswith("Differentially Private Answer  (charge epsilon=0.05, delta=0.000001; a query may cost up to 10)")
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
