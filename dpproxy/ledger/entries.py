"""Entries of a ledger as text, and the chain of hashes that makes them a record.

Knows: JSON, SHA-256. Must not know: where entries are kept, what they mean for a budget. An entry is one line of
JSON with sorted keys; its hash covers the hash before it, so no entry can be changed, dropped, added or moved without
changing every later hash, and the head (sequence, hash) names the whole record. With a key, the head is sealed by
HMAC-SHA-256: without the key nobody can write another record that passes. Integers only; times in UTC.

A checkpoint is an entry like others: all accounts as they stand before it, so that a start need not add up what comes
before (it is still hashed, so that no change goes unnoticed).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpproxy.ledger.ledger import Charge, Grant, LedgerCorrupt, LedgerError
from dpproxy.privacy.loss import ORDERS, RESERVES, ZERO, Loss

SCHEMA = 3
"""1: without checkpoints. 2: no clock is set back, data have no names, and checkpoints say less. A record of an older schema
is read as it is, and says from where on it is of this one."""

CHECKPOINT_EVERY = 20_000
"""Checkpoints have sequences that are multiples of this: half a second of adding up, and 15 MB of entries."""

_ANOTHER_VERSION = "the ledger was written by another version of dpproxy; this one cannot read it"

_LOSS = ',"loss":{'
"""What comes before the loss of a charge, in the text that `encode` writes; and the brace that begins it."""

_PLAIN = r'"([ !#-\[\]-~]*)"'  # a string of ASCII without quotes and backslashes: JSON writes it as it is
_CHARGE = re.compile(
    rf'\{{"at":{_PLAIN},"dataset":{_PLAIN},"dataset_loss":(true|false|\{{[^{{}}]*\}}),"id":{_PLAIN},"kind":"charge",'
    rf'(?:"policy":{_PLAIN},)?"role":{_PLAIN},"sequence":([1-9][0-9]*),"statement":{_PLAIN},"user":{_PLAIN}\}}\Z'
)
"""A charge as `encode` writes it, but for its loss, when no text in it needs a backslash: nearly every entry."""

_ID = re.compile(r'"id":("(?:[^"\\]|\\.)*"),"kind":"charge"')
_SEQUENCE = re.compile(r'"sequence":([1-9][0-9]{0,18})[,}]')
_CHECKPOINT = '{"kind":"checkpoint"'
"""Where a body says its number and what it is found by. No name can be taken for it: quotes in a string have a backslash."""

_quoted = json.encoder.encode_basestring_ascii

NO_HASH = bytes(32)
"""What the first entry's hash covers in place of an earlier one."""


@dataclass(frozen=True)
class Opened:
    """The first entry says which record this is and how its losses are to be read."""

    ledger: str
    schema: int = SCHEMA
    orders: tuple[float, ...] = ORDERS
    reserves: tuple[int, ...] = RESERVES


@dataclass(frozen=True)
class Migrated:
    """From here on entries are of this schema."""

    schema: int = SCHEMA


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint adds up the record. `state`: what all entries before come to (`ledger.book`), as JSON has it."""

    state: Any


@dataclass(frozen=True)
class ClockWord:
    """An operator said that the clock is right, after a jump."""

    at: dt.datetime
    reason: str


@dataclass(frozen=True)
class ClockWrong:
    """An operator said that the times before were wrong, and that it is `at`: the one entry that may be earlier than the
    one before it. Every charge stays charged (`states.Account.back`)."""

    at: dt.datetime
    reason: str


@dataclass(frozen=True)
class Named:
    """`dataset` is charged for `data` (a digest that names a backend and a unit) as `account`: its own name, or that of the
    dataset it shares all accounts with. `reason`: an operator's; empty where nobody had to be asked."""

    at: dt.datetime
    dataset: str
    account: str
    data: str
    reason: str = ""


@dataclass(frozen=True)
class Exhausted:
    """Entries may have been lost: what is unknown counts as everything. Closes every current window (`repair`)."""

    at: dt.datetime
    reason: str


Entry = Opened | Migrated | Checkpoint | Charge | Grant | ClockWord | ClockWrong | Named | Exhausted


@dataclass(frozen=True)
class Head:
    """A head is the last entry's sequence and hash; sequence 0 means that there is no entry yet."""

    sequence: int = 0
    hash: bytes = NO_HASH
    seal: bytes | None = None


@dataclass(frozen=True)
class Row:
    sequence: int
    id: str | None  # of charges and checkpoints
    body: str
    hash: bytes


def row_of(entry: Entry, sequence: int, previous: bytes) -> Row:
    """Return the row that an entry becomes, after the row of that hash."""
    body = encode(entry, sequence)
    id = entry.id if isinstance(entry, Charge) else checkpoint_id(sequence) if isinstance(entry, Checkpoint) else None
    return Row(sequence, id, body, link(previous, body))


def checkpoint_id(sequence: int) -> str:
    return f"checkpoint {sequence}"


def link(previous: bytes, body: str) -> bytes:
    """Return the hash of an entry: SHA-256 of the hash before it and the entry's text."""
    return hashlib.sha256(previous + body.encode()).digest()


def stored(sequence: object, id: object, body: object, digest: object) -> tuple[str, bytes]:
    """Return body and hash of a row of a table. Raises LedgerCorrupt where the row is none that `row_of` makes. Hashes cover the
    body alone; number and id are columns to find rows by, and say what the body says."""
    if not isinstance(body, str) or not isinstance(digest, bytes):
        raise LedgerCorrupt("an entry of the ledger has no text, or no hash")
    number, charge = _SEQUENCE.search(body), _ID.search(body)
    named = json.loads(charge[1]) if charge is not None else None
    if number is not None and body.startswith(_CHECKPOINT):
        named = checkpoint_id(int(number[1]))
    if number is None or (int(number[1]), named) != (sequence, id):
        raise LedgerCorrupt("an entry of the ledger has another number or id than its text")
    return body, digest


def head_of(row: Sequence[object] | None) -> Head:
    """Return the head that a row of a table holds: (sequence, hash, seal). Raises LedgerCorrupt where it holds none."""
    if row is None:
        return Head()
    match tuple(row):
        case (int() as sequence, bytes() as digest, None | bytes() as stamp) if sequence >= 0 and len(digest) == len(NO_HASH):
            return Head(sequence, digest, stamp)
    raise LedgerCorrupt("the ledger's head cannot be read")


def seal(key: bytes, chain: str, sequence: int, digest: bytes) -> bytes:
    return hmac.digest(key, f"{chain}\0{sequence}\0".encode() + digest, "sha256")


def check_seal(key: bytes | None, chain: str, head: Head) -> None:
    """Check the seal of a head. Raises LedgerError when it is sealed with another key, or not at all although it should be."""
    if not head.sequence:
        return
    if key is None and head.seal is not None:
        raise LedgerError("the ledger is sealed: configure the key it was written with")
    if key is not None and not hmac.compare_digest(head.seal or b"", seal(key, chain, head.sequence, head.hash)):
        raise LedgerCorrupt("the ledger's head does not carry the seal of the configured key")


def encode(entry: Entry, sequence: int) -> str:
    """Write an entry as one line of JSON."""
    if isinstance(entry, Charge):
        return _charge(entry, sequence)
    return _json({"sequence": sequence} | _fields(entry))


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _charge(charge: Charge, sequence: int) -> str:
    """What `_json` writes, in a third of the time: the losses are the same in many entries."""
    parts = (charge.dataset, charge.id, charge.role, charge.statement, charge.user)
    dataset, id, role, statement, user = map(_quoted, parts)
    whole, policy = _dataset_loss(charge), f'"policy":{_quoted(charge.policy)},' if charge.policy else ""
    return (
        f'{{"at":"{_time(charge.at)}","dataset":{dataset},"dataset_loss":{whole},"id":{id},"kind":"charge",'
        f'"loss":{_loss_text(charge.loss)},{policy}"role":{role},"sequence":{sequence},"statement":{statement},"user":{user}}}'
    )


@lru_cache(maxsize=1024)
def _loss_text(loss: Loss) -> str:
    return _json(loss.to_json())


def _fields(entry: Opened | Migrated | Checkpoint | Grant | ClockWord | ClockWrong | Named | Exhausted) -> dict[str, Any]:
    match entry:
        case Opened():
            return {
                "kind": "open",
                "ledger": entry.ledger,
                "schema": entry.schema,
                "orders": list(entry.orders),
                "reserves": list(entry.reserves),
            }
        case Migrated():
            return {"kind": "migrated", "schema": entry.schema}
        case Checkpoint():
            return {"kind": "checkpoint", "state": entry.state}
        case Grant():
            fields: dict[str, Any] = {"kind": "grant", "at": _time(entry.at), "dataset": entry.dataset, "scope": entry.scope}
            fields |= {"name": entry.name, "epsilon": entry.epsilon, "delta": entry.delta, "reason": entry.reason}
            return fields
        case ClockWord():
            return {"kind": "clock", "at": _time(entry.at), "reason": entry.reason}
        case ClockWrong():
            return {"kind": "clock wrong", "at": _time(entry.at), "reason": entry.reason}
        case Named():
            fields = {"kind": "named", "at": _time(entry.at), "dataset": entry.dataset, "account": entry.account}
            return fields | {"data": entry.data, "reason": entry.reason}
        case Exhausted():
            return {"kind": "exhausted", "at": _time(entry.at), "reason": entry.reason}


def _dataset_loss(charge: Charge) -> str:
    """`true`: the same as the role's; `false`: none. Most entries are one of these."""
    if charge.dataset_loss is charge.loss or charge.dataset_loss == charge.loss:
        return "true"
    return _loss_text(charge.dataset_loss) if charge.dataset_loss else "false"


def decode(body: str) -> tuple[int, Entry]:
    """Read (sequence, entry). Raises LedgerCorrupt for what `encode` does not write, LedgerError for another schema."""
    try:
        loss, rest = _without_loss(body)
        if loss and (found := _CHARGE.match(rest)) is not None:
            return _decoded(loss, *found.groups())
        data = json.loads(body)
        return int(data["sequence"]), _entry(data)
    except LedgerError:
        raise
    except Exception as error:  # whatever damage has made of it
        raise LedgerCorrupt("an entry of the ledger cannot be read") from error


def _without_loss(body: str) -> tuple[str, str]:
    """Split the loss of a charge off, as JSON: half of the entry's text, and the same in many entries. No name can be taken for
    it: quotes within a string are written with a backslash."""
    start = body.find(_LOSS)
    end = body.find("}", start) + 1
    if start < 0 or not end:
        return "", body
    return body[start + len(_LOSS) - 1 : end], body[:start] + body[end:]


def _decoded(
    loss: str,
    at: str,
    dataset: str,
    whole: str,
    id: str,
    policy: str | None,
    role: str,
    sequence: str,
    statement: str,
    user: str,
) -> tuple[int, Entry]:
    """What `_entry` makes of the same text."""
    number, of_all = int(sequence), _loss(loss)
    of_dataset = of_all if whole == "true" else ZERO if whole == "false" else _loss(whole)
    return number, Charge(id, number, dataset, role, user, of_all, of_dataset, statement, _at(at), policy or "")


@lru_cache(maxsize=1024)
def _loss(text: str) -> Loss:
    return Loss.from_json(json.loads(text))


def _entry(data: dict[str, Any]) -> Entry:
    match data["kind"]:
        case "charge":
            loss = Loss.from_json(data["loss"])
            whole = data["dataset_loss"]
            dataset_loss = (loss if whole else ZERO) if isinstance(whole, bool) else Loss.from_json(whole)
            names = (_text(data["dataset"]), _text(data["role"]), _text(data["user"]))
            said, at, policy = _text(data["statement"]), _at(data["at"]), str(data.get("policy", ""))
            return Charge(_text(data["id"]), int(data["sequence"]), *names, loss, dataset_loss, said, at, policy)
        case "grant":
            amounts = (int(data["epsilon"]), int(data["delta"]))
            of = (_text(data["dataset"]), data["scope"], _text(data["name"]))
            return Grant(*of, *amounts, _text(data["reason"]), _at(data["at"]))
        case "clock":
            return ClockWord(_at(data["at"]), _text(data["reason"]))
        case "clock wrong":
            return ClockWrong(_at(data["at"]), _text(data["reason"]))
        case "named":
            texts = (_text(data[name]) for name in ("dataset", "account", "data", "reason"))
            return Named(_at(data["at"]), *texts)
        case "exhausted":
            return Exhausted(_at(data["at"]), _text(data["reason"]))
        case "open":
            return _opened(data)
        case "migrated":
            return Migrated(_readable(data["schema"]))
        case "checkpoint":
            return Checkpoint(data["state"])
        case _:
            raise ValueError("unknown kind of entry")


def _opened(data: dict[str, Any]) -> Opened:
    opened = Opened(_text(data["ledger"]), _readable(data["schema"]), tuple(data["orders"]), tuple(data["reserves"]))
    if (opened.orders, opened.reserves) != (ORDERS, RESERVES):
        raise LedgerError(_ANOTHER_VERSION)
    return opened


def _readable(schema: int) -> int:
    if not 1 <= schema <= SCHEMA:
        raise LedgerError(_ANOTHER_VERSION)
    return schema


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a name that is no text")
    return value


def _time(at: dt.datetime) -> str:
    return at.astimezone(dt.UTC).isoformat(timespec="microseconds")


def _at(text: str) -> dt.datetime:
    at = dt.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("a time without a zone")
    return at
