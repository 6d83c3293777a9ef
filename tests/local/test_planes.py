"""Projective geometries: numbers of points, and draws inside and outside a hyperplane."""

from __future__ import annotations

import pytest

from dpproxy.local import planes

GEOMETRIES = [(2, 2), (2, 3), (3, 3), (2, 5), (5, 3), (7, 2), (3, 4)]


@pytest.mark.parametrize(("base", "dimension"), GEOMETRIES)
def test_points_are_numbered_without_gaps(base: int, dimension: int) -> None:
    points = [planes.point(i, base, dimension) for i in range(planes.size(base, dimension))]
    assert len(set(points)) == len(points)
    for i, vector in enumerate(points):
        assert all(planes.number(tuple(d * s % base for d in vector), base) == i for s in range(1, base))


@pytest.mark.parametrize(("base", "dimension"), GEOMETRIES)
def test_each_draw_is_one_point(base: int, dimension: int) -> None:
    """Inside and outside together are all points, each once."""
    count = planes.size(base, dimension)
    for centre in range(count):
        inside = {planes.inside(centre, i, base, dimension) for i in range(planes.size(base, dimension - 1))}
        outside = {planes.outside(centre, i, base, dimension) for i in range(base ** (dimension - 1))}
        assert inside == {u for u in range(count) if planes.meets(centre, u, base, dimension)}
        assert outside == set(range(count)) - inside
        assert (len(inside), len(outside)) == (planes.size(base, dimension - 1), base ** (dimension - 1))


def test_primes() -> None:
    assert planes.primes(30) == (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)
    assert not planes.is_prime(1)
