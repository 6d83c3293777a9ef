"""Times written by a format, and texts read as times: to_char, strftime, to_date, to_timestamp.

Knows: PostgreSQL's format letters, which of them strftime prints. Must not know: engines, clocks. A time is printed by strftime
where it can print the field, else by arithmetic on the field. A text is read only in formats whose fields can be told apart by
place: it is taken to pieces and put together as an ISO date; a text that does not have the form is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpproxy.plan.functions.numbers import number_format
from dpproxy.plan.functions.operators import as_text, check_count, coerce, compare, literal_text, minus, multiply, plus
from dpproxy.plan.functions.patterns import regex
from dpproxy.plan.functions.plain import Builder, timestamp
from dpproxy.plan.operations.catalogue import cut_to
from dpproxy.plan.refusals import OTHER_TYPE, unsupported
from dpproxy.sql.translation import as_to_char
from dpproxy.sql.types import NUMBERS, TIMES
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit

# PostgreSQL's template patterns of times, taken to pieces as to_char takes them.
#
# Knows: every keyword of to_char, in the order in which PostgreSQL tries them, and what may stand before and behind one. Must
# not know: expressions, engines. Keywords are told apart by case ('Mm' is two letters), the longest comes first ('SSSS' is no
# 'SS' twice), and every character that begins no keyword stands for itself. What PostgreSQL knows and nobody here prints is a
# field all the same, so that a caller refuses it by name instead of reading it as two others.


_WORDS = (
    "A.D. A.M. AD AM B.C. BC CC DAY DDD DD DY Day Dy D FF1 FF2 FF3 FF4 FF5 FF6 FX HH24 HH12 HH IDDD ID IW IYYY IYY IY I J MI MM "
    "MONTH MON MS Month Mon OF P.M. PM Q RM SSSSS SSSS SS TZH TZM TZ US WW W Y,YYY YYYY YYY YY Y"
)
_UPPER = _WORDS.split()
_LOWER = [word.lower() for word in _UPPER if word not in ("Day", "Dy", "Month", "Mon")]
KEYWORDS = (*_UPPER, *_LOWER)
"""In PostgreSQL's order: of those with one beginning the longer is first."""
_MARKS = re.compile(r"[-/:., _()0-9]+")
"""Characters that begin no keyword."""
_BEFORE = ("FM", "fm", "TM", "tm")
_BEHIND = ("SP", "TH", "th")


@dataclass(frozen=True)
class Field:
    """A keyword as it is written, with the modifiers before and behind it ('' for none)."""

    word: str
    before: str = ""
    behind: str = ""

    @property
    def text(self) -> str:
        return self.before + self.word + self.behind


def fields(form: str) -> Iterator[Field | str]:
    """The fields of a format and the texts between them. Raises ValueError for a backslash, whose meaning has changed with
    PostgreSQL's versions, and for a quotation that does not end."""
    if "\\" in form:
        raise ValueError("backslash")
    at = 0
    while at < len(form):
        if form[at] == '"':
            end = form.find('"', at + 1)
            if end < 0:
                raise ValueError("quotation")
            yield form[at + 1 : end]
            at = end + 1
            continue
        before = _first(_BEFORE, form, at)
        at += len(before)
        word = _first(KEYWORDS, form, at)
        if word:
            at += len(word)
            behind = _first(_BEHIND, form, at)
            yield Field(word, before, behind)
            at += len(behind)
        elif at < len(form) and (not before or form[at] != '"'):
            run = _MARKS.match(form, at)
            yield run[0] if run else form[at]
            at += len(run[0]) if run else 1


def _first(words: Sequence[str], form: str, at: int) -> str:
    return next((word for word in words if form.startswith(word, at)), "")


_PRINTED = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S"}


_NUMBERS = {"MM": ("month", 2), "DD": ("day", 2), "HH24": ("hour", 2), "MI": ("minute", 2), "IW": ("week", 2),
            "IYYY": ("isoyear", 4), "DDD": ("doy", 3), "Q": ("quarter", 1), "ID": ("isodow", 1)}  # fmt: skip


_HALVES = {"AM": ("AM", "PM"), "PM": ("AM", "PM"), "A.M.": ("A.M.", "P.M."), "P.M.": ("A.M.", "P.M.")}


_NAMED = {"MONTH": "%B", "MON": "%b", "DAY": "%A", "DY": "%a"}


def to_char(args: Sequence[Expr]) -> Expr:
    check_count("to_char", args, 2)
    value, form = coerce(args[0], "timestamp"), literal_text(coerce(args[1], "text"), "the format of `to_char`")
    if value.type in NUMBERS and (found := number_format(value, form)) is not None:
        return found
    if value.type not in TIMES or not form:
        hint = "Group by the number and format the released key." if value.type in NUMBERS else _LATER
        raise unsupported(f"`to_char` of {value.type} with format '{form}'", hint)
    stamp = timestamp(value, "`to_char`")
    try:
        pieces = [_piece(stamp, piece) for piece in fields(form)]
    except ValueError:
        raise unsupported(f"`to_char` with format '{form}'", _LATER) from None
    return _joined(stamp, pieces)


def strftime(args: Sequence[Expr]) -> Expr:
    """to_char as other engines have it; some have the format first."""
    check_count("strftime", args, 2)
    form, value = args if isinstance(args[0], Lit) and "%" in (args[0].text or "") else args[::-1]
    wanted = literal_text(coerce(form, "text"), "the format of `strftime`")
    known = as_to_char(wanted)
    if known is None:
        raise unsupported(f"`strftime` with format '{wanted}'", _LATER)
    return to_char((value, Lit("text", known)))


_LATER = "Group by date_trunc(...) and format the released key."


def _piece(stamp: Expr, found: Field | str) -> str | Expr:
    """Of strftime where it can print the field, else an expression. Raises Refusal for a field that is not printed here."""
    if isinstance(found, str):
        return found if not set(found) - set("-/: ") else Lit("text", found)
    token, name, bare = found.word, found.word.upper(), found.before in ("FM", "fm")
    if found.behind or (found.before and not bare):
        raise unsupported(f"`to_char` with '{found.text}'", _LATER)
    if name in _NAMED:
        text: Expr = Call("text", "strftime", (stamp, Lit("text", _NAMED[name])))
        if token.isupper():
            text = Call("text", "upper", (text,))
        elif token.islower():
            text = Call("text", "lower", (text,))
        elif bare or name in ("MON", "DY"):
            return _NAMED[name]
        return text if bare or name in ("MON", "DY") else Call("text", "rpad", (text, Lit("int4", "9"), Lit("text", " ")))
    if name in _HALVES:
        morning = compare("<", Call("int8", "hour", (stamp,)), Lit("int8", "12"))
        words = [w.lower() if token.islower() else w for w in _HALVES[name]]
        afternoon = Call("bool", "not", (morning,))
        return Case("text", ((morning, Lit("text", words[0])), (afternoon, Lit("text", words[1]))), None)
    if name in _PRINTED and not bare:
        return _PRINTED[name]
    return _digits(stamp, name, bare)


def _digits(stamp: Expr, name: str, bare: bool) -> Expr:
    one = Lit("int8", "1")
    if name in ("HH", "HH12"):
        hour = plus(Call("int8", "hour", (stamp,)), Lit("int8", "11"))
        number, width = plus(multiply("%", hour, Lit("int8", "12")), one), 2
    elif name == "D":
        number, width = plus(Call("int8", "dow", (stamp,)), one), 1
    elif name == "WW":
        number, width = plus(multiply("/", minus(Call("int8", "doy", (stamp,)), one), Lit("int8", "7")), one), 2
    elif name == "W":
        number, width = plus(multiply("/", minus(Call("int8", "day", (stamp,)), one), Lit("int8", "7")), one), 1
    elif name in ("SSSS", "SSSSS"):  # since midnight, without zeros before it
        hours = multiply("*", Call("int8", "hour", (stamp,)), Lit("int8", "3600"))
        minutes = multiply("*", Call("int8", "minute", (stamp,)), Lit("int8", "60"))
        number, width = plus(plus(hours, minutes), Cast("int8", Call("text", "strftime", (stamp, Lit("text", "%S"))))), 1
    elif name == "IDDD":
        weeks = multiply("*", minus(Call("int8", "week", (stamp,)), one), Lit("int8", "7"))
        number, width = plus(weeks, Call("int8", "isodow", (stamp,))), 3
    elif name in _NUMBERS:
        unit, width = _NUMBERS[name]
        number = Call("int8", unit, (stamp,))
    else:
        raise unsupported(f"`to_char` with '{name}'", _LATER)
    text = Cast("text", number)
    return text if bare or width == 1 else Call("text", "lpad", (text, Lit("int4", str(width)), Lit("text", "0")))


def _joined(stamp: Expr, pieces: list[str | Expr]) -> Expr:
    parts: list[Expr] = []
    run = ""
    for piece in [*pieces, Lit("text", "")]:
        if isinstance(piece, str):
            run += piece
            continue
        if run:
            parts.append(Call("text", "strftime", (stamp, Lit("text", run))) if "%" in run else Lit("text", run))
            run = ""
        if piece != Lit("text", ""):
            parts.append(piece)
    return parts[0] if len(parts) == 1 else Call("text", "concat", tuple(parts))


_DATES = {
    "YYYY-MM-DD": r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}$", "YYYY/MM/DD": r"^[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}$",
    "DD/MM/YYYY": r"^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$", "MM/DD/YYYY": r"^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$",
    "DD-MM-YYYY": r"^[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}$", "DD.MM.YYYY": r"^[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}$",
    "YYYYMMDD": r"^[0-9]{8}$", "YYYY-MM": r"^[0-9]{4}-[0-9]{1,2}$",
}  # fmt: skip


_CLOCK = r"[ T][0-9]{2}:[0-9]{2}:[0-9]{2}"


_WEEK = r"^[0-9]{4}-(0?[1-9]|[1-4][0-9]|5[0-3])$"  # IYYY-IW


def to_date(args: Sequence[Expr]) -> Expr:
    check_count("to_date", args, 2)
    if isinstance(args[1], Lit) and (args[1].text or "").upper() == "IYYY-IW":
        return _week_start(as_text(args[0], "`to_date`"))
    return Cast("date", _iso("to_date", args[0], args[1]))


def _week_start(value: Expr) -> Expr:
    """The Monday of an ISO year's week. January 4 is always in the first week; a week 53 too many is the next year's first."""
    year, week = (Call("text", "split_part", (value, Lit("text", "-"), Lit("int4", n))) for n in "12")
    fourth = Cast("timestamp", Call("text", "concat", (year, Lit("text", "-01-04"))))
    first = Cast("date", cut_to("timestamp", Lit("text", "week"), fourth))
    days = multiply("*", minus(Cast("int4", week), Lit("int4", "1")), Lit("int4", "7"))
    return Case("date", ((regex("regex", value, Lit("text", _WEEK)), plus(first, days)),), None)


def to_timestamp(args: Sequence[Expr]) -> Expr:
    """Bind to_timestamp() of seconds since 1970, or of a text and its format."""
    check_count("to_timestamp", args, 1, 2)
    if len(args) == 1:
        seconds = coerce(args[0], "float8")
        if seconds.type not in NUMBERS:
            raise unsupported(f"`to_timestamp` of {seconds.type}", OTHER_TYPE)
        return Call("timestamptz", "from_epoch", (seconds if seconds.type == "float8" else Cast("float8", seconds),))
    return Cast("timestamptz", Cast("timestamp", _iso("to_timestamp", args[0], args[1])))


def _iso(name: str, value: Expr, form: Expr) -> Expr:
    """The text as an ISO date (and time); NULL where it does not have the form."""
    value, text = as_text(value, f"`{name}`"), literal_text(coerce(form, "text"), f"the format of `{name}`")
    date, clock, _ = text.partition(" HH24:MI:SS")
    pattern = _DATES.get(date.upper())
    if pattern is None or (clock and name == "to_date") or date + clock != text:
        known = ", ".join((*_DATES, *(("IYYY-IW",) if name == "to_date" else ())))
        raise unsupported(f"`{name}` with format '{text}'", f"Formats: {known}; with HH24:MI:SS behind for to_timestamp.")
    fits = regex("regex", value, Lit("text", pattern[:-1] + _CLOCK + "$" if clock else pattern))
    parts: tuple[Expr, ...] = tuple(_field(value, date.upper(), f) for f in ("YYYY", "MM", "DD"))
    dashed = [p for i, part_ in enumerate(parts) for p in ((Lit("text", "-"), part_) if i else (part_,))]
    if clock:
        dashed += [Lit("text", " "), Call("text", "right", (value, Lit("int4", "8")))]
    return Case("text", ((fits, Call("text", "concat", tuple(dashed))),), None)


def _field(value: Expr, form: str, name: str) -> Expr:
    marks = [c for c in form if not c.isalpha()]
    if name not in form:
        return Lit("text", "01")
    if not marks:
        at = form.index(name) + 1
        return Call("text", "substring", (value, Lit("int4", str(at)), Lit("int4", str(len(name)))))
    field_ = str(form.split(marks[0]).index(name) + 1)
    day = Call("text", "split_part", (value, Lit("text", marks[0]), Lit("int4", field_)))
    width = len(name) if field_ == str(len(marks) + 1) else 0  # a time may follow the last field
    return Call("text", "split_part", (day, Lit("text", " "), Lit("int4", "1"))) if width else day


FUNCTIONS: dict[str, Builder] = {"to_char": to_char, "to_date": to_date, "to_timestamp": to_timestamp, "strftime": strftime}
