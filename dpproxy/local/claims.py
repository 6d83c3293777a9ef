"""What a policy claims of a device: one frozen value a mechanism, with exact probabilities and the epsilon that follows.

Knows: the mechanisms there are, their files. Must not know: policies, SQL, arrays, chance. A claim is made of probabilities, or
by `within` of an epsilon, which then is a bound that holds for the probabilities drawn. It does not prove that devices do this.
Devices, the collector and the proxy read the same claim, from `Claim.document`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any, TypeAlias

from dpproxy.local.laws import ClaimError, Law
from dpproxy.local.listed import Binary, Direct, Plane, Unary
from dpproxy.local.numeric import Duchi, Laplace, Levels
from dpproxy.local.sketches import CountMean, Hadamard, Hashed, Sequence

__all__ = [
    "Binary", "Claim", "ClaimError", "CountMean", "Direct", "Duchi", "Hadamard", "Hashed", "Laplace", "Law", "Levels", "Plane",
    "Sequence", "Unary", "claim_of", "digest",
]  # fmt: skip

Claim: TypeAlias = Binary | Direct | Unary | Plane | Hashed | CountMean | Hadamard | Levels | Laplace | Duchi | Sequence
"""One of them; a match over it is exhaustive."""

_KINDS: Mapping[str, type[Any]] = {
    "rr": Binary,
    "krr": Direct,
    "sue": Unary,
    "oue": Unary,
    "pgr": Plane,
    "flh": Hashed,
    "cms": CountMean,
    "hcms": Hadamard,
    "levels": Levels,
    "laplace": Laplace,
    "duchi": Duchi,
    "sfp": Sequence,
}


def claim_of(document: Mapping[str, Any]) -> Claim:
    """Read `Claim.document`. Raises ClaimError for one that this version does not read."""
    kind = _KINDS.get(str(document.get("by")))
    if kind is None:
        raise ClaimError("the mechanism's file names no mechanism that is known here")
    types = {field.name: field.type for field in fields(kind)}
    if set(document) | {"by"} != set(types) | {"by"}:
        raise ClaimError("the mechanism's file has other entries than its mechanism")
    try:
        claim: Claim = kind(**{name: _READERS[str(types[name])](document[name]) for name in types})
    except (TypeError, ValueError, ZeroDivisionError) as wrong:
        if isinstance(wrong, ClaimError):
            raise
        raise ClaimError("an entry of the mechanism's file is of another type") from None
    return claim


def digest(document: Mapping[str, Any]) -> str:
    """Return the hash that pins a document of a claim: SHA-256 of its JSON with sorted keys, in hexadecimal."""
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1000:
        raise TypeError
    return value


def _fraction(value: object) -> Fraction:
    if not _FRACTION.fullmatch(_text(value)):
        raise TypeError
    return Fraction(_text(value))


_FRACTION = re.compile(r"-?[0-9]{1,80}(/[0-9]{1,80})?", re.ASCII)
_READERS: Mapping[str, Callable[[object], object]] = {
    "int": _integer,
    "str": _text,
    "Fraction": _fraction,
    "Literal['sue', 'oue']": _text,
}
