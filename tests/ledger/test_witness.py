"""Records put back as a whole: noticed at start and while a proxy runs, accepted only by charging more."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import BudgetExhausted, LedgerCorrupt, LedgerError, Limits, charge
from dpproxy.ledger.witness import BYTES, Seen, Witness
from dpproxy.privacy.accountant import Limit
from dpproxy.records.place import PostgresPlace, SqlitePlace, begin_anchor, place_of, repair
from dpproxy.records.record import verify, witnessed

from .conftest import PostgresServer

MakeRequest = Callable[..., Any]
FOREVER = Limits(Limit(100 * MICRO), Limit(100 * MICRO))
KEY = b"k" * 32


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def spend(ledger: Journal, request_of: MakeRequest, times: int) -> None:
    for _ in range(times):
        charge(ledger, request_of(at=now(), limits=FOREVER))


def spent(ledger: Journal) -> int:
    return ledger.standing("shop", "role", "analyst", FOREVER.role, now()).charges


class TestSqlite:
    @pytest.fixture
    def place(self, tmp_path: Path) -> SqlitePlace:
        (tmp_path / "state").mkdir()
        return SqlitePlace(tmp_path / "state" / "ledger.sqlite", tmp_path / "elsewhere" / "anchor")

    @pytest.mark.parametrize("key", [None, KEY])
    def test_a_folder_that_is_put_back_is_refused(self, place: SqlitePlace, request_of: MakeRequest, key: bytes | None) -> None:
        """The finding: copy the folder, charge ten times, put the copy back."""
        folder = place.path.parent
        ledger = place.open(key)
        spend(ledger, request_of, 5)
        ledger.close()
        shutil.copytree(folder, folder.with_name("copy"))
        ledger = place.open(key)
        spend(ledger, request_of, 10)
        ledger.close()
        shutil.rmtree(folder)
        shutil.copytree(folder.with_name("copy"), folder)
        verify(place.reader(None), key=key)
        with pytest.raises(LedgerCorrupt, match="rolled back"):
            place.open(key)
        with pytest.raises(LedgerCorrupt, match="rolled back"):
            witnessed(place.reader(None), place.witness(None, key))
        assert repair(place, None, "restored", key) is not None
        assert repair(place, None, "again", key) is None
        ledger = place.open(key)
        assert spent(ledger) == 5
        with pytest.raises(BudgetExhausted):
            spend(ledger, request_of, 1)
        ledger.close()
        place.open(key).close()

    def test_a_record_that_went_on_from_an_older_copy_is_refused(self, place: SqlitePlace, request_of: MakeRequest) -> None:
        """Without the anchor it could: it has as many entries by then."""
        folder, blind = place.path.parent, SqlitePlace(place.path)
        place.open(None).close()
        shutil.copytree(folder, folder.with_name("copy"))
        for one in (place, blind):
            ledger = one.open(None)
            spend(ledger, request_of, 5)
            ledger.close()
            if one is place:
                shutil.rmtree(folder)
                shutil.copytree(folder.with_name("copy"), folder)
        with pytest.raises(LedgerCorrupt, match="rolled back"):
            place.open(None)

    def test_another_ledger_is_refused(self, place: SqlitePlace, request_of: MakeRequest) -> None:
        ledger = place.open(None)
        spend(ledger, request_of, 1)
        ledger.close()
        shutil.rmtree(place.path.parent)
        place.path.parent.mkdir()
        with pytest.raises(LedgerCorrupt, match="another ledger"):
            place.open(None)

    def test_a_missing_anchor_is_begun_by_the_operator(self, place: SqlitePlace, request_of: MakeRequest) -> None:
        blind = SqlitePlace(place.path).open(None)
        spend(blind, request_of, 1)
        blind.close()
        with pytest.raises(LedgerCorrupt, match="missing"):
            place.open(None)
        begin_anchor(place, None, None)
        ledger = place.open(None)
        spend(ledger, request_of, 1)
        ledger.close()
        with pytest.raises(LedgerError, match="exists already"):
            begin_anchor(place, None, None)
        with pytest.raises(LedgerError, match="--anchor"):
            begin_anchor(SqlitePlace(place.path), None, None)

    def test_an_anchor_that_lags_is_no_rollback(
        self, place: SqlitePlace, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As after a crash between commit and anchor."""
        ledger = place.open(None)
        spend(ledger, request_of, 1)
        ledger.close()
        assert place.anchor is not None
        text = place.anchor.read_bytes()
        assert len(text) == BYTES
        ledger = place.open(None)
        spend(ledger, request_of, 3)
        ledger.close()
        place.anchor.write_bytes(text)
        ledger = place.open(None)
        assert spent(ledger) == 4
        ledger.close()

    def test_an_anchor_that_cannot_be_written_stops_charging(
        self, place: SqlitePlace, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not before the charge under way, which is durable: an anchor lags by one transaction, never by more."""
        ledger = place.open(None)
        with monkeypatch.context() as broken:

            def note(*_: object, **__: object) -> None:
                raise LedgerError("the anchor cannot be written")

            broken.setattr(Witness, "note", note)
            spend(ledger, request_of, 1)
            with pytest.raises(LedgerError, match="anchor cannot be written"):
                spend(ledger, request_of, 1)
        spend(ledger, request_of, 1)
        assert spent(ledger) == 2
        ledger.close()

    def test_an_anchor_is_forged_only_with_the_key(self, place: SqlitePlace, request_of: MakeRequest) -> None:
        ledger = place.open(KEY)
        spend(ledger, request_of, 3)
        ledger.close()
        assert place.anchor is not None
        seen = Witness(place.anchor, "", KEY).read()
        assert seen is not None
        Witness(place.anchor, "").note(Seen(seen.ledger, 2, seen.hash, 0), anew=True)
        with pytest.raises(LedgerCorrupt, match="seal"):
            place.open(KEY)
        place.anchor.write_bytes(b"{")
        with pytest.raises(LedgerCorrupt, match="cannot be read"):
            place.open(KEY)


SAVED = "CREATE TABLE saved_{0} AS SELECT * FROM dpproxy_ledger.{0}"
RESTORED = "DELETE FROM dpproxy_ledger.{0}; INSERT INTO dpproxy_ledger.{0} SELECT * FROM saved_{0}; DROP TABLE saved_{0}"


class TestPostgres:
    @pytest.fixture
    def places(self, postgres: PostgresServer, tmp_path: Path) -> list[PostgresPlace]:
        """Two machines."""
        states = [tmp_path / "one", tmp_path / "two"]
        for state in states:
            state.mkdir()
        return [PostgresPlace(postgres.dsn, state) for state in states]

    @staticmethod
    def on(postgres: PostgresServer, statement: str) -> None:
        for table in ("entries", "head"):
            asyncio.run(postgres.execute(statement.format(table)))

    def test_restored_tables_are_refused(
        self, postgres: PostgresServer, places: list[PostgresPlace], request_of: MakeRequest
    ) -> None:
        """The finding: charged on at 6 of 16. By a running proxy, by a restarted one, by one on another machine."""
        one, two = [place.open(None) for place in places]
        spend(one, request_of, 3)
        spend(two, request_of, 3)
        self.on(postgres, SAVED)
        spend(one, request_of, 5)
        spend(two, request_of, 5)
        self.on(postgres, RESTORED)
        for _ in range(2):
            with pytest.raises(LedgerCorrupt, match="changed or lost"):
                spend(one, request_of, 1)
        one.close()
        two.close()
        for place in places:
            again = place.open(None)
            with pytest.raises(LedgerCorrupt, match="rolled back"):
                spend(again, request_of, 1)
            with pytest.raises(LedgerCorrupt, match="rolled back"):
                again.identity("shop")
            again.close()
        assert repair(places[0], "shop", "restored to noon", None) is not None
        for place in places:  # of the other machine, too: all windows were closed since
            again = place.open(None)
            assert spent(again) == 6
            with pytest.raises(BudgetExhausted):
                spend(again, request_of, 1)
            again.close()

    def test_tables_that_are_gone_are_refused(
        self, postgres: PostgresServer, places: list[PostgresPlace], request_of: MakeRequest
    ) -> None:
        ledger = places[0].open(None)
        spend(ledger, request_of, 2)
        asyncio.run(postgres.execute("TRUNCATE dpproxy_ledger.entries, dpproxy_ledger.head"))
        with pytest.raises(LedgerCorrupt):
            spend(ledger, request_of, 1)
        ledger.close()
        ledger = places[0].open(None)
        with pytest.raises(LedgerCorrupt, match="another ledger"):
            spend(ledger, request_of, 1)
        ledger.close()

    def test_a_second_rollback_is_refused_too(
        self, postgres: PostgresServer, places: list[PostgresPlace], request_of: MakeRequest
    ) -> None:
        """To before the first one was accepted."""
        ledger = places[0].open(None)
        spend(ledger, request_of, 2)
        self.on(postgres, SAVED)
        ledger.exhaust("shop", now(), "accepted")
        ledger.close()
        self.on(postgres, RESTORED)
        ledger = places[0].open(None)
        with pytest.raises(LedgerCorrupt, match="rolled back"):
            spend(ledger, request_of, 1)
        ledger.close()

    def test_processes_share_a_witness_that_only_goes_on(self, places: list[PostgresPlace], request_of: MakeRequest) -> None:
        one, two = places[0].open(None), places[0].open(None)
        seen = []
        for ledger in (one, two, one, two):
            spend(ledger, request_of, 2)
            witness = places[0].witness("shop", None)
            assert witness is not None
            found = witness.read()
            assert found is not None
            seen.append(found.sequence)
        assert seen == sorted(set(seen))
        found_first = Seen(found.ledger, 1, b"", 0)
        witness.note(found_first)
        assert witness.read() == found
        one.close()
        two.close()

    def test_a_machine_that_serves_nothing_keeps_nothing(self, places: list[PostgresPlace], tmp_path: Path) -> None:
        place = PostgresPlace(places[0].dsn, tmp_path / "nowhere")
        ledger = place.open(None)
        assert ledger.identity("shop")
        ledger.close()
        assert not (tmp_path / "nowhere").exists()


def test_an_anchor_is_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="SQLite"):
        place_of("postgresql://x", tmp_path, tmp_path / "anchor")


class TestWitness:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "elsewhere" / "anchor"

    def test_more_closures_are_more_than_a_higher_number(self, path: Path) -> None:
        """A record that was put back and closed goes on from fewer entries: from then on those are what it must have."""
        Witness(path, "c", KEY).note(Seen("ledger", 10, b"old", 0))
        Witness(path, "c", KEY).note(Seen("ledger", 4, b"closed", 1))
        assert Witness(path, "c", KEY).read() == Seen("ledger", 4, b"closed", 1)
        Witness(path, "c", KEY).note(Seen("ledger", 12, b"other", 0))
        assert Witness(path, "c", KEY).read() == Seen("ledger", 4, b"closed", 1)

    @pytest.mark.parametrize("field", ["ledger", "sequence", "hash", "closures", "chain"])
    def test_nothing_of_it_can_be_changed_without_the_key(self, path: Path, field: str) -> None:
        Witness(path, "c", KEY).note(Seen("ledger", 10, b"\xaa", 1))
        data = json.loads(path.read_text())
        if field != "chain":
            data[field] = {"ledger": "another", "sequence": 9, "hash": "bb", "closures": 0}[field]
        path.write_text(json.dumps(data))
        with pytest.raises(LedgerCorrupt, match="seal"):
            Witness(path, "d" if field == "chain" else "c", KEY).read()

    def test_its_file_is_its_owners_alone(self, path: Path) -> None:
        before = os.umask(0)
        try:
            Witness(path, "c").note(Seen("ledger", 1, b"\xaa", 0))
        finally:
            os.umask(before)
        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)

    def test_a_file_that_was_put_in_place_anew_is_the_one_that_is_written(self, path: Path) -> None:
        witness = Witness(path, "c")
        witness.note(Seen("ledger", 1, b"\xaa", 0))
        os.replace(shutil.copy(path, path.with_name("copy")), path)
        witness.note(Seen("ledger", 2, b"\xbb", 0))
        assert Witness(path, "c").read() == Seen("ledger", 2, b"\xbb", 0)

    def test_what_was_noted_is_put_on_the_disk_once(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)
        witness = Witness(path, "c")
        witness.sync()
        assert not synced, "nothing was noted"
        witness.note(Seen("ledger", 1, b"\xaa", 0))
        witness.sync()
        witness.sync()
        assert len(synced) == 1
        witness.note(Seen("ledger", 1, b"\xaa", 0))
        witness.sync()
        assert len(synced) == 1, "nothing is new"
        witness.note(Seen("ledger", 2, b"\xbb", 0))
        witness.sync()
        assert len(synced) == 2
