"""Statements that reach beyond their session are told by their first words, and by nothing else. In both protocols: tests/session."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.sql.repeatability import BEYOND_WORDS, check_allowed
from dpproxy.sql.statements import split

BEYOND = [
    "LISTEN news", 'listen\n"People"', "/* /* nested */ */ LISTEN -- x\n news", "-- x\nNOTIFY/**/news", "nOtIfY news, 'payload'",
    "ALTER ROLE CURRENT_USER SET work_mem = '1GB'", "alter /* */ user current_user reset all", "ALTER GROUP a ADD USER b",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC", "drop/**/owned by x cascade", "REASSIGN OWNED BY a TO b",
    "ALTER TABLE t ADD PRIVACY POLICY p ENTITY KEY (id)", "alter view v drop privacy\npolicy p", "ALTER PRIVACY POLICY p SET BODY -> f()",
    "CREATE RULE r AS ON INSERT TO t DO ALSO NOTIFY news", "CREATE OR REPLACE RULE r AS ON INSERT TO t DO NOTHING",
]  # fmt: skip
ALLOWED = [
    "UNLISTEN *", "SELECT 'listen' AS notify", "/* notify */ SHOW timezone", "DROP TABLE owned", "ALTER TABLE role ADD COLUMN x int",
    'ALTER TABLE t ADD COLUMN privacy "policy"',
    "CREATE TEMP TABLE rule (a int)", "SELECT 1 AS rule, 2 AS owned", "SET \"listen\" = 1", "REASSIGN", "CREATE OR REPLACE VIEW rule AS SELECT 1",
]  # fmt: skip


@pytest.mark.parametrize("sql", BEYOND)
def test_refused_at_its_place(sql: str) -> None:
    _, statement = split(f"SELECT 1; {sql}", frozenset())
    with pytest.raises(Refusal) as caught:
        check_allowed(statement)
    assert caught.value.sqlstate in ("0A000", "42501")
    assert caught.value.position == statement.offset + 1
    assert any(word in sql.lower().encode() for word in BEYOND_WORDS), "the quick look does not miss it"


@pytest.mark.parametrize("sql", ALLOWED)
def test_allowed(sql: str) -> None:
    for statement in split(sql, frozenset()):
        check_allowed(statement)
