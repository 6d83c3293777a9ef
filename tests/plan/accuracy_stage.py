"""What the tests of accuracy have in common: a big shop, its plans, and what a thousand answers of one would show.

The outer query of a plan is run once over the arrays of a thousand releases, as if they were a thousand groups: the exact
columns, each time with other noise. Where the generator is seeded no run is unlucky.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import plan_harness
import psycopg
import pyarrow as pa
import shop_world

from dpproxy.answers.answer_parts import array_literal
from dpproxy.facade.cluster import plain
from dpproxy.mechanisms import sampler
from dpproxy.mechanisms.noise import Exact, Int64, Released
from dpproxy.mechanisms.noise_sources import OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Mechanism
from dpproxy.privacy.measurement import Basis, Measurement
from dpproxy.session.outer_text import array_constant, with_literals

RELEASES = 1000
EPSILON = "0.05"
PEOPLE = """
INSERT INTO customers SELECT i, ['north', 'south', 'east', 'west'][1 + h % 4], ['F', 'M'][1 + h % 2], 1950, 1000 * (h % 120),
  h % 120 - 60 + (h // 1000) % 50 - 25, 0.5 * (h % 8000), DATE '2022-01-01', h % 3 = 0, 0, 'x', 'y'
FROM (SELECT i, (hash(i) // 2::UBIGINT ** 33)::INTEGER AS h FROM range(20000) AS t(i))
"""
ORDERS = """
INSERT INTO orders SELECT row_number() OVER (), i, TIMESTAMP '2024-01-01', DATE '2024-01-01', h % 1000, h % 50 - 20, h % 20,
  ['open', 'paid', 'void'][1 + least(2, (h % 7) // 3)], 'x', 'y', TRUE, 0, 'z'
FROM (SELECT i, (hash(i * 1000 + k) // 2::UBIGINT ** 33)::INTEGER AS h
  FROM (SELECT i, unnest(range(greatest(1, 4000 // (i + 20)))) AS k FROM range(3000) AS t(i)))
"""
"""Of most people an order, of some a hundred."""


class Seeded(OwnNoise):
    """The product's own sampler on a pseudo-random generator."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed).randbytes)

    def draw(self, basis: Basis, size: int) -> Int64:
        draw = sampler.laplace if basis.mechanism == "laplace" else sampler.gaussian
        return draw(basis.scale, size, self.entropy)


class Stage:
    """Twenty thousand customers, and a PostgreSQL for outer queries."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.catalog = catalog
        self._data = duckdb.connect()
        self._data.execute(shop_world.DDL + PEOPLE + ";" + ORDERS)
        self._loop = asyncio.new_event_loop()
        self._facade = plain(folder)
        self._loop.run_until_complete(self._facade.start())
        place = {"host": str(Path(self._facade.socket).parent), "user": "postgres", "dbname": "postgres"}
        self._postgres = psycopg.connect(**place, autocommit=True)

    def close(self) -> None:
        self._postgres.close()
        self._loop.run_until_complete(self._facade.stop())
        self._loop.close()

    def true(self, sql: str) -> float:
        (value,) = self._data.execute(sql).fetchone() or ()
        return float(value)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self._data.execute(sql).fetchall()

    def plan(self, sql: str, mechanism: Mechanism = "laplace", policy: str = "shop", **settings: str) -> Plan:
        given = replace(plan_harness.policy(policy), mechanism=mechanism)
        return plan_harness.plan(sql, self.catalog, given, **{"dpproxy__epsilon": EPSILON, **settings})

    def released(self, made: Plan, seed: int = 7) -> np.ndarray[Any, Any]:
        """What the client would see, in RELEASES answers: one row an answer, NULL as NaN."""
        (measurement,) = made.measurements
        literals = {}
        noise = Seeded(seed)
        for i, column in enumerate(self._exact(measurement)):
            values = np.full(RELEASES, column, dtype=np.int64) + noise.draw(measurement.bases[i], RELEASES)
            literals[i + 1] = array_constant(array_literal(values), "int8")
        return self._numbers(made, literals)

    def answered(self, made: Plan, columns: list[Int64]) -> np.ndarray[Any, Any]:
        """What the client would see of these released columns, keys first."""
        types = [array.type for array in made.arrays]
        texts = map(array_literal, columns)
        return self._numbers(made, {i: array_constant(text, t) for i, (text, t) in enumerate(zip(texts, types, strict=True), 1)})

    def rows_of(self, made: Plan, columns: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What the client would see of these arrays, of texts where they are keys."""
        types = [array.type for array in made.arrays]
        literals = {i: array_constant(array_literal(pa.array(c) if isinstance(c, list) else c), t)
                    for i, (c, t) in enumerate(zip(columns, types, strict=True), 1)}  # fmt: skip
        return self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False).fetchall()

    def _numbers(self, made: Plan, literals: dict[int, str]) -> np.ndarray[Any, Any]:
        cursor = self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False)
        return np.array([[math.nan if v is None else float(v) for v in row] for row in cursor.fetchall()])

    def selected(self, made: Plan, times: int) -> np.ndarray[Any, Any]:
        """The same of percentiles, in so many answers, through the mechanism's door."""
        drawn = [one.values for one in islice(self.through_the_door(made), times)]
        columns = [np.concatenate(column) for column in zip(*drawn, strict=True)]
        literals = {i + 1: array_constant(array_literal(column), "int8") for i, column in enumerate(columns)}
        cursor = self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False)
        return np.array([[float(v) for v in row] for row in cursor.fetchall()])

    def through_the_door(self, made: Plan, more: Fraction = Fraction(1)) -> Iterator[Released]:
        """RELEASES answers of a plan's one measurement; `more`: as many times the noise as is planned."""
        (measurement,) = made.measurements
        tables = self.tables(measurement)
        measurement = replace(measurement, bases=tuple(replace(b, scale=b.scale * more) for b in measurement.bases))
        noise = Seeded(9)
        for _ in range(RELEASES):
            yield release(measurement, Exact(tables), noise)

    def tables(self, measurement: Measurement) -> tuple[pa.Table, ...]:
        return tuple(self._data.cursor().sql(sql).to_arrow_table() for sql in plan_harness.queries(measurement, []))

    def shown(self, made: Plan, released: Released) -> list[tuple[Any, ...]]:
        """What the client would see of one answer: keys that are texts."""
        columns = [(array_literal(key), "text") for key in released.keys]
        columns += [(array_literal(values), "int8") for values in released.values]
        literals = {i + 1: array_constant(text, type_) for i, (text, type_) in enumerate(columns)}
        return self._postgres.execute(with_literals(made.outer, literals).encode(), prepare=False).fetchall()

    def _exact(self, measurement: Measurement) -> list[int]:
        (sql,) = plan_harness.queries(measurement, [])
        return [int(v) for v in self._data.execute(sql).fetchone() or ()]


def told(aggregate: str) -> str:
    return f"SELECT {aggregate}, dpproxy.low({aggregate}), dpproxy.high({aggregate}), dpproxy.stderr({aggregate}) FROM customers"


def coverage(answers: np.ndarray[Any, Any], truth: float) -> float:
    """How often the interval holds the truth; NULL is no bound."""
    below = np.isnan(answers[:, 1]) | (answers[:, 1] <= truth)
    above = np.isnan(answers[:, 2]) | (truth <= answers[:, 2])
    return float(np.mean(below & above))
