"""Verifiers: PostgreSQL's own, as the standard computes them, and usable for a SCRAM login."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scramp import ScramClient, ScramException, ScramMechanism

from dpproxy.policy.people import make_verifier, parse_verifier

SALT = b"0123456789abcdef"


def by_the_book(password: bytes, salt: bytes, iterations: int) -> str:
    """RFC 5802, section 3."""
    salted = hashlib.pbkdf2_hmac("sha256", password, salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    parts = [base64.b64encode(p).decode() for p in (salt, stored, server)]
    return f"SCRAM-SHA-256${iterations}:{parts[0]}${parts[1]}:{parts[2]}"


def test_the_standard_says_the_same() -> None:
    assert make_verifier("hunter2", salt=SALT) == by_the_book(b"hunter2", SALT, 4096)
    assert make_verifier("hunter2", 5000, SALT) == by_the_book(b"hunter2", SALT, 5000)


def test_saslprep() -> None:
    assert make_verifier("I\u00adX", salt=SALT) == make_verifier("IX", salt=SALT)  # RFC 4013, example 1
    assert make_verifier("\u2168", salt=SALT) == make_verifier("IX", salt=SALT)  # example 5
    with pytest.raises(ValueError, match="SASLprep"):
        make_verifier("\u0007")  # example 4


def test_salts_are_fresh() -> None:
    assert make_verifier("x") != make_verifier("x")


def login(password: str, verifier: str) -> None:
    found = parse_verifier(verifier)
    auth = (found.salt, found.stored_key, found.server_key, found.iterations)
    server = ScramMechanism("SCRAM-SHA-256").make_server(lambda _: auth)
    client = ScramClient(["SCRAM-SHA-256"], "ada", password)
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


def test_a_login_with_it() -> None:
    login("hunter2", make_verifier("hunter2"))
    with pytest.raises(ScramException):
        login("hunter3", make_verifier("hunter2"))


GOOD = make_verifier("hunter2", salt=SALT)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hunter2", "plain text"),
        ("", "plain text"),
        ("md5" + "0" * 32, "md5"),
        (GOOD[:-8], "base64|cut"),
        (GOOD.replace("4096", "1"), "iterations"),
        (GOOD.replace("4096", "99999999"), "iterations"),
        (GOOD.replace("4096", "0"), "form"),
        (GOOD + "\n", "form"),
        (GOOD.replace("$", "", 1), "plain text"),
        ("SCRAM-SHA-256$4096:====$AAAA:AAAA", "base64|cut"),
    ],
)
def test_what_is_not_a_verifier(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        parse_verifier(text)
    assert not text or text not in str(caught.value)


@given(st.text())
def test_rubbish_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"accepted|form|base64|cut|iterations"):
        parse_verifier(text)


def test_no_verifier_for_nothing() -> None:
    with pytest.raises(ValueError, match="empty"):
        make_verifier("")
    with pytest.raises(ValueError, match="4096"):
        make_verifier("x", 100)


def test_the_secret_parts_are_not_shown() -> None:
    assert "b'" not in repr(parse_verifier(GOOD))
