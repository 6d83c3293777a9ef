"""The first minute of a connection: start-up packets, TLS, login, cancel requests.

Knows: the order of start-up messages. Must not know: statements. When the user is known the transport is handed to a
`ClientSession` and this object is forgotten. Nothing of a client is believed or kept before that: packets are small,
the time is bounded, and every answer to a wrong login is the same.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, cast

import structlog

from dpproxy.answers.dataset import Asker, Dataset
from dpproxy.errors import (
    CANNOT_CONNECT_NOW,
    INVALID_AUTHORIZATION,
    INVALID_PARAMETER_VALUE,
    INVALID_PASSWORD,
    PROTOCOL_VIOLATION,
    TOO_MANY_CONNECTIONS,
    UNDEFINED_OBJECT,
)
from dpproxy.limits.throttle import Throttle
from dpproxy.policy.model import User
from dpproxy.server.connection_slots import address_of, keep_alive
from dpproxy.server.login import Login, Nobody
from dpproxy.server.tls import HANDSHAKE, Handshakes, Tls, agreed, encrypt
from dpproxy.session.client import ClientSession, Site
from dpproxy.session.description import misnamed
from dpproxy.session.facade_login import Greeting, Origin, greet
from dpproxy.telemetry.tallies import Tallies
from dpproxy.waiting_places import network
from dpproxy.wire import backend as back
from dpproxy.wire.framing import FrontendFramer
from dpproxy.wire.frontend import CancelRequest, GSSENCRequest, SSLRequest, Startup, decode_startup
from dpproxy.wire.protocol import Frame, ProtocolError

LOG = structlog.get_logger()

YES, NO = b"S", b"N"  # to a request for encryption
UNLIMITED = 86_400.0  # seconds; a login that takes a day is none
ENCRYPTION_REQUESTS = 2  # a client asks for TLS once and for GSSAPI once


class Host(Site, Protocol):
    """What an arrival needs of the server."""

    @property
    def nobody(self) -> Nobody:
        """Stands for unknown users."""
        ...

    @property
    def tls(self) -> Tls | None:
        """What a handshake that begins now uses; None: no TLS here."""
        ...

    @property
    def require_tls(self) -> bool: ...

    @property
    def handshakes(self) -> Handshakes: ...

    @property
    def throttle(self) -> Throttle: ...

    @property
    def tallies(self) -> Tallies: ...

    def dataset(self, name: str) -> Dataset | None: ...

    def room(self) -> bool:
        """Whether there is a place for one more connection."""
        ...

    def admit(self, user: str) -> bool:
        """Take a place for this user, if there is one; `closed` gives it back."""
        ...

    def entered(self, arrival: Arrival) -> None: ...

    def stepped(self, arrival: Arrival) -> None:
        """Note that an arrival has made a step towards its login."""
        ...

    def left(self, arrival: Arrival) -> None: ...

    def cancel(self, pid: int, secret: bytes) -> asyncio.Future[None] | None: ...


class Arrival(asyncio.Protocol):
    """One connection until its user is known. `local`: by a unix socket, where there is no TLS, as in PostgreSQL."""

    def __init__(self, host: Host, *, local: bool = False) -> None:
        self._host = host
        self._local = local
        self._framer = FrontendFramer()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._greeting: Greeting | None = None
        self._login: Login | None = None
        self._tls: Tls | None = None  # of this connection
        self._handshake: asyncio.Task[None] | None = None
        self._first = True  # nothing was read yet
        self._requests = 0  # for encryption
        self._address = ""
        self._waiting: asyncio.TimerHandle | None = None  # until the password may be looked at
        self._cancelling = False  # it was a cancel request: nothing may follow

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not one by class
        keep_alive(self._transport)
        self._address = address_of(self._transport)
        self._timer = asyncio.get_running_loop().call_later(self._host.limits.login or UNLIMITED, self.abort)
        self._host.entered(self)

    @property
    def address(self) -> str:
        """Return the client's address; empty for a unix socket."""
        return self._address

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()

    def abort(self) -> None:
        """End the connection now. Of one in a handshake nothing would be heard any more: uvloop takes the handshake for done."""
        if self._transport is not None:
            self._transport.abort()
        if self._handshake is not None and self._tls is None:
            self._handshake.cancel()
            self._leave()

    def _leave(self) -> None:
        for timer in (self._timer, self._waiting):
            if timer is not None:
                timer.cancel()
        self._host.left(self)

    def data_received(self, data: bytes) -> None:
        """Packets as they complete, until one opens the session: what follows it is the session's."""
        if self._first and data[0] == HANDSHAKE and (tls := self._offered) is not None:
            self._encrypt(tls, data)
            return
        self._first = False
        self._framer.feed(data)
        if self._handshake is None or self._tls is not None:  # else it came with the handshake's last bytes
            self._work_off()

    def _work_off(self) -> None:
        try:
            while self._transport is not None and not self._transport.is_closing() and not self._stopped:
                frame = self._next()
                if frame is None:
                    return
                self._host.stepped(self)
                if self._login is None:
                    self._startup(frame)
                else:
                    self._authenticate(frame)
        except ProtocolError as error:
            self._refuse(error.sqlstate, error.message)

    def _next(self) -> Frame | None:
        """Return the next complete packet. Raises ProtocolError.

        Who begins with an impossible length is told nothing, as by PostgreSQL. It may speak another protocol, or be a client
        that is ended before it has connected, and only says that it leaves.
        """
        try:
            return self._framer.next()
        except ProtocolError:
            if self._login is not None:
                raise
            self._close()
            return None

    @property
    def _stopped(self) -> bool:
        return self._cancelling or self._waiting is not None

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _refuse(self, sqlstate: str, text: str) -> None:
        self._write(back.error_response("FATAL", sqlstate, text))
        self._close()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _close_after(self, heard: asyncio.Future[None] | None) -> None:
        """A client that has seen the end of its cancel request may ask the next thing: that must not be cancelled."""
        if heard is None:
            self._close()
        else:
            self._cancelling = True
            self._pause(True)
            heard.add_done_callback(lambda _: self._close())

    def _startup(self, frame: Frame) -> None:
        match decode_startup(frame):
            case SSLRequest() | GSSENCRequest() as request:
                self._asked_to_encrypt(isinstance(request, SSLRequest))
            case CancelRequest(pid=pid, secret=secret):  # also in the clear: older clients know no other way
                self._close_after(self._host.cancel(pid, secret))
            case Startup() as startup:
                if self._host.require_tls and self._tls is None and not self._local:
                    self._turned_away("tls")
                    raise ProtocolError(
                        INVALID_AUTHORIZATION, "this server accepts connections over TLS only: sslmode=require", fatal=True
                    )
                self._greeted(greet(startup))

    # encryption

    @property
    def _offered(self) -> Tls | None:
        return None if self._local else self._host.tls

    def _asked_to_encrypt(self, tls_wanted: bool) -> None:
        self._requests += 1
        if self._requests > ENCRYPTION_REQUESTS or self._tls is not None:
            raise ProtocolError(PROTOCOL_VIOLATION, "unexpected request for encryption", fatal=True)
        tls = self._offered if tls_wanted else None
        if tls is None:
            self._write(NO)
            return
        if self._framer.pending:  # somebody in the middle wants it believed under TLS (CVE-2021-23214)
            raise ProtocolError(PROTOCOL_VIOLATION, "received unencrypted data after SSL request", fatal=True)
        self._write(YES)
        self._encrypt(tls, b"")

    def _encrypt(self, tls: Tls, early: bytes) -> None:
        """`early`: the beginning of a handshake that nobody asked for: direct TLS."""
        assert self._transport is not None
        self._first = False
        self._transport.pause_reading()
        self._handshake = asyncio.ensure_future(self._encrypted(self._transport, tls, early))

    async def _encrypted(self, plain: asyncio.Transport, tls: Tls, early: bytes) -> None:
        try:
            transport = await encrypt(plain, self, tls, early, self._host.handshakes, network(self._address))
        except OSError as error:  # of a client, or of somebody who tries: no matter for an operator
            LOG.debug("no TLS", reason=type(error).__name__)
            plain.abort()
            self._leave()
            return
        self._tls, self._transport = tls, transport
        self._host.stepped(self)
        if early and not agreed(transport):
            self._close()
        self._work_off()

    def _greeted(self, greeting: Greeting) -> None:
        if not self._host.room():
            self._turned_away("connections")
            self._refuse(TOO_MANY_CONNECTIONS, "sorry, too many clients already")
            return
        self._greeting = greeting
        dataset = self._host.dataset(greeting.database)
        policy = dataset.policy if dataset else None
        binding = self._tls.binding if self._tls else None
        self._login = Login(greeting, policy, self._host.nobody, binding)
        self._framer.startup_done()
        self._write(greeting.negotiation + self._login.start)

    def _pause(self, pause: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading() if pause else self._transport.resume_reading()

    def _authenticate(self, frame: Frame) -> None:
        """The proof of a password may have to wait for its turn; before it, nothing is sent that a stranger may not know."""
        assert self._login is not None
        assert self._greeting is not None
        if not self._login.proving:
            self._write(self._login.answer(frame))
            return
        loop = asyncio.get_running_loop()
        wait = self._host.throttle.begin(self._address, self._greeting.user, loop.time())
        if wait is None:
            self._turned_away("throttled")
            self._refuse(INVALID_AUTHORIZATION, "too many failed logins, try again later")
        elif wait:
            self._pause(True)
            self._waiting = loop.call_later(wait, self._heard, frame)
        else:
            self._prove(frame)

    def _heard(self, frame: Frame) -> None:
        self._pause(False)
        try:
            self._prove(frame)
        except ProtocolError as error:
            self._refuse(error.sqlstate, error.message)

    def _prove(self, frame: Frame) -> None:
        """Raises ProtocolError."""
        assert self._login is not None
        assert self._greeting is not None
        try:
            answer = self._login.answer(frame)
        except ProtocolError as error:
            if error.sqlstate == INVALID_PASSWORD:
                self._turned_away("password")
            raise
        assert self._login.user is not None
        self._host.throttle.succeeded(self._address, self._greeting.user)
        self._enter(self._login.user, answer)

    def _turned_away(self, reason: str) -> None:
        """Tell the log, and count. A name is logged only where the policy knows it: people type passwords there."""
        asked = self._greeting
        dataset = self._host.dataset(asked.database) if asked is not None else None
        name = dataset.policy.dataset if dataset is not None else ""
        known = dataset is not None and asked is not None and asked.user in dataset.policy.users
        user = {"user": asked.user} if known and asked is not None else {}
        whose = "known" if known else "unknown"
        LOG.warning("login failed", address=self._address, dataset=name, user_class=whose, reason=reason, **user)
        self._host.tallies.login(name, reason)

    def _enter(self, user: User, answer: bytes) -> None:
        """Into the dataset as it is now, which the policy may have changed since this began."""
        assert self._greeting is not None
        foreign, dataset = self._greeting.foreign, self._host.dataset(self._greeting.database)
        if dataset is None or dataset.policy.users.get(user.name) != user:
            self._turned_away("policy")
            self._refuse(CANNOT_CONNECT_NOW, "the policy has been read again, try again")
        elif foreign is not None and not all(word.isascii() for word in dataset.words):
            self._turned_away("settings")
            self._refuse(INVALID_PARAMETER_VALUE, f"client_encoding {foreign} is not supported: use UTF8")
        elif (wrong := misnamed(self._greeting.settings)) is not None:
            self._turned_away("settings")
            self._refuse(UNDEFINED_OBJECT, f'unrecognized configuration parameter "{wrong}"')
        elif not self._host.admit(user.name):
            self._turned_away("connections of the user")
            self._refuse(TOO_MANY_CONNECTIONS, f'too many connections for user "{user.name}"')
        else:
            self._write(answer)
            self._open(Asker(user, dataset.policy.roles[user.role]), dataset)

    def _open(self, asker: Asker, dataset: Dataset) -> None:
        """Hand everything over: the transport, and the framer with what the client sent early."""
        assert self._transport is not None
        assert self._greeting is not None
        self._framer.authenticated()
        transport, self._transport = self._transport, None
        origin = Origin(self._address, self._tls is not None, time.time())
        session = ClientSession(self._host, transport, self._framer, asker, dataset, self._greeting, origin)
        transport.set_protocol(session)
        self._leave()
        session.begin()
        who = {"dataset": dataset.policy.dataset, "role": asker.role.name, "user": asker.user.name}
        LOG.info("login", **who, session=session.key[0], address=origin.address, tls=origin.tls)
        self._host.tallies.login(dataset.policy.dataset, "ok")
