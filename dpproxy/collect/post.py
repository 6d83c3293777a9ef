"""Posting a report: one at a time, with nothing of the device in it.

Knows: HTTP, TLS, what a collector's replies mean. Must not know: the ledger, what a report says. A post has the batch's random
name, the hash of the claim, the report: no cookie, no name of the app or the device, no time. Redirects are not followed: who
could send one could send the device anywhere. The address of the device is seen by whoever the connection ends at.
"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import quote, urlsplit

SECONDS: Final = 20.0
"""That a collector gets to reply."""
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
"""Where a collector may be without TLS."""


class Reply(Enum):
    """What became of a post."""

    TAKEN = "taken"
    UNWANTED = "unwanted"  # the collector will never take it: an unknown claim or table, a report outside its space
    LATER = "later"  # it was not taken: too many, a full disk, no connection
    UNSURE = "unsure"  # it may have arrived: no reply came


@dataclass(frozen=True)
class Posted:
    """A reply and, of refusals, what the collector said."""

    reply: Reply
    said: str = ""


def place_of(url: str) -> tuple[bool, str, int | None, str]:
    """Return whether there is TLS, host, port and path. Raises ValueError for an address without TLS elsewhere than here."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or parts.username:
        raise ValueError(f"{url!r} is no address of a collector, as https://reports.example.org")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ValueError(f"{url!r}: reports travel by https, so that nobody on the way reads them")
    return parts.scheme == "https", parts.hostname, parts.port, parts.path.rstrip("/")


def post(url: str, table: str, batch: str, claim: str, row: list[object], context: ssl.SSLContext | None = None) -> Posted:
    """Post one report, and say what became of it. `context`: for a certificate of one's own. Raises ValueError."""
    tls, host, port, path = place_of(url)
    body = json.dumps({"batch": batch, "claim": claim, "reports": [row]}, separators=(",", ":")).encode()
    connection: http.client.HTTPConnection
    if tls:
        connection = http.client.HTTPSConnection(host, port, timeout=SECONDS, context=context or ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        try:
            connection.connect()
        except OSError as error:  # also a certificate that is not the collector's
            return Posted(Reply.LATER, str(error))
        connection.request("POST", f"{path}/v1/{quote(table)}", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return _posted(reply.status, reply.read(4096))
    except (OSError, http.client.HTTPException) as error:
        return Posted(Reply.UNSURE, str(error))
    finally:
        connection.close()


def _posted(status: int, content: bytes) -> Posted:
    if status == 204:
        return Posted(Reply.TAKEN)
    said = content.decode(errors="replace")
    if status in (400, 404, 409, 413, 422):
        return Posted(Reply.UNWANTED, said)
    return Posted(Reply.UNSURE if status in (500, 502, 504) else Reply.LATER, said)
