"""PostgreSQL as sqlglot reads and writes it, made faithful.

Knows: sqlglot's PostgreSQL dialect. Must not know: policies, plans. The stock dialect turns functions into its own
normal forms (`to_char` into a strftime format, `date_part` into EXTRACT, ...) and prints them back changed; the outer query
must mean on the facade exactly what the analyst wrote. So every function is parsed as `Anonymous`, name and
arguments as they stand; only the syntactic special forms (CAST, EXTRACT, TRIM, SUBSTRING, ...) keep their nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import TokenizerCore, TokenType

from dpproxy.errors import SYNTAX_ERROR, Refusal
from dpproxy.sql.nodes import IS_NODE, nodes

_LOSSY_SYNTAX = {"DATE_PART", "STRING_AGG", "MATCH", "JSON_OBJECT", "JSON_TABLE", "OPENJSON", "DECODE", "PREDICT",
                 "FLOOR", "CEIL", "CEILING", "GAP_FILL", "INITCAP", "CHAR", "CHR", "NORMALIZE", "LOG", "JSON_AGG"}  # fmt: skip


_INTERVAL_FIELDS = {"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"}
_FIELD_VALUE = re.compile(r"\s*[+-]?\d+(-\d+)?\s*")

_NO_INTERVAL = frozenset("($+-*/%^<>=|&#~!@")

_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_$]*")
_NO_FUNCTIONS = frozenset(("coalesce", "greatest", "least", "nullif", "grouping"))
"""Key words of PostgreSQL's grammar, which look like functions."""

_BEGINS = "dpproxy_begins"
_WRITTEN = "dpproxy_written"


class Written(exp.Expression):
    """Our own SQL as text, `texts`, with a tree of `expressions` between each two: long queries that nobody looks into are not
    parsed. Divisors in the text are never 0, and its columns are nobody's else."""

    arg_types: ClassVar[dict[str, bool]] = {"texts": True, "expressions": False}


def _own_text(generator: Any, node: Written) -> str:
    between = [generator.sql(e) for e in node.expressions]
    return "".join(text for pair in zip_longest(node.args["texts"], between, fillvalue="") for text in pair)


class _Tokens(TokenizerCore):
    __slots__ = ()

    def _scan_string(self, start: str) -> bool:
        """`$1,$2` is two parameters: the stock tokenizer reads a string with the tag `1,`, open to the end."""
        if start == "$" and self._peek.isdigit():
            self._add(TokenType.PARAMETER)
            return True
        return super()._scan_string(start)


class FaithfulPostgres(Postgres):
    """A dialect that keeps every ordinary function as it was written."""

    class Tokenizer(Postgres.Tokenizer):
        COMMANDS: ClassVar[set[Any]] = set()  # the stock one swallows the rest of EXPLAIN as one string

        def _init_core(self) -> TokenizerCore:
            core = super()._init_core()
            core.__class__ = _Tokens
            return core

    class Generator(Postgres.Generator):  # type: ignore[valid-type, misc]
        MULTI_ARG_DISTINCT = True  # `string_agg(DISTINCT x, ',')` is printed as it was written
        TRANSFORMS: ClassVar[dict[Any, Any]] = {**Postgres.Generator.TRANSFORMS, Written: _own_text}

    class Parser(Postgres.Parser):  # type: ignore[valid-type, misc]
        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012 (sqlglot's own style of configuration)
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in Postgres.Parser.FUNCTION_PARSERS.items() if name not in _LOSSY_SYNTAX
        }

        LAMBDAS: ClassVar[dict[Any, Any]] = {TokenType.FARROW: Postgres.Parser.LAMBDAS[TokenType.FARROW]}
        """`->` is an operator."""
        BITWISE: ClassVar[dict[Any, Any]] = {k: v for k, v in Postgres.Parser.BITWISE.items() if k != TokenType.CARET}
        """`^` is a power."""
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {"ARRAY": exp.Array}

        def _parse_select_query(self, *arguments: Any, **named: Any) -> Any:
            """No query begins with FROM, as DuckDB's may."""
            return None if self._curr.token_type == TokenType.FROM else super()._parse_select_query(*arguments, **named)

        def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
            """`FROM values v` reads a table of that name."""
            list_ = self._curr.token_type == TokenType.VALUES and self._next.token_type == TokenType.L_PAREN
            list_ = list_ or self._curr.token_type == TokenType.L_PAREN
            return super()._parse_derived_table_values(False) if list_ else None

        def _parse_bracket(self, this: exp.Expr | None = None) -> Any:
            """`"array"[1]` and `ARRAY(SELECT 1)::int[1]` are no constructors; the stock parser goes by their names."""
            named = this is not None and self._curr.token_type == TokenType.L_BRACKET and this.name.upper() == "ARRAY"
            if named and (self._prev.text.upper() != "ARRAY" or self._prev.token_type == TokenType.IDENTIFIER):
                self.raise_error("a subscript of what is named `array`")
            return super()._parse_bracket(this)

        def _parse_paren(self) -> Any:
            """Notes which brackets the text has: the stock parser sets others itself, where it prints them."""
            found = super()._parse_paren()
            if isinstance(found, exp.Paren):
                found.meta[_WRITTEN] = True
            return found

        def _parse_function_call(self, *arguments: Any, **named: Any) -> Any:
            """`"count"(*)` is `count(*)`; `"coalesce"(x)` calls a function of that name, and PostgreSQL has none."""
            quoted = self._curr is not None and self._curr.token_type == TokenType.IDENTIFIER
            found = super()._parse_function_call(*arguments, **named)
            for call in found.find_all(exp.Anonymous) if quoted and found is not None else ():
                if isinstance(call.this, exp.Identifier) and _PLAIN_NAME.fullmatch(call.name):
                    if call.name in _NO_FUNCTIONS:
                        self.raise_error("key words in quotes call functions that do not exist")
                    call.set("this", call.name)
            return found

        def _parse_types(self, *arguments: Any, **named: Any) -> Any:
            """`x::"int"` is of a type of that very name, which need not be what the word means."""
            quoted = self._curr.token_type == TokenType.IDENTIFIER
            found = super()._parse_types(*arguments, **named)
            plain = isinstance(found, exp.DataType) and found.this == exp.DType.USERDEFINED
            array = "ARRAY" in (self._prev.text.upper(), self._curr.text.upper())
            if quoted and found is not None and (not plain or array):
                self.raise_error("a type in quotes")
            return found

        def _parse_type(self, parse_interval: bool = True, fallback_to_identifier: bool = False) -> Any:
            """`DATE '2024-02-29'::timestamp` casts the date: the stock parser casts the text, and then that to a date."""
            index = self._index
            if self._curr.token_type in self.TYPE_TOKENS and self._curr.token_type != TokenType.INTERVAL:
                type_ = self._parse_types(check_func=True, allow_identifiers=False)
                if isinstance(type_, exp.DataType) and self._curr.token_type == TokenType.STRING:
                    return self._parse_column_ops(self.expression(exp.Cast(this=self._parse_primary(), to=type_)))
                self._retreat(index)
            return super()._parse_type(parse_interval, fallback_to_identifier)

        def _parse_between(self, this: exp.Expr | None) -> Any:
            """Where AND is missing the stock parser goes on: of `x BETWEEN 1 ~ y AND 2` it makes a range from 1 to `~ y`."""
            symmetric = True if self._match_text_seq("SYMMETRIC") else None
            if symmetric is None:
                self._match_text_seq("ASYMMETRIC")
            low = self._parse_bitwise()
            if not self._match(TokenType.AND):
                self.raise_error("BETWEEN without AND")
            return self.expression(exp.Between(this=this, low=low, high=self._parse_bitwise(), symmetric=symmetric))

        def _parse_locks(self) -> list[exp.Lock]:
            """`FOR READ ONLY` locks nothing; drivers write it, and PostgreSQL takes it."""
            return [] if self._match_text_seq("FOR", "READ", "ONLY") else super()._parse_locks()

        def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
            """`INTERVAL '1 day 03:00'` is a cast of its text: the stock parser keeps only `1 day` of it."""
            index = self._index
            if self._match(TokenType.INTERVAL) and self._match(TokenType.STRING):
                text = self._prev.text
                if self._curr is None or self._curr.text.upper() not in _INTERVAL_FIELDS:
                    return self.expression(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("interval")))
                if not _FIELD_VALUE.fullmatch(text):
                    self.raise_error("an interval of several fields cannot be cut to one")
            elif self._index > index and self._curr.text[:1] in _NO_INTERVAL:
                self.raise_error("INTERVAL of no text")  # `interval(0) '1 s'`, `interval - x`: the stock parser reads on
            self._retreat(index)
            return super()._parse_interval(require_interval, parse_function_unit)


def has_brackets(node: exp.Paren) -> bool:
    """Return whether these brackets stand in the text that was parsed."""
    return bool(node._meta and node._meta.get(_WRITTEN))


def to_sql(tree: exp.Expr) -> str:
    """Return the tree as PostgreSQL text, without comments."""
    return to_sql_once(copied(tree))


def to_sql_once(tree: exp.Expr) -> str:
    """Return what `to_sql` does, of a tree that nobody needs afterwards: the generator changes what it prints."""
    text: str = tree.sql(dialect=FaithfulPostgres, copy=False, comments=False, normalize_functions=False, identify=False)
    return text


Tree = TypeVar("Tree", bound=exp.Expr)


_NOTHING: Mapping[str, str] = MappingProxyType({})


def copied(tree: Tree, texts: Mapping[str, str] = _NOTHING) -> Tree:
    """Return a tree of its own, without comments; what `meta` holds is shared. sqlglot's own copy takes two to three times as
    long.

    `texts`: names and numbers that are to be others in the copy.
    """
    root = type(tree)()
    stack: list[tuple[exp.Expr, exp.Expr]] = [(tree, root)]
    while stack:
        old, new = stack.pop()
        if old._meta is not None:
            new._meta = dict(old._meta)
        for key, value in old.args.items():
            if IS_NODE[value.__class__]:
                new.args[key] = _child(value, new, key, None, stack)
            elif type(value) is list:
                new.args[key] = [_child(v, new, key, i, stack) if IS_NODE[v.__class__] else v for i, v in enumerate(value)]
            elif texts and type(value) is str:
                new.args[key] = texts.get(value, value)
            else:
                new.args[key] = value
    return root


def _child(old: exp.Expr, parent: exp.Expr, key: str, index: int | None, stack: list[tuple[exp.Expr, exp.Expr]]) -> exp.Expr:
    new = type(old)()
    new.parent, new.arg_key, new.index = parent, key, index
    stack.append((old, new))
    return new


def ident(node: exp.Expr | None) -> str:
    """Return an identifier as PostgreSQL folds it: unquoted names in lower case. Empty for none."""
    if node is None:
        return ""
    if not isinstance(node, exp.Expr):  # `FROM .."t"` is parsed as a name that is an empty text
        raise Refusal(SYNTAX_ERROR, "a name is missing")
    if isinstance(node, exp.Identifier):
        text = str(node.this)
        return text if node.args.get("quoted") else text.lower()
    return node.name


def position(node: exp.Expr) -> int | None:
    """Return the 1-based character position of the first identifier below `node`, for error messages; None if unknown."""
    starts = [n._meta["start"] for n in node.walk() if n._meta and "start" in n._meta]
    return min(starts) + 1 if starts else None


def locate(tree: exp.Expr) -> None:
    """Note on each query in a tree where it begins, for `begins`: one walk, where asking each would walk nested ones again."""
    least: dict[int, int] = {}
    for node in reversed(nodes(tree)):  # those below come first
        own = node._meta.get("start") if node._meta else None
        below = least.pop(id(node), None)
        at = below if own is None else own if below is None else min(own, below)
        if at is None:
            continue
        if isinstance(node, exp.Query):
            node.meta[_BEGINS] = at + 1
        if node.parent is not None:
            least[id(node.parent)] = min(at, least.get(id(node.parent), at))


def begins(query: exp.Expr) -> int | None:
    """Return what `position` says of a query, as it was when `locate` saw it."""
    noted: int | None = query._meta.get(_BEGINS) if query._meta else None
    return position(query) if noted is None else noted
