"""What may be computed of a row: operations that no value can make fail, on either engine, and that give equal rows equal values.

Knows: names. Must not know: how they are spelled. `plan.engines` spells each of these totally (NULL where PostgreSQL would
raise); an operation that is not here is refused, whatever an engine has for it. A new one is added here by hand, once its
spelling has been shown to be total (`tests/plan/test_total_functions.py`): the list is no part of the planner.
"""

from __future__ import annotations

import re

_OF_NULL = "is_null is_not_null is_distinct is_not_distinct is_true is_not_true is_false is_not_false"
_TESTS = """
= <> < <= > >= and or not like ilike regex iregex starts_with isfinite row
"""
_CHOICES = "coalesce least greatest nullif"
_NUMBERS = """
+ - * / int/ % neg abs sign round trunc floor ceil sqrt cbrt square power exp ln log sin cos tan asin acos atan atan2
bitand bitor bitxor bitnot bitright bucket_float bucket_numeric
"""
_TEXTS = """
concat concat_ws lower upper initcap length octet_length ascii left right lpad rpad ltrim rtrim trim md5 repeat replace reverse
split_part strpos substring substring_from translate regexp_count regexp_extract regexp_replace
"""
_TIMES = """
year isoyear quarter month week day dow isodow doy hour minute second epoch age date_add date_sub date_diff date_bin from_epoch
from_utc to_utc interval_parts interval_times make_date strftime trunc_time ts_add ts_sub ts_diff
"""
_AGGREGATES = "count sum avg min max stddev stddev_samp stddev_pop variance var_samp var_pop bool_or bool_and every"
_BY_CONSTANTS = "regex iregex regexp_count regexp_extract regexp_replace from_utc to_utc bucket_float bucket_numeric"
_BY_PLACE = "row_number ntile lag lead first_value last_value nth_value"

OF_NULL = frozenset(_OF_NULL.split())
OPERATIONS = frozenset(f"{_OF_NULL} {_TESTS} {_CHOICES} {_NUMBERS} {_TEXTS} {_TIMES}".split())
BY_CONSTANTS = frozenset(_BY_CONSTANTS.split())
"""Total for some patterns, zones and bounds alone: all operands but the first are constants, so that no row decides."""
AGGREGATES = frozenset(_AGGREGATES.split())
"""Of the rows of one unit."""
BY_PLACE = frozenset(_BY_PLACE.split())
"""Windows that tell rows of equal rank apart: their order must leave no ties."""
WINDOWS = BY_PLACE | {"rank", "dense_rank", "count", "sum", "avg", "min", "max"}
_END = r"(?:UNBOUNDED (?:PRECEDING|FOLLOWING)|CURRENT ROW)"
_ROW = rf"(?:{_END}|[0-9]{{1,6}} (?:PRECEDING|FOLLOWING))"
FRAME = re.compile(rf"(?:(?:RANGE BETWEEN {_END} AND {_END}|ROWS BETWEEN {_ROW} AND {_ROW})(?: EXCLUDE CURRENT ROW)?)?")
"""Of a window."""
SET_OPERATIONS = frozenset(("union all", "intersect", "intersect all", "except", "except all"))
