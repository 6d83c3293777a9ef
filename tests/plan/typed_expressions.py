"""Every allowed function and operator over columns of every type of the shop: `EXPRESSIONS`, to be selected `FROM`."""

from __future__ import annotations

from collections.abc import Iterator

NUMBERS = ("o.amount", "o.weight", "o.qty", "o.big", "c.income", "c.birth_year", "c.phone")
TEXTS, TIMES = ("o.coupon", "c.name"), ("o.due", "c.signup", "o.ts", "o.due::timestamp")
FROM = "FROM orders o JOIN customers c USING (customer_id)"
TYPES = (
    "int bigint smallint numeric real float8 numeric(5,2) text bool varchar(2) char(3) date timestamp timestamptz uuid interval"
)


def words(text: str) -> list[str]:
    return text.split()


def of_numbers() -> Iterator[str]:
    for n in NUMBERS:
        yield from (f"{f}({n})" for f in words("abs floor ceil ceiling sqrt ln log log10 exp sign round trunc"))
        yield from (f"{f}({n}::numeric, {digits})" for f in ("round", "trunc") for digits in (-15, -2, 0, 3, 15))
        yield from (f"{n}::{t}" for t in words(TYPES))
        yield f"-{n}"
        yield from (f"{f}({n})" for f in words("cbrt degrees radians sin cos tan asin acos atan num_nulls to_timestamp"))
        yield from (f"width_bucket({n}, {b})" for b in ("0, 10, 5", "-1.5, 1e15, 100", "ARRAY[0, 1.5, 100]"))
        yield from (f"to_char({n}, '{f}')" for f in ("FM000", "00", "0"))
        yield from (f"{op} {n}::bigint" for op in ("~", "3 &", "1 |", "7 #"))
        yield from (f"make_date({n}::int, {m}, {d})" for m in (2, 12, 13) for d in (0, 29, 31))
        yield from (f"o.ts {sign} {n}::int * interval '{i}'" for i in ("1 day", "1 year", "1 second") for sign in "+-")
        yield from (f"o.ts {sign} {n} * interval '{i}'" for i in ("1 day", "-36 hours", "1 second") for sign in "+-")
        yield f"o.due + make_interval(months => {n}::int)"
        for m in NUMBERS:
            yield from (f"{n} {op} {m}" for op in ("+", "-", "*", "/", "%", "=", "<"))
            yield from (f"{f}({n}::numeric, {m}::numeric)" for f in ("div", "log"))
            yield f"atan2({n}, {m})"
            yield from (f"{f}({n}, {m})" for f in words("power mod coalesce nullif least greatest"))
            yield f"{n} * {m} * {n} * {m} * {n}"
    yield from (f"{d} {sign} {n}::int" for n in NUMBERS for d in ("o.due", "c.signup") for sign in "+-")


def of_texts() -> Iterator[str]:
    for t in TEXTS:
        yield from (f"{t}::{type_}" for type_ in words(TYPES))
        yield from (f"{f}({t})" for f in words("lower upper length char_length trim btrim ltrim rtrim reverse md5"))
        yield from (f"left({t}, {n})" for n in (-1, 0, 3))
        yield from (f"right({t}, {n})" for n in (-2, 0, 3))
        yield from (f"substring({t}, {n}, {m})" for n in (-3, 0, 2) for m in (0, 5))
        yield from (f"split_part({t}, '-', {n})" for n in (-2, -1, 1, 9))
        yield from (f"left({t}, o.qty)", f"right({t}, o.qty)", f"substring({t}, o.qty, o.qty)", f"split_part({t}, {t}, o.qty)")
        yield from (f"o.note {op} {t}" for op in ("LIKE", "ILIKE"))
        yield from (f"{t} {op} '{p}'" for op in ("LIKE", "ILIKE", "NOT LIKE") for p in ("%a%", "", r"%\%%", "_"))
        yield from (f"{t} {op} '{p}'" for op in ("~", "~*", "!~", "!~*") for p in ("^a", "[0-9]+$", "a|b", ""))
        yield from (f"lpad({t}, 5)", f"rpad({t}, 0, 'x')", f"replace({t}, '', 'x')", f"strpos({t}, '')", f"{t} || {t}")
        yield from (f"{f}({t})" for f in words("initcap ascii octet_length"))
        yield from (f"{f}({t}, '{p}')" for f in words("regexp_like regexp_substr regexp_count") for p in ("[0-9]", "a.", "x{2}"))
        yield from (
            f"regexp_replace({t}, '{p}', '{r}', '{g}')" for p in ("[a-z]+", "(.)-") for r in ("", r"\1x") for g in ("", "gi")
        )
        yield from (f"to_date({t}, '{f}')" for f in ("YYYY-MM-DD", "DD/MM/YYYY", "YYYYMMDD", "YYYY-MM", "DD.MM.YYYY", "IYYY-IW"))
        yield from (f"to_timestamp({t}, '{f}')" for f in ("YYYY-MM-DD", "YYYY-MM-DD HH24:MI:SS"))
        yield from (f"repeat({t}, 3)", f"concat_ws('-', {t}, {t})", f"format('%s!', {t})", f"translate({t}, 'aé', 'b')")
        yield from (f"overlay({t} placing 'x' from 2 for 3)", f"(string_to_array({t}, '-'))[2]", f"{t} SIMILAR TO '(a|b)_%'")
        yield from (f"cardinality(string_to_array({t}, '1'))", f"(regexp_match({t}, '(.)2'))[1]", f"{t} LIKE ANY ('{{a%,_}}')")
        yield from (f"concat({t}, 1, {t})", f"starts_with({t}, '')", f"position('a' in {t})", f"{t} LIKE 'a!%' ESCAPE '!'")
        yield from (f"trim(both 'a' from {t})", f"coalesce({t}, '')", f"nullif({t}, '')", f"greatest({t}, 'm')")


def of_times() -> Iterator[str]:
    for d in TIMES:
        yield from (
            f"extract({u} from {d})" for u in words("year month day quarter week dow isodow doy hour minute second epoch")
        )
        yield from (f"date_part('{u}', {d})" for u in ("isoyear", "epoch", "week"))
        yield from (
            f"date_trunc('{u}', {d})" for u in words("milliseconds second minute hour day week month quarter year decade")
        )
        yield from (f"to_char({d}, '{f}')" for f in ("YYYY-MM", "YYYY", "Mon", "DD Mon YYYY", "HH24:MI", "FMDay", "YY", "Dy"))
        yield from (f"{d} {s} interval '{i}'" for s in "+-" for i in ("1 day", "9999 years", "36 hours", "-3 months"))
        yield from (f"extract({u} from {d})" for u in words("century millennium decade milliseconds microseconds julian"))
        yield from (
            f"to_char({d}, '{f}')"
            for f in ("IYYY-IW", "D ID DDD WW Q", "YYYY-MM-DD HH24:00", "W (MM) 1", "HH12:MI am", "FMDD FMMM", "Month DAY dy")
        )
        yield from (f"date_bin('{s}', {d}, '2024-01-01')" for s in ("1 day", "7 minutes", "400 days"))
        yield from (f"{d} AT TIME ZONE '{z}'" for z in ("UTC", "Europe/Paris", "Pacific/Apia"))
        yield from (
            f"date_trunc('day', {d}, 'America/New_York')",
            f"isfinite({d})",
            f"age({d})",
            f"{d}::time",
            f"{d}::timestamp::text",
        )
        yield from (f"{d}::timestamp AT TIME ZONE 'UTC' AT TIME ZONE '{z}'" for z in ("Asia/Tokyo", "Africa/Casablanca"))
        yield from (f"{d}::{t}" for t in ("date", "timestamp", "timestamptz", "text"))
        for e in TIMES:
            yield from (f"extract({u} from age({d}, {e}))" for u in words("year month day hour minute second epoch"))
            yield from (f"extract({u} from {d} - {e})" for u in words("day hour second epoch"))
            yield from (f"{d} + age({d}, {e})", f"({d}, {e}) OVERLAPS ({e}, {d})")
            yield from (f"{d} {op} {e}" for op in ("-", "<", "=", "IS DISTINCT FROM"))
            yield from (f"{f}({d}, {e})" for f in ("least", "greatest", "coalesce", "nullif"))
    yield from (f"{d} {op} {n}" for d in ("o.due", "c.signup") for op in "+-" for n in (0, 1, 100_000, 2_147_483_647))


EXPRESSIONS = (*of_numbers(), *of_texts(), *of_times())
