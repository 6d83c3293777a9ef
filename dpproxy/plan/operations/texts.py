"""Rows of the catalogue: functions of texts, and patterns.

Knows: how engines count characters and write letters. Must not know: where they are used. A text that grows is put together of
operands that are cut (`{0:g}`), so that no row makes a text of a billion characters.
"""

from __future__ import annotations

from dpproxy.plan.operations import bounds
from dpproxy.plan.operations.operation import LengthRule, Nulls, Operation, Refused, Spelling, by

_JAVA = Refused("regular expressions are Java's there, which read some texts otherwise and fail on long ones")
_CAPITAL = "replace(upper({}), '\u1e9e', '\u00df')"
"""PostgreSQL has no capital of the sharp s."""
_WORDS = "regexp_extract_all({0}, '[\\pL\\pN]+|[^\\pL\\pN]+')"


def _changed(name: str, duckdb: Spelling, postgres: Spelling, spark: Spelling, **more: object) -> Operation:
    """A function from text to text, no longer than its operand."""
    return Operation(
        name=name, takes="t>t", nulls=Nulls.OPERAND, duckdb=duckdb, postgres=postgres, spark=spark, length=bounds.first_length,
        functions=(name,), operands="t", result="text", **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _trimmed(name: str, postgres: str, where: str) -> Operation:
    return Operation(
        name=name, takes="tt>t", nulls=Nulls.OPERAND, duckdb=f"{name}({{0}}, {{1}})", postgres=f"{postgres}({{0}}, {{1}})",
        spark=f"trim({where} {{1}} FROM {{0}})", length=bounds.first_length, widens=True,
    )  # fmt: skip


def _part(name: str, takes: str, length: LengthRule, duckdb: Spelling, postgres: Spelling, spark: Spelling) -> Operation:
    return Operation(
        name=name, takes=takes, nulls=Nulls.OPERAND, duckdb=duckdb, postgres=postgres, spark=spark, length=length, part=True
    )  # fmt: skip


def _padded(name: str) -> Operation:
    return Operation(
        name=name, takes="tit>t", nulls=Nulls.OPERAND, duckdb=f"{name}({{0}}, {{1}}, {{2}})",
        postgres=f"{name}({{0}}, {{1}}::int, {{2}})", spark=f"{name}({{0}}, {{1:p}}, {{2}})", length=bounds.padded,
    )  # fmt: skip


def _grown(name: str, takes: str, form: str, length: LengthRule, nulls: Nulls = Nulls.OPERAND, **more: object) -> Operation:
    forms: dict[str, object] = {"duckdb": form, "postgres": form, "spark": form}
    return Operation(name=name, takes=takes, nulls=nulls, length=length, grows=True, **{**forms, **more})  # type: ignore[arg-type]


def _matched(name: str, duckdb: str, postgres: str) -> Operation:
    return Operation(
        name=name, takes="tt>b", nulls=Nulls.OPERAND, duckdb=duckdb, postgres=postgres, spark=_JAVA, matches=True, widens=True
    )  # fmt: skip


TEXTS = (
    _changed("lower", "lower({0})", "lower({0})", by("text", "lower"), widens=True),
    _changed("upper", _CAPITAL.format("{0}"), "upper({0})", by("text", "upper"), widens=True),
    _changed(
        "initcap",
        f"coalesce(list_aggregate(list_transform({_WORDS}, lambda w: {_CAPITAL.format('left(w, 1)')} || lower(substring(w, 2))), "
        f"'string_agg', ''), {{0}})",
        "initcap({0})", Refused("its words are only what spaces separate"), widens=True,
    ),
    _changed(  # by code points: DuckDB's own keeps accents with their letters
        "reverse", "list_aggregate(list_reverse(string_split({0}, '')), 'string_agg', '')", "reverse({0})", "reverse({0})",
        part=True,
    ),
    Operation(
        name="md5", takes="t>t", nulls=Nulls.OPERAND, duckdb="md5({0})", postgres="md5({0})", spark="md5({0})",
        length=bounds.fixed(32), functions=("md5",), operands="t", result="text",
    ),
    Operation(
        name="length", takes="t>i", nulls=Nulls.OPERAND, duckdb="length({0})", postgres="length({0})", spark="length({0})",
        bound=bounds.not_negative, form=bounds.characters(1), grid=bounds.whole,
        functions=("length", "char_length", "character_length"), operands="t", result="int4",
    ),
    Operation(
        name="octet_length", takes="t>i", nulls=Nulls.OPERAND, duckdb="strlen({0})", postgres="octet_length({0})::bigint",
        spark="octet_length({0})", bound=bounds.not_negative, form=bounds.characters(4), functions=("octet_length",),
        operands="t", result="int4",
    ),
    Operation(
        name="ascii", takes="t>i", nulls=Nulls.OPERAND, duckdb="ascii({0})", postgres="ascii({0})::bigint",
        spark=Refused("of letters beyond ASCII it tells another number"), bound=bounds.within(0, 0x10FFFF),
        functions=("ascii",),
        operands="t", result="int4",
    ),
    Operation(
        name="strpos", takes="tt>i", nulls=Nulls.OPERAND, duckdb="strpos({0}, {1})", postgres="strpos({0}, {1})",
        spark="instr({0}, {1})", bound=bounds.not_negative, form=bounds.characters(1), grid=bounds.whole, functions=("strpos",),
        operands="tt", result="int4",
    ),
    Operation(
        name="starts_with", takes="tt>b", nulls=Nulls.OPERAND, duckdb="starts_with({0}, {1})", postgres="starts_with({0}, {1})",
        spark="startswith({0}, {1})", functions=("starts_with",), operands="tt", result="bool",
    ),
    _trimmed("trim", "btrim", "BOTH"),
    _trimmed("ltrim", "ltrim", "LEADING"),
    _trimmed("rtrim", "rtrim", "TRAILING"),
    Operation(
        name="translate", takes="ttt>t", nulls=Nulls.OPERAND, duckdb="translate({0}, {1}, {2})",
        postgres="translate({0}, {1}, {2})", spark="translate({0}, {1}, {2})", length=bounds.first_length, widens=True,
    ),
    _padded("lpad"),
    _padded("rpad"),
    _part("left", "ti>t", bounds.up_to(1), "left({0}, {1:p})", "left({0}, {1:p})", by("text", "left")),
    _part("right", "ti>t", bounds.up_to(1), "right({0}, {1:p})", "right({0}, {1:p})", by("text", "right")),
    _part(
        "substring", "tii>t", bounds.up_to(2), "substring({0}, {1:p}, {2:p})", by("substring"), by("text", "substring"),
    ),
    _part("substring_from", "ti>t", bounds.first_length, "substring({0}, {1:p})", "substr({0}, {1:p})", by("text", "substring")),
    Operation(  # there is no field 0: PostgreSQL raises
        name="split_part", takes="tti>t", nulls=Nulls.OTHERS,
        duckdb="CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL AND {2} IS NOT NULL "
        "THEN coalesce(string_split({0}, {1})[{2}], '') END",
        postgres=by("split_part"), spark="split_part({0}, {1}, NULLIF({2:p}, 0))", length=bounds.first_length, part=True,
    ),
    _grown("concat", "[tinfbdpu]+>t", "({all:g| || })", bounds.total),
    _grown("concat_ws", "tt+>t", "concat_ws({all:g|, })", bounds.joined, Nulls.FIRST),
    _grown("replace", "ttt>t", "replace({all:g|, })", bounds.replaced, functions=("replace",), operands="ttt", result="text"),
    _grown("repeat", "ti>t", "repeat({0:g}, {1:n})", bounds.repeated),
    _grown(
        "regexp_replace", "tttt>t", "regexp_replace({all:g|, })", bounds.matches_replaced, matches=True, spark=_JAVA,
        duckdb="regexp_replace({0:g}, {1:x}, {2:g}, {3:g} || 's')",
    ),
    _matched("regex", "regexp_matches({0}, {1:r}, 's')", "({0} ~ {1})"),
    _matched("iregex", "regexp_matches({0}, {1:q}, 's')", "({0} ~* {1})"),
    Operation(
        name="regexp_count", takes="tt>i", nulls=Nulls.OPERAND, duckdb="len(regexp_extract_all({0}, {1:r}, 0, 's'))",
        postgres="(array_length(regexp_split_to_array({0}, {1}), 1) - 1)::bigint", spark=_JAVA, bound=bounds.not_negative,
        matches=True, widens=True,
    ),
    Operation(
        name="regexp_extract", takes="ttit>t", nulls=Nulls.OTHERS,
        duckdb="(CASE WHEN regexp_matches({0}, {1:x}, {3} || 's') THEN regexp_extract({0}, {1:x}, {2}, {3} || 's') END)",
        postgres="(regexp_match({0}, {1}, {3}))[1]", spark=_JAVA, length=bounds.first_length, matches=True, widens=True,
    ),
)  # fmt: skip
