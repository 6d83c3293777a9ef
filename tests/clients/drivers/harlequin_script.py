"""Harlequin, a terminal IDE: its PostgreSQL adapter, and the program itself driven key by key without a terminal."""

import asyncio
from importlib.metadata import version as version_of

from harlequin import Harlequin
from harlequin.components import ResultsViewer
from harlequin_postgres.adapter import HarlequinPostgresAdapter

from checks import answered, environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(version_of("harlequin"))


def adapter():
    return HarlequinPostgresAdapter(conn_str=(f"host={host} port={port} user={user} password='{password}' dbname={database}",))


def fetched(sql):
    return adapter().connect().execute(sql).fetchall()


def answer():
    answered(fetched("SELECT region, count(*) AS n, avg(height) AS h FROM people GROUP BY region ORDER BY region"))


def errors():
    try:
        fetched("SELECT * FROM people WHERE id = 5")
    except Exception as error:
        assert "rows of single persons" in str(error), error
    else:
        raise AssertionError("no error")


def previews():
    assert len(fetched("SELECT * FROM people LIMIT 7")) == 7


def catalog():
    (database_item,) = adapter().connect().get_catalog().items
    schemas = {item.label: item for item in database_item.fetch_children()}
    assert {"public", "dpproxy"} <= set(schemas), schemas
    tables = {item.label: item for item in schemas["public"].fetch_children()}
    assert {"people", "shops", "visits"} <= set(tables)
    assert "email" not in [column.label for column in tables["people"].fetch_children()]


def paging():
    """The program: a query is typed into its editor and run; its table shows the rows."""
    asyncio.run(asyncio.wait_for(shown("SELECT region, count(*) FROM people GROUP BY 1"), 120))


async def shown(query):
    app = Harlequin(adapter(), connection_hash=None)
    async with app.run_test(size=(120, 40)) as pilot:
        while app.editor is None:
            await pilot.pause()
        app.editor.text = query
        await pilot.press("ctrl+j")
        for _ in range(300):
            await pilot.pause(0.1)
            table = app.query_one(ResultsViewer).get_visible_table()
            if table is not None and table.row_count == 4:
                return
        raise AssertionError("no rows were shown")


run(answer=answer, errors=errors, previews=previews, catalog=catalog, paging=paging)
