"""Stored answers under a key: what is sealed opens under its own name and key, and in no other way."""

from __future__ import annotations

import hmac

import pytest

from dpproxy.reuse.tables import NONCE, Sealer, SealError

KEY, NAME = b"a secret of the operator", "shop/1"


def test_what_is_sealed_opens_again() -> None:
    sealed = Sealer(KEY).seal(b"payload", NAME)
    assert b"payload" not in sealed
    assert Sealer(KEY).open(sealed, NAME) == b"payload"


def test_by_the_cipher_itself() -> None:
    """AES-256-GCM of the derived key, the name as what is authenticated beside: opened without a line of ours."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = Sealer(KEY).seal(b"payload", NAME)
    key = hmac.new(KEY, b"dpproxy stored answers", "sha256").digest()
    assert AESGCM(key).decrypt(sealed[:NONCE], sealed[NONCE:], NAME.encode()) == b"payload"


def test_no_nonce_twice() -> None:
    assert len({Sealer(KEY).seal(b"same", NAME)[:NONCE] for _ in range(50)}) == 50


@pytest.mark.parametrize("at", [0, NONCE, -1])
def test_one_changed_bit_is_noticed(at: int) -> None:
    sealed = bytearray(Sealer(KEY).seal(b"payload", NAME))
    sealed[at] ^= 1
    with pytest.raises(SealError, match="changed"):
        Sealer(KEY).open(bytes(sealed), NAME)


def test_another_key_and_another_name_do_not_open() -> None:
    sealed = Sealer(KEY).seal(b"payload", NAME)
    for sealer, name, text in [(Sealer(KEY + b"!"), NAME, sealed), (Sealer(KEY), "shop/2", sealed), (Sealer(KEY), NAME, b"")]:
        with pytest.raises(SealError):
            sealer.open(text, name)


def test_short_keys_are_refused() -> None:
    with pytest.raises(SealError, match="16 bytes"):
        Sealer(b"x" * 15)
