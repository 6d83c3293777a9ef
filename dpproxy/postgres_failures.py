"""What asyncpg raises when a server, or the way to it, fails: said once, because one of the classes is easy to forget.

Knows: asyncpg's exceptions. Must not know: which server, or what follows from a failure. A connection may end while nobody uses
it. When the next call begins before asyncpg has read the server's goodbye to its end, asyncpg raises InternalClientError ("cannot
switch to state ...; another operation is in progress"), which is no InterfaceError. Who names the classes one by one forgets it,
and takes a lost connection for a bug. A test (tests/test_postgres_failures.py) lets no other file name them.
"""

from __future__ import annotations

from typing import Final

import asyncpg

ENDED: Final = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError)
"""A connection ended, or none was made; InternalClientError also when no server that an address names is what it asks for, as in
the midst of a fail-over."""

FAILURES: Final = (asyncpg.PostgresError, *ENDED)
"""Any of those, or an error that the server sent."""
