"""TLS on the listening side: certificates read from files, handshakes, the value a login is bound to.

Knows: certificate files, `ssl`, transports. Must not know: users, statements. What a connection needs of TLS is one
frozen `Tls`, fixed at its handshake, so that a reload never mixes an old certificate with a new binding. A reload that
fails leaves what was there: a proxy that forgets its certificate would turn every client away.

Both ways in lead here: SSLRequest, answered `S`, and direct TLS (PostgreSQL 17), where the first bytes already are the
handshake. Those bytes were read before anybody knew; they are given to the TLS layer through `BufferedProtocol`, which
asyncio's and uvloop's both are.

A greeting that is whole costs the server a signature, a millisecond, and its sender nothing. So what is sent of handshakes is
worked off in turns (`Handshakes`): five hundred greetings in one moment would otherwise hold up everybody for half a second.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import ssl
import stat
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from asn1crypto.x509 import Certificate  # type: ignore[import-untyped]

from dpproxy.errors import OperatorError
from dpproxy.listeners import Minimum, server_context

ALPN: Final = "postgresql"
"""The protocol's name at IANA; direct TLS requires it, against protocol confusion."""
HANDSHAKE: Final = 0x16
"""First byte of a TLS record that begins a handshake; no start-up packet begins with it (it would be 370 MB long)."""
MOST_OF_A_HANDSHAKE: Final = 32 * 1024
"""Bytes a client may send before its handshake is done: a greeting has two thousand, a chain of certificates some thousand more.
OpenSSL would keep 130,000 of a greeting that is not whole."""
SHUTDOWN_SECONDS: Final = 5.0
"""For the closing alert of a peer that may be gone."""
TURN: Final = 0.003
"""Seconds that handshakes have the loop for at a time; the next they have after as long again, which is everybody else's."""

_FIRST: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_UNHASHED: Final = frozenset(("ed25519", "ed448"))
_WEAK: Final = frozenset(("md5", "sha1"))


class TlsError(OperatorError):
    """Certificate, key or authority cannot be used; the text says which file and why."""


@dataclass(frozen=True)
class TlsFiles:
    """Names PEM files. `client_ca`: clients must show a certificate that it has signed. `minimum`: version of TLS."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    minimum: Minimum = "1.2"


@dataclass(frozen=True)
class Tls:
    """What handshakes use. `binding`: tls-server-end-point (RFC 5929) of the certificate; None where that is not defined."""

    context: ssl.SSLContext
    binding: bytes | None


def load_tls(files: TlsFiles) -> Tls:
    """Load certificate and key. Raises TlsError."""
    _check_private(files.key)
    try:
        context = server_context(files.certificate, files.key, files.minimum)
    except OperatorError as error:
        raise TlsError(str(error)) from None
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET  # sessions are long; resuming them saves nothing
    context.num_tickets = 0
    context.set_alpn_protocols([ALPN])
    if files.client_ca is not None:
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise TlsError(f"client authority {files.client_ca}: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return Tls(context, end_point(_first_certificate(files.certificate)))


def _check_private(key: Path) -> None:
    """PostgreSQL's rule: the key is its owner's alone, or root's with a group that may read it."""
    try:
        facts = key.stat()
    except OSError as error:
        raise TlsError(f"key {key}: {error.strerror}") from None
    allowed = 0o640 if facts.st_uid == 0 and os.geteuid() != 0 else 0o600
    if stat.S_IMODE(facts.st_mode) & ~allowed & 0o077:
        raise TlsError(f"key {key} is readable by others: chmod 600 {key}")


def _first_certificate(path: Path) -> bytes:
    """The server's own: the first of its file. Raises TlsError."""
    found = _FIRST.search(path.read_text(errors="replace"))
    if found is None:
        raise TlsError(f"certificate {path}: no certificate in it")
    return ssl.PEM_cert_to_DER_cert(found[0])


def end_point(certificate: bytes) -> bytes | None:
    """RFC 5929 section 4: the certificate's hash by the hash of its signature, or SHA-256 where that is MD5 or SHA-1.

    None for signatures without a hash of their own (Ed25519): PostgreSQL's clients do not know one there either.
    """
    algorithm = Certificate.load(certificate)["signature_algorithm"]
    if algorithm["algorithm"].native in _UNHASHED:
        return None
    try:
        name = algorithm.hash_algo
        return hashlib.new("sha256" if name in _WEAK else name, certificate).digest()
    except ValueError:
        return None


class Handshakes:
    """Shares out a loop's time among handshakes: one of each address in turn, for a `TURN` at a time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._waiting: OrderedDict[str, deque[_Measured]] = OrderedDict()
        self._clock = clock
        self._resting = False

    def put(self, measured: _Measured) -> None:
        """Have what a handshake was sent worked off when it is its turn: now, where nobody else's is."""
        self._waiting.setdefault(measured.address, deque()).append(measured)
        if not self._resting:
            self._turn()

    def _turn(self) -> None:
        began = self._clock()
        while self._waiting and self._clock() - began < TURN:
            address, of_one = self._waiting.popitem(last=False)
            measured = of_one.popleft()
            if of_one:
                self._waiting[address] = of_one
            measured.work_off()
        self._resting = True
        asyncio.get_running_loop().call_later(self._clock() - began, self._rested)

    def _rested(self) -> None:
        self._resting = False
        if self._waiting:
            self._turn()


async def encrypt(
    transport: asyncio.Transport, protocol: asyncio.Protocol, tls: Tls, early: bytes, handshakes: Handshakes, address: str = ""
) -> asyncio.Transport:
    """Do the server's half of a handshake; `early`: bytes of it that were read already. `transport` must be paused. `handshakes`
    says when it may go on; `address` is the client's.

    Raises OSError (of which ssl.SSLError is one) when there is none: the connection is closed then.
    """
    loop = asyncio.get_running_loop()
    handshake = loop.create_task(
        loop.start_tls(transport, protocol, tls.context, server_side=True, ssl_shutdown_timeout=SHUTDOWN_SECONDS)
    )
    loop.call_soon(_measure, transport, handshake, handshakes, address)
    if early:  # right behind the two calls by which `start_tls` gives the transport to the TLS layer and lets it read
        loop.call_soon(loop.call_soon, _hand_over, transport, early)
    try:
        made = await handshake
    except asyncio.CancelledError:
        here = asyncio.current_task()
        if here is not None and here.cancelling():
            raise
        raise ConnectionAbortedError("too many bytes for a handshake") from None
    if made is None:  # asyncio's answer when the connection ended meanwhile
        raise ConnectionAbortedError
    measured = transport.get_protocol()
    if isinstance(measured, _Measured):
        measured.work_off()
        transport.set_protocol(measured.layer)
    return made


class _Measured(asyncio.BufferedProtocol):
    """Stands before the TLS layer during a handshake, counts what it is sent, ends one that is sent too much, and has the rest
    wait for its turn, in which nothing more is read."""

    def __init__(
        self,
        transport: asyncio.Transport,
        layer: asyncio.BufferedProtocol,
        handshake: asyncio.Task[asyncio.Transport | None],
        handshakes: Handshakes,
        address: str,
    ) -> None:
        self.layer, self.address = layer, address
        self._transport, self._handshake, self._handshakes = transport, handshake, handshakes
        self._sent = 0
        self._waits = 0  # bytes
        self.connection_lost = layer.connection_lost  # type: ignore[method-assign]
        self.eof_received = layer.eof_received  # type: ignore[method-assign]
        self.pause_writing = layer.pause_writing  # type: ignore[method-assign]
        self.resume_writing = layer.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.layer.get_buffer(sizehint))[:MOST_OF_A_HANDSHAKE]

    def buffer_updated(self, nbytes: int) -> None:
        self._sent += nbytes
        if self._sent > MOST_OF_A_HANDSHAKE or self._waits:  # what waits is not read behind: `early` was too long at once
            self._waits = 0
            self._handshake.cancel()  # if the transport alone were ended, uvloop would take the handshake for done
            return
        self._waits = nbytes
        self._transport.pause_reading()
        self._handshakes.put(self)

    def work_off(self) -> None:
        """Give the TLS layer what waits."""
        nbytes, self._waits = self._waits, 0
        if nbytes and not self._transport.is_closing():
            self._transport.resume_reading()
            self.layer.buffer_updated(nbytes)


def _measure(
    transport: asyncio.Transport, handshake: asyncio.Task[asyncio.Transport | None], handshakes: Handshakes, address: str
) -> None:
    """Between the two calls by which `start_tls` gives the transport to the TLS layer and lets it read."""
    layer = transport.get_protocol()
    if hasattr(layer, "get_buffer"):
        transport.set_protocol(_Measured(transport, cast("asyncio.BufferedProtocol", layer), handshake, handshakes, address))


def _hand_over(transport: asyncio.Transport, early: bytes) -> None:
    layer = cast("asyncio.BufferedProtocol", transport.get_protocol())
    while early and not transport.is_closing() and transport.get_protocol() is layer:
        space = memoryview(layer.get_buffer(len(early)))
        taken = min(len(space), len(early))
        space[:taken] = early[:taken]
        layer.buffer_updated(taken)
        early = early[taken:]


def agreed(transport: asyncio.Transport) -> bool:
    """Whether both sides said by ALPN that this is PostgreSQL's protocol."""
    found: ssl.SSLObject = transport.get_extra_info("ssl_object")
    return found.selected_alpn_protocol() == ALPN
