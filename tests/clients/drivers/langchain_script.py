"""LangChain's SQLDatabase: what it tells a language model of tables, with sample rows, and what it runs for one."""

from importlib.metadata import version as version_of

from langchain_community.utilities import SQLDatabase
from sqlalchemy import URL

from checks import environment, raises, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(version_of("langchain-community"))
url = URL.create("postgresql+psycopg2", user, password, host, int(port), database)
town = SQLDatabase.from_uri(url, sample_rows_in_table_info=3)


def answer():
    said = town.run("SELECT region, count(*) > 200 AS many FROM people GROUP BY region ORDER BY region")
    assert said == "[('east', True), ('north', True), ('south', True), ('west', True)]", said


def parameters():
    assert town.run("SELECT count(*) > 200 FROM people WHERE region = :r", parameters={"r": "east"}) == "[(True,)]"


def errors():
    raises(lambda: town.run("SELECT * FROM people WHERE id = 5"), "42501", "0A000")
    said = town.run_no_throw("SELECT email FROM people")
    assert 'column "email" does not exist' in said, said


def previews():
    told = town.get_table_info(["people"])
    assert "3 rows from people table" in told and told.count("\n") > 12, told
    assert town.run("SELECT * FROM people LIMIT 5", include_columns=True).count("'region': ") == 5


def catalog():
    assert set(town.get_usable_table_names()) == {"people", "shops", "visits"}
    told = town.get_table_info()
    assert "FOREIGN KEY(person) REFERENCES people (id)" in told and "email" not in told, told


run(answer=answer, parameters=parameters, errors=errors, previews=previews, catalog=catalog)
