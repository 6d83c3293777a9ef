"""Stored answers in a file: two processes begin it at once, and what is broken is put aside by one of them."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from dpproxy.reuse.file_tables import FileTables, NoRegularFile
from dpproxy.reuse.tables import FORMAT, SealError
from tests.worlds.waiting import SAFETY


def test_what_is_broken_is_put_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"rubbish" * 1000)
    opened: list[FileTables] = []

    def open_it() -> None:
        tables = FileTables(path)
        tables.open(lambda found: None)
        tables.writing(lambda: tables.rows("INSERT INTO gone VALUES (?, ?)", (str(len(opened)), "shop")))
        opened.append(tables)

    first = threading.Thread(target=open_it)
    first.start()
    first.join(SAFETY)
    open_it()
    assert opened[0].rows("SELECT count(*) FROM gone") == [(2,)]
    assert sorted(p.name for p in tmp_path.glob("*.broken")) == ["answers.sqlite.broken"]


def test_what_the_check_refuses_is_put_aside_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    first = FileTables(path)
    first.open(lambda found: None)
    first.writing(lambda: first.rows("INSERT INTO gone VALUES ('a', 'shop')"))
    first.close()
    refused: list[int] = []

    def check(found: int) -> None:
        refused.append(found)
        if len(refused) == 1:
            raise SealError("another key")

    second = FileTables(path)
    second.open(check)
    assert refused == [FORMAT, FORMAT]
    assert second.rows("SELECT * FROM gone") == []
    broken = sqlite3.connect(path.with_name("answers.sqlite.broken"))
    assert broken.execute("SELECT exact FROM gone").fetchall() == [("a",)]
    broken.close()


@pytest.mark.parametrize("version", [1, FORMAT + 1])
def test_another_format_is_begun_anew(tmp_path: Path, version: int) -> None:
    path = tmp_path / "answers.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    tables = FileTables(path)
    tables.open(lambda found: None)
    assert tables.rows("PRAGMA user_version") == [(FORMAT,)]
    assert path.with_name("answers.sqlite.broken").exists()


def test_a_folder_of_its_name_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "answers.sqlite"
    folder.mkdir()
    (folder / "kept").touch()
    with pytest.raises(NoRegularFile, match="move it away"):
        FileTables(folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["answers.sqlite"]
    assert (folder / "kept").exists()
