"""Which pages there are, and what each is made of.

Knows: `console.source`, what charges and events come to. Must not know: HTTP, templates' text, who looks. A page is a function of
the source and of what its address holds; it returns the values of its template.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from dpproxy import budget_windows as windows
from dpproxy.amounts import ATTO, MICRO
from dpproxy.budget_windows import Window
from dpproxy.console import figures
from dpproxy.console.figures import BurnDown, burn_down
from dpproxy.console.source import Source
from dpproxy.operations.requests import CancelSession, GrantBudget, OperationError, PauseRole, Reload, Request, ResumeRole
from dpproxy.operations.status import Status

# What operators' forms ask for, as requests.
#
# Knows: fields of forms, requests. Must not know: HTTP, pages. What a form holds is checked here as far as a request does not
# check it itself; whatever is wrong is said as `OperationError`. Several names in one field are apart by slashes (`joined`).


Form = Mapping[str, str]


def joined(*names: str) -> str:
    """Write names as one field, whatever they are made of."""
    return "/".join(quote(name, safe="") for name in names)


def parted(text: str, count: int) -> tuple[str, ...]:
    """Read what `joined` wrote; names that are missing are empty."""
    found = [unquote(part) for part in text.split("/")[:count]]
    return (*found, *[""] * (count - len(found)))


def request_of(action: str, form: Form, ledger: str) -> tuple[Request, str]:
    """Return a request, and what is said when it was carried out. Raises OperationError, KeyError for an unknown action."""
    return _ACTIONS[action](form, ledger)


def _pause(form: Form, _: str) -> tuple[Request, str]:
    dataset, role = _role(form)
    return PauseRole(role, _given(form, "reason"), dataset), f"Role {role} is paused: nothing is answered to it."


def _resume(form: Form, _: str) -> tuple[Request, str]:
    dataset, role = _role(form)
    return ResumeRole(role, form.get("reason", ""), dataset), f"Role {role} is answered again."


def _reload(_: Form, __: str) -> tuple[Request, str]:
    return Reload(), "Certificates, policies and data were read again."


def _cancel(form: Form, _: str) -> tuple[Request, str]:
    text, end = _given(form, "session"), form.get("end") == "yes"
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        raise OperationError("a session has a number")
    return CancelSession(int(text), end), f"Session {text} was {'ended' if end else 'asked to cancel its statement'}."


def _grant(form: Form, ledger: str) -> tuple[Request, str]:
    dataset, scope, name = parted(_given(form, "account"), 3)
    epsilon, delta = _amount(form, "epsilon", MICRO), _amount(form, "delta", ATTO)
    if not epsilon and not delta:
        raise OperationError("nothing is granted: say how much epsilon or delta")
    request = GrantBudget(ledger, dataset, scope, name, epsilon, delta, _given(form, "reason"))
    return request, f"The budget of {scope} {name} is larger in this window."


_ACTIONS = {"pause": _pause, "resume": _resume, "reload": _reload, "cancel": _cancel, "grant": _grant}


def _role(form: Form) -> tuple[str, ...]:
    return parted(_given(form, "role"), 2)


def _given(form: Form, name: str) -> str:
    value = form.get(name, "").strip()
    if not value:
        raise OperationError(f"say the {name}")
    return value


def _amount(form: Form, name: str, unit: int) -> int:
    text = form.get(name, "").strip() or "0"
    try:
        amount = Decimal(text) * unit
    except InvalidOperation:
        raise OperationError(f"{name} is a number") from None
    if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value() or amount > 10**9 * unit:
        raise OperationError(f"{name} is a positive number of at most {len(str(unit)) - 1} digits behind the point")
    return int(amount)


Values = dict[str, Any]
Page = Callable[[Source, Mapping[str, Any]], Values]
SHOWN: Final = 200
"""Lines of a long table."""
REMEMBERED: Final = 1000
"""Statements of each process that are looked through."""
LONGEST: Final = 20_000
"""Characters of a statement that is explained."""


def overview(source: Source, _: Mapping[str, Any]) -> Values:
    """What an operator wants to see at a glance."""
    statuses, now = source.statuses(checked=True), time.time()
    return {
        "template": "overview.html",
        "statuses": statuses,
        "lines": _burn_downs(source, statuses, now),
        "reuse": figures.reuse(statuses),
        "troubles": tuple(troubles(statuses)),
        "sessions": sum(len(status.sessions) for status in statuses),
        "recent": source.recent(8),
        "now": now,
    }


def troubles(statuses: Sequence[Status]) -> list[str]:
    """Return what an operator has to look after, in words."""
    found = []
    for status in statuses:
        broken = [check for check in status.checks if not check.works]
        found += [f"The {c.part} of {c.subject} does not work{c.problem and ': '}{c.problem}." for c in broken]
        found += [f"The policy of {d.name} was not read again: {d.problem}" for d in status.datasets if d.problem]
        found += ["The proxy is stopping."] if status.stopping else []
    first = statuses[0]
    found += [f"Role {p.role} of {p.dataset} is paused by {p.by}: {p.reason}" for p in first.pauses]
    for a in first.accounts:
        part = "All" if a.spent_epsilon >= a.limit_epsilon else f"At least {a.warned} %" if a.warned else ""
        found += [f"{part} of the budget of {a.scope} {a.name} ({a.dataset}) is spent."] if part else []
    if not first.accounts:
        found.append("The ledger does not say where budgets stand.")
    return list(dict.fromkeys(found))


def budgets(source: Source, _: Mapping[str, Any]) -> Values:
    """What was spent, by whom, for what, and when it ends."""
    statuses, now = source.statuses(), time.time()
    by = []
    for dataset in sorted(source.roles()):
        begins = _longest(statuses, dataset, now)
        charges = [charge for charge in source.charges(dataset) if charge.at.timestamp() >= begins]
        tables = (
            ("role", figures.shares(charges, lambda charge: charge.role)),
            ("user", figures.shares(charges, lambda charge: charge.user)),
            ("statement", figures.shares(charges, lambda charge: charge.statement)),
        )
        by.append((dataset, begins, len(charges), tables))
    return {"template": "budgets.html", "lines": _burn_downs(source, statuses, now), "by": by, "now": now}


def _longest(statuses: Sequence[Status], dataset: str, now: float) -> float:
    """When the dataset's own window began: charges since then are added up."""
    at = dt.datetime.fromtimestamp(now, dt.UTC)
    kinds = [a.window for a in statuses[0].accounts if a.dataset == dataset and a.scope == "dataset"]
    return windows.start(cast("Window", kinds[0]), at).timestamp() if kinds else 0.0


def _burn_downs(source: Source, statuses: Sequence[Status], now: float) -> list[BurnDown]:
    charges = {dataset: source.charges(dataset) for dataset in source.roles()}
    return [burn_down(account, charges.get(account.dataset, ()), now) for account in statuses[0].accounts]


def answers(source: Source, _: Mapping[str, Any]) -> Values:
    """What was answered, how exact it was, what may be had again."""
    return {
        "template": "answers.html",
        "answers": source.answers(SHOWN),
        "stored": source.stored(),
        "repeats": source.repeats(SHOWN),
        "now": time.time(),
        "reuse": figures.reuse(source.statuses()),
    }


def refusals(source: Source, _: Mapping[str, Any]) -> Values:
    """What was refused, to whom and why."""
    found = figures.refusals(source.recent(REMEMBERED))
    return {"template": "refusals.html", "refusals": found[:SHOWN]}


def sessions(source: Source, _: Mapping[str, Any]) -> Values:
    """Who is connected, and what each session does."""
    found = [session for status in source.statuses() for session in status.sessions]
    return {"template": "sessions.html", "sessions": sorted(found, key=lambda session: session.since), "now": time.time()}


def policies(source: Source, _: Mapping[str, Any]) -> Values:
    """Which policies are served, and what is doubtful in them."""
    datasets = source.statuses()[0].datasets
    reviews = {review.dataset: review for review in source.reviews()}
    return {"template": "policies.html", "datasets": datasets, "reviews": reviews, "roles": source.roles()}


def exposure(source: Source, where: Mapping[str, Any]) -> Values:
    """What one role can learn."""
    dataset, role = where["dataset"], where["role"]
    return {"template": "exposure.html", "dataset": dataset, "role": role, "sections": source.exposure(dataset, role)}


def explain(source: Source, _: Mapping[str, Any]) -> Values:
    """A box for a statement."""
    return {"template": "explain.html", "roles": source.roles(), "form": {}, "explained": None, "errors": ()}


def explained(source: Source, where: Mapping[str, Any]) -> Values:
    """What would become of a statement."""
    form = where["form"]
    dataset, role = parted(form.get("role", ""), 2)
    found = source.explain(dataset, role, form.get("statement", "")[:LONGEST], form.get("epsilon", "").strip())
    return explain(source, where) | {"form": form, "explained": found, "errors": tuple(stated_errors(found.account))}


def stated_errors(account: Mapping[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Return of each aggregate its name, of what kind its error is, the error, and whether it is a number of rows or units."""
    found = []
    for measurement in account.get("Measurements", ()):
        for output in measurement["Outputs"]:
            name = output["Aggregate"]
            for kind in ("Within", "Within Times Rows", "Within Ranks"):
                if kind in output:
                    found.append((name, kind, float(output[kind]), kind == "Within" and name.lower().startswith("count")))
    return found


def steer(source: Source, _: Mapping[str, Any]) -> Values:
    """What an operator can do, and what was done."""
    status = source.statuses()[0]
    return {
        "template": "steer.html",
        "roles": source.roles(),
        "pauses": status.pauses,
        "accounts": status.accounts,
        "audited": source.audited(50),
    }


def outcome(reply: Any, done: str) -> tuple[str, bool]:
    """Return what is said of something that was asked for, and whether it went wrong. `reply`: of a reload, what was read."""
    if isinstance(reply, list):
        failed = [f"{each['name']}: {each['problem']}" for each in reply if each["problem"]]
        return ("Not read again: " + "; ".join(failed), True) if failed else (done, False)
    return (done, False) if reply else ("Nothing changed: it was so already.", False)


PAGES: Final[Mapping[str, tuple[str, Page]]] = {
    "overview": ("/", overview),
    "budgets": ("/budgets", budgets),
    "answers": ("/answers", answers),
    "refusals": ("/refusals", refusals),
    "sessions": ("/sessions", sessions),
    "policies": ("/policies", policies),
    "exposure": ("/exposure", exposure),
    "explain": ("/explain", explain),
    "steer": ("/steer", steer),
}
LINKS: Final = tuple((path, name.capitalize()) for name, (path, _) in PAGES.items() if name != "exposure")
"""What the menu shows."""
