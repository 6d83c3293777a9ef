"""What other engines say of differential privacy in SQL, in this one's words: GoogleSQL's clause and aggregates, Snowflake's
functions of intervals.

Knows: tokens and trees, the names of unit columns. Must not know: policies, plans. `SELECT WITH DIFFERENTIAL_PRIVACY
OPTIONS(epsilon = 1, ...)` becomes a plain SELECT and what its options ask of the session's settings, for this statement alone;
what its aggregates mean is `sql.person_aggregates`' to say. `DP_INTERVAL_LOW(alias)` is `dpproxy.low(aggregate)`. Whatever means
something else here is refused by name: nothing is answered with another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from dpproxy.errors import INVALID_PARAMETER_VALUE, Refusal
from dpproxy.sql.dialect import FaithfulPostgres, copied, ident, to_sql
from dpproxy.sql.guard import tokenize
from dpproxy.sql.nodes import every
from dpproxy.sql.person_aggregates import GROUP_BOUNDS, Units, aggregated, is_anonymous, own_calls, refused, unit_names
from dpproxy.sql.settings import EPSILON, GROUPS
from dpproxy.sql.statements import closing, parse, words_of

_HINT = re.compile(
    r"(?i)\b(differential_privacy|anonymization|aggregation_threshold|anon_\w+|dp_interval_(?:low|high)|contribution_bounds_per_\w+)\b"
)
_MARK = "dpproxy_clause"
_CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
_LARGEST = Decimal(10**9)  # an epsilon beyond it is beyond every role's largest
Asked = tuple[tuple[str, str], ...]
"""Settings by name; `delta` is the most a statement may cost of it."""


@dataclass(frozen=True)
class Written:
    """A query without what other engines say, and what it asks of the settings."""

    query: str
    asked: Asked = ()


@dataclass
class _Clause:
    """The options of a clause. `unit`: the column it names, as it is written."""

    unit: str = ""
    asked: dict[str, str] = field(default_factory=dict)


def written(query: str, units: Units) -> Written | None:
    """Return the query in our words; None for one that borrows none. `units`: which columns hold unit ids. Raises
    Refusal."""
    if _HINT.search(query) is None:
        return None
    text, clause = _without_clause(query, tokenize(query))
    plain = _plain_bounds(text, tokenize(text))
    try:
        tree = parse(plain)
    except Refusal:
        if clause is None and plain == query:
            return None  # a name like any other; whoever reads the statement says what is wrong
        raise
    select = _marked(tree) if clause is not None else None
    if clause is not None:
        _check_unit(clause, units)
    changed = clause is not None
    for one in every(tree, exp.Select):
        if one is select or own_calls(one, is_anonymous):
            aggregated(one, clause.unit if clause is not None else "", units, given=one is select)
            changed = True
    for call in every(tree, exp.Anonymous):
        changed = _interval_end(call) or changed
    return Written(to_sql(tree), tuple(clause.asked.items()) if clause is not None else ()) if changed else None


def _without_clause(query: str, tokens: list[Token]) -> tuple[str, _Clause | None]:
    """The query with a mark in place of `WITH DIFFERENTIAL_PRIVACY OPTIONS(...)`."""
    words = words_of(tokens)
    at = [i for i in range(len(words) - 2) if words[i : i + 2] == ["SELECT", "WITH"] and words[i + 2] in _CLAUSES]
    if not at and _threshold_alone(words):
        raise refused(
            "AGGREGATION_THRESHOLD is not supported: a threshold without noise keeps nobody's rows private",
            "Leave the clause out: answers have noise, and `min_units` of the policy says how few people a group may be of.",
        )
    if not at:
        return query, None
    if len(at) > 1:
        raise refused(
            "a statement has one privacy clause: its epsilon is that of the whole statement",
            "Ask in statements of their own, or SET dpproxy.epsilon and leave the clauses out.",
        )
    first, last, clause = at[0] + 1, at[0] + 2, _Clause()
    if words[last + 1 : last + 3] == ["OPTIONS", "("]:
        end = closing(words, last + 2)
        for option in _split(query, tokens[last + 3 : end], words[last + 3 : end]):
            _read(option, clause)
        last = end
    begin, stop = tokens[first].start, tokens[last].end + 1
    return f"{query[:begin]}{_MARK}, {query[stop:]}", clause


def _threshold_alone(words: Sequence[str]) -> bool:
    return any(words[i : i + 3] == ["SELECT", "WITH", "AGGREGATION_THRESHOLD"] for i in range(len(words) - 2))


def _split(query: str, tokens: Sequence[Token], words: Sequence[str]) -> list[str]:
    """The texts between commas."""
    found, start, depth = [], 0, 0
    for i in range(len(tokens) + 1):
        if i == len(tokens) or (words[i] == "," and depth == 0):
            found += [query[tokens[start].start : tokens[i - 1].end + 1]] if i > start else []
            start = i + 1
        else:
            depth += (words[i] == "(") - (words[i] == ")")
    return found


def _read(option: str, clause: _Clause) -> None:
    name, _, value = (part.strip() for part in option.partition("="))
    name = name.lower()
    reader = _OPTIONS.get(name)
    if reader is None:
        raise refused(f"the option {name} of a privacy clause is not supported", "Options: " + ", ".join(_OPTIONS) + ".")
    reader(name, value, clause)


def _epsilon(name: str, value: str, clause: _Clause) -> None:
    clause.asked[EPSILON.name] = format(min(_number(name, value), _LARGEST), "f")


def _delta(name: str, value: str, clause: _Clause) -> None:
    clause.asked["delta"] = format(_number(name, value), "f")


def _groups(name: str, value: str, clause: _Clause) -> None:
    if value.upper() != "NULL":  # then the policy's bound alone
        clause.asked[GROUPS.name] = value


def _unit(name: str, value: str, clause: _Clause) -> None:
    clause.unit = value


def _strategy(name: str, value: str, clause: _Clause) -> None:
    if value.strip("'\"").upper() != "LAPLACE_THRESHOLD":
        raise refused(
            f"{name} = {value} is not supported: which groups are returned is the policy's",
            "Declare the column's values in the policy, or LEFT JOIN the table from a public one that lists the groups.",
        )


_OPTIONS: dict[str, Callable[[str, str, _Clause], None]] = {
    "epsilon": _epsilon, "delta": _delta, "max_groups_contributed": _groups, "kappa": _groups, "privacy_unit_column": _unit,
    "group_selection_strategy": _strategy,
}  # fmt: skip


def _number(name: str, value: str) -> Decimal:
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number <= 0:
        raise Refusal(INVALID_PARAMETER_VALUE, f"{name} must be a number above 0, not {value[:40]}")
    return number


def _check_unit(clause: _Clause, units: Units) -> None:
    if clause.unit and _last_name(clause.unit) not in {column for _, column in units}:
        raise Refusal(
            INVALID_PARAMETER_VALUE,
            f"privacy_unit_column must name the privacy unit of the policy, not {clause.unit[:60]}",
            hint=f"It is {unit_names(units)}.",
        )


def _last_name(path: str) -> str:
    node = sqlglot.parse_one(path, read=FaithfulPostgres)
    return ident(node.this) if isinstance(node, exp.Column) else ""


def _marked(tree: exp.Expr) -> exp.Select:
    """The SELECT that had the clause, without its mark."""
    for select in tree.find_all(exp.Select):
        if select.expressions and select.expressions[0].name == _MARK:
            select.set("expressions", select.expressions[1:])
            return select
    raise refused("this privacy clause", "Let it stand right behind SELECT.")


# --- bounds


def _plain_bounds(query: str, tokens: list[Token]) -> str:
    """`ANON_SUM(x CLAMPED BETWEEN a AND b)` as `ANON_SUM(x, contribution_bounds_per_group => (a, b))`."""
    words = words_of(tokens)
    edits: list[tuple[int, int, str]] = []
    for i, word in enumerate(words):
        if word.startswith("ANON_") and words[i + 1 : i + 2] == ["("]:
            edits += _clamped(tokens, words, i + 1, closing(words, i + 1))
    for begin, end, text in sorted(edits, reverse=True):
        query = query[:begin] + text + query[end:]
    return query


def _clamped(tokens: list[Token], words: list[str], begin: int, end: int) -> list[tuple[int, int, str]]:
    depth, between, middle = 0, 0, 0
    for i in range(begin + 1, end):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0 and words[i : i + 2] == ["CLAMPED", "BETWEEN"]:
            between = i
        elif depth == 0 and between and not middle and words[i] == "AND":
            middle = i
    if not middle:
        return []
    return [
        (tokens[between].start, tokens[between + 1].end + 1, f", {GROUP_BOUNDS} => ("),
        (tokens[middle].start, tokens[middle].end + 1, ","),
        (tokens[end].start, tokens[end].start, ")"),
    ]


# --- intervals


def _interval_end(call: exp.Anonymous) -> bool:
    """Write `DP_INTERVAL_LOW(alias)` as `dpproxy.low(aggregate)`; whether it was that."""
    name, select = call.name.lower(), call.find_ancestor(exp.Select)
    if name not in ("dp_interval_low", "dp_interval_high") or len(call.expressions) != 1 or not isinstance(select, exp.Select):
        return False
    of = call.expressions[0]
    outputs = {ident(e.args["alias"]): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    named = (isinstance(of, exp.Column) and not of.args.get("table")) or (isinstance(of, exp.Literal) and of.is_string)
    value = outputs.get(ident(of.this) if isinstance(of, exp.Column) else of.name, of) if named else of
    end = exp.Anonymous(this=name.removeprefix("dp_interval_"), expressions=[copied(value)])
    found: exp.Expr = exp.Dot(this=exp.to_identifier("dpproxy"), expression=end)
    call.replace(exp.alias_(found, name) if call.parent is select else found)
    return True


# Snowflake's table function over the budget, as a table of ours.
#
# Knows: tokens. Must not know: budgets. `TABLE(SNOWFLAKE.DATA_PRIVACY.ESTIMATE_REMAINING_DP_AGGREGATES('t'))` is no SQL of
# PostgreSQL's; what it answers is in the table `dpproxy.estimate_remaining_dp_aggregates`, which takes its place. The table
# that it names does not matter: budgets here are of roles and users, over all tables.


NAME: Final = "estimate_remaining_dp_aggregates"
_QUALIFIED: Final = ["SNOWFLAKE", ".", "DATA_PRIVACY", "."]


def as_table(text: str) -> str:
    """Return a client's text with each such call written as the table. Raises Refusal for a text that no statement needs."""
    if NAME not in text.lower():
        return text
    tokens = tokenize(text)
    words = words_of(tokens)
    for at in reversed([i for i, word in enumerate(words) if word == NAME.upper()]):
        first = at - len(_QUALIFIED) if words[max(at - len(_QUALIFIED), 0) : at] == _QUALIFIED else at
        last = at + 3  # the name, a bracket, what it names, a bracket
        if words[at + 1 : at + 2] != ["("] or words[last : last + 1] != [")"]:
            continue
        if words[max(first - 2, 0) : first] == ["TABLE", "("] and words[last + 1 : last + 2] == [")"]:
            first, last = first - 2, last + 1
        text = f"{text[: tokens[first].start]}dpproxy.{NAME}{text[tokens[last].end + 1 :]}"
    return text


# Names in back quotes, as MySQL and GoogleSQL write them, in double quotes.
#
# Knows: where strings, names and comments of a text begin and end. Must not know: statements, policies. PostgreSQL has no use
# for a back quote outside of strings, so a text that has one comes from elsewhere: what stands there in double quotes is a
# string. A name that is one plain word does not depend on its capitals there, and has none here, as PostgreSQL's own plain
# names.


_PIECES: Final = re.compile(
    r"""
      (?P<kept>'(?:[^']|'')*+(?:'|\Z) | --[^\n]* | /\*.*?(?:\*/|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z))
    | `(?P<name>[^`]+)`
    | "(?P<text>(?:[^"]|"")*+)(?:"|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
"""What is open to the end is read to the end, so that no text is read twice."""
_WORD: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def in_double_quotes(text: str) -> str:
    """Return a client's text with such names in double quotes; one without them as it is."""
    if "`" not in text or not any(piece["name"] for piece in _PIECES.finditer(text)):
        return text
    return _PIECES.sub(_written, text)


def _written(piece: re.Match[str]) -> str:
    if piece["kept"] is not None:
        return piece["kept"]
    if piece["name"] is None:
        return "'" + piece["text"].replace('""', '"').replace("'", "''") + "'"
    name = piece["name"]
    return '"' + (name.lower() if _WORD.fullmatch(name) else name.replace('"', '""')) + '"'
