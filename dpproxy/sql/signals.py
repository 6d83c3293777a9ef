"""Functions that end what another session does, or that session: how they are called.

Knows: trees, names of functions. Must not know: sessions. Their argument is a number that a client was given for a session.
"""

from __future__ import annotations

from typing import Final, Literal

from sqlglot import exp

from dpproxy.sql.nodes import every
from dpproxy.sql.trees import function_name

Signal = Literal["cancel", "terminate"]
SIGNALS: Final[dict[str, Signal]] = {"pg_cancel_backend": "cancel", "pg_terminate_backend": "terminate"}
"""What each function does."""


def signal_calls(tree: exp.Expr) -> list[exp.Anonymous]:
    """Return the calls in a tree."""
    return [call for call in every(tree, exp.Anonymous) if function_name(call) in SIGNALS]
