"""What reads public tables alone is passed on as it came, unless it was written in PostgreSQL's words."""

from __future__ import annotations

from dpproxy.session import encodings
from dpproxy.sql.statements import Statement
from dpproxy.wire import frontend_build as front
from dpproxy.wire.frontend import Parse

RAW = b"as it came"


def statement(text: str, private: bool = False) -> Statement:
    return Statement(text, "select", private, query=text)


def test_a_simple_query() -> None:
    sql = "SELECT 1;; SELECT 2"
    same = [statement("SELECT 1"), statement("SELECT 2")]
    other = [statement("SELECT 1"), statement("SELECT 2 + 0")]
    assert encodings.query(RAW, sql, same) is RAW
    assert encodings.query(RAW, sql, other) == front.query("SELECT 1; SELECT 2 + 0")


def test_a_parse_keeps_its_name_and_types() -> None:
    message = Parse("name", "SELECT n HAVING n > $1", (23,))
    written = statement("SELECT n HAVING count(*) > $1")
    assert encodings.parse(RAW, message, [written]) == front.parse("name", written.text, (23,))
    assert encodings.parse(RAW, message, [statement(message.sql)]) is RAW
    assert encodings.parse(RAW, message, [statement(written.text, private=True)]) is RAW, "the planner's"
    assert encodings.parse(RAW, message, [written, written]) is RAW, "PostgreSQL refuses two in one"
    assert encodings.parse(RAW, message, []) is RAW
