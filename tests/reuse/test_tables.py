"""What both places of stored answers promise: all of a piece of work or nothing, and one writer at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpproxy.reuse.file_tables import FileTables
from dpproxy.reuse.server_tables import ServerTables
from dpproxy.reuse.tables import FORMAT, AnswerTables, TablesAway, TablesError
from tests.worlds.waiting import SAFETY


@pytest.fixture(params=["file", "server"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[AnswerTables, AnswerTables]]:
    """The same tables, opened twice."""

    def opened() -> AnswerTables:
        if request.param == "file":
            return FileTables(tmp_path / "answers.sqlite")
        return ServerTables(request.getfixturevalue("answers_server"))

    tables = opened(), opened()
    formats: list[int] = []
    for each in tables:
        each.open(formats.append)
    assert formats == [FORMAT, FORMAT]
    yield tables
    for each in tables:
        each.close()


NAMES = "SELECT exact FROM gone ORDER BY 1"


def test_work_is_done_whole_or_not_at_all(pair: tuple[AnswerTables, AnswerTables]) -> None:
    one, other = pair

    def half() -> None:
        one.rows("INSERT INTO gone VALUES (?, ?)", ("a", "shop"))
        one.rows("INSERT INTO nowhere VALUES (1)")

    def wrong() -> None:
        one.rows("INSERT INTO gone VALUES (?, ?)", ("a", "shop"))
        raise ValueError("of our own")

    with pytest.raises(TablesError):
        one.writing(half)
    with pytest.raises(ValueError, match="of our own"):
        one.writing(wrong)
    one.writing(lambda: one.rows("INSERT INTO gone VALUES (?, ?)", ("b", "shop")))
    for each in (one, other):
        assert each.reading(lambda each=each: each.rows(NAMES)) == [("b",)]
    with pytest.raises(TablesError) as caught:
        other.reading(lambda: other.rows("SELECT 1 FROM nowhere"))
    assert isinstance(caught.value, TablesAway) == isinstance(other, ServerTables), "what is shared is no miss"


def test_one_writes_at_a_time(pair: tuple[AnswerTables, AnswerTables]) -> None:
    """The second sees what the first has written, and cannot be numbered before it."""
    one, other = pair
    inside, through = threading.Event(), threading.Event()

    def first() -> None:
        inside.set()
        through.wait(SAFETY)
        one.rows("INSERT INTO gone VALUES ('first', 'shop')")

    def second() -> list[tuple[str]]:
        other.rows("INSERT INTO gone VALUES ('second', 'shop')")
        return other.rows(NAMES)

    seen: list[list[tuple[str]]] = []
    writers = [threading.Thread(target=lambda: one.writing(first))]
    writers[0].start()
    assert inside.wait(SAFETY)
    writers.append(threading.Thread(target=lambda: seen.append(other.writing(second))))
    writers[1].start()
    through.set()
    for writer in writers:
        writer.join(SAFETY)
    assert seen == [[("first",), ("second",)]]


def test_values_stay_apart_from_the_statement(pair: tuple[AnswerTables, AnswerTables]) -> None:
    one, _ = pair
    text = "it's a $1 ? and a \\"
    one.writing(lambda: one.rows("INSERT INTO gone VALUES (?, ?)", (text, "shop")))
    assert one.rows("SELECT dataset FROM gone WHERE exact = ? AND dataset = ?", (text, "shop")) == [("shop",)]
