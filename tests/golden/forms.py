"""What is pinned of a plan, as text: its generated SQL, its outer query, its numbers, and the names under which answers are stored.

A name of a class or of a field is no part of a form, so that renaming one moves none; nor is what people are told (EXPLAIN, labels).
Losses are rounded to nine digits: readings of a loss are computed with floats, whose last digits are the machine's.

Knows: `Plan`, `Refusal`. Must not know: statements, engines, where digests are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction

from dpproxy.errors import Refusal, UnprovenPlan
from dpproxy.plan.model import Array, Input, Plan
from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Measurement
from dpproxy.sql.template import Found, Param, Template

Form = dict[str, str]
"""Parts of a plan, or of a refusal, by name."""


def form(plan: Callable[[], Sequence[Plan]]) -> Form:
    """What becomes of a statement: of its plans, or of why there is none."""
    try:
        plans = plan()
    except UnprovenPlan as refusal:
        return {"unproven": refusal.message}
    except Refusal as refusal:
        return {f"refused:{refusal.sqlstate}": plain((refusal.message, refusal.position, refusal.detail, refusal.hint))}
    return {
        "sql": "\n".join(text for p in plans for m in p.measurements for text in queries(m)),
        "outer": "\n".join(plain((p.outer, p.parameters, p.arrays, p.inputs)) for p in plans),
        "numbers": "\n".join(plain((p.loss, *map(numbers, p.measurements))) for p in plans),
        "names": "\n".join(plain(tuple(m.canonical for m in p.measurements)) for p in plans),
    }


def queries(m: Measurement) -> list[str]:
    """The generated SQL of a measurement, that of its first round last."""
    first = m.threshold.first if m.threshold is not None else None
    return [plain(query) for query in (*m.queries, *(() if first is None else (first.query,)))]


def numbers(m: Measurement) -> object:
    """What privacy rests on: all of a measurement but its texts, and what is said of it."""
    return (
        (m.l0, m.dense, m.counted, m.independent, m.loss, m.vector, m.top),
        tuple((b.linf, b.grid, b.mechanism, b.scale, b.loss, b.norm, b.fine, b.steps, b.signed, b.running) for b in m.bases),
        tuple((s.kind, s.query, s.size, s.fractions, s.sensitivity, s.epsilon, s.loss, s.offset) for s in m.selections),
        None if m.threshold is None else (m.threshold.basis, m.threshold.tau, m.threshold.min_units, m.threshold.delta,
                                          m.threshold.reach, found_first(m)),
    )  # fmt: skip


def found_first(m: Measurement) -> object:
    first = m.threshold.first if m.threshold is not None else None
    return None if first is None else (first.basis, first.tau, first.delta)


def plain(value: object) -> str:
    """A value as text, without the names of classes and fields; holes of a text as `$1:type`. Raises TypeError for a value whose text
    might be another one in another process."""
    match value:
        case Template():
            return "".join(map(plain, value.parts))
        case Param():
            return f"${value.index + 1}:{value.type}"
        case Found():
            return "$found"
        case Loss():
            return plain((value.epsilon, value.delta, value.conversion, *map(_rounded, (*value.rdp, *value.gdp))))
        case tuple():
            return f"({', '.join(map(plain, value))})"
        case frozenset():
            return f"{{{', '.join(sorted(map(plain, value)))}}}"
        case float():
            return _rounded(value)
        case None | bool() | int() | str() | Fraction():
            return str(value)
        case Array(reading=None) | Input(readings=()):  # of no reports: as it was before there were any
            return plain(tuple(getattr(value, part.name) for part in fields(value)[:-1]))
        case _ if is_dataclass(value):
            return plain(tuple(getattr(value, part.name) for part in fields(value)))
    raise TypeError(f"{type(value).__name__} has no text that is the same in every process")


def _rounded(value: float) -> str:
    return f"{value:.9g}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def digests(made: Form) -> str:
    """One line: what each part is, in ten digits."""
    return " ".join(f"{name}={digest(text)}" for name, text in made.items())
