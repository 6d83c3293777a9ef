"""`dpproxy audit`: what is promised held against what happens, on invented neighbours.

Knows: the terminal, files, exit codes, the order of the parts. Must not know: how anything is found. The audit never reads a
private row, and charges no ledger.
"""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dpproxy import __version__
from dpproxy.audit import attacks, black_box, report, self_test, statements, stored_reports, wire
from dpproxy.audit.bench import AuditBench, Subject, audit_bench
from dpproxy.audit.black_box import Attack, Figure
from dpproxy.audit.replay import Replayed, replay
from dpproxy.authoring.progress import bar
from dpproxy.errors import OperatorError, Refusal
from dpproxy.policy.load import load_policy


def audit(
    policy: Annotated[
        Path | None, typer.Argument(help="the policy's file; its backend tells the shape, and the rows of public tables")
    ] = None,
    asked: Annotated[
        Path | None,
        typer.Option("--statements", help="SQL, or a log as `policy simulate` reads (.jsonl); default: made from the policy"),
    ] = None,
    role: Annotated[
        str | None, typer.Option(help="who asks the statements of an SQL file; default: the policy's first role")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--report", help="write audit.html, audit.json and audit.txt into this directory")
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0, help="how long questions are asked of two proxies, for black box and attacks; 0: replay alone")
    ] = 10.0,
    planted: Annotated[bool, typer.Option("--self-test", help="plant known bugs and see that each is caught")] = False,
    shape: Annotated[Path | None, typer.Option(help="a DuckDB file of the policy's shape, instead of its backend")] = None,
    units: Annotated[int, typer.Option("--neighbours", min=1, help="units that are left out in turn")] = 6,
    seed: Annotated[int, typer.Option(help="other invented rows of the same kind")] = 1,
    claims: Annotated[
        bool, typer.Option("--claims", help="hold what the policy claims of devices against the reports that are stored")
    ] = False,
) -> None:
    """Hold what is promised against what happens, on invented people: no private row is read, nothing is charged.

    Exit codes: 0 when nothing is refuted, 1 when something is, or when a planted bug is missed, 2 when the command itself is
    wrong.
    """
    if policy is None and not planted:
        raise typer.BadParameter("name a policy, or --self-test")
    if claims:
        if policy is None:
            raise typer.BadParameter("--claims needs a policy")
        raise typer.Exit(_claims(policy, seed, directory))
    replayed: tuple[Replayed, ...] = ()
    figures: tuple[Figure, ...] = ()
    tried: tuple[Attack, ...] = ()
    dataset = ""
    if policy is not None:
        with audit_bench(policy, shape, seed, units) as bench:
            dataset = bench.loaded.policy.dataset
            replayed = _replayed(bench, asked, role)
            if minutes and black_box.chosen(replayed, 60 * minutes):
                figures, tried = _asked(bench, replayed, 60 * minutes)
    caught: tuple[self_test.Caught, ...] = ()
    if planted:
        with bar("planting bugs") as progress:
            caught = self_test.self_test(progress=progress)
    made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    found = report.Report(
        policy.name if policy is not None else "", dataset, __version__, made, seed, replayed, figures, tried, caught
    )
    report.show(found, Console())
    if directory is not None:
        _write(found, directory)
    raise typer.Exit(1 if found.failed else 0)


def _claims(policy: Path, seed: int, directory: Path | None) -> int:
    """Audit claims about devices. Reports are read, and no table of people."""
    found = stored_reports.audit_claims(load_policy(policy), seed, dt.datetime.now(dt.UTC).date())
    stored_reports.show(found, Console())
    if directory is not None:
        stored_reports.write(found, directory)
    return 1 if any(one.refuted for one in found) else 0


def _replayed(bench: AuditBench, asked: Path | None, role: str | None) -> tuple[Replayed, ...]:
    policy = bench.loaded.policy
    try:
        chosen = (
            statements.generated(policy, bench.bench.catalog)
            if asked is None
            else statements.read_statements(asked, role or next(iter(policy.roles)))
        )
    except Refusal as refusal:
        raise OperatorError(f"{asked}: {refusal.message}") from None
    with bar("replaying") as progress:
        return replay(Subject(), bench.bench, bench.other, bench.neighbours, chosen, progress)


def _asked(bench: AuditBench, replayed: tuple[Replayed, ...], seconds: float) -> tuple[tuple[Figure, ...], tuple[Attack, ...]]:
    """Two thirds of the time for the black box, whose answers attacks use as well."""
    with bar("starting two proxies") as progress, wire.pair(bench) as both:
        figures, given = black_box.black_box(both, bench, replayed, seconds * 2 / 3, progress)
        return figures, attacks.attacks(both, bench, figures, given, seconds / 3, progress)


def _write(found: report.Report, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "audit.json").write_text(report.as_json(found), encoding="utf-8")
    (directory / "audit.html").write_text(report.page(found), encoding="utf-8")
    with (directory / "audit.txt").open("w", encoding="utf-8") as file:
        report.show(found, Console(file=file, width=120))
    print(f"written: {directory}/audit.html, audit.json, audit.txt", file=sys.stderr)
