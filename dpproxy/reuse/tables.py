"""What stored answers need of the place they are kept in.

Knows: rows, work that is done whole. Must not know: what the rows mean, keys. `file_tables` is a file of one machine's proxies,
`server_tables` is beside a ledger in PostgreSQL, for the proxies of many; `store` is the one user of either. Both have the same
tables, and take the same SQL, with `?` for a value.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dpproxy.derived_keys import derived
from dpproxy.errors import OperatorError
from dpproxy.mechanisms.noise import Released

T = TypeVar("T")

Values = Sequence[object]

FORMAT = 4
"""Of the tables. 3 did not seal who has seen what; 2 did not say what was dropped, so no other role is shown what is in it."""


class TablesError(Exception):
    """Something could not be read or written: it counts as not there, which costs budget."""


class TablesAway(TablesError):
    """What others share cannot be reached. Whoever went on without it would pay for what is paid for."""


class Claiming(Protocol):
    """Who is making which measurement, among those who share the tables."""

    async def claim(self, names: Collection[str]) -> bool:
        """Take all names, or none: False when one is somebody else's. Raises TablesAway."""
        ...

    def drop(self, names: Collection[str]) -> None: ...


class AnswerTables(Protocol):
    """Keeps the rows of stored answers; for one thread at a time."""

    @property
    def claims(self) -> Claiming: ...

    def open(self, check: Callable[[int], None]) -> None:
        """Make what is missing. `check` is given the format that is there, and brings the rows to FORMAT, or raises SealError.
        Raises OperatorError."""
        ...

    def now(self) -> dt.datetime:
        """Return the time by which answers age: the same for all who share the tables."""
        ...

    def rows(self, query: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement within `reading` or `writing`, and return what it returns."""
        ...

    def reading(self, work: Callable[[], T]) -> T:
        """Raises TablesError."""
        ...

    def writing(self, work: Callable[[], T]) -> T:
        """Do all of it or nothing, and nobody else's meanwhile. `work` may be done twice, where it is not known whether it was
        done. Raises TablesError."""
        ...

    def close(self) -> None: ...


# A release as the bytes that are kept of it, and back.
#
# Knows: Arrow's stream format. Must not know: where the bytes are kept, who may see them. What is read back is what was
# written, type by type, or an error: a stored answer that is broken is a miss.


def pack(released: Released) -> bytes:
    """Return a release as Arrow IPC: keys k0.., values v0... The number of rows is in the metadata, for answers without
    columns."""
    columns = {f"k{i}": key for i, key in enumerate(released.keys)}
    columns |= {f"v{i}": pa.array(value, pa.int64()) for i, value in enumerate(released.values)}
    schema = pa.schema([(n, c.type) for n, c in columns.items()], metadata={"rows": str(released.rows)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(list(columns.values()), schema=schema))
    return bytes(sink.getvalue())


def unpack(payload: bytes) -> Released:
    """Return the release that `pack` has written. Raises ValueError for anything else."""
    try:
        table = pa.ipc.open_stream(payload).read_all()
        rows = int(table.schema.metadata[b"rows"])
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:  # OSError: of one that was cut off
        raise ValueError(f"a stored answer cannot be unpacked: {error}") from error
    keys = tuple(_array(table, n) for n in table.column_names if n.startswith("k"))
    values = tuple(_array(table, n).to_numpy(zero_copy_only=False) for n in table.column_names if n.startswith("v"))
    if any(len(c) != rows for c in (*keys, *values)) or any(v.dtype != np.int64 for v in values):
        raise ValueError("a stored answer has columns of another shape")
    return Released(keys, values, rows)


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


# What tables say of a stored release in plain text, and as what it is sealed.
#
# Knows: names. Must not know: keys of ciphers, what is sealed. A sealed payload is opened only under the name it was sealed as
# (`reuse.tables`), so that whatever stands beside it in plain text has to be what it was.


@dataclass(frozen=True)
class ReleaseKey:
    """What the tables say of a release in plain text. What is sealed is sealed together with it, so that no row passes for
    another, for an earlier or a later one, or for one that another role has seen."""

    id: int
    exact: str
    base: str
    dataset: str
    created: str

    @property
    def columns(self) -> tuple[object, ...]:
        return (self.id, self.exact, self.base, self.dataset, self.created)

    @property
    def sealed_as(self) -> str:
        return json.dumps(["release", *self.columns])

    def seen_as(self, role: str, at: str) -> str:
        return json.dumps(["seen", *self.columns, role, at])


# Stored answers under a key: AES-256-GCM by a package that is imported only for a key: it takes memory.
#
# Knows: bytes. Must not know: what they mean. Each payload has a nonce of its own, drawn by the operating system, and is bound
# to the name it is stored under, so that no payload passes for another's.


NONCE = 12  # bytes, as NIST SP 800-38D recommends; random ones are good for 2**32 payloads under one key


class SealError(OperatorError):
    """A text is sealed under another key, or changed, or no sealing is possible; the message is for the operator."""


class Sealer:
    """A sealer encrypts what is kept. `key`: any secret of at least 16 bytes; the cipher's key is derived from it."""

    def __init__(self, key: bytes) -> None:
        """Derive the cipher's key. Raises SealError when the key is too short."""
        if len(key) < 16:
            raise SealError("a key has at least 16 bytes")
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher, self._invalid = AESGCM(derived(key, "stored answers")), InvalidTag

    def seal(self, payload: bytes, name: str) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, payload, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """Decrypt what `seal` wrote. Raises SealError."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], name.encode())
        except (self._invalid, ValueError) as error:
            raise SealError("a stored answer is sealed under another key, or was changed") from error
