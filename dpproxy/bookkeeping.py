"""The commands `ledger` and `budget`: what operators do with the record of what was spent.

Knows: the terminal, both kinds of ledger by their address, how a proxy is asked. Must not know: how a record is kept or read.
All but `ledger name` and `ledger repair` work while proxies run; these two need a SQLite ledger's proxy stopped. A SQLite
ledger has one writer: where a proxy serves, it is asked to write (`_write`). Whatever is written is in the audit log of the
state folder, too.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.data_identity import data_of, file_of
from dpproxy.answers.standings import limit
from dpproxy.ledger.book import Book
from dpproxy.ledger.entries import encode
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import Grant, LedgerError, Scope, Standing, decimal
from dpproxy.operations import audit
from dpproxy.operations.audit import AuditLog
from dpproxy.operations.requests import GrantBudget, OperationError, SetClock, ask_any, serves
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Policy
from dpproxy.records.place import Place, SqlitePlace, begin_anchor, ledger_key, named, place_of, read_secret, repair
from dpproxy.records.record import Verified, current, export, show, verify, verify_export, witnessed

STATE = Path("dpproxy-state")
State = Annotated[Path, typer.Option(envvar="DPPROXY_STATE", help="folder of the ledger, the stored answers and the facade")]
Ledger = Annotated[
    str | None,
    typer.Option("--ledger", envvar="DPPROXY_LEDGER", show_envvar=True, help="postgresql://... or a path; default: in --state"),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(envvar="DPPROXY_KEY_FILE", show_envvar=True, help="file with the secret that seals ledger and stored answers"),
]
Anchor = Annotated[
    Path | None,
    typer.Option(
        envvar="DPPROXY_ANCHOR", show_envvar=True, help="file on another volume that tells when a SQLite ledger is rolled back"
    ),
]
Dataset = Annotated[str | None, typer.Option(help="a ledger in PostgreSQL has a record for each dataset")]
Reason = Annotated[str, typer.Option(help="kept in the record")]
PolicyFile = Annotated[Path, typer.Argument(help="the policy file of a dataset")]
PolicyFiles = Annotated[list[Path], typer.Argument(help="policy files, one a dataset")]


class _ShowByDefault(TyperGroup):
    """`dpproxy budget FILE` is `dpproxy budget show FILE`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = not args or args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


ledger_app = typer.Typer(no_args_is_help=True, add_completion=False, help="Verify, show, export, back up and repair the ledger.")
budget_app = typer.Typer(
    no_args_is_help=True, add_completion=False, cls=_ShowByDefault, help="What is spent and left; grant more."
)


# budget


@budget_app.command("show")
def budget_show(policies: PolicyFiles, state: State = STATE, ledger: Ledger = None) -> None:
    """Print what each role, each user with a budget, and all together, have spent and have left, of each policy; also while the
    proxy runs."""
    place = place_of(ledger, state)
    columns = ("dataset", "scope", "name", "window", "spent", "limit", "left")
    print("\t".join((*columns, "delta spent", "delta limit", "delta left", "resets", "lifetime")))
    for file in policies:
        _show(load_file(file).policy, place)


def _show(rules: Policy, place: Place) -> None:
    names = place.names()
    account, others = names.named(rules.dataset, data_of(rules))
    others |= names.strangers(rules.dataset, file_of(rules))
    account = account or rules.dataset
    book = current(place.reader(account))
    _warn(book, rules, account, others)
    at = dt.datetime.now(dt.UTC)
    for scope, name, budget in _accounts(rules):
        key = (account, scope, account if scope == "dataset" else name)
        print("\t".join((rules.dataset, *_standing(replace(book.standing(key, limit(budget), at), name=name)))))


def _warn(book: Book, rules: Policy, account: str, others: Iterable[str]) -> None:
    """On standard error: what has been spent of these data under names that the policy does not have."""
    if account != rules.dataset:
        print(f"dataset `{rules.dataset}` charges the accounts of `{account}`", file=sys.stderr)
    for other in sorted(others):
        print(f"warning: these data were charged as dataset `{other}`, too: see `dpproxy ledger name`", file=sys.stderr)
    known: dict[str, Collection[str]] = {"role": rules.roles, "user": rules.users}
    for scope, name, total in book.spenders(account):
        if total and name not in known.get(scope, (name,)):
            spent = f"has spent epsilon {decimal(total.epsilon, MICRO)} and is not in the policy"
            print(f"warning: {scope} `{name}` {spent}: under a new name its budget begins anew", file=sys.stderr)


def _accounts(rules: Policy) -> Iterator[tuple[Scope, str, Any]]:
    yield from (("role", r.name, r.budget) for r in rules.roles.values())
    yield from (("user", u.name, u.budget) for u in rules.users.values() if u.budget is not None)
    yield "dataset", rules.dataset, rules.budget


def _standing(s: Standing) -> tuple[str, ...]:
    epsilon = (decimal(amount, MICRO) for amount in (s.spent_epsilon, s.limit_epsilon, s.left_epsilon))
    delta = (decimal(amount, ATTO) for amount in (s.spent_delta, s.limit_delta, s.left_delta))
    return (
        s.scope,
        s.name,
        s.window,
        *epsilon,
        *delta,
        f"{s.resets:%Y-%m-%d}" if s.resets else "never",
        decimal(s.lifetime_epsilon, MICRO),
    )


@budget_app.command()
def grant(
    policy: PolicyFile,
    reason: Reason,
    epsilon: Annotated[str, typer.Option(help="beyond the limit, in the current window")] = "0",
    delta: Annotated[str, typer.Option(help="the same of delta")] = "0",
    role: Annotated[str | None, typer.Option(help="to this role")] = None,
    user: Annotated[str | None, typer.Option(help="to this user, who has a budget of its own")] = None,
    whole: Annotated[bool, typer.Option("--all", help="to all roles together: the dataset's cap")] = False,
    state: State = STATE,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
) -> None:
    """Allow an account more in its current window. The reason stays in the record."""
    rules = load_file(policy).policy
    scope, name = _account(rules, role, user, whole)
    amounts = (_amount("epsilon", epsilon, MICRO), _amount("delta", delta, ATTO))
    if not any(amounts):
        raise LedgerError("nothing is granted: say --epsilon or --delta")
    place = place_of(ledger, state, anchor)

    def write(journal: Journal) -> None:
        journal.name(rules.dataset, data_of(rules), dt.datetime.now(dt.UTC), file_of(rules))
        journal.grant(Grant(rules.dataset, scope, name, *amounts, reason, dt.datetime.now(dt.UTC)))

    _write(place, state, key_file, GrantBudget(named(place), rules.dataset, scope, name, *amounts, reason), write)
    for words in _used_up(rules, place, scope, name):
        print(f"nothing is left {words}: until that is granted as well, what is granted here allows nothing", file=sys.stderr)


def _used_up(rules: Policy, place: Place, scope: Scope, name: str) -> Iterator[str]:
    """Other accounts that are charged with this one and have nothing left, and how they are granted."""
    account, at = place.names().named(rules.dataset, data_of(rules))[0] or rules.dataset, dt.datetime.now(dt.UTC)
    book = current(place.reader(account))
    roles = {"role": (), "user": [rules.users[name].role] if scope == "user" else [], "dataset": list(rules.roles)}[scope]
    if scope != "dataset" and not book.standing((account, "dataset", account), limit(rules.budget), at).left_epsilon:
        yield "of the dataset's budget, which all roles share (`--all`)"
    for role in roles:
        if not book.standing((account, "role", role), limit(rules.roles[role].budget), at).left_epsilon:
            yield f"of role `{role}`'s budget (`--role {role}`)"


def _account(rules: Policy, role: str | None, user: str | None, whole: bool) -> tuple[Scope, str]:
    if (role is not None) + (user is not None) + whole != 1:
        raise LedgerError("say who is granted: one of --role, --user, --all")
    if role is not None and role not in rules.roles:
        raise LedgerError(f"there is no role `{role}` in the policy")
    if user is not None and (user not in rules.users or rules.users[user].budget is None):
        raise LedgerError(f"there is no user `{user}` with a budget of its own in the policy")
    if role is not None:
        return "role", role
    return ("user", user) if user is not None else ("dataset", rules.dataset)


def _amount(what: str, text: str, unit: int) -> int:
    """Rounded down."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise LedgerError(f"--{what} must be a number from 0, not `{text}`")
    return int(value * unit)


def _write(
    place: Place, state: Path, key_file: Path | None, request: GrantBudget | SetClock, write: Callable[[Journal], None]
) -> None:
    """By the proxy that serves with a SQLite ledger, or by ourselves. Raises LedgerError."""
    if isinstance(place, SqlitePlace) and serves(state):
        try:
            ask_any(state, request)
        except OperationError as error:
            raise LedgerError(str(error)) from None
        return
    with _opened(place, key_file) as journal:
        write(journal)
    if state.is_dir():
        details = {name: value for name, value in asdict(request).items() if name != "ledger"}
        AuditLog(state / audit.FILE).note(type(request).__name__, audit.account(os.getuid()), **details)


@contextmanager
def _opened(place: Place, key_file: Path | None) -> Iterator[Journal]:
    journal = place.open(ledger_key(read_secret(key_file)))
    try:
        yield journal
    finally:
        journal.close()


# ledger


@ledger_app.command("verify")
def ledger_verify(
    exported: Annotated[Path | None, typer.Argument(help="a file written by `export`; default: the ledger itself")] = None,
    dataset: Dataset = None,
    state: State = STATE,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
) -> None:
    """Check the chain of hashes, the head, the anchor outside, and with a key its seal or signature."""
    key = ledger_key(read_secret(key_file))
    if exported is None:
        place = place_of(ledger, state, anchor)
        found = verify(place.reader(dataset), key=key)
        witnessed(place.reader(dataset), place.witness(dataset, key))
        _tell(found)
        return
    with _reading(exported) as lines:
        _tell(verify_export(lines, key=key))


@contextmanager
def _reading(path: Path) -> Iterator[TextIO]:
    try:
        with path.open() as lines:
            yield lines
    except OSError as error:
        raise LedgerError(f"{path} cannot be read: {error.strerror}") from error


def _tell(found: Verified) -> None:
    last = f", the last of {found.last:%Y-%m-%d %H:%M:%S} UTC" if found.last else ""
    print(f"{found.entries} entries{last}; head {found.hash}")


@ledger_app.command("export")
def ledger_export(
    out: Annotated[Path | None, typer.Option(help="default: standard output")] = None,
    dataset: Dataset = None,
    state: State = STATE,
    ledger: Ledger = None,
    key_file: KeyFile = None,
) -> None:
    """Write every entry with its hash as JSON lines, and the head, signed if there is a key."""
    reader, key = place_of(ledger, state).reader(dataset), ledger_key(read_secret(key_file))
    if out is None:
        export(reader, sys.stdout, key=key)
        return
    try:
        with out.open("x") as stream:
            _tell(export(reader, stream, key=key))
    except OSError as error:
        raise LedgerError(f"{out} cannot be written: {error.strerror}") from error


@ledger_app.command("show")
def ledger_show(
    role: Annotated[str | None, typer.Option(help="only charges of this role")] = None,
    since: Annotated[dt.datetime | None, typer.Option(help="only entries from this time on, in UTC")] = None,
    dataset: Dataset = None,
    state: State = STATE,
    ledger: Ledger = None,
) -> None:
    """Print entries, one JSON object a line, without their curves."""
    after = since.replace(tzinfo=dt.UTC) if since is not None else None
    for sequence, entry in show(place_of(ledger, state).reader(dataset), role=role, dataset=dataset, since=after):
        print(json.dumps(_brief(json.loads(encode(entry, sequence)))))


def _brief(fields: dict[str, Any]) -> dict[str, Any]:
    """Losses as epsilon and delta; `dataset_loss` is true for the same, false for none."""
    return {k: {"epsilon": v["epsilon"], "delta": v["delta"]} if isinstance(v, dict) else v for k, v in fields.items()}


@ledger_app.command("backup")
def ledger_backup(
    target: Annotated[Path, typer.Argument(help="a file that does not exist")], state: State = STATE, ledger: Ledger = None
) -> None:
    """Copy a SQLite ledger, also while the proxy runs. A proxy starts on a copy only after `repair`."""
    place_of(ledger, state).backup(target)


@ledger_app.command("repair")
def ledger_repair(
    reason: Reason,
    dataset: Dataset = None,
    state: State = STATE,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
) -> None:
    """Make a damaged record whole, or accept one that was rolled back, by charging more: what can be read stays charged, and
    every current window is closed."""
    repaired = repair(place_of(ledger, state, anchor), dataset, reason, ledger_key(read_secret(key_file)))
    if repaired is None:
        print("the ledger is whole: nothing was done")
    else:
        _tell(repaired)


@ledger_app.command("name")
def ledger_name(
    policy: PolicyFile,
    reason: Reason,
    account: Annotated[str | None, typer.Option("--as", help="the dataset whose accounts are charged; default: its own")] = None,
    state: State = STATE,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
) -> None:
    """Say whose accounts a renamed dataset, or a second policy over the same data, charges. The reason stays in the record."""
    rules = load_file(policy).policy
    with _opened(place_of(ledger, state, anchor), key_file) as journal:
        data, at = (data_of(rules), account or rules.dataset), dt.datetime.now(dt.UTC)
        journal.share(rules.dataset, *data, at, reason, file_of(rules))


@ledger_app.command("anchor")
def ledger_anchor(
    dataset: Dataset = None, state: State = STATE, ledger: Ledger = None, anchor: Anchor = None, key_file: KeyFile = None
) -> None:
    """Begin an anchor for a ledger that has none: the record as it is now counts as right."""
    begin_anchor(place_of(ledger, state, anchor), dataset, ledger_key(read_secret(key_file)))


@ledger_app.command("clock")
def ledger_clock(
    reason: Reason,
    dataset: Annotated[str, typer.Option(help="whose record; a SQLite ledger has one for all")],
    wrong: Annotated[bool, typer.Option("--wrong", help="the ledger's clock was ahead; every charge stays charged")] = False,
    state: State = STATE,
    ledger: Ledger = None,
    anchor: Anchor = None,
    key_file: KeyFile = None,
) -> None:
    """Give an operator's word that this machine's clock is right, when charges are refused after it jumped ahead; with --wrong,
    when the ledger's clock ran ahead and keeps windows closed."""
    place = place_of(ledger, state, anchor)

    def write(journal: Journal) -> None:
        accept = journal.set_clock_back if wrong else journal.accept_clock
        accept(dataset, dt.datetime.now(dt.UTC), reason)

    _write(place, state, key_file, SetClock(named(place), dataset, wrong, reason), write)
