"""What the declaration of a policy's key consists of, and the types that several keys share.

Knows: JSON Schema's words for types. Must not know: which keys there are, how a value is read. A key is declared once, as one
row of `policy.policy_keys`, `policy.table_keys` or `policy.people_keys`; the reader, the schema for editors and the page of
keys are made from that row, so that no two of them can name different keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Fragment = dict[str, Any]
"""A type, as JSON Schema writes it."""

TEXT: Final[Fragment] = {"type": "string", "minLength": 1}
TEXTS: Final[Fragment] = {"type": "array", "items": TEXT}
NAMES: Final[Fragment] = {"type": "array", "items": TEXT, "minItems": 1, "uniqueItems": True}
FLAG: Final[Fragment] = {"type": "boolean"}
POSITIVE: Final[Fragment] = {"type": "number", "exclusiveMinimum": 0}
COUNT: Final[Fragment] = {"type": "integer", "minimum": 1}
COUNT_OR_ALL: Final[Fragment] = {"anyOf": [COUNT, {"const": "all"}]}
PERCENTS: Final[Fragment] = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 100}, "uniqueItems": True}
SHARE: Final[Fragment] = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
VALUE: Final[Fragment] = {"type": ["string", "number", "boolean"]}
SIZE: Final[Fragment] = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)? ?([KMGTkmgt][Ii]?[Bb]|bytes)$"}
_LENGTH = r"[-+]?[0-9]{1,9} +([Ww]eek|[Dd]ay|[Hh]our|[Mm]in(ute)?|[Ss]ec(ond)?)s?"
INTERVAL: Final[Fragment] = {"type": "string", "pattern": rf"^{_LENGTH}( {_LENGTH})*$"}
DATE: Final[Fragment] = {"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].+)?$"}
DURATION: Final[Fragment] = {"type": "string", "pattern": "^[1-9][0-9]*(ms|s|m|h|d|w)$"}
VERIFIER: Final[Fragment] = {"type": "string", "pattern": r"^SCRAM-SHA-256\$[0-9]+:[^$]+\$[^:]+:.+$"}
TABLE_COLUMN: Final[Fragment] = {"type": "string", "pattern": r"^.+\..+$"}


def one_of(words: tuple[str, ...]) -> Fragment:
    """Return the type of a key that takes one of several words."""
    return {"enum": list(words)}


def part_ref(name: str) -> Fragment:
    """Return the type of a key that holds another part of the format, by that part's name."""
    return {"$ref": f"#/$defs/{name}"}


def named(item: Fragment) -> Fragment:
    """Return the type of a mapping whose keys are names that the owner chooses."""
    return {"type": "object", "additionalProperties": item}


def pair(item: Fragment) -> Fragment:
    """Return the type of a list of a lowest and a highest value."""
    return {"type": "array", "items": item, "minItems": 2, "maxItems": 2}


@dataclass(frozen=True)
class Key:
    """A key of a mapping in a file: its purpose in one sentence, for messages, and whether the mapping must have it.
    `with_unit`: only where a table of the policy has a unit."""

    purpose: str
    required: bool = field(default=False, kw_only=True)
    with_unit: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class PolicyKey(Key):
    """A key of the policy format. `type`: what may be written. `effect`: what it does to privacy and to error. `example`: a value
    that the type allows. Editors show purpose, effect and example where the key is written; so does the page of keys."""

    type: Fragment
    effect: str
    example: object


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The keys that a mapping may and must have. `title` names the mapping in messages: `a role has no ...`."""

    title: str
    keys: Mapping[str, Key]

    @property
    def required(self) -> tuple[str, ...]:
        """The keys that must be there, in their order."""
        return tuple(name for name, key in self.keys.items() if key.required)

    @property
    def required_with_unit(self) -> tuple[str, ...]:
        """The keys that must be there where a table of the policy has a unit."""
        return tuple(name for name, key in self.keys.items() if key.required or key.with_unit)


@dataclass(frozen=True, kw_only=True)
class Part(Shape):
    """A part of the policy format. `name`: its name in the schema. `heading`: that of its table on the page of keys."""

    name: str
    heading: str
    keys: Mapping[str, PolicyKey]
