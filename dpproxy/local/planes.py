"""Points and hyperplanes of a projective geometry over a prime field, numbered.

Knows: integers. Must not know: probabilities, reports. A *point* of PG(t - 1, q) is a vector of t digits below the prime q whose
first digit other than 0 is 1. Points are numbered from 0: those of one digit, those of two, and so on, each lot in the order of
its digits as a number of base q. The *hyperplane* of a point v is the set of points u with <u, v> = 0 mod q (Feldman, Nelson,
Nguyen, Talwar 2022). Each point inside, or outside, belongs to exactly one draw, so that a device never draws again.
"""

from __future__ import annotations

from functools import lru_cache


def size(base: int, dimension: int) -> int:
    """Return how many points a geometry of so many digits has; 0 digits have none."""
    vectors: int = base**dimension - 1
    return vectors // (base - 1)


def point(number: int, base: int, dimension: int) -> tuple[int, ...]:
    """Return the digits of the point of a number, the highest first."""
    free = 0
    while size(base, free + 1) <= number:
        free += 1
    rest, digits = number - size(base, free), []
    for _ in range(free):
        rest, digit = divmod(rest, base)
        digits.append(digit)
    return (*[0] * (dimension - free - 1), 1, *reversed(digits))


def number(vector: tuple[int, ...], base: int) -> int:
    """Return the number of the point on which a vector other than 0 lies."""
    first = next(i for i, digit in enumerate(vector) if digit)
    scale = pow(vector[first], -1, base)
    rest = 0
    for digit in vector[first + 1 :]:
        rest = rest * base + digit * scale % base
    return size(base, len(vector) - first - 1) + rest


def inside(centre: int, draw: int, base: int, dimension: int) -> int:
    """Return point `draw` of the hyperplane of a point; draws are below `size(base, dimension - 1)`."""
    return _completed(centre, point(draw, base, dimension - 1), 0, base)


def outside(centre: int, draw: int, base: int, dimension: int) -> int:
    """Return point `draw` outside the hyperplane of a point; draws are below base^(dimension - 1)."""
    rest = []
    for _ in range(dimension - 1):
        draw, digit = divmod(draw, base)
        rest.append(digit)
    return _completed(centre, tuple(rest), 1, base)


def meets(one: int, other: int, base: int, dimension: int) -> bool:
    """Whether a point lies in the hyperplane of another one, which is mutual."""
    pairs = zip(point(one, base, dimension), point(other, base, dimension), strict=True)
    return sum(a * b for a, b in pairs) % base == 0


def is_prime(base: int) -> bool:
    """Whether a number of the sizes that matter here is a prime."""
    return base >= 2 and all(base % d for d in range(2, int(base**0.5) + 1))


@lru_cache(maxsize=8)
def primes(most: int) -> tuple[int, ...]:
    """Return all primes up to a number."""
    return tuple(n for n in range(2, most + 1) if is_prime(n))


def _completed(centre: int, rest: tuple[int, ...], product: int, base: int) -> int:
    """The point whose digits are `rest` and one more, where the centre's leading 1 stands, such that <u, v> is `product`."""
    vector = point(centre, base, len(rest) + 1)
    place = vector.index(1)
    others = zip(rest, vector[:place] + vector[place + 1 :], strict=True)
    digit = (product - sum(a * b for a, b in others)) % base
    return number((*rest[:place], digit, *rest[place:]), base)
