"""DuckDB's postgres extension: its own binary COPY of each query, catalogs read at ATTACH, tables scanned by ctid."""

from pathlib import Path

import duckdb
import duckdb_extension_postgres_scanner

from checks import ANSWER, EAST_AND_SHORT, answered, close, run, version

version(duckdb.__version__)
db = duckdb.connect()
extension = next(Path(duckdb_extension_postgres_scanner.__path__[0]).rglob("*.duckdb_extension"))
db.execute(f"LOAD '{extension}'")
db.execute("ATTACH '' AS pg (TYPE postgres, READ_ONLY)")


def asked(sql):
    return db.execute("SELECT * FROM postgres_query('pg', $1)", [sql]).fetchall()


def answer():
    answered(asked(ANSWER))
    by_region = "SELECT region, n, h FROM postgres_query('pg', $1) WHERE n > 0 ORDER BY h, region"
    assert len(db.execute(by_region, [ANSWER]).fetchall()) == 4


def parameters():
    [[count]] = asked("SELECT count(*) FROM people WHERE region = 'east' AND height < 160")
    assert close(count, EAST_AND_SHORT, 3), count


def types():
    rows = db.execute("SELECT * FROM pg.shops ORDER BY ALL").fetchall()
    assert rows and rows == asked("SELECT * FROM shops ORDER BY 1, 2"), rows


def transactions():
    db.execute("BEGIN")
    answered(asked(ANSWER))
    db.execute("COMMIT")


def errors():
    for sql in ("SELECT * FROM pg.people", "SELECT * FROM postgres_query('pg', 'SELECT email FROM people')"):
        try:
            db.execute(sql).fetchall()
        except duckdb.Error as error:
            assert "people" in str(error) or "aggregate" in str(error) or "email" in str(error), error
        else:
            raise AssertionError("no error")
    answered(asked(ANSWER))


def catalog():
    tables = {name for (name,) in db.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'pg'").fetchall()}
    assert {"people", "shops"} <= tables, tables


run(answer=answer, parameters=parameters, types=types, transactions=transactions, errors=errors, catalog=catalog)
