"""The tree of a YAML text: places, kinds, and what is refused so that a text cannot become a bomb."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from dpproxy.policy.problems import Mark, PolicyError
from dpproxy.policy.tree import MAX_BYTES, MAX_DEPTH, Mapping, Scalar, Sequence, parse


def said(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        parse(text, "f")
    return str(caught.value)


def test_places_and_kinds() -> None:
    tree = parse("a: 1\nb:\n  - 'x'\n  - {c: no}\n", "f")
    assert isinstance(tree, Mapping)
    assert tree.entries["a"] == Scalar("1", True, Mark(1, 4))
    assert tree.keys == {"a": Mark(1, 1), "b": Mark(2, 1)}
    items = tree.entries["b"]
    assert isinstance(items, Sequence)
    assert items.items[0] == Scalar("x", False, Mark(3, 5))
    assert isinstance(items.items[1], Mapping)
    assert items.items[1].entries["c"] == Scalar("no", True, Mark(4, 9))


def test_a_block_is_text() -> None:
    tree = parse("a: |\n  SELECT 1\n  FROM t\n", "f")
    assert isinstance(tree, Mapping)
    scalar = tree.entries["a"]
    assert isinstance(scalar, Scalar)
    assert (scalar.text, scalar.plain) == ("SELECT 1\nFROM t\n", False)


def test_a_missing_value_is_placed_at_its_key() -> None:
    tree = parse("a:\n\n\nb: 1\n", "f")
    assert isinstance(tree, Mapping)
    assert tree.entries["a"] == Scalar("", True, Mark(1, 1))


def test_duplicate_keys_are_found_at_any_depth() -> None:
    assert said("a:\n  b: 1\n  c: {d: 1, d: 2}\n  b: 3\n") == (
        "f:3:13: `d` is given twice; fix: keep one; the first is on line 3\n"
        "f:4:3: `b` is given twice; fix: keep one; the first is on line 2"
    )


def test_quoted_and_plain_keys_are_the_same_key() -> None:
    assert "given twice" in said("a: 1\n'a': 2\n")


def test_tags_anchors_and_aliases_are_all_refused() -> None:
    text = said("a: !!int 1\nb: &x 2\nc: *x\nd: !local [1]\ne: ! f\n")
    assert [line.split(":")[1] for line in text.splitlines()] == ["1", "2", "3", "4", "5"]


def took(work: Callable[[], object]) -> float:
    """Seconds of the processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def flat() -> None:
    """Twenty thousand values, as a measure of what reading takes."""
    parse("[" + "x, " * 20_000 + "x]", "f")


def test_billion_laughs() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, 12)]
    assert took(lambda: said("\n".join(lines))) < 10 * took(flat)  # expanded it would be 9**12 nodes
    assert "aliases are not allowed" in said("\n".join(lines))


@pytest.mark.parametrize("bomb", ["[" * 500_000, "{a: " * 200_000, "- " * 400_000, "? " * 400_000])
def test_depth_is_bounded_and_cheap(bomb: str) -> None:
    assert f"nested deeper than {MAX_DEPTH} levels" in said(bomb) or "not YAML" in said(bomb)
    assert took(lambda: said(bomb)) < 10 * took(flat)


def test_the_allowed_depth_is_allowed() -> None:
    parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f")
    assert "nested deeper" in said("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))


def test_size_is_counted_in_bytes() -> None:
    assert "larger than" in said("é" * (MAX_BYTES // 2 + 1))


@pytest.mark.parametrize("text", ["a: \x00", "a: \x07b", "\x1b"])
def test_control_characters(text: str) -> None:
    assert "f:1:1: not YAML" in said(text)
