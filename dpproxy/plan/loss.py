"""Privacy loss as a frozen, additive value: what one measurement, statement, role or dataset has spent.

Knows: integers. Must not know: ledgers, windows, limits, SQL. Placeholder body: the budget room completes it
(RDP curve over fixed orders); addition is composition.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """`epsilon` in micro-epsilon and `delta` in atto-delta under basic composition.

    `rdp`: RDP of the same measurement at `ORDERS`, in nano-nats, rounded up; empty when only basic composition is
    known. The delta of thresholds is in `delta` in both readings.
    """

    epsilon: int
    delta: int = 0
    rdp: tuple[int, ...] = ()

    def __add__(self, other: Loss) -> Loss:
        rdp = tuple(a + b for a, b in zip(self.rdp, other.rdp, strict=True)) if self.rdp and other.rdp else ()
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta, rdp)


ZERO = Loss(0, 0)
