"""A bar shows what it is told, and nothing is left of it."""

from __future__ import annotations

import pytest

from dpproxy.authoring.progress import bar, silent


def test_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("reading") as progress:
        progress("writing", 1, 2)
    silent("writing", 2, 2)
    assert capsys.readouterr() == ("", ""), "no terminal: nothing is shown"
