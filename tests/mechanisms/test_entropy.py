"""Chance comes in by the door and nowhere else: one file reaches a generator, and given bits decide every mechanism's answer."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pyarrow as pa
import pytest

import dpproxy
from dpproxy.mechanisms import coins, exponential, quantiles, sampler
from dpproxy.mechanisms.noise import Exact, Released
from dpproxy.mechanisms.noise_sources import DefaultNoise, OwnNoise
from dpproxy.mechanisms.release import release
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Measurement, Selection, Threshold, Top
from dpproxy.privacy.noise_tail import truncated_threshold
from dpproxy.privacy.selection_ranks import draws
from dpproxy.sql.template import Template

SOURCES = Path(dpproxy.__file__).parent
GENERATORS = {"secrets", "random", "opendp", "uuid"}
DRAWS = {"urandom", "getrandom", "default_rng", "Generator", "randbytes", "SystemRandom", "token_bytes"}
ROOMS = ("mechanisms", "privacy", "plan")


def reached(tree: ast.Module) -> Iterator[str]:
    """Generators that a file imports or names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in GENERATORS)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name for name in found if name.split(".")[0] in GENERATORS or set(name.split(".")) & DRAWS)
        elif isinstance(node, ast.Attribute) and node.attr in DRAWS:
            yield node.attr
        elif isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.random"


def test_one_file_reaches_a_generator() -> None:
    """Of the planner, the arithmetic and the mechanisms. Elsewhere generators make passwords and nonces, never noise."""
    found: dict[str, set[str]] = {}
    for room in ROOMS:
        for path in (SOURCES / room).rglob("*.py"):
            if names := set(reached(ast.parse(path.read_text()))) - {"hashlib"}:
                found[str(path.relative_to(SOURCES))] = names
    assert found == {"mechanisms/noise_sources.py": {"opendp.prelude", "urandom"}}


@pytest.mark.parametrize(
    "text",
    ["import secrets", "from os import urandom", "import opendp.prelude as dp", "x = np.random.default_rng()", "os.urandom(3)"],
)
def test_a_planted_generator_would_be_seen(text: str) -> None:
    assert set(reached(ast.parse(text)))


@pytest.mark.parametrize("module", [coins, exponential, quantiles, sampler])
def test_no_function_has_a_source_by_default(module: object) -> None:
    parameters = [
        (name, parameter)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name == "entropy"
    ]
    assert parameters
    assert [name for name, parameter in parameters if parameter.default is not inspect.Parameter.empty] == []


# ---- every mechanism, by given bits

TWICE = Template("duckdb", ("SELECT",))


def columns(kit: SimpleNamespace) -> tuple[Measurement, Exact]:
    bases = kit.laplace_basis(3, l0=2, epsilon=100_000), kit.gaussian_basis(5, l0=2, epsilon=200_000)
    return kit.measurement(*bases, keys=1, l0=2), kit.exact([["a", "b"]], [[100, 200], [300, 400]])


def held(kit: SimpleNamespace) -> tuple[Measurement, Exact]:
    """Noise that is drawn again until it is within reach."""
    units = kit.laplace_basis(1, l0=2, epsilon=100_000)
    tau, reach = truncated_threshold(units.scale, 2, 10**15, 3)
    return kit.measurement(units, keys=1, l0=2, threshold=Threshold(0, tau, 3, 10**15, reach)), kit.exact([["a"] * 1], [[10**6]])


def in_steps(kit: SimpleNamespace) -> tuple[Measurement, Exact]:
    one = replace(kit.laplace_basis(10, epsilon=50_000), norm=1, steps=3)
    table = pa.table({"k0": ["a", "b"]} | {f"b0s{j}": pa.array([5000 - j, 7000 + j], pa.int64()) for j in range(3)})
    return replace(kit.measurement(one, keys=1), l0=9), Exact((table,))


def chosen(kit: SimpleNamespace, *fractions: Fraction) -> tuple[Measurement, Exact]:
    """Quantiles of a grid, or the mode of its points, little told of by what little epsilon there is."""
    units, number = kit.laplace_basis(1, epsilon=100_000), draws(fractions)
    loss = Loss.bounded_range(10_000 // number, number)
    selection = Selection("q", "quantile" if fractions else "mode", 1, 10**6, fractions, 1, 10_000, loss)
    made = replace(kit.measurement(units, keys=1), queries=(TWICE, TWICE), loss=units.loss + loss, selections=(selection,))
    groups = pa.table({"k0": ["a", "b"], "b0": pa.array([1000, 1000], pa.int64())})
    rows = pa.table({"k0": ["a"] * 9 + ["b"] * 9, "bucket": list(range(0, 900_000, 100_000)) * 2, "n": [3] * 18})
    return made, Exact((groups, rows))


def highest(kit: SimpleNamespace) -> tuple[Measurement, Exact]:
    units, loss = kit.laplace_basis(1, l0=3, epsilon=100_000), Loss.bounded_range(1000, 3)
    made = replace(kit.measurement(units, keys=1, l0=3), loss=units.loss + loss, top=Top(3, 0, 1000, None, 1, 0, loss))
    return made, kit.exact([[f"g{i}" for i in range(40)]], [list(range(1000, 1040))])


CASES = {
    "noise on columns": columns,
    "noise within reach": held,
    "columns in steps": in_steps,
    "one quantile": lambda kit: chosen(kit, Fraction(1, 2)),
    "least and greatest": lambda kit: chosen(kit, Fraction(0), Fraction(1)),
    "quantiles together": lambda kit: chosen(kit, *(Fraction(i, 8) for i in range(1, 8))),
    "mode": chosen,
    "highest groups": highest,
}


def told(released: Released) -> tuple[list[list[object]], list[list[int]]]:
    return [key.to_pylist() for key in released.keys], [column.tolist() for column in released.values]


@pytest.mark.parametrize("case", CASES)
def test_given_bits_decide_the_answer(kit: SimpleNamespace, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits, the same answer; other bits, another one; and the system's generator is never asked."""

    def forbidden(*_: object) -> bytes:
        raise AssertionError("a generator that was not given")

    monkeypatch.setattr(os, "urandom", forbidden)
    monkeypatch.setattr(dp.m, "make_laplace", forbidden)
    monkeypatch.setattr(dp.m, "make_gaussian", forbidden)
    measurement, exact = CASES[case](kit)
    answers = [told(release(measurement, exact, OwnNoise(np.random.default_rng(seed).bytes))) for seed in (1, 1, 2, 3)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2] or answers[0] != answers[3]


@pytest.mark.parametrize("case", ["one quantile", "least and greatest", "quantiles together", "mode", "highest groups"])
def test_choices_take_the_bits_of_the_noise(kit: SimpleNamespace, case: str) -> None:
    """Of a source whose noise is fixed, the bits alone decide; a mechanism with bits of its own would not notice."""

    class Loaded(kit.Dice):  # type: ignore[name-defined,misc]
        def __init__(self, seed: int) -> None:
            super().__init__()
            self.entropy = np.random.default_rng(seed).bytes

    measurement, exact = CASES[case](kit)
    answers = [told(release(measurement, exact, Loaded(seed))) for seed in (1, 1, 2, 3)]
    assert answers[0] == answers[1]
    assert answers[0] != answers[2] or answers[0] != answers[3]
    with pytest.raises(AssertionError, match="no bits"):
        release(measurement, exact, kit.Dice())


@pytest.mark.parametrize("case", CASES)
def test_production_draws_afresh(kit: SimpleNamespace, case: str) -> None:
    measurement, exact = CASES[case](kit)
    assert len({str(told(release(measurement, exact, DefaultNoise()))) for _ in range(4)}) > 1


# ---- every mechanism, to the bit: what the recorded dice must give, worked out by hand

NEVER = 2**32 - 1
"""A word that is tails for every coin that is no certainty."""


def alone(selection: Selection) -> Measurement:
    """One selection, without keys."""
    return Measurement((TWICE, TWICE), (), (), 1, True, None, selection.loss, None, (selection,))


def table_of(**points: int) -> Exact:
    """How many contributions each point has, as `p3=2`."""
    rows = {"bucket": [int(name[1:]) for name in points], "n": list(points.values())}
    return Exact((pa.table({"one": [1]}), pa.table({name: pa.array(column, pa.int64()) for name, column in rows.items()})))


def selection_of(size: int, epsilon: int, *fractions: Fraction) -> Selection:
    number = draws(fractions)
    loss = Loss.bounded_range(epsilon // number, number)
    return Selection("q", "quantile" if fractions else "mode", 1, size, fractions, 1, epsilon, loss)


def test_loaded_dice_of_laplace_noise(kit: SimpleNamespace) -> None:
    """Two geometric variables from their binary digits, 5 and 3: noise of 2. At scale 10 there are nine digits."""
    assert kit.laplace_basis(1, epsilon=100_000).scale == 10
    digits = [0 if g >> i & 1 else NEVER for i in range(9) for g in (5, 3)]
    tape = kit.Tape(kit.words(*digits), kit.words(NEVER, NEVER))
    measurement = kit.measurement(kit.laplace_basis(1, epsilon=100_000))
    assert release(measurement, kit.exact([], [[1000]]), OwnNoise(tape)).values[0].tolist() == [1002]
    assert tape.spent


def test_loaded_dice_of_a_quantile(kit: SimpleNamespace) -> None:
    """Grid 0..7, contributions on 2 and 5, epsilon 2, so eta 1: runs 0-1, 2, 3-4, 5, 6-7 miss the median by 2, 0, 1, 1, 3 halves of
    a rank. Their weights in units of 2**38, length * 2**-floor(gap log2 e): 1, 2, 2, 1, 1/4. A draw of 3 or more and below 5 is
    the third run, which is kept with probability 2/e; and there the second of two points is 4."""
    measurement, exact = alone(selection_of(8, 2_000_000, Fraction(1, 2))), table_of(p2=1, p5=1)
    keep = int(2**32 * 2 / np.e)
    kept = kit.Tape(kit.longs(3 * 2**38), kit.words(keep - 2), kit.longs(1))
    assert release(measurement, exact, OwnNoise(kept)).values[0].tolist() == [4]
    again = kit.Tape(kit.longs(5 * 2**38 - 1), kit.words(keep + 2), kit.longs(3 * 2**38 - 1))
    assert release(measurement, exact, OwnNoise(again)).values[0].tolist() == [2]  # the best run is always kept, and is one point
    assert kept.spent
    assert again.spent


def test_loaded_dice_of_a_mode(kit: SimpleNamespace) -> None:
    """Grid 0..3, three contributions on 1 and one on 2, epsilon 1: weights in units of 2**35, for gaps 3, 0, 2, 3: 1, 16, 4, 1."""
    measurement, exact = alone(selection_of(4, 1_000_000)), table_of(p1=3, p2=1)
    for drawn, coin, mode in [
        (1, None, 1),
        (16, None, 1),
        (17, 4 * np.exp(-2), 2),
        (21, 16 * np.exp(-3), 3),
        (0, 16 * np.exp(-3), 0),
    ]:
        tape = kit.Tape(kit.longs(drawn * 2**35), *([kit.words(int(2**32 * coin) - 2)] if coin else []))
        assert release(measurement, exact, OwnNoise(tape)).values[0].tolist() == [mode]
        assert tape.spent


def test_loaded_dice_of_quantiles_together(kit: SimpleNamespace) -> None:
    """Nobody's data, grid 0..7 in 64 cells a point: the middle one is any of 512 cells, the others any on their side of it."""
    measurement, exact = alone(selection_of(8, 1_000_000, *(Fraction(i, 4) for i in (1, 2, 3)))), table_of()
    tape = kit.Tape(*(kit.longs(x) for x in (0, 200, 0, 100, 0, 250)))
    found = [column.tolist() for column in release(measurement, exact, OwnNoise(tape)).values]
    assert found == [[100 // 64], [200 // 64], [(200 + 250) // 64]]
    assert tape.spent


def test_loaded_dice_of_the_highest_groups(kit: SimpleNamespace) -> None:
    """Scores 5, 7, 6 at eta 1: weights in units of 2**38, 1, 4, 2. Chosen from the rest after it: 1, 2 of 5 and 6 in 2**39."""
    units, loss = kit.laplace_basis(1, l0=3, epsilon=10**6), Loss.bounded_range(10**6, 2)
    made = replace(kit.measurement(units, keys=1, l0=3), loss=units.loss + loss, top=Top(2, 0, 10**6, None, 1, 0, loss))
    exact = kit.exact([["a", "b", "c"]], [[5, 7, 6]])
    best, first = int(2**32 * 4 * np.exp(-2)), int(2**32 * 2 * np.exp(-1))

    class Loaded(kit.Dice):  # type: ignore[name-defined,misc]
        def __init__(self, *calls: bytes) -> None:
            super().__init__()
            self.entropy = kit.Tape(*calls)

    plain = Loaded(kit.longs(2**38), kit.longs(2**39))
    assert release(made, exact, plain).keys[0].to_pylist() == ["b", "c"]
    unlikely = Loaded(kit.longs(0), kit.words(best - 2), kit.longs(0))
    assert release(made, exact, unlikely).keys[0].to_pylist() == ["a", "b"]
    refused = Loaded(kit.longs(0), kit.words(best + 2), kit.longs(2**38), kit.longs(0), kit.words(first - 2))
    assert release(made, exact, refused).keys[0].to_pylist() == ["a", "b"]
    assert plain.entropy.spent
    assert unlikely.entropy.spent
    assert refused.entropy.spent
