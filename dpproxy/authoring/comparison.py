"""What a comparison of two policies found, as text for a terminal and as Markdown for a pull request.

Knows: changes, verdicts. Must not know: how they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpproxy.authoring.cases import price
from dpproxy.authoring.exposure import Change, Direction
from dpproxy.authoring.query_log import Asked
from dpproxy.review.verdicts import Answered, Bench, Refused, Verdict

_HEADS = {
    Direction.MORE: "More exposed",
    Direction.LESS: "Less exposed",
    Direction.NOISE: "Other noise, the same protection",
    Direction.OTHER: "Nothing to do with exposure",
}


@dataclass(frozen=True)
class Shift:
    """A shift is a question of which two policies say different things."""

    asked: Asked
    old: Verdict
    new: Verdict

    @property
    def opens(self) -> bool:
        """Tell whether the question was refused and is answered now, or costs more."""
        if isinstance(self.new, Refused):
            return False
        return isinstance(self.old, Refused) or (self.new.epsilon, self.new.delta) > (self.old.epsilon, self.old.delta)


def shifts(asked: Sequence[Asked], old: Bench, new: Bench) -> tuple[Shift, ...]:
    """Return the questions of which two policies say different things: verdict, price or error."""
    found = (Shift(each, _verdict(old, each), _verdict(new, each)) for each in asked)
    return tuple(shift for shift in found if shift.old != shift.new)


def _verdict(bench: Bench, asked: Asked) -> Verdict:
    question = asked.question
    return bench.verdict(question.role, question.query, dict(question.settings))


def as_text(changes: Sequence[Change], moved: Sequence[Shift]) -> str:
    """Write what changed for a terminal."""
    lines = []
    for direction, head in _HEADS.items():
        found = [c for c in changes if c.direction is direction]
        lines += [f"{head}:", *(f"  {c.where}: {c.what}" for c in found)] if found else []
    if moved:
        lines += ["Questions:", *(f"  {s.asked.question.role}: {s.asked.name}: {_shift(s)}" for s in moved)]
    return "\n".join(lines or ["the policies say the same"]) + "\n"


def as_markdown(old: str, new: str, changes: Sequence[Change], moved: Sequence[Shift]) -> str:
    """Write what changed for a pull request. `old`, `new`: what the policies are called."""
    lines = [f"## Policy: {old} to {new}", ""]
    for direction, head in _HEADS.items():
        found = [c for c in changes if c.direction is direction]
        if found:
            lines += [f"### {head}", "", "| where | what |", "|---|---|"]
            lines += [f"| `{_cell(c.where)}` | {_cell(c.what)} |" for c in found] + [""]
    if moved:
        lines += ["### Questions", "", "| role | question | what changes |", "|---|---|---|"]
        lines += [f"| {_cell(s.asked.question.role)} | {_cell(s.asked.name)} | {_cell(_shift(s))} |" for s in moved] + [""]
    if not changes and not moved:
        lines += ["The policies say the same.", ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _shift(shift: Shift) -> str:
    old, new = shift.old, shift.new
    if isinstance(old, Refused) or isinstance(new, Refused):
        return f"{_told(new)}, was {_told(old)}"
    said = []
    if (old.epsilon, old.delta) != (new.epsilon, new.delta):
        said.append(f"costs {price(new)}, did cost {price(old)}")
    if old.columns != new.columns:
        said.append(f"has the columns {', '.join(new.columns)}, had {', '.join(old.columns)}")
    for aggregate in sorted({*old.errors, *new.errors}):
        was, now = old.errors.get(aggregate), new.errors.get(aggregate)
        if was is not None and now is not None and was != now:
            said.append(f"the error of {aggregate} is up to {now:.4g} (95 %), was {was:.4g}")
        elif was != now:
            said.append(
                f"the error of {aggregate} is " + ("known beforehand" if was is None else "not known beforehand any more")
            )
    return "; ".join(said)


def _told(verdict: Verdict) -> str:
    return f"answered for {price(verdict)}" if isinstance(verdict, Answered) else f"refused ({verdict.message})"
