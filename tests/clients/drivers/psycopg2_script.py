"""psycopg2: simple protocol, literals in the text, named cursors, COPY, notices."""

import datetime as dt
import decimal
import io
import threading

import psycopg2
import psycopg2.extensions
import psycopg2.extras

from checks import ANSWER, EAST_AND_SHORT, REFUSED, ROWS, answered, close, raises, run, version

version(psycopg2.__version__)
connection = psycopg2.connect("")
connection.autocommit = True


def ask(sql, parameters=None, factory=None):
    with connection.cursor(cursor_factory=factory) as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def answer():
    answered(ask(ANSWER))
    assert [r["region"] for r in ask(ANSWER, factory=psycopg2.extras.RealDictCursor)] == ["east", "north", "south", "west"]


def types():
    ((total, mean, first),) = ask("SELECT sum(income), avg(height), now() FROM people")
    assert isinstance(total, decimal.Decimal) and isinstance(mean, float), (total, mean)
    assert first.tzinfo is not None
    assert ask("SELECT member, count(*) FROM people GROUP BY 1 ORDER BY 1")[0][0] is False
    assert ask("SELECT opened FROM shops ORDER BY id")[:2] == [(dt.date(2001, 1, 1),), (None,)]


def parameters():
    sql = "SELECT count(*) FROM people WHERE region = %s AND height < %s AND born > %s"
    assert close(ask(sql, ("east", 160, dt.date(1900, 1, 1)))[0][0], EAST_AND_SHORT)
    assert close(ask("SELECT count(*) FROM people WHERE region = ANY(%s)", (["east", "west"],))[0][0], 500)
    assert close(ask("SELECT count(*) FROM people WHERE region IN %s", (("east", "west"),))[0][0], 500)


def prepared():
    """psycopg2 has none of its own: in SQL."""
    with connection.cursor() as cursor:
        cursor.execute("PREPARE by_region AS SELECT count(*) FROM people WHERE region = $1")
        for region in ("east", "west"):
            cursor.execute("EXECUTE by_region(%s)", (region,))
            assert close(cursor.fetchone()[0], 250)
        cursor.execute("DEALLOCATE by_region")


def paging():
    connection.autocommit = False
    try:
        with connection.cursor("named") as cursor:
            cursor.itersize = 1
            cursor.execute(ANSWER)
            assert len(cursor.fetchmany(3)) == 3
            assert len(cursor.fetchall()) == 1
        with connection.cursor("scrolling", scrollable=True) as cursor:
            cursor.execute(ANSWER)
            cursor.scroll(2)
            assert cursor.fetchone()[0] == "south"
            cursor.scroll(-2)
            assert cursor.fetchone()[0] == "north"
    finally:
        connection.rollback()
        connection.autocommit = True


def transactions():
    other = psycopg2.connect("")
    with other, other.cursor() as cursor:
        cursor.execute(ANSWER)
        assert other.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_INTRANS
    with other.cursor() as cursor:
        raises(lambda: cursor.execute(ROWS), "42501")
        assert other.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_INERROR
        raises(lambda: cursor.execute("SELECT 1"), "25P02")
        other.rollback()
        cursor.execute("SAVEPOINT a")
        raises(lambda: cursor.execute(ROWS), "42501")
        cursor.execute("ROLLBACK TO a")
        cursor.execute(ANSWER)
        answered(cursor.fetchall())
    other.commit()
    other.set_session(isolation_level="SERIALIZABLE", readonly=True)
    with other.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        assert cursor.fetchone() == ("serializable",)
    other.close()


def errors():
    assert isinstance(raises(lambda: ask(REFUSED), "42703"), psycopg2.errors.UndefinedColumn)
    refusal = raises(lambda: ask(ROWS), "42501")
    assert "Aggregate: SELECT" in (refusal.diag.message_primary or "")
    assert ask("SELECT 1") == [(1,)]


def catalog():
    sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1"
    assert ask(sql) == [("people",), ("shops",), ("visits",)]


def copy():
    target = io.StringIO()
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY ({ANSWER}) TO STDOUT (FORMAT csv, HEADER)", target)
    lines = target.getvalue().splitlines()
    assert lines[0] == "region,n,h" and len(lines) == 5


def cancel():
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    raises(lambda: ask("SELECT pg_sleep(20)"), "57014")


run(
    answer=answer,
    types=types,
    parameters=parameters,
    prepared=prepared,
    paging=paging,
    transactions=transactions,
    errors=errors,
    catalog=catalog,
    copy=copy,
    cancel=cancel,
)
