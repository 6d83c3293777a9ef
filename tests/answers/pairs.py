"""Pairs of questions, the second of which may be answered from what the first released; and data on which it must not be
answered wrongly: keys that are NULL or undeclared, values beyond ranges, NaN, persons of many rows in one group and in several.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

DATA = """
SELECT setseed(0.5);
CREATE TABLE zones AS SELECT 'z' || i AS name, ['hill', 'lake', NULL][1 + i % 3] AS kind FROM range(5) AS t(i);
CREATE TABLE people AS SELECT i AS id,
    ['east', 'north', 'south', 'west', 'west', 'abroad', NULL][1 + (random() * 6.99)::int % 7] AS region,
    ['F', 'M', 'M', 'X', NULL][1 + (random() * 4.99)::int % 5] AS sex,
    (random() * 120 - 10)::int AS age, (random() * 6000)::int AS income,
    CASE WHEN i % 9 = 0 THEN NULL WHEN i % 11 = 0 THEN 'nan'::double ELSE random() * 10 END AS score,
    i % 3 = 0 AS member, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 2 = 0 END AS vip,
    CASE WHEN i % 13 = 0 THEN NULL ELSE DATE '2019-06-01' + (random() * 1200)::int END AS born,
    TIMESTAMPTZ '2020-01-01 00:00:00+00' + INTERVAL 1 HOUR * (random() * 17000)::int AS seen,
    CASE WHEN i % 10 = 0 THEN NULL ELSE 'z' || (i % 6) END AS zone
    FROM range(1500) AS t(i);
ALTER TABLE people ALTER COLUMN member SET NOT NULL;
CREATE TABLE visits AS SELECT i AS person, ['bar', 'inn', 'pub', 'tent', NULL][1 + (random() * 4.99)::int % 5] AS shop,
    (random() * 30 - 3)::int AS paid, DATE '2020-01-01' + (random() * 40)::int AS day, i % 5 AS chain
    FROM range(600) AS t(i), range(8) AS u(j) WHERE j <= i % 8;
CREATE TABLE trips AS SELECT i AS person, (i + j) % 4 AS line
    FROM range(500) AS t(i), range(20) AS u(j) WHERE j < CASE WHEN i % 10 = 0 THEN 20 ELSE 2 END;
"""

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 1e12, delta: 0.9, every: never }
tables:
  people:
    unit: id
    columns:
      id: unit
      region: { values: [east, north, south, west] }
      sex: { values: [F, M] }
      age: { range: [0, 99] }
      income: { range: [0, 5000] }
      score: { range: [0, 10], resolution: 0.001 }
      member: {}
      vip: {}
      born: { range: [2020-01-01, 2021-12-31] }
      seen: { range: [2020-01-01, 2021-12-31] }
      zone: {}
  visits:
    unit: person
    bounds: { rows_per_group: 3, groups: all }
    columns:
      person: unit
      shop: { values: [bar, inn, pub] }
      paid: { range: [0, 20] }
      day: { range: [2020-01-01, 2020-01-31] }
      chain: { values: [0, 1, 2] }
  trips:
    unit: person
    bounds: { rows: 4 }
    columns: { person: unit, line: { values: [0, 1, 2] } }
  zones: { public: true }
views:
  adults: SELECT * FROM people WHERE age >= 18
  grown: SELECT id, region, sex, income, CASE WHEN age < 40 THEN 'young' ELSE 'old' END AS ripeness FROM people
roles:
  analyst:
    budget: { epsilon: 1e12, delta: 0.4, every: never }
    query: { epsilon: 1e7, max_epsilon: 1e8, delta: 1e-7 }
  other:
    budget: { epsilon: 1e12, delta: 0.4, every: never }
    query: { epsilon: 1e7, max_epsilon: 1e8, delta: 1e-7 }
    min_units: 20
users:
  ada: { role: analyst, password: "VERIFIER" }
  cy: { role: other, password: "VERIFIER" }
"""


@dataclass(frozen=True)
class Source:
    text: str
    keys: tuple[str, ...]
    aggs: tuple[str, ...]
    limits: tuple[tuple[str, tuple[str, ...]], ...]  # columns and values that WHERE may name


REGION = ("region", ("'east'", "'north'", "'south'", "'west'", "'abroad'", "'nowhere'"))
SEX = ("sex", ("'F'", "'M'", "'X'"))
OF_PEOPLE = ("count(*)", "count(income)", "sum(age)", "sum(income)", "avg(income)", "count(DISTINCT id)", "sum(score)", "avg(score)",
             "count(score)", "sum(income) FILTER (WHERE sex = 'F')", "max(age)", "stddev(age)", "count(DISTINCT age)", "sum(-age)",
             "avg(age + 1)", "sum(CASE WHEN vip THEN 1 ELSE 0 END)")  # fmt: skip
PEOPLE_KEYS = ("region", "sex", "member", "vip", "CASE WHEN income > 2000 THEN 'rich' ELSE 'poor' END", "age / 25", "age > 30",
               "extract(year FROM born)", "date_trunc('quarter', seen)", "upper(region)", "coalesce(sex, '-')", "region IS NULL",
               "CASE WHEN region = 'east' THEN 1 WHEN sex = 'F' THEN 2 END", "zone")  # fmt: skip
SOURCES = (
    Source("people", PEOPLE_KEYS, OF_PEOPLE, (REGION, SEX)),
    Source("people", ("region", "sex", "member", "vip"), OF_PEOPLE, (REGION, SEX)),
    Source("adults", ("region", "sex", "member", "age > 30"), OF_PEOPLE[:6], (REGION, SEX)),
    Source("grown", ("region", "sex", "ripeness"), ("count(*)", "sum(income)", "avg(income)"),
           (REGION, SEX, ("ripeness", ("'young'", "'old'")))),
    Source("visits JOIN people ON person = id", ("region", "sex", "member", "shop", "chain", "day", "vip", "paid > 5"),
           ("count(*)", "sum(paid)", "avg(paid)", "count(DISTINCT person)", "sum(age)", "count(shop)", "max(paid)"),
           (REGION, SEX, ("shop", ("'bar'", "'inn'", "'pub'", "'tent'")), ("chain", ("0", "1", "2", "3")))),
    Source("visits", ("shop", "chain", "extract(day FROM day) > 15"), ("count(*)", "sum(paid)", "avg(paid)", "count(DISTINCT person)"),
           (("shop", ("'bar'", "'inn'", "'pub'")), ("chain", ("0", "1", "2", "4")))),
    Source("trips JOIN people ON person = id", ("line", "region", "member"), ("count(*)", "count(DISTINCT person)", "avg(age)", "sum(age)"),
           (REGION, ("line", ("0", "1", "2", "3")))),
    Source("people JOIN zones ON zone = name", ("name", "kind", "region", "member"), OF_PEOPLE[:6], (REGION, ("kind", ("'hill'", "'lake'")))),
    Source("people LEFT JOIN zones ON zone = name", ("kind", "region", "member"), OF_PEOPLE[:6], (REGION, ("kind", ("'hill'", "'lake'")))),
    Source("people CROSS JOIN zones", ("name", "kind", "sex"), OF_PEOPLE[:6], (SEX,)),
)  # fmt: skip

DECLARED = {
    f"'{v}'" for v in ("east", "north", "south", "west", "F", "M", "bar", "inn", "pub", "hill", "lake", "young", "old")
} | set("012")
CLOSED = {"member", "name", "kind", "zone", "ripeness"}


@dataclass(frozen=True)
class Question:
    source: Source
    keys: tuple[str, ...]
    aggs: tuple[str, ...]
    limits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    other: str = ""  # a condition that groups cannot decide
    parameter: int | None = None  # a person's least income, given apart from the text
    rollup: bool = False
    most: int | None = None  # groups, those of most rows
    having: bool = False
    zone: str = "UTC"
    rows: int | None = None  # dpproxy.rows
    user: str = "ada"

    @property
    def where(self) -> str:
        found = [f"{c} = {v[0]}" if len(v) == 1 else f"{c} IN ({', '.join(v)})" for c, v in self.limits]
        found += [self.other] if self.other else []
        found += ["income > %s"] if self.parameter is not None else []
        return f" WHERE {' AND '.join(found)}" if found else ""

    def sql(self, told: bool = False) -> str:
        """`told`: with each aggregate's interval."""
        aggs = [text for a in self.aggs for text in ((a, f"dpproxy.low({a})", f"dpproxy.high({a})") if told else (a,))]
        group = f" GROUP BY {'ROLLUP ' if self.rollup else ''}({', '.join(self.keys)})" if self.keys else ""
        having = " HAVING count(*) > 20" if self.having else ""
        top = f" ORDER BY count(*) DESC LIMIT {self.most}" if self.most is not None else ""
        return f"SELECT {', '.join([*self.keys, *aggs])} FROM {self.source.text}{self.where}{group}{having}{top}"


def _some(rng: random.Random, of: tuple[str, ...], least: int, most: int) -> tuple[str, ...]:
    return tuple(rng.sample(of, min(len(of), rng.randint(least, most))))


def _limits(rng: random.Random, source: Source, often: float) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((c, _some(rng, values, 1, len(values))) for c, values in source.limits if rng.random() < often)


def _declared(rng: random.Random, first: Question, keys: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Columns whose groups are left out, limited to values that mostly have groups: what makes sums of groups whole."""
    found, known = dict(first.limits), dict(first.limits)
    for column, values in first.source.limits:
        if column in first.keys and (column not in keys or rng.random() < 0.2):
            few = tuple(v for v in known.get(column, values) if v in DECLARED or rng.random() < 0.05)
            found[column] = _some(rng, few, 1, len(few)) if few and rng.random() < 0.3 else few or known.get(column, values)
    return tuple(found.items())


def pair(rng: random.Random) -> tuple[Question, Question]:
    source = rng.choice(SOURCES)
    keys, aggs = _some(rng, source.keys, 1, 3), _some(rng, source.aggs, 1, 3)
    other = rng.choice(("", "", "", "income > 500", "sex = 'F' OR region = 'east'")) if "people" in source.text else ""
    parameter = rng.choice((None, None, None, 300)) if "people" in source.text else None
    first = Question(
        source, keys, aggs, _limits(rng, source, 0.15), other, parameter, zone=rng.choice(("UTC", "UTC", "Asia/Tokyo"))
    )
    if rng.random() < 0.1:
        first = replace(first, rollup=True)
    elif rng.random() < 0.1:
        first = replace(first, most=rng.randint(1, 3))
    return first, _second(rng, first)


def _second(rng: random.Random, first: Question) -> Question:
    """Mostly coarser, of fewer rows; sometimes otherwise."""
    source, plain = first.source, replace(first, rollup=False, most=None)
    limitable = {c for c, _ in source.limits} | CLOSED
    kept = tuple(k for k in first.keys if rng.random() < (0.3 if k in limitable else 0.8))
    second = replace(plain, keys=kept, aggs=_some(rng, first.aggs, 1, len(first.aggs)))
    if rng.random() < 0.75:
        second = replace(second, limits=_declared(rng, first, kept))
    elif rng.random() < 0.3:
        second = replace(second, limits=_limits(rng, source, 0.5))
    if rng.random() < 0.1:
        second = replace(second, aggs=(*second.aggs, rng.choice(source.aggs)))
    changes: list[dict[str, object]] = [{}] * 12
    changes += [{"rollup": bool(second.keys)}, {"having": True}, {"zone": "America/Lima"}, {"rows": 1}, {"user": "cy"}]
    changes += [{"most": rng.randint(1, 3)} if second.keys else {}]
    changes += [{"parameter": 301}] if first.parameter is not None else []
    return replace(second, **rng.choice(changes))  # type: ignore[arg-type]
