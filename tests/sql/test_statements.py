"""A client's text as statements: where each begins, what it is, whether it may read a private table."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.sql.dialect import ident, position, to_sql
from dpproxy.sql.statements import Named, named, parse, split

NAMES = frozenset({"patients", "visits", "Odd Table"})

KINDS = [
    ("SELECT 1", "select", False),
    ("SELECT count(*) FROM patients", "select", True),
    ("select count(*) from PATIENTS", "select", True),
    ('SELECT count(*) FROM "patients"', "select", True),
    ('SELECT count(*) FROM "Patients"', "select", False),
    ('SELECT count(*) FROM "Odd Table"', "select", True),
    ("SELECT count(*) FROM odd_table", "select", False),
    ("SELECT count(*) FROM public.patients", "select", True),
    ("SELECT 'patients'", "select", False),
    ("SELECT $$patients$$", "select", False),
    ("SELECT 1 -- patients", "select", False),
    ("SELECT /* patients */ 1", "select", False),
    ("SELECT 1 AS patients", "select", False),
    ("SELECT patients FROM t", "select", False),
    ("SELECT (SELECT count(*) FROM visits)", "select", True),
    ("SELECT * FROM t WHERE x IN (TABLE visits)", "select", True),
    ("TABLE patients", "select", True),
    ("(SELECT 1 FROM patients)", "select", True),
    ("VALUES ((SELECT count(*) FROM patients))", "select", True),
    ("WITH p AS (SELECT * FROM patients) SELECT count(*) FROM p", "select", True),
    ("SELECT * FROM dpproxy.budget", "select", True),
    ("SELECT ARRAY[ARRAY[ARRAY[ARRAY[ARRAY[1]]]]], (SELECT 1 FROM patients)", "select", True),  # cannot be parsed: assumed
    ("EXPLAIN SELECT count(*) FROM patients", "explain", True),
    ("EXPLAIN (ANALYZE, VERBOSE) SELECT count(*) FROM patients", "explain", True),
    ("EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM patients", "explain", True),
    ("EXPLAIN DELETE FROM patients", "other", True),
    ("COPY (SELECT count(*) FROM patients) TO STDOUT", "copy", True),
    ("COPY (SELECT count(*) FROM patients) TO STDOUT WITH (FORMAT csv, HEADER)", "copy", True),
    ("COPY (SELECT count(*) FROM patients) TO '/tmp/x'", "other", True),
    ("COPY (SELECT count(*) FROM patients) TO PROGRAM 'cat'", "other", True),
    ("COPY patients TO STDOUT", "other", True),
    ("DECLARE c CURSOR FOR SELECT count(*) FROM patients", "cursor", True),
    ("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT count(*) FROM patients", "cursor", True),
    ("PREPARE q AS SELECT count(*) FROM patients", "prepare", True),
    ("PREPARE q (int) AS SELECT count(*) FROM patients WHERE age > $1", "prepare", True),
    ("CREATE TEMP TABLE t AS SELECT count(*) FROM patients", "create_table_as", True),
    ("CREATE TEMPORARY TABLE t AS SELECT count(*) FROM patients", "create_table_as", True),
    ("CREATE TABLE t AS SELECT count(*) FROM patients", "other", True),
    ("CREATE VIEW v AS SELECT * FROM patients", "other", True),
    ("INSERT INTO t SELECT * FROM patients", "other", True),
    ("DELETE FROM patients", "other", True),
    ("TRUNCATE patients", "other", True),
    ("GRANT SELECT ON patients TO eve", "other", True),
    ("DO $$ BEGIN PERFORM * FROM patients; END $$", "other", False),  # a string to PostgreSQL; the facade is empty
    ("SELECT count(*) INTO t FROM patients", "other", True),
    ("WITH x AS (DELETE FROM patients RETURNING *) SELECT * FROM x", "other", True),
    ("MERGE INTO patients p USING visits v ON true WHEN MATCHED THEN DELETE", "other", True),
    ("SET search_path = patients", "other", False),
    ("BEGIN", "other", False),
    ("FETCH 10 FROM patients", "other", False),
    ("LISTEN patients", "other", False),
    ("", None, False),
    (" ; ;; ", None, False),
]


@pytest.mark.parametrize(("text", "kind", "private"), KINDS)
def test_kinds(text: str, kind: str | None, private: bool) -> None:
    statements = split(text, NAMES)
    if kind is None:
        assert statements == ()
        return
    (only,) = statements
    assert (only.kind, only.private) == (kind, private)
    if only.query:
        assert only.prefix + only.query + only.suffix == only.text


def test_the_query_inside() -> None:
    (copy,) = split("COPY (SELECT count(*) FROM patients) TO STDOUT WITH (FORMAT csv)", NAMES)
    assert (copy.prefix, copy.query, copy.suffix) == ("COPY (", "SELECT count(*) FROM patients", ") TO STDOUT WITH (FORMAT csv)")
    (cursor,) = split("DECLARE c CURSOR FOR SELECT count(*) FROM visits", NAMES)
    assert cursor.query == "SELECT count(*) FROM visits"
    (explain,) = split("explain (analyze, timing off) SELECT count(*) FROM visits", NAMES)
    assert explain.options == ("ANALYZE", ",", "TIMING", "OFF")


def test_several_statements_keep_their_places() -> None:
    text = "SELECT 1; -- ; in a comment\n  SELECT ';' FROM patients;\nSELECT $$;$$;;"
    found = split(text, NAMES)
    assert [s.text for s in found] == ["SELECT 1", "SELECT ';' FROM patients", "SELECT $$;$$"]
    assert [s.private for s in found] == [False, True, False]
    assert all(text[s.offset :].startswith(s.text) for s in found)


@pytest.mark.parametrize(
    "text", ["SELECT 'open FROM patients", "SELECT $$open", 'SELECT "open FROM patients', "SELECT \x00 FROM patients"]
)
def test_unreadable_texts_are_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        split(text, NAMES)
    assert caught.value.sqlstate == "42601"


@pytest.mark.parametrize(
    "text", ["SELECT a b c FROM patients", "SELECT count( FROM patients", "SELECT 1 1 1", "SELECT 1; SELECT 2", ""]
)
def test_what_cannot_be_parsed_is_a_syntax_error(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse(text)
    assert caught.value.sqlstate == "42601"


def test_positions_and_names() -> None:
    tree = parse('SELECT "Ab", aB, count(*) FROM patients')
    first, second, third = tree.expressions
    assert (ident(first.this), ident(second.this)) == ("Ab", "ab")
    assert (position(first), position(second), position(third)) == (8, 14, 18)
    assert position(exp.Literal.number(1)) is None


def test_comments_do_not_survive_printing() -> None:
    assert to_sql(parse("SELECT /* a */ 1 -- b\n, 2 /*+ hint */")) == "SELECT 1, 2"


def test_parameters_need_no_space_between() -> None:
    tree = parse("SELECT count(*) FROM people WHERE region IN ($1,$2) AND x = $3||$4 AND y = $$,$$")
    assert [p.name for p in tree.find_all(exp.Parameter)] == ["1", "2", "3", "4"]
    assert [s.name for s in tree.find_all(exp.RawString)] == [","]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("EXECUTE q", Named("EXECUTE", "q")), ('execute "Q" (1, f(2, 3), ARRAY[4, 5])', Named("EXECUTE", "Q", ("1", " f(2, 3)", " ARRAY[4, 5]"))),
        ("PREPARE Q (int) AS SELECT 1", Named("PREPARE", "q", ("int",))), ("DEALLOCATE PREPARE q", Named("DEALLOCATE", "q")),
        ("DEALLOCATE ALL", Named("DEALLOCATE", "")), ('DEALLOCATE "ALL"', Named("DEALLOCATE", "ALL")),
        ("DISCARD ALL", Named("DEALLOCATE", "")), ("DISCARD PLANS", None), ("SELECT 1", None), ("EXECUTE", None),
        ("EXECUTE q(')', '(')", Named("EXECUTE", "q", ("')'", " '('"))),
    ],
)  # fmt: skip
def test_prepared_by_name(text: str, found: Named | None) -> None:
    assert named(text) == found


def test_select_into_temp_keeps_places() -> None:
    (only,) = split("  SELECT count(*) INTO TEMP TABLE t FROM people WHERE x", frozenset({"people"}))
    assert (only.kind, only.private, only.into) == ("create_table_as", True, "CREATE TEMP TABLE t AS ")
    assert only.query.index("WHERE") == only.text.index("WHERE")
    assert "INTO" not in only.query
    (other,) = split("SELECT count(*) INTO t FROM people", frozenset({"people"}))
    assert other.kind == "other"
