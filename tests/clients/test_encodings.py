"""Clients that do not speak UTF-8, as psql in a Windows console: answers are in their encoding, or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import Connection

from .conftest import Town
from .test_psql import BY_REGION, LINES, Psql, lines

BY_SHOP = "SELECT s.name, count(*) AS n FROM visits v JOIN shops s ON s.id = v.shop GROUP BY s.name ORDER BY 1"
"""Its groups are shops, of which one is called Łódź."""

Connect = Callable[[str], Connection]


@pytest.fixture
def connect(town: Town) -> Iterator[Connect]:
    opened: list[Connection] = []

    def connecting(encoding: str) -> Connection:
        opened.append(psycopg.connect(f"{town.dsn} client_encoding={encoding}", autocommit=True))
        return opened[-1]

    yield connecting
    for connection in opened:
        connection.close()


@pytest.mark.parametrize("encoding", ["WIN1252", "LATIN1", "LATIN2", "LATIN5", "LATIN9", "WIN866", "KOI8R", "ISO_8859_8"])
def test_ascii_is_the_same_in_all(connect: Connect, encoding: str) -> None:
    connection, other = connect(encoding), connect("UTF8")
    assert connection.execute(BY_REGION).fetchall() == other.execute(BY_REGION).fetchall()
    sql = "SELECT count(*) FROM people WHERE region = %s"
    assert connection.execute(sql, ("east",)).fetchall() == other.execute(sql, ("east",)).fetchall()
    assert connection.execute(f"EXPLAIN {BY_REGION}").fetchall()[-1] == other.execute(f"EXPLAIN {BY_REGION}").fetchall()[-1]


@pytest.mark.parametrize("encoding", ["WIN1250", "LATIN2"])
def test_letters_are_the_clients(connect: Connect, encoding: str) -> None:
    """Those of groups, by the simple and the extended protocol, copied, by a cursor; and those of parameters."""
    connection, expected = connect(encoding), connect("UTF8").execute(BY_SHOP).fetchall()
    assert "Łódź" in [name for name, _ in expected]
    assert connection.execute(BY_SHOP).fetchall() == expected
    assert psycopg.ClientCursor(connection).execute(BY_SHOP).fetchall() == expected
    with connection.cursor() as cursor, cursor.copy(f"COPY ({BY_SHOP}) TO STDOUT") as copy:
        copied = b"".join(bytes(block) for block in copy)
    assert copied.decode("cp1250" if encoding == "WIN1250" else "iso8859-2").startswith(f"b's\t{expected[0][1]}\n")
    assert "Łódź".encode("cp1250" if encoding == "WIN1250" else "iso8859-2") in copied
    with connection.transaction(), connection.cursor("c") as held:
        assert held.execute(BY_SHOP).fetchall() == expected
    of_one = "SELECT count(*) FROM visits v JOIN shops s ON s.id = v.shop WHERE s.name = %s"
    assert connection.execute(of_one, ("Łódź",)).fetchall() == connect("UTF8").execute(of_one, ("Łódź",)).fetchall()


def test_letters_that_the_client_does_not_have(connect: Connect) -> None:
    """As PostgreSQL says it, by each protocol; the answer is stored, and free in another encoding."""
    connection = connect("WIN1252")
    with pytest.raises(psycopg.errors.UntranslatableCharacter, match='0xc5 0x81 in encoding "UTF8" has no equivalent'):
        connection.execute(BY_SHOP)
    with pytest.raises(psycopg.errors.UntranslatableCharacter):
        psycopg.ClientCursor(connection).execute(BY_SHOP)
    with connection.transaction(), pytest.raises(psycopg.errors.UntranslatableCharacter), connection.cursor("c") as held:
        held.execute(BY_SHOP).fetchall()
    assert connection.execute("SELECT 1").fetchone() == (1,)
    left = "SELECT epsilon_left FROM dpproxy.budget"
    connection.execute("SET client_encoding = 'UTF8'")
    before = connection.execute(left).fetchone()
    assert len(connection.execute(BY_SHOP).fetchall()) == 3
    assert connection.execute(left).fetchone() == before


def test_statements_beyond_ascii_are_refused(connect: Connect) -> None:
    connection = connect("LATIN2")
    for cursor in (connection.cursor(), psycopg.ClientCursor(connection)):
        with pytest.raises(psycopg.Error) as caught:
            cursor.execute("SELECT count(*) FROM visits v JOIN shops s ON s.id = v.shop WHERE s.name = 'Łódź'")
        assert caught.value.sqlstate in ("0A000", "22021")


def test_psql_in_a_console_of_windows(psql: Psql) -> None:
    assert lines(psql(f"\\encoding WIN1252\n{BY_REGION};\n\\set FETCH_COUNT 2\n{BY_REGION};")) == LINES * 2
