"""What operators' forms ask for, as requests.

Knows: fields of forms, requests. Must not know: HTTP, pages. What a form holds is checked here as far as a request does not check
it itself; whatever is wrong is said as `OperationError`. Several names in one field are apart by slashes (`joined`).
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from urllib.parse import quote, unquote

from dpproxy.amounts import ATTO, MICRO
from dpproxy.operations.requests import (
    CancelSession,
    GrantBudget,
    OperationError,
    PauseRole,
    Reload,
    Request,
    ResumeRole,
)

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
    return CancelSession(int(text), end), f"Session {text} was {'ended' if end else 'told to cancel its statement'}."


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
