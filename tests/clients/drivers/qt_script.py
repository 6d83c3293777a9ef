"""Qt: QtSql's PostgreSQL driver, queries and a table model. The driver sets client_encoding to UNICODE when it connects."""

import PySide6
from PySide6.QtCore import QCoreApplication
from PySide6.QtSql import QSqlDatabase, QSqlQuery, QSqlQueryModel, QSqlTableModel

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
version(PySide6.__version__)
application = QCoreApplication([])
town = QSqlDatabase.addDatabase("QPSQL")
town.setHostName(host)
town.setPort(int(port))
town.setUserName(user)
town.setPassword(password)
town.setDatabaseName(database)
assert town.open(), town.lastError().text()


def rows(query, width):
    found = []
    while query.next():
        found.append([query.value(i) for i in range(width)])
    return found


def asked(sql, width=1):
    query = QSqlQuery(town)
    assert query.exec(sql), query.lastError().text()
    return rows(query, width)


def answer():
    answered(asked(ANSWER, 3))
    model = QSqlQueryModel()
    model.setQuery(ANSWER, town)
    assert (model.rowCount(), model.columnCount()) == (4, 3), model.lastError().text()


def types():
    assert asked("SHOW client_encoding") == [["UNICODE"]]
    assert [row[1] for row in asked("SELECT id, name FROM shops ORDER BY id", 2)] == ["Łódź", "b's", "c"]
    assert asked("SELECT max(born) > '1950-01-01'::date, count(*)::int4 FROM people WHERE region <> 'Łódź'", 2)[0][0] is True


def parameters():
    query = QSqlQuery(town)
    query.prepare("SELECT count(*) FROM people WHERE region = :region AND height < :height")
    query.bindValue(":region", "east")
    query.bindValue(":height", 160)
    assert query.exec(), query.lastError().text()
    assert close(rows(query, 1)[0][0], EAST_AND_SHORT)


def paging():
    query = QSqlQuery(town)
    query.setForwardOnly(True)
    assert query.exec(ANSWER), query.lastError().text()
    assert len(rows(query, 3)) == 4


def transactions():
    assert town.transaction()
    assert close(asked("SELECT count(*) FROM people")[0][0], 1000, 3)
    assert town.rollback()


def errors():
    query = QSqlQuery(town)
    assert not query.exec("SELECT * FROM people WHERE id = 5")
    assert query.lastError().nativeErrorCode() in ("42501", "0A000"), query.lastError().text()
    assert not query.exec("SELECT email FROM people")
    assert query.lastError().nativeErrorCode() == "42703"


def previews():
    """A table model reads all of its table."""
    model = QSqlTableModel(db=town)
    model.setTable("people")
    assert model.select() and model.rowCount() == 100, model.lastError().text()


def catalog():
    assert {"people", "shops", "visits"} <= {name.removeprefix("public.") for name in town.tables()}, town.tables()
    record = town.record("people")
    assert record.contains("region") and not record.contains("email")
    assert town.primaryIndex("people").fieldName(0) == "id"


run(
    answer=answer, types=types, parameters=parameters, paging=paging, transactions=transactions, errors=errors,
    previews=previews, catalog=catalog,
)  # fmt: skip
