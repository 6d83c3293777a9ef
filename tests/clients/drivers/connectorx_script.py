"""connectorx: Rust, binary COPY or cursors, a probe with LIMIT 1 before each query."""

import connectorx as cx
import polars as pl

from checks import ANSWER, answered, environment, run, version

version(cx.__version__ if hasattr(cx, "__version__") else "?")
host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
uri = f"postgresql://{user}:{password.replace(' ', '%20')}@{host}:{port}/{database}"


def by(protocol):
    table = cx.read_sql(uri, ANSWER, protocol=protocol, return_type="arrow")
    answered(zip(*(column.to_pylist() for column in table.columns), strict=True))


def answer():
    by("binary")
    answered(pl.read_database_uri(ANSWER, uri, engine="connectorx").rows())


def paging():
    by("cursor")


def types():
    by("csv")


def errors():
    try:
        cx.read_sql(uri, "SELECT * FROM people", return_type="arrow")
    except Exception as error:
        assert "aggregate" in str(error) or "people" in str(error), error
    else:
        raise AssertionError("no error")


run(answer=answer, types=types, paging=paging, errors=errors)
