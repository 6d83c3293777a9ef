"""Budgets, roles and users: who may ask, and how much they may learn.

Knows: limits in micro-epsilon and atto-delta, always rounded down. Must not know: what was spent. Passwords are
accepted as SCRAM verifiers only, and no message repeats one.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast, get_args

from scramp import ScramException, ScramMechanism

from dpproxy.budget_windows import KINDS, Window
from dpproxy.policy import names, scalars
from dpproxy.policy.model import PARAMETER_BYTES, Budget, Previews, QueryLimits, Role, User
from dpproxy.policy.people_keys import BUDGET, QUERY, ROLE, USER
from dpproxy.policy.problems import suggestion
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.tree import Node, Scalar
from dpproxy.table_terms import TableName

# Passwords as SCRAM-SHA-256 verifiers, in the format of PostgreSQL's `pg_authid.rolpassword`.
#
# Knows: RFC 5802 and 7677, RFC 4013 (SASLprep). Must not know: users, policies. A verifier lets the proxy check a login and
# tells whoever reads the policy neither the password nor how to log in; a weak password can still be guessed from it, so policy
# files deserve care all the same.


MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 4096  # RFC 7677's least and PostgreSQL's default; every driver can afford it
MAX_ITERATIONS = 10_000_000  # about five seconds of hashing: more only locks the user out
_FORMAT = re.compile(r"SCRAM-SHA-256\$([1-9][0-9]{0,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)\Z")
_KEY_BYTES = 32  # of SHA-256


@dataclass(frozen=True)
class Verifier:
    """What a server needs for a SCRAM login."""

    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


def make_verifier(password: str, iterations: int = ITERATIONS, salt: bytes | None = None) -> str:
    """Return `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, with a fresh random salt unless one is given.

    Raises ValueError for an empty password, one that SASLprep forbids, or too few iterations.
    """
    if not password:
        raise ValueError("the password is empty")
    try:
        made = ScramMechanism(MECHANISM).make_auth_info(password, iteration_count=iterations, salt=salt)
    except ScramException as error:
        raise ValueError("the password holds a character that SASLprep forbids, or iterations are below 4096") from error
    salt_, stored, server, count = made
    text = [base64.b64encode(part).decode() for part in (salt_, stored, server)]
    return f"{MECHANISM}${count}:{text[0]}${text[1]}:{text[2]}"


def parse_verifier(text: str) -> Verifier:
    """Parse a verifier. Raises ValueError, which never repeats `text`, when it is none."""
    if text.startswith("md5"):
        raise ValueError("md5 hashes are not accepted")
    if not text.startswith(MECHANISM + "$"):
        raise ValueError("plain text is not accepted")
    found = _FORMAT.match(text)
    if found is None:
        raise ValueError("it is not of the form SCRAM-SHA-256$iterations:salt$key:key")
    try:
        salt, stored, server = (base64.b64decode(part, validate=True) for part in found.groups()[1:])
    except binascii.Error:
        raise ValueError("a part of it is not base64") from None
    iterations = int(found[1])
    if len(stored) != _KEY_BYTES or len(server) != _KEY_BYTES or not salt:
        raise ValueError("a part of it has been cut")
    if not ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ValueError(f"iterations must be from {ITERATIONS} to {MAX_ITERATIONS}")
    return Verifier(iterations, salt, stored, server)


NO_BUDGET = Budget(0, 0)
NO_QUERY = QueryLimits(0, 0, 0)
"""Of roles whose tables have no unit: nothing is charged to them."""
MOST_MEASURED = Decimal("0.5")  # of a statement's epsilon: the answer itself is what is asked for
MAX_EPSILON = 10**12  # in micro-epsilon this still fits the ledger's 64-bit integers
DEFAULT_QUERY_DELTA_SHARE = 1000  # a thousand statements with undeclared groups before the role's delta is gone


def read_budget(reader: Reader, node: Node, title: str) -> Budget | None:
    keys = reader.mapping(node, BUDGET)
    if keys is None:
        return None
    epsilon = epsilon_of(reader, keys["epsilon"], f"{title} epsilon") if "epsilon" in keys else None
    delta = delta_of(reader, keys["delta"], f"{title} delta") if "delta" in keys else 0
    every = reader.choice(keys["every"], "`every`", KINDS) if "every" in keys else "never"
    warn = _percents(reader, keys["warn"]) if "warn" in keys else Budget.warn
    if epsilon is None or delta is None or every is None:
        return None
    return Budget(epsilon, delta, cast(Window, every), warn)


def _percents(reader: Reader, node: Node) -> tuple[int, ...]:
    found = [reader.integer(item, "warn", 1, 100) for item in reader.items(node, "warn") or ()]
    return tuple(sorted({percent for percent in found if percent is not None}))


def epsilon_of(reader: Reader, node: Node, what: str) -> int | None:
    amount = reader.decimal(node, what)
    if amount is None:
        return None
    if amount > MAX_EPSILON:
        reader.problem(node.at, f"`{what}` is too large", f"write at most {MAX_EPSILON}", "out-of-range")
        return None
    micro = scalars.micro(amount)
    if micro < 1:
        reader.problem(node.at, f"`{what}` must be at least a millionth", "write a number above 0, as in 0.1", "out-of-range")
        return None
    return micro


def delta_of(reader: Reader, node: Node, what: str) -> int | None:
    amount = reader.decimal(node, what)
    if amount is None:
        return None
    if not 0 <= amount < 1:
        reader.problem(node.at, f"`{what}` must be from 0 to below 1", "write a small number, as in 1e-6", "out-of-range")
        return None
    atto = scalars.atto(amount)
    if atto == 0 and amount > 0:
        reader.problem(node.at, f"`{what}` is below 1e-18", "write 0, or at least 1e-18", "out-of-range")
        return None
    return atto


def read_previews(reader: Reader, node: Node | None, default: Previews) -> Previews:
    found = reader.choice(node, "`previews`", get_args(Previews)) if node is not None else None
    return cast(Previews, found) if found is not None else default


def read_roles(
    reader: Reader,
    node: Node | None,
    total: Budget | None,
    tables: frozenset[TableName],
    previews: Previews = "refuse",
    *,
    units: bool = True,
) -> dict[str, Role]:
    """`previews`: what roles have that do not say. `units`: whether a table has a unit; else roles need no budget."""
    listed = reader.named(node, "`roles`")
    roles: dict[str, Role] = {}
    for name, declared in listed.entries.items() if listed else ():
        reader.positions["roles", name] = listed.keys[name] if listed else declared.at
        _name(reader, name, "role", declared)
        role = _role(reader, name, declared, total, tables, previews, units)
        if role is not None:
            roles[name] = role
    if listed is not None and not listed.entries:
        reader.problem(listed.at, "there are no roles", "add a role with a `budget` and `query`", "empty")
    return roles


def _name(reader: Reader, name: str, what: str, node: Node) -> None:
    if not names.valid(name):
        at = reader.positions[f"{what}s", name]
        reader.problem(at, f"this is not a {what}'s name", "use at most 63 printable characters", "bad-name")


def _role(
    reader: Reader, name: str, node: Node, total: Budget | None, tables: frozenset[TableName], previews: Previews, units: bool
) -> Role | None:
    keys = reader.mapping(node, ROLE, units=units)
    if keys is None:
        return None
    for key in ("budget", "query", "tables"):
        if key in keys:
            reader.positions["roles", name, key] = keys[key].at
    budget = read_budget(reader, keys["budget"], f"role {name}") if "budget" in keys else NO_BUDGET if not units else None
    if budget and total and (budget.epsilon > total.epsilon or budget.delta > total.delta):
        what = f"role `{name}` may spend more than the dataset"
        reader.problem(keys["budget"].at, what, "lower the role's epsilon and delta, or raise the dataset's `budget`", "budget")
    query = _query(reader, keys["query"], budget) if "query" in keys else NO_QUERY if not units else None
    seen = _tables(reader, keys["tables"], tables) if "tables" in keys else None
    least = reader.integer(keys["min_units"], "min_units", 1, 10**9) if "min_units" in keys else 1
    temp = reader.flag(keys["temp_tables"], "temp_tables") if "temp_tables" in keys else False
    if budget is None or query is None or least is None or temp is None:
        return None
    return Role(name, budget, query, seen, least, temp, read_previews(reader, keys.get("previews"), previews))


def _query(reader: Reader, node: Node, budget: Budget | None) -> QueryLimits | None:
    keys = reader.mapping(node, QUERY)
    if not keys or "epsilon" not in keys:
        return None
    epsilon = epsilon_of(reader, keys["epsilon"], "query epsilon")
    most = epsilon_of(reader, keys["max_epsilon"], "query max_epsilon") if "max_epsilon" in keys else epsilon
    share = budget.delta // DEFAULT_QUERY_DELTA_SHARE if budget else 0
    delta = delta_of(reader, keys["delta"], "query delta") if "delta" in keys else share
    measured = _part(reader, keys["measure_bounds"]) if "measure_bounds" in keys else 0
    given = keys.get("parameter_bytes")
    size = reader.integer(given, "parameter_bytes", 1, PARAMETER_BYTES) if given is not None else PARAMETER_BYTES
    if epsilon is None or most is None or delta is None or measured is None or size is None:
        return None
    if epsilon > most:
        reader.problem(keys["epsilon"].at, "`epsilon` of a query is above its `max_epsilon`", "raise `max_epsilon`", "budget")
    if budget and (most > budget.epsilon or delta > budget.delta):
        what = "one query may spend more than the budget of its role"
        reader.problem(node.at, what, "lower `max_epsilon` and `delta` of the query, or raise the role's budget", "budget")
    return QueryLimits(epsilon, most, delta, measured, size)


def _part(reader: Reader, node: Node) -> int | None:
    amount = reader.decimal(node, "measure_bounds")
    if amount is not None and not 0 <= amount <= MOST_MEASURED:
        reader.problem(
            node.at,
            f"`measure_bounds` is not from 0 to {MOST_MEASURED}",
            "write a part of the epsilon, as in 0.05",
            "out-of-range",
        )
        return None
    return scalars.micro(amount) if amount is not None else None


def _tables(reader: Reader, node: Node, tables: frozenset[TableName]) -> frozenset[TableName] | None:
    found: set[TableName] = set()
    for item in reader.items(node, "tables") or ():
        name = names.table(item.text) if isinstance(item, Scalar) else None
        if name is None or name not in tables:
            fix = suggestion(str(name), map(str, tables))
            reader.problem(item.at, f"there is no table or view {kind(item)} in this policy", fix, "unknown-table")
        else:
            found.add(name)
    return frozenset(found)


def read_users(reader: Reader, node: Node | None, roles: frozenset[str] | None, budgets: Mapping[str, Budget]) -> dict[str, User]:
    """Read the users. `budgets` are those of the roles that could be read."""
    listed = reader.named(node, "`users`")
    users: dict[str, User] = {}
    for name, declared in listed.entries.items() if listed else ():
        reader.positions["users", name] = listed.keys[name] if listed else declared.at
        _name(reader, name, "user", declared)
        user = _user(reader, name, declared, roles, budgets)
        if user is not None:
            users[name] = user
    return users


def _user(reader: Reader, name: str, node: Node, roles: frozenset[str] | None, budgets: Mapping[str, Budget]) -> User | None:
    keys = reader.mapping(node, USER)
    if keys is None or not set(USER.required) <= set(keys):
        return None
    role = reader.text(keys["role"], "role")
    if role is not None and roles is not None and role not in roles:
        reader.problem(keys["role"].at, f"there is no role `{role}`", suggestion(role, roles), "unknown-role")
    password = keys["password"].text if isinstance(keys["password"], Scalar) else ""
    try:
        parse_verifier(password)
    except ValueError as error:
        fix = "write the line printed by `dpproxy policy password`"
        reader.problem(
            keys["password"].at, f"the password of `{name}` is not a SCRAM-SHA-256 verifier ({error})", fix, "password"
        )
        return None
    budget = read_budget(reader, keys["budget"], f"user {name}") if "budget" in keys else None
    whole = budgets.get(role or "")
    if budget and whole and (budget.epsilon > whole.epsilon or budget.delta > whole.delta):
        what = f"user `{name}` may spend more than role `{role}`"
        reader.problem(keys["budget"].at, what, "lower the user's epsilon and delta, or raise the role's", "budget")
    return User(name, role, password, budget) if role is not None else None
