"""The policy format as JSON Schema, for completion and checking in editors.

Knows: the parts of the format and their keys (`policy.policy_keys`). Must not know: files. The schema is a convenience: it says
less than the loader (no paths to the unit, no contradictions), and the loader never reads it. It is committed as
dpproxy.schema.json; `scripts/reference` writes it anew.
"""

from __future__ import annotations

import json

from dpproxy.policy.key_types import Fragment, Part, part_ref
from dpproxy.policy.policy_keys import PARTS, POLICY


def json_schema() -> Fragment:
    """Return the schema (draft 2020-12) of a policy file."""
    objects = {part.name: _object(part) for part in PARTS}
    root = objects.pop(POLICY.name)
    objects["column"] = {"anyOf": [{"enum": ["unit", "key", "hidden"]}, part_ref("plain_column")]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dpproxy policy"}
    return {**head, **root, "$defs": dict(sorted(objects.items()))}


def _object(part: Part) -> Fragment:
    properties = {
        name: {"description": f"{key.purpose} {key.effect}", "examples": [key.example], **key.type}
        for name, key in part.keys.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(part.required),
        "additionalProperties": False,
    }


def text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(json_schema(), indent=2) + "\n"
