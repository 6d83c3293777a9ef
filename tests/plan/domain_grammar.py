"""Random statements whose groups follow from what they say: keys, joins and conditions over declared columns and public tables.

Knows: SQL, the columns of `domain_world`. Must not know: the planner. A condition looks at keys, at several at once, at functions of
them, at columns beside them, at public tables, one-row CTEs and public scalar subqueries. Constants of the clock are whole hours and
half ones, which `domain_world` has rows beside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Choose = Callable[[Sequence[Any]], Any]

COLUMNS = {
    "p.country": ("AT", "CH", "DE"), "p.plan": ("free", "pro", "team"), "e.kind": ("click", "pro", "view"),
    "e.size": tuple(range(10)), "f.kind": ("click", "pro", "view"), "f.size": tuple(range(10)),
}  # fmt: skip
DAYS = tuple(f"2024-{m:02}-{d:02}" for m, d in [(1, 29), (1, 30), (1, 31), (2, 1), (2, 2), (2, 3), (2, 4)])
KEYS = {
    "p": ("p.country", "p.plan", "left(p.country, 1)"),
    "e": ("e.kind", "e.size", "e.size / 3", "CASE WHEN e.size > 4 THEN 'large' ELSE 'small' END", "upper(e.kind)",
          "(e.size > 4)", "(e.size BETWEEN 2 AND 5 OR e.kind = 'pro')", "(e.size IS NULL)",
          "CASE WHEN e.size < 3 THEN 'low' WHEN e.size < 7 THEN 'mid' WHEN e.size IS NULL THEN 'none' ELSE 'high' END"),
    "day": ("e.day", "date_trunc('week', e.day)", "date_trunc('month', e.day)", "extract(dow FROM e.day)"),
    "ts": ("date_trunc('day', e.ts)", "date_trunc('hour', e.ts)", "extract(hour FROM e.ts)", "e.ts::date",
           "to_char(e.ts, 'YYYY-MM-DD')", "floor(extract(epoch FROM e.ts) / 3600) * 3600", "date_trunc('month', e.ts)",
           "floor(extract(epoch FROM e.ts) / 86400)", "(e.ts >= '2024-02-01 12:00')", "(e.ts::time < '09:30' AND e.ts IS NOT NULL)"),
    "f": ("f.kind", "f.size"),
    "k": ("k.label", "k.rank"),
    "s": ("s.name", "s.hi"),
    "v": ("v.x",),
}  # fmt: skip
"""What is grouped by, by what it reads."""


@dataclass(frozen=True)
class Asked:
    """A statement: the text before WHERE (`{select}` is open), its conditions, its keys, what it reads of events, and the columns
    that its keys are made of, which hold declared values in rows that have a group."""

    with_: str
    source: str
    conditions: tuple[str, ...]
    keys: tuple[str, ...]
    used: frozenset[str]

    @property
    def sql(self) -> str:
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        places = ", ".join(str(i + 1) for i in range(len(self.keys)))
        return f"{self.with_}SELECT {', '.join(self.keys)}, count(*) FROM {self.source}{where} GROUP BY {places}"

    @property
    def exact(self) -> bool:
        """Whether what undeclared values make of a key is known: a test has results of them, whatever else they are compared
        with."""
        return not any(map(is_test, self.keys)) or not any(w in self.sql for w in ("spans", "f.size"))


def is_test(key: str) -> bool:
    """Tell whether a key is made of constants, whatever it looks at: undeclared values have groups."""
    return key.startswith(("CASE", "("))


def statement(choose: Choose) -> Asked:
    times = choose(("day", "ts", "", "f"))
    source, read = "people p JOIN events e ON e.person = p.id", ["p", "e", *([times] if times else [])]
    if times == "f":
        source += " JOIN events f ON f.person = p.id"
    public = choose(("", "k", "s", "v", "ks", ""))
    for table in public:
        source += {
            "k": " JOIN kinds k ON k.kind = e.kind", "s": " JOIN spans s ON e.size BETWEEN s.lo AND s.hi",
            "v": " CROSS JOIN (VALUES ('free'), ('pro'), ('none')) v(x)",
        }[table]  # fmt: skip
        read.append(table)
    bounds = choose((True, False, False)) and times in ("day", "ts")
    with_ = ""
    if bounds:
        first, last = sorted(choose(DAYS) for _ in range(2))
        with_ = f"WITH w AS (SELECT date '{first}' AS lo, date '{last}' AS hi) "
        source += " CROSS JOIN w"
    keys = tuple(dict.fromkeys(choose(KEYS[choose(read)]) for _ in range(choose((1, 1, 2, 2, 3)))))
    conditions = [_condition(choose, read) for _ in range(choose((0, 1, 1, 2, 3)))]
    if bounds:
        conditions += [f"e.{times} >= w.lo", f"e.{times} < w.hi"]
    used = frozenset(c for c in ("kind", "size", "day", "ts") if c in ("kind", "size") or c == times)
    return Asked(with_, source, tuple(conditions), keys, used)


def _condition(choose: Choose, read: Sequence[str]) -> str:
    makers = [_plain, _pairs, _either, _unlike, _known, *([_of_time] * 3 if {"day", "ts"} & {*read} else [])]
    makers += [_of_public] * 2 if {"k", "s", "v"} & {*read} else []
    return str(choose(makers)(choose, read))


def _column(choose: Choose, read: Sequence[str]) -> str:
    return str(choose([c for c in COLUMNS if c[0] in read]))


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _plain(choose: Choose, read: Sequence[str]) -> str:
    column = _column(choose, read)
    a, b = map(_literal, sorted(choose(COLUMNS[column]) for _ in range(2)))
    return str(choose((f"{column} IN ({a}, {b})", f"{column} <> {a}", f"{column} = {a}", f"{column} BETWEEN {a} AND {b}")))


def _pairs(choose: Choose, read: Sequence[str]) -> str:
    one, other = _column(choose, read), _column(choose, read)
    rows = ", ".join(f"({_literal(choose(COLUMNS[one]))}, {_literal(choose(COLUMNS[other]))})" for _ in range(3))
    return f"({one}, {other}) IN ({rows})"


def _either(choose: Choose, read: Sequence[str]) -> str:
    return f"{choose(('', 'NOT '))}({_plain(choose, read)} {choose(('OR', 'AND'))} {_plain(choose, read)})"


def _known(choose: Choose, read: Sequence[str]) -> str:
    columns = [c for c in (*COLUMNS, "e.day", "e.ts") if c[0] in read and (c[2:] not in ("day", "ts") or c[2:] in read)]
    return f"{choose(columns)} IS {choose(('NOT ', 'NOT ', 'NOT ', ''))}NULL"


def _unlike(choose: Choose, read: Sequence[str]) -> str:
    texts = ["p.plan", "e.kind", *(["f.kind"] if "f" in read else []), *(["k.kind"] if "k" in read else [])]
    numbers = ["e.size", *(["f.size"] if "f" in read else []), *(["s.lo"] if "s" in read else [])]
    columns = choose([c for c in (texts, numbers) if len(c) > 1])
    one = choose(columns)
    other = choose([c for c in columns if c != one])
    return f"{one} {choose(('<>', '<', '=', '>='))} {other}"


def _of_time(choose: Choose, read: Sequence[str]) -> str:
    day = choose(DAYS)
    if "day" in read:
        return str(choose((
            f"e.day >= '{day}'", f"e.day < '{day}'", f"e.day::text LIKE '{day[:9]}%'", f"extract(epoch FROM e.day) >= {_epoch(day)}",
            f"date_trunc('month', e.day) = '{day[:7]}-01'", "extract(dow FROM e.day) IN (0, 6)", f"e.day + 1 > '{day}'",
            "e.day >= (SELECT min(day) FROM holidays)", "e.day IN (SELECT day FROM holidays)",
        )))  # fmt: skip
    hour, half = choose(range(24)), choose(("00", "30"))
    return str(choose((
        f"e.ts >= '{day} {hour:02}:{half}'", f"e.ts < '{day}'", f"e.ts::time >= '{hour:02}:{half}'", f"e.ts::time < '{hour:02}:{half}'",
        f"extract(hour FROM e.ts) BETWEEN {hour} AND {hour + 5}", f"extract(hour FROM e.ts) IN ({hour}, 7)",
        f"e.ts::text LIKE '{day}%'", f"e.ts::text LIKE '{day[:9]}%'", f"left(e.ts::text, {choose((7, 10, 13))}) = left('{day} 07', 10)",
        f"extract(epoch FROM e.ts) >= {_epoch(day) + 1800 * hour}", f"extract(epoch FROM e.ts) < {_epoch(day)}",
        f"e.ts + interval '6 hours' >= '{day}'", f"e.ts::date = '{day}'", "e.ts < (SELECT max(day) FROM holidays)",
        f"to_char(e.ts, 'YYYY-MM-DD') = '{day}'", f"NOT (e.ts < '{day}' OR e.ts::time < '{hour:02}:00')",
    )))  # fmt: skip


def _of_public(choose: Choose, read: Sequence[str]) -> str:
    forms = {"k": ("k.rank > 1", "k.label LIKE 'C%'", "k.label <> e.kind"), "s": ("s.name <> 'mid'", "s.hi < 9"),
             "v": ("v.x = p.plan", "v.x <> p.plan", "v.x IN ('free', 'pro')")}  # fmt: skip
    return str(choose([f for table in read if table in forms for f in forms[table]]))


def _epoch(day: str) -> int:
    month, number = int(day[5:7]), int(day[8:])
    return 1704067200 + 86400 * ((month - 1) * 31 + number - 1)
