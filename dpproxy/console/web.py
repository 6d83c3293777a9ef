"""The operators' pages by HTTP: who is let in, which page is where, what every reply carries.

Knows: Starlette, templates, `console.source`. Must not know: how anything shown is found out. It is imported by a proxy that is
asked for these pages alone. Nothing is shown to who has not shown the token. A POST needs the secret of its session's forms, and
whatever it changes goes through the same requests as `dpproxy admin`, with a line in the audit log. Every reply forbids scripts,
styles, pictures and frames of anybody else, and being kept. Pages are whole without JavaScript: a script draws their pictures
more finely, no more.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpproxy.console import figures, pages
from dpproxy.console.pages import joined, request_of
from dpproxy.console.source import Source
from dpproxy.console.tokens import Entrance, Session, TooManyGuesses
from dpproxy.errors import OperatorError
from dpproxy.waiting_places import WaitingPlaces, network

HERE: Final = Path(__file__).parent
BY: Final = "console"
"""Who asks, in the audit log; the address stands behind it, the operator's name before it."""
LARGEST: Final = 1 << 16
"""Bytes of a form: more is a mistake."""
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
Form = Mapping[str, str]


class _Headers:
    """Adds `HEADERS` to every reply."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def application(source: Source, entrance: Entrance, cookie: str = "dpproxy_console", secure: bool = False) -> Starlette:
    """Return the pages. `cookie`: its name, of this console alone; `secure`: they are shown by TLS."""
    site = _Site(source, entrance, cookie, secure)
    shown = [Route(path, site.shown(page), name=name) for name, (path, page) in pages.PAGES.items()]
    routes = [
        *shown,
        Route("/login", site.login, methods=["GET"]),
        Route("/login", site.reading(site.log_in), methods=["POST"]),
        Route("/logout", site.asked(site.log_out), methods=["POST"]),
        Route("/explain", site.asked(site.explain), methods=["POST"]),
        Route("/actions/{action}", site.asked(site.act), methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Starlette(routes=routes, middleware=[Middleware(_Headers)], exception_handlers={HTTPException: site.wrong})


class _Site:
    def __init__(self, source: Source, entrance: Entrance, cookie: str, secure: bool) -> None:
        self._source, self._entrance, self._cookie, self._secure = source, entrance, cookie, secure
        loader = jinja2.FileSystemLoader(HERE / "templates")
        self._templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
        amounts = (figures.epsilon, figures.percent, figures.exactly, figures.megabytes, figures.number)
        written = (*amounts, figures.moment, figures.span)
        self._templates.filters.update({function.__name__: function for function in written})
        self._templates.globals.update(burn_picture=figures.burn_picture, error_picture=figures.error_picture, joined=joined)

    # what every request goes through

    def shown(self, page: pages.Page) -> Callable[[Request], Response]:
        """Show a page to who is logged in, and the way to the login to everybody else."""

        def reply(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            return self._page(request, session, page)

        return reply

    def _page(self, request: Request, session: Session, page: pages.Page, **more: Any) -> Response:
        try:
            values = page(self._source, {**request.query_params, **more})
        except KeyError:
            raise HTTPException(404, "there is no such page") from None
        except (OperatorError, TimeoutError, OSError) as error:
            raise HTTPException(503, str(error) or "the proxy does not answer") from None
        said, session.said = session.said, ""
        return self._html(values.pop("template"), session=session, said=said, path=request.url.path, **values)

    def asked(self, work: Callable[[Request, Session, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Do what a form of a session asks."""

        def checked(request: Request, form: Form) -> Response:
            session = self._session(request)
            if session is None:
                return RedirectResponse("/login", 303)
            if not session.sent(form.get("form", "")):
                raise HTTPException(403, "the form is not of this session: go back, load the page again")
            return work(request, session, form)

        return self.reading(checked)

    def reading(self, work: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Read a form, and do the work in a thread."""

        async def reply(request: Request) -> Response:
            return await run_in_threadpool(work, request, await _form(request))

        return reply

    def wrong(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        session = self._session(request)
        reply = self._html("error.html", session=session, said="", path="", status=error.status_code, message=error.detail)
        reply.status_code = error.status_code
        return reply

    def _session(self, request: Request) -> Session | None:
        name = request.cookies.get(self._cookie)
        return self._entrance.session(name) if name else None

    def _html(self, template: str, **values: Any) -> Response:
        return HTMLResponse(self._templates.get_template(template).render(links=pages.LINKS, **values))

    def _keep(self, reply: Response, name: str, value: str, **more: Any) -> Response:
        reply.set_cookie(name, value, httponly=True, samesite="strict", secure=self._secure, **more)
        return reply

    # the login

    def login(self, request: Request) -> Response:
        if self._session(request) is not None:
            return RedirectResponse("/", 303)
        return self._login_page("")

    def _login_page(self, problem: str, status: int = 200) -> Response:
        visitor = self._entrance.visitor()
        form = self._entrance.login_form(visitor)
        reply = self._html("login.html", session=None, said="", path="", form=form, problem=problem)
        reply.status_code = status
        return self._keep(reply, f"{self._cookie}_visitor", visitor, path="/login")

    def log_in(self, request: Request, form: Form) -> Response:
        visitor = request.cookies.get(f"{self._cookie}_visitor", "")
        if not self._entrance.sent_by(visitor, form.get("form", "")):
            return self._login_page("The form was of another visit: try again.", 403)
        try:
            name = self._entrance.admit(_address(request), form.get("token", "").strip())
        except TooManyGuesses:
            return self._login_page("Too many wrong tokens: wait a minute.", 429)
        entered = self._entrance.session(name) if name else None
        self._source.note("console login", _by(request, entered), "done" if name else "wrong token")
        if name is None:
            return self._login_page("That is no token of this proxy. `dpproxy admin token` prints or draws one.", 403)
        return self._keep(RedirectResponse("/", 303), self._cookie, name)

    def log_out(self, request: Request, _session: Session, _form: Form) -> Response:
        self._entrance.leave(request.cookies[self._cookie])
        reply = RedirectResponse("/login", 303)
        reply.delete_cookie(self._cookie)
        return reply

    # what is asked

    def explain(self, request: Request, session: Session, form: Form) -> Response:
        return self._page(request, session, pages.explained, form=form)

    def act(self, request: Request, session: Session, form: Form) -> Response:
        try:
            asked, done = request_of(request.path_params["action"], form, self._source.ledger())
            reply = self._source.carry_out(asked, _by(request, session))
            session.said, session.went_wrong = pages.outcome(reply, done)
        except KeyError:
            raise HTTPException(404, "there is no such action") from None
        except (OperatorError, TimeoutError, OSError) as error:
            session.said, session.went_wrong = str(error) or "the proxy does not answer", True
        back = form.get("back", "")
        return RedirectResponse(back if back in {path for path, _ in pages.LINKS} else "/steer", 303)


async def _form(request: Request) -> Form:
    """What a form holds; its last word for each name."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "forms alone are taken")
    data = b""
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > LARGEST:
                raise HTTPException(413, f"a form has at most {LARGEST} bytes")
    except ClientDisconnect:  # it may have given way to others: no matter for the log
        raise HTTPException(400, "the form is incomplete") from None
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, errors="strict", max_num_fields=50))
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _by(request: Request, session: Session | None) -> str:
    operator = f"{session.operator}, " if session is not None and session.operator else ""
    return f"{operator}{BY} from {_address(request)}"


# Who may stay at an HTTP door without having asked anything whole: places, and which connection gives way.
#
# Knows: sockets that were accepted, by their peers. Must not know: HTTP, TLS, what is behind the door. A connection costs the
# proxy a file and perhaps a thread from its first packet on, and one that never finishes a handshake, a header or a form costs
# whoever opened it nothing. So a connection waits here from when it is accepted until a request of it is whole, and again
# behind the reply; where places are short, the one gives way that was silent for longest (`waiting_places`). Nobody is turned
# away at the door.
#
# Several threads may use one door.


PLACES: Final = 128
OF_ONE: Final = 64
"""Connections that may wait, of all networks and of one: a browser opens six, a monitor one. They are few beside the files
that a process may have open, which sessions need."""
AT_A_TIME: Final = 16
"""Connections that are accepted before those that are there are read again: several times as many may wait, so that whoever asks
at once is read before a flood behind it takes its place."""
QUEUE: Final = 1024
"""Connections that the system holds until they are accepted."""

Peer = tuple[str, int]


class Door:
    """Gives places to connections, by the address and port of their peers."""

    def __init__(self, places: int = PLACES, of_one: int = OF_ONE) -> None:
        self._places = WaitingPlaces[Peer](places, of_one)
        self._sockets: dict[Peer, socket.socket] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._places)

    def arrived(self, peer: Peer, connection: socket.socket) -> None:
        """Give a place to a connection that was accepted; another may be ended for it."""
        with self._lock:
            self._places.leave(peer)  # of one that ended before it came to a request, if a port comes again
            self._sockets[peer] = connection
            gone = self._entered(peer)
        _end(gone)

    def asked(self, peer: Peer) -> None:
        """Note that a request is whole: it is worked on now."""
        with self._lock:
            self._places.leave(peer)

    def answered(self, peer: Peer) -> None:
        """Note that a connection which was answered stays for another request."""
        with self._lock:
            gone = self._entered(peer) if peer in self._sockets else None
        _end(gone)

    def left(self, peer: Peer) -> None:
        """Note that a connection has ended."""
        with self._lock:
            self._places.leave(peer)
            self._sockets.pop(peer, None)

    def _entered(self, peer: Peer) -> socket.socket | None:
        gone = self._places.enter(peer, network(peer[0]))
        return self._sockets.pop(gone, None) if gone is not None else None


def _end(connection: socket.socket | None) -> None:
    """Whoever reads it finds its end, and closes it."""
    if connection is not None:
        with contextlib.suppress(OSError):  # it has ended already
            connection.shutdown(socket.SHUT_RDWR)


class Listener(socket.socket):
    """Listens, and has what it accepts wait at a door."""

    def __init__(self, bound: socket.socket, door: Door) -> None:
        """Take a socket's place."""
        super().__init__(bound.family, bound.type, bound.proto, fileno=bound.detach())
        self._door = door

    def listen(self, backlog: int = QUEUE) -> None:
        """Have the system hold as many as it may: `backlog` is how many an event loop accepts in one go."""
        super().listen(max(backlog, QUEUE))

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        self._door.arrived(address[:2], connection)
        return connection, address
