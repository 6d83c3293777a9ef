"""A policy file to a `Policy`, or to every problem in it with its place.

Knows: the top of the format and the order in which its parts depend on each other. Must not know: the data; whether
tables and types exist is asked later by `policy.check`, which gets the places from `Loaded.positions`. Reading the
file and its references is the only IO here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final, cast, get_args
from urllib.parse import urlsplit

from dpproxy.policy import names, scalars
from dpproxy.policy.includes import Secrets, text_of, with_included
from dpproxy.policy.model import (
    Accelerate,
    AccelerateMode,
    Backend,
    DuckDBBackend,
    Mechanism,
    Policy,
    PostgresBackend,
    SparkBackend,
    TablePolicy,
)
from dpproxy.policy.people import NO_BUDGET, read_budget, read_previews, read_roles, read_users
from dpproxy.policy.policy_keys import ACCELERATE, BACKEND, POLICY, REUSE, TIMING
from dpproxy.policy.problems import START, Mark, PolicyError, Problem
from dpproxy.policy.reader import Path as Place
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.tables import read_tables
from dpproxy.policy.tree import Mapping as Entries
from dpproxy.policy.tree import Node, Scalar, open_decisions, parse
from dpproxy.policy.unit_forms import check_forms, check_unit_table, read_privacy_unit, reports_alone
from dpproxy.table_terms import TableName

# Whether there is a prepared copy of the private tables, as a policy says it: a word, or a mapping.
#
# Knows: the keys of `policy_keys.ACCELERATE`, sizes. Must not know: how a copy is made, or used.


_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(?:([KMGT])(i?)B|bytes)\Z", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def read_accelerate(reader: Reader, node: Node | None, backend: Backend | None, base: Path) -> Accelerate:
    """Return what a policy says of copies. `base` is the folder for relative paths."""
    if node is None:
        return Accelerate()
    reader.positions["accelerate",] = node.at
    if isinstance(node, Scalar):
        return Accelerate(_mode(reader, node, backend))
    keys = reader.mapping(node, ACCELERATE)
    if not keys or "mode" not in keys:
        return Accelerate()
    folder = reader.text(keys["folder"], "folder") if "folder" in keys else None
    disk = _size(reader, keys["disk"]) if "disk" in keys else None
    mode, queries = _mode(reader, keys["mode"], backend), _queries(reader, keys["queries"]) if "queries" in keys else ()
    return Accelerate(mode, disk, os.path.abspath(base / folder) if folder else None, queries)


def _queries(reader: Reader, node: Node) -> tuple[str, ...]:
    texts = [reader.text(item, "query") for item in reader.items(node, "queries") or ()]
    return tuple(text for text in texts if text is not None)


def _mode(reader: Reader, node: Node, backend: Backend | None) -> AccelerateMode:
    mode = reader.choice(node, "`accelerate`", get_args(AccelerateMode))
    if mode == "on" and backend is not None and not isinstance(backend, DuckDBBackend):
        what, fix = "there are prepared copies of DuckDB files alone", "write `off`, or leave `accelerate` out"
        if isinstance(backend, PostgresBackend):
            fix = "write `extract`: the tables are read once for each epoch of the data, and DuckDB measures; or leave it out"
        reader.problem(node.at, what, fix, "backend")
    if mode == "extract" and backend is not None and not isinstance(backend, PostgresBackend):
        fix = "write `on`" if isinstance(backend, DuckDBBackend) else "leave `accelerate` out"
        reader.problem(node.at, "extracts are made of PostgreSQL databases alone", fix, "backend")
    return cast(AccelerateMode, mode or "auto")


def _size(reader: Reader, node: Node) -> int | None:
    """Bytes."""
    found = _SIZE.match(node.text) if isinstance(node, Scalar) else None
    if found is None:
        reader.problem(node.at, f"`disk` cannot be {kind(node)}", "write a size, as in 20GB", "wrong-type")
        return None
    unit = (1024 if found[3] else 1000) ** _POWERS[found[2].upper()] if found[2] else 1
    return int(Decimal(found[1]) * unit)


__all__ = ["Loaded", "PolicyError", "Problem", "load_file", "load_policy", "load_text", "read_text"]

ADDRESS = ("postgresql://", "postgres://")
SPARK = "sc://"
EXTRAS = {"duckdb": ("memory_limit", "threads"), "postgres": ("password",), "spark": ("catalog", "token")}
"""What a backend may have beside its address, by engine."""
CLEAR_TOKEN = "write `token: ${env:SPARK_TOKEN}`, or ${file:path}"
_PASSWORD = re.compile(r"[a-z]+://[^/@:]*:(?!\$\{)[^/@]+@")
_WORDS = re.compile(r"([1-9][0-9]*) ?(?:(s)ec(?:ond)?s?|(m)in(?:ute)?s?|(h)ours?|(d)ays?|(w)eeks?)\Z")
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B|bytes|%)\Z", re.IGNORECASE)
RESERVED = frozenset({"postgres", "template0", "template1"})  # the facade server's own databases


@dataclass(frozen=True)
class Loaded:
    """A policy and where its parts stand: ("tables", "orders", "amount") -> line and column. `warnings`: what can be seen
    in the file alone and is no error. `included`: the other files that it consists of."""

    policy: Policy
    file: str
    positions: Mapping[Place, Mark]
    warnings: tuple[Problem, ...] = ()
    included: tuple[Path, ...] = ()


def load_policy(path: Path, env: Mapping[str, str] | None = None) -> Policy:
    """Load the policy in a file. Raises PolicyError. `env` (default: the process's) answers `${env:NAME}`."""
    return load_file(path, env).policy


def load_file(path: Path, env: Mapping[str, str] | None = None) -> Loaded:
    """Load the policy in a file, as `load_policy` does, with places for `policy.check`."""
    return read_text(text_of(path, START, str(path)), str(path), path.parent, env)


def load_text(text: str, name: str, base: Path, env: Mapping[str, str] | None = None) -> Policy:
    """Load the policy in `text`; `name` stands for the file in messages, `base` is the folder for relative paths."""
    return read_text(text, name, base, env).policy


def read_text(text: str, name: str, base: Path, env: Mapping[str, str] | None = None) -> Loaded:
    """Load the policy in a text, as `load_text` does, with places."""
    reader = Reader(name)
    whole = with_included(reader, parse(text, name), base)
    if whole.unread:
        raise PolicyError(reader.problems)
    secrets = Secrets(os.environ if env is None else env, base)
    policy = _policy(reader, whole.root, secrets)
    if policy is None or any(problem.severity == "error" for problem in reader.problems):
        raise PolicyError(reader.problems)
    written = [("", text), *((str(file), each) for file, each in zip(whole.files, whole.texts, strict=True))]
    for at, says in (found for file, each in written for found in open_decisions(each, file)):
        what = f"an open decision: {says}" if says else "an open decision"
        reader.problem(
            at, what, "decide, and remove the TODO; `serve --draft` serves this machine alone until then", "open-decision"
        )
    policy = replace(policy, digest=digest_of(text + "".join(whole.texts)))
    return Loaded(policy, name, reader.positions, tuple(reader.problems), whole.files)


def digest_of(text: str) -> str:
    """Name the text of a policy: the first 16 hexadecimal digits of its SHA-256, as sha256sum prints them of the file;
    where it includes others, of all of them one after another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _policy(reader: Reader, root: Node, secrets: Secrets) -> Policy | None:
    units = not reports_alone(root)
    keys = reader.mapping(root, POLICY, units=units)
    if keys is None:
        return None
    _version(reader, keys.get("version"))
    dataset = _dataset(reader, keys.get("dataset"))
    backend = _backend(reader, keys["backend"], secrets) if "backend" in keys else None
    unit = read_privacy_unit(reader, keys["privacy_unit"], units) if "privacy_unit" in keys else None
    of = unit[1] if unit else None
    tables = read_tables(reader, keys.get("tables"), of[:2] if of else None)
    if of and "tables" in keys:
        check_unit_table(reader, keys["privacy_unit"], of, tables)
        check_forms(reader, tables, of[2], reader.positions)
    views = _views(reader, keys.get("views"), tables)
    budget = read_budget(reader, keys["budget"], "dataset") if "budget" in keys else NO_BUDGET if not units else None
    for key in ("budget", "users"):
        if key in keys:
            reader.positions[key,] = keys[key].at
    previews = read_previews(reader, keys.get("previews"), "refuse")
    roles = read_roles(reader, keys.get("roles"), budget, frozenset(tables) | frozenset(views), previews, units=units)
    known = _keys_of(keys.get("roles"))
    users = read_users(reader, keys.get("users"), known, {r.name: r.budget for r in roles.values()})
    mechanism = reader.choice(keys["mechanism"], "`mechanism`", get_args(Mechanism)) if "mechanism" in keys else "laplace"
    reuse = _reuse(reader, keys.get("reuse_answers"))
    rest = _quantum(reader, keys.get("timing")), read_accelerate(reader, keys.get("accelerate"), backend, secrets.base)
    if dataset is None or backend is None or unit is None or budget is None:
        return None
    table, column = of[:2] if of else (None, "")
    parts = (budget, tables, roles, users, cast(Mechanism, mechanism), views)
    return Policy(dataset, backend, unit[0], table, column, *parts, *reuse, *rest)


def _keys_of(node: Node | None) -> frozenset[str] | None:
    """Names of a mapping's entries; None where there is none, which is said already."""
    return frozenset(node.entries) if isinstance(node, Entries) else None


def _version(reader: Reader, node: Node | None) -> None:
    if node is not None and not (isinstance(node, Scalar) and scalars.integer(node) == 1):
        reader.problem(node.at, f"this release does not know version {kind(node)}", "write `version: 1`", "version")


def _dataset(reader: Reader, node: Node | None) -> str | None:
    name = reader.text(node, "dataset") if node is not None else None
    if name is not None and node is not None and (not names.valid(name) or name in RESERVED):
        fix = "use another name of at most 63 printable characters"
        reader.problem(node.at, f"a dataset cannot be called {kind(node)}", fix, "bad-name")
    return name


def _backend(reader: Reader, node: Node, secrets: Secrets) -> Backend | None:
    if isinstance(node, Scalar) and node.text:
        engine = "postgres" if node.text.startswith(ADDRESS) else "spark" if node.text.startswith(SPARK) else "duckdb"
        what = f"a backend must be a mapping, not {kind(node)}"
        reader.problem(node.at, what, f"write `backend: {{ {engine}: {node.text[:80]} }}`", "wrong-type")
        return None
    keys = reader.mapping(node, BACKEND)
    if keys is None:
        return None
    named = [engine for engine in EXTRAS if engine in keys]
    if len(named) != 1:
        what = "a backend is one of `duckdb`, `postgres`, `spark`"
        reader.problem(node.at, what, "write `backend: { duckdb: shop.duckdb }`", "backend")
        return None
    (engine,) = named
    for key in set(keys) - {engine, *EXTRAS[engine]}:
        reader.problem(keys[key].at, f"`{key}` means nothing to {engine}", "remove it", "backend")
    address = secrets.read(reader, keys[engine], engine)
    reader.positions["backend",] = keys[engine].at
    if engine == "spark":
        return _spark(reader, keys, secrets, address)
    return (_postgres if engine == "postgres" else _duckdb)(reader, keys, secrets, address)


def _postgres(reader: Reader, keys: Mapping[str, Node], secrets: Secrets, address: str | None) -> PostgresBackend | None:
    password = secrets.read(reader, keys["password"], "password") if "password" in keys else None
    _clear(reader, keys)
    if address is None:
        return None
    wrong = None
    if not address.startswith(ADDRESS):
        wrong = ("this is no address of a PostgreSQL", "write `postgresql://role@host/database`")
    elif not _port(address):
        wrong = ("the address has no such port", "write a port from 1 to 65535, as in host:5432")
    if wrong is not None:
        reader.problem(keys["postgres"].at, *wrong, "backend")
        return None
    return PostgresBackend(address, password)


def _spark(reader: Reader, keys: Mapping[str, Node], secrets: Secrets, address: str | None) -> SparkBackend | None:
    """The address of Spark Connect: host and port; parameters that the client knows may follow a `/;`."""
    token = secrets.read(reader, keys["token"], "token") if "token" in keys else None
    catalog = reader.text(keys["catalog"], "catalog") if "catalog" in keys else None
    written, secret = keys["spark"], keys.get("token")
    if isinstance(secret, Scalar) and "${" not in secret.text:
        reader.problem(secret.at, "the backend's token stands in the policy", CLEAR_TOKEN, "secret-in-clear")
    if isinstance(written, Scalar) and ";token=" in written.text:
        reader.problem(written.at, "the backend's token stands in its address", CLEAR_TOKEN, "secret-in-clear")
    if address is None:
        return None
    wrong = None
    if not address.startswith(SPARK) or not urlsplit(address.partition("/;")[0]).hostname:
        wrong = ("this is no address of Spark Connect", "write `sc://host:15002`")
    elif not _port(address.partition("/;")[0]):
        wrong = ("the address has no such port", "write a port from 1 to 65535, as in host:15002")
    if wrong is not None:
        reader.problem(written.at, *wrong, "backend")
        return None
    return SparkBackend(address, catalog, token)


def _duckdb(reader: Reader, keys: Mapping[str, Node], secrets: Secrets, address: str | None) -> DuckDBBackend | None:
    if address is not None and address.startswith(ADDRESS):
        what = "this is the address of a PostgreSQL"
        reader.problem(keys["duckdb"].at, what, "write `postgres:` in place of `duckdb:`", "backend")
        return None
    memory = reader.text(keys["memory_limit"], "memory_limit") if "memory_limit" in keys else None
    if memory is not None and not _MEMORY.match(memory):
        what = f"`memory_limit` cannot be `{memory[:40]}`"
        reader.problem(keys["memory_limit"].at, what, "write a size, as in 4GB", "wrong-type")
    threads = reader.integer(keys["threads"], "threads", 1, 1024) if "threads" in keys else None
    if address is None:
        return None
    return DuckDBBackend(os.path.abspath(secrets.base / address), memory, threads)


def _port(address: str) -> bool:
    """Whether an address has a port that can be one, or none."""
    try:
        return urlsplit(address).port != 0
    except ValueError:
        return False


def _clear(reader: Reader, keys: Mapping[str, Node]) -> None:
    """A password that stands in the policy is in every copy of it."""
    address, password = keys["postgres"], keys.get("password")
    if isinstance(password, Scalar) and "${" not in password.text:
        fix = "write `password: ${env:PGPASSWORD}`, or ${file:path}"
        reader.problem(password.at, "the backend's password stands in the policy", fix, "secret-in-clear")
    if isinstance(address, Scalar) and _PASSWORD.match(address.text):
        fix = "leave it out of the address, and write `password: ${env:PGPASSWORD}` as a key of its own"
        reader.problem(address.at, "the backend's password stands in its address", fix, "secret-in-clear")


def _views(reader: Reader, node: Node | None, tables: Mapping[TableName, TablePolicy]) -> dict[TableName, str]:
    listed = reader.named(node, "`views`")
    views: dict[TableName, str] = {}
    for written, declared in listed.entries.items() if listed else ():
        at = listed.keys[written] if listed else declared.at
        name = names.table(written)
        sql = reader.text(declared, "view")
        if name is None:
            reader.problem(at, f"`{written[:80]}` is not a view's name", "write `name` or `schema.name`", "bad-name")
        elif name in tables or name in views:
            reader.problem(at, f"there is a table or view `{name}` already", "rename the view", "duplicate")
        elif sql is not None:
            reader.positions["views", str(name)] = at
            views[name] = sql
    return views


def _reuse(reader: Reader, node: Node | None) -> tuple[int | None, str | None]:
    """Seconds (0: never, None: as long as the data stays), and the epoch."""
    if isinstance(node, Scalar) and node.text == "off":
        return 0, None
    if isinstance(node, Scalar):
        what = f"`reuse_answers` cannot be {kind(node)}"
        reader.problem(node.at, what, "write `off`, or `{ for: 1d }`", "wrong-type")
        return None, None
    keys = reader.mapping(node, REUSE) if node is not None else None
    if not keys:
        return None, None
    time = _duration(reader, keys["for"], "for", 1000) if "for" in keys else None
    epoch = reader.text(keys["epoch"], "epoch") if "epoch" in keys else None
    if "epoch" in keys:
        reader.positions["reuse_answers", "epoch"] = keys["epoch"].at
    try:
        scalars.reload_time(epoch or "")
    except ValueError as error:
        reader.problem(keys["epoch"].at, "this is no time of day", str(error), "epoch")
    return (time // 1000 if time is not None else None), epoch


def _quantum(reader: Reader, node: Node | None) -> int | None:
    keys = reader.mapping(node, TIMING) if node is not None else None
    if not keys or "quantum" not in keys:
        return None
    quantum = keys["quantum"]
    if isinstance(quantum, Scalar) and quantum.text == "off":
        return None
    return _duration(reader, quantum, "quantum", 1)


def _duration(reader: Reader, node: Node, what: str, least: int) -> int | None:
    """Milliseconds."""
    time = scalars.milliseconds(node.text) if isinstance(node, Scalar) else None
    if time is None or time < least:
        fix = "write a duration with its unit, as in 50ms, 10s, 30m, 12h, 1d, 1w"
        words = _WORDS.match(node.text) if isinstance(node, Scalar) else None
        fix = f"write `{words[1]}{words[words.lastindex or 0]}`" if words else fix
        reader.problem(node.at, f"`{what}` cannot be {kind(node)}", fix, "wrong-type")
        return None
    return time
