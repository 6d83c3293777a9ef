"""Reports of devices through a proxy that serves them, as clients ask: from a file, and from a PostgreSQL server.

Devices are invented by the exact probabilities of their claims, so that the truth is known here and to nobody else.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import asyncpg
import duckdb
import numpy as np
import psycopg
import pytest
from scratch_postgres import Scratch, scratch_server

from dpproxy.local import planes
from dpproxy.local.claims import CountMean, Direct, Duchi, Levels, Plane, Unary
from dpproxy.local.hashes import number, polynomial
from dpproxy.policy.load import read_text
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched

POLICY = """
version: 1
dataset: phones
backend: {{ {backend} }}
{unit}
tables:
{people}
  names: {{ public: true }}
  regions: {{ public: true }}
  reports:
    reports: {{ epsilon: 9, per_day: 1, keep: 90d, at_least: 100, answers: fresh }}
    columns:
      region: {{ plain: true, values: [north, south, west] }}
      price: {{ plain: true, range: [0, 9] }}
      ill: {{ randomised: {{ by: rr, if_yes: 3/4, if_no: 1/4 }} }}
      fruit: {{ randomised: {{ by: krr, values: [apple, pear, plum], epsilon: 2 }} }}
      emoji: {{ randomised: {{ by: pgr, values: {{ table: names.name, order: id }}, count: 30, epsilon: 3 }}, from: emoji_r }}
      age: {{ randomised: {{ by: levels, range: [0, 100], epsilon: 2 }}, from: age_r }}
  seen:
    reports: {{ epsilon: 2, per_day: 1, keep: 90d, at_least: 100, rows: cells }}
    columns:
      price: {{ plain: true, range: [0, 9] }}
      fruit: {{ randomised: {{ by: oue, values: [apple, pear, plum] }}, from: bit }}
  noisy:
    reports: {{ epsilon: 3, per_day: 1, keep: 90d, at_least: 100 }}
    columns:
      price: {{ plain: true, range: [0, 9] }}
      hours: {{ randomised: {{ by: laplace, range: [-5, 19], epsilon: 2 }}, from: hours_r }}
      mood: {{ randomised: {{ by: duchi, range: [0, 10], epsilon: 1 }}, from: mood_r }}
  typed:
    reports: {{ epsilon: 4, per_day: 1, keep: 90d, at_least: 100, rows: cells }}
    columns:
      word: {{ randomised: {{ by: cms, k: 4, m: 64, seed: words }}, from: cell }}
roles: {{ analyst: {{ {budget} }} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""
ALONE = {"unit": "privacy_unit: { name: device }", "people": "", "budget": ""}
WITH_PEOPLE = {
    "unit": "privacy_unit: { name: person, key: people.id }\nbudget: { epsilon: 100000, delta: 0, every: never }",
    "people": "  people: { unit: id, columns: { id: unit, region: { values: [north, south] } } }",
    "budget": "budget: { epsilon: 100000, delta: 0 }, query: { epsilon: 1000, max_epsilon: 1000 }",
}
"""A policy of reports alone, and one of people too."""
SIZE = 6000
FRUITS = ("apple", "pear", "plum")
OUE, CMS = Unary.within(Fraction(2), 3), CountMean.within(Fraction(4), 4, 64, "words")


class Devices:
    """What devices have, and what they report."""

    def __init__(self, plane: Plane, levels: Levels) -> None:
        chance = np.random.default_rng(7)
        self.region = chance.choice(["north", "south"], SIZE).tolist() + ["west"] * 40
        count = len(self.region)
        self.ill = chance.random(count) < 0.2
        self.fruit, self.emoji = chance.choice(3, count, p=[0.7, 0.3, 0.0]), np.minimum(chance.geometric(0.2, count) - 1, 29)
        self.price, self.age = chance.integers(0, 10, count), chance.choice([0, 50, 100], count, p=[0.2, 0.6, 0.2])
        krr = Direct.within(Fraction(2), 3)
        ill = chance.random(count) < np.where(self.ill, 0.75, 0.25)
        fruit = np.where(chance.random(count) < float(krr.p), self.fruit, (self.fruit + chance.integers(1, 3, count)) % 3)
        step = 100 // (levels.levels - 1)
        level = self.age // step
        level = np.where(
            chance.random(count) < float(levels.p), level, (level + chance.integers(1, levels.levels, count)) % levels.levels
        )
        inside = chance.random(count) < float(plane.inside)
        draws = [int(chance.integers(plane.plane if near else plane.points - plane.plane)) for near in inside]
        emoji = [
            (planes.inside if near else planes.outside)(int(v), draw, plane.base, plane.dimension)
            for v, draw, near in zip(self.emoji, draws, inside, strict=True)
        ]
        fruits = [FRUITS[v] for v in fruit]
        self.seen, self.typed = self._vectors(chance)
        self.hours, self.mood = chance.choice([-5.0, 0.5, 18.0], count), chance.choice([0.0, 2.0, 10.0], count, p=[0.1, 0.8, 0.1])
        self.noisy = self._noisy(chance)
        self.rows = list(zip(self.region, self.price.tolist(), ill.tolist(), fruits, emoji, level.tolist(), strict=True))

    def _noisy(self, chance: np.random.Generator) -> list[tuple[int, float, int]]:
        """Hours with Laplace noise, and of moods the sign; two numbers that no device sends come on top."""
        hours, high = (
            self.hours + chance.laplace(0, 12, self.hours.size),
            float(Duchi.within(Fraction(1), Fraction(0), Fraction(10)).plus),
        )
        signs = np.where(chance.random(self.mood.size) < 0.5 + (self.mood - 5) / 10 * (2 * high - 1), 1, -1)
        moods = (5 + 5 * signs).tolist()
        return [*zip(self.price.tolist(), hours.tolist(), moods, strict=True), (3, 1e300, 0), (3, float("nan"), 10)]

    def tables(self) -> list[tuple[str, list[tuple[Any, ...]]]]:
        return [("reports", self.rows), ("seen", self.seen), ("typed", self.typed), ("noisy", self.noisy)]

    def _vectors(self, chance: np.random.Generator) -> tuple[list[tuple[int, int, int]], list[tuple[int, int]]]:
        """The fruits again as cells of bit vectors, by price; and as words, in a sketch of vectors."""
        seen = []
        for price in range(10):
            true = np.bincount(self.fruit[self.price == price], minlength=3)
            bits = chance.binomial(true, OUE.own) + chance.binomial(true.sum() - true, float(OUE.other))
            seen += [(price, cell, int(n)) for cell, n in enumerate(np.append(bits, true.sum()))]
        cells, width = np.zeros(CMS.space.size, np.int64), CMS.width
        drawn = chance.integers(0, CMS.functions, self.fruit.size)
        for j, value in zip(drawn, self.fruit, strict=True):
            cells[j * width + polynomial(CMS.seed, int(j), width)(number(FRUITS[value]))] += 1
        of = np.bincount(drawn, minlength=CMS.functions)
        keep = float(CMS.keep)
        bits = chance.binomial(cells, keep) + chance.binomial(np.repeat(of, width) - cells, 1 - keep)
        return seen, [(cell, int(n)) for cell, n in enumerate(np.append(bits, of))]


TABLES = """
CREATE TABLE names (id int PRIMARY KEY, name text);
CREATE TABLE regions (region text PRIMARY KEY, coast bool);
CREATE TABLE reports (region text, price int, ill bool, fruit text, emoji_r int, age_r int);
CREATE TABLE seen (price int, bit int, n bigint);
CREATE TABLE typed (cell int, n bigint);
CREATE TABLE noisy (price int, hours_r double precision, mood_r int);
INSERT INTO regions VALUES ('north', true), ('south', false);
"""


@pytest.fixture(scope="module")
def devices() -> Devices:
    text = POLICY.format(backend="duckdb: x.duckdb", verifier=make_verifier("x"), **ALONE)
    table = next(t for t in read_text(text, "x", Path(), {}).policy.tables.values() if t.reports is not None)
    (_, plane), (_, ages) = (table.columns[name].randomised.claims[0] for name in ("emoji", "age"))  # type: ignore[union-attr]
    return Devices(plane, ages)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scratch]:
    with scratch_server(tmp_path_factory.mktemp("reports")) as made:
        yield made


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def proxy(request: pytest.FixtureRequest, devices: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("phones")
    names = [(i, f"e{i}") for i in range(30)]
    if request.param == "duckdb":
        with duckdb.connect(str(folder / "phones.duckdb")) as owner:
            owner.execute(TABLES)
            owner.executemany("INSERT INTO names VALUES (?, ?)", names)
            for table, rows in devices.tables():
                marks = ", ".join("?" * len(rows[0]))
                owner.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            owner.execute("CREATE TABLE people AS SELECT i AS id, 'north' AS region FROM range(50) t(i)")
        backend, whose = "duckdb: phones.duckdb", WITH_PEOPLE
    else:
        data: Scratch = request.getfixturevalue("server")
        with psycopg.connect(data.conninfo(), autocommit=True) as owner, owner.cursor() as cursor:
            cursor.execute(TABLES.encode())
            cursor.executemany("INSERT INTO names VALUES (%s, %s)", names)
            for table, rows in devices.tables():
                with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for row in rows:
                        copy.write_row(row)
        backend, whose = f'postgres: "{data.dsn()}"', ALONE
    (folder / "phones.yaml").write_text(POLICY.format(backend=backend, verifier=make_verifier("x"), **whose))
    with launched([folder / "phones.yaml"], folder / "state") as running:
        yield running


class Client:
    def __init__(self, proxy: Proxy) -> None:
        where = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=phones"
        self._connection = psycopg.connect(where, autocommit=True)
        self.notices: list[str] = []
        self._connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary or ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.encode()).fetchall()

    def bound(self, sql: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.encode(), values).fetchall()

    def refused(self, sql: str) -> psycopg.Error:
        with pytest.raises(psycopg.Error) as raised:
            self.ask(sql)
        return raised.value


@pytest.fixture
def client(proxy: Proxy) -> Client:
    return Client(proxy)


def test_all_values_are_counted(client: Client, devices: Devices) -> None:
    found = dict(client.ask("SELECT fruit, count(*) FROM reports GROUP BY fruit"))
    assert set(found) == {"apple", "pear", "plum"}
    assert sum(found.values()) == len(devices.rows)
    true = dict(zip(("apple", "pear", "plum"), np.bincount(devices.fruit, minlength=3).tolist(), strict=True))
    assert found == pytest.approx(true, abs=300)
    (notice,) = client.notices
    assert notice.startswith("no epsilon charged: fruit was randomised on devices (krr, epsilon 9 a report, at most 1 a day)")
    assert "counts are made to add up to the reports" in notice


Truth = Callable[[Devices], float]
NUMBERS: dict[str, tuple[str, Truth]] = {
    "a coin": ("count(*) FILTER (WHERE ill)", lambda d: d.ill.sum()),
    "a coin by number": ("sum(CASE WHEN ill THEN 1 ELSE 0 END)", lambda d: d.ill.sum()),
    "a share": ("avg(ill::int)", lambda d: d.ill.mean()),
    "one value": ("count(*) FILTER (WHERE fruit = 'pear')", lambda d: (d.fruit == 1).sum()),
    "all but one": ("count(*) FILTER (WHERE fruit <> 'pear')", lambda d: (d.fruit != 1).sum()),
    "some of a public list": ("count(*) FILTER (WHERE emoji IN ('e0', 'e2'))", lambda d: np.isin(d.emoji, (0, 2)).sum()),
    "plain and not": ("count(*) FILTER (WHERE fruit = 'apple' AND price > 4)", lambda d: ((d.fruit == 0) & (d.price > 4)).sum()),
    "two of them": ("count(*) FILTER (WHERE ill AND fruit = 'apple')", lambda d: (d.ill & (d.fruit == 0)).sum()),
    "a plain number": ("sum(price) FILTER (WHERE ill)", lambda d: d.price[d.ill].sum()),
    "a mean of it": ("avg(price) FILTER (WHERE ill)", lambda d: d.price[d.ill].mean()),
    "a number of devices": ("avg(age)", lambda d: d.age.mean()),
    "the sum of it": ("sum(age)", lambda d: d.age.sum()),
}


VECTORS: dict[str, tuple[str, Truth, str]] = {
    "vectors": ("count(*) FILTER (WHERE fruit = 'pear')", lambda d: (d.fruit == 1).sum(), "seen"),
    "vectors, all but one": ("count(*) FILTER (WHERE fruit <> 'pear')", lambda d: (d.fruit != 1).sum(), "seen"),
    "vectors, and plain": ("count(*) FILTER (WHERE fruit = 'apple' AND price > 4)", NUMBERS["plain and not"][1], "seen"),
    "a plain number by vectors": ("sum(price) FILTER (WHERE fruit = 'apple')", lambda d: d.price[d.fruit == 0].sum(), "seen"),
    "noisy numbers": ("avg(hours)", lambda d: d.hours.mean(), "noisy"),
    "the sum of them": ("sum(hours)", lambda d: d.hours.sum(), "noisy"),
    "some of them": ("avg(hours) FILTER (WHERE price > 4)", lambda d: d.hours[d.price > 4].mean(), "noisy"),
    "signs": ("avg(mood)", lambda d: d.mood.mean(), "noisy"),
    "signs, added up": ("sum(mood) FILTER (WHERE price = 3)", lambda d: d.mood[d.price == 3].sum() + 10, "noisy"),
    "a sketch of vectors": ("count(*) FILTER (WHERE word = 'apple')", lambda d: (d.fruit == 0).sum(), "typed"),
}


@pytest.mark.parametrize("name", [*NUMBERS, *VECTORS])
def test_intervals_hold_what_devices_have(client: Client, devices: Devices, name: str) -> None:
    """At 99.99 %, of seeds that are fixed; and what is shown lies within, about as far off as its standard error says."""
    asked, truth, table = VECTORS[name] if name in VECTORS else (*NUMBERS[name], "reports")
    client.ask("SELECT set_config('dpproxy.confidence', '0.9999', false)")
    query = f"SELECT {asked}, dpproxy.low({asked}), dpproxy.high({asked}), dpproxy.stderr({asked}) FROM {table}"
    ((value, low, high, deviation),) = client.ask(query)
    true = float(truth(devices))
    assert low <= true <= high
    assert low <= value <= high
    assert abs(float(value) - true) < 5 * deviation + 1
    assert float(high - low) < 12 * deviation + 3


def test_of_vectors_reports_are_counted(client: Client, devices: Devices) -> None:
    """A row stands for a bit that is set, or for reports: these alone are counted, in groups too."""
    n = len(devices.rows)
    for query in (
        "SELECT count(*) FROM typed",
        "SELECT count(*) FROM seen",
        "SELECT sum(n) FROM (SELECT price, count(*) n FROM seen GROUP BY 1) t",
    ):
        assert client.ask(query) == [(n,)]
    found = dict(client.ask("SELECT fruit, count(*) FROM seen GROUP BY fruit"))
    assert sum(found.values()) == n
    assert found["apple"] == pytest.approx((devices.fruit == 0).sum(), abs=500)
    ((mean, few),) = client.ask("SELECT avg(price), count(*) FILTER (WHERE price < 5) FROM seen")
    assert (float(mean), few) == (pytest.approx(devices.price.mean()), (devices.price < 5).sum())


def test_a_condition_chooses_among_true_values(client: Client, devices: Devices) -> None:
    ((where,),) = client.ask("SELECT count(*) FROM reports WHERE ill")
    ((filtered,),) = client.ask("SELECT count(*) FILTER (WHERE ill) FROM reports")
    assert where == filtered
    found = client.ask("SELECT emoji, count(*) FROM reports WHERE emoji IN ('e0', 'e3') GROUP BY emoji ORDER BY 1")
    assert [name for name, _ in found] == ["e0", "e3"]
    assert found[0][1] == pytest.approx((devices.emoji == 0).sum(), abs=400)


PARAMETERS: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("SELECT count(*) FROM reports WHERE emoji = $1", ("e1",), "emoji = 'e1'"),
    ("SELECT count(*) FROM reports WHERE emoji <> $1", ("e1",), "emoji <> 'e1'"),
    (
        "SELECT count(*) FROM reports WHERE emoji IN ($1, $2) AND price > $3",
        ("e1", "e0", 4),
        "emoji IN ('e0', 'e1') AND price > 4",
    ),
    ("SELECT count(*) FROM reports WHERE fruit = ANY($1)", (["pear", "plum"],), "fruit IN ('pear', 'plum')"),
    ("SELECT count(*) FROM reports WHERE fruit <> ALL($1::text[])", ([],), "price >= 0"),
    ("SELECT count(*) FROM reports WHERE fruit LIKE $1", ("%l%",), "fruit <> 'pear'"),
    ("SELECT count(*) FROM reports WHERE age > $1", (60.0,), "age > 60"),
    ("SELECT count(*) FROM reports WHERE fruit = (SELECT 'pe' || 'ar')", (), "fruit = 'pear'"),
)
"""Statements with parameters, their values, and what they say written out."""


BY_CANDIDATE = {
    "fruit LIKE 'p%'": "fruit IN ('pear', 'plum')",
    "fruit NOT ILIKE '_P%E'": "fruit <> 'apple'",
    "upper(fruit) = 'PEAR'": "fruit = 'pear'",
    "substring(fruit from 2 for 1) = 'l'": "fruit = 'plum'",
    "length(fruit) = 4 AND ill": "fruit <> 'apple' AND ill",
    "fruit || '!' = 'pear!'": "fruit = 'pear'",
    "ill::text = 'true'": "ill",
    "emoji IN (SELECT name FROM names WHERE id < 3)": "emoji IN ('e0', 'e1', 'e2')",
    "emoji NOT IN (SELECT name FROM names WHERE id > 0)": "emoji = 'e0'",
    "fruit IN (SELECT NULL::text UNION SELECT 'pear' WHERE false)": "fruit = NULL",
    "fruit IN (SELECT f FROM (SELECT fruit f, count(*) n FROM reports GROUP BY 1) t WHERE n > 4000)": "fruit = 'apple'",
}
"""Conditions that are true of some candidates, and what they are written out."""


@pytest.mark.parametrize("condition", BY_CANDIDATE)
def test_conditions_are_computed_of_each_candidate(client: Client, condition: str) -> None:
    query = "SELECT count(*) FROM reports WHERE "
    assert client.ask(query + condition) == client.ask(query + BY_CANDIDATE[condition])


@pytest.mark.parametrize("number", range(len(PARAMETERS)))
def test_parameters_are_compared_as_constants_are(client: Client, proxy: Proxy, number: int) -> None:
    sql, values, condition = PARAMETERS[number]
    written = client.ask(f"SELECT count(*) FROM reports WHERE {condition}")

    async def fetched() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(host=proxy.host, port=proxy.port, user="ada", password="x", database="phones")
        try:
            return [tuple(row) for row in await connection.fetch(sql, *values)]
        finally:
            await connection.close()

    assert asyncio.run(fetched()) == written
    assert client.bound(re.sub(r"\$\d", "%s", sql), values) == written


def test_plain_columns_are_told_as_they_are(client: Client) -> None:
    assert client.ask("SELECT count(*) FROM reports") == [(SIZE + 40,)]
    joined = "SELECT g.coast, count(*) FROM reports r JOIN regions g USING (region) GROUP BY 1 ORDER BY 1"
    north = [(region, count) for region, count in client.ask("SELECT region, count(*) FROM reports GROUP BY 1")]
    client.notices.clear()
    assert {count for _, count in client.ask(joined)} == {count for _, count in north}


def test_of_joins_no_report_is_counted_twice_in_a_group(client: Client) -> None:
    """By a key, or grouped by what tells the public rows apart: then few reports are few, and are not shown."""
    assert client.ask("SELECT x, count(*) FROM reports, (VALUES (1), (2)) v(x) GROUP BY 1 ORDER BY 1") == [
        (1, SIZE + 40),
        (2, SIZE + 40),
    ]
    assert client.ask("SELECT id, count(*) FROM reports, names WHERE region = 'west' GROUP BY 1") == []
    ranges = "SELECT lo, count(*) FROM reports JOIN (VALUES (0, 4), (5, 9)) b(lo, hi) ON price BETWEEN lo AND hi GROUP BY 1"
    assert sum(count for _, count in client.ask(ranges)) == SIZE + 40


def test_small_groups_are_named_and_not_shown(client: Client) -> None:
    found = client.ask("SELECT region, fruit, count(*) FROM reports GROUP BY 1, 2")
    assert {region for region, *_ in found} == {"north", "south"}
    assert "region 'west' is not shown: fewer than 100 reports" in client.notices[-1]
    assert client.ask("SELECT count(*) FROM reports WHERE region = 'west'") == []


def test_estimates_as_drawn_are_had_by_a_setting(client: Client) -> None:
    query = "SELECT count(*) FROM reports GROUP BY emoji"
    moved = [count for (count,) in client.ask(query)]
    client.ask("SELECT set_config('dpproxy.consistent', 'off', false)")
    drawn = [count for (count,) in client.ask(query)]
    assert min(moved) >= 0
    assert min(drawn) < 0


def test_above_estimates_stands_any_sql(client: Client) -> None:
    query = """
        WITH t AS (SELECT fruit, count(*) AS n FROM reports GROUP BY fruit)
        SELECT fruit, n, n * 1.0 / sum(n) OVER () AS share FROM t WHERE n > 100 ORDER BY n DESC LIMIT 2
    """
    found = client.ask(query)
    assert [fruit for fruit, *_ in found] == ["apple", "pear"]
    assert float(found[0][2]) == pytest.approx(0.7, abs=0.05)
    ((share,),) = client.ask(
        "SELECT max(n) FROM (SELECT count(*) * 1.0 / sum(count(*)) OVER () AS n FROM reports GROUP BY fruit) t"
    )
    assert float(share) == pytest.approx(0.7, abs=0.05)


def test_nothing_is_charged_and_the_plan_says_so(client: Client) -> None:
    plan = "\n".join(line for (line,) in client.ask("EXPLAIN SELECT emoji, count(*) FROM reports GROUP BY emoji"))
    for said in ("Estimate of reports: emoji, 30 values, pgr(", "no charge", "sd ", "A false report moves", "Promise: local"):
        assert said in plan
    ((told,),) = client.ask("EXPLAIN (FORMAT JSON) SELECT emoji, count(*) FROM reports GROUP BY emoji")
    (reports,) = (json.loads(told) if isinstance(told, str) else told)[0]["Privacy Plan"]["Reports"]
    assert (reports["Table"], reports["Charge"], reports["Days Kept"]) == ("reports", 0, 90)
    client.ask("SELECT count(*) FROM reports WHERE ill")
    about = "SELECT epsilon FROM dpproxy.answers WHERE measurements = 0"
    assert {epsilon for (epsilon,) in client.ask(about)} == {0}


@pytest.mark.parametrize("proxy", ["duckdb"], indirect=True)
def test_answers_about_people_and_reports_meet_above_both(client: Client) -> None:
    """Each may decide what is asked of the other, once it is an answer; rows of both never meet."""
    both = "SELECT (SELECT count(*) FROM people), (SELECT count(*) FROM reports)"
    assert client.ask(both) == [(50, SIZE + 40)]
    ((some,),) = client.ask("SELECT count(*) FROM reports WHERE price < (SELECT count(*) / 10 FROM people)")
    assert 0 < some < SIZE
    chosen = "SELECT region FROM (SELECT region, count(*) AS n FROM reports GROUP BY 1) t WHERE n > 200"
    assert client.ask(f"SELECT count(*) FROM people WHERE region IN ({chosen})") == [(50,)]
    for sql in (
        "SELECT count(*) FROM reports JOIN people USING (region)",
        "SELECT count(*) FROM people FULL JOIN reports USING (region)",
        "SELECT count(*) FROM (SELECT region FROM reports UNION ALL SELECT region FROM people) t",
        "SELECT count(*) FROM people WHERE region NOT IN (SELECT region FROM reports)",
        "SELECT count(*) FROM reports WHERE region NOT IN (SELECT region FROM people)",
        "SELECT count(*) FROM people p WHERE EXISTS (SELECT FROM reports r WHERE r.region = p.region)",
    ):
        assert client.refused(sql).sqlstate == "0A000"


REFUSED = {
    "SELECT fruit FROM reports": "answers are estimates over many reports",
    "SELECT * FROM reports LIMIT 3": "answers are estimates over many reports",
    "SELECT DISTINCT fruit FROM reports": "DISTINCT",
    "SELECT count(DISTINCT fruit) FROM reports": "DISTINCT",
    "SELECT max(fruit) FROM reports": "max()",
    "SELECT string_agg(fruit, ',') FROM reports": "string_agg()",
    "SELECT upper(fruit), count(*) FROM reports GROUP BY 1": "grouped by as it is",
    "SELECT count(*) FROM reports r JOIN names n ON n.name = r.fruit": "joined by it",
    "SELECT count(*) FROM reports a JOIN reports b USING (region)": "other private rows",
    "SELECT count(*) FROM names n LEFT JOIN reports r ON r.region = n.name": "outer join",
    "SELECT region FROM reports UNION ALL SELECT name FROM names": "rows of single",
    "SELECT ill, fruit, age, count(*) FROM reports GROUP BY 1, 2, 3": "two such columns",
    "SELECT emoji, fruit, count(*) FROM reports GROUP BY 1, 2": "estimated by itself alone",
    "SELECT count(*) FROM reports WHERE ill OR region = 'north'": "one such column",
    "SELECT count(*) FROM reports WHERE emoji LIKE 'e1%'": "not estimated",
    "SELECT count(*) FROM reports WHERE fruit < 'b'": "not estimated",
    "SELECT count(*) FROM reports r WHERE fruit IN (SELECT name FROM names n WHERE n.name = r.region)": "not estimated",
    "SELECT count(*) FROM names WHERE name IN (SELECT fruit FROM reports)": "`fruit` was randomised",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age) FROM reports": "percentile_cont()",
    "SELECT word, count(*) FROM typed GROUP BY word": "its values are not listed",
    "SELECT count(*) FROM reports, generate_series(1, 1000) WHERE region = 'west'": "several times",
    "SELECT count(*) FILTER (WHERE ill) FROM reports r JOIN names n ON true": "several times",
    "SELECT u, count(*) FROM reports, unnest(ARRAY[1, 1, 1]) u WHERE region = 'west' GROUP BY 1": "several times",
    "SELECT avg(hours * 2) FROM noisy": "added up as it is",
    "SELECT avg(hours) FROM noisy WHERE mood > 3": "added up as it is",
    "SELECT hours, count(*) FROM noisy GROUP BY 1": "not estimated",
    "SELECT max(hours) FROM noisy": "max()",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY hours) FROM noisy": "percentile_cont()",
    "SELECT count(*) FROM noisy WHERE hours > 3": "not estimated",
    "SELECT region, fruit, count(*) FROM reports GROUP BY CUBE (1, 2)": "grouping sets",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_looks_at_single_reports_is_refused_by_name_and_place(client: Client, sql: str) -> None:
    refused = client.refused(sql)
    assert refused.sqlstate in ("0A000", "42501")
    assert REFUSED[sql] in str(refused.diag.message_primary)
    assert ". " in str(refused.diag.message_primary), "what to write instead"
    assert refused.diag.statement_position
