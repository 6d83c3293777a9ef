"""A client's text as statements: where each begins, what kind it is, whether it may read a private table.

Knows: tokens and trees. Must not know: what a private table may be used for (that is `plan`). The rule for `private`:
a table position names a private table (or schema dpproxy), or a function is called that reaches another session. A miss here
is not a leak: the facade's tables are empty. When the text can't be parsed but mentions a private name, `private` is True and
the planner refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpproxy.errors import SYNTAX_ERROR, Refusal
from dpproxy.sql.dialect import FaithfulPostgres, ident
from dpproxy.sql.guard import check, refuse_wide, tokenize
from dpproxy.sql.misreadings import refuse_misread
from dpproxy.sql.nodes import every
from dpproxy.sql.trees import function_name

# Functions that end what another session does, or that session: how they are called.
#
# Knows: trees, names of functions. Must not know: sessions. Their argument is a number that a client was given for a session.


Signal = Literal["cancel", "terminate"]
SIGNALS: Final[dict[str, Signal]] = {"pg_cancel_backend": "cancel", "pg_terminate_backend": "terminate"}
"""What each function does."""


def signal_calls(tree: exp.Expr) -> list[exp.Anonymous]:
    """Return the calls in a tree."""
    return [call for call in every(tree, exp.Anonymous) if function_name(call) in SIGNALS]


Kind = Literal["select", "explain", "copy", "cursor", "create_table_as", "prepare", "other"]

VIRTUAL_SCHEMA = "dpproxy"
_QUERY_WORDS = {"SELECT", "WITH", "VALUES", "TABLE", "("}
# Statements that cannot read rows, whatever names they contain.
_HARMLESS = {"SET", "SHOW", "RESET", "BEGIN", "START", "COMMIT", "ROLLBACK", "END", "ABORT", "SAVEPOINT", "RELEASE"}
_HARMLESS |= {"DEALLOCATE", "DISCARD", "CLOSE", "FETCH", "MOVE", "LISTEN", "UNLISTEN", "EXECUTE"}


@dataclass(frozen=True)
class Statement:
    """One statement of a client's text. `prefix + query + suffix == text`; `offset` is where `text` begins.

    `query` is the SELECT inside (for `explain`, `copy`, ...), empty for kind `other`. `options`: of EXPLAIN, upper case.
    Of SELECT INTO TEMP, a `create_table_as`, `into` is what stands for its INTO, which is blank in `query`. `asked`: what the
    statement itself says of settings (`sql.privacy_clauses`).
    """

    text: str
    kind: Kind
    private: bool
    prefix: str = ""
    query: str = ""
    suffix: str = ""
    offset: int = 0
    options: tuple[str, ...] = ()
    into: str = ""
    asked: tuple[tuple[str, str], ...] = ()


_WORD = re.compile(r"\w+")


def split(text: str, private_names: frozenset[str]) -> tuple[Statement, ...]:
    """Return the statements of `text` (empty ones left out). `private_names`: bare table names, folded.

    Raises Refusal (42601, 54001) when the text can't be read at all.
    """
    if not private_names.isdisjoint(_WORD.findall(text.lower())):
        refuse_wide(text)
    tokens = tokenize(text)
    statements: list[Statement] = []
    start = 0
    for i, token in enumerate([*tokens, None]):
        if token is not None and token.token_type != TokenType.SEMICOLON:
            continue
        piece = tokens[start:i]
        if piece:
            statements.append(_statement(text, piece, private_names))
        start = i + 1
    return tuple(statements)


def _statement(text: str, tokens: list[Token], names: frozenset[str]) -> Statement:
    begin, end = tokens[0].start, tokens[-1].end + 1
    body = text[begin:end]
    kind, first, last, options = _kind(tokens)
    if not _mentions(tokens, names if kind == "other" else names | SIGNALS.keys()):
        return Statement(body, kind, False, query=body, offset=begin)
    into = _into(tokens) if kind == "other" else None
    if into is not None:
        first, last = tokens[into[0]].start - begin, tokens[into[1]].end + 1 - begin
        query = body[:first] + " " * (last - first) + body[last:]
        made = f"CREATE TEMP TABLE {body[tokens[into[1]].start - begin : last]} AS "
        return Statement(body, "create_table_as", _reads(query, None, names), "", query, "", begin, (), made)
    if kind == "other":
        return Statement(body, kind, tokens[0].text.upper() not in _HARMLESS, offset=begin)
    query_start, query_end = tokens[first].start, tokens[last].end + 1
    query = text[query_start:query_end]
    prefix, suffix = text[begin:query_start], text[query_end:end]
    ours = tokens[first : last + 1] if query_start == 0 else None  # tokens count from the beginning of their text
    return Statement(body, kind, _reads(query, ours, names), prefix, query, suffix, begin, options)


_QUOTED = {TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING, TokenType.IDENTIFIER}


def words_of(tokens: list[Token]) -> list[str]:
    """Return key words and signs in capitals; what is quoted is neither."""
    return ["''" if t.token_type in _QUOTED else t.text.upper() for t in tokens]


def _kind(tokens: list[Token]) -> tuple[Kind, int, int, tuple[str, ...]]:
    """The kind, the index of the query's first and last token, and options."""
    words = words_of(tokens)
    last = len(tokens) - 1
    head = words[0]
    if head in _QUERY_WORDS:
        return ("other" if _writes(words) else "select"), 0, last, ()
    if head == "EXPLAIN":
        return _explain(words, last)
    if head == "COPY" and len(words) > 1 and words[1] == "(":
        close = closing(words, 1)
        if words[close + 1 : close + 3] == ["TO", "STDOUT"]:
            return "copy", 2, close - 1, ()
    if head == "DECLARE" and "FOR" in words and "CURSOR" in words:
        return "cursor", words.index("FOR") + 1, last, ()
    if head == "PREPARE" and "AS" in words:
        return "prepare", words.index("AS") + 1, last, ()
    if head == "CREATE" and len(words) > 3 and words[1] in ("TEMP", "TEMPORARY") and words[2] == "TABLE" and "AS" in words:
        return "create_table_as", words.index("AS") + 1, last, ()
    return "other", 0, last, ()


def _into(tokens: list[Token]) -> tuple[int, int] | None:
    """The first and last token of `INTO TEMP [TABLE] name` in a SELECT; None for another statement."""
    words = words_of(tokens)
    if words[0] not in ("SELECT", "WITH") or any(w in ("INSERT", "UPDATE", "DELETE", "MERGE") for w in words):
        return None
    depth = 0
    for i, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if word == "INTO" and depth == 0:
            name = i + 3 if words[i + 2 : i + 3] == ["TABLE"] else i + 2
            temporary = words[i + 1 : i + 2] in (["TEMP"], ["TEMPORARY"])
            return (i, name) if temporary and name < len(tokens) and "INTO" not in words[i + 1 :] else None
    return None


@dataclass(frozen=True)
class Made:
    """What a `cursor` or `create_table_as` makes: its name as it is written, without a schema. `unless`: IF NOT EXISTS.
    `held`: WITH HOLD."""

    name: str
    unless: bool = False
    held: bool = False


_BEHIND_NAME = {
    "cursor": {"BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL", "CURSOR"},
    "create_table_as": {"AS", "(", "USING", "WITH", "WITHOUT", "ON", "TABLESPACE"},
}


def made(statement: Statement) -> Made | None:
    """Return what a statement makes; None for other statements, and for a name that is not spelled plainly."""
    behind = _BEHIND_NAME.get(statement.kind)
    if behind is None:
        return None
    text = statement.prefix + statement.into
    tokens = tokenize(text)
    words = words_of(tokens)
    at = 1 if statement.kind == "cursor" else words.index("TABLE") + 1
    unless = words[at : at + 3] == ["IF", "NOT", "EXISTS"]
    at += 3 if unless else 0
    at += 2 if words[at + 1 : at + 2] == ["."] else 0
    if at + 1 >= len(tokens) or words[at + 1] not in behind:
        return None
    held = any(words[i : i + 2] == ["WITH", "HOLD"] for i in range(at + 1, len(words)))
    return Made(text[tokens[at].start : tokens[at].end + 1], unless, held)


@dataclass(frozen=True)
class Named:
    """Which prepared statement PREPARE, EXECUTE or DEALLOCATE names: its name, folded ("" for ALL), and the texts of
    arguments."""

    word: str
    name: str
    arguments: tuple[str, ...] = ()


def named(text: str) -> Named | None:
    """Return what a statement does with a prepared one by name; None when it does nothing of the kind. DISCARD ALL
    deallocates."""
    tokens = tokenize(text)
    words = words_of(tokens)
    if words[:1] == ["DISCARD"] and words[1:2] == ["ALL"]:
        return Named("DEALLOCATE", "")
    if not words or words[0] not in ("PREPARE", "EXECUTE", "DEALLOCATE"):
        return None
    at = 2 if words[:2] == ["DEALLOCATE", "PREPARE"] and len(words) > 2 else 1
    if len(words) <= at:
        return None
    token = tokens[at]
    name = token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()
    if words[0] == "DEALLOCATE" and words[at] == "ALL" and token.token_type != TokenType.IDENTIFIER:
        name = ""
    return Named(words[0], name, _arguments(text, tokens, words, at + 1))


def _arguments(text: str, tokens: list[Token], words: list[str], at: int) -> tuple[str, ...]:
    """The texts between the commas of `( ... )`."""
    if words[at : at + 1] != ["("]:
        return ()
    close, depth, start = closing(words, at), 0, tokens[at].end + 1
    found = []
    for i in range(at + 1, close + 1):
        if i == close or (words[i] == "," and depth == 0):
            found.append(text[start : tokens[i].start])
            start = tokens[i].end + 1
        depth += (words[i] in ("(", "[")) - (words[i] in (")", "]"))
    return tuple(found)


def _explain(words: list[str], last: int) -> tuple[Kind, int, int, tuple[str, ...]]:
    at = 1
    options: list[str] = []
    if at <= last and words[at] == "(":
        close = closing(words, at)
        options = words[at + 1 : close]
        at = close + 1
    while at <= last and words[at] in ("ANALYZE", "ANALYSE", "VERBOSE"):
        options.append(words[at])
        at += 1
    if at <= last and words[at] in _QUERY_WORDS:
        return "explain", at, last, tuple(options)
    return "other", 0, last, ()


def _writes(words: list[str]) -> bool:
    """A query with INTO, FOR UPDATE/SHARE or a data-modifying CTE is not a plain query."""
    return any(w in ("INTO", "INSERT", "UPDATE", "DELETE", "MERGE") for w in words)


def closing(words: Sequence[str], at: int) -> int:
    """Return the index of the bracket that closes the one at `at`; of the last word, where none does."""
    depth = 0
    for i in range(at, len(words)):
        depth += (words[i] == "(") - (words[i] == ")")
        if depth == 0:
            return i
    return len(words) - 1


def _mentions(tokens: list[Token], names: frozenset[str]) -> bool:
    """Whether a token outside strings spells a private table's name, or schema dpproxy's."""
    for token in tokens:
        if token.token_type in (TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.HEREDOC_STRING):
            continue
        name = token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()
        if name in names or name == VIRTUAL_SCHEMA:
            return True
    return False


def _reads(query: str, tokens: list[Token] | None, names: frozenset[str]) -> bool:
    try:
        tree = _parsed(query, tokens if tokens is not None else tokenize(query))
    except Refusal:
        return True
    found = any(ident(table.this) in names or ident(table.args.get("db")) == VIRTUAL_SCHEMA for table in every(tree, exp.Table))
    found = found or bool(signal_calls(tree))
    if found:
        keep(query, tree)
    return found


MAX_KEPT = 16  # trees of a text's statements that are planned next
_kept: dict[str, exp.Expr] = {}
"""Trees that `split` had to make anyway, for the `parse` that follows. Each is given away once: who plans it changes it."""


def keep(query: str, tree: exp.Expr) -> None:
    """Keep a tree for the next `parse` of its text; the giver does not use it any more."""
    _kept[query] = tree
    for oldest in list(_kept)[:-MAX_KEPT]:  # a list at once: others may plan beside
        _kept.pop(oldest, None)


def parse(query: str) -> exp.Expr:
    """Return the tree of one query, which is the caller's own. Raises Refusal 42601 or 54001."""
    kept = _kept.pop(query, None)
    return kept if kept is not None else _parsed(query, tokenize(query))


def _parsed(query: str, tokens: list[Token]) -> exp.Expr:
    check(tokens, query)
    try:
        parser = FaithfulPostgres().parser()
        trees = parser.parse(tokens, query)
    except ParseError as error:
        raise _syntax(error, query) from error
    except (SqlglotError, RecursionError) as error:
        raise Refusal(SYNTAX_ERROR, "statement could not be parsed") from error
    if len(trees) != 1 or trees[0] is None:
        raise Refusal(SYNTAX_ERROR, "one query is expected here")
    refuse_misread(trees[0])
    return trees[0]


def _syntax(error: ParseError, query: str) -> Refusal:
    where = error.errors[0] if error.errors else {}
    line, column = where.get("line"), where.get("col")
    position = None
    if line and column:
        lines = query.split("\n")
        position = sum(len(text) + 1 for text in lines[: int(line) - 1]) + int(column)
    return Refusal(
        SYNTAX_ERROR,
        "dpproxy cannot parse this statement over private tables",
        position=position,
        hint="Rewrite it in plainer SQL; PostgreSQL may accept what dpproxy does not know.",
    )
