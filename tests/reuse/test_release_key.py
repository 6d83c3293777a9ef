"""As what a release is sealed: no two releases, and no two who have seen them, as the same."""

from __future__ import annotations

import dataclasses

from dpproxy.reuse.tables import ReleaseKey

KEY = ReleaseKey(1, "exact", "base", "shop", "2024-05-15")


def test_every_field_is_sealed_with_it() -> None:
    others = [
        dataclasses.replace(KEY, **{f.name: 2 if f.name == "id" else f"{getattr(KEY, f.name)}'"}) for f in dataclasses.fields(KEY)
    ]
    moved = ReleaseKey(1, "exactbase", "", "shop", "2024-05-15")
    names = [key.sealed_as for key in (KEY, *others, moved)]
    names += [key.seen_as("a", "noon") for key in (KEY, *others, moved)]
    names += [KEY.seen_as("a", "night"), KEY.seen_as("b", "noon"), KEY.seen_as("an", "oon"), "proof"]
    assert len(set(names)) == len(names)
