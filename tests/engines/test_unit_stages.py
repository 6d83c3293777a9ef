"""Stages over the groups of units, run on groups of few and of many: what is done to fewer rows comes to the same."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pytest

from dpproxy.engines import norm_scaling, unit_stages
from dpproxy.engines.duckdb import DuckDB
from dpproxy.engines.postgres import Postgres
from dpproxy.engines.unit_stages import Members
from dpproxy.sql.template import FOUND
from dpproxy.tree.measured import Part, Scaled

GROUPS = [(1, k, 10 * k, k) for k in range(8)] + [(2, k, 1, 0) for k in range(2)] + [(3, 7, 5000, -40)]
"""Unit, key, count, total: one unit of many groups, one of few, one of few large ones."""

COUNT = Scaled(0, "count", 2, 10, 1, 2**17, 0, steps=12)
TOTAL = Scaled(1, "sum", 1, 10, 7, 16, 1, steps=12)
PARTS: tuple[Part | None, ...] = (COUNT, TOTAL)
TEXTS = [f"{norm_scaling.partial(part)} AS p{i}" for i, part in enumerate((COUNT, TOTAL))]

AT_ONCE = replace(norm_scaling.COMMON, still=False)
TOGETHER = Postgres.words


def run(stages: list[str], query: str, rows: list[tuple[int, int, int, int]] = GROUPS) -> list[tuple[Any, ...]]:
    values = ", ".join(f"({u}, {k}, {n}::BIGINT, {t}::BIGINT)" for u, k, n, t in rows)
    text = f"WITH g(u, k0, n0, t1) AS (VALUES {values}), {', '.join(stages)} {query}"
    return sorted(duckdb.connect().execute(text).fetchall())


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_as_many_groups_are_picked_as_if_all_were_ranked(most: int) -> None:
    ranked = "SELECT *, row_number() OVER (PARTITION BY u ORDER BY hash(u, k0), k0) AS rank FROM g"
    all_of_them = run([f"x AS ({ranked})"], f"SELECT u, k0, n0 FROM x WHERE rank <= {most}")
    for words in (norm_scaling.COMMON, AT_ONCE):
        assert run(unit_stages.picked("g", most, "hash(u, k0), k0", words), "SELECT u, k0, n0 FROM q") == all_of_them


def test_a_unit_of_one_group_has_the_size_of_that_group() -> None:
    alone = [(u, 0, n, t) for u, n, t in [(1, 3, 5), (2, 12, -900), (3, 40_000, 10**7), (4, 10, 0)]]
    whole = "SELECT u, m0, m1, p0, p1 FROM p"
    expected = run(unit_stages.scaled("g", ["u", "k0"], PARTS, TEXTS), whole, alone)
    assert run(unit_stages.scaled("g", ["u"], PARTS, TEXTS), whole, alone) == expected
    assert {m for _, m, *_ in expected} == {1, 2, 2048}


def test_groups_are_scaled_alike_where_they_are_read_once() -> None:
    whole = "SELECT u, k0, m0, m1, p0, p1 FROM p"
    twice, once = (unit_stages.scaled("g", ["u", "k0"], PARTS, TEXTS, words) for words in (norm_scaling.COMMON, AT_ONCE))
    assert run(once, whole) == run(twice, whole)
    assert (" ".join(twice).count("FROM g"), " ".join(once).count("FROM g")) == (2, 1)
    assert " ".join(unit_stages.picked("g", 2, "k0", AT_ONCE)).count("FROM g") == 1


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8])
def test_groups_that_are_picked_and_scaled_at_once_are_those_of_both(most: int) -> None:
    group, order, whole = ["u", "k0"], "hash(u, k0), k0", "SELECT u, k0, m0, m1, p0, p1 FROM p"
    one_by_one = [*unit_stages.picked("g", most, order), *unit_stages.scaled("q", group, PARTS, TEXTS)]
    together = unit_stages.picked_and_scaled("g", most, order, group, PARTS, TEXTS, TOGETHER)
    assert run(together, whole) == run(one_by_one, whole)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8])
def test_who_has_too_many_groups_weighs_in_those_that_are_kept(most: int) -> None:
    """Also where these are in a relation of their own beside all the groups of others."""
    weight, order, earlier = Scaled(0, "weight", 2, 1, 1, 2**20, 0, fresh=True), "hash(u, k0), k0", {1, 7}
    picks = unit_stages.picked("g", most, order)
    fresh = [(u, k) for u, k in run(picks, "SELECT u, k0 FROM q") if k not in earlier]
    groups_of = Counter(u for u, _ in fresh)
    weighed: Counter[int] = Counter()
    for u, k in fresh:
        weighed[k] += 2**20 if groups_of[u] == 1 else math.floor(2**20 * (0.999999999 / math.sqrt(groups_of[u])))
    at_once = unit_stages.picked_and_scaled("g", most, order, ["u", "k0"], PARTS, TEXTS, norm_scaling.COMMON)
    apart = [Members("g", unit_stages.cut(most, "sizes.u")), Members("q")]
    for made, members in ((picks, [Members("q")]), (at_once[:2], apart)):
        each = [(one, f"{one.source}.k0 = h.k0") for one in members]
        stages = [stage.replace(FOUND, ", 1, 7") for stage in unit_stages.weights(["k0"], "k0", each, weight)]
        found = run([*made, "s AS (SELECT DISTINCT k0, k0 AS i FROM g)", *stages], "SELECT i, p0 FROM x")
        assert found == sorted(weighed.items())


def test_sizes_are_compared_as_doubles_only_where_doubles_are_exact() -> None:
    rows = int(norm_scaling.EXACT**0.5) >> 11
    small, large = Scaled(0, "count", 2, rows, 1, 1, 0, steps=12), Scaled(0, "count", 2, rows + 1, 1, 1, 0, steps=12)
    assert ["DOUBLE PRECISION" in norm_scaling.norm(part, TOGETHER) for part in (small, large)] == [True, False]
    assert all(norm_scaling.norm(part).startswith("sum(") for part in (small, large))


@pytest.mark.parametrize("keys", [[], ["k0"]])
def test_sums_by_step_are_those_of_all_units(keys: list[str]) -> None:
    rng = random.Random(5)
    units = [
        (u, k, rng.choice([1, 30, 900, 10**5]), rng.randrange(-9999, 9999)) for u in range(30) for k in range(rng.randrange(6))
    ]
    below = unit_stages.scaled("g", ["u", "k0"], PARTS, TEXTS)
    stages, fewer = unit_stages.by_step("p", keys, PARTS, [0, 1])
    by = "".join(f"{key}, " for key in keys)
    group = f" GROUP BY {', '.join(keys)}" if keys else ""

    def summed(source: unit_stages.Units) -> str:
        sums = [f"coalesce(sum(CASE WHEN m{i} = {1 << j} THEN p{i} END), 0)" for i in (0, 1) for j in range(12)]
        return f"SELECT {by}{', '.join(sums)}, sum(p0), {source.count} FROM {source.source}{group}"

    assert run([*below, *stages], summed(fewer), units) == run(below, summed(unit_stages.Units("p")), units)
    assert fewer.source != "p"


def test_many_kinds_of_steps_are_left_as_they_are() -> None:
    parts = tuple(Scaled(i, "count", 1, 10, 1, 1, i, steps=12) for i in range(norm_scaling.COMMON.steps + 1))
    assert unit_stages.by_step("p", ["k0"], parts, [0]) == ([], unit_stages.Units("p"))
    (text,), units = unit_stages.by_step("p", ["k0"], parts, [0], apart=True)
    assert text == (
        "o AS (SELECT k0, 0 AS m0, 0 AS p0, count(*) AS units FROM p GROUP BY k0 "
        "UNION ALL SELECT k0, m0, sum(p0) AS p0, 0 AS units FROM p GROUP BY k0, m0)"
    )
    assert units.source == "o"
    assert unit_stages.by_step("p", ["k0"], (None,), []) == ([], unit_stages.Units("p"))


@pytest.mark.parametrize(("most", "size"), [(1, 5), (3, 5), (10, 2**32), (32, 2**32), (33, 5), (3, 2**32 + 1)])
def test_the_first_rows_of_a_unit_are_the_same_however_they_are_found(most: int, size: int) -> None:
    """Also where hashes agree in all but the bits that there is no room for, and where buckets are the same or missing."""
    random.seed(most)
    buckets = [*(random.randrange(min(size, 9)) for _ in range(180)), size - 1, None, None]
    rows = [(random.randrange(4), random.randrange(2), bucket) for bucket in buckets]
    values = ", ".join(f"({u}, {k}, CAST({'NULL' if b is None else b} AS BIGINT))" for u, k, b in rows)
    found = []
    for words in (norm_scaling.COMMON, DuckDB.words):
        # the same order by both: nothing below the bits that are kept
        first = unit_stages.first_buckets("r", ["u", "k0"], f"(hash(u, bucket) & {2**64 - 2**34})", most, size, words)
        found.append(f"SELECT u, k0, bucket, count(*) FROM ({first}) AS kept GROUP BY u, k0, bucket")
    ranked, least = (
        sorted(duckdb.connect().execute(f"WITH r(u, k0, bucket) AS (VALUES {values}) {x}").fetchall()) for x in found
    )
    assert least == ranked
    assert max(sum(n for u, k, _, n in least if (u, k) == group) for group in {row[:2] for row in least}) <= most
    assert ("row_number" in found[1]) is (most > unit_stages.MOST_KEPT or size > 2**32)


def test_small_parts_are_added_up_in_64_bits_and_others_are_not() -> None:
    words = DuckDB.words
    small, large = replace(COUNT, fine=2**20), replace(COUNT, rows=2**10, fine=2**14)
    assert norm_scaling.added(small, "p0", words) == "sum_no_overflow(p0)"
    assert norm_scaling.added(small, "p0") == norm_scaling.added(large, "p0", words) == "sum(p0)"
    assert norm_scaling.added(None, "p0", words) == "sum(p0)"
