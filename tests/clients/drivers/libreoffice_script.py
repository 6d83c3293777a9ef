"""LibreOffice Base's own driver for PostgreSQL, through an office without a window: UNO's sdbc interfaces, as Base uses them."""

import subprocess
import tempfile
import time
from pathlib import Path

import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.sdbc import SQLException

from checks import ANSWER, EAST_AND_SHORT, answered, close, environment, run, version

host, port, user, password, database = environment("HOST", "PORT", "USER", "PASSWORD", "DATABASE")
home = tempfile.TemporaryDirectory(prefix="dpproxy-office-")
pipe = f"dpproxy{Path(home.name).name.replace('-', '')}"
office = subprocess.Popen(
    [
        "soffice",
        "--headless",
        "--norestore",
        "--nologo",
        f"-env:UserInstallation=file://{home.name}",
        f"--accept=pipe,name={pipe};urp;",
    ],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)


def reached():
    """The office's services, once it listens."""
    resolver = uno.getComponentContext().ServiceManager.createInstance("com.sun.star.bridge.UnoUrlResolver")
    deadline = time.monotonic() + 240
    while True:
        try:
            return resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
        except Exception:
            if time.monotonic() > deadline or office.poll() is not None:
                raise
            time.sleep(0.2)


def setting(name, value):
    found = PropertyValue()
    found.Name, found.Value = name, value
    return found


context = reached()
manager = context.ServiceManager.createInstanceWithContext("com.sun.star.sdbc.DriverManager", context)
url = f"sdbc:postgresql:host={host} port={port} dbname={database}"
town = manager.getConnectionWithInfo(url, (setting("user", user), setting("password", password)))
product = context.ServiceManager.createInstanceWithContext("com.sun.star.configuration.ConfigurationProvider", context)
setup = product.createInstanceWithArguments(
    "com.sun.star.configuration.ConfigurationAccess", (setting("nodepath", "/org.openoffice.Setup/Product"),)
)
version(str(setup.getByName("ooSetupVersionAboutBox")))


def rows(result, width):
    found = []
    while result.next():
        found.append([result.getString(i) for i in range(1, width + 1)])
    return found


def asked(sql, width=1):
    return rows(town.createStatement().executeQuery(sql), width)


def answer():
    answered([(region, float(n), float(mean)) for region, n, mean in asked(ANSWER, 3)])


def types():
    result = town.createStatement().executeQuery("SELECT id, name, opened FROM shops ORDER BY id")
    assert result.next()
    assert (result.getLong(1), result.getString(2)) == (1, "Łódź")
    day = result.getDate(3)
    assert (day.Year, day.Month, day.Day) == (2001, 1, 1)
    assert result.next() and result.getDate(3).Year == 0 and result.wasNull()


def parameters():
    prepared = town.prepareStatement("SELECT count(*) FROM people WHERE region = ? AND height < ?")
    prepared.setString(1, "east")
    prepared.setLong(2, 160)
    assert close(float(rows(prepared.executeQuery(), 1)[0][0]), EAST_AND_SHORT)


def transactions():
    town.setAutoCommit(False)
    assert close(float(asked("SELECT count(*) FROM people")[0][0]), 1000, 3)
    town.rollback()
    town.setAutoCommit(True)


def errors():
    """The driver hands on PostgreSQL's words, and no SQLSTATE."""
    refused = "ERROR:  answers are aggregates over many persons", 'ERROR:  column "email" does not exist'
    for sql, words in zip(("SELECT * FROM people WHERE id = 5", "SELECT email FROM people"), refused, strict=True):
        try:
            asked(sql)
        except SQLException as error:
            assert words in error.Message, error.Message
        else:
            raise AssertionError(sql)


def catalog():
    data = town.getMetaData()
    names = [row[2] for row in rows(data.getTables(None, "public", "%", ("TABLE", "VIEW")), 3)]
    assert {"people", "shops", "visits"} <= set(names), names
    columns = [row[3] for row in rows(data.getColumns(None, "public", "people", "%"), 4)]
    assert "region" in columns and "email" not in columns, columns
    keys = [row[3] for row in rows(data.getPrimaryKeys(None, "public", "shops"), 4)]
    assert keys == ["id"], keys


def previews():
    """A table that is opened is read whole."""
    assert len(asked("SELECT * FROM public.people", 3)) == 100


try:
    run(
        answer=answer,
        types=types,
        parameters=parameters,
        transactions=transactions,
        errors=errors,
        previews=previews,
        catalog=catalog,
    )
finally:
    town.close()
    office.terminate()
    office.wait(60)
    home.cleanup()
