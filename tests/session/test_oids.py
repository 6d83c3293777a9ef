"""Object ids are PostgreSQL's: compared with those that psycopg took from its catalogue."""

from __future__ import annotations

import psycopg
import pytest

from dpproxy.session.outer_text import _TYPES, array_oid, type_name

SPELLED = {"char": '"char"'}


@pytest.mark.parametrize("name", sorted(_TYPES))
def test_they_are_postgresqls(name: str) -> None:
    info = psycopg.adapters.types.get(SPELLED.get(name, name)) or psycopg.adapters.types.get(name)
    if info is not None:
        assert (_TYPES[name][0], array_oid(name)) == (info.oid, info.array_oid)
    assert type_name(_TYPES[name][0]) == name
    assert type_name(array_oid(name)) == f"{name}[]"


def test_most_are_compared() -> None:
    assert sum(psycopg.adapters.types.get(name) is not None for name in _TYPES) >= 25


def test_nobody_guesses_at_other_types() -> None:
    assert type_name(16_384) == type_name(0) == "unknown"
    with pytest.raises(KeyError):
        array_oid("geometry")
