"""Words that nobody listed, found in reports of `Sequence`: frequent fragments, joined by their puzzle pieces, then tested.

Knows: claims, sketches. Must not know: SQL, epochs, notices. A fragment of two letters with eight bits of its word's hash is one
of few enough texts to try all. Fragments of one puzzle piece at each position make candidates, of which those remain whose own
hash has this piece. Each is then tested against the sketch of whole words, which fragments have no part in (Apple's differential
privacy team 2017). What comes out is a function of reports, like everything here: finding words charges nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Final

import numpy as np

from dpproxy.decoding.bounds import estimates
from dpproxy.decoding.decoders import Int64, Tally, places, supporting, tally, transformed
from dpproxy.local.claims import Sequence
from dpproxy.local.hashes import number, puzzle_piece

FRAGMENT: Final = 4.0
"""Standard deviations of a value that nobody has, above which a fragment counts as frequent."""

ERROR: Final = 0.05
"""The chance of even one word that nobody has, over all candidates together."""

CANDIDATES: Final = 10**6
"""The most words that are put together of one puzzle piece; the rarest fragments give way."""

LOT: Final = 2**14
"""Pieces that are hashed at once: their arrays stay in the processor's cache."""


@dataclass(frozen=True)
class Discovery:
    """A word, and the raw estimate of how many devices have it."""

    word: str
    estimate: float


def discovered(claim: Sequence, reports: Int64, counts: Int64) -> tuple[Discovery, ...]:
    """Return the words that stand out, the most frequent first. Reports outside the space are no reports."""
    inside = (reports >= 0) & (reports < claim.space.size)
    rest, word = np.divmod(reports[inside], claim.word.space.size)
    position, fragment = np.divmod(rest, claim.fragment.space.size)
    tallies = [tally(claim.fragment, fragment[position == i], counts[inside][position == i]) for i in range(claim.positions)]
    words = sorted(set(_spelled(claim, _frequent(claim, tallies))))
    return _tested(words, tally(claim.word, word, counts[inside]))


def least_frequency(claim: Sequence, reports: int) -> int:
    """Return how many of so many devices must have a word, such that its fragments reach `FRAGMENT` deviations on average."""
    variance = float(claim.fragment.law.per_report) * reports / claim.positions
    return math.ceil(FRAGMENT * claim.positions * math.sqrt(variance))


def _threshold(tallied: Tally, deviations: float) -> float:
    """So many deviations of the estimate of a value that nobody has."""
    law = tallied.claim.law
    return deviations * math.sqrt(float(law.per_report) * tallied.reports + float(law.collision) * tallied.squares)


def _frequent(claim: Sequence, tallies: list[Tally]) -> list[dict[int, list[int]]]:
    """For each position the frequent fragments by puzzle piece, the most frequent first."""
    tables = [transformed(claim.fragment, tallied.cells) for tallied in tallies]
    supported = np.concatenate(
        [_sums(claim, tables, np.arange(i, min(i + LOT, claim.pieces))) for i in range(0, claim.pieces, LOT)], axis=1
    )
    frequent = []
    for tallied, row in zip(tallies, supported, strict=True):
        raw = estimates(claim.fragment.law, row, tallied.reports)
        chosen = np.flatnonzero(raw > _threshold(tallied, FRAGMENT))
        by_piece: dict[int, list[int]] = {}
        for piece in chosen[np.argsort(-raw[chosen], kind="stable")].tolist():
            by_piece.setdefault(piece % 256, []).append(piece // 256)
        frequent.append(by_piece)
    return frequent


def _sums(claim: Sequence, tables: list[Int64], pieces: Int64) -> Int64:
    """For each position and piece the sum over all hash functions; pieces are hashed once for all positions."""
    sums = np.zeros((len(tables), pieces.size), np.int64)
    for j in range(claim.functions):
        cells = places(claim.fragment, pieces, j, j + 1)[0]
        for row, table in zip(sums, tables, strict=True):
            row += table.reshape(-1)[cells]
    return sums


def _spelled(claim: Sequence, frequent: list[dict[int, list[int]]]) -> Iterator[str]:
    """The words of fragments that share a puzzle piece, whose own hash has it."""
    alphabet = " " + claim.letters
    for piece in sorted(set.intersection(*(set(by_piece) for by_piece in frequent))):
        lots = [by_piece[piece] for by_piece in frequent]
        while math.prod(map(len, lots)) > CANDIDATES:
            max(lots, key=len).pop()
        for fragments in product(*lots):
            text = "".join(alphabet[f // len(alphabet)] + alphabet[f % len(alphabet)] for f in fragments).rstrip(" ")
            if text and " " not in text and puzzle_piece(text) == piece:
                yield text


def _tested(words: list[str], tallied: Tally) -> tuple[Discovery, ...]:
    """The words that are more frequent than chance explains, by Bonferroni over all of them."""
    if not words:
        return ()
    supported = supporting(tallied, np.array([number(word) for word in words]))
    raw = estimates(tallied.claim.law, supported, tallied.reports)
    least = _threshold(tallied, NormalDist().inv_cdf(1 - ERROR / len(words)))
    kept = [Discovery(word, float(value)) for word, value in zip(words, raw, strict=True) if value > least]
    return tuple(sorted(kept, key=lambda discovery: (-discovery.estimate, discovery.word)))
