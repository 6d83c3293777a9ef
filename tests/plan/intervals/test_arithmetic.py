"""Enclosures: wherever the true bases are within their half-widths, the true result is between `low` and `high`. Tried in an engine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import duckdb
import pytest

from dpproxy.plan.intervals import arithmetic as en
from dpproxy.plan.intervals.arithmetic import Range

BASES = 3
CASES = {1: 100, 2: 60, 3: 30}  # by depth: a deep formula is long


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def formula(rng: random.Random, depth: int) -> Range:
    """A random composition of every operation; what an operation asks of its operands, it gets."""
    if depth == 0:
        return en.basis(rng.randrange(BASES)) if rng.random() < 0.8 else en.constant(f"{rng.randint(-3, 3)}::double")
    a, b = formula(rng, depth - 1), formula(rng, depth - 1)
    low, high = f"{rng.randint(-5, 0)}::double", f"{rng.randint(1, 9)}::double"
    made = [
        lambda: en.plus(a, b),
        lambda: en.minus(a, b),
        lambda: en.times(a, b),
        lambda: en.divided(a, b),
        lambda: en.squared(a),
        lambda: en.negated(a),
        lambda: en.clamped(a, low, high),
        lambda: en.at_least(a, low),
        lambda: en.at_most(a, high),
        lambda: en.within(a, low, high),
        lambda: en.greatest(a, b),
        lambda: en.least(a, b),
        lambda: en.scaled(a, "2.5"),
        lambda: en.over(a, en.at_least(b, "1.0::double")),
        lambda: en.growing(en.at_least(a, "0.0::double"), en.at_least(b, "0.0::double")),
        lambda: en.rising(a, lambda x: f"atan({x})"),
    ]
    found = made[rng.randrange(len(made))]()
    return en.named(found) if rng.random() < 0.5 else found


def filled(text: str, values: list[float], halves: list[float], cut: tuple[str, ...] = ()) -> str:
    """`cut`: widths of which nothing is known."""
    fields = {f"{w}{i}": "NULL::double" if f"{w}{i}" in cut else f"{h}::double" for i, h in enumerate(halves) for w in "gnh"}
    return text.format(*(f"{v}::double" for v in values), p="x", **fields)


def computed(engine: duckdb.DuckDBPyConnection, texts: list[str]) -> list[float | None]:
    found = engine.execute("SELECT " + ", ".join(texts)).fetchone()
    assert found is not None
    return list(found)


@pytest.mark.parametrize("depth", CASES)
def test_the_truth_is_enclosed(depth: int, engine: duckdb.DuckDBPyConnection) -> None:
    rng, known, wide = random.Random(depth), 0, 0
    for _ in range(CASES[depth]):
        made = formula(rng, depth)
        truth = [float(rng.randint(-6, 6)) for _ in range(BASES)]
        halves = [rng.choice([0.0, 0.5, 2.0]) for _ in range(BASES)]
        released = [t + rng.uniform(-h, h) for t, h in zip(truth, halves, strict=True)]
        texts = [filled(made.value, truth, halves), *(filled(en.end(made, w), released, halves) for w in ("low", "high"))]
        value, low, high = computed(engine, texts)
        slack = 1e-9 * max(1.0, abs(value or 0))
        if value is not None:
            assert low is None or low <= value + slack, made
            assert high is None or value - slack <= high, made
        known += low is not None and high is not None
        wide += low is not None and high is not None and high > low
    assert known > CASES[depth] / 3, "an end that is NULL encloses everything and proves nothing"
    assert wide > CASES[depth] / 10


@pytest.mark.parametrize("depth", CASES)
def test_the_truth_is_enclosed_wherever_bounds_have_cut(depth: int, engine: duckdb.DuckDBPyConnection) -> None:
    """Of some bases nothing is known on one side, and the truth lies far out there: no end may be given that it is beyond."""
    rng, known = random.Random(100 + depth), 0
    for _ in range(CASES[depth]):
        made = formula(rng, depth)
        cut = tuple(f"{rng.choice('gh')}{i}" for i in range(BASES) if rng.random() < 0.5)
        released = [float(rng.randint(-6, 6)) for _ in range(BASES)]
        far = {name: rng.choice([1.0, 30.0, 1000.0]) for name in cut}
        truth = [r - far.get(f"g{i}", 0.0) + far.get(f"h{i}", 0.0) for i, r in enumerate(released)]
        texts = [filled(made.value, truth, [0.0] * BASES)]
        texts += [filled(en.end(made, w), released, [1.0] * BASES, cut) for w in ("low", "high")]
        value, low, high = computed(engine, texts)
        slack = 1e-9 * max(1.0, abs(value or 0))
        if value is not None:
            assert low is None or low <= value + slack, made
            assert high is None or value - slack <= high, made
        known += (low is not None or high is not None) and bool(cut)
    assert known > CASES[depth] / 5


@pytest.mark.parametrize("depth", [1, 2])
def test_ends_that_are_not_known_are_those_whose_widths_are_needed(depth: int, engine: duckdb.DuckDBPyConnection) -> None:
    rng, open_ends, known = random.Random(300 + depth), 0, 0
    for _ in range(CASES[depth]):
        made = formula(rng, depth)
        cut = {f"{rng.choice('gh')}{i}" for i in range(BASES) if rng.random() < 0.5}
        released = [float(rng.randint(1, 6)) for _ in range(BASES)]
        ends = computed(engine, [filled(en.end(made, w), released, [0.5] * BASES, tuple(cut)) for w in ("low", "high")])
        for found, needs in zip(ends, (made.low_needs, made.high_needs), strict=True):
            assert found is None or not needs & cut, made
            open_ends, known = open_ends + bool(needs & cut), known + (found is not None and bool(cut))
            if found is None and not needs & cut:
                assert "NULLIF" in f"{made}", "where a divisor may be nothing it is seen in the answer alone"
    assert open_ends > CASES[depth] / 5
    assert known > CASES[depth] / 5


@pytest.mark.parametrize("which", [en.greatest, en.least])
def test_the_greater_and_the_less_of_two(which: Callable[[Range, Range], Range], engine: duckdb.DuckDBPyConnection) -> None:
    made, pick = which(en.basis(0), en.basis(1)), max if which is en.greatest else min
    for a, b in ((3.0, 5.0), (5.0, 3.0), (4.0, 4.0)):
        low, high = computed(engine, [filled(en.end(made, w), [a, b], [1.0, 2.0]) for w in ("low", "high")])
        assert (low, high) == (pick(a - 1, b - 2), pick(a + 1, b + 2))
        assert computed(engine, [filled(made.value, [a, b], [0.0, 0.0])]) == [pick(a, b)]
    side = "low" if which is en.least else "high"
    assert computed(engine, [filled(en.end(made, side), [3.0, 5.0], [1.0, 1.0], ("g0", "h0"))]) == [None]


def test_what_keeps_to_a_type_knows_no_more(engine: duckdb.DuckDBPyConnection) -> None:
    x = en.basis(0)
    made = [en.at_least(x, "2"), en.at_most(x, "8"), en.within(x, "-9", "9"), en.hull(x, "3"), en.count(0)]
    highs = [filled(en.end(a, "high"), [5.0], [1.0], ("h0",)) for a in made]
    assert computed(engine, highs) == [None, 8.0, None, None, None]
    lows = [filled(en.end(a, "low"), [5.0], [1.0], ("g0",)) for a in made]
    assert computed(engine, lows) == [2.0, None, None, None, 0.0]


@pytest.mark.parametrize("released", [-115.0, -3.0, 0.0, 5.0])
def test_a_count_is_never_told_as_nothing_without_doubt(released: float, engine: duckdb.DuckDBPyConnection) -> None:
    """0 [0, 0] was told of 15 people, since noise of 88 had taken the count to -115."""
    made = en.count(0)
    value, low, high = computed(
        engine, [filled(text, [released], [88.0]) for text in (made.value, en.end(made, "low"), en.end(made, "high"))]
    )
    assert (value, low, high) == (max(released, 0.0), 0.0, max(released, 0.0) + 88.0)


def test_one_end_of_another_range(engine: duckdb.DuckDBPyConnection) -> None:
    made = en.whichever(en.noisy(0), en.basis(0))
    assert computed(engine, [filled(en.end(made, w), [5.0], [1.0], ("g0", "h0")) for w in ("low", "high")]) == [4.0, None]


@pytest.mark.parametrize("depth", [1, 2])
def test_without_noise_the_ends_meet(depth: int, engine: duckdb.DuckDBPyConnection) -> None:
    """`free` is the formula without clamps: it is the value where nothing is clamped."""
    rng = random.Random(-depth)
    for _ in range(CASES[depth]):
        made = formula(rng, depth)
        truth = [float(rng.randint(1, 6)) for _ in range(BASES)]
        texts = [
            filled(made.value, truth, [0.0] * BASES),
            *(filled(en.end(made, w), truth, [0.0] * BASES) for w in ("low", "high")),
        ]
        value, low, high = computed(engine, texts)
        if value is not None and low is not None and high is not None:
            assert low == pytest.approx(value)
            assert high == pytest.approx(value)


def test_a_divisor_around_zero_leaves_nothing_known(engine: duckdb.DuckDBPyConnection) -> None:
    made = en.divided(en.constant("1::double"), en.basis(0))
    assert made.partial
    texts = [filled(en.end(made, w), [1.0], [2.0]) for w in ("low", "high")]
    assert computed(engine, texts) == [None, None]
    assert computed(engine, [filled(made.value, [0.0], [0.0])]) == [None]
    clamped = en.clamped(made, "0.0::double", "5.0::double")
    assert computed(engine, [filled(en.end(clamped, w), [1.0], [2.0]) for w in ("low", "high")]) == [0.0, 5.0]


def test_names_keep_a_text_short() -> None:
    """Each square writes its operand four times: without names ten of them would be a million."""
    made = en.basis(0)
    for _ in range(10):
        made = en.named(en.squared(made))
    assert len(en.end(made, "high")) < 3_000
    assert len(dict.fromkeys(made.steps)) == 10


def test_equal_formulas_have_one_name() -> None:
    a, b = en.named(en.squared(en.basis(0))), en.named(en.squared(en.basis(0)))
    assert len(en.plus(a, b).steps) == 1
    assert en.named(en.squared(en.basis(1))).steps[0][0] != a.steps[0][0]


def test_averages_of_nothing(engine: duckdb.DuckDBPyConnection) -> None:
    made = en.among(en.basis(0), en.basis(1), 2)
    assert computed(engine, [filled(made.value, [7.0, count], [0.0, 0.0]) for count in (1.0, 2.0)]) == [None, 7.0]
