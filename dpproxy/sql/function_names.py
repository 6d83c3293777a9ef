"""Names of PostgreSQL's aggregates, which the parser leaves as ordinary functions.

Knows: names. Must not know: which of them dpproxy measures.
"""

from __future__ import annotations

AGGREGATES = {
    "count", "sum", "avg", "min", "max", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop",
    "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2", "regr_avgx", "regr_avgy",
    "regr_count", "regr_sxx", "regr_sxy", "regr_syy", "percentile_cont", "percentile_disc", "mode", "median",
    "bool_and", "bool_or", "every", "string_agg", "array_agg", "json_agg", "jsonb_agg", "json_object_agg",
    "jsonb_object_agg", "any_value", "bit_and", "bit_or", "bit_xor", "xmlagg", "rank", "dense_rank", "percent_rank",
    "cume_dist", "first", "last", "arg_max", "arg_min", "list", "histogram", "range_agg", "range_intersect_agg",
    "json_arrayagg", "json_objectagg", "group_concat",
}  # fmt: skip
"""Every aggregate PostgreSQL has (hypothetical-set ones too, which need WITHIN GROUP) and a few engines' own."""
