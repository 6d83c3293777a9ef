"""What became of the cases of a test file: held against verdicts, told as text, as JUnit's XML, or written back into the file.

Knows: cases, verdicts. Must not know: how a verdict is found, which file anything goes to.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from xml.etree import ElementTree

from ruamel.yaml import YAML

from dpproxy.authoring.cases import Accept, Case, TestFile
from dpproxy.review.verdicts import Answered, Bench, Refused, Verdict

ROUNDED = 3  # significant digits of an error that `updated` writes, rounded up


@dataclass(frozen=True)
class Result:
    """A result is one case with what the policy says. `failures` is empty for a case that holds."""

    case: Case
    verdict: Verdict
    failures: tuple[str, ...]


def results(cases: TestFile, bench: Bench) -> tuple[Result, ...]:
    """Try every case of a file."""
    return tuple(_result(case, bench.verdict(case.role, case.query, case.settings)) for case in cases.cases)


def _result(case: Case, verdict: Verdict) -> Result:
    if isinstance(verdict, Refused):
        return Result(case, verdict, tuple(_refusal_failures(case, verdict)))
    if case.accept is None:
        return Result(case, verdict, (f"is answered for {price(verdict)}, and should be refused",))
    return Result(case, verdict, tuple(_answer_failures(case.accept, verdict)))


def _refusal_failures(case: Case, refused: Refused) -> list[str]:
    said = f"{refused.sqlstate}: {refused.message}"
    if case.refuse is None:
        return [f"is refused ({said}), and should be answered" + (f"; {refused.hint}" if refused.hint else "")]
    fits = case.refuse.lower() in refused.message.lower() or case.refuse == refused.sqlstate
    return [] if fits else [f"is refused for another reason ({said}) than `{case.refuse}`"]


def _answer_failures(accept: Accept, answered: Answered) -> list[str]:
    found = []
    if accept.epsilon is not None and answered.epsilon > accept.epsilon:
        found.append(f"costs epsilon {answered.epsilon.normalize():f}, more than {accept.epsilon:f}")
    if accept.delta is not None and answered.delta > accept.delta:
        found.append(f"costs delta {answered.delta:g}, more than {accept.delta:g}")
    if accept.columns is not None and answered.columns != accept.columns:
        found.append(f"has the columns {', '.join(answered.columns)}, not {', '.join(accept.columns)}")
    for aggregate, most in accept.errors.items():
        error = answered.errors.get(aggregate)
        if error is None:
            known = ", ".join(answered.errors) or "no aggregate"
            found.append(f"has no error of `{aggregate}` that is known beforehand; known of: {known}")
        elif error > float(most):
            found.append(f"is off by up to {error:.4g} in `{aggregate}` (95 %), more than {most:f}")
    return found


def price(answered: Answered) -> str:
    """Write what an answer costs."""
    delta = f" and delta {answered.delta:g}" if answered.delta else ""
    return f"epsilon {answered.epsilon.normalize():f}{delta}"


def as_text(file: TestFile, found: Sequence[Result]) -> str:
    """Write a line for each case, and more for those that fail; then the sum."""
    lines = []
    for result in found:
        word = "FAILED" if result.failures else "ok"
        lines.append(f"{word:6} {file.path}:{result.case.at.line}: {result.case.name}")
        lines += [f"       {failure}" for failure in result.failures]
    failed = sum(bool(r.failures) for r in found)
    return "\n".join([*lines, f"{len(found) - failed} of {len(found)} hold"]) + "\n"


def as_junit(files: Sequence[tuple[TestFile, Sequence[Result]]]) -> str:
    """Write the results of several files as JUnit's XML, which every CI server reads."""
    root = ElementTree.Element("testsuites")
    for file, found in files:
        failed = sum(bool(r.failures) for r in found)
        about = {"name": str(file.path), "tests": str(len(found)), "failures": str(failed), "errors": "0"}
        suite = ElementTree.SubElement(root, "testsuite", about)
        for result in found:
            case = ElementTree.SubElement(
                suite, "testcase", {"name": result.case.name, "classname": file.path.name, "line": str(result.case.at.line)}
            )
            for failure in result.failures:
                ElementTree.SubElement(case, "failure", {"message": failure}).text = result.case.query
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def updated(text: str, found: Sequence[Result]) -> str:
    """Return a test file's text in which the cases that fail expect what the policy says now; comments stay where they are."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    tree = yaml.load(text)
    for entry, result in zip(tree["tests"], found, strict=True):
        if not result.failures:
            continue
        if isinstance(result.verdict, Refused):
            entry.pop("accept", None)
            entry["refuse"] = result.verdict.message
        else:
            entry.pop("refuse", None)
            entry["accept"] = _expectation(result.case.accept or Accept(), result.verdict)
    out = io.StringIO()
    yaml.dump(tree, out)
    return out.getvalue()


def _expectation(accept: Accept, answered: Answered) -> dict[str, object]:
    """What the policy says now, of what the case spoke of; of a case that was to be refused, price and columns."""
    new = accept == Accept()
    found: dict[str, object] = {}
    if new or accept.epsilon is not None:
        found["epsilon"] = float(answered.epsilon)
    if accept.delta is not None:
        found["delta"] = float(answered.delta)
    if new or accept.columns is not None:
        found["columns"] = list(answered.columns)
    if accept.errors:
        found["error"] = {a: _rounded_up(answered.errors[a]) for a in accept.errors if a in answered.errors}
    return found


def _rounded_up(value: float) -> float:
    """The least number of ROUNDED digits that is not below a value."""
    exact = Decimal(value)
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - ROUNDED + 1), ROUND_UP)) if value else 0.0
