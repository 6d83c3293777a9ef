"""The format's keys: each has a sentence, and what must be there is among them."""

from __future__ import annotations

import pytest

from dpproxy.policy import shapes

from .good import GOOD, problems

ALL = {name: shape for name, shape in vars(shapes).items() if isinstance(shape, shapes.Shape)}


@pytest.mark.parametrize("name", ALL)
def test_every_key_has_its_sentence(name: str) -> None:
    shape = ALL[name]
    assert set(shape.required) <= set(shape.keys)
    assert len(set(shape.keys.values())) == len(shape.keys), "messages and the schema show them"
    assert shape.title.split()[0] in ("a", "an", "the"), "titles begin sentences: `a role has no ...`"


@pytest.mark.parametrize("key", shapes.POLICY.required)
def test_what_is_required_is(key: str) -> None:
    lines = GOOD.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next((i for i in range(start + 1, len(lines)) if not lines[i].startswith(" ")), len(lines))
    found = [p.what for p in problems("".join(lines[:start] + lines[end:]))]
    assert f"a policy has no `{key}`" in found


def test_a_key_of_no_shape_is_refused_everywhere() -> None:
    assert [p.what for p in problems(GOOD + "other: 1\n")] == ["unknown key `other` in a policy"]
