"""Bytes and messages of the PostgreSQL protocol 3.0 and 3.2. Knows bytes; knows no SQL, no policy, no socket."""
