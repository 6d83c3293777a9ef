"""Every key of the format has a note, and every example is what the schema allows."""

from __future__ import annotations

from typing import Any

import pytest

from dpproxy.policy.key_notes import KEY_NOTES
from dpproxy.policy.schema import json_schema, typed_shapes


def test_no_key_is_without_a_note() -> None:
    assert {name: set(notes) for name, notes in KEY_NOTES.items()} == {
        n: set(shape.keys) for n, (shape, _) in typed_shapes().items()
    }


def described() -> list[tuple[str, dict[str, Any]]]:
    schema = json_schema()
    parts = {"policy": schema, **schema["$defs"]}
    return [(f"{n}.{k}", p) for n, part in parts.items() for k, p in part.get("properties", {}).items()]


@pytest.mark.parametrize(("key", "part"), described(), ids=[k for k, _ in described()])
def test_every_field_has_a_description_and_an_example_of_its_type(key: str, part: dict[str, Any]) -> None:
    assert len(part["description"]) > 40
    (example,) = part["examples"]
    kinds = {"string": str, "boolean": bool, "integer": int, "number": int | float, "array": list, "object": dict}
    if isinstance(part.get("type"), str):
        assert isinstance(example, kinds[part["type"]]), key
    assert "enum" not in part or example in part["enum"]


def test_there_are_as_many_as_the_format_has_keys() -> None:
    assert len(described()) >= 55
