"""PREPARE, EXECUTE and DEALLOCATE by name: whose they are, and that PostgreSQL reads the names and arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from dpproxy.errors import Refusal
from dpproxy.session.description import Description
from dpproxy.session.private_talk import PrivateTalk
from dpproxy.session.sql_prepare import PreparedStatement, arguments, concerned
from dpproxy.sql.statements import Named, Statement, split

PRIVATE = cast("dict[str, PreparedStatement]", {"mine": None, "odd name": None})


def one(sql: str) -> Statement:
    return split(sql, frozenset({"people"}))[-1]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("EXECUTE mine(1, 'a')", Named("EXECUTE", "mine", ("1", " 'a'"))),
        ("EXECUTE MINE", Named("EXECUTE", "mine")),
        ('EXECUTE "odd name"', Named("EXECUTE", "odd name")),
        ("EXECUTE other", None),
        ("DEALLOCATE mine", Named("DEALLOCATE", "mine")),
        ("DEALLOCATE other", None),
        ("DEALLOCATE ALL", Named("DEALLOCATE", "")),
        ("DISCARD ALL", Named("DEALLOCATE", "")),
        ("SELECT 1", None),
        ("SET TimeZone = UTC", None),
    ],
)
def test_what_concerns_a_private_one(sql: str, expected: Named | None) -> None:
    assert concerned(one(sql), PRIVATE) == expected
    assert concerned(one(sql), {}) is None


@pytest.mark.parametrize("sql", ["EXPLAIN EXECUTE mine(1)", "CREATE TEMP TABLE t AS EXECUTE mine", 'EXPLAIN EXECUTE "odd name"'])
def test_inside_another_statement_it_is_refused(sql: str) -> None:
    text = f"SELECT 1; {sql}"
    with pytest.raises(Refusal, match="can only be executed by itself") as refused:
        concerned(one(text), PRIVATE)
    assert refused.value.position == text.index(sql) + 1
    assert concerned(one(sql.replace("mine", "other").replace("odd name", "other")), PRIVATE) is None


@dataclass
class Talk:
    asked: list[str] = field(default_factory=list)

    async def ask_row(self, sql: str) -> tuple[tuple[bytes | None, ...], None]:
        self.asked.append(sql)
        return (b"1", None), None


@dataclass
class Two:
    """Prepared with two parameters."""

    description: Description = field(default_factory=lambda: Description((23, 25), None, {}))


async def values(given: tuple[str, ...]) -> tuple[list[bytes | None], list[str]]:
    talk, two = Talk(), Two()
    found = await arguments(cast(PrivateTalk, talk), given, cast(Any, two), 99)
    return found, talk.asked


async def test_arguments_are_postgresqls_to_evaluate() -> None:
    found, asked = await values(("1 + 1", "NULL"))
    assert found == [b"1", None]
    forms = "dpproxy.text_form((1 + 1)::int4)", "dpproxy.text_form((NULL)::text)"
    assert asked == [f"SELECT pg_catalog.left({forms[0]}, 100), pg_catalog.left({forms[1]}, 100)"]


@pytest.mark.parametrize("given", [(), ("1",), ("1", "2", "3")])
async def test_too_few_and_too_many_are_refused_in_its_words(given: tuple[str, ...]) -> None:
    with pytest.raises(Refusal, match="wrong number of parameters for prepared statement") as refused:
        await values(given)
    assert (refused.value.sqlstate, refused.value.detail) == ("42601", f"Expected 2 parameters but got {len(given)}.")


async def test_no_arguments_are_no_question() -> None:
    talk, none = Talk(), Two(Description((), None, {}))
    assert await arguments(cast(PrivateTalk, talk), (), cast(Any, none), 99) == []
    assert talk.asked == []
