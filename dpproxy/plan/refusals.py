"""Refusals that more than one room of the planner makes, in one wording.

Knows: SQLSTATEs. Must not know: trees, policies.
"""

from __future__ import annotations

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal


def unsupported(what: str, hint: str | None = None) -> Refusal:
    return Refusal(FEATURE_NOT_SUPPORTED, f"{what} is not supported below an aggregate over private rows", hint=hint)
