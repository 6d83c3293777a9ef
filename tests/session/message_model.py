"""PostgreSQL's message flow as a model of a few lines: what it answers to each message, and which it discards or ignores.

Knows: `PostgresMain` and `CopyGetData` of PostgreSQL's sources, as far as they say which messages are answered. Must not know: the
proxy. A message is its tag and what becomes of it: `Pbad` is a Parse that fails, `Qok+copy+ok` a Query of three statements, `Eview`
an Execute whose COPY fails before its first row. `run` has the client, the model and a `Tracker` take turns by chance.
"""

from __future__ import annotations

import random
from typing import Final

from dpproxy.session.message_flow import ANSWERED
from dpproxy.session.tracker import Tracker
from dpproxy.wire import backend as back

SAID: Final = {
    "Z": back.ready_for_query("I"), "E": back.error_response("ERROR", "42601", "x"), "C": back.command_complete("COPY 1"),
    "1": back.parse_complete(), "2": back.bind_complete(), "3": back.message(b"3", b""), "G": back.message(b"G", b"\0\0\0"),
    "T": back.row_description([back.Field("x", 23)]), "D": back.data_row([b"1"]), "I": back.message(b"I", b""),
}  # fmt: skip
ALONE: Final = (
    "Qok", "Qempty", "Qbad", "Qok+ok", "Qok+bad+ok", "P", "Pbad", "B", "Bbad", "D", "Dbad", "E", "Ebad", "C", "S", "S", "H", "dgood",
    "c", "f",
)  # fmt: skip
COPIES: Final = (
    ("P", "B", "Ecopy"), ("P", "B", "Ecopy"), ("P", "B", "Eview"), ("Qcopy",), ("Qok+copy+ok",), ("Qcopy+copy",), ("Qview",),
)  # fmt: skip
DURING: Final = ("dgood", "dgood", "dbad", "S", "H")


class Postgres:
    """Answers one message after the other, by tags. `discards`: all up to the next Sync."""

    def __init__(self) -> None:
        self.discards = False
        self.copies = False
        self._extended = False  # the last message belonged to an extended query
        self._rest: list[str] | None = None  # statements behind a COPY of a Query; None: it was begun by Execute

    def answer(self, message: str) -> str:
        tag, how = message[0], message[1:]
        if self.copies:
            return self._row(tag, how)
        self._extended = tag in "PBDECH"
        if tag == "S":
            self.discards = False
            return "Z"
        if self.discards or tag in "dcfH":
            return ""
        if how == "bad":
            return self._error()
        if tag == "Q":
            return self._statements(how.split("+"))
        if tag == "E" and how == "view":
            return "G" + self._error()
        if tag == "E" and how == "copy":
            self.copies, self._rest = True, None
            return "G"
        return {"P": "1", "B": "2", "D": "T", "C": "3", "E": "DC"}[tag]

    def _error(self) -> str:
        self.discards = self._extended
        return "E" if self._extended else "EZ"

    def _row(self, tag: str, how: str) -> str:
        assert tag in "dcfHS", "PostgreSQL ends the connection"
        if tag == "f" or how == "bad":
            self.copies = False
            return self._error()
        if tag != "c":
            return ""
        self.copies = False
        return "C" if self._rest is None else "C" + self._statements(self._rest)

    def _statements(self, texts: list[str]) -> str:
        said = ""
        for number, text in enumerate(texts):
            if text == "copy":
                self.copies, self._rest = True, texts[number + 1 :]
                return said + "G"
            if text in ("bad", "view"):
                return said + ("G" if text == "view" else "") + self._error()
            said += "TDC" if text == "ok" else "I"
        return said + "Z"


def sequence(chance: random.Random) -> list[str]:
    """What a client may send, Syncs anywhere; each copy is brought to its end."""
    found: list[str] = []
    for _ in range(chance.randint(1, 6)):
        if chance.random() < 0.65:
            found.append(chance.choice(ALONE))
            continue
        copy = chance.choice(COPIES)
        for _ in range(1 + (copy == ("Qcopy+copy",))):
            found += [*copy, *chance.choices(DURING, k=chance.randint(0, 4)), chance.choice(("c", "f", "cbad"))]
            copy = ()
    return found


def run(messages: list[str], chance: random.Random) -> str:
    """What the tracker has wrong; empty when it is right throughout."""
    tracker, server = Tracker(), Postgres()
    coming, sent, said = list(messages), [], ""
    while coming or sent or said:
        turn = chance.choice(["client"] * bool(coming) + ["server"] * bool(sent) + ["said"] * bool(said))
        if turn == "client" and tracker.doubtful and coming[0][0].encode() in ANSWERED:  # the link asks the facade
            said += "".join(map(server.answer, sent))
            sent = []
            tracker.scan(b"".join(map(SAID.__getitem__, said)))
            said = ""
            tracker.begin_again(ord("I"))
            tracker.failed = server.discards
        elif turn == "client":
            tracker.forward(coming[0][0].encode())
            sent.append(coming.pop(0))
        elif turn == "server":
            said += server.answer(sent.pop(0))
        else:
            size = chance.randint(1, len(said))
            tracker.scan(b"".join(map(SAID.__getitem__, said[:size])))
            said = said[size:]
        if not tracker.doubtful and (wrong := _wrong(tracker, server, sent, said)):
            return f"{wrong}, before {coming}"
    return ""


def _wrong(tracker: Tracker, server: Postgres, sent: list[str], said: str) -> str:
    if sent or said:
        early = tracker.settled and not tracker.copy_in and said
        return f"all is said to be answered before {said}" if early else ""
    if tracker.copy_in != server.copies:
        return "a copy is underway" if server.copies else "no copy is underway"
    if server.copies:
        return ""
    return "" if (tracker.settled, tracker.failed) == (True, server.discards) else f"{tracker.outstanding} more are waited for"
