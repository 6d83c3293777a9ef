"""What becomes of each message of a client, in each state of its conversation: PostgreSQL's message flow as one table.

Knows: the messages of the protocol, the states in which PostgreSQL's documentation ("Message Flow": Simple Query, Extended Query,
Function Call, COPY Operations, Termination) has the server treat them differently. Must not know: what messages say, connections.
Pure data, and two look-ups.

`Conductor` does what a row says, `ClientSession` lets pass unread what a row forwards, `Tracker` counts what a row has answered.
A message that is in no row is an error. To change what becomes of a message, change its row; to check the table, read it beside
the documentation:

- Simple and extended query: whatever carries a text, or names what a text was prepared as, may concern private tables. The proxy
  examines it; everything else is the facade's, which is a PostgreSQL server.
- "Function Call" is called a legacy feature there; the proxy refuses it.
- "If an error is detected while processing any extended-query message, the backend issues ErrorResponse, then reads and discards
  messages until a Sync is reached": the column `failed`. So does the proxy with what it would examine.
- In copy-in mode "Flush and Sync messages are ignored", and any other message that is not the copy's aborts it: the column
  `copy_in`. The facade does both, so all is forwarded. What is left of an aborted copy is dropped: it is sent in the state
  `ready`, where the facade ignores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class State(Enum):
    """Where a conversation stands, as far as it decides what becomes of the client's next message."""

    READY = "ready"
    """For a query, or within an extended one that has not failed."""
    FAILED = "failed"
    """Within an extended query that has failed: nothing is done until Sync."""
    COPY_IN = "copy in"
    """The facade reads the rows of a COPY FROM STDIN."""


class Step(Enum):
    """What the proxy does with a message."""

    EXAMINE = "examine"
    """Read it: the proxy answers what concerns private tables, and forwards the rest."""
    FORWARD = "forward"
    """Pass it to the facade, which does what PostgreSQL does."""
    DISCARD = "discard"
    """Do nothing, as PostgreSQL does."""
    REFUSE = "refuse"
    """Answer with an error: the proxy does not offer this."""
    LEAVE = "leave"
    """End the session without a word."""
    INVALID = "invalid"
    """End the session with an error: no client may send this here."""


@dataclass(frozen=True)
class Message:
    """One message of a client, and what becomes of it in each state.

    `begins`: whether it begins work, which a session that is to leave does not do any more. `ends_copy`: whether the client has
    no more rows for a COPY FROM STDIN. `completions`: tags of the facade's
    messages of which it is answered by exactly one; empty for what is answered by ReadyForQuery, or not at all.
    """

    tag: bytes
    name: str
    ready: Step
    failed: Step
    copy_in: Step
    begins: bool = False
    ends_copy: bool = False
    completions: bytes = b""

    def step(self, state: State) -> Step:
        if state is State.READY:  # asked for each message: a dictionary of the states takes ten times as long
            return self.ready
        return self.failed if state is State.FAILED else self.copy_in


_EXAMINE, _FORWARD, _DISCARD, _INVALID = Step.EXAMINE, Step.FORWARD, Step.DISCARD, Step.INVALID

MESSAGES: Final = (
    #                              ready         failed      copy_in
    Message(b"Q", "Query",         _EXAMINE,     _DISCARD,   _FORWARD, begins=True),
    Message(b"P", "Parse",         _EXAMINE,     _DISCARD,   _FORWARD, begins=True, completions=b"1"),
    Message(b"B", "Bind",          _EXAMINE,     _DISCARD,   _FORWARD, begins=True, completions=b"2"),
    Message(b"C", "Close",         _EXAMINE,     _DISCARD,   _FORWARD, completions=b"3"),
    Message(b"D", "Describe",      _FORWARD,     _DISCARD,   _FORWARD, completions=b"Tn"),
    Message(b"E", "Execute",       _FORWARD,     _DISCARD,   _FORWARD, completions=b"CsI"),
    Message(b"H", "Flush",         _FORWARD,     _DISCARD,   _FORWARD),
    Message(b"S", "Sync",          _FORWARD,     _FORWARD,   _FORWARD),
    Message(b"F", "FunctionCall",  Step.REFUSE,  _DISCARD,   _FORWARD, begins=True),
    Message(b"d", "CopyData",      _FORWARD,     _DISCARD,   _FORWARD),
    Message(b"c", "CopyDone",      _FORWARD,     _DISCARD,   _FORWARD, ends_copy=True),
    Message(b"f", "CopyFail",      _FORWARD,     _DISCARD,   _FORWARD, ends_copy=True),
    Message(b"X", "Terminate",     Step.LEAVE,   Step.LEAVE, _FORWARD),
    Message(b"p", "SASLResponse",  _INVALID,     _INVALID,   _FORWARD),
)  # fmt: skip
"""Every message a client may send once it is logged in; the last one only while it logs in, which is before this table."""

BY_TAG: Final[Mapping[bytes, Message]] = {message.tag: message for message in MESSAGES}

HARMLESS: Final = frozenset(m.tag for m in MESSAGES if m.ready is Step.FORWARD)
"""Messages that never need the proxy: a portal of a private answer lives in the facade under the client's name."""
COMPLETED: Final = frozenset(m.tag for m in MESSAGES if m.completions)
"""Messages of the extended protocol that get exactly one completion each, or an error."""
ANSWERED: Final = frozenset((b"Q", b"F")) | COMPLETED
"""Messages that PostgreSQL answers unless it discards them."""
ENDS_COPY: Final = frozenset(m.tag for m in MESSAGES if m.ends_copy)
"""Messages after which the facade reads no more rows."""
COMPLETIONS: Final = frozenset(bytes([tag]) for m in MESSAGES for tag in m.completions)
"""Tags of the facade's messages that complete one of `COMPLETED`."""


def step(state: State, tag: bytes) -> Step:
    """Return what the proxy does with a message; what is in no row is invalid."""
    message = BY_TAG.get(tag)
    return Step.INVALID if message is None else message.step(state)


def begins(tag: bytes) -> bool:
    """Return whether a message begins work."""
    message = BY_TAG.get(tag)
    return message is not None and message.begins
