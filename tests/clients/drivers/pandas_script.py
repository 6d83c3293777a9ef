"""pandas by SQLAlchemy: whole results, chunks, parameters, dates, categories of a report."""

import pandas as pd
import sqlalchemy as sa

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, raises, run, version

version(pd.__version__)
host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
engine = sa.create_engine(sa.URL.create("postgresql+psycopg2", user, password, host, int(port), database))


def answer():
    answered(pd.read_sql(ANSWER, engine).itertuples(index=False))
    frame = pd.read_sql("SELECT region, member, count(*) AS n FROM people GROUP BY 1, 2", engine)
    assert close(frame.pivot_table(index="region", columns="member", values="n", aggfunc="sum").to_numpy().sum(), 1000, 8)


def types():
    sql = "SELECT date_trunc('month', joined) AS month, sum(income) AS income, count(*) AS n FROM people GROUP BY 1 ORDER BY 1"
    frame = pd.read_sql(sql, engine, parse_dates=["month"])
    assert frame["month"].dt.year.unique().tolist() == [2020, 2021] and len(frame) == 13
    assert frame["n"].dtype == "int64"


def parameters():
    sql = sa.text("SELECT count(*) AS n FROM people WHERE region = :region AND height < :height")
    assert close(pd.read_sql(sql, engine, params={"region": "east", "height": 160})["n"][0], EAST_AND_SHORT)


def paging():
    with engine.connect().execution_options(stream_results=True) as connection:
        chunks = list(pd.read_sql(ANSWER, connection, chunksize=3))
    assert [len(c) for c in chunks] == [3, 1]


def errors():
    raises(lambda: pd.read_sql("SELECT * FROM people", engine), "42501")


def catalog():
    assert len(pd.read_sql_table("shops", engine)) == 3


run(answer=answer, types=types, parameters=parameters, paging=paging, errors=errors, catalog=catalog)
