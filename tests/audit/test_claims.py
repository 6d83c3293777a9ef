"""Claims about devices: honest reports pass, at the false alarm rate that is said; what other devices send is refuted.

Devices are invented by `tests.decoding`'s own randomisers. Seeds are fixed, so that what is refuted here always is.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
from scratch_postgres import scratch_server
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "decoding"))
from test_decoders import CLAIMS, sent, zipf

from dpproxy.audit.claims import Check, Stored, checks, refuted
from dpproxy.cli import commands
from dpproxy.collect.encode import randomised
from dpproxy.decoding.decoders import Decodable, Int64
from dpproxy.local.claims import Binary, Direct, Duchi, Hashed, Laplace, Levels, Plane, Unary
from dpproxy.policy.load import load_policy
from dpproxy.policy.people import make_verifier
from dpproxy.table_terms import TableName

N, DAYS = 100_000, 5


def days_of(dice: np.random.Generator, claim: Decodable, values: int, n: int = N) -> tuple[Int64, ...]:
    return tuple(sent(dice, claim, zipf(n // DAYS, values)) for _ in range(DAYS))


def seen(dice: np.random.Generator, claim: Decodable, days: tuple[Int64, ...]) -> set[str]:
    found = tuple(checks(Stored(claim, np.sum(days, axis=0), 0, days), dice))
    assert found
    return {check.what for check in refuted({"one": found})["one"]}


def by(claim: Any, epsilon: float) -> Decodable:
    """The same mechanism at another epsilon."""
    e = Fraction(epsilon)
    match claim:
        case Binary():
            return Binary.within(e)
        case Direct():
            return Direct.within(e, claim.candidates)
        case Levels():
            return Levels.within(e, claim.low, claim.high, claim.levels)
        case Unary():
            return Unary.within(e, claim.candidates, claim.by)
        case Plane():
            return Plane.within(e, claim.candidates, claim.base, claim.dimension)
        case Hashed():
            return Hashed.within(e, claim.functions, claim.seed, claim.width)
        case _:
            made: Decodable = type(claim).within(e, claim.functions, claim.width, claim.seed)
            return made


@pytest.mark.parametrize("name", CLAIMS)
def test_honest_reports_pass(name: str) -> None:
    """A hundred audits of true claims, any alarm of which is one in ten thousand tests."""
    dice = np.random.default_rng(2)
    values, make = CLAIMS[name]
    claim = make(0)
    assert not any(seen(dice, claim, days_of(dice, claim, values)) for _ in range(25))


def test_the_false_alarm_rate_is_kept() -> None:
    """Each test's chance is one: of honest reports it is below x with a probability of x at most."""
    dice, below = np.random.default_rng(3), {0.05: 0, 0.01: 0}
    claim, tests = Direct.within(Fraction(2), 20), 0
    for _ in range(600):
        days = days_of(dice, claim, 20, 20_000)
        for check in checks(Stored(claim, np.sum(days, axis=0), 0, days), dice):
            tests += 1
            for level in below:
                below[level] += check.chance < level
    for level, alarms in below.items():
        assert alarms <= tests * level + 4 * (tests * level) ** 0.5, level


@pytest.mark.parametrize("name", ["krr", "sue", "oue", "pgr", "cms", "cms of one", "hcms"])
def test_other_probabilities_are_refuted(name: str) -> None:
    """Devices that randomise less than is claimed: each claim is true of half the epsilon."""
    dice = np.random.default_rng(4)
    values, make = CLAIMS[name]
    less = make(0)
    claim = by(less, float(less.epsilon) / 2)
    for _ in range(5):
        assert seen(dice, claim, days_of(dice, less, values))


def test_krr_of_a_hundred_values_at_twice_the_epsilon() -> None:
    dice, claim, true = np.random.default_rng(5), Direct.within(Fraction(2), 100), Direct.within(Fraction(4), 100)
    assert all(seen(dice, claim, days_of(dice, true, 100)) for _ in range(100))


@pytest.mark.parametrize("name", CLAIMS)
def test_true_answers_are_refuted(name: str) -> None:
    """Devices that do not randomise at all, or hardly."""
    dice = np.random.default_rng(6)
    values, make = CLAIMS[name]
    claim = make(0)
    true = np.array([97, 3]) * 1000 if values == 2 else zipf(N, values)
    match claim:
        case Binary() | Direct():
            cells = true
        case Levels():
            cells = np.resize(true, claim.levels)
        case _:
            cells = sent(dice, by(claim, 16), true)
    assert refuted({"one": tuple(checks(Stored(claim, cells, 0), dice))})["one"]


@pytest.mark.parametrize("name", CLAIMS)
def test_reports_sent_again_are_refuted(name: str) -> None:
    """Devices that draw once and send the same report on each day."""
    dice = np.random.default_rng(7)
    values, make = CLAIMS[name]
    claim = make(0)
    for _ in range(5):
        first = sent(dice, claim, zipf(N // DAYS, values))
        if name != "cms of one":  # all of its draws are one
            assert seen(dice, claim, (first,) * DAYS)


def test_answers_that_are_repeated_on_purpose_are_not_refuted_for_it() -> None:
    dice, claim = np.random.default_rng(8), Direct.within(Fraction(2), 20)
    first = sent(dice, claim, zipf(N, 20))
    again = Stored(claim, first * 5, 0, (first,) * 5, fresh=False)
    assert "days that are too much alike" not in {check.what for check in checks(again, dice)}


@pytest.mark.parametrize(
    "claim", [Laplace(Fraction(0), Fraction(1), Fraction(1, 2)), Duchi.within(Fraction(1), Fraction(0), Fraction(1))]
)
def test_numbers_with_noise(claim: Laplace | Duchi) -> None:
    dice = np.random.default_rng(9)
    true = dice.random(N)
    if isinstance(claim, Laplace):
        noisy = true + dice.laplace(0, 0.5, N)
    else:
        noisy = (dice.random(N) < 0.5 + (true - 0.5) * (2 * float(claim.plus) - 1)).astype(float)
    for numbers, bad in ((noisy, False), (np.full(N, 0.9), True)):
        middle = (0.5, 0.5) if isinstance(claim, Duchi) else (0, 1)
        signs = (N, int((numbers < middle[0]).sum()), int((numbers > middle[1]).sum()))
        found = tuple(checks(Stored(claim, np.zeros(0, np.int64), 0, (), signs), dice))
        assert bool(refuted({"one": found})["one"]) == bad


def test_many_tests_are_allowed_for() -> None:
    """One chance of a thousandth among a hundred tests refutes nothing."""
    one = Check("x", 5e-4, "")
    assert refuted({"a": (one,)})["a"]
    assert not refuted({"a": (one,), "b": (Check("y", 1, ""),) * 99})["a"]


# --- the command, over a store

FRUITS = ("apple", "pear", "plum", "fig", "kiwi", "lime")
POLICY = """
version: 1
dataset: phones
backend: {{ duckdb: phones.duckdb }}
privacy_unit: {{ name: device }}
tables:
  names: {{ public: true }}
  reports:
    reports: {{ epsilon: 14, keep: 90d, at_least: 100 }}
    columns:
      day: {{ plain: true, range: [2026-01-01, 2027-12-31] }}
      fruit: {{ randomised: {{ by: krr, values: [{fruits}], epsilon: 2 }} }}
      emoji: {{ randomised: {{ by: pgr, values: {{ table: names.name, order: id }}, count: 30, epsilon: 3 }}, from: emoji_r }}
      word: {{ randomised: {{ by: sfp, letters: ab, length: 4, k: 4, m: 16, seed: w, epsilon: 8 }}, from: word_r }}
roles: {{ analyst: {{}} }}
users: {{ ada: {{ role: analyst, password: "{verifier}" }} }}
"""


class Chance:
    def __init__(self) -> None:
        self._dice = np.random.default_rng(10)

    def coin(self, p: Fraction) -> bool:
        return bool(self._dice.random() < float(p))

    def below(self, n: int) -> int:
        return int(self._dice.integers(n))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a policy and a store of honest reports of three days."""
    folder, chance, today = tmp_path_factory.mktemp("phones"), Chance(), dt.datetime.now(dt.UTC).date()
    (folder / "phones.yaml").write_text(POLICY.format(verifier=make_verifier("x"), fruits=", ".join(FRUITS)))
    columns = load_policy(folder / "phones.yaml").tables[TableName("public", "reports")].columns
    fruit, plane, words = (c.randomised.claims[0][1] for c in columns.values() if c.randomised is not None)
    reports = {
        "day": [today - dt.timedelta(days=i % 3) for i in range(6000)],
        "fruit": [FRUITS[int(randomised(fruit, i % 2, (), chance))] for i in range(6000)],
        "emoji_r": [randomised(plane, i % 3, (), chance) for i in range(6000)],
        "word_r": [randomised(words, "abba" if i % 2 else "b", (), chance) for i in range(6000)],
    }
    with duckdb.connect(str(folder / "phones.duckdb")) as owner:
        owner.execute("CREATE TABLE names AS SELECT i AS id, 'e' || i AS name FROM range(30) t(i)")
        owner.register("honest", pa.table(reports))
        owner.execute("CREATE TABLE reports AS FROM honest")
    return folder


def audited(policy: Path, out: Path) -> tuple[int, dict[str, Any]]:
    done = CliRunner().invoke(commands, ["audit", str(policy), "--claims", "--report", str(out)])
    assert (out / "claims.json").exists(), done.output
    found = json.loads((out / "claims.json").read_text())
    return done.exit_code, {c["column"]: [t["test"] for t in c["refuted"]] for c in found["columns"]}


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ("SELECT 1", None),
        ("UPDATE reports SET fruit = 'apple' WHERE fruit <> 'pear'", "reports.fruit"),
        ("UPDATE reports SET fruit = 'grape' WHERE rowid = 0", "reports.fruit"),
        ("UPDATE reports SET emoji_r = 30 WHERE emoji_r > 10", "reports.emoji"),
        ("UPDATE reports SET word_r = word_r // 128 * 128 + 1", "reports.word"),
        ("UPDATE reports SET word_r = -1 WHERE rowid = 0", "reports.word"),
        ("UPDATE reports SET day = day - INTERVAL 200 DAY WHERE rowid = 0", "reports.day"),
        ("UPDATE reports SET day = day + INTERVAL 20 DAY WHERE rowid = 0", "reports.day"),
    ],
)
def test_a_store_by_the_command(honest: Path, tmp_path: Path, change: str, column: str | None) -> None:
    shutil.copytree(honest, tmp_path / "phones")
    with duckdb.connect(str(tmp_path / "phones" / "phones.duckdb")) as owner:
        owner.execute(change)
    code, found = audited(tmp_path / "phones" / "phones.yaml", tmp_path / "out")
    assert {name for name, bad in found.items() if bad} == ({column} if column else set())
    assert code == (1 if column else 0)


def test_a_store_in_postgresql(honest: Path, tmp_path: Path) -> None:
    with scratch_server(tmp_path / "server") as server:
        with duckdb.connect(str(honest / "phones.duckdb"), read_only=True) as owner:
            names, reports = (owner.execute(f"FROM {table}").fetchall() for table in ("names", "reports"))
        with psycopg.connect(server.conninfo(), autocommit=True) as client, client.cursor() as cursor:
            cursor.execute(
                "CREATE TABLE names (id int, name text); CREATE TABLE reports (day date, fruit text, emoji_r int, word_r bigint)"
            )
            for table, rows in (("names", names), ("reports", reports)):
                with cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
                    for row in rows:
                        copy.write_row(row)
            text = (honest / "phones.yaml").read_text().replace("duckdb: phones.duckdb", f'postgres: "{server.dsn()}"')
            (tmp_path / "phones.yaml").write_text(text)
            assert audited(tmp_path / "phones.yaml", tmp_path / "honest")[0] == 0
            cursor.execute("UPDATE reports SET emoji_r = 30 WHERE emoji_r > 10")
        assert audited(tmp_path / "phones.yaml", tmp_path / "out")[1]["reports.emoji"]
