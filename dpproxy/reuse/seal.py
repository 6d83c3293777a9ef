"""Stored answers under a key: AES-256-GCM by the `cryptography` package, which only those need who configure a key.

Knows: bytes. Must not know: what they mean. Each payload has a nonce of its own, drawn by the operating system, and is
bound to the name it is stored under, so that no payload passes for another's.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from dpproxy.derived_keys import derived
from dpproxy.errors import OperatorError

NONCE = 12  # bytes, as NIST SP 800-38D recommends; random ones are good for 2**32 payloads under one key


class SealError(OperatorError):
    """A text is sealed under another key, or changed, or no sealing is possible; the message is for the operator."""


class Sealer:
    """A sealer encrypts what is kept. `key`: any secret of at least 16 bytes; the cipher's key is derived from it."""

    def __init__(self, key: bytes) -> None:
        """Derive the cipher's key. Raises SealError when the key is too short or `cryptography` is not installed."""
        if len(key) < 16:
            raise SealError("a key has at least 16 bytes")
        try:
            ciphers = importlib.import_module("cryptography.hazmat.primitives.ciphers.aead")
            errors = importlib.import_module("cryptography.exceptions")
        except ImportError as error:
            raise SealError("stored answers are encrypted by the package `cryptography`, which is not installed") from error
        self._cipher: Any = ciphers.AESGCM(derived(key, "stored answers"))
        self._invalid: type[Exception] = errors.InvalidTag

    def seal(self, payload: bytes, name: str) -> bytes:
        nonce = os.urandom(NONCE)
        sealed: bytes = self._cipher.encrypt(nonce, payload, name.encode())
        return nonce + sealed

    def open(self, sealed: bytes, name: str) -> bytes:
        """Decrypt what `seal` wrote. Raises SealError."""
        try:
            payload: bytes = self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], name.encode())
        except (self._invalid, ValueError) as error:
            raise SealError("a stored answer is sealed under another key, or was changed") from error
        return payload
