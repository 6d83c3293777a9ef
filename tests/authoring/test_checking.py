"""Policies with a mistake: each gets its sentence, its place and its fix. The cases are in broken.yaml; adding one needs no Python."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dpproxy.authoring.checking import Depth, findings
from dpproxy.backends import postgres
from dpproxy.policy.problems import CODES

from .worlds import BASE, VERIFIER, cases, make, page, said

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def good(shop: Path) -> Path:
    path = shop / "good.yaml"
    path.write_text(BASE.replace("VERIFIER", VERIFIER))
    return path


@pytest.mark.parametrize("case", cases(), ids=[c["name"] for c in cases()])
def test_each_mistake_has_its_message(shop: Path, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "TRIES", (0,))  # nobody answers there, however often it is tried
    assert said(shop, case["from"], case["to"]) == case["says"]


def test_there_are_many_and_the_page_has_them() -> None:
    assert len({c["name"] for c in cases()}) == len(cases()) > 100
    assert page() == (ROOT / "docs/policies/mistakes.md").read_text()


def test_a_good_policy_has_nothing(good: Path) -> None:
    assert asyncio.run(findings([good], Depth.SHAPES)) == ()


@pytest.mark.parametrize(
    ("content", "starts", "code"),
    [
        (None, "cannot be read: No such file", "unreadable-file"),
        (b"", "the file is empty", "empty"),
        (b"\xff\xfe\x00", "is not UTF-8 text", "unreadable-file"),
        (b"PAR1\x15\x04\x15", "not YAML text", "yaml"),
        (b"id,region\n1,north\n", "a policy must be a mapping", "wrong-type"),
        (b"- a\n- b\n", "a policy must be a mapping, not a list", "wrong-type"),
        (b"# " + b"x" * (1 << 20), "larger than 1048576 bytes", "too-large"),
    ],
)
def test_whole_files_that_are_no_policy(tmp_path: Path, content: bytes | None, starts: str, code: str) -> None:
    path = tmp_path / "p.yaml"
    if content is not None:
        path.write_bytes(content)
    (found,) = asyncio.run(findings([path], Depth.SHAPES))
    assert found.what.startswith(starts)
    assert (found.code, found.line, found.column) == (code, 1, 1)


def test_files_are_told_in_their_order_and_together(good: Path) -> None:
    """Two policies over the same customers: who may use both learns twice as much."""
    other = good.with_name("again.yaml")
    other.write_text(good.read_text().replace("dataset: shop", "dataset: again"))
    found = asyncio.run(findings([good, other], Depth.FILE))
    assert [(p.file, p.code, p.line) for p in found] == [(str(good), "shared-data", 5), (str(other), "shared-data", 5)]
    assert str(other) in found[0].what


def test_only_exact_counts_are_marked_so(good: Path) -> None:
    good.write_text(good.read_text().replace("[1920, 2010]", "[1960, 2010]"))
    assert asyncio.run(findings([good], Depth.SHAPES)) == ()
    found = asyncio.run(findings([good], Depth.DATA))
    assert [(p.code, CODES[p.code].exact) for p in found] == [("data-beyond-range", True)]
    assert "50 % of the values of `born` are below its range, 0 % above" in found[0].what
