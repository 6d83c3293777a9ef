"""Settings as the facade tells them: by name, read right in the client's encoding, and names that are none refused."""

from __future__ import annotations

import pytest

from dpproxy.errors import Refusal
from dpproxy.session.description import (
    LONGEST,
    SELECT_LIST,
    WIDTH,
    check_hiding,
    check_name,
    has_temporary,
    misnamed,
    read_settings,
)
from dpproxy.sql.repeatability import CLOCK
from dpproxy.sql.settings import NAMES, OWN
from dpproxy.sql.statements import split


def values(temporary: bytes = b"0", **given: bytes) -> list[bytes | None]:
    return [given.get(name.removeprefix("dpproxy.")) for name in NAMES] + [given.get("clock"), temporary]


def test_each_by_its_name() -> None:
    found = read_settings(
        values(epsilon=b"0.5", reuse=b"", TimeZone=b"UTC", client_encoding=b"UTF8", clock=b"2024-01-02 03:04:05.000006")
    )
    assert set(found) == {*NAMES, CLOCK}
    assert len(NAMES) + 2 == WIDTH
    assert found[CLOCK] == "2024-01-02 03:04:05.000006"
    assert (found["dpproxy.epsilon"], found["TimeZone"]) == ("0.5", "UTC")
    assert found["dpproxy.reuse"] is None, "what a placeholder is left with after ROLLBACK"
    assert found["dpproxy.rows"] is None


def test_they_are_in_the_clients_encoding() -> None:
    found = read_settings(values(search_path=b"caf\xe9", client_encoding=b"LATIN1"))
    assert found["search_path"] == "café"
    with pytest.raises(Refusal, match="client_encoding"):
        read_settings(values(client_encoding=b"BIG5"))


@pytest.mark.parametrize("sql", ["SET dpproxy.epsilon = 1", "SET LOCAL dpproxy.epsilon TO 1", "SET \"dpproxy\".epsilon = 1",
                                 "SET other.epsilon = 1", "SELECT 1", "RESET dpproxy.epsilom"])  # fmt: skip
def test_names_that_are_right_or_not_ours(sql: str) -> None:
    (statement,) = split(sql, frozenset())
    check_name(statement)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SET dpproxy.epsilom = 1", "dpproxy.epsilom"),
        ("SET SESSION dpproxy . Budget = 1", "dpproxy.budget"),
        ('SET LOCAL "dpproxy"."reused" = 1', "dpproxy.reused"),
    ],
)
def test_a_name_that_is_none_is_refused_at_its_place(sql: str, name: str) -> None:
    text = f"SELECT 1; {sql}"
    statement = split(text, frozenset())[1]
    with pytest.raises(Refusal) as refused:
        check_name(statement)
    assert (refused.value.sqlstate, refused.value.message) == ("42704", f'unrecognized configuration parameter "{name}"')
    assert refused.value.position is not None
    assert text[refused.value.position - 1 :].lstrip('"').startswith("dpproxy")
    assert refused.value.hint is not None
    assert ", ".join(setting.name for setting in OWN) in refused.value.hint


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"dpproxy.epsilon": "1", "application_name": "x"}, None),
        ({"dpproxy.epsilom": "1"}, "dpproxy.epsilom"),
        ({"DPProxy.Rowz": "1"}, "dpproxy.rowz"),
        ({"options": "-c dpproxy.epsilon=1 -c geqo=off"}, None),
        ({"options": "-c geqo=off -cdpproxy.wrong=1"}, "dpproxy.wrong"),
        ({"options": "--dpproxy.other-groups=1"}, "dpproxy.other_groups"),
        ({"options": r"-c dpproxy.a\ b=1"}, "dpproxy.a b"),
    ],
)
def test_start_up_packets_are_asked_the_same(given: dict[str, str], wrong: str | None) -> None:
    assert misnamed(given) == wrong


def test_temporary_things_are_asked_about_and_refused_by_name() -> None:
    assert not has_temporary(values())
    assert has_temporary(values(temporary=b"16400"))
    check_hiding(None)
    with pytest.raises(Refusal, match='hides a type or table of its name, as "text" does'):
        check_hiding(b"text")


@pytest.mark.parametrize("name", NAMES[:-2])
def test_a_value_that_was_cut_is_refused(name: str) -> None:
    key = name.removeprefix("dpproxy.")
    assert read_settings(values(client_encoding=b"UTF8", **{key: b"x" * LONGEST}))[name] == "x" * LONGEST
    with pytest.raises(Refusal, match=name) as refused:
        read_settings(values(client_encoding=b"UTF8", **{key: b"x" * (LONGEST + 1)}))
    assert refused.value.sqlstate == "22023"
    assert f"RESET {name}" in (refused.value.hint or "")


@pytest.mark.parametrize("name", NAMES)
def test_the_facade_sends_one_character_more_than_is_looked_at(name: str) -> None:
    """By that one it is known that a value was cut; of a longer one no more is sent."""
    assert f"pg_catalog.left(pg_catalog.current_setting('{name}', true), {LONGEST + 1})" in SELECT_LIST
    assert SELECT_LIST.count("current_setting(") == len(NAMES)
