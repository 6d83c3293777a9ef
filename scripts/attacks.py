"""Attack cases over the wire, on two databases that differ by one person; and docs/attacks.md, which tells of it.

    scripts/attacks run duckdb FILE.json         half an hour; needs the shared cases and their runner (../shared/attacks)
    scripts/attacks run postgres FILE.json
    scripts/attacks page duckdb=FILE.json postgres=FILE.json > docs/attacks.md

Knows: the runner's classes and what it writes. Must not know: how a case is judged; the runner does that. A case that ends
otherwise than it is labelled is a dispute, with its argument in `DISPUTES`; the page cannot be written while one has none.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import re
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from attacks_by_hand import HELD, REPORTS
from corpus_postgres import loaded
from scratch_postgres import Scratch, scratch_server

ROOT = Path(__file__).resolve().parents[1]
MATERIAL = ROOT.parent / "shared" / "attacks"
PORT = 7520  # of the proxy with the person; the other has the next

ENDLESS = (
    "Waits longer than the runner does (20 s, on a busy machine), on both sides alike, and is not charged for. What is around a "
    "measurement is PostgreSQL's own on the facade, without a private row: it may take memory and disk up to limits, ten "
    "minutes at most, at a lower priority than what others do, and ends when the client goes."
)
EXTREMES = (
    "Labelled a refusal, since an exact extreme is one person's. What is answered is none: a value of the "
    "policy's range, chosen by the exponential mechanism on ranks, and charged. 987,654 never comes."
)
DISPUTES = {
    "raw-output-23": EXTREMES,
    "raw-output-43": EXTREMES,
    "sensitivity-07": (
        "Labelled answerable. Values are told apart on the grid on which noise is drawn. `income` declares no "
        "`resolution`: on any grid two values could be one, and the sum another than SQL's. The refusal says "
        "what to write, `sum(DISTINCT round(income::numeric, 2))`, and that is answered."
    ),
    "sensitivity-14": (
        "Labelled a refusal, unless bounds can be proven. They are: `corr` is made of a count and noisy moments "
        "about the ranges' centres, each charged."
    ),
    "error-value-01": (
        "Labelled a refusal with a generic error. Casts are total: what is no number is NULL, no row raises "
        "anything, and a count is answered at its charge."
    ),
    "groups-11": (
        "Labelled answerable. Each group would be one person's, so that no group could pass its threshold: a "
        "charge for an empty answer. The policy says that `name` names people; the refusal says so, and what to "
        "count."
    ),
    "join-27": (
        "Labelled answerable. It counts public rows that no private row is joined with; dpproxy measures rows of "
        "people alone. `SELECT (SELECT count(*) FROM clinics) - count(DISTINCT clinic_id) FROM visits WHERE "
        "user_id = 42` is the same number, and is answered."
    ),
    "function-31": (
        "Labelled a refusal. `txid_current()` is computed above the measurement by the facade, a PostgreSQL "
        "without a private row: it numbers the facade's own transactions, and says nothing of data."
    ),
    "statement-43": ("Labelled a refusal. ROLLBACK gives no charge back: what was told stays told, and stays paid."),
    "dos-09": ENDLESS,
    "dos-10": ENDLESS,
    "overflow-02": (
        "Labelled answerable. The sum of people's numbers says nothing of anything, and `user_id` has no range "
        "to hold it in. The refusal says what to write: `count(DISTINCT user_id)`."
    ),
}
"""Cases that end otherwise than they are labelled, with the argument."""

MISLABELLED = ("charged although it should be refused", "over-refusal")
"""Of the runner's problems, those that are about how a case ends. All others mean that something was told."""

Result = dict[str, Any]


def runner() -> ModuleType:
    """Import the runner of the shared material."""
    spec = importlib.util.spec_from_file_location("attack_runner", MATERIAL / "attack_runner.py")
    if spec is None or spec.loader is None or not MATERIAL.is_dir():
        sys.exit(f"the attack cases are not at {MATERIAL}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stack_on(module: ModuleType, server: Scratch | None, begun: Path) -> type:
    """Return the runner's stack with its data on the engine, and with one ledger's beginning for both sides: they choose the same
    groups of a person of too many, so that what differs is that person."""

    class OneBeginning(module.Stack):  # type: ignore[misc, name-defined]
        def __init__(self, project: Path, folder: Path, port: int, victim: bool, weight: str) -> None:
            super().__init__(project, folder, port, victim, weight)
            if server is not None:
                dsn = loaded(server, f"clinic_{victim}".lower(), folder / "clinic.duckdb", Path("none"), folder)
                policy = folder / "clinic.yaml"
                policy.write_text(re.sub(r"backend: .*", f'backend: {{ postgres: "{dsn}" }}', policy.read_text(), count=1))

        def start(self) -> None:
            if not begun.exists():
                super().start()
                self.stop()
                shutil.copytree(self.folder / "state", begun)
            shutil.copytree(begun, self.folder / "state", dirs_exist_ok=True)
            super().start()

    return OneBeginning


def run(engine: str, out: Path, only: str, patience: float) -> None:
    """Run all cases on one engine."""
    module = runner()
    module.PATIENCE = patience  # type: ignore[attr-defined]
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpproxy-attacks-")))
        server = stack.enter_context(scratch_server(work / "server")) if engine == "postgres" else None
        stack.enter_context(mock.patch.object(module, "Stack", stack_on(module, server, work / "begun")))
        given = ["--cases", MATERIAL / "open.yaml", "--project", ROOT, "--work", work, "--out", out, "--port", PORT]
        stack.enter_context(mock.patch.object(sys, "argv", ["attack_runner", *map(str, given), "--only", only]))
        module.main()


def merged(given: Sequence[str]) -> list[tuple[str, list[Result]]]:
    """Read ENGINE=FILE; of a case that is in several files of an engine the last counts."""
    found: dict[str, dict[str, Result]] = {}
    for engine, _, file in (one.partition("=") for one in given):
        found.setdefault(engine, {}).update({case["id"]: case for case in json.loads(Path(file).read_text())})
    return [(engine, list(cases.values())) for engine, cases in found.items()]


def page(runs: Sequence[tuple[str, list[Result]]]) -> str:
    """Return docs/attacks.md. Raises SystemExit for a case that told the sides apart, and for a failure without an argument."""
    told = {case["id"]: case.get("problems") for _, results in runs for case in results if _told(case)}
    failed = {case["id"] for _, results in runs for case in results if case["verdict"] == "fail"}
    if told or failed - DISPUTES.keys():
        sys.exit(f"told: {told}; failures without an argument: {sorted(failed - DISPUTES.keys())}")
    cases = {case["id"]: case for _, results in runs for case in results}
    return "\n".join(
        [HEAD.format(cases=len(cases)), *_by_kind(runs), *_legitimate(runs), *_disputes(cases, failed), *_by_hand(runs), REPORTS]
    )


def _told(case: Result) -> bool:
    """Whether a case shows anything but that it ended otherwise than it is labelled, or hangs on both sides alike."""
    problems = set(case.get("problems") or ["?"])
    alike = {f"{how} {side}: hang" for how in ("simple", "extended") for side in ("d1", "d0")
             if {f"{how} d1: hang", f"{how} d0: hang"} <= problems}  # fmt: skip
    return case["verdict"] == "fail" and not all(p.startswith(MISLABELLED) for p in problems - alike)


HEAD = """# Attacks over the wire

{cases} cases of an independent collection of attacks on SQL services with differential privacy, with legitimate statements
among them. Each is sent, by the simple and by the extended protocol, to two proxies whose data differ by one person, who has
50 visits of the highest cost, is the only patient with a disease, and has an income of 987,654 and a weight of NaN. What is
not charged must be the same on both sides, byte by byte. What is charged is drawn twelve times on each side at epsilon 1,
and no event (a row, a NULL, an error, a notice, a range of numbers) may tell the sides apart; what seems to is drawn thirty
times more. `scripts/attacks` runs them and writes this page; it writes none while a case tells the sides apart, or ends
otherwise than labelled without an argument.

*Refused*: an error, nothing charged, both sides the same. *Answered*: charged, and no event told the sides apart. *Free*: no
private rows are read. *Held*: a conversation, of messages, logins or policies, that ended as it should. *Disputed*: it ended
otherwise than the collection says, for the reason below.

**Leaks: 0.** This is a search and no proof: of few answers only a large difference would be seen. What proves, and what
audits, is on [other](proof.md) [pages](audit.md).
"""


ENDS = ("refused", "answered", "free", "held", "disputed", "by hand")


def _by_kind(runs: Sequence[tuple[str, list[Result]]]) -> list[str]:
    """A row a kind, and one of all; a cell has one number where the engines have the same."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for engine, results in runs:
        for case in results:
            for kind in (case["category"], "**all**"):
                counts[kind][engine][_ended(case)] += 1
    engines = [engine for engine, _ in runs]
    said = f"Two numbers in a cell are those of {' and '.join(engines)}."
    lines = [said, "", f"| kind | {' | '.join(ENDS)} |", "|---" * (len(ENDS) + 1) + "|"]
    for kind in sorted(counts, key=lambda k: (k == "**all**", k)):
        cells = [list(dict.fromkeys(counts[kind][e][end] for e in engines)) for end in ENDS]
        lines.append(f"| {kind} | {' | '.join(', '.join(map(str, cell)) for cell in cells)} |")
    return [*lines, ""]


def _legitimate(runs: Sequence[tuple[str, list[Result]]]) -> list[str]:
    """How many of the legitimate statements are answered."""
    said = []
    for engine, results in runs:
        legitimate = [case for case in results if case["category"] == "legit"]
        answered = sum(_ended(case) in ("answered", "free") for case in legitimate)
        said.append(f"{answered} of {len(legitimate)} on {engine}")
    return [f"Legitimate statements that are answered: {', '.join(said)}.", ""]


def _ended(case: Result) -> str:
    if case["verdict"] == "fail":
        return "disputed"
    if case["verdict"] == "hand":
        return "by hand"
    if "simple" not in case:
        return "held"
    if case["simple"]["charged"] or case["extended"]["charged"]:
        return "answered"
    return "refused" if any(reply["errors"] for reply in case["simple"]["d1"]) else "free"


def _disputes(cases: dict[str, Result], failed: set[str]) -> list[str]:
    lines = ["## Disputes", "", "| case | statement | argument |", "|---|---|---|"]
    for name in sorted(failed):
        text = "; ".join(filter(None, cases[name].get("sqls", []))).replace("|", "\\|")
        lines.append(f"| {name} | `{text}` | {DISPUTES[name]} |")
    return [*lines, ""]


def _by_hand(runs: Sequence[tuple[str, list[Result]]]) -> list[str]:
    names = {case["id"]: case.get("name", "") for _, results in runs for case in results if case["verdict"] == "hand"}
    said = "The runner does not judge these: proxies that are reloaded, clocks that jump, files that go. What holds them instead:"
    rows = [f"| {i} | {names[i].replace('|', ' ')} | {HELD[i]} |" for i in sorted(names)]
    return ["## By hand", "", said, "", "| case | what is tried | what holds it |", "|---|---|---|", *rows, ""] if names else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("engine", choices=("duckdb", "postgres"))
    one.add_argument("out", type=Path)
    one.add_argument("--only", default="", help="a pattern of ids")
    one.add_argument("--patience", type=float, default=30.0, help="seconds until a reply counts as none; more on a busy machine")
    told = commands.add_parser("page")
    told.add_argument("runs", nargs="+", metavar="ENGINE=FILE", help="what `run` wrote")
    given = parser.parse_args()
    if given.command == "run":
        run(given.engine, given.out, given.only, given.patience)
    else:
        print(page(merged(given.runs)), end="")


if __name__ == "__main__":
    main()
