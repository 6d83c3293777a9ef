"""The format of a test file (`policies/shop.test.yaml`): questions of roles, and what the policy must say of each.

Knows: the keys of the format, places in the file. Must not know: planners, what a verdict is held against. It is read as policies
are: by the same reader, with the same messages, every problem at once.

    tests:
      - name: orders by region
        role: analyst
        query: SELECT region, count(*) FROM customers GROUP BY region
        accept: { epsilon: 0.1, columns: [region, count], error: { count(*): 40 } }
      - role: intern
        query: SELECT email FROM customers
        refuse: column "email" does not exist
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal
from pathlib import Path
from xml.etree import ElementTree

from ruamel.yaml import YAML

from dpproxy.policy.key_types import Key, Shape
from dpproxy.policy.problems import Mark, PolicyError, Problem
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.tree import Mapping as Entries
from dpproxy.policy.tree import Node, Scalar, parse
from dpproxy.review.verdicts import Answered, Bench, Refused, Verdict

FILE = Shape(
    title="a test file",
    keys={
        "policy": Key("The policy's file, relative to this one (default: the file of this name without `.test`)."),
        "tests": Key("Questions, and what the policy must say of them.", required=True),
    },
)
CASE = Shape(
    title="a test",
    keys={
        "name": Key("What the test is about (default: its query)."),
        "role": Key("The role that asks.", required=True),
        "query": Key("One statement, as an analyst would send it.", required=True),
        "set": Key("Settings of the session, as in `{ dpproxy.epsilon: 0.5 }`."),
        "accept": Key("The query is answered; `{}`, or what must hold of the answer."),
        "refuse": Key("The query is refused: an SQLSTATE, or a part of the message; `{}` for any reason."),
    },
)
ACCEPT = Shape(
    title="what a test accepts",
    keys={
        "epsilon": Key("The answer costs at most this epsilon."),
        "delta": Key("The answer costs at most this delta."),
        "columns": Key("The answer has these columns, in this order."),
        "error": Key("Of each aggregate named as EXPLAIN names it: half the width of its 95 % interval is at most this."),
    },
)


@dataclass(frozen=True)
class Accept:
    """What must hold of an answer; None: anything."""

    epsilon: Decimal | None = None
    delta: Decimal | None = None
    columns: tuple[str, ...] | None = None
    errors: Mapping[str, Decimal] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A case is one test: a role, its question, and the outcome required. `refuse`: a part of the refusal; exactly one of
    `accept` and `refuse` is given."""

    name: str
    role: str
    query: str
    settings: Mapping[str, str]
    accept: Accept | None
    refuse: str | None
    at: Mark


@dataclass(frozen=True)
class TestFile:
    """A test file that was read. `policy` is the file that it tests."""

    __test__ = False  # no test class of pytest's

    path: Path
    policy: Path
    cases: tuple[Case, ...]


def policy_beside(path: Path) -> Path:
    """Return the policy that a test file of this name is for: `policies/shop.yaml` for `policies/shop.test.yaml`."""
    return path.with_name(path.name.replace(".test.", ".", 1))


def cases_beside(policy: Path) -> Path:
    """Return where the tests of a policy are looked for: `policies/shop.test.yaml` for `policies/shop.yaml`."""
    return policy.with_name(f"{policy.stem}.test{policy.suffix}")


def read_cases(text: str, path: Path) -> TestFile:
    """Read a test file. Raises PolicyError with every problem in it."""
    reader = Reader(str(path))
    keys = reader.mapping(parse(text, str(path)), FILE) or {}
    named = reader.text(keys["policy"], "policy") if "policy" in keys else None
    items = reader.items(keys["tests"], "tests") if "tests" in keys else ()
    cases = [_case(reader, node) for node in items or ()]
    if reader.problems:
        raise PolicyError(reader.problems)
    if not cases:
        raise PolicyError([Problem(str(path), 1, 1, "there are no tests", "add one below `tests:`", "empty")])
    return TestFile(path, path.parent / named if named else policy_beside(path), tuple(c for c in cases if c is not None))


def _case(reader: Reader, node: Node) -> Case | None:
    keys = reader.mapping(node, CASE)
    if keys is None or not {"role", "query"} <= set(keys):
        return None
    role, query = reader.text(keys["role"], "role"), reader.text(keys["query"], "query")
    name = reader.text(keys["name"], "name") if "name" in keys else query
    if ("accept" in keys) == ("refuse" in keys):
        reader.problem(
            node.at, "a test says one of `accept` and `refuse`", "write `accept: {}` for a query that is answered", "missing-key"
        )
    accept = _accept(reader, keys["accept"]) if "accept" in keys else None
    refuse = _refuse(reader, keys["refuse"]) if "refuse" in keys else None
    settings = _settings(reader, keys["set"]) if "set" in keys else {}
    if role is None or query is None or name is None or (accept is None and refuse is None):
        return None
    return Case(" ".join(name.split()), role, query, settings, accept, refuse, node.at)


def _refuse(reader: Reader, node: Node) -> str | None:
    if isinstance(node, Entries) and not node.entries:
        return ""
    return reader.text(node, "refuse")


def _accept(reader: Reader, node: Node) -> Accept | None:
    keys = reader.mapping(node, ACCEPT)
    if keys is None:
        return None
    epsilon = reader.decimal(keys["epsilon"], "epsilon") if "epsilon" in keys else None
    delta = reader.decimal(keys["delta"], "delta") if "delta" in keys else None
    columns = None
    if "columns" in keys:
        columns = tuple(reader.text(c, "column") or "" for c in reader.items(keys["columns"], "columns") or ())
    errors = {}
    if "error" in keys:
        named = reader.named(keys["error"], "`error`")
        for aggregate, most in (named.entries if named else {}).items():
            errors[aggregate] = reader.decimal(most, "error") or Decimal(0)
    return Accept(epsilon, delta, columns, errors)


def _settings(reader: Reader, node: Node) -> dict[str, str]:
    named = reader.named(node, "`set`")
    found = {}
    for name, value in (named.entries if named else {}).items():
        if isinstance(value, Scalar):
            found[name] = value.text
        else:
            reader.problem(value.at, f"a setting cannot be {kind(value)}", f"write `{name}: value`", "wrong-type")
    return found


# What became of the cases of a test file: held against verdicts, told as text, as JUnit's XML, or written back into the file.
#
# Knows: cases, verdicts. Must not know: how a verdict is found, which file anything goes to.


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


# What analysts ask, for commands that ask it of a policy: a log, a JSON object a line, or the tests beside the policy.
#
#     {"role": "analyst", "query": "SELECT ...", "per_day": 20, "set": {"dpproxy.epsilon": "0.5"}, "name": "orders by region"}
#
# Knows: the format of a log, files. Must not know: policies, what a question comes to. A line has a role and a query; every
# line that has not is told at once.


@dataclass(frozen=True)
class Question:
    """A question is what one role asks. `settings` are those of its session."""

    role: str
    query: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Asked:
    """What is asked, how often a day. `name`: what it is called in the report."""

    question: Question
    name: str
    per_day: float = 1.0


def read_log(path: Path) -> tuple[Asked, ...]:
    """Return the questions of a log. Raises PolicyError with every line that is no question, OSError."""
    found, problems = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                found.append(_asked(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError):
                fix = 'write {"role": "...", "query": "...", "per_day": 1}'
                problems.append(Problem(str(path), number, 1, "this line is no question", fix, "wrong-type"))
    if problems or not found:
        raise PolicyError(problems or [Problem(str(path), 1, 1, "there are no questions", "write one a line", "empty")])
    return tuple(found)


def of_cases(cases: Sequence[Case], per_day: float = 1.0) -> tuple[Asked, ...]:
    """Return the questions of tests, each asked so often a day."""
    return tuple(Asked(Question(c.role, c.query, tuple(c.settings.items())), c.name, per_day) for c in cases)


def _asked(entry: Mapping[str, object]) -> Asked:
    query, settings = entry["query"], entry.get("set", {})
    if not isinstance(query, str) or not isinstance(entry["role"], str) or not isinstance(settings, dict):
        raise TypeError("a question has a role and a query")
    per_day = float(str(entry.get("per_day", 1)))
    chosen = tuple((str(name), str(value)) for name, value in settings.items())
    return Asked(Question(entry["role"], query, chosen), str(entry.get("name", query)), per_day)
