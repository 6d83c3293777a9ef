"""Names in back quotes: rewritten where they are names, in time linear in the text, and only in texts that have them."""

from __future__ import annotations

import time

import pytest

from dpproxy.sql.guard import tokenize
from dpproxy.sql.privacy_clauses import in_double_quotes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT `Day`, `Money spent (euros)` FROM t", 'SELECT "day", "Money spent (euros)" FROM t'),
        ('SELECT f("%I:%M%p", `a`), "it\'s" FROM t', """SELECT f('%I:%M%p', "a"), 'it''s' FROM t"""),
        ('SELECT `a"b`, "c""d" FROM t', """SELECT "a""b", 'c"d' FROM t"""),
        ("SELECT '`x`', $$`y`$$, $q$`z`$q$ -- `c`\n/* `d` */, `e` FROM t", "SELECT '`x`', $$`y`$$, $q$`z`$q$ -- `c`\n/* `d` */, \"e\" FROM t"),
        ("SELECT 'a''`b`', `c`", "SELECT 'a''`b`', \"c\""),
    ],
)  # fmt: skip
def test_names_are_in_double_quotes_and_strings_in_single_ones(text: str, found: str) -> None:
    assert in_double_quotes(text) == found
    tokenize(found)


@pytest.mark.parametrize("text", ['SELECT "A" FROM t', "SELECT '`x`', \"A\"", 'SELECT "A" -- `x`', "SELECT `a", "SELECT $1, $2"])
def test_a_text_without_such_names_stays_as_it_is(text: str) -> None:
    assert in_double_quotes(text) == text


@pytest.mark.parametrize("piece", ["/*", "'", "$a$", '"', "`a", "--", "$a", "`"])
def test_what_is_open_is_read_once(piece: str) -> None:
    began = time.process_time()
    in_double_quotes(piece * (60_001 // len(piece)) + "`a`")
    assert time.process_time() - began < 2
