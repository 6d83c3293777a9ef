"""What is written from the declarations of a policy's keys: the reference page for readers, the JSON Schema for editors.

Knows: Markdown, the parts of the format and their keys. Must not know: files, anything that is not said in `policy.policy_keys`
and the tables that it lists. `scripts/reference` writes docs/policies/reference.md and dpproxy.schema.json anew; a test fails
until that is done. The schema says less than the loader (no paths to the unit, no contradictions), which never reads it.
"""

from __future__ import annotations

import json
from typing import Any

from dpproxy.policy.key_types import Fragment, Part, part_ref
from dpproxy.policy.policy_keys import PARTS, POLICY
from dpproxy.policy.table_keys import COLUMN

_HEAD = """# Policies: every key

Written from the keys that the reader knows (`scripts/reference`). The same texts are in `dpproxy.schema.json`,
which editors show where you write. [tutorial.md](tutorial.md) begins from nothing, [choosing.md](choosing.md) helps with numbers,
[mistakes.md](mistakes.md) lists what goes wrong.
"""

_COLUMN = """A column of a private table is `unit` (may be counted and joined on, never shown), `key` (joined on, counted, grouped
by inside one unit, never shown), `hidden` (does not exist), or a mapping, which may be empty:
"""


def text() -> str:
    """Return the reference as Markdown."""
    return "\n".join([_HEAD, *(line for part in PARTS for line in _table(part))])


def _table(part: Part) -> list[str]:
    lines = [f"## {part.heading}", ""]
    lines += [_COLUMN] if part is COLUMN else []
    lines += ["| key | what it is | what it does to privacy and error | as in |", "|---|---|---|---|"]
    for name, key in part.keys.items():
        must = " **Must be there**, where a table has a unit." if key.with_unit else " **Must be there.**" if key.required else ""
        cells = (f"{key.purpose}{must} {_kind(key.type)}", key.effect, f"`{name}: {_flow(key.example)}`")
        lines.append(f"| `{name}` | {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
    return [*lines, ""]


def _kind(type_: Fragment) -> str:
    """What may be written, in words, where the schema limits it."""
    if "enum" in type_:
        return f"One of {', '.join(f'`{v}`' for v in type_['enum'])}."
    words = {"integer": "A whole number.", "number": "A number.", "boolean": "`true` or `false`.", "array": "A list."}
    return words.get(str(type_.get("type")), "")


def _flow(value: Any) -> str:
    """A value as YAML writes it on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k}: {_flow(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value) if any(sign in value for sign in "${}: ") and not value.startswith("postgres") else value
    return json.dumps(value)


# The policy format as JSON Schema, for completion and checking in editors.
#
# Knows: the parts of the format and their keys (`policy.policy_keys`). Must not know: files. The schema is a convenience: it
# says less than the loader (no paths to the unit, no contradictions), and the loader never reads it. It is committed as
# dpproxy.schema.json; `scripts/reference` writes it anew.


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


def schema_text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(json_schema(), indent=2) + "\n"
