"""polars through ADBC (COPY in binary) and through connectorx; ADBC itself."""

import os

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import polars as pl

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, run, version

version(pl.__version__)
host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
uri = f"postgresql://{user}:{password.replace(' ', '%20')}@{host}:{port}/{database}"


def answer():
    answered(pl.read_database_uri(ANSWER, uri, engine="adbc").rows())


def types():
    sql = "SELECT member, born, income FROM people_by_nobody"
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(sql)
            raise AssertionError("no error")
        except adbc_driver_manager.Error as error:
            assert error.sqlstate == "42P01", error.sqlstate
    frame = pl.read_database_uri("SELECT member, min(joined) AS j, count(*) AS n FROM people GROUP BY 1", uri, engine="adbc")
    assert [str(t) for t in frame.dtypes] == ["Boolean", "Datetime(time_unit='us', time_zone=None)", "Int64"], frame.dtypes


def parameters():
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM people WHERE region = $1 AND height < $2", ("east", 160.0))
        assert close(cursor.fetchone()[0], EAST_AND_SHORT)


def transactions():
    with adbc.connect(uri) as connection:
        with connection.cursor() as cursor:
            cursor.execute(ANSWER)
            answered(cursor.fetchall())
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute(ANSWER)
        connection.commit()


def errors():
    with adbc.connect(uri) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SELECT * FROM people")
            cursor.fetchall()
            raise AssertionError("no error")
        except adbc_driver_manager.Error as error:
            assert error.sqlstate == "42501", error.sqlstate
        connection.rollback()
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def catalog():
    with adbc.connect(uri) as connection:
        found = connection.adbc_get_objects(depth="tables", db_schema_filter="public").read_all().to_pylist()
        names = [t["table_name"] for c in found for s in c["catalog_db_schemas"] or () for t in s["db_schema_tables"] or ()]
        assert set(names) >= {"people", "shops", "visits"}, names
        schema = connection.adbc_get_table_schema("people", db_schema_filter="public")
        assert "region" in schema.names and "email" not in schema.names


run(answer=answer, types=types, parameters=parameters, transactions=transactions, errors=errors, catalog=catalog)
os._exit(0)
