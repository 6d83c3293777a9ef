"""A survey with a coin in a table with a unit, through a proxy: estimates of true answers, and intervals that hold both noises.

Respondents and their coins are invented, in so many waves that how often intervals hold the truth can be counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

POLICY = """
version: 1
dataset: survey
backend: {{ duckdb: survey.duckdb }}
privacy_unit: {{ name: respondent, key: answers.respondent }}
budget: {{ epsilon: 100000, delta: 0, every: never }}
tables:
  answers:
    unit: respondent
    columns:
      respondent: unit
      wave: {{ range: [1, {waves}] }}
      district: {{ values: [north, south] }}
      cost: {{ range: [0, 9] }}
      ill: {{ randomised: {{ by: rr, if_yes: 3/4, if_no: 1/4 }} }}
      away: {{ randomised: {{ by: rr, epsilon: 2 }} }}
      late: {{ randomised: {{ by: rr, if_yes: 4/5, if_no: 1/3 }} }}
      food: {{ randomised: {{ by: krr, values: [meat, fish, nuts, none], epsilon: 2 }} }}
      mood: {{ randomised: {{ by: levels, range: [0, 10], epsilon: 2 }} }}
  visits:
    unit: respondent
    bounds: {{ rows_per_group: 2, groups: 1 }}
    columns:
      respondent: unit
      ill: {{ randomised: {{ by: rr, if_yes: 3/4, if_no: 1/4 }} }}
roles: {{ analyst: {{ budget: {{ epsilon: 100000, delta: 0 }}, query: {{ epsilon: 1000, max_epsilon: 1000 }} }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
WAVES, SIZE = 64, 5000
AWAY = float(np.exp(2) / (1 + np.exp(2)))


class People:
    """What respondents know, and what they said."""

    def __init__(self) -> None:
        chance, count = np.random.default_rng(11), WAVES * SIZE
        self.wave, self.north = np.repeat(np.arange(1, WAVES + 1), SIZE), chance.random(count) < 0.5
        self.ill, self.away = chance.random(count) < 0.1, chance.random(count) < 0.3
        self.cost = chance.integers(0, 10, count)
        self.late = chance.random(count) < 0.4
        self.told_late = chance.random(count) < np.where(self.late, 4 / 5, 1 / 3)
        self.food, keep = chance.choice(4, count, p=[0.6, 0.1, 0.3, 0]), np.exp(2) / (3 + np.exp(2))
        self.told_food = np.where(chance.random(count) < keep, self.food, (self.food + chance.integers(1, 4, count)) % 4)
        self.told = chance.random(count) < np.where(self.ill, 0.75, 0.25)
        self.told_away = chance.random(count) < np.where(self.away, AWAY, 1 - AWAY)


@pytest.fixture(scope="module")
def people() -> People:
    return People()


@pytest.fixture(scope="module")
def folder(people: People, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("survey")
    with duckdb.connect(str(folder / "survey.duckdb")) as owner:
        columns = {
            "wave": people.wave,
            "north": people.north,
            "cost": people.cost,
            "ill": people.told,
            "away": people.told_away,
            "late": people.told_late,
            "food": people.told_food,
        }
        owner.register("given", columns)
        owner.execute(
            "CREATE TABLE answers (respondent int PRIMARY KEY, wave int, district text, cost int, ill bool, away bool, late bool, food text, mood int)"
        )
        owner.execute(
            "INSERT INTO answers SELECT row_number() OVER (), wave, CASE WHEN north THEN 'north' ELSE 'south' END, cost, ill, away, late, "
            "(['meat', 'fish', 'nuts', 'none'])[food + 1], 0 FROM given"
        )
        owner.execute("CREATE TABLE visits AS SELECT i // 2 AS respondent, i % 2 = 0 AS ill FROM range(100) t(i)")
    (folder / "survey.yaml").write_text(POLICY.format(verifier=make_verifier("x"), waves=WAVES))
    return folder


@pytest.fixture(scope="module")
def proxy(folder: Path) -> Iterator[Proxy]:
    with launched([folder / "survey.yaml"], folder / "state") as running:
        yield running


class Client:
    def __init__(self, proxy: Proxy) -> None:
        where = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=survey"
        self._connection = psycopg.connect(where, autocommit=True)
        self.notices: list[str] = []
        self._connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary or ""))

    def ask(self, sql: str, epsilon: float = 10.0) -> list[tuple[Any, ...]]:
        self._connection.execute(f"SET dpproxy.epsilon = {epsilon}".encode())
        return self._connection.execute(sql.encode()).fetchall()

    def refused(self, sql: str) -> psycopg.Error:
        with pytest.raises(psycopg.Error) as raised:
            self.ask(sql)
        return raised.value


@pytest.fixture
def client(proxy: Proxy) -> Client:
    return Client(proxy)


def held(client: Client, people: People, epsilon: float) -> float:
    """The share of waves whose true counts the interval at 95 % holds."""
    query = "SELECT wave, count(*), dpproxy.low(count(*)), dpproxy.high(count(*)) FROM answers WHERE ill GROUP BY wave"
    true = np.bincount(people.wave[people.ill], minlength=WAVES + 1)
    rows = client.ask(query, epsilon)
    assert len(rows) == WAVES
    assert all(low <= value <= high for _, value, low, high in rows)
    return float(np.mean([low <= true[wave] <= high for wave, _, low, high in rows]))


@pytest.mark.parametrize("epsilon", [0.25, 10])
def test_true_values_are_groups(client: Client, people: People, epsilon: float) -> None:
    """Of each wave, both hold, and together they are the respondents."""
    query = (
        "SELECT wave, late, count(*) AS n, dpproxy.low(count(*)), dpproxy.high(count(*)), dpproxy.stderr(count(*)) FROM answers "
        "GROUP BY wave, late ORDER BY wave, late"
    )
    rows = client.ask(query, epsilon)
    assert [row[:2] for row in rows] == [(wave, late) for wave in range(1, WAVES + 1) for late in (False, True)]
    true = [(people.late[people.wave == wave] == late).sum() for wave, late, *_ in rows]
    assert np.mean([low <= n <= high for n, (*_, low, high, _) in zip(true, rows, strict=True)]) >= 0.97
    spread = np.sqrt(np.mean([((row[2] - n) / row[5]) ** 2 for n, row in zip(true, rows, strict=True)]))
    assert 0.75 < spread < 1.25
    ((shown, count),) = client.ask("SELECT CASE WHEN ill THEN 'ill' END, count(*) FROM answers GROUP BY ill HAVING ill")
    assert (shown, count) == ("ill", pytest.approx(people.ill.sum(), abs=4 * 0.87 * np.sqrt(len(people.ill))))


@pytest.mark.parametrize("epsilon", [0.25, 10])
def test_intervals_hold_both_noises(client: Client, people: People, epsilon: float) -> None:
    assert held(client, people, epsilon) >= 0.97


FORGETFUL = """
import runpy
from dpproxy.plan.outer import noise_on_top
noise_on_top._Weighed.variance = lambda *_: "0.0"
runpy.run_module("dpproxy", run_name="__main__")
"""


def test_intervals_of_central_noise_alone_would_not(folder: Path, people: People, tmp_path: Path) -> None:
    """The planted fault: a build that forgets what devices add."""
    with launched([folder / "survey.yaml"], tmp_path, program=[sys.executable, "-c", FORGETFUL]) as running:
        assert held(Client(running), people, 10) < 0.5


NUMBERS: dict[str, tuple[str, Callable[[People], float]]] = {
    "a condition": ("count(*) FILTER (WHERE ill)", lambda p: p.ill.sum()),
    "its contrary": ("count(*) FILTER (WHERE NOT ill)", lambda p: (~p.ill).sum()),
    "a constant": ("count(*) FILTER (WHERE ill = true)", lambda p: p.ill.sum()),
    "by number": ("sum(CASE WHEN ill THEN 1 ELSE 0 END)", lambda p: p.ill.sum()),
    "two numbers": ("sum(CASE WHEN ill THEN 10 ELSE 1 END)", lambda p: 9 * p.ill.sum() + len(p.ill)),
    "a share": ("avg(ill::int)", lambda p: p.ill.mean()),
    "by a plain column": ("count(*) FILTER (WHERE ill AND district = 'north')", lambda p: (p.ill & p.north).sum()),
    "a plain number": ("sum(cost) FILTER (WHERE ill)", lambda p: p.cost[p.ill].sum()),
    "a claim by epsilon": ("count(*) FILTER (WHERE away)", lambda p: p.away.sum()),
    "unequal probabilities": ("count(*) FILTER (WHERE late)", lambda p: p.late.sum()),
    "not by these": ("count(*) FILTER (WHERE late IS NOT TRUE)", lambda p: (~p.late).sum()),
    "nobody": ("count(*) FILTER (WHERE late AND NOT late)", lambda p: 0),
    "any": ("sum(CASE WHEN late THEN 2 ELSE 2 END)", lambda p: 2 * len(p.ill)),
    "one of four values": ("count(*) FILTER (WHERE food = 'fish')", lambda p: (p.food == 1).sum()),
    "two of them": (
        "count(*) FILTER (WHERE food IN ('meat', 'nuts') AND cost > 4)",
        lambda p: ((p.food % 2 == 0) & (p.cost > 4)).sum(),
    ),
    "all but one": ("sum(CASE WHEN food <> 'nuts' THEN 3 ELSE 1 END)", lambda p: (3 - 2 * (p.food == 2)).sum()),
    "none of them": ("count(*) FILTER (WHERE food = 'fowl')", lambda p: 0),
    "a number by one": ("sum(cost) FILTER (WHERE food = 'none')", lambda p: 0),
    "all": ("count(ill)", lambda p: len(p.ill)),
    "a quotient": ("sum(cost) FILTER (WHERE ill) * 1.0 / count(*) FILTER (WHERE ill)", lambda p: p.cost[p.ill].mean()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_estimates_are_of_true_answers(client: Client, people: People, name: str) -> None:
    """At 99.99 %, of seeds of devices that are fixed."""
    asked, truth = NUMBERS[name]
    client.ask("SELECT set_config('dpproxy.confidence', '0.9999', false)")
    spread = f"dpproxy.stderr({asked})" if name != "a quotient" else "NULL::float8"
    query = f"SELECT {asked}, dpproxy.low({asked}), dpproxy.high({asked}), {spread} FROM answers"
    ((value, low, high, deviation),) = client.ask(query)
    true = float(truth(people))
    assert low <= true <= high
    assert low <= value <= high
    if deviation is not None:
        assert abs(float(value) - true) < 5 * deviation + 1
        assert float(high - low) < 20 * deviation + 3


ILL = "count(*) FILTER (WHERE ill)"
FORMS = {
    "levels that add up": f"SELECT {ILL}, dpproxy.low({ILL}), dpproxy.high({ILL}) FROM answers GROUP BY ROLLUP (district) HAVING district IS NULL",
    "a query around": f"SELECT n, dpproxy.low(n), dpproxy.high(n) FROM (SELECT {ILL} AS n FROM answers) t",
    "answers as groups of a query around": "SELECT n, dpproxy.low(n), dpproxy.high(n) FROM (SELECT ill, count(*) AS n FROM answers GROUP BY 1) t "
    "WHERE ill",
    "a rounded one": f"SELECT {ILL}, dpproxy.low(round({ILL} / 2.0) * 2 - 1), dpproxy.high(round({ILL} / 2.0) * 2 + 1) FROM answers",
    "a common table": f"WITH t AS (SELECT district, {ILL} AS n, dpproxy.low({ILL}) AS a, dpproxy.high({ILL}) AS b FROM answers GROUP BY 1) "
    "SELECT sum(n), sum(a), sum(b) FROM t",
    "the highest": f"SELECT * FROM (SELECT wave / 100, {ILL} AS n, dpproxy.low({ILL}) AS a, dpproxy.high({ILL}) AS b FROM answers "
    "GROUP BY 1 ORDER BY 2 DESC LIMIT 1) t(w, n, a, b)",
    "a join of released rows": "SELECT sum(t.n), min(d.a) - 200, max(d.b) + 200 FROM (SELECT ill, count(*) AS n FROM answers GROUP BY 1) t "
    "JOIN (SELECT ill, dpproxy.low(count(*)) AS a, dpproxy.high(count(*)) AS b FROM answers GROUP BY ill) d ON t.ill AND d.ill",
}


@pytest.mark.parametrize("name", FORMS)
def test_estimates_stand_in_any_form(client: Client, people: People, name: str) -> None:
    client.ask("SELECT set_config('dpproxy.confidence', '0.9999', false)")
    ((*_, value, low, high),) = client.ask(FORMS[name])
    assert low <= int(people.ill.sum()) <= high
    assert low <= value <= high


def test_types_stay(client: Client) -> None:
    asked = ("count(*) FILTER (WHERE ill)", "sum(ill::int)", "avg(ill::int)", "sum(cost) FILTER (WHERE ill)")
    types = ", ".join(f"pg_typeof({a})::text" for a in asked)
    assert client.ask(f"SELECT {types} FROM answers") == [("bigint", "bigint", "numeric", "bigint")]


def test_both_noises_are_told(client: Client) -> None:
    client.ask("SELECT count(*) FROM answers WHERE ill")
    told = "ill randomised on devices by rr, epsilon 1.09861; noise of devices sd 0.866 x sqrt(reports)"
    assert told in client.notices[-1]
    lines = [line for (line,) in client.ask("EXPLAIN SELECT count(*) FROM answers WHERE ill")]
    assert any(told in line for line in lines)


REFUSED = {
    "rows of it": "SELECT district, count(*) FROM (SELECT district FROM answers WHERE ill) t GROUP BY 1",
    "values of it": "SELECT DISTINCT ill FROM answers",
    "two keys": "SELECT ill, away, count(*) FROM answers GROUP BY 1, 2",
    "grouping sets": "SELECT ill, count(*) FROM answers GROUP BY ROLLUP (ill)",
    "a sum by it": "SELECT ill, sum(cost) FROM answers GROUP BY ill",
    "a condition on a key": "SELECT ill, count(*) FROM answers WHERE ill GROUP BY ill",
    "a key made of it": "SELECT ill::int, count(*) FROM answers GROUP BY 1",
    "distinct values": "SELECT count(DISTINCT ill) FROM answers",
    "distinct rows": "SELECT DISTINCT district FROM answers WHERE ill",
    "groups without a count": "SELECT district FROM answers WHERE ill GROUP BY district",
    "an extreme": "SELECT bool_or(ill) FROM answers",
    "a median by it": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY cost) FROM answers WHERE ill",
    "a spread by it": "SELECT stddev(cost) FILTER (WHERE ill) FROM answers",
    "a mean by it": "SELECT avg(cost) FROM answers WHERE ill",
    "two of them": "SELECT count(*) FROM answers WHERE ill AND away",
    "mixed": "SELECT count(*) FROM answers WHERE ill OR cost > 3",
    "a person's": "SELECT avg(n) FROM (SELECT respondent, sum(ill::int) AS n FROM answers GROUP BY respondent) t",
    "a computed column": "SELECT count(*) FROM (SELECT NOT ill AS well FROM answers) t WHERE well",
    "a join": "SELECT count(*) FROM answers a JOIN visits b ON a.ill = b.ill AND a.respondent = b.respondent",
    "several rows a person": "SELECT count(*) FROM visits WHERE ill",
    "another mechanism": "SELECT count(*) FROM answers WHERE mood = 3",
    "a key of four values": "SELECT food, count(*) FROM answers GROUP BY food",
    "three weights": "SELECT sum(CASE food WHEN 'meat' THEN 1 WHEN 'fish' THEN 2 ELSE 3 END) FROM answers",
    "a window's error": "SELECT wave, dpproxy.low(sum(count(*) FILTER (WHERE ill)) OVER (ORDER BY wave)) FROM answers GROUP BY wave",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_estimated_is_refused_by_name(client: Client, name: str) -> None:
    refusal = client.refused(REFUSED[name])
    assert refusal.sqlstate == "0A000", refusal
    assert refusal.diag.statement_position
    message = refusal.diag.message_primary or ""
    assert "randomised on devices" in message or name == "a window's error"
    assert ". " in message, "a reason and a hint"


def test_a_column_goes_through_a_query_as_it_is(client: Client, people: People) -> None:
    ((count,),) = client.ask("SELECT count(*) FROM (SELECT district, ill FROM answers) t WHERE t.ill")
    assert count == pytest.approx(people.ill.sum(), abs=4 * 0.87 * np.sqrt(len(people.ill)))
