"""dbt with models that are aggregates: ephemeral, compiled into the queries that use them; shown, tested, documented.

A model that would be stored is refused by name: an analyst's database cannot be written. This file is not called after
dbt, which takes every module of such a name for a plugin.
"""

import json
import os
import tempfile
from importlib.metadata import version as version_of
from pathlib import Path

import psycopg2
from dbt.cli.main import dbtRunner

from checks import answered, close, run, version

PROJECT = Path(__file__).with_name("transform_project")
version(version_of("dbt-postgres"))
scratch = tempfile.TemporaryDirectory()
dbt = dbtRunner()


def invoke(*arguments):
    folders = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target-path", scratch.name]
    return dbt.invoke([*arguments, *folders, "--log-path", scratch.name, "--quiet", "--no-send-anonymous-usage-stats"])


def shown(model):
    done = invoke("show", "--select", model, "--output", "json")
    assert done.success, done.exception or done.result
    return [tuple(row.values()) for row in done.result.results[0].agate_table.rows]


def spent():
    with psycopg2.connect("") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT epsilon_spent FROM dpproxy.budget WHERE scope = 'role'")
        return cursor.fetchone()[0]


def answer():
    answered(sorted(shown("by_region")))
    found = sorted(shown("shops"))
    assert [row[0] for row in found] == ["b's", "c", "Łódź"] and close(found[0][1], 666, 5), found


def prepared():
    """What dbt asks again is free."""
    before = spent()
    answer()
    assert spent() == before


def parameters():
    """Tests of data: each counts what is wrong in a model."""
    done = invoke("test")
    assert done.success and len(done.result.results) == 3, done.exception or done.result


def transactions():
    done = invoke("run", "--exclude", "stored")
    assert done.success, done.exception or done.result


def errors():
    done = invoke("run", "--select", "stored")
    (result,) = done.result.results
    assert not done.success and "private tables" in result.message, result.message


def catalog():
    assert invoke("docs", "generate").success
    nodes = json.loads((Path(scratch.name) / "catalog.json").read_text())["sources"]
    columns = nodes["source.town.public.people"]["columns"]
    assert "region" in columns and "email" not in columns, columns


os.chdir(scratch.name)
run(answer=answer, prepared=prepared, parameters=parameters, transactions=transactions, errors=errors, catalog=catalog)
