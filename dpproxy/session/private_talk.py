"""A private conversation with the facade while its replies are captured, in either protocol.

Knows: the extended protocol. Must not know: plans. In the simple protocol every question ends with Sync, so that each
is a transaction of its own unless the client opened one; in the extended protocol with Flush, inside the client's own
implicit transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.answers.statement_end import StatementFailed
from dpproxy.session.link import Exchange, FacadeLink
from dpproxy.wire import backend as back
from dpproxy.wire import frontend_build as front

SCRATCH = "dpproxy_scratch"
"""Statement and portal of the proxy's own questions."""


def _unnamed(error: bytes) -> bytes:
    """As PostgreSQL says it of the portal that clients use."""
    payload = error[5:].replace(f'portal "{SCRATCH}" parameter'.encode(), b"unnamed portal parameter")
    return error[:1] + (len(payload) + 4).to_bytes(4, "big") + payload


class PrivateTalk:
    """Asks the facade questions of the proxy's own. `extended`: the client is in the middle of an extended conversation."""

    def __init__(self, link: FacadeLink, extended: bool) -> None:
        self._link = link
        self.extended = extended

    async def ask(self, data: bytes, completions: int) -> Exchange:
        """Ask the facade. Raises StatementFailed with the facade's error, LinkLost."""
        if self.extended:
            replies = await self._link.exchange(data, completions)
        else:
            replies = await self._link.exchange(data + front.SYNC, None)
        if replies.error is not None:
            raise StatementFailed(_unnamed(replies.error))
        return replies

    async def ask_row(
        self,
        sql: str,
        oids: Sequence[int] = (),
        values: Sequence[bytes | None] = (),
        formats: Sequence[int] = (),
        before: bytes = b"",
        completions: int = 0,
        behind: bytes = b"",
    ) -> tuple[tuple[bytes | None, ...], Exchange]:
        """Return one row of text, and all replies. `before`: messages sent ahead, which take `completions`.

        `behind`: messages sent along, in the simple protocol only, where the end is told by itself.
        """
        scratch = (
            front.close("S", SCRATCH)  # an error may have left it
            + front.parse(SCRATCH, sql, oids)
            + front.bind(SCRATCH, SCRATCH, values, formats)
            + front.execute(SCRATCH)
            + front.close("P", SCRATCH)
        )
        replies = await self.ask(before + scratch + behind, completions + 5)
        return back.read_data_row(replies.payloads(b"D")[-1]), replies

    async def fail(self) -> None:
        """Fail as an error of the facade's own would: the transaction is aborted, and messages are skipped to Sync."""
        tracker = self._link.tracker
        if self.extended:
            if not tracker.failed:
                await self._link.exchange(front.parse(SCRATCH, "refused"), 1)
        elif tracker.status == "T":
            await self._link.exchange(front.parse(SCRATCH, "refused") + front.SYNC, None)
