"""DuckDB's spelling of the allow-list's less common functions: one template an operation, total as the rest.

Knows: which of DuckDB's functions raise, and where they differ from PostgreSQL's. Must not know: expressions, tables. Beside each
template is what its arguments are rendered as: `f` DOUBLE, `i` BIGINT, `t` as they stand.
"""

from __future__ import annotations

from fractions import Fraction

_YEARS = "BETWEEN TIMESTAMP '0001-01-02' AND TIMESTAMP '9999-12-30'"
_FINITE = "abs({0}) < CAST('Infinity' AS DOUBLE)"
_BUCKET = ("(CASE WHEN {{0}} IS NULL OR isnan({{0}}) THEN NULL WHEN {{0}} < {{1}} THEN 0 WHEN {{0}} >= {{2}} THEN {{3}} + 1 "
           "ELSE least(CAST(floor({}) AS BIGINT), {{3}} - 1) + 1 END)")  # fmt: skip
_WORDS = "regexp_extract_all({0}, '[\\pL\\pN]+|[^\\pL\\pN]+')"
UPPER = "replace(upper({}), '\u1e9e', '\u00df')"
"""PostgreSQL has no capital of the sharp s."""
REVERSE = "list_aggregate(list_reverse(string_split({0}, '')), 'string_agg', '')"
"""By code points: DuckDB's own keeps accents with their letters."""
_DAYS = "trunc({0} * {1})"
_REST = f"to_microseconds(CAST(round_even(({{0}} * {{1}} - {_DAYS}) * 86400000000 + {{0}} * {{2}}, 0) AS BIGINT))"
_DATE = "printf('%04d-%02d-%02d', {0}, {1}, {2})"

FUNCTIONS: dict[str, tuple[str, str]] = {
    "sin": ("f", f"(CASE WHEN {_FINITE} THEN sin({{0}}) END)"),
    "cos": ("f", f"(CASE WHEN {_FINITE} THEN cos({{0}}) END)"),
    "tan": ("f", f"(CASE WHEN {_FINITE} THEN tan({{0}}) END)"),
    "asin": ("f", "(CASE WHEN {0} BETWEEN -1 AND 1 THEN asin({0}) END)"),
    "acos": ("f", "(CASE WHEN {0} BETWEEN -1 AND 1 THEN acos({0}) END)"),
    "atan": ("f", "atan({0})"),
    "atan2": ("ff", "atan2({0} + 0, {1} + 0)"),  # -0 is as good as 0: see Engine.key
    "cbrt": ("f", "cbrt({0})"),
    "bucket_float": ("ffft", _BUCKET.format("{3} * (({0} - {1}) / ({2} - {1}))")),
    # numeric computes as DOUBLE here: what is a little less than a whole number for it alone must still be one
    "bucket_numeric": ("ffft", _BUCKET.format("round(({0} - {1}) * {3} / ({2} - {1}), 9)")),
    "bitand": ("ii", "({0} & {1})"),
    "bitor": ("ii", "({0} | {1})"),
    "bitxor": ("ii", "xor({0}, {1})"),
    "bitnot": ("i", "(~({0}))"),
    "bitright": ("ii", "({0} >> {1})"),
    "initcap": (
        "t",
        f"coalesce(list_aggregate(list_transform({_WORDS}, lambda w: {UPPER.format('left(w, 1)')} || lower(substring(w, 2))), "
        f"'string_agg', ''), {{0}})",
    ),
    "ascii": ("t", "ascii({0})"),
    "octet_length": ("t", "strlen({0})"),
    "translate": ("ttt", "translate({0}, {1}, {2})"),
    "regexp_extract": (
        "tttt",
        "(CASE WHEN regexp_matches({0}, {1}, {3} || 's') THEN regexp_extract({0}, {1}, {2}, {3} || 's') END)",
    ),
    "regexp_count": ("tt", "len(regexp_extract_all({0}, {1}, 0, 's'))"),
    "make_date": (
        "iii",
        f"(CASE WHEN {{0}} BETWEEN 1 AND 9999 AND {{1}} BETWEEN 1 AND 12 AND {{2}} BETWEEN 1 AND 31 "
        f"THEN TRY_CAST({_DATE} AS DATE) END)",
    ),
    "age": ("mm", f"(CASE WHEN {{0}} {_YEARS} AND {{1}} {_YEARS} THEN age({{0}}, {{1}}) END)"),
    "date_bin": ("tmm", f"(CASE WHEN {{1}} {_YEARS} THEN time_bucket({{0}}, {{1}}, {{2}}) END)"),
    "interval_times": ("itt", "(CASE WHEN {0} BETWEEN -{2} AND {2} THEN {0} * {1} END)"),
    "interval_parts": (
        "fttt",
        f"(CASE WHEN {{0}} BETWEEN -{{3}} AND {{3}} THEN to_days(CAST({_DAYS} AS INTEGER)) + {_REST} END)",
    ),
    "from_epoch": (
        "f",
        "(CASE WHEN {0} BETWEEN -62135596800 AND 253402300799 "
        "THEN TIMESTAMP '1970-01-01' + to_microseconds(CAST(round({0} * 1000000) AS BIGINT)) END)",
    ),
    "from_utc": ("mt", f"(CASE WHEN {{0}} {_YEARS} THEN timezone({{1}}, timezone('UTC', {{0}})) END)"),
    "to_utc": ("mt", f"(CASE WHEN {{0}} {_YEARS} THEN timezone('UTC', timezone({{1}}, {{0}})) END)"),
    "isfinite": ("t", "isfinite({0})"),
}


def decimal_operation(op: str, a: str, b: str, grid: Fraction | None) -> str:
    """Spell an operation of NUMERICs, which compute as DOUBLE here. What is near a number of a few places is that number: 0.1 +
    0.2 must equal 0.3, and 4.51 % 3 be in one group with 1.51. `grid`: of the result, where it is known."""
    places = 9 if grid is None else min(max(len(str(grid.denominator)) + 3, 6), 12)
    match op:
        case "int/":
            return f"trunc(round({a} / NULLIF({b}, 0), 9))"
        case "%":
            return f"round({a} - {b} * trunc(round({a} / NULLIF({b}, 0), 9)), {places})"
        case "/":
            quotient = f"({a} / NULLIF({b}, 0))"
            return snapped(quotient) if grid is None else f"round({quotient}, {places})"
    return f"round({a} {op} {b}, {places})"


def snapped(number: str) -> str:
    """Spell a DOUBLE that is NUMERIC to PostgreSQL: 15 digits count, so that what is that near a number of nine places is that
    number. Tiny ones stay what they are."""
    places = f"round({number}, 9)"
    return f"(CASE WHEN abs({number} - {places}) <= abs({number}) * 5e-16 THEN {places} ELSE {number} END)"
