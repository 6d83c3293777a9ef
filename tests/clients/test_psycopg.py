"""psycopg 3: text and binary, server-side cursors, pipelines, prepared statements, cancel."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types import TypeInfo
from psycopg.types.composite import CompositeInfo, register_composite

from .conftest import REGIONS, Town

BY_REGION = "SELECT region, count(*) AS n FROM people GROUP BY region ORDER BY region"


@pytest.fixture
def connection(town: Town) -> Iterator[Connection]:
    with psycopg.connect(town.dsn, autocommit=True) as opened:
        yield opened


@pytest.mark.skipif(psycopg.pq.version() < 180000, reason="libpq speaks 3.2 since version 18")
def test_protocol_3_2(town: Town) -> None:
    """Longer cancel keys; the new libpq's own way to cancel."""
    with psycopg.connect(f"{town.dsn} min_protocol_version=3.2 max_protocol_version=3.2", autocommit=True) as connection:
        assert connection.execute(BY_REGION).fetchall() == REGIONS
        timer = threading.Timer(0.2, connection.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT pg_sleep(20)")
        timer.join()


@pytest.mark.parametrize("binary", [False, True])
def test_results(connection: Connection, binary: bool) -> None:
    cursor = connection.execute(BY_REGION, binary=binary)
    assert cursor.fetchall() == REGIONS
    assert [(c.name, c.type_code) for c in cursor.description or ()] == [("region", 25), ("n", 20)]
    assert cursor.statusmessage == "SELECT 4"
    row = connection.execute("SELECT avg(income) AS a, sum(income) AS s, count(*) / 3.0 AS q FROM people", binary=binary)
    average, total, quotient = row.fetchone() or ()
    assert isinstance(average, Decimal)
    assert abs(average - 2450) < 1
    assert abs(total - 2_450_000) < 1000
    assert round(quotient, 2) == Decimal("333.33")


PARAMETERS = [
    ("income < %s", 2500, 500),
    ("income < %s", 2500.0, 500),
    ("income < %s", Decimal("2500.00"), 500),
    ("height >= %s", 175.0, 500),
    ("height >= %s", 175, 500),
    ("height < %s", float("inf"), 1000),
    ("height > %s", float("nan"), 0),
    ("region = %s", "east", 250),
    ("region = %s", 'it\'s \\ "odd" é', 0),
    ("region = ANY(%s)", ["east", "west"], 500),
    ("born = ANY(%s::date[])", [dt.date(1950, 1, 1)], 1),
    ("income = ANY((%s)::int8[])", [100, 200], 40),
    ("income = ANY(%s::text[]::numeric[])", ["100", "200.00"], 40),
    ("region = ANY(%s::varchar[])", "{east,west}", 500),
    ("region = ANY(string_to_array(%s, ','))", "east,west", 500),
    ("born <> ALL(%s::date[])", [dt.date(1950, 1, 1)], 999),
    ("height = ANY(string_to_array(%s, ',')::float8[])", "150,151", 40),
    ("height = ANY(%s::float8[])", None, 0),
    ("%s::text[] IS NULL", None, 1000),
    ("%s::text[] IS NULL", [], 0),
    ("%s::text[] IS NOT NULL", ["east", "west"], 1000),
    ("region LIKE '%%' || %s || '%%'", "st", 500),
    ("joined >= timestamp '2020-01-11' - (%s || ' days')::interval", "10", 1000),
    ("joined >= timestamp '2020-01-11' - %s * interval '1 day'", 10.0, 1000),
    ("member = %s", True, 500),
    ("born < %s", dt.date(1950, 1, 21), 1),
    ("joined < %s", dt.datetime(2020, 1, 2), 3),
    ("income < %s", None, 0),
]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(("where", "value", "expected"), PARAMETERS)
def test_parameters(connection: Connection, where: str, value: object, expected: int, binary: bool) -> None:
    condition = where.replace("%s", "%b" if binary and value is not None and not isinstance(value, str) else "%s")
    cursor = connection.execute(f"SELECT count(*) FROM people WHERE {condition}", (value,))
    (count,) = cursor.fetchone() or (None,)
    assert abs(count - expected) <= 1


def test_a_value_that_cannot_be_spelled_costs_nothing(connection: Connection) -> None:
    left = "SELECT epsilon_left FROM dpproxy.budget"
    before = connection.execute(left).fetchone()
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="type date"):
        connection.execute("SELECT count(*) FROM people WHERE born < %s::date", ("infinity",))
    assert connection.execute(left).fetchone() == before


def test_a_parameter_above_the_measurement(connection: Connection) -> None:
    sql = "SELECT region, count(*) + %s AS n, %s::uuid AS u FROM people GROUP BY region HAVING count(*) > %s ORDER BY 1"
    given = uuid.uuid4()
    assert connection.execute(sql, (10, given, 5)).fetchone() == ("east", 260, given)


VALUED = [
    ("date_trunc(%s, joined)", ("quarter",), "GROUP BY 1", 5),
    ("sum(least(income, %s))", (100,), "", 1),
    ("sum(least(income, %s))", (Decimal("99.50"),), "WHERE region = ANY(%s)", 1),
    ("percentile_cont(%s) WITHIN GROUP (ORDER BY income)", (0.5,), "", 1),
    ("width_bucket(income, %s, %s, %s)", (0, 5000, 5), "GROUP BY 1", 7),
    ("count(*) FILTER (WHERE region LIKE %s)", ("%st",), "", 1),
    ("sum(income * %s + %s)", (2, 1), "", 1),
    ("count(*) FILTER (WHERE joined > timestamp '2020-06-01' - %s::interval)", (dt.timedelta(days=31),), "", 1),
]


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize(("column", "values", "rest", "expected"), VALUED)
def test_parameters_in_the_place_of_constants(
    connection: Connection, column: str, values: tuple[object, ...], rest: str, expected: int, prepare: bool
) -> None:
    """What only a constant can be is planned at each Bind, and is the answer to the same text with the value in it."""
    sql = f"SELECT {column}, count(*) FROM people {rest}"
    given = (*values, ["east", "it's"]) if "ANY" in rest else values
    answer = connection.execute(sql, given, prepare=prepare).fetchall()
    assert len(answer) == expected
    written = psycopg.ClientCursor(connection).mogrify(sql, given)
    for one, other in zip(sorted(connection.execute(written).fetchall()), sorted(answer), strict=True):
        assert one == other if expected > 1 else one == pytest.approx(other, rel=Decimal("0.01"))


def test_values_that_do_not_help_are_refused_in_their_place_and_free(connection: Connection) -> None:
    left = "SELECT epsilon_left FROM dpproxy.budget"
    before = connection.execute(left).fetchone()
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="would reveal") as caught:
        connection.execute("SELECT %s::int4, string_agg(region, ',') FROM people", (1,))
    assert caught.value.diag.statement_position == str("SELECT $1::int4, s".index(" s") + 2)
    with pytest.raises(psycopg.errors.Error, match="fortnight"):
        connection.execute("SELECT date_trunc(%s, joined) AS t, count(*) FROM people GROUP BY t", ("fortnight",))
    assert connection.execute(left).fetchone() == before


def test_what_no_value_can_mend_is_refused_at_once(connection: Connection) -> None:
    told = connection.pgconn.prepare(b"", b"SELECT region, income FROM people WHERE id = $1")
    assert told.status == psycopg.pq.ExecStatus.FATAL_ERROR
    assert b"answers are aggregates" in told.error_message


def test_a_statement_that_waits_for_values_is_one_like_any_other(connection: Connection) -> None:
    """By name, explained, described before it has values, with other values each time, closed."""
    connection.execute("PREPARE cut AS SELECT sum(least(income, $1)) FROM people")
    sums = [connection.execute(f"EXECUTE cut({n})").fetchone() or (0,) for n in (100, 200)]
    assert sums[0][0] < sums[1][0]
    connection.execute("DEALLOCATE cut")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.execute("EXECUTE cut(100)")
    plan = connection.execute("EXPLAIN SELECT sum(least(income, %s)) FROM people", (100,)).fetchall()
    assert any("sum(least(income" in line for (line,) in plan)
    described = connection.pgconn.prepare(b"s", b"SELECT date_trunc($1, joined) AS t, count(*) FROM people GROUP BY t")
    assert described.status == psycopg.pq.ExecStatus.COMMAND_OK
    told = connection.pgconn.describe_prepared(b"s")
    assert (told.param_type(0), told.ftype(0), told.ftype(1)) == (25, 1114, 20)
    for unit, groups in ((b"year", 2), (b"quarter", 5), (b"year", 2)):
        answer = connection.pgconn.exec_prepared(b"s", [unit])
        assert (answer.error_message, answer.ntuples) == (b"", groups)
    assert connection.pgconn.exec_(b"DEALLOCATE ALL").status == psycopg.pq.ExecStatus.COMMAND_OK


def test_names_of_outputs_where_postgresql_has_none(connection: Connection) -> None:
    """In a simple query, with parameters, prepared, and by a cursor of the server."""
    sql = "SELECT region, count(*) AS n FROM people GROUP BY region HAVING n > 5 ORDER BY CASE WHEN n > 0 THEN 0 END, region"
    plain = connection.execute(sql).fetchall()
    assert len(plain) > 1
    assert connection.execute(sql.replace("n > 5", "n > %s"), (5,)).fetchall() == plain
    assert connection.execute(sql, prepare=True).fetchall() == plain
    with connection.transaction(), connection.cursor("c") as cursor:
        assert cursor.execute(sql).fetchall() == plain


def test_prepared_statements_pay_once(connection: Connection) -> None:
    def spent() -> Decimal:
        (value,) = connection.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchone() or (None,)
        return Decimal(value)

    connection.execute(BY_REGION)
    before = spent()
    for _ in range(8):
        assert connection.execute(BY_REGION, prepare=True).fetchall() == REGIONS
    assert spent() == before


def test_prepared_statements_pay_at_each_execution_where_nothing_is_reused(connection: Connection) -> None:
    def spent() -> Decimal:
        (value,) = connection.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchone() or (None,)
        return Decimal(value)

    connection.execute("SET dpproxy.reuse = off")
    before = spent()
    for _ in range(8):
        assert connection.execute(BY_REGION, prepare=True).fetchall() == REGIONS
    assert 0 < spent() - before <= 8000


def test_explain(connection: Connection) -> None:
    lines = connection.execute("EXPLAIN " + BY_REGION.replace("GROUP", "WHERE income < %s GROUP"), (9,)).fetchall()
    assert "charge epsilon=1000" in lines[0][0]


def test_transactions(connection: Connection) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL dpproxy.epsilon = 700")
        assert connection.execute("SHOW dpproxy.epsilon").fetchone() == ("700",)
        assert connection.execute(BY_REGION).fetchall() == REGIONS
        with pytest.raises(psycopg.errors.UndefinedColumn), connection.transaction():
            connection.execute("SELECT nope FROM people")
        assert connection.execute(BY_REGION).fetchall() == REGIONS
        with pytest.raises(psycopg.Error), connection.transaction():
            connection.execute("SELECT * FROM people")
        assert connection.execute(BY_REGION).fetchall() == REGIONS
    assert connection.execute("SHOW dpproxy.epsilon").fetchone() == ("1000",)


def test_the_status_is_told(connection: Connection) -> None:
    connection.autocommit = False
    connection.execute(BY_REGION)
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT * FROM people")
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute(BY_REGION)
    connection.rollback()
    assert connection.execute(BY_REGION).fetchall() == REGIONS


@pytest.mark.parametrize("parameters", [(), (5000,)])
def test_server_side_cursors(connection: Connection, parameters: tuple[int, ...]) -> None:
    sql = BY_REGION.replace("GROUP", "WHERE income < %s GROUP") if parameters else BY_REGION
    with connection.transaction(), connection.cursor("named") as cursor:
        cursor.itersize = 2
        cursor.execute(sql, parameters)
        assert list(cursor) == REGIONS


def test_pipeline(connection: Connection) -> None:
    with connection.pipeline():
        one = connection.execute("SELECT 1")
        two = connection.execute(BY_REGION)
        three = connection.execute("SELECT name FROM shops WHERE id = %s", (2,))
    assert (one.fetchone(), two.fetchall(), three.fetchone()) == ((1,), REGIONS, ("b's",))
    with pytest.raises(psycopg.errors.UndefinedColumn), connection.pipeline():
        [connection.execute(sql) for sql in ("SELECT 1", "SELECT nope FROM people", BY_REGION)]
    assert connection.execute(BY_REGION).fetchall() == REGIONS


def test_copy_out(connection: Connection) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY ({BY_REGION}) TO STDOUT") as copy:
        assert list(copy.rows()) == [(region, str(n)) for region, n in REGIONS]


def test_copy_into_a_temp_table(connection: Connection) -> None:
    connection.execute("CREATE TEMP TABLE mine (x int)")
    with connection.cursor() as cursor, cursor.copy("COPY mine FROM STDIN") as copy:
        for i in range(5):
            copy.write_row((i,))
    assert connection.execute("SELECT count(*) FROM mine").fetchone() == (5,)
    assert connection.execute(BY_REGION).fetchall() == REGIONS


def test_types_are_looked_up(connection: Connection) -> None:
    """The row type of a table has the columns the policy shows, and no other."""
    shops = CompositeInfo.fetch(connection, "shops")
    assert shops is not None
    assert tuple(shops.field_names) == ("id", "name", "opened")
    register_composite(shops, connection)
    (shop,) = connection.execute("SELECT s FROM shops AS s WHERE id = 2").fetchone() or (None,)
    assert (shop.id, shop.name, shop.opened) == (2, "b's", None)
    people = CompositeInfo.fetch(connection, "people")
    assert people is not None
    assert "email" not in people.field_names
    assert TypeInfo.fetch(connection, "hstore") is None


def test_executemany_and_row_factories(connection: Connection) -> None:
    with connection.cursor(row_factory=dict_row) as cursor:
        sql = "SELECT count(*) AS n FROM people WHERE region = %s"
        cursor.executemany(sql, [("east",), ("west",)], returning=True)
        assert cursor.fetchone() == {"n": 250}
        cursor.nextset()
        assert cursor.fetchone() == {"n": 250}


def test_notices_reach_the_client(connection: Connection) -> None:
    heard: list[str] = []
    connection.add_notice_handler(lambda diagnostic: heard.append(diagnostic.message_primary or ""))
    connection.execute("SET dpproxy.reuse = off")
    connection.execute(BY_REGION)
    assert len(heard) == 1
    assert heard[0].startswith("charged epsilon 1000;")


def test_errors_are_classes(connection: Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        connection.execute("SELECT * FROM nowhere")
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1/0")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        connection.execute("SELECT count(*) FROM people WHERE id = %s::int", ("five",))


def test_budget_of_a_poor_role(town: Town) -> None:
    with psycopg.connect(town.dsn.replace("user=ada", "user=poor"), autocommit=True) as poor:
        poor.execute("SELECT count(*) FROM people")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            poor.execute("SELECT count(*) FROM people WHERE member")
        with pytest.raises(psycopg.errors.UndefinedTable):
            poor.execute("SELECT * FROM shops")
        with pytest.raises(psycopg.Error):
            poor.execute("SELECT count(*) FROM visits")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            poor.execute("CREATE TEMP TABLE t (x int)")
        assert poor.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchone() == (Decimal("0.6"),)


def test_cancel(connection: Connection) -> None:
    timer = threading.Timer(0.3, connection.cancel)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute("SELECT pg_sleep(30)")
    assert connection.execute(BY_REGION).fetchall() == REGIONS


def test_many_sessions_at_once(town: Town) -> None:
    found: list[object] = []

    def work() -> None:
        with psycopg.connect(town.dsn, autocommit=True) as mine:
            for _ in range(3):
                found.append(mine.execute(BY_REGION).fetchall())

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [REGIONS] * 30


def test_previews(town: Town) -> None:
    """A role that has them gets invented rows, told as such, the same ones whatever the way they are asked for."""
    notices: list[str] = []
    with psycopg.connect(town.dsn.replace("user=ada", "user=bo")) as bo:
        bo.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
        bo.execute("SET dpproxy.notices = off")
        first = bo.execute("SELECT * FROM people LIMIT 3").fetchall()
        assert len(first) == 3
        assert {row[1] for row in first} <= {"east", "north", "south", "west"}
        assert bo.execute("SELECT * FROM people LIMIT %s", (3,)).fetchall() == first
        with bo.cursor("preview") as cursor:
            assert cursor.execute("SELECT * FROM people").fetchmany(3) == first
        with bo.cursor().copy("COPY (SELECT id, region FROM people LIMIT 3) TO STDOUT") as copy:
            assert [(int(key), region) for key, region in copy.rows()] == [row[:2] for row in first]
        assert len(notices) == 4
        assert all("invented" in told for told in notices)
        with pytest.raises(psycopg.Error, match="rows of single persons"):
            bo.execute("SELECT 1 FROM people WHERE id = 5 LIMIT 1")
        bo.rollback()
        asked = bo.execute("SELECT epsilon, outcome FROM dpproxy.answers WHERE outcome = 'preview'").fetchall()
        assert asked == [(0, "preview")] * 4


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    ("asked", "values", "plain"),
    [
        ("date_trunc(%s::varchar, joined)", ["month"], "date_trunc('month', joined)"),
        ("to_char(joined, %s::varchar || '-MM')", ["YYYY"], "to_char(joined, 'YYYY-MM')"),
        ("substring(region FROM %s)", ["^."], "substring(region FROM '^.')"),
        ("width_bucket(income, %s)", [[1000, 2000]], "width_bucket(income, ARRAY[1000, 2000])"),
        ("lpad(region, %s::int, %s::varchar)", [7, "*"], "lpad(region, 7, '*')"),
    ],
)
def test_typed_parameters_are_constants(
    connection: Connection, asked: str, values: list[object], plain: str, binary: bool
) -> None:
    query = "SELECT {}, count(*) FROM people GROUP BY 1 ORDER BY 1"
    expected = connection.execute(query.format(plain)).fetchall()
    assert connection.execute(query.format(asked), values, binary=binary).fetchall() == expected
