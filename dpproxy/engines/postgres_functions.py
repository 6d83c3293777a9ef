"""PostgreSQL's spelling of the allow-list's less common functions: one template an operation, total as the rest.

Knows: where they raise (infinite angles, buckets of NaN, days no month has). Must not know: expressions, tables. Beside each
template is what its arguments are rendered as: `f` float8, `d` numeric, `i` bigint, `t` as they stand. Texts that grow
are `growing`'. Every function is immutable and parallel safe.
"""

from __future__ import annotations

_YEARS = "BETWEEN '0001-01-02'::timestamp AND '9999-12-30'::timestamp"
_FINITE = "abs({0}) < 'Infinity'::float8"
_UNIT = "{0} BETWEEN '-1'::float8 AND '1'::float8"
_LAST = "date_part('day', make_date({0}::int, {1}::int, 1) + '1 month'::interval - '1 day'::interval)"
_FIRST_SECOND, _LAST_SECOND = "'-62135596800'::float8", "'253402300799'::float8"  # of the years 1 and 9999

FUNCTIONS: dict[str, tuple[str, str]] = {
    "sin": ("f", f"(CASE WHEN {_FINITE} THEN sin({{0}}) END)"),
    "cos": ("f", f"(CASE WHEN {_FINITE} THEN cos({{0}}) END)"),
    "tan": ("f", f"(CASE WHEN {_FINITE} THEN tan({{0}}) END)"),
    "asin": ("f", f"(CASE WHEN {_UNIT} THEN asin({{0}}) END)"),
    "acos": ("f", f"(CASE WHEN {_UNIT} THEN acos({{0}}) END)"),
    "atan": ("f", "atan({0})"),
    "atan2": (
        "ff",  # -0 is as good as 0 here: which of the two an engine keeps of a unit's rows is its own choice
        "(CASE WHEN abs({0}) >= '1e-150'::float8 THEN atan2({0}, {1} + '0'::float8) "
        "ELSE atan2({0} * '0'::float8 + '0'::float8, {1} + '0'::float8) END)",
    ),
    "cbrt": ("f", "cbrt({0})"),
    "bucket_float": ("ffft", "(CASE WHEN {0} <= 'Infinity'::float8 THEN width_bucket({0}, {1}, {2}, {3}::int)::bigint END)"),
    "bucket_numeric": ("dddt", "(CASE WHEN {0} <= 'Infinity'::numeric THEN width_bucket({0}, {1}, {2}, {3}::int)::bigint END)"),
    "bitand": ("ii", "({0} & {1})"),
    "bitor": ("ii", "({0} | {1})"),
    "bitxor": ("ii", "({0} # {1})"),
    "bitnot": ("i", "(~{0})"),
    "bitright": ("ii", "({0} >> {1}::int)"),
    "initcap": ("t", "initcap({0})"),
    "ascii": ("t", "ascii({0})::bigint"),
    "octet_length": ("t", "octet_length({0})::bigint"),
    "translate": ("ttt", "translate({0}, {1}, {2})"),
    "regexp_extract": ("tttt", "(regexp_match({0}, {1}, {3}))[1]"),
    "regexp_count": ("tt", "(array_length(regexp_split_to_array({0}, {1}), 1) - 1)::bigint"),
    "make_date": (
        "iii",
        f"(CASE WHEN {{0}} BETWEEN 1 AND 9999 AND {{1}} BETWEEN 1 AND 12 AND {{2}} BETWEEN 1 AND 31 "
        f"THEN CASE WHEN {{2}} <= {_LAST} THEN make_date({{0}}::int, {{1}}::int, {{2}}::int) END END)",
    ),
    "age": ("tt", f"(CASE WHEN {{0}} {_YEARS} AND {{1}} {_YEARS} THEN age({{0}}, {{1}}) END)"),
    "date_bin": ("ttt", f"(CASE WHEN {{1}} {_YEARS} THEN date_bin({{0}}, {{1}}, {{2}}) END)"),
    "interval_times": ("itt", "(CASE WHEN {0} BETWEEN -{2} AND {2} THEN {0} * {1} END)"),
    "interval_parts": (
        "fttt",
        "(CASE WHEN {0} BETWEEN -{3} AND {3} THEN {0} * make_interval(days => ({1})::int, secs => {2} / 1000000.0) END)",
    ),
    "from_epoch": (
        "f",
        f"(CASE WHEN {{0}} BETWEEN {_FIRST_SECOND} AND {_LAST_SECOND} THEN timezone('UTC', to_timestamp({{0}})) END)",
    ),
    "from_utc": ("tt", f"(CASE WHEN {{0}} {_YEARS} THEN timezone({{1}}, timezone('UTC', {{0}})) END)"),
    "to_utc": ("tt", f"(CASE WHEN {{0}} {_YEARS} THEN timezone('UTC', timezone({{1}}, {{0}})) END)"),
    "isfinite": ("t", "isfinite({0})"),
}
