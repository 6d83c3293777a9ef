"""Statements changed a little: tokens swapped, dropped, doubled and put in, and expressions whose meaning rests on precedence.

Knows: tokens of SQL. Must not know: what anybody makes of them. Most mutants are no SQL any more; those that PostgreSQL still reads are
what a parser of another make reads otherwise.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

TOKEN = re.compile(
    r"""\s+|--[^\n]*|/\*.*?\*/|[eE]?'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\w*\$.*?\$\w*\$|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\$\d+|\w+|::|[-+*/<>=~!@#%^&|`?]+|.""",
    re.DOTALL,
)
"""A rough tokenizer, of nobody's dialect: whatever it cuts wrong is one more mutant."""

INFIX = ["+", "-", "*", "/", "%", "^", "||", "=", "<>", "!=", "<", ">", "<=", ">=", "AND", "OR", "LIKE", "ILIKE", "~", "~*", "!~", "@>", "<@", "&&", "->", "->>", "#>", "#>>", "&", "|", "#", "<<", ">>", "<->", "??", "^@", "~~", "!~~", "~~*", "@@", "|/", "=", "-", "-|-", "&<", "&>", "<<|", "|>>", "?|", "?&", "@?", "#-", "<=>", "==", "~<~", "!=-", "*=", "##", "?-", "?#", "=>", ":=", "SIMILAR~TO", "NOT~LIKE", "IS~DISTINCT~FROM", "IS~NOT~DISTINCT~FROM", "NOT~ILIKE", "OPERATOR(pg_catalog.+)", "OVERLAPS"]  # fmt: skip
PREFIX = ["-", "+", "~", "@", "NOT", "|/", "||/", "!!", "-~", "+~-"]
POSTFIX = ["IS~NULL", "IS~NOT~NULL", "ISNULL", "NOTNULL", "IS~TRUE", "IS~NOT~TRUE", "IS~UNKNOWN", "IS~NOT~FALSE", "::int2", "::int8", "::text", "::varchar(3)", "::numeric(8,2)", "::float", "::real", "::date", "::timestamp", "::timestamp(0)", "::timestamptz", "::time", "::interval", "::bool", "::char", '::"char"', "::bpchar", "::bit(3)", "::int[]", "::json", "::name", "::double~precision", "::character~varying", 'COLLATE~"C"', "AT~TIME~ZONE~'UTC'", "AT~LOCAL", "[1]", "[1:2]", ".x", "::int[1]", "IN~(1)", "IN~(1,~2)", "NOT~IN~(1)", "BETWEEN~1~AND~2", "NOT~BETWEEN~1~AND~2", "BETWEEN~SYMMETRIC~2~AND~1", "NOT~BETWEEN~SYMMETRIC~2~AND~1", "=~ANY~('{1,2}')", "<>~ALL~('{1}')", "=~SOME~(ARRAY[1])", "LIKE~'a!%'~ESCAPE~'!'", "LIKE~ANY~('{a,b}')", "IS~NORMALIZED", "IS~JSON", "IS~OF~(int)"]  # fmt: skip
ATOMS = ["1", "2", "-1", "1.5", ".5", "1e3", "5.", "NULL", "TRUE", "'a'", "'it''s'", "''", "E'a\\'b'", "E'\\n'", "U&'d\\0061'", "B'101'", "X'1F'", "$$x$$", "$t$it's$t$", "'a'~", "~'b'", "$1", "x", "y", "t.x", '"x"', '"X"', "X", "x.y.z", "*", "DATE~'2020-01-01'", "INTERVAL~'1~day'", "INTERVAL~'1'~DAY", "INTERVAL~'1~2:03'~DAY~TO~MINUTE", "TIMESTAMP~'2020-01-01~00:00'", "current_date", "now()", "count(*)", "sum(x)", "sum(DISTINCT~x)", "(1,2)", "ROW(1,2)", "ARRAY[1,2]", "ARRAY(SELECT~1)", "(SELECT~1)", "CASE~x~WHEN~1~THEN~2~END", "CASE~WHEN~x~THEN~1~ELSE~2~END", "EXTRACT(YEAR~FROM~d)", "extract('year'~from~d)", "position('a'~in~x)", "substring(x~from~2)", "substring(x,~1,~2)", "substring(x~for~2)", "trim(x)", "trim(both~'a'~from~x)", "trim(leading~from~x)", "overlay(x~placing~'a'~from~1)", "coalesce(x,~1)", "nullif(x,~1)", "greatest(1,~2)", "cast(x~AS~int)", "left(x,~1)", "ceil(x)", "floor(x)", "round(x,~1)", "date_trunc('month',~d)", "date_part('year',~d)", "to_char(d,~'YYYY')", "concat(x,~'a')", "length(x)", "abs(x)", "mod(x,~2)", "power(x,~2)", "log(x)", "log(2,~x)", "ln(x)", "split_part(x,~'a',~1)", "replace(x,~'a',~'b')", "regexp_replace(x,~'a',~'b',~'g')", "EXISTS~(SELECT~1)", "x~IN~(SELECT~1)", "string_agg(x,~',')", "array_agg(x~ORDER~BY~y~DESC)", "percentile_cont(0.5)~WITHIN~GROUP~(ORDER~BY~x)", "count(*)~FILTER~(WHERE~x~>~1)", "row_number()~OVER~(ORDER~BY~x)", "sum(x)~OVER~(PARTITION~BY~y~ORDER~BY~x~ROWS~BETWEEN~1~PRECEDING~AND~CURRENT~ROW)", "sum(x)~OVER~w", "lag(x,~1)~OVER~(ORDER~BY~x)", "grouping(x)", "xmlelement(name~a)", "json_object('a':~1)", "json_build_object('a',~1)", "interval(0)~'1~s'", "int~'1'", "float8~'1'", "\"char\"~'a'", "point(1,2)", "normalize(x)", "current_user", "localtimestamp(0)", "current_timestamp(2)", "collation~for~(x)", "treat(x~as~int)", "merge_action()", "make_interval(days~=>~1)", "f(VARIADIC~x)", "0x1F", "1_000", "0b1", "0o7"]  # fmt: skip
CLAUSES = ["DISTINCT", "ALL", "NOT", "AS", "ONLY", "LATERAL", "NATURAL", "LEFT", "RIGHT", "FULL", "CROSS", "INNER", "OUTER", "JOIN", "ON", "USING", "WHERE", "GROUP~BY", "HAVING", "ORDER~BY", "LIMIT~2", "OFFSET~1", "LIMIT~ALL", "FETCH~FIRST~2~ROWS~ONLY", "FETCH~FIRST~ROW~ONLY", "FETCH~NEXT~2~ROWS~WITH~TIES", "OFFSET~1~ROWS", "FOR~UPDATE", "FOR~READ~ONLY", "FOR~SHARE~SKIP~LOCKED", "UNION", "UNION~ALL", "INTERSECT", "EXCEPT", "EXCEPT~ALL", "INTERSECT~ALL", "ASC", "DESC", "NULLS~FIRST", "NULLS~LAST", "USING~>", "WITH", "RECURSIVE", "MATERIALIZED", "TABLESAMPLE~SYSTEM~(10)", "TABLESAMPLE~BERNOULLI~(10)~REPEATABLE~(1)", "ROLLUP", "CUBE", "GROUPING~SETS", "WITH~ORDINALITY", "FILTER", "OVER", "WINDOW~w~AS~()", "PARTITION~BY", "ROWS~UNBOUNDED~PRECEDING", "SELECT", "FROM", "VALUES", "TABLE~t", "THEN", "ELSE", "END", "WHEN", "CASE", 'COLLATE~"C"', "DISTINCT~ON~(x)", "SYMMETRIC", "ESCAPE", "ANY", "SOME", "ALL", "ROW", "ARRAY", "INTO", "STRICT", ";", ",", "(", ")", "[", "]", ".", ":", "::", "*", "=", "-", "--", "/*x*/", "/*/*x*/*/", "//*x*/*", "JOIN~t~u~ON~true", "LEFT~JOIN~t~u~USING~(x)", "LEFT~JOIN~t~u~USING~(x)~AS~j", "NATURAL~JOIN~t~u", ",~t~u", "CROSS~JOIN~t~u", ",~LATERAL~(SELECT~1)~u", ",~unnest('{1}'::int[])~WITH~ORDINALITY~u(a,b)", ",~ROWS~FROM~(f(),~g())~u", "UNION~SELECT~1", "INTERSECT~SELECT~1", "UNION~ALL~SELECT~1~ORDER~BY~1", "GROUP~BY~DISTINCT", "GROUP~BY~ALL", 'AS~"X~y"', "AS~year", "year", "name", "value", "type", "date", "rows", "first"]  # fmt: skip


def spaced(word: str) -> str:
    return word.replace("~", " ") if len(word) > 3 and any(c.isalpha() for c in word) else word


def pick(chance: random.Random, words: Sequence[str]) -> str:
    return spaced(chance.choice(words))


def expression(chance: random.Random, depth: int = 3) -> str:
    """Operators in a row, mostly without brackets."""
    text = pick(chance, ATOMS)
    for _ in range(chance.randint(1, depth)):
        kind = chance.random()
        if kind < 0.2:
            text = f"{pick(chance, PREFIX)} {text}"
        elif kind < 0.5:
            text = f"{text} {pick(chance, POSTFIX)}"
        elif kind < 0.95:
            text = f"{text} {pick(chance, INFIX)} {pick(chance, ATOMS)}"
        else:
            text = f"({text})"
    return text


Mutation = Callable[[random.Random, list[str], int], None]


def _dropped(chance: random.Random, tokens: list[str], at: int) -> None:
    del tokens[at]


def _doubled(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at, tokens[at] + " ")


def _swapped(chance: random.Random, tokens: list[str], at: int) -> None:
    other = chance.randrange(len(tokens))
    tokens[at], tokens[other] = tokens[other], tokens[at]


def _exchanged(chance: random.Random, tokens: list[str], at: int) -> None:
    """An operator or atom becomes another one."""
    words = INFIX if not tokens[at][0].isalnum() and tokens[at][0] not in "'\"()," else ATOMS
    tokens[at] = f" {pick(chance, words)} "


def _extended(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at + 1, f" {pick(chance, chance.choice((POSTFIX, INFIX)))} ")


def _operated(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at + 1, f" {pick(chance, INFIX)} {pick(chance, ATOMS)} ")


def _prefixed(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at, f" {pick(chance, PREFIX)} ")


def _worded(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(at, f" {pick(chance, CLAUSES)} ")


def _expressed(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens[at] = f" {expression(chance)} "


def _unbracketed(chance: random.Random, tokens: list[str], at: int) -> None:
    opens = [i for i, token in enumerate(tokens) if token == "("]
    if not opens:
        return
    start, depth = chance.choice(opens), 0
    for i in range(start, len(tokens)):
        depth += (tokens[i] == "(") - (tokens[i] == ")")
        if depth == 0:
            tokens[start] = tokens[i] = " "
            return


def _bracketed(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens.insert(chance.randint(at, min(len(tokens), at + 9)), ")")
    tokens.insert(at, "(")


def _recased(chance: random.Random, tokens: list[str], at: int) -> None:
    tokens[at] = chance.choice((tokens[at].upper(), tokens[at].lower(), f'"{tokens[at]}"', f"E{tokens[at]}", f"N{tokens[at]}"))


MUTATIONS: tuple[Mutation, ...] = (_dropped, _doubled, _swapped, _exchanged, _extended, _operated, _prefixed, _worded, _expressed, _unbracketed, _bracketed, _recased)  # fmt: skip


def mutant(chance: random.Random, sql: str) -> str:
    """The statement with one to three mutations, each somewhere."""
    tokens = TOKEN.findall(sql)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        solid = [i for i, token in enumerate(tokens) if not token.isspace()]
        if len(solid) < 2:
            break
        chance.choice(MUTATIONS)(chance, tokens, chance.choice(solid))
    return "".join(tokens)


def alone(chance: random.Random) -> str:
    """A small statement of nothing but doubtful expressions."""
    where = f" WHERE {expression(chance)}" if chance.random() < 0.5 else ""
    return f"SELECT {expression(chance)}, count(*) FROM t{where}{' ' + pick(chance, CLAUSES) if chance.random() < 0.3 else ''}"
