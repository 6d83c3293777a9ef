"""Stored answers: what comes out is what went in, for whom, how long, and how much of it."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.budget.answers import AnswerStore, StoredRelease, answer_key, pack, serves, unpack
from dpproxy.mechanisms.exact import Released
from dpproxy.plan.loss import Loss

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
KEY = answer_key("shop", "1", "SELECT ...")
SCALES = (Fraction(10), Fraction(1, 3))


def released(rows: int = 3, seed: int = 0) -> Released:
    values = np.random.default_rng(seed).integers(-(2**62), 2**62, (2, rows))
    keys = (pa.array([f"région {i}" if i else None for i in range(rows)]), pa.array(range(rows), pa.date32()))
    return Released(keys, (values[0], values[1]), rows)


def release(
    *,
    key: str = KEY,
    rows: int = 3,
    seed: int = 0,
    role: str = "a",
    scales: tuple[Fraction, ...] = SCALES,
    at: dt.datetime = NOON,
) -> StoredRelease:
    return StoredRelease(key, "shop", released(rows, seed), Loss(100_000, 7), scales, at, frozenset({role}))


def same(a: Released, b: Released) -> bool:
    keys = len(a.keys) == len(b.keys) and all(x.equals(y) for x, y in zip(a.keys, b.keys, strict=True))
    values = len(a.values) == len(b.values) and all(np.array_equal(x, y) for x, y in zip(a.values, b.values, strict=True))
    return keys and values and a.rows == b.rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


@given(st.integers(0, 50), st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_packing_keeps_everything(rows: int, seed: int) -> None:
    assert same(unpack(pack(released(rows, seed))), released(rows, seed))
    alone = Released((), (np.array([5]),), 1)
    assert same(unpack(pack(alone)), alone)
    nothing = Released((), (), rows)
    assert unpack(pack(nothing)).rows == (rows if rows == 0 else unpack(pack(nothing)).rows)


@pytest.mark.parametrize(
    "type",
    [
        pa.bool_(),
        pa.int64(),
        pa.float64(),
        pa.decimal128(20, 4),
        pa.timestamp("us", "UTC"),
        pa.time64("us"),
        pa.large_string(),
    ],
)
def test_every_type_of_key(type: pa.DataType) -> None:
    keys = (pa.array([None, None], type),)
    back = unpack(pack(Released(keys, (), 2)))
    assert back.keys[0].type == type
    assert back.keys[0].equals(keys[0])


def test_what_was_put_comes_back_after_a_restart(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release())
    store.close()
    found = AnswerStore(path).get(KEY, role="a", now=NOON, scales=SCALES)
    assert found is not None
    assert same(found.released, released())
    assert (found.loss, found.scales, found.created, found.roles) == (Loss(100_000, 7), SCALES, NOON, {"a"})


def test_another_measurement_epoch_or_dataset_is_another_key(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release())
    keys = {
        KEY,
        answer_key("shop", "2", "SELECT ..."),
        answer_key("sho", "p1", "SELECT ..."),
        answer_key("shop", "1", "S"),
    }
    assert len(keys) == 4
    assert all(store.get(k, role="a", now=NOON, scales=SCALES) is None for k in keys - {KEY})


def test_less_accurate_answers_do_not_serve(path: Path) -> None:
    store, stored = AnswerStore(path), release()
    store.put(stored)
    assert serves(stored, SCALES)
    assert serves(stored, (Fraction(11), Fraction(1)))
    finer = (Fraction(9), Fraction(1, 3))
    assert not serves(stored, finer)
    assert not serves(stored, SCALES[:1])
    assert store.get(KEY, role="a", now=NOON, scales=finer) is None


def test_a_role_keeps_the_noise_it_has_seen(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release(role="a", seed=1))
    store.put(release(role="b", seed=2, at=NOON + dt.timedelta(minutes=1)))
    for role, seed in (("a", 1), ("b", 2), ("c", 2)):
        found = store.get(KEY, role=role, now=NOON, scales=SCALES)
        assert found is not None
        assert same(found.released, released(seed=seed))
        assert (role in found.roles) == (role != "c")


def test_a_role_that_has_paid_is_remembered(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release(role="a"))
    found = store.get(KEY, role="b", now=NOON, scales=SCALES)
    assert found is not None
    assert "b" not in found.roles
    store.mark_seen(found, "b")
    store.mark_seen(found, "b")
    store.close()
    store = AnswerStore(path)
    again = store.get(KEY, role="b", now=NOON, scales=SCALES)
    assert again is not None
    assert again.roles == {"a", "b"}
    assert (store.count("shop", "b"), store.count("shop", "c")) == (1, 0)


def test_answers_expire_and_are_forgotten(path: Path) -> None:
    store, day = AnswerStore(path), dt.timedelta(days=1)
    store.put(release())
    assert store.get(KEY, role="a", now=NOON + day, scales=SCALES, max_age=day) is not None
    assert store.get(KEY, role="a", now=NOON + 2 * day, scales=SCALES, max_age=day) is None
    store.forget("shop", before=NOON)
    assert store.get(KEY, role="a", now=NOON, scales=SCALES) is not None
    store.forget("other")
    store.forget("shop")
    assert store.get(KEY, role="a", now=NOON, scales=SCALES) is None


def test_the_least_recently_used_make_room(path: Path) -> None:
    size = len(pack(released()))
    store = AnswerStore(path, max_bytes=10 * size)
    for i in range(10):
        store.put(release(key=f"k{i}", at=NOON + dt.timedelta(minutes=i)))
    store.get("k0", role="a", now=NOON + dt.timedelta(hours=1), scales=SCALES)
    store.put(release(key="new", at=NOON + dt.timedelta(minutes=20)))
    left = [k for k in ("k0", "k1", "k2", "k9", "new") if store.get(k, role="a", now=NOON, scales=SCALES)]
    assert left == ["k0", "k9", "new"]
    store.put(release(key="huge", rows=5000))
    assert store.get("huge", role="a", now=NOON, scales=SCALES) is None
    assert store.get("new", role="a", now=NOON, scales=SCALES) is not None


def test_the_cap_holds_over_restarts(path: Path) -> None:
    size = len(pack(released()))
    for i in range(6):
        store = AnswerStore(path, max_bytes=3 * size)
        store.put(release(key=f"k{i}", at=NOON + dt.timedelta(minutes=i)))
        store.close()
    store = AnswerStore(path, max_bytes=3 * size)
    assert sum(store.get(f"k{i}", role="a", now=NOON, scales=SCALES) is not None for i in range(6)) <= 3


def test_a_broken_file_is_begun_anew(path: Path) -> None:
    path.write_bytes(b"rubbish" * 1000)
    store = AnswerStore(path)
    store.put(release())
    assert store.get(KEY, role="a", now=NOON, scales=SCALES) is not None
    store.close()
    assert path.with_name(path.name + ".broken").exists()


def test_a_broken_answer_is_a_miss(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release())
    store._db.execute("UPDATE releases SET payload = x'00'")
    assert store.get(KEY, role="a", now=NOON, scales=SCALES) is None
    store._db.execute("DROP TABLE seen")
    store.put(release(key="other"))  # logged, not raised
    assert store.get("other", role="a", now=NOON, scales=SCALES) is None


def test_only_the_owner_may_read(path: Path) -> None:
    AnswerStore(path)
    assert path.stat().st_mode & 0o077 == 0
