"""The commands `dpproxy admin`: what operators do to a proxy while it serves.

Knows: the terminal, requests. Must not know: how anything is carried out. Each asks a socket in the state folder; of several
processes any of them may be asked. Standard output is for what was asked, one line a thing, columns apart by tabs.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from dpproxy.amounts import MICRO
from dpproxy.bookkeeping import STATE, State, grant, ledger_clock
from dpproxy.console.tokens import digests, give, renew, revoke, token_of
from dpproxy.operations.audit import FILE, AuditLog, account
from dpproxy.operations.requests import CancelSession, Drain, PauseRole, Recent, Reload, Report, ResumeRole, ask_any

admin_app = typer.Typer(no_args_is_help=True, help="Look at a proxy while it serves, and steer it.")
admin_budget = typer.Typer(no_args_is_help=True, help="Grant more, while the proxy serves.")
admin_ledger = typer.Typer(no_args_is_help=True, help="Settle the ledger's clock, while the proxy serves.")
admin_app.add_typer(admin_budget, name="budget")
admin_app.add_typer(admin_ledger, name="ledger")
admin_budget.command("grant")(grant)
admin_ledger.command("clock")(ledger_clock)

Role = Annotated[str, typer.Argument(help="a role of a policy")]
OfDataset = Annotated[str, typer.Option(help="where several datasets have a role of that name")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object a line")]


@admin_app.command()
def who(state: State = STATE, as_json: Json = False) -> None:
    """Print who is connected, and what each session does."""
    sessions = [session for status in ask_any(state, Report()) for session in status["sessions"]]
    columns = ("session", "process", "dataset", "role", "user", "address", "tls", "since", "state", "statement")
    _table(columns, sorted(sessions, key=lambda session: session["since"]), as_json)


@admin_app.command()
def status(state: State = STATE) -> None:
    """Print all that the processes know of themselves, one JSON object each. Exits with 1 when something does not work."""
    found = ask_any(state, Report(checked=True))
    for each in found:
        print(json.dumps(each))
    if any(not check["works"] for each in found for check in each["checks"]):
        raise typer.Exit(1)


@admin_app.command()
def statements(
    count: Annotated[int, typer.Option(min=1, max=1000, help="of each process at most")] = 50,
    state: State = STATE,
    as_json: Json = False,
) -> None:
    """Print the last statements over private tables, the newest first: who asked, what became of it, what it cost."""
    who = ("at", "dataset", "role", "user", "statement", "verdict")
    rows = [event | {"epsilon": event["epsilon"] / MICRO} for event in ask_any(state, Recent(count))]
    _table((*who, "epsilon", "milliseconds", "code", "reason_class", "reason"), rows, as_json)


@admin_app.command()
def token(
    state: State = STATE,
    new: Annotated[
        bool, typer.Option("--new", help="draw another shared one; who is logged in by the old one is logged out")
    ] = False,
    owner: Annotated[str, typer.Option("--for", help="draw one for this operator, whom the audit log then names")] = "",
    revoked: Annotated[str, typer.Option("--revoke", help="let this operator in no more")] = "",
    names: Annotated[bool, typer.Option("--list", help="print which operators have tokens of their own")] = False,
) -> None:
    """Print the token that lets in to the console (`dpproxy serve --console`).

    Of an operator's own token the digest alone is kept: it is printed when it is drawn, and from the first one on the shared one
    lets nobody in.
    """
    if names:
        print("\n".join(name for name in digests(state) if name))
        return
    if not (new or owner or revoked):
        print(token_of(state))
        return
    audit = AuditLog(state / FILE)
    if revoked:
        revoke(state, revoked)
    else:
        print(give(state, owner) if owner else renew(state))
    audit.note("console token", account(os.getuid()), "revoked" if revoked else "drawn", operator=revoked or owner)


@admin_app.command()
def pause(
    role: Role,
    reason: Annotated[str, typer.Option(help="kept in the audit log")],
    dataset: OfDataset = "",
    state: State = STATE,
) -> None:
    """Answer nothing to a role until it is resumed, also after a restart. What runs goes on."""
    _changed(ask_any(state, PauseRole(role, reason, dataset)), f"role `{role}` was paused already")


@admin_app.command()
def resume(
    role: Role,
    reason: Annotated[str, typer.Option(help="kept in the audit log")] = "",
    dataset: OfDataset = "",
    state: State = STATE,
) -> None:
    """Answer a paused role again."""
    _changed(ask_any(state, ResumeRole(role, reason, dataset)), f"role `{role}` was not paused")


@admin_app.command()
def reload(state: State = STATE) -> None:
    """Read certificates, policies and data again, and say what became of each. What is wrong is not read, and what was there
    stays: then it exits with 1."""
    found = ask_any(state, Reload())
    for each in found:
        print(f"{each['name']}\t{each['policy'] or '-'}\t{each['problem'] or 'served'}")
    if any(each["problem"] for each in found):
        raise typer.Exit(1)


@admin_app.command()
def drain(state: State = STATE) -> None:
    """Take no new connections, let statements that run end (`--drain` of `dpproxy serve`), and stop."""
    ask_any(state, Drain())


@admin_app.command()
def cancel(
    session: Annotated[int, typer.Argument(help="its number, of `dpproxy admin who` or the log")],
    end: Annotated[bool, typer.Option("--end", help="end the session, too")] = False,
    state: State = STATE,
) -> None:
    """Cancel what a session does. What is charged is measured to its end and kept."""
    ask_any(state, CancelSession(session, end))


def _changed(changed: bool, otherwise: str) -> None:
    if not changed:
        typer.echo(otherwise, err=True)


def _table(columns: tuple[str, ...], rows: Iterable[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    print("\t".join(columns))
    for row in rows:
        print("\t".join(_cell(name, row[name]) for name in columns))


def _cell(name: str, value: Any) -> str:
    if name in ("since", "at"):
        return f"{dt.datetime.fromtimestamp(value, dt.UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "-"
