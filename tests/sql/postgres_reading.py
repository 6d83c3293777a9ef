"""How PostgreSQL's own parser reads a text, and how it reads what dpproxy understood of it.

Knows: trees of PostgreSQL's parser (pglast), dpproxy's trees. `difference` writes dpproxy's tree with brackets around every operator, so
that nothing is left to precedence, and lets PostgreSQL read that. Two spellings of one meaning are made one (`_one`): each of these
is a claim about PostgreSQL, and has its reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pglast.parser import ParseError, parse_sql_json
from sqlglot import exp

from dpproxy.errors import Refusal
from dpproxy.sql.dialect import copied, to_sql_once
from dpproxy.sql.statements import parse

Tree = Any

_PLACES = {"location", "stmt_location", "stmt_len", "list_start", "list_end", "rexpr_list_start", "rexpr_list_end"}
_OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Cast, exp.AtTimeZone, exp.Case, exp.MatchAgainst)
_NO_OPERATORS = (exp.Dot, exp.Kwarg, exp.PropertyEQ, exp.Paren)


class NotPostgres(Exception):
    """PostgreSQL does not read this text, or reads something else than one query in it."""


def difference(sql: str) -> str | None:
    """Say where PostgreSQL reads a text otherwise than dpproxy; None where both read the same, or dpproxy refuses it. Raises
    NotPostgres."""
    theirs = read(sql)
    try:
        tree = parse(sql)
        ours = to_sql_once(bracketed(tree))
    except Refusal:
        return None
    try:
        return first_difference(theirs, read(ours))
    except NotPostgres as error:
        return f"{ours}: {error}"


def bracketed(tree: exp.Expr) -> exp.Expr:
    """Return a copy with brackets around everything that has a precedence."""
    tree = copied(tree)
    for node in list(tree.walk()):
        if not isinstance(node, _OPERATORS) or isinstance(node, _NO_OPERATORS):
            continue
        parent = node.parent
        if (
            parent is None
            or isinstance(parent, exp.Paren | exp.From | exp.Join | exp.Table)
            or (isinstance(parent, exp.Escape) and node.arg_key == "this")
        ):
            continue
        hole = exp.Paren(this=exp.Null())
        node.replace(hole)
        hole.set("this", node)
    return tree


def read(sql: str) -> Tree:
    """Return PostgreSQL's tree of one query, without places, one for all spellings. Raises NotPostgres."""
    try:
        found = json.loads(parse_sql_json(sql))["stmts"]
    except (ParseError, UnicodeError, ValueError) as error:
        raise NotPostgres(str(error)) from error
    if len(found) != 1 or list(found[0]["stmt"]) != ["SelectStmt"]:
        raise NotPostgres("no query")
    return _plain(found[0]["stmt"])


def _plain(value: Tree) -> Tree:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(part) for key, part in value.items() if key not in _PLACES}
    if len(plain) == 1:
        ((kind, node),) = plain.items()
        if kind in _ONE:
            return _ONE[kind](node)
    return plain


# --- two spellings, one meaning


def _not(node: Tree) -> Tree:
    return {"BoolExpr": {"boolop": "NOT_EXPR", "args": [node]}}


_FIELDS = {2: "MONTH", 4: "YEAR", 8: "DAY", 1024: "HOUR", 2048: "MINUTE", 4096: "SECOND"}  # utils/timestamp.h
_NEGATED = {"AEXPR_NOT_BETWEEN": "BETWEEN", "AEXPR_NOT_BETWEEN_SYM": "BETWEEN SYMMETRIC", "AEXPR_NOT_DISTINCT": "="}
_CALLED = {"^": "power", "^@": "starts_with"}
_LIKE = {"AEXPR_LIKE", "AEXPR_ILIKE"}


def _operator(node: Tree) -> Tree:
    """LIKE is the operator ~~; a unary plus is nothing; NOT IN is NOT of IN; ^ calls power, ^@ starts_with (pg_operator)."""
    kind, name = node["kind"], node["name"][-1]["String"]["sval"]
    if name == "+" and "lexpr" not in node and kind == "AEXPR_OP" and len(node["name"]) == 1:
        return node["rexpr"]
    if kind in _LIKE:
        node = {**node, "kind": "AEXPR_OP"}
    if kind in _NEGATED:
        name = [{"String": {"sval": _NEGATED[kind]}}]
        return _not({"A_Expr": {**node, "kind": kind.replace("NOT_", ""), "name": name}})
    if kind == "AEXPR_IN" and name == "<>":
        return _not({"A_Expr": {**node, "name": [{"String": {"sval": "="}}]}})
    if name.startswith("!~") and kind == "AEXPR_OP":  # negates ~~ (pg_operator), and both are strict
        return _not({"A_Expr": {**node, "kind": "AEXPR_OP", "name": [{"String": {"sval": name[1:]}}]}})
    if name in _CALLED and "lexpr" in node and kind == "AEXPR_OP":
        return {"FuncCall": {"funcname": [{"String": {"sval": _CALLED[name]}}], "args": [node["lexpr"], node["rexpr"]]}}
    return {"A_Expr": node}


def _boolean_test(node: Tree) -> Tree:
    """UNKNOWN is what NULL is called of booleans."""
    kind = node["booltesttype"]
    if kind in ("IS_UNKNOWN", "IS_NOT_UNKNOWN"):
        return _null_test({"arg": node["arg"], "nulltesttype": "IS_NULL" if kind == "IS_UNKNOWN" else "IS_NOT_NULL"})
    if kind.startswith("IS_NOT_"):
        return _not({"BooleanTest": {**node, "booltesttype": kind.replace("NOT_", "")}})
    return {"BooleanTest": node}


def _null_test(node: Tree) -> Tree:
    return {"NullTest": node}


def _without_catalog(names: Tree) -> Tree:
    return names[1:] if len(names) == 2 and names[0] == {"String": {"sval": "pg_catalog"}} else names


def _call(node: Tree) -> Tree:
    """EXTRACT, SUBSTRING and TRIM are calls of functions of pg_catalog; nobody can make another of that name on the facade. Texts in
    several lines are one, which dpproxy puts together by concat()."""
    name, given = _without_catalog(node["funcname"]), node.get("args", [])
    name = [{"String": {"sval": part["String"]["sval"].lower()}} for part in name]  # none has capitals in its name
    if name == [{"String": {"sval": "extract"}}] and list(given[0].get("A_Const", ())) == ["sval"]:  # a field, whatever its case
        given = [{"A_Const": {"sval": {"sval": given[0]["A_Const"]["sval"]["sval"].lower()}}}, *given[1:]]
        node = {**node, "args": given}
    over = node.get("over", {})
    if over.keys() == {"refname", "frameOptions"}:  # OVER (w) is OVER w, where w may be copied at all
        node = {**node, "over": {"name": over["refname"], "frameOptions": over["frameOptions"]}}
    if name == [{"String": {"sval": "concat"}}] and given and all(list(g.get("A_Const", ())) == ["sval"] for g in given):
        return {"A_Const": {"sval": {"sval": "".join(g["A_Const"]["sval"]["sval"] for g in given)}}}
    return {"FuncCall": {**{k: v for k, v in node.items() if k != "funcformat"}, "funcname": name}}


def _cast(node: Tree) -> Tree:
    """`int2` is `smallint`. SUBSTRING(x FOR 2) casts its whole numbers to what they are."""
    type_ = {**node["typeName"], "names": _without_catalog(node["typeName"]["names"])}
    if type_["names"] == [{"String": {"sval": "nvarchar"}}]:  # which PostgreSQL has not, and refuses
        type_["names"] = [{"String": {"sval": "varchar"}}]
    if type_["names"] == [{"String": {"sval": "interval"}}] and len(type_.get("typmods", ())) == 1 and "A_Const" in node["arg"]:
        return _interval(node, type_)
    whole = list(node["arg"]) == ["A_Const"] and list(node["arg"]["A_Const"]) == ["ival"]
    if whole and type_["names"] == [{"String": {"sval": "int4"}}] and "arrayBounds" not in type_:
        return node["arg"]
    return {"TypeCast": {**node, "typeName": type_}}


def _interval(node: Tree, type_: Tree) -> Tree:
    """INTERVAL '3' DAY is INTERVAL '3 DAY', where the text is a number (`sql.dialect` sees to that)."""
    field = _FIELDS.get(type_["typmods"][0]["A_Const"]["ival"].get("ival"))
    if field is None:
        return {"TypeCast": {**node, "typeName": type_}}
    text = {"A_Const": {"sval": {"sval": f"{node['arg']['A_Const']['sval']['sval']} {field}"}}}
    return {"TypeCast": {"arg": text, "typeName": {k: v for k, v in type_.items() if k != "typmods"}}}


def _constant(node: Tree) -> Tree:
    """.5 is 0.5."""
    if "fval" in node:
        return {"A_Const": {"fval": {"fval": str(Decimal(node["fval"]["fval"]))}}}
    return {"A_Const": node}


def _sort(node: Tree) -> Tree:
    """NULLs come first where an order is descending, unless it says otherwise; ascending is the default."""
    if node["sortby_nulls"] == ("SORTBY_NULLS_FIRST" if node["sortby_dir"] == "SORTBY_DESC" else "SORTBY_NULLS_LAST"):
        node = {**node, "sortby_nulls": "SORTBY_NULLS_DEFAULT"}
    if node["sortby_dir"] == "SORTBY_ASC":
        node = {**node, "sortby_dir": "SORTBY_DEFAULT"}
    return {"SortBy": node}


_ONE: dict[str, Callable[[Tree], Tree]] = {
    "A_Expr": _operator,
    "A_Const": _constant,
    "BooleanTest": _boolean_test,
    "FuncCall": _call,
    "SortBy": _sort,
    "TypeCast": _cast,
}


def first_difference(theirs: Tree, ours: Tree, path: str = "") -> str | None:
    """Say where two trees differ first; None where they do not."""
    if isinstance(theirs, dict) and isinstance(ours, dict) and theirs.keys() == ours.keys():
        parts: Any = [(f".{key}", theirs[key], ours[key]) for key in theirs]
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        parts = [(f"[{i}]", a, b) for i, (a, b) in enumerate(zip(theirs, ours, strict=True))]
    else:
        return (
            None if theirs == ours else f"{path}: PostgreSQL reads {json.dumps(theirs)[:250]}, dpproxy {json.dumps(ours)[:250]}"
        )
    found = (first_difference(a, b, path + step) for step, a, b in parts)
    return next((difference for difference in found if difference), None)
