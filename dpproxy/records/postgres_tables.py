"""The tables and functions of a ledger in PostgreSQL.

Knows: their SQL. Must not know: transactions, what is kept.
"""

from __future__ import annotations

from typing import Any

import asyncpg

_QUEUE = 0x6470_7071  # advisory locks too, by which those queue who want the row of one record
_LOCK = 0x6470_7072  # an advisory lock of our own: two proxies may start at once
_SCHEMA = """
CREATE SCHEMA IF NOT EXISTS dpproxy_ledger;
CREATE TABLE IF NOT EXISTS dpproxy_ledger.entries (
    chain text NOT NULL, sequence bigint NOT NULL, id text, body text NOT NULL, hash bytea NOT NULL,
    PRIMARY KEY (chain, sequence), UNIQUE (chain, id)
);
CREATE TABLE IF NOT EXISTS dpproxy_ledger.head (
    chain text PRIMARY KEY, sequence bigint NOT NULL, hash bytea NOT NULL, seal bytea
);
CREATE TABLE IF NOT EXISTS dpproxy_ledger.damaged (
    repaired timestamptz NOT NULL DEFAULT now(), chain text NOT NULL, sequence bigint NOT NULL, body text, hash bytea
);
"""

_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION dpproxy_ledger.held(the_chain text, known bigint, most integer)
RETURNS TABLE (sequence bigint, hash bytea, seal bytea, body text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM pg_advisory_xact_lock({_QUEUE}, hashtext(the_chain));
    SELECT h.sequence, h.hash, h.seal INTO sequence, hash, seal FROM dpproxy_ledger.head AS h
        WHERE h.chain = the_chain FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO dpproxy_ledger.head VALUES (the_chain, 0, decode(repeat('00', 32), 'hex')) ON CONFLICT DO NOTHING;
        SELECT h.sequence, h.hash, h.seal INTO sequence, hash, seal FROM dpproxy_ledger.head AS h
            WHERE h.chain = the_chain FOR UPDATE;
    END IF;
    RETURN NEXT;
    RETURN QUERY SELECT e.sequence, e.hash, NULL::bytea, e.body FROM dpproxy_ledger.entries AS e
        WHERE e.chain = the_chain AND e.sequence > known AND e.sequence <= known + most ORDER BY e.sequence;
END
$$;
CREATE OR REPLACE FUNCTION dpproxy_ledger.still(the_chain text, last bigint, digest bytea, sealed bytea)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM dpproxy_ledger.head AS h
        WHERE h.chain = the_chain AND h.sequence = last AND h.hash = digest AND h.seal IS NOT DISTINCT FROM sealed FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another proxy has written to the record' USING ERRCODE = 'serialization_failure';
    END IF;
END
$$
"""
"""`held` locks a record (each statement after it sees what was committed before) and answers its head, then what `known` rows
lack. `still` locks it if it ends with this head, and fails otherwise."""

PREPARED = """
PREPARE added(text, bigint, text, text, bytea) AS INSERT INTO entries VALUES ($1, $2, $3, $4, $5);
PREPARE moved(text, bigint, bytea, bytea) AS UPDATE head SET sequence = $2, hash = $3, seal = $4 WHERE chain = $1;
PREPARE flushed AS SELECT pg_logical_emit_message(true, 'dpproxy', '')
"""
"""What a connection that writes prepares, since a plan costs more than what it does: a row more, another head; and the least
transaction that has something to flush, an empty message in the log, which nobody reads."""


async def prepare(db: asyncpg.Connection[Any]) -> None:
    """Create what is missing."""
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        if await db.fetchval("SELECT to_regclass('dpproxy_ledger.damaged')") is None:
            await db.execute(_SCHEMA)
        if await db.fetchval("SELECT to_regproc('dpproxy_ledger.held')") is None:
            await db.execute(_FUNCTIONS)
