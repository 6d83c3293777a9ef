"""Every planted bug is caught by its part, and without it nothing is found."""

from __future__ import annotations

from dataclasses import replace

from dpproxy.audit.bench import Subject
from dpproxy.audit.planted import PLANTED
from dpproxy.audit.self_test import self_test


def test_all_bugs_are_caught() -> None:
    harmless = replace(PLANTED[0], name="no bug at all", subject=Subject())
    *found, nothing = self_test((*PLANTED, harmless))
    assert {c.bug.name: c.said for c in found if not c.right} == {}
    assert not nothing.right
    assert not nothing.by
