"""The declarations of keys: each says all of its key, and one row is enough for the reader, the schema and the page."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpproxy.policy import people_keys, policy_keys, table_keys
from dpproxy.policy.key_types import COUNT, Part, PolicyKey, Shape
from dpproxy.policy.people_keys import ROLE
from dpproxy.policy.policy_keys import INCLUDED, PARTS, POLICY
from dpproxy.policy.reference import json_schema, schema_text
from dpproxy.policy.reference import text as page

from .good import GOOD, problems

KINDS: dict[str, Any] = {"string": str, "boolean": bool, "integer": int, "number": int | float, "array": list, "object": dict}
KEYS = [(part, name) for part in PARTS for name in part.keys]


def test_every_part_that_is_declared_is_listed() -> None:
    declared = [v for module in (policy_keys, table_keys, people_keys) for v in vars(module).values() if isinstance(v, Part)]
    assert {part.name for part in declared} == {part.name for part in PARTS}
    assert len({part.name for part in PARTS}) == len(PARTS)
    assert len(KEYS) >= 55


@pytest.mark.parametrize("shape", [*PARTS, INCLUDED], ids=lambda shape: shape.title)
def test_titles_and_purposes_fit_into_messages(shape: Shape) -> None:
    purposes = [key.purpose for key in shape.keys.values()]
    assert len(set(purposes)) == len(purposes), "messages and the schema show them"
    assert shape.title.split()[0] in ("a", "an", "the"), "titles begin sentences: `a role has no ...`"


@pytest.mark.parametrize(("part", "name"), KEYS, ids=[f"{part.name}.{name}" for part, name in KEYS])
def test_every_key_says_what_it_does_with_an_example_of_its_type(part: Part, name: str) -> None:
    key = part.keys[name]
    assert key.purpose.endswith(".")
    assert key.effect.endswith(".")
    assert len(key.purpose) + len(key.effect) > 40
    if isinstance(key.type.get("type"), str):
        assert isinstance(key.example, KINDS[key.type["type"]])
    assert "enum" not in key.type or key.example in key.type["enum"]


def test_references_of_the_schema_exist() -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from ([value["$ref"]] if "$ref" in value else [])
            yield from (ref for item in value.values() for ref in references(item))
        if isinstance(value, list):
            yield from (ref for item in value for ref in references(item))

    schema = json_schema()
    assert {ref.rsplit("/", 1)[1] for ref in references(schema)} <= set(schema["$defs"])


@pytest.mark.parametrize("key", POLICY.required)
def test_what_is_required_is(key: str) -> None:
    lines = GOOD.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    found = [p.what for p in problems("".join(lines[:start] + lines[end:]))]
    assert f"a policy has no `{key}`" in found


def test_nothing_is_required_of_an_included_file() -> None:
    assert INCLUDED.required == ()


def test_a_key_of_no_part_is_refused() -> None:
    assert [p.what for p in problems(GOOD + "other: 1\n")] == ["unknown key `other` in a policy"]


def test_every_key_that_is_declared_is_read() -> None:
    """A key that is offered and that no reader looks up would be a promise that is not kept."""
    read = {
        node.value
        for path in Path(policy_keys.__file__).parent.glob("*.py")
        if not path.stem.endswith("_keys")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert [f"{part.name}.{name}" for part, name in KEYS if name not in read] == []


def test_one_row_is_enough_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """An invented key of a role: the reader knows it and asks for it, the schema types it, the page shows it."""
    row = PolicyKey("Most statements a day.", COUNT, "Does not matter for privacy or error.", 50, required=True)
    assert isinstance(ROLE.keys, dict)
    monkeypatch.setitem(ROLE.keys, "statements", row)
    said = [(p.what, p.fix) for p in problems(GOOD)]
    assert ("a role has no `statements`", "add `statements:` (most statements a day)") in said
    assert not problems(GOOD.replace("    query:", "    statements: 50\n    query:"))
    role = json.loads(schema_text())["$defs"]["role"]
    assert role["properties"]["statements"]["type"] == "integer"
    assert "statements" in role["required"]
    assert (
        "| `statements` | Most statements a day. **Must be there.** A whole number. | Does not matter for privacy or error. "
        "| `statements: 50` |" in page().splitlines()
    )
