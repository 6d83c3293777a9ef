"""Looked up for the size of groups alone: a release serves whatever its noise, and only then."""

from __future__ import annotations

from fractions import Fraction

from dpproxy.reuse.matching import Asked, any_noise


def test_noise_and_threshold_are_left_out_and_nothing_else() -> None:
    asked = Asked("rows", ("k",), ("n", "s"), (Fraction(2), Fraction(3)), 17, "base", bound=3)
    loose = any_noise(asked)
    assert loose.exact == asked.exact
    assert loose.identity != asked.identity
    assert all(a > b * 10**9 for a, b in zip(loose.noise, asked.noise, strict=True))
    assert loose.tau is not None
    assert loose.tau > 10**9
    assert any_noise(Asked("rows", (), ("n",), (Fraction(1),))).tau is None
