"""Words found in reports of fragments: the frequent ones, and none that nobody has."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from dpproxy.collect.encode import randomised
from dpproxy.decoding import words
from dpproxy.decoding.decoders import Int64, places
from dpproxy.decoding.words import discovered, least_frequency
from dpproxy.local.claims import Hadamard, Sequence
from dpproxy.local.hashes import number, puzzle_piece

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sketch(dice: np.random.Generator, claim: Hadamard, integers: Int64, value: Int64) -> Int64:
    """The reports of devices; `integers` stand for the values."""
    j, column = dice.integers(0, claim.functions, value.size), dice.integers(0, claim.width, value.size)
    cell = np.empty(value.size, np.int64)
    for i in range(claim.functions):
        chosen = j == i
        cell[chosen] = places(claim, integers, i, i + 1)[0][value[chosen]] % claim.width
    plus = (np.bitwise_count(column & cell) % 2 == 0) ^ (dice.random(value.size) >= float(claim.keep))
    return (j * claim.width + column) * 2 + plus


def sent(dice: np.random.Generator, claim: Sequence, vocabulary: list[str], true: Int64) -> Int64:
    """The reports of devices of which `true[i]` have word i, as `encode` makes them."""
    value = np.repeat(np.arange(true.size), true)
    position = dice.integers(0, claim.positions, value.size)
    pieces = np.array([[claim.piece(w, i, puzzle_piece(w)) for w in vocabulary] for i in range(claim.positions)])
    fragment = sketch(dice, claim.fragment, pieces.reshape(-1), position * len(vocabulary) + value)
    word = sketch(dice, claim.word, np.array([number(w) for w in vocabulary]), value)
    return (position * claim.fragment.space.size + fragment) * claim.word.space.size + word


def vocabulary_of(count: int, letters: str, length: int, seed: int) -> list[str]:
    """Different words of three letters up to a length."""
    dice = random.Random(seed)
    return list(dict.fromkeys("".join(dice.choices(letters, k=dice.randint(3, length))) for _ in range(2 * count)))[:count]


def zipf(n: int, count: int, exponent: float) -> Int64:
    weights = np.arange(1, count + 1) ** -exponent
    return np.random.default_rng(9).multinomial(n, weights / weights.sum())


def precision(claim: Sequence, vocabulary: list[str], true: Int64) -> tuple[int, int, int]:
    """Words that are frequent enough, those of them that were discovered, and words discovered that nobody has."""
    reports = sent(np.random.default_rng(10), claim, vocabulary, true)
    known = dict(zip(vocabulary, true.tolist(), strict=True))
    names = [discovery.word for discovery in discovered(claim, reports, np.ones(reports.size, np.int64))]
    enough = {word for word, count in known.items() if count >= least_frequency(claim, reports.size)}
    return len(enough), len(enough & set(names)), len(set(names) - set(known))


def test_frequent_words_are_discovered() -> None:
    """Of 60,000 devices and eight letters: nearly all words that are frequent enough, and none that nobody has."""
    claim = Sequence.within(Fraction(8), LETTERS[:8], 6, 64, 256, "words")
    enough, right, wrong = precision(claim, vocabulary_of(200, LETTERS[:8], 6, 1), zipf(60_000, 200, 1.3))
    assert (enough >= 5, wrong) == (True, 0)
    assert right >= 0.75 * enough


@pytest.mark.long
def test_the_case_of_half_a_million_devices() -> None:
    """A thousand words of up to six letters: at least 10 of the 13 that are frequent enough."""
    claim = Sequence.within(Fraction(8), LETTERS, 6, 1024, 1024, "words")
    enough, right, wrong = precision(claim, vocabulary_of(1000, LETTERS, 6, 2), zipf(500_000, 1000, 1.1))
    assert (enough, wrong) == (13, 0)
    assert right >= 10


def test_nothing_is_discovered_where_no_word_is_frequent() -> None:
    claim = Sequence.within(Fraction(8), LETTERS[:4], 4, 16, 64, "s")
    vocabulary = vocabulary_of(2000, LETTERS[:4], 4, 3)
    reports = sent(np.random.default_rng(4), claim, vocabulary, np.full(len(vocabulary), 5))
    assert discovered(claim, reports, np.ones(reports.size, np.int64)) == ()
    assert discovered(claim, np.array([-1, claim.space.size]), np.array([5, 5])) == ()


def test_devices_of_one_word_send_what_is_read() -> None:
    """By the code of devices: a word shorter than the longest, and one of all letters."""
    claim, dice = Sequence.within(Fraction(16), "abcd", 4, 4, 32, "s"), random.Random(5)

    class Seeded:
        def coin(self, p: Fraction) -> bool:
            return dice.random() < p

        def below(self, n: int) -> int:
            return dice.randrange(n)

    reports = np.array([randomised(claim, word, chance=Seeded()) for word in ["abd"] * 3000 + ["dcba"] * 2000])
    results = discovered(claim, reports, np.ones(reports.size, np.int64))
    assert [discovery.word for discovery in results] == ["abd", "dcba"]
    assert [discovery.estimate for discovery in results] == pytest.approx([3000, 2000], abs=700)


def test_too_many_fragments_of_one_piece_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rarest give way, so that no list of fragments takes hours."""
    claim = Sequence.within(Fraction(8), LETTERS, 4, 4, 32, "s")
    word = "word"
    fragments = [claim.piece(word, i, 0) // 256 for i in range(2)]
    noise = list(range(400))
    frequent = [{puzzle_piece(word): [fragment, *noise]} for fragment in fragments]
    monkeypatch.setattr(words, "CANDIDATES", 1000)
    spelled = list(words._spelled(claim, frequent))
    assert word in spelled
    assert {puzzle_piece(other) for other in spelled} == {puzzle_piece(word)}
    assert len(spelled) < 30  # of a thousand pairs
    assert all(len(lot[puzzle_piece(word)]) < 100 for lot in frequent)
