"""The reference of policy files, written from the keys, their types and notes: docs/policies/reference.md.

Knows: Markdown. Must not know: anything that is not said in `policy.shapes`, `policy.schema` or `policy.key_notes`.
`python -m dpproxy.policy.reference > docs/policies/reference.md` writes it anew; a test fails until that is done.
"""

from __future__ import annotations

import json
from typing import Any

from dpproxy.policy.key_notes import KEY_NOTES
from dpproxy.policy.schema import Fragment, typed_shapes

_HEAD = """# Policies: every key

Written from the keys that the reader knows (`python -m dpproxy.policy.reference`). The same texts are in `dpproxy.schema.json`,
which editors show where you write. [tutorial.md](tutorial.md) begins from nothing, [choosing.md](choosing.md) helps with numbers,
[mistakes.md](mistakes.md) lists what goes wrong.
"""

_TITLES = {
    "policy": "The policy", "backend": "`backend`", "privacy_unit": "`privacy_unit`",
    "budget": "`budget`: of the dataset, a role, a user", "table": "A table", "via": "`unit`, as a path",
    "bounds": "`bounds`, in each group", "whole_bounds": "`bounds`, over all groups", "plain_column": "A column",
    "role": "A role", "query": "`query`: what one statement costs", "user": "A user", "reuse": "`reuse_answers`",
    "timing": "`timing`", "accelerate": "`accelerate`",
}  # fmt: skip

_COLUMN = """A column of a private table is `unit` (may be counted and joined on, never shown), `key` (joined on, counted, grouped
by inside one unit, never shown), `hidden` (does not exist), or a mapping, which may be empty:
"""


def text() -> str:
    """Return the reference as Markdown."""
    return "\n".join([_HEAD, *(line for name in _TITLES for line in _part(name))])


def _part(name: str) -> list[str]:
    shape, types = typed_shapes()[name]
    lines = [f"## {_TITLES[name]}", ""]
    lines += [_COLUMN] if name == "plain_column" else []
    lines += ["| key | what it is | what it does to privacy and error | as in |", "|---|---|---|---|"]
    for key, purpose in shape.keys.items():
        note = KEY_NOTES[name][key]
        must = " **Must be there.**" if key in shape.required else ""
        cells = (f"{purpose}{must} {_kind(types[key])}", note.effect, f"`{key}: {_flow(note.example)}`")
        lines.append(f"| `{key}` | {' | '.join(c.replace('|', chr(92) + '|') for c in cells)} |")
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


if __name__ == "__main__":
    print(text(), end="")
