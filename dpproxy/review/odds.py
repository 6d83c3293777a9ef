"""Epsilon and delta in words that need no training.

Knows: numbers. Must not know: policies. Under epsilon-differential privacy, whoever held it 1 to 1 whether a person is in the
data holds it at most e^epsilon to 1 after the answers, whatever else they know. Delta is the chance that this does not hold;
times the number of people it is how many may be exposed outright.
"""

from __future__ import annotations

import math

from dpproxy.amounts import ATTO, MICRO
from dpproxy.ledger.ledger import decimal

CERTAIN = 30.0
"""Epsilon from which on odds are beyond 10,000,000,000,000 to 1: nobody tells that from certainty."""


def odds(epsilon_micro: int) -> str:
    """Return what an epsilon means, as in `22,000 to 1`."""
    epsilon = epsilon_micro / MICRO
    if epsilon > CERTAIN:
        return "certainty"
    ratio = math.exp(epsilon)
    return f"{_rounded(ratio)} to 1"


def _rounded(ratio: float) -> str:
    if ratio < 10:
        return f"{ratio:.1f}"
    scale = 10 ** (math.floor(math.log10(ratio)) - 1)
    return f"{round(ratio / scale) * scale:,.0f}"


def epsilon(micro: int) -> str:
    return decimal(micro, MICRO)


def delta(atto: int) -> str:
    return decimal(atto, ATTO)
