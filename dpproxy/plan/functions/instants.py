"""Functions of instants where a session's time zone is not UTC: AT TIME ZONE, hours added, EXTRACT(epoch), and their like.

Knows: what the session's clocks show (`time_zones`). Must not know: engines, sessions. Below an aggregate an instant is what
the clocks show. The functions here look at the instant itself, so they turn it back first, and their results into what clocks
show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpproxy.plan.functions import time_zones
from dpproxy.plan.functions.operators import added, alike, check_count, coerce, literal_text, plus
from dpproxy.plan.functions.plain import Builder, timestamp
from dpproxy.plan.functions.time_formats import to_timestamp
from dpproxy.plan.functions.times import extract
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Span
from dpproxy.plan.operations.times import FROM_UTC, TO_UTC
from dpproxy.plan.refusals import OTHER_TYPE, unsupported
from dpproxy.sql.types import TIMES
from dpproxy.tree.expr import Call, Expr, Lit


def at_time_zone(value: Expr, zone: Expr, session: str | None) -> Expr:
    """Return, of a timestamp, the instant it is in the zone; of an instant, the zone's local timestamp."""
    name = literal_text(coerce(zone, "text"), "a time zone")
    if name.upper() in ("UTC", "GMT"):
        name = "UTC"
    elif not time_zones.is_known_zone(name):
        raise unsupported(f"the time zone '{name}'", "Use a zone's full name, such as 'Europe/Paris', or 'UTC'.")
    value = coerce(value, "timestamptz")
    if value.type not in TIMES:
        raise unsupported(f"AT TIME ZONE of {value.type}", OTHER_TYPE)
    if value.type in ("timestamptz", "date"):  # a date is taken for its midnight, an instant
        return Call("timestamp", FROM_UTC, (time_zones.instant(timestamp(value, "AT TIME ZONE"), session), Lit("text", name)))
    return time_zones.local_time(Call("timestamptz", TO_UTC, (timestamp(value, "AT TIME ZONE"), Lit("text", name))), session)


def shifted_instant(apply: Callable[[Expr, Expr], Expr], a: Expr, b: Expr, zone: str | None) -> Expr:
    """Bind `a + b` or `a - b`, one of them an instant: days and months are added to what the clock shows, hours to the
    instant."""
    if zone is None:
        return apply(a, b)
    a, b = (added if apply is plus else alike)(a, b)
    if a.type in TIMES and b.type in TIMES:
        return apply(time_zones.instant(a, zone), time_zones.instant(b, zone))
    moment, span = a, b
    constant = moment if moment.type not in TIMES else span
    if constant.type != "interval":
        return apply(a, b)
    if isinstance(constant, Call) and operation(constant.op).interval is Span.MULTIPLE:
        constant = constant.args[1]
    if isinstance(constant, Call) and operation(constant.op).interval is Span.PARTS:
        raise unsupported("a part of a day, in a time zone,", "SET TimeZone = 'UTC', or add whole numbers of hours.")
    days, hours = _pieces(constant)
    if (days and hours) or not isinstance(constant, Lit):
        raise unsupported(
            f"an interval of both days and hours, in the time zone {zone},", "Add the days first; or SET TimeZone = 'UTC'."
        )
    if not hours:
        return apply(moment, span)
    return time_zones.local_time(apply(*(time_zones.instant(e, zone) if e.type in TIMES else e for e in (moment, span))), zone)


def _pieces(interval: Expr) -> tuple[bool, bool]:
    """Whether a constant interval has days or months, and hours or less."""
    if not isinstance(interval, Lit) or interval.text is None:
        return False, False
    months, days, micros = (int(x) for x in interval.text.split())
    return bool(months or days), bool(micros)


def _zoned_part(args: Sequence[Expr], zone: str) -> Expr:
    check_count("date_part", args, 2)
    unit = literal_text(args[0], "the unit of `date_part`")
    return extract(unit, of_instant(unit, args[1], zone), result="float8")


def of_instant(unit: str, value: Expr, zone: str | None) -> Expr:
    """Say what EXTRACT looks at: what the clock shows, but for the epoch."""
    return time_zones.instant(value, zone) if unit.lower() == "epoch" and value.type == "timestamptz" else value


def _zoned_moment(args: Sequence[Expr], zone: str) -> Expr:
    made = to_timestamp(args)
    return time_zones.local_time(made, zone) if len(args) == 1 else made


def _zoned_bin(args: Sequence[Expr], zone: str) -> Expr:
    raise unsupported("`date_bin` of instants in another time zone than UTC", "SET TimeZone = 'UTC'; or use date_trunc().")


ZONED: dict[str, Callable[[Sequence[Expr], str], Expr]] = {
    "date_part": _zoned_part, "to_timestamp": _zoned_moment, "date_bin": _zoned_bin,
    "timezone": lambda args, zone: at_time_zone(args[1], args[0], zone) if len(args) == 2 else _timezone(args),
}  # fmt: skip
"""Functions of instants, or that make them, in a session whose time zone is not UTC."""


def _timezone(args: Sequence[Expr]) -> Expr:
    check_count("timezone", args, 2)
    return at_time_zone(args[1], args[0], None)


FUNCTIONS: dict[str, Builder] = {"timezone": _timezone}
