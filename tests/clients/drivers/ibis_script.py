"""ibis: expressions over tables of a PostgreSQL backend."""

import ibis

from checks import EAST_AND_SHORT, answered, close, environment, raises, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(ibis.__version__)
town = ibis.postgres.connect(host=host, port=int(port), user=user, password=password, database=database)
people, visits = town.table("people"), town.table("visits")


def answer():
    found = people.group_by("region").agg(n=people.count(), h=people.height.mean()).order_by("region").execute()
    answered(found.itertuples(index=False))
    joined = visits.join(people, visits.person == people.id).filter(people.region == "east").visit.count().execute()
    assert joined > 400, joined


def types():
    shops = town.table("shops").order_by("id").execute()
    assert list(shops["name"]) == ["Łódź", "b's", "c"]
    years = people.group_by(year=people.born.year()).agg(n=people.count()).order_by("year").limit(2).execute()
    assert years["year"][0] == 1950, years


def parameters():
    east = people.filter((people.region == "east") & (people.height < 160))
    assert close(east.count().execute(), EAST_AND_SHORT)
    chosen = ibis.param("string")
    assert close(people.filter(people.region == chosen).count().execute(params={chosen: "west"}), 250)


def errors():
    raises(lambda: people.filter(people.region == "east").head(3).execute(), "42501", "0A000")
    raises(lambda: town.raw_sql("SELECT email FROM people"), "42703")


def previews():
    assert len(people.head(3).execute()) == 3
    assert len(people.select("region", twice=people.height * 2).limit(5).to_pyarrow()) == 5


def catalog():
    assert {"people", "shops", "visits"} <= set(town.list_tables())
    assert str(people.schema()["height"]) == "float64" and "email" not in people.schema().names


run(answer=answer, types=types, parameters=parameters, errors=errors, previews=previews, catalog=catalog)
