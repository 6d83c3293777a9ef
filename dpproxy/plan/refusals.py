"""Refusals that more than one room of the planner makes, in one wording.

Knows: SQLSTATEs. Must not know: trees, policies.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpproxy.errors import FEATURE_NOT_SUPPORTED, Refusal


@dataclass(unsafe_hash=True)
class FormRefusal(Refusal):
    """A refusal of the form in which a query is written, not of what it asks: a rule of `plan.rewrite` may know another."""


def unsupported(what: str, hint: str | None = None) -> Refusal:
    return Refusal(FEATURE_NOT_SUPPORTED, f"{what} is not supported below an aggregate over private rows", hint=hint)


def unsupported_form(what: str, hint: str) -> FormRefusal:
    return FormRefusal(FEATURE_NOT_SUPPORTED, f"{what} is not supported below an aggregate over private rows", hint=hint)
