"""psql 18 as people use it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

Psql = Callable[..., subprocess.CompletedProcess[str]]
BY_REGION = "SELECT region, count(*) FROM people GROUP BY region ORDER BY region"
LINES = ["east|250", "north|250", "south|250", "west|250"]


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.splitlines()


def test_an_answer_with_its_price(psql: Psql) -> None:
    done = psql(f"SET dpproxy.reuse = off;\n{BY_REGION};")
    assert lines(done) == LINES
    assert "NOTICE:  charged epsilon 1000; role analyst has epsilon" in done.stderr
    assert "NOTICE:  reused, epsilon 0; role analyst has epsilon" in psql(BY_REGION + ";").stderr


def test_the_d_family(psql: Psql) -> None:
    assert "public|people|table|postgres" in lines(psql("\\dt"))
    described = psql("\\d people").stdout
    assert "id|integer||not null|" in described
    assert "email" not in described
    assert "Foreign-key constraints" in psql("\\t off\n\\d visits").stdout
    letters = (
        "a A Ac Af Ao Ap b c C config d ddp D E es et eu ew f F Fd Fp Ft g i l L m n o O p P Pi Pt rds Rp Rs s S t T u v x X y"
    )
    commands = [f"\\d{letter}" for letter in letters.split()]
    commands += ["\\d", "\\d+", "\\dS+ people", "\\d+ shops", "\\dT+", "\\df dpproxy.*", "\\dn+", "\\dt+", "\\dv dpproxy.*"]
    commands += ["\\l", "\\z", "\\sf dpproxy.low", "\\conninfo", "\\encoding", "\\lo_list"]
    done = psql("\n".join(commands))
    assert done.returncode == 0
    assert "ERROR" not in done.stderr, done.stderr
    assert "nrecognized" not in done.stderr, done.stderr
    assert "p1@example.org" not in done.stdout


def test_comments_say_what_the_policy_says(psql: Psql) -> None:
    assert "One of east, north, south, west" in psql("\\d+ people").stdout
    assert "never more than their sum" in psql("\\d+ dpproxy.budget").stdout
    assert "A row for each column that you see" in psql("\\dt+ dpproxy.*").stdout


def test_information_schema_shows_keys(psql: Psql) -> None:
    """By the query that most tools find foreign keys with; and the roles and databases are the session's own."""
    sql = """
        SELECT tc.table_name, kcu.column_name, ccu.table_name, ccu.column_name FROM information_schema.table_constraints AS tc
        JOIN information_schema.key_column_usage AS kcu USING (constraint_schema, constraint_name)
        JOIN information_schema.constraint_column_usage AS ccu USING (constraint_schema, constraint_name)
        JOIN information_schema.referential_constraints AS rc USING (constraint_schema, constraint_name)
        WHERE tc.constraint_type = 'FOREIGN KEY';
    """
    assert lines(psql(sql)) == ["visits|person|people|id"]
    primary = "SELECT table_name FROM information_schema.table_constraints WHERE constraint_type = 'PRIMARY KEY' ORDER BY 1;"
    assert lines(psql(primary)) == ["people", "shops", "visits"]
    assert lines(psql("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY 1;")) == ["analyst@town", "postgres"]
    assert lines(psql("SELECT datname FROM pg_database;")) == ["town"]


def test_the_old_name_of_utf8(psql: Psql) -> None:
    done = psql("SET client_encoding TO 'UNICODE'; SELECT count(*) > 0 FROM people WHERE region <> 'Łódź';")
    assert lines(done) == ["t"], done.stderr


def test_refusals_point_at_their_place(psql: Psql) -> None:
    done = psql("SELECT 1\nFROM people;")
    assert "ERROR:  answers are aggregates over many persons" in done.stderr
    assert "LINE 1: SELECT 1\n" in done.stderr
    assert "this query returns rows of single persons. Aggregate: SELECT count(*)" in done.stderr
    assert "HINT:" not in done.stderr, "the remedy is said once"
    assert 'column "email" does not exist' in psql("SELECT count(email) FROM people;").stderr


def test_explain_spends_nothing(psql: Psql) -> None:
    spent = "SELECT epsilon_spent FROM dpproxy.budget;"
    before = lines(psql(spent))
    done = psql(f"EXPLAIN {BY_REGION};")
    assert "charge epsilon=1000" in done.stdout
    assert lines(psql(spent)) == before


def test_fetch_count(psql: Psql) -> None:
    assert lines(psql(f"\\set FETCH_COUNT 3\n{BY_REGION};")) == LINES


def test_bind(psql: Psql) -> None:
    sql = "SELECT region, count(*) FROM people WHERE income < $1 AND region >= $2 GROUP BY region ORDER BY 1"
    assert lines(psql(f"{sql} \\bind 5000 a \\g")) == LINES
    done = psql(f"{sql} \\parse one\n\\bind_named one 5000 a \\g\n\\bind_named one 5000 a \\g\n\\close_prepared one")
    assert lines(done) == LINES * 2


def test_pipeline(psql: Psql) -> None:
    script = f"\\startpipeline\nSELECT 1 \\bind \\sendpipeline\n{BY_REGION} \\bind \\sendpipeline\nSELECT 2 \\bind "
    assert lines(psql(script + "\\sendpipeline\n\\endpipeline")) == ["1", *LINES, "2"]


def test_copy(psql: Psql) -> None:
    assert lines(psql(f"\\copy ({BY_REGION}) to stdout csv")) == [line.replace("|", ",") for line in LINES]
    assert lines(psql(f"COPY ({BY_REGION}) TO STDOUT;")) == [line.replace("|", "\t") for line in LINES]


def test_gexec_gset_and_watch(psql: Psql) -> None:
    assert lines(psql("SELECT 'SELECT count(*) FROM people' \\gexec")) == ["1000"]
    assert lines(psql("SELECT count(*) AS n FROM people \\gset\n\\echo :n")) == ["1000"]
    assert lines(psql(f"{BY_REGION} LIMIT 1 \\watch c=2 i=0.1")).count(LINES[0]) == 2
    assert lines(psql(f"{BY_REGION} \\gdesc")) == ["region|text", "count|bigint"]


def test_crosstabview(psql: Psql) -> None:
    found = lines(psql("SELECT region, member, count(*) FROM people GROUP BY 1, 2 ORDER BY 1, 2 \\crosstabview"))
    assert found == ["east|0|250", "north|250|0", "south|0|250", "west|250|0"]


def test_cursors_and_transactions(psql: Psql) -> None:
    script = f"BEGIN; DECLARE c SCROLL CURSOR FOR {BY_REGION};\nFETCH 2 FROM c;\nFETCH BACKWARD 1 FROM c;\nCOMMIT;"
    assert lines(psql(script)) == [LINES[0], LINES[1], LINES[0]]
    script = "BEGIN;\nSELECT * FROM people;\nSELECT count(*) FROM people;\nROLLBACK;\nSELECT count(*) FROM people;"
    done = psql(script)
    assert "current transaction is aborted" in done.stderr
    assert lines(done) == ["1000"]


def test_temp_table_as(psql: Psql) -> None:
    script = f"CREATE TEMP TABLE t AS {BY_REGION};\nSELECT sum(count) FROM t;"
    assert lines(psql(script)) == ["1000"]


def test_virtual_tables(psql: Psql) -> None:
    assert lines(psql("SELECT role, scope, epsilon_limit FROM dpproxy.budget;")) == ["analyst|role|100000000"]
    assert "people|region|plain|text|||east, north, south, west|" in lines(psql("TABLE dpproxy.policy;"))
    (visits,) = (line for line in lines(psql("SELECT * FROM dpproxy.tables;")) if line.startswith("visits|"))
    assert visits.startswith("visits|private||3|3|")
    assert "rows whose shop is NULL (`nulls`) or not one of its declared values (`values`)" in visits
    asked = f"SET dpproxy.reuse = off;\n{BY_REGION};\nSET dpproxy.reuse = exact;\n{BY_REGION};\n"
    assert lines(psql(f"{asked}SELECT reused FROM dpproxy.answers LIMIT 2;"))[-2:] == ["t", "f"]
    assert not [line for line in lines(psql("TABLE dpproxy.policy;")) if "email" in line]


def test_public_tables_are_plain(psql: Psql) -> None:
    assert lines(psql("SELECT * FROM shops ORDER BY id;")) == ["1|Łódź|2001-01-01", "2|b's|", "3|c|2003-03-03"]
    joined = "SELECT s.name, count(*) FROM visits v JOIN shops s ON s.id = v.shop GROUP BY s.name ORDER BY s.id;"
    assert psql(joined.replace(" ORDER BY s.id", "")).returncode == 0


def test_settings(psql: Psql) -> None:
    script = "SET dpproxy.epsilon = 500;\nSET dpproxy.reuse = off;\n"
    script += f"SHOW dpproxy.epsilon;\n{BY_REGION};\nRESET dpproxy.epsilon;\nSHOW dpproxy.epsilon;"
    done = psql(script)
    assert lines(done) == ["500", *LINES, "1000"]
    assert "charged epsilon 500;" in done.stderr
    assert "NOTICE" not in psql(f"SET dpproxy.notices = off;\n{BY_REGION};").stderr
    for wrong in ("nonsense", "-1", "1e9", "NaN"):
        assert "ERROR" in psql(f"SET dpproxy.epsilon = '{wrong}';\n{BY_REGION};").stderr


@pytest.mark.parametrize(
    "sql", ["DELETE FROM people", "SELECT lo_create(1)", "CREATE TABLE x (y int)", "PREPARE p AS TABLE people"]
)
def test_nothing_else_is_allowed(psql: Psql, sql: str) -> None:
    assert "ERROR" in psql(f"{sql};").stderr
