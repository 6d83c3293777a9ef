"""What may be computed of a row: operations that no value can make fail, on any engine, and that give equal rows equal values.

Knows: names, kinds of operands and results, which operands are constants. Must not know: how they are spelled. `engines`
spells each of these totally (NULL where PostgreSQL would raise) for operands of the kinds that are listed here, and of no others:
engines cast implicitly, and raise for some rows. What is not here is refused, whatever an engine has for it. A new one is added
by hand, once its spelling has been run on hostile values of every kind (`tests/kernel/test_kinds.py`): the list is no part
of the planner.

A kind is a letter: i whole number, n numeric, f float, t text, b boolean, d date, p moment, c time of day, v interval, u uuid,
r row, x anything else. A signature is a pattern of the operands' kinds and the result's.
"""

from __future__ import annotations

import re

_ALIKE = "(?:[inf]{2}|tt|bb|[dp]{2}|vv|cc|uu)"
"""Two values that are compared."""
_CHOSEN = "(?:i+>i|[in]+>n|[inf]+>f|t+>t|b+>b|d+>d|[dp]+>p|v+>v|c+>c|u+>u)"
"""Values one of which is taken."""

_SIGNATURES = {
    "is_null is_not_null": ".>b",
    "is_true is_not_true is_false is_not_false not": "b>b",
    "and or": "b+>b",
    "= <> < <= > >= is_distinct is_not_distinct": f"{_ALIKE}>b",
    "like ilike": "ttt?>b", "starts_with": "tt>b", "isfinite": "[dp]>b", "row": "[inftbdpcvu]+>r",
    "coalesce least greatest": _CHOSEN,
    "nullif": "i[inf]>i|n[inf]>n|f[inf]>f|tt>t|bb>b|d[dp]>d|p[dp]>p|vv>v|cc>c|uu>u",
    "+ - *": "ii>i|[in]{2}>n|[inf]{2}>f",
    "/": "[in]{2}>n|[inf]{2}>f", "%": "ii>i|[in]{2}>n", "int/": "ii>i",
    "neg abs": "i>i|n>n|f>f", "sign": "[inf]>i", "square": "[inf]>f",
    "round trunc": "[if]>f|n>n|[inf]i>n",
    "floor ceil sqrt exp ln log": "[if]>f|n>n",
    "power": "[inf]{2}>[nf]",
    "cbrt sin cos tan asin acos atan": "f>f", "atan2": "ff>f",
    "bitand bitor bitxor bitright": "ii>i", "bitnot": "i>i", "bucket_float": "fffi>i", "bucket_numeric": "nnni>i",
    "concat": "[tinfbdpu]+>t", "concat_ws": "tt+>t",
    "lower upper initcap reverse md5": "t>t", "length octet_length ascii": "t>i", "left right repeat": "ti>t",
    "lpad rpad": "tit>t", "ltrim rtrim trim": "tt>t", "replace translate": "ttt>t", "split_part": "tti>t", "strpos": "tt>i",
    "substring": "tii>t", "substring_from": "ti>t",
    "regex iregex": "tt>b", "regexp_count": "tt>i", "regexp_extract": "ttit>t", "regexp_replace": "tttt>t",
    "year month day": "[dpv]>i", "isoyear quarter week dow isodow doy": "[dp]>i", "hour minute": "[pvc]>i",
    "second": "[pvc]>[nf]", "epoch": "[dpvc]>[nf]",
    "age ts_diff": "pp>v", "date_add date_sub": "di>d", "date_diff": "dd>i", "ts_add ts_sub": "pv>p", "date_bin": "vpp>p",
    "from_epoch": "f>p", "from_utc to_utc": "pt>p", "interval_parts": "[inf]iii>v", "interval_times": "ivi>v",
    "make_date": "iii>d", "strftime": "pt>t", "trunc_time": "tp>p",
}  # fmt: skip
_AGGREGATES = {
    "count": ".?>i", "sum": "i>[in]|n>n|f>f", "min max": "i>i|n>n|f>f|t>t|b>b|d>d|p>p|c>c|v>v|u>u",
    "avg stddev_samp stddev_pop var_samp var_pop": "[in]>n|f>f", "bool_or bool_and": "b>b",
}  # fmt: skip
_SAME = "([inftbdpcvu])"
_WINDOWS = {
    "row_number rank dense_rank": ">i", "ntile": "i>i", "first_value last_value": rf"{_SAME}>\1", "nth_value": rf"{_SAME}i>\1",
    "lag lead": rf"{_SAME}(?:i\1?)?>\1", "count": ".?>i", "sum": "i>[in]|n>n|f>f", "avg": "[in]>n|f>f",
    "min max": "i>i|n>n|f>f|t>t|b>b|d>d|p>p|c>c|u>u",
}  # fmt: skip


def _patterns(signatures: dict[str, str]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(f"(?:{pattern})") for names, pattern in signatures.items() for name in names.split()}


OPERATIONS = _patterns(_SIGNATURES)
AGGREGATES = _patterns(_AGGREGATES)
"""Of the rows of one unit."""
WINDOWS = _patterns(_WINDOWS)
_OF_NULL = "is_null is_not_null is_distinct is_not_distinct is_true is_not_true is_false is_not_false"
OF_NULL = frozenset(_OF_NULL.split(" "))
"""Operations that are never NULL."""
_BY_PLACE = "row_number ntile lag lead first_value last_value nth_value"
BY_PLACE = frozenset(_BY_PLACE.split(" "))
"""Windows that tell rows of equal rank apart: their order must leave no ties."""

_CONSTANT: dict[str, tuple[int, ...]] = {
    "regex iregex regexp_count from_utc to_utc strftime round trunc repeat bitright nth_value": (1,), "like ilike": (2,),
    "trunc_time concat_ws": (0,), "date_bin": (0, 2), "lpad rpad translate interval_times": (1, 2),
    "regexp_extract regexp_replace bucket_float bucket_numeric interval_parts": (1, 2, 3),
}  # fmt: skip
CONSTANT = {name: places for names, places in _CONSTANT.items() for name in names.split(" ")}
"""Operands, by place, for some values of which an operation is not total: they are constants, so that no row decides, and of
those values that are (`kernel.constants`)."""

CASTS = {
    "i": "infbt", "n": "inft", "f": "inft", "b": "bit", "t": "tinfbdpu", "d": "dpt", "p": "pdct", "c": "c", "v": "v", "u": "ut",
}  # fmt: skip
"""What a cast turns a kind into: a value that does not fit yields NULL."""

_END = r"(?:UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW)"
_ROW = rf"(?:{_END}|[0-9]{{1,6}} (?:PRECEDING|FOLLOWING))"
FRAME = re.compile(rf"(?:(?:RANGE BETWEEN {_END} AND {_END}|ROWS BETWEEN {_ROW} AND {_ROW})(?: EXCLUDE CURRENT ROW)?)?")
"""Of a window."""
SET_OPERATIONS = frozenset(("union all", "intersect", "intersect all", "except", "except all"))
