"""Start-up packets: who wants into what, and what cannot be served."""

from __future__ import annotations

import pytest

from dpproxy.session.facade_login import greet
from dpproxy.wire.backend import read_negotiate_protocol_version
from dpproxy.wire.frontend import Startup
from dpproxy.wire.protocol import MINOR, ProtocolError


def startup(minor: int = 0, **params: str) -> Startup:
    return Startup(3, minor, {"user": "ada", **params})


def test_the_database_is_the_user_unless_it_is_named() -> None:
    assert (greet(startup()).user, greet(startup()).database) == ("ada", "ada")
    assert greet(startup(database="shop")).database == "shop"


def test_settings_go_on_and_nothing_else() -> None:
    greeting = greet(startup(database="shop", replication="off", TimeZone="UTC", **{"_pq_.x": "1"}))
    assert greeting.settings == {"TimeZone": "UTC"}
    assert greeting.unknown == ("_pq_.x",)


@pytest.mark.parametrize(
    ("params", "sqlstate", "told"),
    [
        ({"user": ""}, "28000", "no PostgreSQL user name"),
        ({"replication": "database"}, "0A000", "replication"),
        ({"replication": "true"}, "0A000", "replication"),
    ],
)
def test_what_cannot_be_served(params: dict[str, str], sqlstate: str, told: str) -> None:
    with pytest.raises(ProtocolError, match=told) as error:
        greet(Startup(3, 0, {"user": "ada", **params}))
    assert (error.value.sqlstate, error.value.fatal) == (sqlstate, True)


@pytest.mark.parametrize("off", ["off", "FALSE", "no", "0"])
def test_replication_may_be_off(off: str) -> None:
    assert greet(startup(replication=off)).settings == {}


def test_a_version_beyond_ours_is_negotiated() -> None:
    assert greet(startup(MINOR)).negotiation == b""
    newer = greet(startup(MINOR + 5, **{"_pq_.x": "1", "_pq_.y": "2"}))
    assert (newer.minor, newer.newer) == (MINOR, True)
    assert read_negotiate_protocol_version(newer.negotiation[5:]) == (MINOR, ("_pq_.x", "_pq_.y"))
    assert greet(startup(**{"_pq_.x": "1"})).negotiation != b"", "an option is answered in any version"


@pytest.mark.parametrize(
    ("encoding", "foreign"),
    [("UTF8", None), ("utf-8", None), ("'unicode'", None), ("SQL_ASCII", None), ("LATIN1", "LATIN1"), ("utf16", "utf16")],
)
def test_encodings_of_others_are_told(encoding: str, foreign: str | None) -> None:
    assert greet(startup(client_encoding=encoding)).foreign == foreign
    assert greet(startup()).foreign is None
