"""SQLAlchemy 2: Core, ORM and the inspector, over the DB-API driver named on the command line."""

import datetime as dt
import sys

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from checks import EAST_AND_SHORT, answered, close, environment, raises, run, version

driver = sys.argv[1]
host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(sa.__version__)
url = sa.URL.create(f"postgresql+{driver}", user, password, host, int(port), database)
engine = sa.create_engine(url, pool_pre_ping=True)


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "people"
    id: Mapped[int] = mapped_column(primary_key=True)
    region: Mapped[str]
    height: Mapped[float]
    born: Mapped[dt.date]


class Shop(Base):
    __tablename__ = "shops"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


BY_REGION = sa.select(Person.region, sa.func.count().label("n"), sa.func.avg(Person.height)).group_by(Person.region)


def answer():
    with engine.connect() as connection:
        answered(connection.execute(BY_REGION.order_by(Person.region)))
        assert engine.dialect.server_version_info >= (14,)


def types():
    with Session(engine) as session:
        shops = session.scalars(sa.select(Shop).order_by(Shop.id)).all()
        assert [s.name for s in shops] == ["Łódź", "b's", "c"]
        year = sa.extract("year", Person.born)
        assert session.execute(sa.select(year, sa.func.count()).group_by(year).order_by(year).limit(2)).first()[0] == 1950


def parameters():
    sql = sa.select(sa.func.count()).select_from(Person).where(Person.region == "east", Person.height < 160)
    with engine.connect() as connection:
        assert close(connection.scalar(sql), EAST_AND_SHORT)
        several = sa.select(sa.func.count()).select_from(Person).where(Person.region.in_(["east", "west"]))
        assert close(connection.scalar(several), 500)
        between = several.where(Person.born.between(dt.date(1900, 1, 1), dt.date(2010, 1, 1)))
        assert close(connection.scalar(between), 500)


def paging():
    with engine.connect() as connection:
        found = connection.execution_options(stream_results=True, max_row_buffer=2).execute(BY_REGION)
        assert len(found.fetchmany(3)) == 3
        assert len(found.fetchall()) == 1


def transactions():
    with engine.connect() as connection:
        raises(lambda: connection.execute(sa.select(Person)), "42501")
        connection.rollback()
        with connection.begin():
            answered(connection.execute(BY_REGION.order_by(Person.region)))
            nested = connection.begin_nested()
            raises(lambda: connection.execute(sa.select(Person)), "42501")
            nested.rollback()
            assert connection.scalar(sa.text("SELECT 1")) == 1


def errors():
    with engine.connect() as connection:
        raises(lambda: connection.execute(sa.text("SELECT email FROM people")), "42703")
        connection.rollback()
        with Session(engine) as session:
            raises(lambda: (session.add(Shop(id=9, name="x")), session.flush()), "42501")


def catalog():
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["people", "shops", "visits"]
    columns = {c["name"]: str(c["type"]) for c in inspector.get_columns("people")}
    assert columns["region"] == "TEXT" and columns["income"].startswith("NUMERIC") and "email" not in columns, columns
    assert inspector.get_pk_constraint("people")["constrained_columns"] == ["id"]
    assert inspector.get_foreign_keys("visits")[0]["referred_table"] == "people"
    assert isinstance(inspector.get_indexes("people"), list)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    assert set(metadata.tables) == {"people", "shops", "visits"}


run(answer=answer, types=types, parameters=parameters, paging=paging, transactions=transactions, errors=errors, catalog=catalog)
