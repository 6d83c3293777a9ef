"""Functions on the facade that other engines and warehouses have, and analysts bring along.

Knows: PostgreSQL's DDL. Must not know: policies. Below a measurement the planner's allow-list has the same functions; these
say what they mean over released and public rows.
"""

from __future__ import annotations

from dpproxy.sql.translation import FIELDS, PARTS

_FIELDS = ", ".join(f"('%{letter}', '{form}')" for letter, form in FIELDS.items())
_FIELDS += """, ('%%', '"%"')"""
_STRFTIME = rf"""
CREATE FUNCTION public.strftime(timestamp, text) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE AS $body$
  SELECT pg_catalog.to_char($1, pg_catalog.string_agg(coalesce(known.form,
      CASE WHEN pg_catalog.left(piece[1], 1) = '%' THEN ('strftime cannot print ' || piece[1])::int4::text END,  -- raises
      '"' || pg_catalog.replace(pg_catalog.replace(piece[1], '\', '\\'), '"', '\"') || '"'), '' ORDER BY place))
  FROM pg_catalog.regexp_matches($2, '%.|[^%]+', 'g') WITH ORDINALITY AS pieces(piece, place)
  LEFT JOIN (VALUES {_FIELDS}) AS known(field, form) ON known.field = piece[1] $body$;
CREATE FUNCTION public.strftime(text, timestamp) RETURNS text LANGUAGE sql STABLE STRICT PARALLEL SAFE
  AS 'SELECT public.strftime($2, $1)';
"""
_FROM_PARTS = """
CREATE FUNCTION public.date_from_parts(numeric, numeric, numeric) RETURNS date LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  AS 'SELECT pg_catalog.make_date($1::int4, $2::int4, $3::int4)';
"""
_PARTS = "\n".join(
    f"CREATE FUNCTION public.{part}(timestamp) RETURNS int4 LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE "
    f"AS 'SELECT EXTRACT({part} FROM $1)::int4';"
    for part in PARTS
)
DATES = _FROM_PARTS + _STRFTIME + _PARTS
"""make_date and to_char as others call them, and the parts of a date as functions."""
