"""SCRAM against scramp's own client: right, wrong and unknown logins, channel binding, and bytes nobody should send."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import scramp
from hypothesis import given
from hypothesis import strategies as st
from scramp.utils import ScramException

from dpproxy.wire.framing import ProtocolError
from dpproxy.wire.scram import PLAIN, PLUS, ScramServer, make_verifier, mock_verifier, offered, parse_verifier

SECRET = b"server secret"
BINDING = b"hash of a certificate"
VERIFIER = make_verifier("pencil")


def server(verifier: str | None = VERIFIER, binding: bytes | None = None, user: str = "ada") -> ScramServer:
    return ScramServer(verifier, user=user, mock=mock_verifier(user.encode(), SECRET, {(4096, 16): 1}), channel_binding=binding)


def client(password: str = "pencil", mechanism: str = PLAIN, binding: bytes | None = None) -> Any:
    channel = None if binding is None else ("tls-server-end-point", binding)
    return scramp.ScramClient([mechanism], "ada", password, channel_binding=channel)


def login(of: ScramServer, by: Any, mechanism: str = PLAIN) -> None:
    by.set_server_first(of.first(mechanism, by.get_client_first().encode()).decode())
    by.set_server_final(of.final(by.get_client_final().encode()).decode())


def test_the_right_password_logs_in_and_the_server_proves_itself() -> None:
    of = server()
    assert not of.done
    login(of, client())
    assert of.done


def test_the_proof_of_a_server_with_another_key_is_refused_by_the_client() -> None:
    good = parse_verifier(VERIFIER)
    parts = [base64.b64encode(part).decode() for part in (good.salt, good.stored_key, b"x" * 32)]
    of = server(f"SCRAM-SHA-256${good.iterations}:{parts[0]}${parts[1]}:{parts[2]}")
    with pytest.raises(ScramException):
        login(of, client())


@pytest.mark.parametrize("verifier", [VERIFIER, None])
def test_wrong_password_and_unknown_user_look_alike(verifier: str | None) -> None:
    of, by = server(verifier), client("wrong")
    first = of.first(PLAIN, by.get_client_first().encode()).decode()
    by.set_server_first(first)
    nonce, salt, count = first.split(",")
    assert nonce.startswith(f"r={by.c_nonce}")
    assert len(base64.b64decode(salt[2:])) == 16
    assert count == "i=4096"
    with pytest.raises(ProtocolError) as caught:
        of.final(by.get_client_final().encode())
    assert (caught.value.sqlstate, caught.value.fatal) == ("28P01", True)
    assert caught.value.message == 'password authentication failed for user "ada"'
    assert not of.done


def test_the_mock_salt_is_stable_for_a_name_and_differs_between_names() -> None:
    assert mock_verifier(b"ada", SECRET) == mock_verifier(b"ada", SECRET)
    salts = {mock_verifier(user, secret).salt for user in (b"ada", b"bob") for secret in (SECRET, b"other")}
    assert len(salts) == 4
    firsts = {server(None).first(PLAIN, b"n,,n=,r=abc").split(b",")[1] for _ in range(3)}
    assert len(firsts) == 1


def test_a_mock_verifier_looks_as_others_do() -> None:
    """In proportion; and hardly any name's changes when another user comes."""
    names = [str(i).encode() for i in range(1000)]
    before = [mock_verifier(name, SECRET, {(4096, 16): 30, (4096, 32): 60, (9000, 80): 10}) for name in names]
    shapes = [(verifier.iterations, len(verifier.salt)) for verifier in before]
    for shape, share in (((4096, 16), 300), ((4096, 32), 600), ((9000, 80), 100)):
        assert abs(shapes.count(shape) - share) < 80
    after = [mock_verifier(name, SECRET, {(4096, 16): 30, (4096, 32): 60, (9000, 80): 11}) for name in names]
    assert sum(one != other for one, other in zip(before, after, strict=True)) < 30


def test_an_unknown_user_fails_even_with_a_fitting_proof() -> None:
    with pytest.raises(ProtocolError) as caught:
        login(ScramServer(None, user="ada", mock=parse_verifier(VERIFIER)), client())
    assert caught.value.sqlstate == "28P01"


@pytest.mark.parametrize("name", ["", "*", "x", "=2C=3D", "b\u00e4r", "a=b"])
def test_the_name_in_the_message_does_not_matter(name: str) -> None:
    """libpq sends an empty one; the proof is computed over the message as sent."""
    of, by = server(), client()
    bare = by.get_client_first().removeprefix("n,,")
    by.client_first_bare = f"n={name}," + bare.partition(",")[2]
    by.set_server_first(of.first(PLAIN, f"n,,{by.client_first_bare}".encode()).decode())
    by.set_server_final(of.final(by.get_client_final().encode()).decode())
    assert of.done


def test_channel_binding() -> None:
    of = server(binding=BINDING)
    assert offered(bound=True) == (PLUS, PLAIN)
    login(of, client(mechanism=PLUS, binding=BINDING), PLUS)
    assert of.done


def test_plain_scram_is_still_offered_under_tls() -> None:
    of = server(binding=BINDING)
    login(of, client())
    assert of.done


def test_binding_to_another_certificate_fails() -> None:
    with pytest.raises(ProtocolError) as caught:
        login(server(binding=BINDING), client(mechanism=PLUS, binding=b"of the man in the middle"), PLUS)
    assert (caught.value.sqlstate, caught.value.message) == ("28000", "SCRAM channel binding check failed")


def test_a_stripped_offer_is_noticed() -> None:
    with pytest.raises(ProtocolError, match="negotiation error"):
        server(binding=BINDING).first(PLAIN, b"y,,n=,r=abc")
    assert server().first(PLAIN, b"y,,n=,r=abc").startswith(b"r=abc")


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        ("SCRAM-SHA-1", b"n,,n=,r=abc"),
        ("", b"n,,n=,r=abc"),
        (PLUS, b"p=tls-server-end-point,,n=,r=abc"),
        (PLAIN, b"p=tls-server-end-point,,n=,r=abc"),
        (PLAIN, None),
        (PLAIN, b""),
        (PLAIN, b"n"),
        (PLAIN, b",,n=,r=abc"),
        (PLAIN, b"x,,n=,r=abc"),
        (PLAIN, b"n,a=bob,n=,r=abc"),
        (PLAIN, b"n,,r=abc"),
        (PLAIN, b"n,,n=,r="),
        (PLAIN, b"n,,n=,r=a\x01"),
        (PLAIN, b"n,,m=x,n=,r=abc"),
        (PLAIN, b"n,,n=,r=abc\0"),
        (PLAIN, b"n,,n=\xff,r=abc"),
    ],
)
def test_malformed_first_messages(mechanism: str, data: bytes | None) -> None:
    with pytest.raises(ProtocolError) as caught:
        server().first(mechanism, data)
    assert (caught.value.sqlstate, caught.value.fatal) == ("08P01", True)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"\xff",
        b"c=biws",
        b"c=biws,r=other,p=eHh4",
        b"c=biws,r=NONCE,p=!",
        b"c=!,r=NONCE,p=eHh4",
        b"r=NONCE,c=biws",
    ],
)
@pytest.mark.parametrize("verifier", [VERIFIER, None])
def test_malformed_final_messages(verifier: str | None, final: bytes) -> None:
    of = server(verifier)
    nonce = of.first(PLAIN, b"n,,n=,r=abc").split(b",")[0][2:]
    with pytest.raises(ProtocolError) as caught:
        of.final(final.replace(b"NONCE", nonce))
    assert caught.value.sqlstate == "08P01"


def test_a_proof_of_the_wrong_length_is_a_wrong_password() -> None:
    of = server()
    nonce = of.first(PLAIN, b"n,,n=,r=abc").split(b",")[0]
    with pytest.raises(ProtocolError) as caught:
        of.final(b"c=biws," + nonce + b",p=eHh4")
    assert caught.value.sqlstate == "28P01"


def test_steps_cannot_be_skipped_repeated_or_resumed() -> None:
    with pytest.raises(ProtocolError, match="unexpected"):
        server().final(b"c=biws,r=x,p=eHh4")
    of = server()
    of.first(PLAIN, b"n,,n=,r=abc")
    with pytest.raises(ProtocolError, match="unexpected"):
        of.first(PLAIN, b"n,,n=,r=abc")
    with pytest.raises(ProtocolError, match="unexpected"):
        of.final(b"c=biws,r=x,p=eHh4")
    of, by = server(), client()
    login(of, by)
    with pytest.raises(ProtocolError, match="unexpected"):
        of.final(b"c=biws,r=x,p=eHh4")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_raise_anything_but_a_protocol_error(first: bytes, final: bytes) -> None:
    with pytest.raises(ProtocolError):
        server().first(PLAIN, first)
    of = server()
    of.first(PLAIN, b"n,,n=,r=abc")
    with pytest.raises(ProtocolError):
        of.final(final)


def test_verifiers() -> None:
    again = make_verifier("pencil", salt=parse_verifier(VERIFIER).salt)
    assert again == VERIFIER
    assert make_verifier("pencil") != VERIFIER
    strong = parse_verifier(make_verifier("pencil", iterations=20_000))
    assert strong.iterations == 20_000
    assert "stored_key" not in repr(strong)


@pytest.mark.parametrize("password", ["", "a\x07b"])
def test_passwords_that_cannot_be(password: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is scramp's
        make_verifier(password)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "md5abc",
        "secret password",
        VERIFIER + "x$",
        VERIFIER.replace("4096", "1"),
        VERIFIER.replace("4096", "99999999"),
        "SCRAM-SHA-256$4096:QUJD$QUJD:QUJD",
        "SCRAM-SHA-256$4096:=====$QUJD:QUJD",
    ],
)
def test_malformed_verifiers_are_refused_without_being_quoted(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is checked below
        parse_verifier(text)
    assert not text or text not in str(caught.value)
