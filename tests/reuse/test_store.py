"""Stored answers: what comes out is what went in, for whom, how long, and how much of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpproxy.derived_keys import derived
from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import Loss
from dpproxy.reuse.matching import Asked, Groups, Origin, Repeat, StoredRelease
from dpproxy.reuse.store import _COLUMNS, AnswerStore, Found
from dpproxy.reuse.tables import ReleaseKey, Sealer, SealError

NOON = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
SCALES = (Fraction(10), Fraction(1, 3))
LOSS = Loss(100_000, 7)


def asked(rows: str = "rows", *, noise: tuple[Fraction, ...] = SCALES, **more: object) -> Asked:
    fields = {"keys": ("region", "day"), "columns": ("count", "sum"), **more}
    return Asked(rows, noise=noise, base=f"base of {rows}", **fields)  # type: ignore[arg-type]


def released(rows: int = 3, seed: int = 0) -> Released:
    values = np.random.default_rng(seed).integers(-(2**62), 2**62, (2, rows))
    keys = (pa.array([f"région {i}" if i else None for i in range(rows)]), pa.array(range(rows), pa.date32()))
    return Released(keys, (values[0], values[1]), rows)


def release(
    *,
    made: Asked | None = None,
    rows: int = 3,
    seed: int = 0,
    role: str = "a",
    at: dt.datetime = NOON,
    loss: Loss = LOSS,
) -> StoredRelease:
    return StoredRelease("shop", made or asked(), released(rows, seed), loss, at, frozenset({role}))


def find(
    store: AnswerStore, wanted: Asked | None = None, role: str = "a", now: dt.datetime = NOON, **more: object
) -> Found | None:
    return store.find(wanted or asked(), role=role, price=LOSS, now=now, **more)  # type: ignore[arg-type]


def same(a: Released, b: Released) -> bool:
    keys = len(a.keys) == len(b.keys) and all(x.equals(y) for x, y in zip(a.keys, b.keys, strict=True))
    values = len(a.values) == len(b.values) and all(np.array_equal(x, y) for x, y in zip(a.values, b.values, strict=True))
    return keys and values and a.rows == b.rows


Place = Path | str


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.sqlite"


@pytest.fixture(params=["file", "server"])
def place(request: pytest.FixtureRequest, path: Path) -> Place:
    return path if request.param == "file" else str(request.getfixturevalue("answers_server"))


def test_what_was_put_comes_back_after_a_restart(place: Place) -> None:
    made = asked(tau=7, totals=("t", None), accepts={"k": frozenset({"é", "b"})}, complete=True, additive=(True, False))
    made = replace(made, bound=3, heavy=(True, False), groups=(Groups("a", ("k",), True), Groups("b", None, False)))
    store = AnswerStore(place)
    store.put(release(made=made))
    store.close()
    found = find(AnswerStore(place), made)
    assert found is not None
    assert found.stored is not None
    assert same(found.released, released())
    assert (found.stored.loss, found.stored.made, found.stored.created, found.stored.roles) == (LOSS, made, NOON, {"a"})


def test_another_measurement_is_not_it(place: Place) -> None:
    store = AnswerStore(place)
    store.put(release())
    one = Fraction(100)
    for wanted in (
        asked("other rows"),
        asked(keys=("region",)),
        asked(keys=("region", "month")),
        asked(columns=("count",), noise=(one,)),
        asked(columns=("count", "avg"), noise=(one, one)),
        asked(columns=("count", "sum", "avg"), noise=(one, one, one)),
        asked(tau=100),
    ):
        assert find(store, wanted) is None


def test_less_accurate_answers_do_not_serve(place: Place) -> None:
    store, stored = AnswerStore(place), release(made=asked(tau=50))
    store.put(stored)
    assert find(store, asked(tau=50, noise=(Fraction(9), Fraction(1, 3)))) is None


def test_parts_come_in_the_order_asked(place: Place) -> None:
    store, plain = AnswerStore(place), released()
    store.put(release())
    found = find(store, asked(keys=("day", "region"), columns=("sum", "count"), noise=SCALES[::-1]))
    assert found is not None
    assert same(found.released, Released(plain.keys[::-1], plain.values[::-1], plain.rows))


def test_a_subset_of_columns_is_served_on_demand(place: Place) -> None:
    store, plain = AnswerStore(place), released()
    store.put(release())
    few = asked(columns=("sum",), noise=SCALES[1:])
    assert find(store, few) is None
    found = find(store, few, mode="derive")
    assert found is not None
    assert same(found.released, Released(plain.keys, plain.values[1:], plain.rows))
    assert find(store, few, "b", mode="derive") is None, "computed only from what the role has seen"


def test_a_role_keeps_the_noise_it_has_seen(place: Place) -> None:
    store = AnswerStore(place)
    store.put(release(role="a", seed=1))
    store.put(release(role="b", seed=2, at=NOON + dt.timedelta(minutes=1)))
    for role, seed in (("a", 1), ("b", 2), ("c", 1)):
        found = find(store, role=role)
        assert found is not None
        assert same(found.released, released(seed=seed))
        assert found.seen(role) == (role != "c")


class TestWhatAnotherRoleIsShown:
    """The first release that answers its question, whatever another role did since; else nothing, and it measures anew."""

    MINUTE = dt.timedelta(minutes=1)

    @pytest.mark.parametrize("clock", [1, -1])
    def test_measuring_anew_chooses_nothing(self, path: Path, clock: int) -> None:
        """Also with a clock that runs backwards."""
        store = AnswerStore(path)
        for i in range(80):
            store.put(release(role="a", seed=i, at=NOON + clock * i * self.MINUTE))
        found = find(store, role="b")
        assert found is not None
        assert same(found.released, released(seed=0))

    def test_nor_does_noise_that_is_a_little_less(self, place: Place) -> None:
        store = AnswerStore(place)
        for i in range(9):
            noise = tuple(s * Fraction(10_000 - i, 10_000) for s in SCALES)
            store.put(release(role="a", seed=i, made=asked(noise=noise)))
        found = find(store, role="b")
        assert found is not None
        assert same(found.released, released(seed=0))

    def test_a_first_release_that_had_to_go(self, place: Place, tmp_path: Path) -> None:
        store = AnswerStore(place, max_bytes=3 * stored_size(tmp_path))
        store.put(release(role="a"))
        for i in range(4):
            store.put(release(role="a", made=asked(f"rows {i}"), at=NOON + (i + 1) * self.MINUTE))
        assert find(store) is None
        store.put(release(role="a", seed=1, at=NOON + 9 * self.MINUTE))
        for again in (store, AnswerStore(place)):
            assert find(again, role="b") is None
            assert find(again, role="a") is not None

    def test_one_that_expired(self, place: Place) -> None:
        store, day = AnswerStore(place), dt.timedelta(days=1)
        store.put(release(role="a"))
        store.put(release(role="a", seed=1, at=NOON + 2 * day))
        assert find(store, role="b", now=NOON + 2 * day, max_age=day) is None
        store.forget("shop", before=NOON + day)
        store.put(release(role="a", seed=2, at=NOON + 2 * day))
        assert find(store, role="b", now=NOON + 2 * day, max_age=day) is None

    def test_one_that_could_not_be_kept(self, path: Path, tmp_path: Path) -> None:
        """Too large, or the disk was full: how many groups pass a threshold is chance, and could be tried for."""
        store = AnswerStore(path, max_bytes=10 * stored_size(tmp_path))
        store.put(release(role="a", rows=5000))
        store.put(release(role="a", seed=1))
        assert find(AnswerStore(path), role="b") is None
        pages = store._tables.db.execute("PRAGMA page_count").fetchone()[0]
        store._tables.db.execute(f"PRAGMA max_page_count = {pages}")
        store.put(release(role="a", made=asked("full"), rows=100))
        store._tables.db.execute("PRAGMA max_page_count = 100000")
        store.put(release(role="a", made=asked("full"), seed=1))
        assert find(store, asked("full"), role="b") is None
        assert find(AnswerStore(path), asked("full"), role="b") is None

    def test_one_that_cannot_be_read(self, path: Path) -> None:
        store = AnswerStore(path)
        store.put(release(role="a"))
        store._tables.db.execute("UPDATE releases SET payload = x'00'")
        store.put(release(role="a", seed=1))
        assert find(store, role="b") is None

    def test_one_from_the_future(self, place: Place) -> None:
        store = AnswerStore(place)
        store.put(release(role="a", at=NOON + 400 * dt.timedelta(days=1)))
        assert find(store) is None
        assert find(store, role="b") is None

    def test_too_many_names_close_the_dataset(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("dpproxy.reuse.store.MOST_GONE", 3)
        store = AnswerStore(place)
        store.put(release(role="a", made=asked("kept")))
        assert find(store, asked("kept"), role="b") is not None
        store._max_bytes = 10
        for i in range(5):
            store.put(release(role="a", made=asked(f"rows {i}")))
        assert find(store, asked("kept"), role="b") is None
        assert find(store, asked("kept")) is not None

    def test_it_is_as_old_as_the_day_it_was_first_seen(self, place: Place) -> None:
        """When the other role asked is not told: neither in words nor by the day on which it must be paid anew."""
        store, day = AnswerStore(place), dt.timedelta(days=1)
        store.put(release(role="a"))
        seen = NOON + day / 2
        found = find(store, role="b", now=seen, max_age=day)
        assert found is not None
        assert found.made == (seen,)
        assert found.stored is not None
        store.mark_seen(found.stored, "b", seen)
        store.forget("shop", before=NOON + self.MINUTE)
        again = find(store, role="b", now=seen + day, max_age=day)
        assert again is not None
        assert again.made == (seen,)
        assert find(store, role="b", now=seen + day + self.MINUTE, max_age=day) is None

    def test_a_number_that_was_given_again_is_not_meant(self, place: Place) -> None:
        """What was found is dropped, and another release has its number, before it is marked as seen."""
        store = AnswerStore(place)
        store.put(release(role="a"))
        found = find(store, role="b")
        assert found is not None
        assert found.stored is not None
        store.forget("shop")
        store.put(release(role="a", made=asked("secret")))
        store.mark_seen(found.stored, "b", NOON)
        assert store.count("shop", "b") == 0

    def test_a_file_of_the_format_before_keeps_what_roles_have_seen(self, path: Path) -> None:
        store = AnswerStore(path)
        store.put(release(role="a"))
        store.close()
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.executescript(
                "DROP TABLE gone; ALTER TABLE seen DROP COLUMN at; ALTER TABLE seen DROP COLUMN proof; PRAGMA user_version = 2"
            )
        store = AnswerStore(path)
        assert find(store, role="a") is not None
        assert find(store, role="b") is None
        store.put(release(role="a", made=asked("new")))
        assert find(store, asked("new"), role="b") is not None


def test_another_role_is_not_exposed_to_more_than_it_asked_for(place: Place) -> None:
    store = AnswerStore(place)
    store.put(release(role="a"))
    assert store.find(asked(), role="b", price=Loss(99_999, 7), now=NOON) is None
    assert store.find(asked(), role="b", price=Loss(100_000, 6), now=NOON) is None
    assert store.find(asked(), role="a", price=Loss(1), now=NOON) is not None
    found = store.find(asked(), role="b", price=Loss(100_000, 7), now=NOON)
    assert found is not None
    assert not found.seen("b")


def test_a_role_that_has_paid_is_remembered(place: Place) -> None:
    store = AnswerStore(place)
    store.put(release(role="a"))
    found = find(store, role="b")
    assert found is not None
    assert found.stored is not None
    store.mark_seen(found.stored, "b", NOON)
    store.mark_seen(found.stored, "b", NOON)
    store.close()
    store = AnswerStore(place)
    again = find(store, role="b")
    assert again is not None
    assert again.seen("b")
    assert (store.count("shop", "b"), store.count("shop", "c")) == (1, 0)


def test_what_a_role_may_ask_again_is_told_by_statement(place: Place) -> None:
    store, hour = AnswerStore(place), dt.timedelta(hours=1)
    store.put(release(), Origin("feed", "today"))
    store.put(release(made=asked("more"), at=NOON + hour), Origin("feed", "today"))
    store.put(release(made=asked("former"), at=NOON - hour), Origin("beef", "yesterday"))
    found = find(store, role="b")
    assert found is not None
    assert found.stored is not None
    store.mark_seen(found.stored, "b", NOON + hour, Origin("cafe", "today"))
    store.mark_seen(found.stored, "a", NOON + hour, Origin("cafe", "today"))
    store.close()
    store = AnswerStore(place)
    assert store.repeats("shop", "today", 9) == [Repeat("b", "cafe", 1, NOON + hour), Repeat("a", "feed", 2, NOON)]
    assert store.repeats("shop", "yesterday", 9) == [Repeat("a", "beef", 1, NOON - hour)]
    store.forget("shop")
    assert store.repeats("shop", "today", 9) == []


def test_answers_expire_and_are_forgotten(place: Place) -> None:
    store, day = AnswerStore(place), dt.timedelta(days=1)
    store.put(release())
    assert find(store, now=NOON + day, max_age=day) is not None
    assert find(store, now=NOON + 2 * day, max_age=day) is None
    store.forget("shop", before=NOON)
    assert find(store) is not None
    store.forget("other")
    store.forget("shop")
    assert find(store) is None


def stored_size(tmp: Path, **options: object) -> int:
    store = AnswerStore(tmp / "size.sqlite")
    store.put(release(made=asked("rows 0")))
    return int(store._tables.db.execute("SELECT bytes FROM size").fetchone()[0])


def test_the_least_recently_used_make_room(place: Place, tmp_path: Path) -> None:
    store = AnswerStore(place, max_bytes=10 * stored_size(tmp_path))
    for i in range(10):
        store.put(release(made=asked(f"rows {i}"), at=NOON + dt.timedelta(minutes=i)))
    find(store, asked("rows 0"), now=NOON + dt.timedelta(hours=1))
    store.put(release(made=asked("rows n"), at=NOON + dt.timedelta(minutes=20)))
    left = [k for k in "0129n" if find(store, asked(f"rows {k}"))]
    assert left == ["0", "9", "n"]
    store.put(release(made=asked("rows h"), rows=5000))
    assert find(store, asked("rows h")) is None
    assert find(store, asked("rows n")) is not None


def test_the_cap_holds_over_restarts(place: Place, tmp_path: Path) -> None:
    size = stored_size(tmp_path)
    for i in range(6):
        store = AnswerStore(place, max_bytes=3 * size)
        store.put(release(made=asked(f"rows {i}"), at=NOON + dt.timedelta(minutes=i)))
        store.close()
    store = AnswerStore(place, max_bytes=3 * size)
    assert sum(find(store, asked(f"rows {i}")) is not None for i in range(6)) in (2, 3)


def test_a_full_disk_loses_answers_and_nothing_else(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release(made=asked("rows 0")))
    pages = store._tables.db.execute("PRAGMA page_count").fetchone()[0]
    store._tables.db.execute(f"PRAGMA max_page_count = {pages}")
    store.put(release(made=asked("rows 1"), rows=5000))
    assert find(store, asked("rows 1")) is None
    assert find(store, asked("rows 0")) is not None
    store._tables.db.execute("PRAGMA max_page_count = 100000")
    store.put(release(made=asked("rows 1"), rows=5000))
    assert find(store, asked("rows 1")) is not None


def test_two_processes_keep_one_cap(place: Place, tmp_path: Path) -> None:
    """As two stores of one file: what one adds the other counts."""
    size = stored_size(tmp_path)
    stores = [AnswerStore(place, max_bytes=3 * size) for _ in range(2)]
    for i in range(8):
        stores[i % 2].put(release(made=asked(f"rows {i}"), at=NOON + dt.timedelta(minutes=i)))
        held = stores[0]._tables.rows("SELECT sum(length(payload)) FROM releases")[0][0]
        assert held <= 3 * size
    assert find(stores[0], asked("rows 7")) is not None


def test_a_broken_file_is_begun_anew(path: Path) -> None:
    path.write_bytes(b"rubbish" * 1000)
    store = AnswerStore(path)
    store.put(release())
    assert find(store) is not None
    store.close()
    assert path.with_name(path.name + ".broken").exists()


def test_a_broken_answer_is_a_miss(path: Path) -> None:
    store = AnswerStore(path)
    store.put(release())
    store._tables.db.execute("UPDATE releases SET payload = x'00'")
    assert find(store) is None
    store.put(release(seed=1))
    assert find(store) is not None, "one that can be read serves beside it"
    store._tables.db.execute("DROP TABLE seen")
    store.put(release(made=asked("other")))  # logged, not raised
    assert find(store, asked("other")) is None


def test_only_the_owner_may_read(path: Path) -> None:
    AnswerStore(path)
    assert path.stat().st_mode & 0o077 == 0


class TestSealed:
    KEY, OTHER = b"k" * 32, b"l" * 32

    def test_what_is_sealed_comes_back_and_is_not_on_disk(self, path: Path) -> None:
        store = AnswerStore(path, sealer=Sealer(self.KEY))
        made = asked(accepts={"k": frozenset({"marker"})})
        store.put(release(made=made))
        store.close()
        texts = b"".join(p.read_bytes() for p in path.parent.iterdir())
        assert b"marker" not in texts
        assert "région".encode() not in texts
        found = find(AnswerStore(path, sealer=Sealer(self.KEY)), made)
        assert found is not None
        assert same(found.released, released())

    @pytest.mark.parametrize("key", [None, b"l" * 32])
    def test_another_key_begins_anew(self, path: Path, key: bytes | None) -> None:
        store = AnswerStore(path, sealer=Sealer(self.KEY))
        store.put(release())
        store.close()
        store = AnswerStore(path, sealer=Sealer(key) if key else None)
        assert find(store) is None
        store.put(release(seed=1))
        assert find(store) is not None
        assert path.with_name(path.name + ".broken").exists()

    def test_a_file_sealed_by_names_alone_is_sealed_anew(self, path: Path) -> None:
        """As the format before had it; one of its answers is broken."""
        store, sealer = AnswerStore(path, sealer=Sealer(self.KEY)), Sealer(self.KEY)
        for rows in ("rows", "broken"):
            store.put(release(made=asked(rows)))
        for *fields, payload in store._tables.rows(f"SELECT {_COLUMNS} FROM releases"):
            key = ReleaseKey(*fields)
            old = sealer.seal(sealer.open(payload, key.sealed_as), key.base) if key.id == 1 else b"x"
            store._tables.rows("UPDATE releases SET payload = ? WHERE id = ?", (old, key.id))
        store.close()
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.executescript("ALTER TABLE seen DROP COLUMN proof; PRAGMA user_version = 3")
        for _ in (1, 2):
            store = AnswerStore(path, sealer=sealer)
            assert find(store) is not None
            assert find(store, asked("broken")) is None
            assert find(store, asked("broken"), role="b") is None
            store.close()


FORGED = {
    "a payload for another": "UPDATE releases SET payload = (SELECT payload FROM releases WHERE id = 2) WHERE id = 1",
    "a later release for the first": "UPDATE releases SET id = 3 WHERE id = 1; UPDATE seen SET release = 3 WHERE release = 1",
    "an older answer for a new one": "UPDATE releases SET created = '2030' || substr(created, 5) WHERE id = 1",
    "another dataset's": "UPDATE releases SET dataset = 'other' WHERE id = 1",
    "somebody else's as seen": "UPDATE seen SET role = 'b' WHERE release = 1",
    "seen lately": "UPDATE seen SET at = '2030' || substr(at, 5) WHERE release = 1",
    "seen, of another": "UPDATE seen SET proof = (SELECT proof FROM seen WHERE release = 2) WHERE release = 1",
    "seen, without a proof": "UPDATE seen SET proof = NULL WHERE release = 1",
}


@pytest.mark.parametrize("forged", FORGED)
def test_no_row_passes_for_another(place: Place, forged: str) -> None:
    """Whoever writes the tables without the key takes answers away, and puts none in their place. The first is asked for."""
    store = AnswerStore(place, sealer=Sealer(b"k" * 32))
    for seed in (1, 2):
        store.put(release(seed=seed, made=asked(f"rows {seed}"), at=NOON + dt.timedelta(hours=seed)))
    one = asked("rows 1")
    assert find(store, one, now=NOON + dt.timedelta(hours=3)) is not None
    unbound = (
        "ALTER TABLE releases DROP CONSTRAINT releases_pkey CASCADE" if isinstance(place, str) else "PRAGMA foreign_keys = OFF"
    )
    for statement in (unbound, *FORGED[forged].split("; ")):
        store._tables.rows(statement)
    for role in ("a", "b"):
        found = find(store, one, role, now=NOON + dt.timedelta(hours=3))
        assert found is None or not found.seen(role), "it is paid for again"
        if found is not None and found.stored is not None:
            store.mark_seen(found.stored, role, NOON)
            found = find(store, one, role, now=NOON + dt.timedelta(hours=3))
            assert found is not None
            assert found.seen(role)
    assert find(store, asked("rows 2"), now=NOON + dt.timedelta(hours=3)) is not None
    store.close()


def test_a_short_key_is_refused() -> None:
    with pytest.raises(SealError, match="16 bytes"):
        Sealer(b"short")


def test_derived_keys_differ_by_purpose() -> None:
    assert len({derived(b"k", "a"), derived(b"k", "b"), derived(b"l", "a")}) == 3
