"""Expressions over the shop's orders on which engines differ, or in which PostgreSQL raises.

`engines/test_postgres.py` runs them; `engines/test_postgres_functions.py` collects the functions that their SQL needs.
"""

from __future__ import annotations

ODD = [
    "big * big * big", "- big", "abs(big)", "big / qty", "big % qty", "big + 9223372036854775807", "qty::smallint",
    "amount * amount * amount", "amount / weight", "weight * weight * weight * weight", "weight / (weight * weight)",
    "sqrt(weight)", "ln(amount)", "log(weight)", "exp(weight)", "power(weight, 3)", "power(amount, 0.5)", "power(weight, weight)",
    "round(amount, 2)", "trunc(amount, -2)", "floor(weight)", "ceil(amount)", "sign(weight)", "weight::int", "amount::bigint",
    "weight::real", "amount::float8", "amount::float8 * weight", "weight::numeric", "weight::numeric * amount",
    "coupon::int", "coupon::bigint", "coupon::numeric", "coupon::float8", "coupon::date", "coupon::timestamp", "coupon::boolean",
    "coupon::uuid", "due + 1000000", "due - big::int", "due - ts::date", "ts + INTERVAL '4000 years'",
    "ts - INTERVAL '9000 years'", "ts - due", "due::timestamp", "ts::date", "date_trunc('decade', ts)",
    "date_trunc('week', due)", "extract(year FROM due)", "extract(isoyear FROM ts)", "extract(epoch FROM ts)",
    "extract(day FROM ts - due)", "to_char(ts, 'YYYY-MM')", "note || coupon || note", "replace(coupon, 'a', left(note, 3))",
    "lpad(note, 20, 'x')", "split_part(coupon, '-', -1)", "substr(note, -3, 5)", "left(note, -2)",
    "left(note, qty)", "right(note, qty)", "substr(note, qty, qty)", "split_part(note, coupon, qty)", "ts - (extract(isoyear FROM due) - 3) * interval '1 year'",
    "nullif(amount, weight)", "coalesce(amount, weight)", "greatest(amount, weight, qty)", "CASE WHEN paid THEN big * 3 END",
    "width_bucket(amount, 0, 10, 5)", "width_bucket(weight, 0, 10, 5)", "width_bucket(big, ARRAY[1, 2])", "div(amount, weight::numeric)",
    "div(big, qty)", "cbrt(weight)", "log(amount, weight::numeric)", "degrees(weight)", "radians(weight)", "sin(weight)",
    "tan(big)", "cot(weight)", "asin(weight)", "acos(amount)", "atan2(weight, amount)", "~big", "big & qty", "big >> 3", "(big * big) | 1",
    "to_char(big, 'FM0000')", "to_char(amount, '00')", "initcap(note)", "repeat(left(note, 20), 100)",
    "concat_ws('-', note, coupon)", "regexp_replace(note, '.', 'xyz', 'g')", "ascii(coupon)", "octet_length(note)", "translate(note, 'a', '')",
    "substring(note from '[a-z]+')", "(string_to_array(coupon, '-'))[2]", "extract(century FROM due)", "extract(julian FROM due)",
    "extract(microseconds FROM ts)", "extract(year FROM age(ts, due))", "extract(epoch FROM age(ts, due))", "ts - qty * INTERVAL '1 year'",
    "ts + big * INTERVAL '1 month'", "ts + age(ts, due)", "ts + make_interval(secs => qty)", "date_bin('1 hour', ts, '2024-01-01')",
    "make_date(qty, qty, qty)", "make_date(big::int, 2, 29)", "to_date(coupon, 'YYYY-MM-DD')", "to_date(note, 'YYYYMMDD')",
    "to_timestamp(coupon, 'YYYY-MM-DD HH24:MI:SS')", "to_timestamp(weight)", "to_timestamp(big)", "isfinite(due)", "ts::time > TIME '09:00'", "ts::text",
    "ts AT TIME ZONE 'Europe/Paris'", "ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo'", "date_trunc('day', due AT TIME ZONE 'Asia/Tokyo')",
    "to_char(ts, 'IYYY-IW D DDD WW HH12 AM Q Month')", "ROW(big, amount) < ROW(weight, qty)", "(due, due) OVERLAPS (due, due + 1)",
    "qty * 3000000000 * big % 7", "(big * big) % 5", "amount * weight + qty * big",
]  # fmt: skip
"""They raise in PostgreSQL for some value of some type: numerics of 131,072 digits, the ends of the calendar."""

EXPRESSIONS = [
    "qty / 7", "-qty / 7", "(qty - 10) / 3", "(qty - 10) % 3", "-(qty % 4)", "big % 10", "(big - 500) / 100", "abs(qty - 10)",
    "qty * 1.5", "amount / 3 > 100", "round(amount)", "round(amount, 1)", "round(-amount, -1)", "trunc(amount)",
    "trunc(-amount, 1)", "floor(amount / 100)", "ceil(-amount / 100)", "round(weight)", "round(weight * 2)", "floor(-weight)",
    "weight::int", "amount::int", "(-amount)::bigint", "(weight + 0.5)::int", "qty::numeric(10,1)", "qty::text", "due::text",
    "paid::int", "qty::boolean", "paid::text", "sign(weight - 5)", "sqrt(qty)", "sqrt(nullif(qty, 3))", "exp(nullif(qty, 3) / 10.0) > 2", "power(qty, 2)", "exp(qty / 10.0) > 2",
    "ln(qty + 1) > 1", "log(qty + 1) > 1", "mod(qty, 3)", "greatest(qty, 5, big)", "least(qty, NULL, 5)",
    "coalesce(nullif(qty, 3), -1)", "nullif(category, 'toys')", "CASE WHEN qty > 5 THEN 'many' WHEN qty > 2 THEN 'some' END",
    "CASE status WHEN 'open' THEN 1 ELSE 0 END", "qty IS NULL", "paid IS TRUE", "paid IS NOT FALSE", "NOT paid",
    "paid OR NULL", "qty BETWEEN 3 AND 7", "qty IN (1, 2, 3)", "category IN ('toys', 'food')", "category NOT IN ('toys', NULL)",
    "category < 'food'", "category LIKE 't%'", "category LIKE '_o%'", "category NOT LIKE '%s'", "category ILIKE 'T%S'",
    "note LIKE '%\\%%'", "coupon LIKE '%#%%' ESCAPE '#'", "category ~ '^[tb]o'", "category ~* 'OO'", "category !~ 's$'",
    "lower(coupon)", "upper(category)", "length(note)", "length(coupon)", "substr(category, 2, 2)", "substring(category FROM 3)",
    "left(category, qty - 3)", "right(category, qty - 3)", "substr(note, qty - 3)", "substr(note, qty - 9, qty + 1)", "split_part(note, category, qty + 1)",
    "split_part(coupon, left(coupon, qty % 2), -qty - 1)", "date_trunc('day', ts) + (-extract(dow FROM ts) * interval '1 day')",
    "left(category, 2)", "left(category, -2)", "right(category, 3)", "right(category, -1)", "reverse(category)",
    "replace(category, 'o', '00')", "strpos(category, 'o')", "position('z' IN category)", "trim(coupon)", "ltrim(note, 'gl')",
    "rtrim(note, 'pek')", "lpad(category, 7, '*')", "rpad(category, 3, '-')", "split_part(note, ' ', 1)",
    "split_part(coupon, '-', 2)", "split_part(coupon, '-', -1)", "category || '-' || status", "category || NULL",
    "concat(category, NULL, qty)", "md5(category)", "starts_with(category, 'to')",
    "extract(year FROM ts)", "extract(month FROM due)", "extract(dow FROM ts)", "extract(isodow FROM due)",
    "extract(doy FROM ts)", "extract(week FROM ts)", "extract(quarter FROM due)", "extract(hour FROM ts)",
    "extract(isoyear FROM due)", "date_part('minute', ts) > 30", "extract(second FROM ts)", "extract(epoch FROM ts) > 1.71e9",
    "date_trunc('month', ts)", "date_trunc('week', due)", "date_trunc('hour', ts)", "date_trunc('quarter', due)",
    "date_trunc('decade', ts)", "date_trunc('year', ts)", "ts::date", "due::timestamp",
    "due + 30", "due - 45", "due - DATE '2024-01-01'", "ts::date - due", "due + INTERVAL '1 month'",
    "ts - INTERVAL '36 hours'", "(ts + INTERVAL '1 month')::date", "ts > due", "ts > '2024-03-01'", "due >= DATE '2024-06-30'",
    "extract(day FROM ts - TIMESTAMP '2024-01-01 06:00:00')", "to_char(ts, 'YYYY-MM')", "to_char(ts, 'HH24:MI') > '12:00'",
    "to_char(ts, 'Mon YYYY')", "to_char(due, 'FMDay')", "to_char(ts, 'DD/MM/YYYY')", "('x' || qty)::text",
    "(qty || '0')::int", "(qty || '.5')::numeric", "(qty || '.5')::numeric::int", "'2024-0' || (qty % 9 + 1)",
    "('2024-0' || (qty % 9 + 1) || '-01')::date",
    # buckets, numbers
    "width_bucket(amount, 0, 1000, 10)", "width_bucket(amount, 0.1, 0.7, 6)", "width_bucket(qty, 0, 20, 4)",
    "width_bucket(weight, -2, 40, 7)", "width_bucket(amount, ARRAY[10, 50.5, 500])", "width_bucket(qty, ARRAY[3, 3, 7])",
    "width_bucket(due, ARRAY['2024-03-01', '2024-06-01']::date[])", "div(qty, 3)", "div(-amount, 0.3)", "cbrt(qty * qty * qty)",
    "round(log(2, qty + 1), 6)", "round(degrees(qty)::numeric, 6)", "round(radians(qty)::numeric, 6)", "round(sin(qty)::numeric, 6)",
    "round(acos(qty / 20.0)::numeric, 6)", "round(atan2(qty, 3)::numeric, 6)", "tan(qty) > 1", "asin(cos(qty)) > 0.5",
    "round((pi() * qty)::numeric, 6)", "num_nulls(qty, coupon, nullif(qty, 3))", "num_nonnulls(coupon, paid)", "qty & 5",
    "qty | 8", "qty # 3", "~qty", "-qty >> 1", "big & 255", "(big | 1) & 3", "to_char(qty, 'FM000')", "to_char(-qty, '00')",
    "to_char(amount, '000')", "to_char(qty, '0')",
    # texts
    "initcap(note)", "initcap(coupon)", "concat_ws('-', category, NULL, qty, paid)", "format('%s: %s (100%%)', category, coupon)",
    "concat(category, paid)", "translate(note, 'gift', 'GF')", "overlay(category placing 'XX' from 2 for 1)",
    "overlay(category placing 'XX' from 3)", "repeat(status, 2)", "ascii(coupon)", "octet_length(coupon)", "chr(65) || status",
    "regexp_replace(note, '[aeiou]', '#')", "regexp_replace(note, '[aeiou]+', '', 'g')", "regexp_replace(note, '[G-P]', '', 'gi')",
    r"regexp_replace(note, '(.)t', '\1T')", "substring(note from '[a-m]+')", "substring(coupon from '-([0-9]+)')",
    "(regexp_match(note, '(l.)'))[1]", r"regexp_replace(note, '^(?:gi)?([a-m]*)(.+)$', '\1<\2')",
    r"regexp_replace(note, '^w?r(ap)?(.*)p?$', '\1|\2')", "(regexp_match(note, 'WRAP', 'i'))[1]", "regexp_replace(note, 'gift|late', 'x')",
    "category SIMILAR TO '(to|foo)%'", "category NOT SIMILAR TO '_o%s'", "coupon SIMILAR TO '%[0-9]'", "coupon SIMILAR TO '%.%'",
    "(string_to_array(note, ' '))[2]", "array_length(string_to_array(coupon, '-'), 1)", "cardinality(string_to_array(coupon, '-'))",
    "category ^@ 'to'", "category LIKE ANY (ARRAY['t%', '%k%'])", "category NOT LIKE ALL ('{t%,%k%}')",
    "category NOT ILIKE ANY (ARRAY['T%', NULL])", "category = SOME (ARRAY['toys', 'food'])", "category <> ALL (ARRAY['toys', 'food'])",
    "category = ANY ('{toys,food}')", "qty > ANY (ARRAY[5, NULL])", "qty >= ALL ('{3,4}'::int[])", "qty <> ANY (ARRAY[3])",
    # rows and tests
    "(qty, status) IN ((1, 'open'), (2, 'paid'))", "(qty, status) NOT IN ((1, 'open'))", "(qty, big) < (5, 10)",
    "(category, nullif(qty, 3), big) >= ('food', 3, 0)", "ROW(qty, paid) = ROW(1, true)", "ROW(qty, coupon) IS DISTINCT FROM ROW(1, NULL)",
    "qty BETWEEN SYMMETRIC 10 AND 5", "paid IS UNKNOWN", "paid IS NOT UNKNOWN",
    "(due, due + 30) OVERLAPS (DATE '2024-03-01', DATE '2024-04-01')", "(due, due) OVERLAPS (DATE '2024-03-01', DATE '2024-03-01')",
    "(ts, INTERVAL '40 days') OVERLAPS (TIMESTAMP '2024-05-01', TIMESTAMP '2024-03-01')",
    # times
    "extract(century FROM ts)", "extract(millennium FROM due)", "extract(decade FROM ts)", "extract(milliseconds FROM ts)",
    "extract(microseconds FROM ts)", "extract(julian FROM due)", "date_part('decade', due)",
    "extract(year FROM age(ts, TIMESTAMP '1990-05-17 10:00'))", "extract(month FROM age(ts, TIMESTAMP '1990-05-31 23:30'))",
    "extract(day FROM age(due, ts))", "extract(hour FROM age(due, ts))", "extract(minute FROM age(ts, due))",
    "extract(epoch FROM age(due, DATE '2023-01-31'))", "age(ts, due) > INTERVAL '1 month'", "date_part('month', age(DATE '2024-03-31', due))",
    "extract(second FROM ts - TIMESTAMP '2024-01-01 00:00:30')", "extract(hour FROM ts - due)", "extract(day FROM due::timestamp - ts)",
    "date_bin('7 days', ts, TIMESTAMP '2024-01-01')", "date_bin('15 minutes', ts, TIMESTAMP '2030-01-01 00:05')",
    "date_bin('6 hours', due, '2024-02-01')", "due + qty * INTERVAL '1 day'", "ts - INTERVAL '90 minutes' * qty",
    "due + make_interval(months => qty)", "due + make_interval(days => 3, hours => 2)", "make_date(2024, qty % 12 + 1, 15)",
    "make_date(2023, 2, qty + 1)", "make_date(extract(year FROM ts)::int, extract(month FROM due)::int, 1)",
    "to_date(to_char(due, 'DD/MM/YYYY'), 'DD/MM/YYYY')", "to_date(to_char(due, 'YYYYMMDD'), 'YYYYMMDD')",
    "to_date(to_char(due, 'DD.MM.YYYY'), 'DD.MM.YYYY')", "to_date(to_char(ts, 'IYYY-IW'), 'IYYY-IW')",
    "to_timestamp(to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), 'YYYY-MM-DD HH24:MI:SS') AT TIME ZONE 'UTC'",
    "to_timestamp(1700000000 + qty) AT TIME ZONE 'UTC'", "isfinite(ts)", "isfinite(due)", "ts::time > '12:00'",
    "ts::time BETWEEN TIME '09:00' AND TIME '17:30:00'", "extract(hour FROM ts::time)", "ts::text", "ts::text LIKE '2024-02%'",
    "ts AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Paris'", "(ts AT TIME ZONE 'America/New_York') AT TIME ZONE 'UTC'",
    "date_trunc('day', ts AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Kolkata')", "timezone('UTC', timezone('Europe/Paris', ts))",
    "extract(hour FROM ts AT TIME ZONE 'UTC' AT TIME ZONE 'Australia/Lord_Howe')",
    "to_char(ts, 'YYYY-\"Q\"Q')", "to_char(ts, 'IYYY-\"W\"IW')", "to_char(due, 'Day')", "to_char(due, 'MONTH YYYY')",
    "to_char(due, 'mon')", "to_char(due, 'DY, FMDD. FMMonth')", "to_char(ts, 'FMHH12:MI AM')", "to_char(ts, 'HH:MI pm')",
    "to_char(ts, 'D ID DDD WW')", "to_char(ts, 'YYYY-MM-DD\"T\"HH24:MI:SS')", "to_char(due, 'FMMM/FMDD/YY')",
]  # fmt: skip
"""Keys of a count, which both engines and plain SQL must agree on, row by row."""

WHOLE = [
    "SELECT y / 7 AS k, count(*) FROM (SELECT customer_id, qty * 5000000000 AS y FROM orders) t GROUP BY 1",
    "SELECT s / 3 AS k, count(*) FROM (SELECT customer_id, sum(qty) AS s FROM orders GROUP BY 1) t GROUP BY 1",
    "SELECT m % 4 AS k, count(*) FROM (SELECT customer_id, max(qty) * 3 AS m, avg(qty) AS a FROM orders GROUP BY 1) t"
    " WHERE a > 5 GROUP BY 1",
    "SELECT s AS k, count(*) FROM (SELECT customer_id, sum(qty) OVER (PARTITION BY customer_id ORDER BY order_id) / 4 AS s"
    " FROM orders) t GROUP BY 1",
    "SELECT q AS k, count(*) FROM (SELECT customer_id, ntile(3) OVER (PARTITION BY customer_id ORDER BY due, order_id) AS q"
    " FROM orders) t GROUP BY 1",
    "SELECT l AS k, count(*) FROM (SELECT customer_id, lag(qty, 1, -1) OVER (PARTITION BY customer_id ORDER BY ts, order_id)"
    " AS l FROM orders) t GROUP BY 1",
    "SELECT r AS k, count(*) FROM (SELECT customer_id, rank() OVER (PARTITION BY customer_id ORDER BY coupon DESC) AS r"
    " FROM orders) t GROUP BY 1",
    "SELECT c.region AS k, count(*) FROM orders o JOIN customers c ON o.customer_id = c.customer_id"
    " WHERE o.qty > (SELECT avg(i.qty) FROM orders i WHERE i.customer_id = o.customer_id) GROUP BY 1",
    "SELECT o.status AS k, count(*) FROM orders o WHERE EXISTS (SELECT 1 FROM visits v WHERE v.customer_id = o.customer_id"
    " AND v.day > o.due) GROUP BY 1",
    "SELECT o.status AS k, count(*) FROM orders o WHERE o.customer_id NOT IN (SELECT customer_id FROM visits) GROUP BY 1",
    "SELECT coalesce(p.kind, '?') AS k, count(*) FROM order_items i LEFT JOIN products p ON i.product_id = p.product_id + 3 GROUP BY 1",
    "SELECT k, count(*) FROM (SELECT customer_id, 'o' AS k FROM orders UNION ALL SELECT customer_id, 'v' FROM visits) t GROUP BY 1",
]  # fmt: skip
"""Statements on which all three must agree."""
