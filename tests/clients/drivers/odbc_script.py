"""psqlODBC through pyodbc, in the mode named on the command line: `plain`, or `fetch` for UseDeclareFetch."""

import datetime as dt
import decimal
import os
import sys

import pyodbc

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
mode = "UseDeclareFetch=1;Fetch=2" if sys.argv[1] == "fetch" else "UseDeclareFetch=0"
text = f"Driver={os.environ['PSQLODBC']};Server={host};Port={port};Database={database};Uid={user};Pwd={{{password}}};{mode}"
connection = pyodbc.connect(text, autocommit=True)
version(connection.getinfo(pyodbc.SQL_DRIVER_VER))


def ask(sql, *parameters, on=None):
    return (on or connection).cursor().execute(sql, *parameters).fetchall()


def answer():
    answered(ask(ANSWER))


def types():
    ((total, mean, when),) = ask("SELECT sum(income), avg(height), max(joined) FROM people")
    assert isinstance(total, decimal.Decimal) and isinstance(mean, float) and isinstance(when, dt.datetime)
    assert ask("SELECT opened FROM shops ORDER BY id")[0][0] == dt.date(2001, 1, 1)


def parameters():
    sql = "SELECT count(*) FROM people WHERE region = ? AND height < ?"
    assert close(ask(sql, "east", 160.0)[0][0], EAST_AND_SHORT)
    cursor = connection.cursor()
    for region in ("east", "west"):
        assert close(cursor.execute("SELECT count(*) FROM people WHERE region = ?", region).fetchone()[0], 250)


def paging():
    cursor = connection.cursor().execute(ANSWER)
    assert len(cursor.fetchmany(3)) == 3 and len(cursor.fetchmany(3)) == 1


def transactions():
    other = pyodbc.connect(text, autocommit=False)
    answered(ask(ANSWER, on=other))
    refused("SELECT * FROM people", "42501", other)
    other.rollback()
    answered(ask(ANSWER, on=other))
    other.commit()
    other.close()


def refused(sql, code, on=None):
    try:
        ask(sql, on=on)
    except pyodbc.Error as error:
        assert error.args[0] == code, error
    else:
        raise AssertionError("no error")


def errors():
    refused("SELECT * FROM people", "42501")
    refused("SELECT email FROM people", "42703")
    answered(ask(ANSWER))


def catalog():
    cursor = connection.cursor()
    assert {"people", "shops", "visits"} <= {row.table_name for row in cursor.tables(schema="public")}
    columns = {row.column_name for row in cursor.columns(table="people")}
    assert "region" in columns and "email" not in columns
    assert [row.column_name for row in cursor.primaryKeys("people")] == ["id"]


run(answer=answer, types=types, parameters=parameters, paging=paging, transactions=transactions, errors=errors, catalog=catalog)
